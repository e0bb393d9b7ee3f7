--! A lane gets a lease back, its depth unchanged: only the step from the ceiling to one below
--! can make it serviceable. Reads. Expects `call`, `base`, `group`, the keys `ring`, `paused`,
--! `glimit`, `gactive`; sets `leases`, `reopens`. The ring's length is read for its type only.
leases = tonumber(call('HGET', gactive, group)) or 0
local ceiling = tonumber(call('HGET', glimit, group)) or 0
reopens = ceiling > 0 and leases == ceiling and call('SISMEMBER', paused, group) == 0
  and call('ZCARD', base .. 'g:' .. group .. ':pending') > 0
if reopens then
  call('LLEN', ring)
end
