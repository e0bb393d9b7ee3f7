--! Retry, as retry.lua does.
local fields = pcall('HMGET', row, 'state', 'attempts', 'holder', 'group', 'max_attempts',
  'lost', 'forgiven')
local group = fields[4]
if not fields[1] then
  verdict = 0
elseif fields[1] == 'active' and fields[2] == token and (fields[3] or '') == holder
  and call('ZSCORE', active, id) then
  local error = args[at + 3]
  -- @include clip_error.lua
  local failures = tonumber(token) - (tonumber(fields[6]) or 0) - (tonumber(fields[7]) or 0)
  if args[at + 4] == '1' or failures >= (tonumber(fields[5]) or max_attempts) then
    verdict = 3
    buried[#buried + 1] = '0'
    buried[#buried + 1] = id
  else
    verdict = 2
    local due = now + args[at + 2]
    later[#later + 1] = format('%.0f', due)
    later[#later + 1] = id
    if not first_due or due < first_due then
      first_due, wakes = due, true
    end
  end
  n_out = n_out + 1
  out[n_out] = id
  if group then
    n_freed = n_freed + 1
    freed[n_freed], freed_ids[n_freed] = group, id
  end
  local state = verdict == 2 and 'scheduled' or 'dead'
  if error ~= '' then
    call('HSET', row, 'state', state, 'last_error', error)
  else
    call('HSET', row, 'state', state)
    call('HDEL', row, 'last_error')
  end
  if holder ~= '' then
    call('HDEL', row, 'holder')
  end
end
