-- Admit one job for later, to the flat set or a lane; a time that has come means pending.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[3] emq:{q}:wake      list, wake tokens
-- KEYS[4] emq:{q}:ring      list, the serviceable lanes
-- KEYS[5] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[6] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[7] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[8] emq:{q}:unique    hash, unique key -> the id that holds it
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                of kind JOB, at most JOBAzL8n0Y58m7 in byte order
-- ARGV[3] payload           opaque bytes
-- ARGV[4] group             the lane's branded id, or empty: flat
-- ARGV[5] at_ms             0..2^42, run-at in unix ms, or 0: not used
-- ARGV[6] delay_ms          0..2^41, from now, or 0: not used; both 0: pending now
-- ARGV[7] durable           1: a duplicate rewrites its row's state with itself; 0: it does not
-- ARGV[8..] pairs           field and value, of kind, headers, max_attempts (1..2^31), unique
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   server
-- RETURNS 1 admitted | 0 duplicate | the id that holds the unique key
-- REFUSES EMQARG EMQKIND OOM
-- LEAVES  the id in schedule, or in pending or its lane when due; a token in wake when the job
--         is runnable or the first to be due
local call, find = redis.call, string.find
local pending, schedule, wake, ring = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local paused, glimit, gactive, unique = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local base, id, payload, group = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local at_ms, delay_ms, durable = ARGV[5], ARGV[6], ARGV[7]
if #KEYS ~= 8 or #ARGV < 7 or (durable ~= '0' and durable ~= '1') then
  return redis.error_reply('EMQARG schedule takes 8 keys, 7 arguments (durable 0 or 1) and pairs')
end
-- @include job_id.lua
-- @include group_id.lua
if not find(at_ms, '^%d+$') or tonumber(at_ms) > 4398046511104 then
  return redis.error_reply('EMQARG at_ms must be an integer from 0 to 2^42')
end
if not find(delay_ms, '^%d+$') or tonumber(delay_ms) > 2199023255552 then
  return redis.error_reply('EMQARG delay_ms must be an integer from 0 to 2^41')
end
at_ms, delay_ms = tonumber(at_ms), tonumber(delay_ms)
if at_ms > 0 and delay_ms > 0 then
  return redis.error_reply('EMQARG give at_ms or delay_ms, not both')
end
local first, last, unique_key = 8, #ARGV, false
-- @include pairs.lua
-- @include job_kind.lua

local row = base .. 'job:' .. id
if call('EXISTS', row) == 1 then
  -- @include duplicate.lua
  return 0
end
if unique_key then
  local holder = call('HGET', unique, unique_key)
  if holder and holder ~= id then
    return holder
  end
end

local tokens = call('LLEN', wake)
local due, state, runnable = at_ms, 'pending', true
if at_ms > 0 or delay_ms > 0 then
  local now, earliest
  -- @include now.lua
  if delay_ms > 0 then
    due = now + delay_ms
  end
  if due > now then
    state = 'scheduled'
    -- @include earliest.lua
    runnable = earliest
  end
end
local enters = false
if state == 'scheduled' then
  call('ZADD', schedule, due, id)
elseif group == '' then
  call('ZADD', pending, '0', id)
else
  -- @include lane_enter_look.lua
  call('ZADD', lane, '0', id)
end
-- The first write was one that a full server refuses, so it is refused whole.
if group == '' then
  call('HSET', row, 'state', state, 'attempts', '0', 'payload', payload, unpack(ARGV, 8))
else
  call('HSET', row, 'state', state, 'attempts', '0', 'payload', payload, 'group', group,
    unpack(ARGV, 8))
end
if unique_key then
  call('HSET', unique, unique_key, id)
end
if enters then
  call('RPUSH', ring, group)
end
if runnable and tokens == 0 then
  call('RPUSH', wake, '1')
end
return 1
