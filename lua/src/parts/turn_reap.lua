--! Reap, as reap.lua does. A job whose lane is under a key of another type stays where it is.
local ids = call('ZRANGE', active, '-inf', format('%.0f', now), 'BYSCORE', 'LIMIT', '0', reap)
local gone, back, buried, returned, laned, lanes = {}, {}, {}, {}, {}, {}
for i = 1, #ids do
  local id = ids[i]
  local row = job .. id
  local fields = pcall('HMGET', row, 'state', 'group', 'lost')
  local group, taken = fields[2], true
  if fields[1] == 'active' then
    local lost = (tonumber(fields[3]) or 0) + 1
    local to_dead = lost >= lost_cap
    if group then
      -- @include turn_lane.lua
      taken = lane
      if lane then
        laned[#laned + 1] = { id, lane, to_dead }
      end
    elseif not to_dead then
      returned[#returned + 1] = '0'
      returned[#returned + 1] = id
    end
    if taken and to_dead then
      buried[#buried + 1] = { row, lost, id }
    elseif taken then
      back[#back + 1] = { row, lost }
    end
  end
  if taken then
    gone[#gone + 1] = id
  end
end

if #returned > 0 then
  call('ZADD', pending, unpack(returned))
end
if #gone > 0 then
  call('ZREM', active, unpack(gone))
end
local runnable, entering = #returned / 2, {}
for i = 1, #laned do
  local id, lane, to_dead = laned[i][1], laned[i][2], laned[i][3]
  lane.leases = lane.leases - 1
  if not to_dead then
    call('ZADD', lane.key, '0', id)
    lane.depth = lane.depth + 1
  end
  -- @include lane_serves.lua
  if enters or (lane.served and not to_dead) then
    runnable = runnable + 1
  end
end
for group, lane in pairs(lanes) do
  if lane and lane.leases > 0 then
    call('HSET', gactive, group, format('%.0f', lane.leases))
  elseif lane then
    call('HDEL', gactive, group)
  end
end
for i = 1, #back do
  local job = back[i]
  call('HSET', job[1], 'state', 'pending', 'lost', format('%.0f', job[2]))
end
for i = 1, #buried do
  local job = buried[i]
  local lost = format('%.0f', job[2])
  call('ZADD', dead, '0', job[3])
  call('HSET', job[1], 'state', 'dead', 'lost', lost,
    'last_error', 'lost ' .. lost .. ' times: its lease ended before a settle came')
end
n_returned, n_buried = #back, #buried
-- @include turn_entered.lua
