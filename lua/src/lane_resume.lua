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
-- @include lane_id.lua

-- @include lane_look.lua
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
