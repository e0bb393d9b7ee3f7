#!lua flags=allow-oom
-- Make a worker's whole beat: settle, extend, reap, promote, claim, and pass the wake on.
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
-- ARGV[2] lease_ms          1..2^40, from now, of claims and extensions
-- ARGV[3] ticket            the claims', at most 256 bytes; empty: none
-- ARGV[4] claim             0..200 jobs
-- ARGV[5] promote           0..200 jobs; 0: no look
-- ARGV[6] reap              0..200 jobs; 0: no look
-- ARGV[7] lost_cap          1..2^31, the loss that buries a job
-- ARGV[8] max_attempts      1..2^31, for a retried row without a cap of its own
-- ARGV[9..] runs            each: verb, ticket (of their claim, or empty), count (from 1), then
--           count items: id token (complete, release, extend), or id token delay_ms (0..2^41)
--           error (cut at 4096 bytes; or empty) force_dead (1 or 0) (retry). At most 200 settles
--           and 200 extensions; no settle after an extension
-- DERIVED emq:{q}:job:<id>  the rows of the jobs
-- DERIVED emq:{q}:g:<group>:pending  their lanes
-- CLOCK   server
-- RETURNS {verdicts, extensions, jobs, next_ms, returned, buried, promoted}: a settle is 1 done | 2
--         scheduled | 3 dead | 0 no row | -1 stale; an extension 1 held | 2 a cancel was asked for
--         | -1 stale; jobs are six values each: id, payload, token, group or '', checkpoint or '',
--         kind or ''; next_ms is the time until the next job is due or its lease expires, 0: now,
--         -1: there is none; the rest counts jobs: reaped to wait again, reaped to the morgue, and
--         promoted
-- REFUSES EMQARG EMQLIMIT
-- LEAVES  each job as its single script does, in this order; the ring rotated, over lanes and flat
--         set in turn; a token in wake when work is left on a queue that isn't paused
local call, pcall, find, format = redis.call, redis.pcall, string.find, string.format
local pending, active, schedule, dead, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ring, paused, glimit, gactive = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local gweight, unique, meta = KEYS[10], KEYS[11], KEYS[12]
local base, lease_ms, ticket, claim = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local promote, reap, lost_cap, max_attempts = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local args = ARGV
if #KEYS ~= 12 or #ARGV < 8 or #ticket > 256 then
  return redis.error_reply('EMQARG turn takes 12 keys, 8 arguments, runs; ticket to 256 bytes')
end
-- @include lease_ms.lua
-- @include turn_counts.lua
-- @include turn_runs.lua

-- From here on nothing fails: the fixed keys are of their types, and what is read of rows and lanes
-- is read so that a foreign key is passed over.
local now
-- @include now.lua
-- @include turn_look.lua
local job, deadline = base .. 'job:', nil

-- Of the lanes met: leases out, as counted here and as gactive has them, and ceilings.
local counted, stored, tops = {}, {}, {}

local verdicts, extensions = {}, {}
if settled > 0 then
  -- @include turn_settle.lua
end
if extended > 0 then
  -- @include turn_extend.lua
end
local n_returned, n_buried, n_promoted = 0, 0, 0
local reaps = reap > 0 and first_end and first_end <= now
local promotes = promote > 0 and first_due and first_due <= now
-- In a long ring, those met are not those that come next: the fewer counts, the faster they are read.
if next(counted) and (reaps or promotes or turning > claim) then
  -- @include turn_leases_out.lua
end
if reaps then
  -- @include turn_reap.lua
end
if promotes then
  -- @include turn_promote.lua
end

local jobs = {}
if claim > 0 and not facts[1] and (turning > 0 or flat > 0) then
  deadline = deadline or format('%.0f', now + lease_ms)
  if turning > 0 then
    -- @include turn_claim.lua
  else
    -- @include turn_claim_flat.lua
  end
end
if next(counted) then
  -- @include turn_leases_out.lua
end
if tokens == 0 and not facts[1] and (turning > 0 or flat > 0) then
  call('RPUSH', wake, '1')
end

-- @include turn_next.lua
return { verdicts, extensions, jobs, next_ms, n_returned, n_buried, n_promoted }
