--! The row's own state decides where the job belongs.
local home = state == 'pending' and own or homes[state]
local at_home, strays = false, {}
for i = 1, #places do
  if places[i] == home then
    at_home = true
  else
    strays[#strays + 1] = places[i]
  end
end
local mended = mends and (home ~= own or not group or lane_at(group) ~= nil)
if not at_home and #strays == 0 then
  found('row_without_set', id, state, mended)
elseif not at_home then
  found('state_disagrees', id, state .. ' ' .. table.concat(places, ' '), mended)
elseif #strays > 0 then
  found('two_sets', id, table.concat(places, ' '), mended)
elseif (home == 'pending' or home == 'dead' or home == own) and scores[home] ~= '0' then
  -- The order by mint time hangs on it.
  found('score', id, scores[home] .. ' ' .. home, mends)
  if mends then
    call('ZADD', base .. (home == own and home .. ':pending' or home), '0', id)
  end
end
if mended then
  if not at_home then
    enter(home, id)
  end
  for i = 1, #strays do
    leave(strays[i], id)
  end
end
