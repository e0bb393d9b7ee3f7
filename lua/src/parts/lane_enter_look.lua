--! A job is about to enter a lane. Only a first job can make the lane serviceable; and whether
--! the job is runnable matters only while no token stands. Reads. Expects `call`, `base`, `group`,
--! `tokens` and the keys `ring`, `paused`, `glimit`, `gactive`; sets `lane`, `enters`, `runnable`.
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
