--! The table's next revision, in microseconds of the server's clock: it rises, and a table that was
--! deleted and made anew doesn't repeat one. Expects `call`, `timetable`; sets `now`, `rev_next`.
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
rev_next = time[1] * 1000000 + time[2]
local rev_last = tonumber(call('HGET', timetable, ':rev')) or 0
if rev_next <= rev_last then
  rev_next = rev_last + 1
end
rev_next = string.format('%.0f', rev_next)
