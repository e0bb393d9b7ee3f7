#!lua flags=allow-oom
-- Hand a job back at once, without blame: a stopping worker can't finish it.
-- KEYS[1] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[2] emq:{q}:pending   zset, score 0
-- KEYS[3] emq:{q}:wake      list, wake tokens
-- KEYS[4] emq:{q}:ring      list, the serviceable lanes
-- KEYS[5] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[6] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[7] emq:{q}:gactive   hash, lane -> leases out
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job
-- ARGV[3] token             the claim's
-- ARGV[4] ticket            the claim's, or empty
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   none
-- RETURNS 1
-- REFUSES EMQARG EMQSTALE
-- LEAVES  the id in pending or its lane only, forgiven + 1, no holder; a token in wake when it is
--         runnable
local call, find, format = redis.call, string.find, string.format
local active, pending, wake, ring = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local paused, glimit, gactive = KEYS[5], KEYS[6], KEYS[7]
local base, id, token, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if #KEYS ~= 7 or #ARGV ~= 4 then
  return redis.error_reply('EMQARG release takes 7 keys and 4 arguments')
end
if #id ~= 14 or not find(token, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG id must be 14 bytes and token an integer from 1')
end

local row = base .. 'job:' .. id
local fields = call('HMGET', row, 'state', 'attempts', 'holder', 'group', 'forgiven')
local group = fields[4]
if fields[1] ~= 'active' or fields[2] ~= token or (fields[3] or '') ~= ticket
  or not call('ZSCORE', active, id) then
  return redis.error_reply('EMQSTALE no live lease under this token and ticket; drop the result')
end
local forgiven = (tonumber(fields[5]) or 0) + 1
local tokens = call('LLEN', wake)
local runnable = true

if group then
  local lane = base .. 'g:' .. group .. ':pending'
  local depth = call('ZCARD', lane)
  local leases = tonumber(call('HGET', gactive, group)) or 0
  local ceiling = tonumber(call('HGET', glimit, group)) or 0
  local parked = call('SISMEMBER', paused, group) == 1
  local served = depth > 0 and not parked and (ceiling == 0 or leases < ceiling)
  call('LLEN', ring)
  leases = leases - 1
  runnable = not parked and (ceiling == 0 or leases < ceiling)
  call('ZREM', active, id)
  call('ZADD', lane, '0', id)
  if leases > 0 then
    call('HSET', gactive, group, format('%.0f', leases))
  else
    call('HDEL', gactive, group)
  end
  if runnable and not served then
    call('RPUSH', ring, group)
  end
else
  call('ZADD', pending, '0', id)
  call('ZREM', active, id)
end
call('HSET', row, 'state', 'pending', 'forgiven', format('%.0f', forgiven))
if ticket ~= '' then
  call('HDEL', row, 'holder')
end
if runnable and tokens == 0 then
  call('RPUSH', wake, '1')
end
return 1
