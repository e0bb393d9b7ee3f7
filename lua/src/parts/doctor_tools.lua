--! What the looks share. `found` notes a finding; `rouse` makes sure that a token stands;
--! `lane_at` is a lane as it stands, or nil when its key is of another type; `settle` keeps the
--! ring after a change of a lane that was served `before`; `enter` and `leave` move an id into and
--! out of a place.
local function found(kind, subject, detail, mended)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = kind, subject, detail, mended and 1 or 0
end

local function rouse()
  if tokens == 0 then
    call('RPUSH', wake, '1')
    tokens = 1
  end
end

local function is_lane(group)
  if #group ~= 14 or not find(group, '^[A-Z][A-Z][A-Z][0-9A][0-9A-Za-z]+$') then
    return false
  end
  for i = 4, 14 do
    local digit, most = string.byte(group, i), string.byte('...AzL8n0Y58m7', i)
    if digit ~= most then
      return digit < most
    end
  end
  return true
end

local function lane_at(group)
  local key = base .. 'g:' .. group .. ':pending'
  local depth = pcall('ZCARD', key)
  if type(depth) ~= 'number' then
    return nil
  end
  local leases = tonumber(call('HGET', gactive, group)) or 0
  local ceiling = tonumber(call('HGET', glimit, group)) or 0
  local open = call('SISMEMBER', paused, group) == 0 and (ceiling == 0 or leases < ceiling)
  return { key = key, open = open, served = open and depth > 0 }
end

local function leaves_ring(group)
  cost = cost + turning
  turning = turning - call('LREM', ring, '0', group)
  if facts[2] and string.sub(facts[2], 1, 15) == group .. '|' then
    call('HDEL', meta, 'spent')
    facts[2] = false
  end
end

local function settle(group, before)
  local lane = lane_at(group)
  if lane.served and not before then
    turning = call('RPUSH', ring, group)
    rouse()
  elseif before and not lane.served then
    leaves_ring(group)
  end
end

local function leave(place, id)
  local group = string.match(place, '^g:(.*)$')
  if group then
    local lane = lane_at(group)
    call('ZREM', lane.key, id)
    settle(group, lane.served)
  else
    call('ZREM', base .. place, id)
  end
end

local function enter(place, id)
  local group = string.match(place, '^g:(.*)$')
  if group then
    local lane = lane_at(group)
    call('ZADD', lane.key, '0', id)
    if lane.open then
      rouse()
    end
    settle(group, lane.served)
  elseif place == 'pending' then
    call('ZADD', pending, '0', id)
    rouse()
  elseif place == 'dead' then
    call('ZADD', dead, '0', id)
  elseif place == 'active' then
    -- Its lease is over now, so that the reaper takes it back.
    call('ZADD', active, now, id)
  else
    local due = now
    local earliest
    -- @include earliest.lua
    call('ZADD', schedule, due, id)
    if earliest then
      rouse()
    end
  end
end
