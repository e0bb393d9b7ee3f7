--! The lanes of `freed` get their leases back, in order, as in lease_back_look and lease_back; a
--! job that was not in flight (a torn past) gives none. Sets `entering`.
local live = call('ZMSCORE', active, unpack(freed_ids, 1, n_freed))
local names, n_names = {}, 0
for i = 1, n_freed do
  local group = freed[i]
  if not counted[group] then
    counted[group], n_names = 0, n_names + 1
    names[n_names] = group
  end
end
if n_names > 0 then
  -- @include turn_meet.lua
end
for i = 1, n_freed do
  if live[i] then
    local group = freed[i]
    local leases = counted[group]
    if leases == tops[group] and call('SISMEMBER', paused, group) == 0 then
      local depth = pcall('ZCARD', base .. 'g:' .. group .. ':pending')
      if type(depth) == 'number' and depth > 0 then
        entering[#entering + 1] = group
      end
    end
    counted[group] = leases > 0 and leases - 1 or 0
  end
end
