#!lua flags=allow-oom
-- Take a schedule out of the timetable; the jobs of its ticks stay.
-- KEYS[1] emq:{q}:timetable  hash, <name>:<field>; :rev; :mark:<mark> -> the name that has it
-- ARGV[1] name              1 to 128 bytes of A-Z, a-z, 0-9, . _ and -
-- CLOCK   server
-- RETURNS 1 gone | 0 no such schedule
-- REFUSES EMQARG
-- LEAVES  no field of the schedule, and no key when it was the last one
local call, find = redis.call, string.find
local timetable = KEYS[1]
local name = ARGV[1]
if #KEYS ~= 1 or #ARGV ~= 1 then
  return redis.error_reply('EMQARG timetable_remove takes 1 key and 1 argument')
end
-- @include schedule_name.lua
local mark = call('HGET', timetable, name .. ':mark')
if not mark then
  return 0
end
local now, rev_next
-- @include next_revision.lua
call('HDEL', timetable, ':mark:' .. mark, name .. ':rev', name .. ':next', name .. ':last',
  name .. ':paused', name .. ':mark', name .. ':timing', name .. ':options', name .. ':payload')
if call('HLEN', timetable) <= 1 then
  call('DEL', timetable)
else
  call('HSET', timetable, ':rev', rev_next)
end
return 1
