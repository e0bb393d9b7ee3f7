-- Admit up to 400 jobs, each exactly as if enqueued or scheduled alone, in order.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[3] emq:{q}:wake      list, wake tokens
-- KEYS[4] emq:{q}:ring      list, the serviceable lanes
-- KEYS[5] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[6] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[7] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[8] emq:{q}:unique    hash, unique key -> the id that holds it
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] durable           1: a duplicate rewrites its row's state with itself; 0: it does not
-- ARGV[3] count             0..400 items, of at most 1 MiB of payload together
-- ARGV[4..] items           each: id, payload, group or empty, run_at_ms (0..2^42, 0: now),
--                           npairs (even), then npairs arguments: pairs as in enqueue
-- DERIVED emq:{q}:job:<id>  the rows of the items
-- DERIVED emq:{q}:g:<group>:pending  their lanes
-- CLOCK   server
-- RETURNS one verdict an item: 1 admitted | 0 duplicate | -1 not of kind JOB | the id that holds
--         the unique key
-- REFUSES EMQARG EMQLIMIT OOM
-- LEAVES  each admitted id in pending, its lane or schedule; a token in wake for each runnable
--         one, up to 64, or one when a job became the first to be due
local call, find = redis.call, string.find
local pending, schedule, wake, ring = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local paused, glimit, gactive, unique = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local base, durable, count = ARGV[1], ARGV[2], ARGV[3]
local args = ARGV
if #KEYS ~= 8 or #ARGV < 3 or (durable ~= '0' and durable ~= '1') then
  return redis.error_reply('EMQARG enqueue_many takes 8 keys, 3 arguments, items; durable 0 or 1')
end
if not find(count, '^%d+$') then
  return redis.error_reply('EMQARG count must be an integer from 0 to 400')
end
count = tonumber(count)
if count > 400 then
  return redis.error_reply('EMQLIMIT a call admits at most 400 jobs; send the rest in another')
end

-- Arguments and policy, for all items, before anything is looked up.
local at, bytes, timed, job = 4, 0, false, base .. 'job:'
local verdicts, starts, rows, keys = {}, {}, {}, {}
for i = 1, count do
  local id, group, run_at_ms, npairs = args[at], args[at + 2], args[at + 3], args[at + 4]
  if not npairs then
    return redis.error_reply('EMQARG an item: id, payload, group, run_at_ms, npairs (even), pairs')
  end
  -- @include job_id.lua
  if not is_job then
    verdicts[i] = -1
  end
  -- @include group_id.lua
  if run_at_ms ~= '0' then
    if not find(run_at_ms, '^%d+$') or tonumber(run_at_ms) > 4398046511104 then
      return redis.error_reply('EMQARG run_at_ms must be an integer from 0 to 2^42')
    end
    timed = true
  end
  bytes = bytes + #args[at + 1]
  starts[i], rows[i] = at, job .. id
  if npairs == '0' then
    at = at + 5
  else
    if not find(npairs, '^%d+$') or #npairs > 1 or at + 4 + npairs > #args then
      return redis.error_reply('EMQARG npairs must be even, at most 8, and true')
    end
    local first, last, unique_key = at + 5, at + 4 + npairs, false
    -- @include pairs.lua
    keys[i] = unique_key
    at = last + 1
  end
end
starts[count + 1] = at
if at ~= #args + 1 then
  return redis.error_reply('EMQARG the items do not end where the arguments do')
end
if bytes > 1048576 then
  return redis.error_reply('EMQLIMIT a call carries at most 1 MiB of payload; send fewer items')
end
if count == 0 then
  return verdicts
end

-- Verdicts in order: an item sees what the items before it did. Everything is read before the
-- first write.
local now = 0
if timed then
  -- @include now.lua
end
local tokens = call('LLEN', wake)
local some_exist = call('EXISTS', unpack(rows)) > 0
local seen, held, resent, later = {}, {}, {}, {}
local flat, schedules, lanes, entering, runnable, earliest = {}, {}, {}, {}, 0, false
for i = 1, count do
  local id, unique_key, verdict = args[starts[i]], keys[i], verdicts[i]
  if not verdict and (seen[id] or (some_exist and call('EXISTS', rows[i]) == 1)) then
    verdict = 0
    if durable == '1' and not seen[id] then
      resent[#resent + 1] = { rows[i], call('HGET', rows[i], 'state') }
    end
  end
  if not verdict and unique_key then
    local holder = held[unique_key] or call('HGET', unique, unique_key)
    if holder and holder ~= id then
      verdict = holder
    end
  end
  if not verdict then
    verdict, seen[id] = 1, true
    if unique_key then
      held[unique_key] = id
    end
    local group, due = args[starts[i] + 2], 0
    if timed then
      due = tonumber(args[starts[i] + 3])
    end
    if due > now then
      later[i] = true
      schedules[#schedules + 1] = due
      schedules[#schedules + 1] = id
      if not earliest then
        -- @include earliest.lua
      end
    elseif group == '' then
      runnable = runnable + 1
      flat[#flat + 1] = '0'
      flat[#flat + 1] = id
    else
      -- @include lane_of.lua
      lane.depth = lane.depth + 1
      local adds = lane.adds or {}
      adds[#adds + 1] = '0'
      adds[#adds + 1] = id
      lane.adds = adds
      -- @include lane_serves.lua
      if lane.served then
        runnable = runnable + 1
      end
    end
  end
  verdicts[i] = verdict
end
if #entering > 0 then
  call('LLEN', ring)
end

-- The first write is one that a full server refuses, so the batch is refused whole.
if #flat > 0 then
  call('ZADD', pending, unpack(flat))
end
if #schedules > 0 then
  call('ZADD', schedule, unpack(schedules))
end
for _, lane in pairs(lanes) do
  call('ZADD', lane.key, unpack(lane.adds))
end
for i = 1, count do
  if verdicts[i] == 1 then
    local start = starts[i]
    local state, payload, group = 'pending', args[start + 1], args[start + 2]
    if later[i] then
      state = 'scheduled'
    end
    if group == '' then
      call('HSET', rows[i], 'state', state, 'attempts', '0', 'payload', payload,
        unpack(args, start + 5, starts[i + 1] - 1))
    else
      call('HSET', rows[i], 'state', state, 'attempts', '0', 'payload', payload,
        'group', group, unpack(args, start + 5, starts[i + 1] - 1))
    end
  end
end
for unique_key, id in pairs(held) do
  call('HSET', unique, unique_key, id)
end
-- A durable resend has a write to wait for.
for i = 1, #resent do
  if resent[i][2] then
    call('HSET', resent[i][1], 'state', resent[i][2])
  end
end
if earliest and runnable == 0 then
  runnable = 1
end
-- @include ring_and_wakes.lua
return verdicts
