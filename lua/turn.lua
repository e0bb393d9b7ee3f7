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
if not string.find(lease_ms, '^[1-9]%d*$') or tonumber(lease_ms) > 1099511627776 then
  return redis.error_reply('EMQARG lease_ms must be an integer from 1 to 2^40')
end
lease_ms = tonumber(lease_ms)
if not find(claim, '^%d+$') or not find(promote, '^%d+$') or not find(reap, '^%d+$') then
  return redis.error_reply('EMQARG claim, promote and reap must be integers from 0 to 200')
end
if not find(lost_cap, '^[1-9]%d*$') or tonumber(lost_cap) > 2147483648 then
  return redis.error_reply('EMQARG lost_cap must be an integer from 1 to 2^31')
end
if not find(max_attempts, '^[1-9]%d*$') or tonumber(max_attempts) > 2147483648 then
  return redis.error_reply('EMQARG max_attempts must be an integer from 1 to 2^31')
end
claim, promote, reap = tonumber(claim), tonumber(promote), tonumber(reap)
lost_cap, max_attempts = tonumber(lost_cap), tonumber(max_attempts)
if claim > 200 or promote > 200 or reap > 200 then
  return redis.error_reply('EMQLIMIT a turn claims, promotes and reaps at most 200 jobs each')
end
local at, settled, extended, extends_at = 9, 0, 0, nil
while args[at] do
  local verb, count = args[at], args[at + 2]
  local width = verb == 'retry' and 5 or 2
  if width == 2 and verb ~= 'complete' and verb ~= 'release' and verb ~= 'extend' then
    return redis.error_reply('EMQARG a verb must be complete, retry, release or extend')
  end
  if not count or not find(count, '^[1-9]%d*$') then
    return redis.error_reply('EMQARG a run: verb, ticket, count (an integer from 1), its items')
  end
  count = tonumber(count)
  if verb == 'extend' then
    extended = extended + count
    extends_at = extends_at or at
  elseif extends_at then
    return redis.error_reply('EMQARG no settle may come after an extension')
  else
    settled = settled + count
  end
  if settled > 200 or extended > 200 then
    return redis.error_reply('EMQLIMIT a turn settles and extends at most 200 jobs each')
  end
  local last = at + 2 + width * count
  if last > #args then
    return redis.error_reply('EMQARG the runs do not end where the arguments do')
  end
  for i = at + 3, last, width do
    local token = args[i + 1]
    if #args[i] ~= 14 or (token ~= '1' and not find(token, '^[1-9]%d*$')) then
      return redis.error_reply('EMQARG id must be 14 bytes and token an integer from 1')
    end
    if width == 5 then
      local delay_ms, force_dead = args[i + 2], args[i + 4]
      if not find(delay_ms, '^%d+$') or tonumber(delay_ms) > 2199023255552 then
        return redis.error_reply('EMQARG delay_ms must be an integer from 0 to 2^41')
      end
      if force_dead ~= '0' and force_dead ~= '1' then
        return redis.error_reply('EMQARG force_dead must be 0 or 1')
      end
    end
  end
  at = last + 1
end
extends_at = extends_at or at

-- From here on nothing fails: the fixed keys are of their types, and what is read of rows and lanes
-- is read so that a foreign key is passed over.
local now
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
local there = call('EXISTS', unpack(KEYS))
local flat, turning, tokens, limits, weights = 0, 0, 0, 0, 0
local first_end, first_due, facts = nil, nil, {}
if there > 0 then
  flat = call('ZCARD', pending)
  there = flat > 0 and there - 1 or there
end
if there > 0 and (reap > 0 or settled + extended == 0) then
  first_end = tonumber(call('ZRANGE', active, '0', '0', 'WITHSCORES')[2])
  there = first_end and there - 1 or there
elseif there > 0 and call('ZCARD', active) > 0 then
  there = there - 1
end
if there > 0 then
  turning = call('LLEN', ring)
  there = turning > 0 and there - 1 or there
end
if there > 0 and call('HLEN', gactive) > 0 then
  there = there - 1
end
if there > 0 then
  tokens = call('LLEN', wake)
  there = tokens > 0 and there - 1 or there
end
if there > 0 and call('ZCARD', dead) > 0 then
  there = there - 1
end
if there > 0 then
  first_due = tonumber(call('ZRANGE', schedule, '0', '0', 'WITHSCORES')[2])
  there = first_due and there - 1 or there
end
if there > 0 then
  facts = call('HMGET', meta, 'paused', 'spent', 'left')
  there = (facts[1] or facts[2] or facts[3]) and there - 1 or there
end
if there > 0 and call('HLEN', unique) > 0 then
  there = there - 1
end
if there > 0 then
  limits, weights = call('HLEN', glimit), call('HLEN', gweight)
  call('SCARD', paused)
end
local job, deadline = base .. 'job:', nil

-- Of the lanes met: leases out, as counted here and as gactive has them, and ceilings.
local counted, stored, tops = {}, {}, {}

local verdicts, extensions = {}, {}
if settled > 0 then
  at = 9
  local n_settled, wakes, run, verb, holder = 0, false, 0, nil, nil
  while at < extends_at do
    local seen, alone, n_out, n_rows, n_owned, n_freed = {}, nil, 0, 0, 0, 0
    local out, rows, owned, freed, freed_ids = {}, {}, {}, {}, {}
    local back, buried, later = {}, {}, {}
    while at < extends_at do
      if run == 0 then
        verb, holder, run = args[at], args[at + 1], tonumber(args[at + 2])
        at = at + 3
      end
      local id, token = args[at], args[at + 1]
      if seen[id] then
        break
      end
      seen[id] = true
      local row, verdict = job .. id, -1
      if verb == 'complete' then
        local fields = pcall('HMGET', row, 'state', 'attempts', 'holder', 'group', 'unique')
        local state, group, unique_key = fields[1], fields[4], fields[5]
        if not state then
          verdict = 0
        elseif fields[2] == token and (fields[3] or '') == holder then
          if state ~= 'active' then
            alone = fields
          else
            verdict = 1
            n_out, n_rows = n_out + 1, n_rows + 1
            out[n_out], rows[n_rows] = id, row
            if group then
              n_freed = n_freed + 1
              freed[n_freed], freed_ids[n_freed] = group, id
            end
            if unique_key and call('HGET', unique, unique_key) == id then
              n_owned = n_owned + 1
              owned[n_owned] = unique_key
            end
          end
        end
      elseif verb == 'retry' then
        local fields = pcall('HMGET', row, 'state', 'attempts', 'holder', 'group', 'max_attempts',
          'lost', 'forgiven')
        local group = fields[4]
        if not fields[1] then
          verdict = 0
        elseif fields[1] == 'active' and fields[2] == token and (fields[3] or '') == holder
          and call('ZSCORE', active, id) then
          local error = args[at + 3]
          if #error > 4096 then
            local cut = 4096
            while cut > 4093 and string.byte(error, cut + 1) >= 128 and string.byte(error, cut + 1) < 192 do
              cut = cut - 1
            end
            error = string.sub(error, 1, cut)
          end
          local failures = tonumber(token) - (tonumber(fields[6]) or 0) - (tonumber(fields[7]) or 0)
          if args[at + 4] == '1' or failures >= (tonumber(fields[5]) or max_attempts) then
            verdict = 3
            buried[#buried + 1] = '0'
            buried[#buried + 1] = id
          else
            verdict = 2
            local due = now + args[at + 2]
            later[#later + 1] = format('%.0f', due)
            later[#later + 1] = id
            if not first_due or due < first_due then
              first_due, wakes = due, true
            end
          end
          n_out = n_out + 1
          out[n_out] = id
          if group then
            n_freed = n_freed + 1
            freed[n_freed], freed_ids[n_freed] = group, id
          end
          local state = verdict == 2 and 'scheduled' or 'dead'
          if error ~= '' then
            call('HSET', row, 'state', state, 'last_error', error)
          else
            call('HSET', row, 'state', state)
            call('HDEL', row, 'last_error')
          end
          if holder ~= '' then
            call('HDEL', row, 'holder')
          end
        end
      else
        local fields = pcall('HMGET', row, 'state', 'attempts', 'holder', 'group', 'forgiven')
        if fields[1] == 'active' and fields[2] == token and (fields[3] or '') == holder
          and call('ZSCORE', active, id) then
          if fields[4] then
            alone = fields
          else
            verdict, wakes, flat = 1, true, flat + 1
            n_out = n_out + 1
            out[n_out] = id
            back[#back + 1] = '0'
            back[#back + 1] = id
            call('HSET', row, 'state', 'pending',
              'forgiven', format('%.0f', (tonumber(fields[5]) or 0) + 1))
            if holder ~= '' then
              call('HDEL', row, 'holder')
            end
          end
        end
      end
      if alone then
        break
      end
      n_settled, run = n_settled + 1, run - 1
      verdicts[n_settled] = verdict
      at = at + (verb == 'retry' and 5 or 2)
    end
    if n_out > 0 then
      local entering = {}
      if n_freed > 0 then
        local live = call('ZMSCORE', active, unpack(freed_ids, 1, n_freed))
        local names, n_names = {}, 0
        for i = 1, n_freed do
          local group = freed[i]
          if not counted[group] then
            counted[group], n_names = 0, n_names + 1
            names[n_names] = group
          end
        end
        if n_names > 0 then
          local outs = call('HMGET', gactive, unpack(names, 1, n_names))
          for i = 1, n_names do
            local group, out = names[i], outs[i]
            local leases = out and tonumber(out) or 0
            counted[group], stored[group] = leases, leases
            if out and leases <= 0 then
              stored[group] = -1
            end
          end
          if limits > 0 then
            local ceilings = call('HMGET', glimit, unpack(names, 1, n_names))
            for i = 1, n_names do
              local ceiling = tonumber(ceilings[i]) or 0
              tops[names[i]] = ceiling > 0 and ceiling or nil
            end
          end
        end
        for i = 1, n_freed do
          if live[i] then
            local group = freed[i]
            local leases = counted[group]
            if leases == tops[group] and call('SISMEMBER', paused, group) == 0 then
              local depth = pcall('ZCARD', base .. 'g:' .. group .. ':pending')
              if type(depth) == 'number' and depth > 0 then
                entering[#entering + 1] = group
              end
            end
            counted[group] = leases > 0 and leases - 1 or 0
          end
        end
      end
      call('ZREM', active, unpack(out, 1, n_out))
      if n_rows > 0 then
        call('DEL', unpack(rows, 1, n_rows))
      end
      if n_owned > 0 then
        call('HDEL', unique, unpack(owned, 1, n_owned))
      end
      if #later > 0 then
        call('ZADD', schedule, unpack(later))
      end
      if #buried > 0 then
        call('ZADD', dead, unpack(buried))
      end
      if #back > 0 then
        call('ZADD', pending, unpack(back))
      end
      if #entering > 0 then
        call('RPUSH', ring, unpack(entering))
        turning, wakes = turning + #entering, true
      end
    end
    if alone then
      local kept, none = {}, {}
      for group, leases in pairs(counted) do
        if leases ~= stored[group] then
          if leases > 0 then
            kept[#kept + 1] = group
            kept[#kept + 1] = format('%.0f', leases)
          else
            none[#none + 1] = group
          end
        end
      end
      if #none > 0 then
        call('HDEL', gactive, unpack(none))
      end
      if #kept > 0 then
        call('HSET', gactive, unpack(kept))
      end
      counted, stored = {}, {}
      local id, verdict = args[at], 1
      local row = job .. id
      local group = alone[4]
      if group and type(pcall('ZCARD', base .. 'g:' .. group .. ':pending')) ~= 'number' then
        verdict = -1
      elseif verb == 'release' then
        local lane = base .. 'g:' .. group .. ':pending'
        local depth = call('ZCARD', lane)
        local leases = tonumber(call('HGET', gactive, group)) or 0
        local ceiling = tonumber(call('HGET', glimit, group)) or 0
        local parked = call('SISMEMBER', paused, group) == 1
        local served = depth > 0 and not parked and (ceiling == 0 or leases < ceiling)
        call('LLEN', ring)
        leases = leases - 1
        local runnable = not parked and (ceiling == 0 or leases < ceiling)
        call('ZREM', active, id)
        call('ZADD', lane, '0', id)
        if leases > 0 then
          call('HSET', gactive, group, format('%.0f', leases))
        else
          call('HDEL', gactive, group)
        end
        if runnable and not served then
          call('RPUSH', ring, group)
        end
        wakes = wakes or runnable
        call('HSET', row, 'state', 'pending',
          'forgiven', format('%.0f', (tonumber(alone[5]) or 0) + 1))
        if holder ~= '' then
          call('HDEL', row, 'holder')
        end
      else
        local state, unique_key = alone[1], alone[5]
        local owner = unique_key and call('HGET', unique, unique_key) == id
        if state == 'scheduled' then
          call('ZREM', schedule, id)
        elseif state == 'dead' then
          call('ZREM', dead, id)
        elseif not group then
          call('ZREM', pending, id)
        else
          local lane = base .. 'g:' .. group .. ':pending'
          local depth = call('ZCARD', lane)
          local leases = tonumber(call('HGET', gactive, group)) or 0
          local ceiling = tonumber(call('HGET', glimit, group)) or 0
          local parked = call('SISMEMBER', paused, group) == 1
          local served = depth > 0 and not parked and (ceiling == 0 or leases < ceiling)
          call('LLEN', ring)
          local empties = depth == 1 and served
          local spent = empties and call('HGET', meta, 'spent')
          if call('ZREM', lane, id) == 1 and empties then
            call('LREM', ring, '-1', group)
            if spent and string.sub(spent, 1, 15) == group .. '|' then
              call('HDEL', meta, 'spent')
            end
          end
        end
        call('DEL', row)
        if owner then
          call('HDEL', unique, unique_key)
        end
        facts[2] = call('HGET', meta, 'spent')
        first_due = tonumber(call('ZRANGE', schedule, '0', '0', 'WITHSCORES')[2])
        flat = call('ZCARD', pending)
      end
      turning = call('LLEN', ring)
      n_settled, run = n_settled + 1, run - 1
      verdicts[n_settled] = verdict
      at = at + 2
    end
  end
  if wakes and tokens == 0 then
    call('RPUSH', wake, '1')
    tokens = 1
  end
end
if extended > 0 then
  local held, n_held, n_extended = {}, 0, 0
  at, deadline = extends_at, format('%.0f', now + lease_ms)
  while args[at] do
    local holder, count = args[at + 1], tonumber(args[at + 2])
    for i = at + 3, at + 2 + 2 * count, 2 do
      local id, verdict = args[i], -1
      local fields = pcall('HMGET', job .. id, 'state', 'attempts', 'holder', 'cancel')
      if fields[1] == 'active' and fields[2] == args[i + 1] and (fields[3] or '') == holder
        and call('ZSCORE', active, id) then
        verdict = fields[4] and 2 or 1
        held[n_held + 1], held[n_held + 2] = deadline, id
        n_held = n_held + 2
      end
      n_extended = n_extended + 1
      extensions[n_extended] = verdict
    end
    at = at + 3 + 2 * count
  end
  if n_held > 0 then
    call('ZADD', active, unpack(held, 1, n_held))
  end
end
local n_returned, n_buried, n_promoted = 0, 0, 0
local reaps = reap > 0 and first_end and first_end <= now
local promotes = promote > 0 and first_due and first_due <= now
-- In a long ring, those met are not those that come next: the fewer counts, the faster they are read.
if next(counted) and (reaps or promotes or turning > claim) then
  local kept, none = {}, {}
  for group, leases in pairs(counted) do
    if leases ~= stored[group] then
      if leases > 0 then
        kept[#kept + 1] = group
        kept[#kept + 1] = format('%.0f', leases)
      else
        none[#none + 1] = group
      end
    end
  end
  if #none > 0 then
    call('HDEL', gactive, unpack(none))
  end
  if #kept > 0 then
    call('HSET', gactive, unpack(kept))
  end
  counted, stored = {}, {}
end
if reaps then
  local ids = call('ZRANGE', active, '-inf', format('%.0f', now), 'BYSCORE', 'LIMIT', '0', reap)
  local gone, back, buried, returned, laned, lanes = {}, {}, {}, {}, {}, {}
  for i = 1, #ids do
    local id = ids[i]
    local row = job .. id
    local fields = pcall('HMGET', row, 'state', 'group', 'lost')
    local group, taken = fields[2], true
    if fields[1] == 'active' then
      local lost = (tonumber(fields[3]) or 0) + 1
      local to_dead = lost >= lost_cap
      if group then
        local lane = lanes[group]
        if lane == nil then
          lane = { group = group, key = base .. 'g:' .. group .. ':pending' }
          lane.depth = pcall('ZCARD', lane.key)
          if type(lane.depth) == 'number' then
            lane.leases = tonumber(call('HGET', gactive, group)) or 0
            lane.ceiling = tonumber(call('HGET', glimit, group)) or 0
            lane.parked = call('SISMEMBER', paused, group) == 1
            lane.served = lane.depth > 0 and not lane.parked
              and (lane.ceiling == 0 or lane.leases < lane.ceiling)
          else
            lane = false
          end
          lanes[group] = lane
        end
        taken = lane
        if lane then
          laned[#laned + 1] = { id, lane, to_dead }
        end
      elseif not to_dead then
        returned[#returned + 1] = '0'
        returned[#returned + 1] = id
      end
      if taken and to_dead then
        buried[#buried + 1] = { row, lost, id }
      elseif taken then
        back[#back + 1] = { row, lost }
      end
    end
    if taken then
      gone[#gone + 1] = id
    end
  end

  if #returned > 0 then
    call('ZADD', pending, unpack(returned))
  end
  if #gone > 0 then
    call('ZREM', active, unpack(gone))
  end
  local runnable, entering = #returned / 2, {}
  for i = 1, #laned do
    local id, lane, to_dead = laned[i][1], laned[i][2], laned[i][3]
    lane.leases = lane.leases - 1
    if not to_dead then
      call('ZADD', lane.key, '0', id)
      lane.depth = lane.depth + 1
    end
    local enters = not lane.served and lane.depth > 0 and not lane.parked
      and (lane.ceiling == 0 or lane.leases < lane.ceiling)
    if enters then
      lane.served = true
      entering[#entering + 1] = lane.group
    end
    if enters or (lane.served and not to_dead) then
      runnable = runnable + 1
    end
  end
  for group, lane in pairs(lanes) do
    if lane and lane.leases > 0 then
      call('HSET', gactive, group, format('%.0f', lane.leases))
    elseif lane then
      call('HDEL', gactive, group)
    end
  end
  for i = 1, #back do
    local job = back[i]
    call('HSET', job[1], 'state', 'pending', 'lost', format('%.0f', job[2]))
  end
  for i = 1, #buried do
    local job = buried[i]
    local lost = format('%.0f', job[2])
    call('ZADD', dead, '0', job[3])
    call('HSET', job[1], 'state', 'dead', 'lost', lost,
      'last_error', 'lost ' .. lost .. ' times: its lease ended before a settle came')
  end
  n_returned, n_buried = #back, #buried
  if #entering > 0 then
    call('RPUSH', ring, unpack(entering))
  end
  for _ = tokens + 1, math.min(runnable, 64) do
    call('RPUSH', wake, '1')
  end
  turning = turning + #entering
  tokens = math.max(tokens, math.min(runnable, 64))
  flat = call('ZCARD', pending)
end
if promotes then
  local ids = call('ZRANGE', schedule, '-inf', format('%.0f', now), 'BYSCORE',
    'LIMIT', '0', promote)
  local gone, rows, returned, laned, lanes = {}, {}, {}, {}, {}
  for i = 1, #ids do
    local id = ids[i]
    local row = job .. id
    local fields = pcall('HMGET', row, 'state', 'group')
    local group, taken = fields[2], true
    if fields[1] == 'scheduled' and group then
      local lane = lanes[group]
      if lane == nil then
        lane = { group = group, key = base .. 'g:' .. group .. ':pending' }
        lane.depth = pcall('ZCARD', lane.key)
        if type(lane.depth) == 'number' then
          lane.leases = tonumber(call('HGET', gactive, group)) or 0
          lane.ceiling = tonumber(call('HGET', glimit, group)) or 0
          lane.parked = call('SISMEMBER', paused, group) == 1
          lane.served = lane.depth > 0 and not lane.parked
            and (lane.ceiling == 0 or lane.leases < lane.ceiling)
        else
          lane = false
        end
        lanes[group] = lane
      end
      taken = lane
      if lane then
        rows[#rows + 1] = row
        laned[#laned + 1] = { id, lane }
      end
    elseif fields[1] == 'scheduled' then
      rows[#rows + 1] = row
      returned[#returned + 1] = '0'
      returned[#returned + 1] = id
    end
    if taken then
      gone[#gone + 1] = id
    end
  end

  if #returned > 0 then
    call('ZADD', pending, unpack(returned))
  end
  if #gone > 0 then
    call('ZREM', schedule, unpack(gone))
  end
  local runnable, entering = #returned / 2, {}
  for i = 1, #laned do
    local id, lane = laned[i][1], laned[i][2]
    call('ZADD', lane.key, '0', id)
    lane.depth = lane.depth + 1
    local enters = not lane.served and lane.depth > 0 and not lane.parked
      and (lane.ceiling == 0 or lane.leases < lane.ceiling)
    if enters then
      lane.served = true
      entering[#entering + 1] = lane.group
    end
    if lane.served then
      runnable = runnable + 1
    end
  end
  for i = 1, #rows do
    call('HSET', rows[i], 'state', 'pending')
  end
  n_promoted = #rows
  if #entering > 0 then
    call('RPUSH', ring, unpack(entering))
  end
  for _ = tokens + 1, math.min(runnable, 64) do
    call('RPUSH', wake, '1')
  end
  turning = turning + #entering
  tokens = math.max(tokens, math.min(runnable, 64))
  flat = call('ZCARD', pending)
  first_due = tonumber(call('ZRANGE', schedule, '0', '0', 'WITHSCORES')[2])
end

local jobs = {}
if claim > 0 and not facts[1] and (turning > 0 or flat > 0) then
  deadline = deadline or format('%.0f', now + lease_ms)
  if turning > 0 then
    local spent_lane, spent, left = nil, 0, tonumber(facts[3]) or 0
    if facts[2] then
      spent_lane, spent = string.sub(facts[2], 1, 14), tonumber(string.sub(facts[2], 16)) or 0
    end
    local claimed, looks, n_jobs, leased = 0, claim + 100, 0, {}
    -- The flat set: ids read, the place in them, and how many are taken from its head.
    local flat_ids, flat_at, flat_taken = {}, 0, 0
    -- The ring: how long it was, how many of its lanes are read, and they in order; per lane its jobs a
    -- turn, where not one, and its key; of those that aren't popped the ids at the head from rank
    -- `skips`, how many of the ranks are known, and how many ids are to leave.
    local size, read, order, shares, keys = turning, 0, {}, {}, {}
    local heads, skips, known, taken = {}, {}, {}, {}
    -- The rotation: `lap` has the lanes still to come, nil while those are the ones as read; `head` is
    -- the place in it; `tail` has those that had their turn, and of those `guessed` may be empty by now.
    local lap, head, tail, n_tail = nil, 1, {}, 0
    local guessed, n_guessed, dropped = {}, 0, false

    while claimed < claim and looks > 0 do
      looks = looks - 1
      local id, group, more, guess, out, ceiling, share
      -- Before the ring's length counts, or a lane comes again.
      if n_guessed > 0 and (dropped or head > size or (flat > 0 and left == 0)) then
        local names = {}
        for i = 1, n_guessed do
          names[i] = keys[guessed[i]]
        end
        local full = call('EXISTS', unpack(names, 1, n_guessed))
        if full < n_guessed then
          local empty, n_kept = {}, 0
          for i = 1, n_guessed do
            if full == 0 or call('EXISTS', names[i]) == 0 then
              empty[guessed[i]], turning = true, turning - 1
            end
          end
          for i = 1, n_tail do
            local group = tail[i]
            tail[i] = nil
            if not empty[group] then
              n_kept = n_kept + 1
              tail[n_kept] = group
            end
          end
          n_tail = n_kept
        end
        n_guessed, dropped = 0, false
      end
      if flat > 0 and (left == 0 or turning == 0) then
        flat_at = flat_at + 1
        id = flat_ids[flat_at]
        if not id then
          local want = claim - claimed
          if turning > 0 then
            want = math.floor(want / (turning + 1)) + 1
          end
          flat_ids = call('ZRANGE', pending, flat_taken, flat_taken + want - 1)
          flat_at, id = 1, flat_ids[1]
        end
        if id then
          flat, flat_taken = flat - 1, flat_taken + 1
        else
          flat = 0
        end
      elseif turning > 0 then
        if not lap and head > read and read < size then
          local last = math.min(size, read + claim - claimed) - 1
          local page = call('LRANGE', ring, read, last)
          local names, n_names = {}, 0
          for i = 1, #page do
            local group = page[i]
            if not counted[group] then
              counted[group], n_names = 0, n_names + 1
              names[n_names] = group
            end
          end
          if n_names > 0 then
            local outs = call('HMGET', gactive, unpack(names, 1, n_names))
            for i = 1, n_names do
              local group, out = names[i], outs[i]
              local leases = out and tonumber(out) or 0
              counted[group], stored[group] = leases, leases
              if out and leases <= 0 then
                stored[group] = -1
              end
            end
            if limits > 0 then
              local ceilings = call('HMGET', glimit, unpack(names, 1, n_names))
              for i = 1, n_names do
                local ceiling = tonumber(ceilings[i]) or 0
                tops[names[i]] = ceiling > 0 and ceiling or nil
              end
            end
          end
          if weights > 0 then
            local turns = call('HMGET', gweight, unpack(page))
            for i = 1, #page do
              shares[page[i]] = turns[i] and math.max(1, math.floor(tonumber(turns[i]) or 1))
            end
          end
          if read == 0 then
            order = page
          else
            for i = 1, #page do
              order[read + i] = page[i]
            end
          end
          read = last + 1
        end
        if lap then
          group = lap[head]
        elseif head <= read then
          group = order[head]
        end
        if not group then
          lap, tail, n_tail, head = tail, {}, 0, 1
          group = lap[1]
        end

        out, ceiling, share = counted[group], tops[group], shares[group] or 1
        local key = keys[group]
        if not key then
          key = base .. 'g:' .. group .. ':pending'
          keys[group] = key
          -- One job is all that it gives before the others had their turn. Most lanes have more: that is
          -- found out for all of them at once.
          if share == 1 and turning > 1 and turning >= claim - claimed
            and (not ceiling or out < ceiling) then
            id = pcall('ZPOPMIN', key)[1]
            more, guess = id, id
          end
        end
        if not id then
          local gone = taken[group] or 0
          if gone + 2 > (known[group] or 0) then
            -- As many as it may give in this call, and the one behind them.
            local want = share
            if turning < claim - claimed then
              want = share * math.ceil((claim - claimed) / turning)
            end
            want = math.min(want, claim - claimed)
            local ids = pcall('ZRANGE', key, gone, gone + want)
            heads[group], skips[group] = ids, gone
            known[group] = #ids > want and gone + #ids or math.huge
          end
          id = heads[group][gone - skips[group] + 1]
          if id and (not ceiling or out < ceiling) then
            more = heads[group][gone - skips[group] + 2]
            taken[group] = gone + 1
          else
            id, head, turning, dropped = nil, head + 1, turning - 1, n_guessed > 0
            if spent_lane == group then
              spent_lane = nil
            end
          end
        end
      else
        looks = 0
      end
      if id then
        local row = job .. id
        local fields = pcall('HMGET', row, 'state', 'attempts', 'payload', 'checkpoint', 'kind')
        -- An id whose row is missing or says that it sits elsewhere (a torn past) is dropped.
        if fields[1] == 'pending' and fields[3] then
          local token, text = 1, '1'
          if fields[2] ~= '0' then
            token = (tonumber(fields[2]) or 0) + 1
            text = format('%.0f', token)
          end
          if ticket ~= '' then
            call('HSET', row, 'state', 'active', 'attempts', text, 'holder', ticket)
          else
            call('HSET', row, 'state', 'active', 'attempts', text)
            if token > 1 then
              call('HDEL', row, 'holder')
            end
          end
          leased[2 * claimed + 1], leased[2 * claimed + 2] = deadline, id
          claimed = claimed + 1
          jobs[n_jobs + 1], jobs[n_jobs + 2], jobs[n_jobs + 3] = id, fields[3], token
          jobs[n_jobs + 4], jobs[n_jobs + 5] = group or '', fields[4] or ''
          jobs[n_jobs + 6] = fields[5] or ''
          n_jobs = n_jobs + 6
          if group then
            counted[group] = out + 1
            if spent_lane == group then
              spent = spent + 1
            else
              spent_lane, spent = group, 1
            end
            local stays = more and (not ceiling or out + 1 < ceiling)
            if not stays or spent >= share then
              spent_lane = nil
              if not stays then
                head, turning = head + 1, turning - 1
              elseif turning > 1 then
                head, n_tail = head + 1, n_tail + 1
                tail[n_tail] = group
                if guess then
                  n_guessed = n_guessed + 1
                  guessed[n_guessed] = group
                end
              end
              -- The flat set, which counts as one more lane, is due when left is 0, and after one turn of a ring
              -- that got shorter meanwhile.
              if flat > 0 and left > 0 then
                left = math.min(left, stays and turning or turning + 1) - 1
              end
            end
          elseif turning > 0 then
            -- The flat set had its turn: the ring's come first now.
            left = turning
          end
        end
      end
    end
    if n_guessed > 0 then
      local names = {}
      for i = 1, n_guessed do
        names[i] = keys[guessed[i]]
      end
      local full = call('EXISTS', unpack(names, 1, n_guessed))
      if full < n_guessed then
        local empty, n_kept = {}, 0
        for i = 1, n_guessed do
          if full == 0 or call('EXISTS', names[i]) == 0 then
            empty[guessed[i]], turning = true, turning - 1
          end
        end
        for i = 1, n_tail do
          local group = tail[i]
          tail[i] = nil
          if not empty[group] then
            n_kept = n_kept + 1
            tail[n_kept] = group
          end
        end
        n_tail = n_kept
      end
      n_guessed, dropped = 0, false
    end
    if claimed > 0 then
      call('ZADD', active, unpack(leased, 1, 2 * claimed))
    end
    if flat_taken > 0 then
      call('ZREMRANGEBYRANK', pending, '0', flat_taken - 1)
    end
    for group, gone in pairs(taken) do
      call('ZREMRANGEBYRANK', keys[group], '0', gone - 1)
    end

    local passed = lap and size or head - 1
    if passed > 0 then
      local back, n_back = {}, 0
      while lap and lap[head] do
        n_back = n_back + 1
        back[n_back], head = lap[head], head + 1
      end
      for i = 1, n_tail do
        back[n_back + i] = tail[i]
      end
      n_back = n_back + n_tail
      call('LTRIM', ring, passed, '-1')
      if n_back > 0 then
        call('RPUSH', ring, unpack(back, 1, n_back))
      end
    end

    local interrupted = spent_lane and spent_lane .. '|' .. format('%.0f', spent)
    if interrupted and interrupted ~= facts[2] then
      if left ~= (tonumber(facts[3]) or 0) then
        call('HSET', meta, 'spent', interrupted, 'left', format('%.0f', left))
      else
        call('HSET', meta, 'spent', interrupted)
      end
    else
      if facts[2] and not interrupted then
        call('HDEL', meta, 'spent')
      end
      if left ~= (tonumber(facts[3]) or 0) then
        call('HSET', meta, 'left', format('%.0f', left))
      end
    end
  else
    local claimed, looks, n_jobs, leased, group = 0, claim + 100, 0, {}, nil
    while claimed < claim and looks > 0 and flat > 0 do
      local want, ids, met = math.min(claim - claimed, looks, flat), nil, nil
      if want == 1 then
        ids = call('ZPOPMIN', pending)
        met = #ids / 2
      else
        ids = call('ZRANGE', pending, '0', want - 1)
        met = #ids
        if met > 0 then
          call('ZREMRANGEBYRANK', pending, '0', met - 1)
        end
      end
      for i = 1, met do
        local id = ids[i]
        local row = job .. id
        local fields = pcall('HMGET', row, 'state', 'attempts', 'payload', 'checkpoint', 'kind')
        -- An id whose row is missing or says that it sits elsewhere (a torn past) is dropped.
        if fields[1] == 'pending' and fields[3] then
          local token, text = 1, '1'
          if fields[2] ~= '0' then
            token = (tonumber(fields[2]) or 0) + 1
            text = format('%.0f', token)
          end
          if ticket ~= '' then
            call('HSET', row, 'state', 'active', 'attempts', text, 'holder', ticket)
          else
            call('HSET', row, 'state', 'active', 'attempts', text)
            if token > 1 then
              call('HDEL', row, 'holder')
            end
          end
          leased[2 * claimed + 1], leased[2 * claimed + 2] = deadline, id
          claimed = claimed + 1
          jobs[n_jobs + 1], jobs[n_jobs + 2], jobs[n_jobs + 3] = id, fields[3], token
          jobs[n_jobs + 4], jobs[n_jobs + 5] = group or '', fields[4] or ''
          jobs[n_jobs + 6] = fields[5] or ''
          n_jobs = n_jobs + 6
        end
      end
      flat, looks = flat - met, met > 0 and looks - met or 0
    end
    if claimed > 0 then
      call('ZADD', active, unpack(leased, 1, 2 * claimed))
    end
  end
end
if next(counted) then
  local kept, none = {}, {}
  for group, leases in pairs(counted) do
    if leases ~= stored[group] then
      if leases > 0 then
        kept[#kept + 1] = group
        kept[#kept + 1] = format('%.0f', leases)
      else
        none[#none + 1] = group
      end
    end
  end
  if #none > 0 then
    call('HDEL', gactive, unpack(none))
  end
  if #kept > 0 then
    call('HSET', gactive, unpack(kept))
  end
  counted, stored = {}, {}
end
if tokens == 0 and not facts[1] and (turning > 0 or flat > 0) then
  call('RPUSH', wake, '1')
end

local soonest, next_ms = first_end, -1
if reaps or settled + extended > 0 then
  soonest = tonumber(call('ZRANGE', active, '0', '0', 'WITHSCORES')[2])
elseif jobs[1] and not (soonest and soonest < now + lease_ms) then
  soonest = now + lease_ms
end
if first_due and (not soonest or first_due < soonest) then
  soonest = first_due
end
if soonest then
  next_ms = math.max(soonest - now, 0)
end
return { verdicts, extensions, jobs, next_ms, n_returned, n_buried, n_promoted }
