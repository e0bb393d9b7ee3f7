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
-- @include holder.lua
-- @include lease_ms.lua

local fields = call('HMGET', base .. 'job:' .. id, 'state', 'attempts', 'holder', 'cancel')
-- @include live_lease.lua
local now
-- @include now.lua
call('ZADD', active, now + lease_ms, id)
return fields[4] and 2 or 1
