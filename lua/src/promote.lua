#!lua flags=allow-oom
-- Make due jobs pending, in their lanes or flat; also while the queue is paused.
-- KEYS[1] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[2] emq:{q}:pending   zset, score 0
-- KEYS[3] emq:{q}:wake      list, wake tokens
-- KEYS[4] emq:{q}:ring      list, the serviceable lanes
-- KEYS[5] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[6] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[7] emq:{q}:gactive   hash, lane -> leases out
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] limit             1..200 jobs
-- DERIVED emq:{q}:job:<id>  the rows of the due ids
-- DERIVED emq:{q}:g:<group>:pending  their lanes
-- CLOCK   server
-- RETURNS the count of jobs made pending
-- REFUSES EMQARG EMQLIMIT
-- LEAVES  each of them in pending or its lane only; a token in wake for each runnable one, up to 64
local call = redis.call
local schedule, pending, wake, ring = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local paused, glimit, gactive = KEYS[5], KEYS[6], KEYS[7]
local base, limit = ARGV[1], ARGV[2]
if #KEYS ~= 7 or #ARGV ~= 2 then
  return redis.error_reply('EMQARG promote takes 7 keys and 2 arguments')
end
-- @include limit_200.lua

local now
-- @include now.lua
local ids = call('ZRANGE', schedule, '-inf', string.format('%.0f', now), 'BYSCORE',
  'LIMIT', '0', limit)
if #ids == 0 then
  return 0
end
-- Everything is read before the first write. An id whose row is missing or says that it sits
-- elsewhere (a torn past) is dropped.
local rows, flat, laned, lanes = {}, {}, {}, {}
for i = 1, #ids do
  local id = ids[i]
  local row = base .. 'job:' .. id
  local fields = redis.pcall('HMGET', row, 'state', 'group')
  local group = fields[2]
  if fields[1] == 'scheduled' then
    rows[#rows + 1] = row
    if group then
      -- @include lane_of.lua
      laned[#laned + 1] = { id, lane }
    else
      flat[#flat + 1] = '0'
      flat[#flat + 1] = id
    end
  end
end
local tokens = call('LLEN', wake)
call('LLEN', ring)

if #flat > 0 then
  call('ZADD', pending, unpack(flat))
end
call('ZREM', schedule, unpack(ids))
local runnable, entering = #flat / 2, {}
for i = 1, #laned do
  local id, lane = laned[i][1], laned[i][2]
  call('ZADD', lane.key, '0', id)
  lane.depth = lane.depth + 1
  -- @include lane_serves.lua
  if lane.served then
    runnable = runnable + 1
  end
end
for i = 1, #rows do
  call('HSET', rows[i], 'state', 'pending')
end
-- @include ring_and_wakes.lua
return #rows
