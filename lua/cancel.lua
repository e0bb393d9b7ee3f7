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
local is_job = #id == 14 and find(id, '^JOB[0-9][0-9A-Za-z]+$')
if not is_job then
  local name, what = id, 'id'
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
  is_job = string.sub(id, 1, 3) == 'JOB'
end
if not is_job then
  return redis.error_reply('EMQKIND a queue admits ids of kind JOB only')
end

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
