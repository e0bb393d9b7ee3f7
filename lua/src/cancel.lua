#!lua flags=allow-oom
-- Call a job off: one that waits is gone, one in flight is marked for its holder.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:active    not used: flight is only marked, on the row
-- KEYS[3] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[4] emq:{q}:dead      zset, score 0
-- KEYS[5] emq:{q}:wake      not used: nothing becomes runnable
-- KEYS[6] emq:{q}:ring      list, the serviceable lanes
-- KEYS[7] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[8] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[9] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[10] emq:{q}:unique   hash, unique key -> the id that holds it
-- KEYS[11] emq:{q}:meta     hash, spent (lane|k)
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                of kind JOB, at most JOBAzL8n0Y58m7 in byte order
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   none
-- RETURNS 1 gone | 2 asked | 0 no row
-- REFUSES EMQARG EMQKIND EMQSTATE
-- LEAVES  no trace of a job that waited; cancel on the row of one in flight
local call, find = redis.call, string.find
local base, id = ARGV[1], ARGV[2]
if #KEYS ~= 11 or #ARGV ~= 2 then
  return redis.error_reply('EMQARG cancel takes 11 keys and 2 arguments')
end
-- @include job_id.lua
-- @include job_kind.lua

local row = base .. 'job:' .. id
local fields = call('HMGET', row, 'state', 'group', 'unique')
local state, group, unique_key = fields[1], fields[2], fields[3]
if not state then
  return 0
end
if state == 'active' then
  call('HSET', row, 'cancel', '1')
  return 2
end
if state == 'dead' then
  return redis.error_reply('EMQSTATE the job is dead; remove or requeue it')
end
local pending, schedule, dead, unique = KEYS[1], KEYS[3], KEYS[4], KEYS[10]
local ring, paused, glimit, gactive, meta = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[11]
-- @include waiting_gone.lua
return 1
