#!lua flags=allow-oom
-- Park a lane: it leaves the rotation with its backlog, and its flight goes on.
-- KEYS[1] emq:{q}:ring      list, the serviceable lanes
-- KEYS[2] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[3] emq:{q}:meta      hash, spent (lane|k)
-- ARGV[1] group             the lane's branded id
-- CLOCK   none
-- RETURNS 1 parked now | 0 it was already
-- REFUSES EMQARG
-- LEAVES  the lane in paused and not in the ring
local call = redis.call
local ring, paused, meta = KEYS[1], KEYS[2], KEYS[3]
local group = ARGV[1]
if #KEYS ~= 3 or #ARGV ~= 1 then
  return redis.error_reply('EMQARG lane_pause takes 3 keys and 1 argument')
end
if #group ~= 14 or not string.find(group, '^[A-Z][A-Z][A-Z][0-9][0-9A-Za-z]+$') then
  local name, what = group, 'group'
  local wrong = #name ~= 14 or not string.find(name, '^[A-Z][A-Z][A-Z][0-9A][0-9A-Za-z]+$')
  for i = 4, wrong and 0 or 14 do
    local digit, most = string.byte(name, i), string.byte('...AzL8n0Y58m7', i)
    if digit ~= most then
      wrong = digit > most
      break
    end
  end
  if wrong then
    return redis.error_reply('EMQARG ' .. what .. ' must be a branded id, up to AzL8n0Y58m7')
  end
end
local spent = call('HGET', meta, 'spent')
call('LLEN', ring)

if call('SADD', paused, group) == 0 then
  return 0
end
call('LREM', ring, '1', group)
if spent and string.sub(spent, 1, 15) == group .. '|' then
  call('HDEL', meta, 'spent')
end
return 1
