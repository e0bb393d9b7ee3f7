#!lua flags=allow-oom
-- Give a dead job another life: back to its lane or the flat set, its failures forgiven.
-- KEYS[1] emq:{q}:dead      zset, score 0
-- KEYS[2] emq:{q}:pending   zset, score 0
-- KEYS[3] emq:{q}:wake      list, wake tokens
-- KEYS[4] emq:{q}:ring      list, the serviceable lanes
-- KEYS[5] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[6] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[7] emq:{q}:gactive   hash, lane -> leases out
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   none
-- RETURNS 1 | 0 no row
-- REFUSES EMQARG EMQSTATE
-- LEAVES  the id in pending or its lane only; forgiven = attempts; no lost, holder or cancel; a
--         token in wake when it is runnable
local call = redis.call
local dead, pending, wake, ring = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local paused, glimit, gactive = KEYS[5], KEYS[6], KEYS[7]
local base, id = ARGV[1], ARGV[2]
if #KEYS ~= 7 or #ARGV ~= 2 or #id ~= 14 then
  return redis.error_reply('EMQARG requeue takes 7 keys and 2 arguments, id of 14 bytes')
end

local row = base .. 'job:' .. id
local fields = call('HMGET', row, 'state', 'attempts', 'group')
local state, attempts, group = fields[1], fields[2], fields[3]
if not state then
  return 0
end
if state ~= 'dead' then
  return redis.error_reply('EMQSTATE only a dead job can be requeued')
end
local tokens = call('LLEN', wake)
call('ZCARD', dead)
local runnable = true

if group then
  local enters = false
  -- @include lane_enter_look.lua
  call('ZADD', lane, '0', id)
  if enters then
    call('RPUSH', ring, group)
  end
else
  call('ZADD', pending, '0', id)
end
call('ZREM', dead, id)
call('HSET', row, 'state', 'pending', 'forgiven', attempts or '0')
call('HDEL', row, 'lost', 'holder', 'cancel')
if runnable and tokens == 0 then
  call('RPUSH', wake, '1')
end
return 1
