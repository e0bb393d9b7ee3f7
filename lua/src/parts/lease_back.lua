--! The writes that belong to lease_back_look: the lane's count, and its place in the ring.
if leases > 1 then
  call('HSET', gactive, group, string.format('%.0f', leases - 1))
else
  call('HDEL', gactive, group)
end
if reopens then
  call('RPUSH', ring, group)
end
