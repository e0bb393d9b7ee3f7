-- Admit the job of a schedule's tick, or pass ticks over; what comes next is set in the same step.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:wake      list, wake tokens
-- KEYS[3] emq:{q}:ring      list, the serviceable lanes
-- KEYS[4] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[5] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[6] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[7] emq:{q}:unique    hash, unique key -> the id that holds it
-- KEYS[8] emq:{q}:timetable  hash, <name>:rev, next, last, paused
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] name              the schedule's, 1 to 128 bytes of A-Z, a-z, 0-9, . _ and -
-- ARGV[3] rev               of the definition that the caller read
-- ARGV[4] next_ms           1..2^42, unix ms: the tick that comes next, as the caller read it
-- ARGV[5] from_ms           next_ms..2^42, unix ms: not before; with an id, the tick itself
-- ARGV[6] until_ms          0..2^42, unix ms: not from then on; 0: no such bound
-- ARGV[7] following_ms      0..2^42, unix ms, over next_ms: what comes next then; 0: nothing
-- ARGV[8] id                the tick's job, of kind JOB; or empty: the ticks are passed over
-- ARGV[9] payload           opaque bytes
-- ARGV[10] group            the lane's branded id, or empty: flat
-- ARGV[11..] pairs          field and value, of kind, headers, max_attempts (1..2^31), unique
-- DERIVED emq:{q}:job:<id>  the job's row
-- DERIVED emq:{q}:g:<group>:pending  its lane
-- CLOCK   server
-- RETURNS {verdict, next_ms, now_ms, holder}: 1 admitted | 2 passed over | 3 the row was there |
--         4 holder has the unique key; the schedule moved on. 0 no such schedule | -1 too early |
--         -2 too late | -3 another tick is next | -4 another rev | -5 paused; nothing was written
-- REFUSES EMQARG EMQKIND OOM
-- LEAVES  next = following_ms; an admitted id in pending or its lane only, the lane in the ring and
--         a token in wake when serviceable
local call, find = redis.call, string.find
local pending, wake, ring, paused = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local glimit, gactive, unique, timetable = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local base, name, rev, next_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local from_ms, until_ms, following_ms = ARGV[5], ARGV[6], ARGV[7]
local id, payload, group = ARGV[8], ARGV[9], ARGV[10]
if #KEYS ~= 8 or #ARGV < 10 then
  return redis.error_reply('EMQARG tick takes 8 keys, 10 arguments and pairs')
end
if #name > 128 or not find(name, '^[A-Za-z0-9._-]+$') then
  return redis.error_reply('EMQARG name must be 1 to 128 bytes of A-Z, a-z, 0-9, . _ and -')
end
if not find(rev, '^[1-9]%d*$') or #rev > 16 then
  return redis.error_reply('EMQARG rev must be a positive integer of up to 16 digits')
end
local times = { next_ms, from_ms, until_ms, following_ms }
for i = 1, 4 do
  if not find(times[i], '^%d+$') or tonumber(times[i]) > 4398046511104 then
    return redis.error_reply('EMQARG times must be integers up to 2^42')
  end
  times[i] = tonumber(times[i])
end
local due, from, late, following = times[1], times[2], times[3], times[4]
if due < 1 or from < due or (late > 0 and late <= from) or (following > 0 and following <= due) then
  return redis.error_reply('EMQARG times must rise: next_ms, from_ms, until_ms; following_ms')
end
local names_job = true
if id ~= '' then
  local is_job = #id == 14 and find(id, '^JOB[0-9][0-9A-Za-z]+$')
  if not is_job then
    local name, what = id, 'id'
    local wrong = #name ~= 14 or not string.find(name, '^[A-Z][A-Z][A-Z][0-9A][0-9A-Za-z]+$')
    for i = 4, wrong and 0 or 14 do
      local digit, most = string.byte(name, i), string.byte('...AzL8n0Y58m7', i)
      if digit ~= most then
        wrong = digit > most
        break
      end
    end
    if wrong then
      return redis.error_reply('EMQARG ' .. what .. ' must be a branded id, up to AzL8n0Y58m7')
    end
    is_job = string.sub(id, 1, 3) == 'JOB'
  end
  names_job = is_job
end
if group ~= '' then
  if #group ~= 14 or not string.find(group, '^[A-Z][A-Z][A-Z][0-9][0-9A-Za-z]+$') then
    local name, what = group, 'group'
    local wrong = #name ~= 14 or not string.find(name, '^[A-Z][A-Z][A-Z][0-9A][0-9A-Za-z]+$')
    for i = 4, wrong and 0 or 14 do
      local digit, most = string.byte(name, i), string.byte('...AzL8n0Y58m7', i)
      if digit ~= most then
        wrong = digit > most
        break
      end
    end
    if wrong then
      return redis.error_reply('EMQARG ' .. what .. ' must be a branded id, up to AzL8n0Y58m7')
    end
  end
end
local first, last, unique_key = 11, #ARGV, false
if last >= first then
  if (last - first) % 2 == 0 or last - first > 7 then
    return redis.error_reply('EMQARG options must be pairs of a field and its value')
  end
  local given = {}
  for i = first, last, 2 do
    local field, value = ARGV[i], ARGV[i + 1]
    if field ~= 'kind' and field ~= 'headers' and field ~= 'max_attempts'
      and field ~= 'unique' then
      return redis.error_reply('EMQARG an option must be kind, headers, max_attempts or unique')
    end
    if value == '' or given[field] then
      return redis.error_reply('EMQARG an option must be given once and not empty: ' .. field)
    end
    given[field] = true
    if field == 'unique' then
      unique_key = value
    elseif field == 'max_attempts' then
      if not find(value, '^[1-9]%d*$') or tonumber(value) > 2147483648 then
        return redis.error_reply('EMQARG max_attempts must be an integer from 1 to 2^31')
      end
    end
  end
end
local is_job = names_job
if not is_job then
  return redis.error_reply('EMQKIND a queue admits ids of kind JOB only')
end

local now
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
local facts = call('HMGET', timetable, name .. ':rev', name .. ':next', name .. ':paused')
local stands = tonumber(facts[2]) or 0
if not facts[1] then
  return { 0, 0, now, '' }
elseif facts[1] ~= rev then
  return { -4, stands, now, '' }
elseif facts[3] ~= '0' then
  return { -5, stands, now, '' }
elseif stands ~= due then
  return { -3, stands, now, '' }
elseif now < from then
  return { -1, stands, now, '' }
elseif late > 0 and now >= late then
  return { -2, stands, now, '' }
end

local row, tokens = base .. 'job:' .. id, call('LLEN', wake)
local verdict, holder = 1, false
if id == '' then
  verdict = 2
elseif call('EXISTS', row) == 1 then
  verdict = 3
elseif unique_key then
  holder = call('HGET', unique, unique_key)
  if holder and holder ~= id then
    verdict = 4
  end
end
local set, enters, runnable = pending, false, true
if verdict == 1 and group == '' then
  call('ZCARD', pending)
elseif verdict == 1 then
  local lane = base .. 'g:' .. group .. ':pending'
  local depth = call('ZCARD', lane)
  if depth == 0 or tokens == 0 then
    local ceiling = tonumber(call('HGET', glimit, group)) or 0
    runnable = call('SISMEMBER', paused, group) == 0
      and (ceiling == 0 or (tonumber(call('HGET', gactive, group)) or 0) < ceiling)
    enters = runnable and depth == 0
    if enters then
      call('LLEN', ring)
    end
  end
  set = lane
end

-- The first write is one that a full server refuses, so it is refused whole.
call('HSET', timetable, name .. ':next', string.format('%.0f', following))
if verdict == 1 or verdict == 3 then
  call('HSET', timetable, name .. ':last', string.format('%.0f', from))
end
if verdict ~= 1 then
  return { verdict, following, now, verdict == 4 and holder or '' }
end
call('ZADD', set, '0', id)
if group == '' then
  call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', payload, unpack(ARGV, 11))
else
  call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', payload, 'group', group,
    unpack(ARGV, 11))
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
return { 1, following, now, '' }
