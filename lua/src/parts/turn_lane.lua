--! As lane_of, but after writes: under a key of another type there is no lane, and `lane` is false.
local lane = lanes[group]
if lane == nil then
  lane = { group = group, key = base .. 'g:' .. group .. ':pending' }
  lane.depth = pcall('ZCARD', lane.key)
  if type(lane.depth) == 'number' then
    lane.leases = tonumber(call('HGET', gactive, group)) or 0
    lane.ceiling = tonumber(call('HGET', glimit, group)) or 0
    lane.parked = call('SISMEMBER', paused, group) == 1
    lane.served = lane.depth > 0 and not lane.parked
      and (lane.ceiling == 0 or lane.leases < lane.ceiling)
  else
    lane = false
  end
  lanes[group] = lane
end
