--! The runs of a turn, all validated. Expects `args`, `find`; sets `extends_at`, where the first
--! extension starts or the arguments end.
local at, settled, extended, extends_at = 9, 0, 0, nil
while args[at] do
  local verb, count = args[at], args[at + 2]
  local width = verb == 'retry' and 5 or 2
  if width == 2 and verb ~= 'complete' and verb ~= 'release' and verb ~= 'extend' then
    return redis.error_reply('EMQARG a verb must be complete, retry, release or extend')
  end
  if not count or not find(count, '^[1-9]%d*$') then
    return redis.error_reply('EMQARG a run: verb, ticket, count (an integer from 1), its items')
  end
  count = tonumber(count)
  if verb == 'extend' then
    extended = extended + count
    extends_at = extends_at or at
  elseif extends_at then
    return redis.error_reply('EMQARG no settle may come after an extension')
  else
    settled = settled + count
  end
  if settled > 200 or extended > 200 then
    return redis.error_reply('EMQLIMIT a turn settles and extends at most 200 jobs each')
  end
  local last = at + 2 + width * count
  if last > #args then
    return redis.error_reply('EMQARG the runs do not end where the arguments do')
  end
  for i = at + 3, last, width do
    local token = args[i + 1]
    if #args[i] ~= 14 or (token ~= '1' and not find(token, '^[1-9]%d*$')) then
      return redis.error_reply('EMQARG id must be 14 bytes and token an integer from 1')
    end
    if width == 5 then
      local delay_ms, force_dead = args[i + 2], args[i + 4]
      if not find(delay_ms, '^%d+$') or tonumber(delay_ms) > 2199023255552 then
        return redis.error_reply('EMQARG delay_ms must be an integer from 0 to 2^41')
      end
      if force_dead ~= '0' and force_dead ~= '1' then
        return redis.error_reply('EMQARG force_dead must be 0 or 1')
      end
    end
  end
  at = last + 1
end
extends_at = extends_at or at
