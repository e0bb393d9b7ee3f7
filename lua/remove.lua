#!lua flags=allow-oom
-- Take out a job that nobody holds: pending, scheduled or dead.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[3] emq:{q}:dead      zset, score 0
-- KEYS[4] emq:{q}:wake      not used: nothing becomes runnable
-- KEYS[5] emq:{q}:ring      list, the serviceable lanes
-- KEYS[6] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[7] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[8] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[9] emq:{q}:unique    hash, unique key -> the id that holds it
-- KEYS[10] emq:{q}:meta     hash, spent (lane|k)
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   none
-- RETURNS 1 gone | 0 no row
-- REFUSES EMQARG EMQSTATE
-- LEAVES  no trace of the job
local call = redis.call
local base, id = ARGV[1], ARGV[2]
if #KEYS ~= 10 or #ARGV ~= 2 or #id ~= 14 then
  return redis.error_reply('EMQARG remove takes 10 keys and 2 arguments, id of 14 bytes')
end

local row = base .. 'job:' .. id
local fields = call('HMGET', row, 'state', 'group', 'unique')
local state, group, unique_key = fields[1], fields[2], fields[3]
if not state then
  return 0
end
if state == 'active' then
  return redis.error_reply('EMQSTATE the job is leased; cancel it, or wait for its holder')
end
local pending, schedule, dead, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[9]
local ring, paused, glimit, gactive, meta = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[10]
local owner = unique_key and call('HGET', unique, unique_key) == id
if state == 'scheduled' then
  call('ZREM', schedule, id)
elseif state == 'dead' then
  call('ZREM', dead, id)
elseif not group then
  call('ZREM', pending, id)
else
  local lane = base .. 'g:' .. group .. ':pending'
  local depth = call('ZCARD', lane)
  local leases = tonumber(call('HGET', gactive, group)) or 0
  local ceiling = tonumber(call('HGET', glimit, group)) or 0
  local parked = call('SISMEMBER', paused, group) == 1
  local served = depth > 0 and not parked and (ceiling == 0 or leases < ceiling)
  call('LLEN', ring)
  local empties = depth == 1 and served
  local spent = empties and call('HGET', meta, 'spent')
  if call('ZREM', lane, id) == 1 and empties then
    call('LREM', ring, '-1', group)
    if spent and string.sub(spent, 1, 15) == group .. '|' then
      call('HDEL', meta, 'spent')
    end
  end
end
call('DEL', row)
if owner then
  call('HDEL', unique, unique_key)
end
return 1
