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
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
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
local function found(kind, subject, detail, mended)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = kind, subject, detail, mended and 1 or 0
end

local function rouse()
  if tokens == 0 then
    call('RPUSH', wake, '1')
    tokens = 1
  end
end

local function is_lane(group)
  if #group ~= 14 or not find(group, '^[A-Z][A-Z][A-Z][0-9A][0-9A-Za-z]+$') then
    return false
  end
  for i = 4, 14 do
    local digit, most = string.byte(group, i), string.byte('...AzL8n0Y58m7', i)
    if digit ~= most then
      return digit < most
    end
  end
  return true
end

local function lane_at(group)
  local key = base .. 'g:' .. group .. ':pending'
  local depth = pcall('ZCARD', key)
  if type(depth) ~= 'number' then
    return nil
  end
  local leases = tonumber(call('HGET', gactive, group)) or 0
  local ceiling = tonumber(call('HGET', glimit, group)) or 0
  local open = call('SISMEMBER', paused, group) == 0 and (ceiling == 0 or leases < ceiling)
  return { key = key, open = open, served = open and depth > 0 }
end

local function leaves_ring(group)
  cost = cost + turning
  turning = turning - call('LREM', ring, '0', group)
  if facts[2] and string.sub(facts[2], 1, 15) == group .. '|' then
    call('HDEL', meta, 'spent')
    facts[2] = false
  end
end

local function settle(group, before)
  local lane = lane_at(group)
  if lane.served and not before then
    turning = call('RPUSH', ring, group)
    rouse()
  elseif before and not lane.served then
    leaves_ring(group)
  end
end

local function leave(place, id)
  local group = string.match(place, '^g:(.*)$')
  if group then
    local lane = lane_at(group)
    call('ZREM', lane.key, id)
    settle(group, lane.served)
  else
    call('ZREM', base .. place, id)
  end
end

local function enter(place, id)
  local group = string.match(place, '^g:(.*)$')
  if group then
    local lane = lane_at(group)
    call('ZADD', lane.key, '0', id)
    if lane.open then
      rouse()
    end
    settle(group, lane.served)
  elseif place == 'pending' then
    call('ZADD', pending, '0', id)
    rouse()
  elseif place == 'dead' then
    call('ZADD', dead, '0', id)
  elseif place == 'active' then
    -- Its lease is over now, so that the reaper takes it back.
    call('ZADD', active, now, id)
  else
    local due = now
    local earliest
    local head = call('ZRANGE', schedule, '0', '0', 'WITHSCORES')
    earliest = not head[1] or due < tonumber(head[2])
    call('ZADD', schedule, due, id)
    if earliest then
      rouse()
    end
  end
end

if look == 'jobs' then
  local homes = { pending = 'pending', active = 'active', scheduled = 'schedule', dead = 'dead' }
  local states = { pending = 'pending', active = 'active', schedule = 'scheduled', dead = 'dead' }
  for at = 4, #args, 2 do
    if cost > walks then
      break
    end
    out[1] = out[1] + 1
    local hint, id = args[at], args[at + 1]
    local row = base .. 'job:' .. id
    local width = pcall('HLEN', row)
    local is_row = type(width) == 'number'
    local state, group, attempts, unique_key, broken
    if is_row and width > 0 then
      local whole = false
      if width <= 64 then
        local given = call('HKEYS', row)
        for i = 1, #given do
          local field = given[i]
          if field == 'payload' then
            whole = true
          elseif field ~= 'state' and field ~= 'attempts' and call('HSTRLEN', row, field) == 0 then
            if mends then
              call('HDEL', row, field)
            end
            found('empty_field', id, field, mends)
          end
        end
      end
      local fields = call('HMGET', row, 'state', 'group', 'attempts', 'unique')
      state, attempts = fields[1], fields[3]
      group = fields[2] ~= '' and fields[2]
      unique_key = fields[4] ~= '' and fields[4]
      if width > 64 then
        broken = 'fields'
      elseif not whole then
        broken = 'payload'
      elseif not attempts or not find(attempts, '^%d+$') then
        broken = 'attempts'
      elseif group and not is_lane(group) then
        broken, group = 'group', nil
      elseif not homes[state or ''] then
        broken = 'state'
      end
    elseif not is_row then
      broken = 'type'
    end

    -- Where it is: in fixed sets, in its own lane, in the lane where it was seen.
    local places, scores, own = {}, {}, group and 'g:' .. group
    for i = 1, 4 do
      local score = call('ZSCORE', sets[i], id)
      if score then
        places[#places + 1], scores[names[i]] = names[i], score
      end
    end
    for i = 1, 2 do
      local name = i == 1 and group or i == 2 and hint ~= '' and hint ~= group and hint
      local score = name and pcall('ZSCORE', base .. 'g:' .. name .. ':pending', id)
      if type(score) == 'string' then
        places[#places + 1], scores['g:' .. name] = 'g:' .. name, score
      end
    end

    if broken then
      local known = #places == 1 and (places[1] == own and 'pending' or states[places[1]])
      local mended = mends and broken == 'state' and known
      if mended then
        call('HSET', row, 'state', known)
      end
      found('row_broken', id, broken, mended)
    elseif width == 0 then
      if #places > 0 then
        found('set_without_row', id, table.concat(places, ' '), mends)
      end
      for i = 1, mends and #places or 0 do
        leave(places[i], id)
      end
    else
      local home = state == 'pending' and own or homes[state]
      local at_home, strays = false, {}
      for i = 1, #places do
        if places[i] == home then
          at_home = true
        else
          strays[#strays + 1] = places[i]
        end
      end
      local mended = mends and (home ~= own or not group or lane_at(group) ~= nil)
      if not at_home and #strays == 0 then
        found('row_without_set', id, state, mended)
      elseif not at_home then
        found('state_disagrees', id, state .. ' ' .. table.concat(places, ' '), mended)
      elseif #strays > 0 then
        found('two_sets', id, table.concat(places, ' '), mended)
      elseif (home == 'pending' or home == 'dead' or home == own) and scores[home] ~= '0' then
        -- The order by mint time hangs on it.
        found('score', id, scores[home] .. ' ' .. home, mends)
        if mends then
          call('ZADD', base .. (home == own and home .. ':pending' or home), '0', id)
        end
      end
      if mended then
        if not at_home then
          enter(home, id)
        end
        for i = 1, #strays do
          leave(strays[i], id)
        end
      end
      local holder = unique_key and call('HGET', unique, unique_key)
      if unique_key and holder ~= id then
        local contested = holder and pcall('HGET', base .. 'job:' .. holder, 'unique') == unique_key
        if contested then
          found('unique_contested', id, unique_key, false)
        else
          if mends then
            call('HSET', unique, unique_key, id)
          end
          found('unique_not_held', id, unique_key, mends)
        end
      end
    end
  end
elseif look == 'lanes' then
  for at = 4, #args, 2 do
    if cost > walks then
      break
    end
    out[1] = out[1] + 1
    local seen, group = args[at], args[at + 1]
    local lane = is_lane(group) and lane_at(group)
    local due = lane and lane.served and 1 or 0
    if lane == nil then
      found('lane_broken', group, 'type', false)
    end
    if seen ~= tostring(due) then
      cost = cost + turning
      local times = #call('LPOS', ring, group, 'COUNT', '2')
      if times ~= due then
        local kind = times == 0 and 'lane_missing' or due == 0 and 'lane_stray' or 'lane_twice'
        found(kind, group, tostring(times), mends)
        if mends and times > 0 then
          leaves_ring(group)
        end
        if mends and due == 1 then
          turning = call('RPUSH', ring, group)
          rouse()
        end
      end
    end

    -- A ceiling or a weight that is no number counts as none, so it may go.
    local limit, weight = call('HGET', glimit, group), call('HGET', gweight, group)
    if limit and not find(limit, '^[1-9]%d*$') then
      local mended = mends and (tonumber(limit) or 0) == 0
      if mended then
        call('HDEL', glimit, group)
      end
      found('lane_fact', group, 'glimit ' .. limit, mended)
    end
    if weight and not find(weight, '^[1-9]%d*$') then
      local mended = mends and (tonumber(weight) or 1) <= 1
      if mended then
        call('HDEL', gweight, group)
      end
      found('lane_fact', group, 'gweight ' .. weight, mended)
    end
  end
elseif look == 'leases' then
  local flying = call('ZCARD', active)
  if flying > 4000 then
    found('leases_uncounted', 'active', tostring(flying), false)
  else
    local job, counts, groups, known = base .. 'job:', {}, {}, 0
    -- One command reads them all, at a third of the time; a user without rights on every key, and a
    -- cluster, may be denied it.
    local read = pcall('SORT_RO', active, 'BY', 'nosort', 'GET', job .. '*->state',
      'GET', job .. '*->group')
    if read.err then
      read = {}
      local ids = call('ZRANGE', active, '0', '-1')
      for i = 1, #ids do
        local fields = pcall('HMGET', job .. ids[i], 'state', 'group')
        read[2 * i - 1], read[2 * i] = fields[1] or false, fields[2] or false
      end
    end
    for i = 1, #read, 2 do
      local group = read[i + 1]
      if read[i] == 'active' and group and group ~= '' then
        if not counts[group] then
          counts[group], groups[#groups + 1] = 0, group
        end
        counts[group] = counts[group] + 1
      end
    end
    local faults = {}
    for at = 1, #groups, 500 do
      local fields = call('HMGET', gactive, unpack(groups, at, math.min(at + 499, #groups)))
      for i = 1, #fields do
        local group, field = groups[at + i - 1], fields[i]
        known = field and known + 1 or known
        if field ~= tostring(counts[group]) then
          faults[#faults + 1] = { group, counts[group], field }
        end
      end
    end
    -- Fields of lanes without leases, looked for only when there are any.
    local others, cursor, pages = call('HLEN', gactive) - known, '0', 0
    while others > 0 and pages < 20 and #faults < 1000 do
      local page = call('HSCAN', gactive, cursor, 'COUNT', '500')
      cursor, pages = page[1], pages + 1
      for i = 1, #page[2], 2 do
        local group = page[2][i]
        if not counts[group] then
          counts[group] = 0
          faults[#faults + 1] = { group, 0, page[2][i + 1] }
        end
      end
      if cursor == '0' then
        others = 0
      end
    end
    out[1] = mends and (others > 0 or #faults > 1000) and 1 or 0
    for i = 1, math.min(#faults, 1000) do
      local group, count, field = faults[i][1], faults[i][2], faults[i][3]
      if cost > walks then
        out[1] = 1
        break
      end
      found('lease_count', group, count .. ' ' .. (field or ''), mends)
      if mends then
        local lane = lane_at(group)
        if count > 0 then
          call('HSET', gactive, group, tostring(count))
        else
          call('HDEL', gactive, group)
        end
        if lane then
          settle(group, lane.served)
        end
      end
    end
  end
elseif look == 'unique' then
  for at = 4, #args do
    out[1] = out[1] + 1
    local key = args[at]
    local holder = call('HGET', unique, key)
    if holder and pcall('HGET', base .. 'job:' .. holder, 'unique') ~= key then
      if mends then
        call('HDEL', unique, key)
      end
      found('unique_without_owner', key, holder, mends)
    end
  end
else
  local fields = call('HLEN', meta) <= 64 and call('HGETALL', meta) or {}
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    local sane, mended = false, mends
    if field == 'paused' then
      sane = value == '1'
    elseif field == 'left' then
      sane = find(value, '^%d+$')
    elseif field == 'spent' then
      -- A lane that left the ring has no share to go on with.
      local group = string.match(value, '^(.*)|[1-9]%d*$')
      local lane = group and is_lane(group) and lane_at(group)
      sane = lane and lane.served
    else
      mended = false
    end
    if not sane then
      if mended and field == 'paused' then
        call('HSET', meta, 'paused', '1')
      elseif mended then
        call('HDEL', meta, field)
      end
      found('meta_field', field, value, mended)
    end
  end
  if tokens > 64 then
    if mends then
      call('LTRIM', wake, '0', '63')
    end
    found('wake_over', 'wake', tostring(tokens), mends)
  end
  out[1] = ''
  local head = call('ZRANGE', pending, '0', '0')[1]
  if tokens == 0 and not facts[1] and (head or turning > 0) then
    local group, first = call('LINDEX', ring, '0'), nil
    if group then
      first = pcall('ZRANGE', base .. 'g:' .. group .. ':pending', '0', '0')[1]
    end
    out[1] = (head or '') .. '|' .. (group or '') .. '|' .. (first or '')
    if out[1] == args[4] then
      found('wake_missing', 'wake', '', mends)
      if mends then
        call('RPUSH', wake, '1')
      end
    end
  end
end
return out
