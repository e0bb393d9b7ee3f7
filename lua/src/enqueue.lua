-- Admit one job to the flat set; a taken id or unique key changes nothing.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:wake      list, wake tokens
-- KEYS[3] emq:{q}:unique    hash, unique key -> the id that holds it
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                of kind JOB, at most JOBAzL8n0Y58m7 in byte order
-- ARGV[3] payload           opaque bytes
-- ARGV[4] durable           1: a duplicate rewrites its row's state with itself; 0: it does not
-- ARGV[5..] pairs           field and value, of kind, headers, max_attempts (1..2^31), unique
-- DERIVED emq:{q}:job:<id>  the job's row
-- CLOCK   none
-- RETURNS 1 admitted | 0 duplicate | the id that holds the unique key
-- REFUSES EMQARG EMQKIND OOM
-- LEAVES  the id in pending only; a token in wake
local call, find = redis.call, string.find
local pending, wake = KEYS[1], KEYS[2]
local base, id, durable = ARGV[1], ARGV[2], ARGV[4]
if #KEYS ~= 3 or #ARGV < 4 or (durable ~= '0' and durable ~= '1') then
  return redis.error_reply('EMQARG enqueue takes 3 keys, 4 arguments (durable 0 or 1) and pairs')
end
-- @include job_id.lua
local first, last, unique_key = 5, #ARGV, false
-- @include pairs.lua
-- @include job_kind.lua

local row = base .. 'job:' .. id
if call('EXISTS', row) == 1 then
  -- @include duplicate.lua
  return 0
end
if unique_key then
  local holder = call('HGET', KEYS[3], unique_key)
  if holder and holder ~= id then
    return holder
  end
end
local tokens = call('LLEN', wake)

call('ZADD', pending, '0', id)
call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', ARGV[3], unpack(ARGV, 5))
if unique_key then
  call('HSET', KEYS[3], unique_key, id)
end
if tokens == 0 then
  call('RPUSH', wake, '1')
end
return 1
