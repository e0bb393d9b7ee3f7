--! The lane of `group` as it stands, read once a call. Reads. Expects `call`, `base`, `group`,
--! `lanes` and the keys `paused`, `glimit`, `gactive`; sets `lane`.
local lane = lanes[group]
if not lane then
  lane = { group = group, key = base .. 'g:' .. group .. ':pending' }
  lane.depth = call('ZCARD', lane.key)
  lane.leases = tonumber(call('HGET', gactive, group)) or 0
  lane.ceiling = tonumber(call('HGET', glimit, group)) or 0
  lane.parked = call('SISMEMBER', paused, group) == 1
  lane.served = lane.depth > 0 and not lane.parked
    and (lane.ceiling == 0 or lane.leases < lane.ceiling)
  lanes[group] = lane
end
