#!lua flags=allow-oom
-- Pause a schedule, or resume it at a tick to come: what a pause passes over isn't made up.
-- KEYS[1] emq:{q}:timetable  hash, <name>:rev, next, last, paused; :rev
-- ARGV[1] name              1 to 128 bytes of A-Z, a-z, 0-9, . _ and -
-- ARGV[2] paused            1: pause; 0: resume
-- ARGV[3] rev               to resume, of the definition that the caller read; to pause, 0
-- ARGV[4] next_ms           to resume, the next tick, 1..2^42, unix ms, or 0: none; to pause, 0
-- CLOCK   server
-- RETURNS {verdict, rev, next_ms, after_ms}: 1 done | 0 it was so already; nothing was written: -1
--         next_ms must be later than after_ms | -2 no such schedule | -4 another rev
-- REFUSES EMQARG
-- LEAVES  paused as asked, under a new rev
local call, find = redis.call, string.find
local timetable = KEYS[1]
local name, paused, rev, next_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if #KEYS ~= 1 or #ARGV ~= 4 or (paused ~= '0' and paused ~= '1') then
  return redis.error_reply('EMQARG timetable_pause takes 1 key and 4 arguments, paused is 0 or 1')
end
if #name > 128 or not find(name, '^[A-Za-z0-9._-]+$') then
  return redis.error_reply('EMQARG name must be 1 to 128 bytes of A-Z, a-z, 0-9, . _ and -')
end
if not find(rev, '^%d+$') or #rev > 16 then
  return redis.error_reply('EMQARG rev must be an integer of up to 16 digits')
end
if not find(next_ms, '^%d+$') or tonumber(next_ms) > 4398046511104 then
  return redis.error_reply('EMQARG next_ms must be an integer from 0 to 2^42')
end
next_ms = tonumber(next_ms)

local facts = call('HMGET', timetable, name .. ':rev', name .. ':next', name .. ':last',
  name .. ':paused')
if not facts[1] then
  return { -2, '', 0, 0 }
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
if facts[4] == paused then
  return { 0, facts[1], stands, after }
elseif paused == '1' then
  next_ms = stands
elseif facts[1] ~= rev then
  return { -4, facts[1], stands, after }
elseif next_ms > 0 and next_ms <= after then
  return { -1, facts[1], stands, after }
end
call('HSET', timetable, ':rev', rev_next, name .. ':rev', rev_next, name .. ':paused', paused,
  name .. ':next', string.format('%.0f', next_ms))
return { 1, rev_next, next_ms, after }
