--! A lane is in the ring once when it is serviceable, and else not at all. The ring is walked only
--! for a lane that wasn't seen in it as often as it should be.
for at = 4, #args, 2 do
  if cost > walks then
    break
  end
  out[1] = out[1] + 1
  local seen, group = args[at], args[at + 1]
  local lane = is_lane(group) and lane_at(group)
  local due = lane and lane.served and 1 or 0
  if lane == nil then
    found('lane_broken', group, 'type', false)
  end
  if seen ~= tostring(due) then
    cost = cost + turning
    local times = #call('LPOS', ring, group, 'COUNT', '2')
    if times ~= due then
      local kind = times == 0 and 'lane_missing' or due == 0 and 'lane_stray' or 'lane_twice'
      found(kind, group, tostring(times), mends)
      if mends and times > 0 then
        leaves_ring(group)
      end
      if mends and due == 1 then
        turning = call('RPUSH', ring, group)
        rouse()
      end
    end
  end

  -- A ceiling or a weight that is no number counts as none, so it may go.
  local limit, weight = call('HGET', glimit, group), call('HGET', gweight, group)
  if limit and not find(limit, '^[1-9]%d*$') then
    local mended = mends and (tonumber(limit) or 0) == 0
    if mended then
      call('HDEL', glimit, group)
    end
    found('lane_fact', group, 'glimit ' .. limit, mended)
  end
  if weight and not find(weight, '^[1-9]%d*$') then
    local mended = mends and (tonumber(weight) or 1) <= 1
    if mended then
      call('HDEL', gweight, group)
    end
    found('lane_fact', group, 'gweight ' .. weight, mended)
  end
end
