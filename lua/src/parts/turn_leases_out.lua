--! Counts of leases that changed are written: who reads gactive itself sees them.
local kept, none = {}, {}
for group, leases in pairs(counted) do
  if leases ~= stored[group] then
    if leases > 0 then
      kept[#kept + 1] = group
      kept[#kept + 1] = format('%.0f', leases)
    else
      none[#none + 1] = group
    end
  end
end
if #none > 0 then
  call('HDEL', gactive, unpack(none))
end
if #kept > 0 then
  call('HSET', gactive, unpack(kept))
end
counted, stored = {}, {}
