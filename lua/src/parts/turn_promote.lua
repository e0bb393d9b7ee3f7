--! Promote, as promote.lua does. A job whose lane is under a key of another type stays where it is.
local ids = call('ZRANGE', schedule, '-inf', format('%.0f', now), 'BYSCORE',
  'LIMIT', '0', promote)
local gone, rows, returned, laned, lanes = {}, {}, {}, {}, {}
for i = 1, #ids do
  local id = ids[i]
  local row = job .. id
  local fields = pcall('HMGET', row, 'state', 'group')
  local group, taken = fields[2], true
  if fields[1] == 'scheduled' and group then
    -- @include turn_lane.lua
    taken = lane
    if lane then
      rows[#rows + 1] = row
      laned[#laned + 1] = { id, lane }
    end
  elseif fields[1] == 'scheduled' then
    rows[#rows + 1] = row
    returned[#returned + 1] = '0'
    returned[#returned + 1] = id
  end
  if taken then
    gone[#gone + 1] = id
  end
end

if #returned > 0 then
  call('ZADD', pending, unpack(returned))
end
if #gone > 0 then
  call('ZREM', schedule, unpack(gone))
end
local runnable, entering = #returned / 2, {}
for i = 1, #laned do
  local id, lane = laned[i][1], laned[i][2]
  call('ZADD', lane.key, '0', id)
  lane.depth = lane.depth + 1
  -- @include lane_serves.lua
  if lane.served then
    runnable = runnable + 1
  end
end
for i = 1, #rows do
  call('HSET', rows[i], 'state', 'pending')
end
n_promoted = #rows
-- @include turn_entered.lua
first_due = tonumber(call('ZRANGE', schedule, '0', '0', 'WITHSCORES')[2])
