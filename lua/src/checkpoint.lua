#!lua flags=allow-oom
-- Keep a handler's progress on the row, for the next holder; may move the lease as well.
-- KEYS[1] emq:{q}:active    zset, score = lease deadline, unix ms
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job
-- ARGV[3] token             the claim's
-- ARGV[4] ticket            the claim's, or empty
-- ARGV[5] lease_ms          1..2^40, from now, or 0: the deadline stays
-- ARGV[6] data              at most 65536 bytes; empty: the checkpoint is removed
-- DERIVED emq:{q}:job:<id>  the job's row
-- CLOCK   server
-- RETURNS 1 | 2 a cancel was asked for
-- REFUSES EMQARG EMQSTALE
-- LEAVES  data in the row's checkpoint until the job is gone
local call, find = redis.call, string.find
local active = KEYS[1]
local base, id, token, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease_ms, data = ARGV[5], ARGV[6]
if #KEYS ~= 1 or #ARGV ~= 6 then
  return redis.error_reply('EMQARG checkpoint takes 1 key and 6 arguments')
end
-- @include holder.lua
if not find(lease_ms, '^%d+$') or tonumber(lease_ms) > 1099511627776 then
  return redis.error_reply('EMQARG lease_ms must be an integer from 0 to 2^40')
end
if #data > 65536 then
  return redis.error_reply('EMQARG a checkpoint holds at most 65536 bytes; store more elsewhere')
end

local row = base .. 'job:' .. id
local fields = call('HMGET', row, 'state', 'attempts', 'holder', 'cancel')
-- @include live_lease.lua
if data ~= '' then
  call('HSET', row, 'checkpoint', data)
else
  call('HDEL', row, 'checkpoint')
end
if tonumber(lease_ms) > 0 then
  local now
  -- @include now.lua
  call('ZADD', active, now + lease_ms, id)
end
return fields[4] and 2 or 1
