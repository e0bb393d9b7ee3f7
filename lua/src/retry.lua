#!lua flags=allow-oom
-- Settle a failed attempt: back through the schedule, or to the morgue at the cap.
-- KEYS[1] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[2] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[3] emq:{q}:dead      zset, score 0
-- KEYS[4] emq:{q}:wake      list, wake tokens
-- KEYS[5] emq:{q}:ring      list, the serviceable lanes
-- KEYS[6] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[7] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[8] emq:{q}:gactive   hash, lane -> leases out
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job
-- ARGV[3] token             the claim's
-- ARGV[4] ticket            the claim's, or empty
-- ARGV[5] delay_ms          0..2^41, from now
-- ARGV[6] max_attempts      1..2^31, for a row without a cap of its own
-- ARGV[7] error             why, cut at 4096 bytes; empty: no last_error
-- ARGV[8] force_dead        1: dead whatever the cap; 0: the cap decides
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   server
-- RETURNS 'scheduled' | 'dead' | 0 no row
-- REFUSES EMQARG EMQSTALE
-- LEAVES  the id in schedule or dead only, no holder; its lane in the ring when this freed a slot
--         for it; a token in wake when it became the first to be due
local call, find = redis.call, string.find
local active, schedule, dead, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, id, token, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local delay_ms, max_attempts, error, force_dead = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
if #KEYS ~= 8 or #ARGV ~= 8 or (force_dead ~= '0' and force_dead ~= '1') then
  return redis.error_reply('EMQARG retry takes 8 keys and 8 arguments, force_dead is 0 or 1')
end
-- @include holder.lua
if not find(delay_ms, '^%d+$') or tonumber(delay_ms) > 2199023255552 then
  return redis.error_reply('EMQARG delay_ms must be an integer from 0 to 2^41')
end
if not find(max_attempts, '^[1-9]%d*$') or tonumber(max_attempts) > 2147483648 then
  return redis.error_reply('EMQARG max_attempts must be an integer from 1 to 2^31')
end
-- @include clip_error.lua

local row = base .. 'job:' .. id
local fields = call('HMGET', row, 'state', 'attempts', 'holder', 'group', 'max_attempts',
  'lost', 'forgiven')
local group = fields[4]
if not fields[1] then
  return 0
end
-- @include live_lease.lua
local failures = tonumber(token) - (tonumber(fields[6]) or 0) - (tonumber(fields[7]) or 0)
local cap = tonumber(fields[5]) or tonumber(max_attempts)
local to_dead = force_dead == '1' or failures >= cap

local tokens = call('LLEN', wake)
local now, due, earliest
if to_dead then
  call('ZCARD', dead)
else
  -- @include now.lua
  due = now + delay_ms
  -- @include earliest.lua
end
local leases, reopens
local ring, paused, glimit, gactive = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
if group then
  -- @include lease_back_look.lua
end

call('ZREM', active, id)
if to_dead then
  call('ZADD', dead, '0', id)
else
  call('ZADD', schedule, due, id)
end
local state = to_dead and 'dead' or 'scheduled'
if error ~= '' then
  call('HSET', row, 'state', state, 'last_error', error)
else
  call('HSET', row, 'state', state)
  call('HDEL', row, 'last_error')
end
if ticket ~= '' then
  call('HDEL', row, 'holder')
end
if group then
  -- @include lease_back.lua
end
if (earliest or reopens) and tokens == 0 then
  call('RPUSH', wake, '1')
end
return state
