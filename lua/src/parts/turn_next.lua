--! How long until time itself makes work. Sets `next_ms`.
local soonest, next_ms = tonumber(call('ZRANGE', active, '0', '0', 'WITHSCORES')[2]), -1
if first_due and (not soonest or first_due < soonest) then
  soonest = first_due
end
if soonest then
  next_ms = math.max(soonest - now, 0)
end
