#!lua flags=allow-oom
-- Bring a parked lane back into the rotation; someone wakes when it has work.
-- KEYS[1] emq:{q}:wake      list, wake tokens
-- KEYS[2] emq:{q}:ring      list, the serviceable lanes
-- KEYS[3] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[4] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[5] emq:{q}:gactive   hash, lane -> leases out
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] group             the lane's branded id
-- DERIVED emq:{q}:g:<group>:pending  the lane
-- CLOCK   none
-- RETURNS 1 resumed | 0 it was not parked
-- REFUSES EMQARG
-- LEAVES  the lane out of paused; at the ring's tail when it is serviceable
local call = redis.call
local wake, ring, paused, glimit, gactive = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local base, group = ARGV[1], ARGV[2]
if #KEYS ~= 5 or #ARGV ~= 2 then
  return redis.error_reply('EMQARG lane_resume takes 5 keys and 2 arguments')
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

local lane = base .. 'g:' .. group .. ':pending'
local depth = call('ZCARD', lane)
local leases = tonumber(call('HGET', gactive, group)) or 0
local ceiling = tonumber(call('HGET', glimit, group)) or 0
local parked = call('SISMEMBER', paused, group) == 1
local served = depth > 0 and not parked and (ceiling == 0 or leases < ceiling)
call('LLEN', ring)
local tokens = call('LLEN', wake)
if not parked then
  return 0
end
call('SREM', paused, group)
if depth > 0 and (ceiling == 0 or leases < ceiling) then
  call('RPUSH', ring, group)
  if tokens == 0 then
    call('RPUSH', wake, '1')
  end
end
return 1
