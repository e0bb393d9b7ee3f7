#!lua flags=allow-oom
-- Retire a finished job wherever it sits: its lease may have been reaped meanwhile.
-- KEYS[1] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[2] emq:{q}:pending   zset, score 0
-- KEYS[3] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[4] emq:{q}:dead      zset, score 0
-- KEYS[5] emq:{q}:wake      list, wake tokens
-- KEYS[6] emq:{q}:ring      list, the serviceable lanes
-- KEYS[7] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[8] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[9] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[10] emq:{q}:unique   hash, unique key -> the id that holds it
-- KEYS[11] emq:{q}:meta     hash, spent (lane|k)
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job
-- ARGV[3] token             the claim's
-- ARGV[4] ticket            the claim's, or empty
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   none
-- RETURNS 1 gone | 0 no row
-- REFUSES EMQARG EMQSTALE
-- LEAVES  no trace of the job; its lane in the ring when this freed a slot for it
local call, find = redis.call, string.find
local base, id, token, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if #KEYS ~= 11 or #ARGV ~= 4 then
  return redis.error_reply('EMQARG complete takes 11 keys and 4 arguments')
end
if #id ~= 14 or not find(token, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG id must be 14 bytes and token an integer from 1')
end

local row = base .. 'job:' .. id
local fields = call('HMGET', row, 'state', 'attempts', 'holder', 'group', 'unique')
local state, group, unique_key = fields[1], fields[4], fields[5]
if not state then
  return 0
end
if fields[2] ~= token or (fields[3] or '') ~= ticket then
  return redis.error_reply('EMQSTALE the job was claimed again: not the current token and ticket')
end
local owner = unique_key and call('HGET', KEYS[10], unique_key) == id

if state == 'active' and group then
  local wake, ring, paused, glimit, gactive = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
  local leases, reopens
  leases = tonumber(call('HGET', gactive, group)) or 0
  local ceiling = tonumber(call('HGET', glimit, group)) or 0
  reopens = ceiling > 0 and leases == ceiling and call('SISMEMBER', paused, group) == 0
    and call('ZCARD', base .. 'g:' .. group .. ':pending') > 0
  if reopens then
    call('LLEN', ring)
  end
  local tokens = reopens and call('LLEN', wake)
  if call('ZREM', KEYS[1], id) == 1 then
    if leases > 1 then
      call('HSET', gactive, group, string.format('%.0f', leases - 1))
    else
      call('HDEL', gactive, group)
    end
    if reopens then
      call('RPUSH', ring, group)
    end
    if tokens == 0 then
      call('RPUSH', wake, '1')
    end
  end
elseif state == 'active' then
  call('ZREM', KEYS[1], id)
elseif state == 'pending' and group then
  local ring, paused, glimit, gactive, meta = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[11]
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
elseif state == 'pending' then
  call('ZREM', KEYS[2], id)
elseif state == 'scheduled' then
  call('ZREM', KEYS[3], id)
else
  call('ZREM', KEYS[4], id)
end
call('DEL', row)
if owner then
  call('HDEL', KEYS[10], unique_key)
end
return 1
