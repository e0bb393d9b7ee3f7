#!lua flags=allow-oom
-- Claim the oldest pending job of the flat set under a lease.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[3] emq:{q}:wake      list, wake tokens
-- KEYS[4] emq:{q}:ring      list, the serviceable lanes
-- KEYS[5] emq:{q}:meta      hash, paused, left
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] lease_ms          1..2^40
-- ARGV[3] ticket            the claim's, at most 256 bytes; empty: none
-- DERIVED emq:{q}:job:<id>  the row of the id at the head
-- CLOCK   server
-- RETURNS {} | {id, payload, token} | {id, payload, token, checkpoint}
-- REFUSES EMQARG
-- LEAVES  the id in active only; attempts = token; a token in wake when work is left
local call = redis.call
local pending, active, wake, ring, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local base, lease_ms, ticket = ARGV[1], ARGV[2], ARGV[3]
if #KEYS ~= 5 or #ARGV ~= 3 or #ticket > 256 then
  return redis.error_reply('EMQARG claim takes 5 keys and 3 arguments, ticket of at most 256 bytes')
end
-- @include lease_ms.lua
if call('HGET', meta, 'paused') then
  return {}
end


-- An id whose row is missing or says that it sits elsewhere (a torn past) is dropped, and the next
-- one is looked at.
local id, row, fields, more
for _ = 1, 100 do
  local head = call('ZRANGE', pending, '0', '1')
  id, more = head[1], head[2]
  if not id then
    break
  end
  row = base .. 'job:' .. id
  fields = redis.pcall('HMGET', row, 'state', 'attempts', 'payload', 'checkpoint', 'holder')
  if fields[1] == 'pending' and fields[3] then
    break
  end
  call('ZREM', pending, id)
  id = nil
end
local turning = call('LLEN', ring)
local cascade = (more or turning > 0) and call('LLEN', wake) == 0

local reply = {}
if id then
  local token = (tonumber(fields[2]) or 0) + 1
  local now
  -- @include now.lua
  call('ZADD', active, now + lease_ms, id)
  call('ZREM', pending, id)
  -- @include claimed_row.lua
  if turning > 0 then
    -- The flat set, which counts as one more lane, had its turn: the ring's come first now.
    call('HSET', meta, 'left', turning)
  end
  reply = { id, fields[3], token, fields[4] or nil }
end
if cascade then
  call('RPUSH', wake, '1')
end
return reply
