#!lua flags=allow-oom
-- Set or remove a lane's ceiling: how many of its jobs may be leased at once.
-- KEYS[1] emq:{q}:wake      list, wake tokens
-- KEYS[2] emq:{q}:ring      list, the serviceable lanes
-- KEYS[3] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[4] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[5] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[6] emq:{q}:meta      hash, spent (lane|k)
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] group             the lane's branded id
-- ARGV[3] limit             1..2^31 leases, or 0: no ceiling
-- DERIVED emq:{q}:g:<group>:pending  the lane
-- CLOCK   none
-- RETURNS 1 changed | 0 it was so already
-- REFUSES EMQARG
-- LEAVES  the ceiling; leases over it run on until they settle; the lane in the ring exactly when
--         it is serviceable
local call = redis.call
local wake, ring, paused, glimit = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local gactive, meta = KEYS[5], KEYS[6]
local base, group, limit = ARGV[1], ARGV[2], ARGV[3]
if #KEYS ~= 6 or #ARGV ~= 3 then
  return redis.error_reply('EMQARG lane_limit takes 6 keys and 3 arguments')
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
if not string.find(limit, '^%d+$') or tonumber(limit) > 2147483648 then
  return redis.error_reply('EMQARG limit must be an integer from 0 to 2^31')
end
limit = tonumber(limit)

local lane = base .. 'g:' .. group .. ':pending'
local depth = call('ZCARD', lane)
local leases = tonumber(call('HGET', gactive, group)) or 0
local ceiling = tonumber(call('HGET', glimit, group)) or 0
local parked = call('SISMEMBER', paused, group) == 1
local served = depth > 0 and not parked and (ceiling == 0 or leases < ceiling)
call('LLEN', ring)
if limit == ceiling then
  return 0
end
local tokens, spent = call('LLEN', wake), call('HGET', meta, 'spent')
local serves = depth > 0 and not parked and (limit == 0 or leases < limit)

if limit == 0 then
  call('HDEL', glimit, group)
else
  call('HSET', glimit, group, string.format('%.0f', limit))
end
if serves and not served then
  call('RPUSH', ring, group)
  if tokens == 0 then
    call('RPUSH', wake, '1')
  end
elseif served and not serves then
  call('LREM', ring, '1', group)
  if spent and string.sub(spent, 1, 15) == group .. '|' then
    call('HDEL', meta, 'spent')
  end
end
return 1
