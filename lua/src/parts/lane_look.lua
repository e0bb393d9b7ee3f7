--! A lane as it stands. Reads. Expects `call`, `base`, `group` and the keys `ring`, `paused`,
--! `glimit`, `gactive`; sets `lane`, `depth`, `leases`, `ceiling`, `parked`, `served` (whether
--! the lane is serviceable, so in the ring). The length is read only to be sure of the type.
local lane = base .. 'g:' .. group .. ':pending'
local depth = call('ZCARD', lane)
local leases = tonumber(call('HGET', gactive, group)) or 0
local ceiling = tonumber(call('HGET', glimit, group)) or 0
local parked = call('SISMEMBER', paused, group) == 1
local served = depth > 0 and not parked and (ceiling == 0 or leases < ceiling)
call('LLEN', ring)
