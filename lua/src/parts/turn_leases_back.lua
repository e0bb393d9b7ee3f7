--! The lanes of `freed` get their leases back, in order, as in lease_back_look and lease_back; a
--! job that was not in flight (a torn past) gives none. Sets `entering`.
local live = call('ZMSCORE', active, unpack(freed_ids, 1, n_freed))
local names, place, n_names = {}, {}, 0
for i = 1, n_freed do
  local group = freed[i]
  if not place[group] then
    n_names = n_names + 1
    names[n_names], place[group] = group, n_names
  end
end
local counts = call('HMGET', gactive, unpack(names, 1, n_names))
local ceilings = limits > 0 and call('HMGET', glimit, unpack(names, 1, n_names)) or {}
for i = 1, n_freed do
  if live[i] then
    local group = freed[i]
    local k = place[group]
    local leases = tonumber(counts[k]) or 0
    local ceiling = ceilings[k] and tonumber(ceilings[k]) or 0
    if ceiling > 0 and leases == ceiling and call('SISMEMBER', paused, group) == 0 then
      local depth = pcall('ZCARD', base .. 'g:' .. group .. ':pending')
      if type(depth) == 'number' and depth > 0 then
        entering[#entering + 1] = group
      end
    end
    counts[k] = leases > 0 and leases - 1 or 0
  end
end
local kept, none = {}, {}
for k = 1, n_names do
  local leases = counts[k]
  if leases == 0 then
    none[#none + 1] = names[k]
  elseif type(leases) == 'number' then
    kept[#kept + 1] = names[k]
    kept[#kept + 1] = format('%.0f', leases)
  end
end
if #none > 0 then
  call('HDEL', gactive, unpack(none))
end
if #kept > 0 then
  call('HSET', gactive, unpack(kept))
end
