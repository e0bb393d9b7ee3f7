-- Admit one job to a lane; a taken id or unique key changes nothing.
-- KEYS[1] emq:{q}:wake      list, wake tokens
-- KEYS[2] emq:{q}:ring      list, the serviceable lanes
-- KEYS[3] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[4] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[5] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[6] emq:{q}:unique    hash, unique key -> the id that holds it
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                of kind JOB, at most JOBAzL8n0Y58m7 in byte order
-- ARGV[3] payload           opaque bytes
-- ARGV[4] group             the lane's branded id
-- ARGV[5] durable           1: a duplicate rewrites its row's state with itself; 0: it does not
-- ARGV[6..] pairs           field and value, of kind, headers, max_attempts (1..2^31), unique
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   none
-- RETURNS 1 admitted | 0 duplicate | the id that holds the unique key
-- REFUSES EMQARG EMQKIND OOM
-- LEAVES  the id in its lane only; the lane in the ring, and a token in wake, when serviceable
local call, find = redis.call, string.find
local wake, ring, paused, glimit, gactive = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local base, id, group, durable = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
if #KEYS ~= 6 or #ARGV < 5 or (durable ~= '0' and durable ~= '1') then
  return redis.error_reply('EMQARG lane_enqueue takes 6 keys, 5 arguments, pairs; durable 0 or 1')
end
-- @include job_id.lua
-- @include lane_id.lua
local first, last, unique_key = 6, #ARGV, false
-- @include pairs.lua
-- @include job_kind.lua

local row = base .. 'job:' .. id
if call('EXISTS', row) == 1 then
  -- @include duplicate.lua
  return 0
end
if unique_key then
  local holder = call('HGET', KEYS[6], unique_key)
  if holder and holder ~= id then
    return holder
  end
end
local tokens = call('LLEN', wake)
local runnable, enters = false, false
-- @include lane_enter_look.lua

call('ZADD', lane, '0', id)
call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', ARGV[3], 'group', group,
  unpack(ARGV, 6))
if unique_key then
  call('HSET', KEYS[6], unique_key, id)
end
if enters then
  call('RPUSH', ring, group)
end
if runnable and tokens == 0 then
  call('RPUSH', wake, '1')
end
return 1
