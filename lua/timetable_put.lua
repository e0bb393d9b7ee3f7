-- Put a schedule into the timetable: a new one, or another definition for a name that is there.
-- KEYS[1] emq:{q}:timetable  hash, <name>:<field>; :rev; :mark:<mark> -> the name that has it
-- ARGV[1] name              1 to 128 bytes of A-Z, a-z, 0-9, . _ and -
-- ARGV[2] mark              0..2^22-1, the low bits of its jobs' ids, which no other may share
-- ARGV[3] timing            when it ticks, 1 to 1024 bytes
-- ARGV[4] options           a JSON object, at most 65536 bytes
-- ARGV[5] payload           of its jobs, opaque bytes
-- ARGV[6] next_ms           1..2^42, unix ms: its first tick, which must be to come
-- CLOCK   server
-- RETURNS {verdict, rev, next_ms, after_ms}: 1 new | 2 changed, a new timing starts at next_ms | 0
--         it was so already | -1 next_ms must be later than after_ms, nothing was written
-- REFUSES EMQARG EMQLIMIT EMQSTATE OOM
-- LEAVES  the definition under a new rev; a pause as it was; the next tick too, where the timing is
local call, find = redis.call, string.find
local timetable = KEYS[1]
local name, mark, timing, options = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local payload, next_ms = ARGV[5], ARGV[6]
if #KEYS ~= 1 or #ARGV ~= 6 then
  return redis.error_reply('EMQARG timetable_put takes 1 key and 6 arguments')
end
if #name > 128 or not find(name, '^[A-Za-z0-9._-]+$') then
  return redis.error_reply('EMQARG name must be 1 to 128 bytes of A-Z, a-z, 0-9, . _ and -')
end
if not find(mark, '^%d+$') or tonumber(mark) > 4194303 then
  return redis.error_reply('EMQARG mark must be an integer from 0 to 2^22-1')
end
if timing == '' or #timing > 1024 then
  return redis.error_reply('EMQARG timing must have 1 to 1024 bytes')
end
if string.sub(options, 1, 1) ~= '{' or #options > 65536 then
  return redis.error_reply('EMQARG options must be a JSON object of at most 65536 bytes')
end
if not find(next_ms, '^[1-9]%d*$') or tonumber(next_ms) > 4398046511104 then
  return redis.error_reply('EMQARG next_ms must be an integer from 1 to 2^42')
end
mark, next_ms = string.format('%.0f', tonumber(mark)), tonumber(next_ms)

local facts = call('HMGET', timetable, name .. ':rev', name .. ':next', name .. ':last',
  name .. ':timing', name .. ':options', name .. ':payload')
local owner = call('HGET', timetable, ':mark:' .. mark)
if owner and owner ~= name then
  return redis.error_reply('EMQSTATE ids of this name are those of another schedule: ' .. owner)
end
-- Nine fields each, and the table's rev.
if not facts[1] and call('HLEN', timetable) >= 9001 then
  return redis.error_reply('EMQLIMIT a queue has at most 1000 schedules')
end
local now, rev_next
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
rev_next = time[1] * 1000000 + time[2]
local rev_last = tonumber(call('HGET', timetable, ':rev')) or 0
if rev_next <= rev_last then
  rev_next = rev_last + 1
end
rev_next = string.format('%.0f', rev_next)
local stands, after = tonumber(facts[2]) or 0, math.max(now, tonumber(facts[3]) or 0)
local verdict = facts[1] and 2 or 1
if verdict == 2 and facts[4] == timing then
  if facts[5] == options and facts[6] == payload then
    return { 0, facts[1], stands, after }
  end
  next_ms = stands
elseif next_ms <= after then
  return { -1, facts[1] or '', stands, after }
end

-- The first write is one that a full server refuses, so it is refused whole.
call('HSET', timetable, ':rev', rev_next, name .. ':rev', rev_next,
  name .. ':next', string.format('%.0f', next_ms), name .. ':timing', timing,
  name .. ':options', options, name .. ':payload', payload)
if verdict == 1 then
  call('HSET', timetable, name .. ':last', '0', name .. ':paused', '0', name .. ':mark', mark,
    ':mark:' .. mark, name)
end
return { verdict, rev_next, next_ms, after }
