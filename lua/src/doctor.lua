#!lua flags=allow-oom
-- Examine a part of a queue, each of its facts at this one instant, and mend it when asked to.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[3] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[4] emq:{q}:dead      zset, score 0
-- KEYS[5] emq:{q}:wake      list, wake tokens
-- KEYS[6] emq:{q}:ring      list, the serviceable lanes
-- KEYS[7] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[8] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[9] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[10] emq:{q}:gweight  hash, lane -> jobs a turn
-- KEYS[11] emq:{q}:unique   hash, unique key -> the id that holds it
-- KEYS[12] emq:{q}:meta     hash, paused, spent (lane|k), left
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] look              jobs, lanes, leases, unique or queue
-- ARGV[3] repair            1: mend; 0: only look
-- ARGV[4..] subjects  at most 200, by the look. jobs: pairs of the lane where a job was seen (or
--           empty) and its id. lanes: pairs of how often one was seen in the ring (0 to 2) and the
--           lane. unique: keys. leases: none. queue: the mark of an earlier look, or empty
-- DERIVED emq:{q}:job:<id>  the rows of the jobs
-- DERIVED emq:{q}:g:<group>:pending  the lanes
-- CLOCK   server
-- RETURNS {next, findings}: next is the count of subjects examined (jobs, lanes, unique); 1: call
--         again, more can be mended | 0 (leases); or the mark (queue); findings are four values
--         each: kind, subject, detail, 1 mended | 0 not
-- REFUSES EMQARG EMQLIMIT
-- LEAVES  with repair, each fault found mended by what the job's own row says, where that is safe;
--         the lanes touched in the ring exactly when serviceable; a token in wake for what became
--         runnable
local call, pcall, find = redis.call, redis.pcall, string.find
local pending, active, schedule, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local wake, ring, paused, glimit = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local gactive, gweight, unique, meta = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local base, look, repair = ARGV[1], ARGV[2], ARGV[3]
local args = ARGV
if #KEYS ~= 12 or #ARGV < 3 or (repair ~= '0' and repair ~= '1') then
  return redis.error_reply('EMQARG doctor takes 12 keys, 3 arguments, subjects; repair is 0 or 1')
end
local given = #args - 3
local paired = look == 'jobs' or look == 'lanes'
if (paired and given % 2 ~= 0) or (look == 'leases' and given ~= 0)
  or (look == 'queue' and given ~= 1)
  or not (paired or look == 'leases' or look == 'queue' or look == 'unique') then
  return redis.error_reply('EMQARG a look is jobs, lanes (pairs), leases, unique or queue (a mark)')
end
if given > (paired and 400 or 200) then
  return redis.error_reply('EMQLIMIT a call examines at most 200 subjects; send the rest in another')
end

-- The types of the fixed keys are sure from here on; rows and lanes are read so that one of another
-- type is found, not stumbled over. Then nothing fails, so findings may be mended one by one.
local now
-- @include now.lua
local mends = repair == '1'
local facts = call('HMGET', meta, 'paused', 'spent')
local tokens, turning = call('LLEN', wake), call('LLEN', ring)
local sets, names = { pending, active, schedule, dead }, { 'pending', 'active', 'schedule', 'dead' }
for i = 1, 4 do
  call('ZCARD', sets[i])
end
call('SCARD', paused)
call('HLEN', glimit)
call('HLEN', gactive)
call('HLEN', gweight)
call('HLEN', unique)

-- Rare and never on a worker's path, so it may have closures. `cost` counts the entries of the ring
-- that were walked: a call that walked 200,000 leaves the other subjects to the next.
local out, cost, walks = { 0 }, 0, 200000
-- @include doctor_tools.lua

if look == 'jobs' then
  -- @include doctor_jobs.lua
elseif look == 'lanes' then
  -- @include doctor_lanes.lua
elseif look == 'leases' then
  -- @include doctor_leases.lua
elseif look == 'unique' then
  -- @include doctor_unique.lua
else
  -- @include doctor_queue.lua
end
return out
