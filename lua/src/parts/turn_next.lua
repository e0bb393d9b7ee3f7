--! How long until time itself makes work. Sets `next_ms`. Claims only add leases; where others may
--! have ended or moved, the set is asked again.
local soonest, next_ms = first_end, -1
if reaps or settled + extended > 0 then
  soonest = tonumber(call('ZRANGE', active, '0', '0', 'WITHSCORES')[2])
elseif jobs[1] and not (soonest and soonest < now + lease_ms) then
  soonest = now + lease_ms
end
if first_due and (not soonest or first_due < soonest) then
  soonest = first_due
end
if soonest then
  next_ms = math.max(soonest - now, 0)
end
