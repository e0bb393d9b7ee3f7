#!lua flags=allow-oom
-- Move a lease to now + lease_ms; its holder learns here that a cancel was asked for.
-- KEYS[1] emq:{q}:active    zset, score = lease deadline, unix ms
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job
-- ARGV[3] token             the claim's
-- ARGV[4] ticket            the claim's, or empty
-- ARGV[5] lease_ms          1..2^40, from now
-- DERIVED emq:{q}:job:<id>  the job's row
-- CLOCK   server
-- RETURNS 1 | 2 a cancel was asked for
-- REFUSES EMQARG EMQSTALE
-- LEAVES  the lease at now + lease_ms, also when it had expired but was not reaped
local call, find = redis.call, string.find
local active = KEYS[1]
local base, id, token, ticket, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if #KEYS ~= 1 or #ARGV ~= 5 then
  return redis.error_reply('EMQARG extend takes 1 key and 5 arguments')
end
if #id ~= 14 or not find(token, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG id must be 14 bytes and token an integer from 1')
end
if not string.find(lease_ms, '^[1-9]%d*$') or tonumber(lease_ms) > 1099511627776 then
  return redis.error_reply('EMQARG lease_ms must be an integer from 1 to 2^40')
end
lease_ms = tonumber(lease_ms)

local fields = call('HMGET', base .. 'job:' .. id, 'state', 'attempts', 'holder', 'cancel')
if fields[1] ~= 'active' or fields[2] ~= token or (fields[3] or '') ~= ticket
  or not call('ZSCORE', active, id) then
  return redis.error_reply('EMQSTALE no live lease under this token and ticket; drop the result')
end
local now
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZADD', active, now + lease_ms, id)
return fields[4] and 2 or 1
