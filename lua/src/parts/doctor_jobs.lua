--! Each job is in the one set that its row's state tells, and its row is whole.
local homes = { pending = 'pending', active = 'active', scheduled = 'schedule', dead = 'dead' }
local states = { pending = 'pending', active = 'active', schedule = 'scheduled', dead = 'dead' }
for at = 4, #args, 2 do
  if cost > walks then
    break
  end
  out[1] = out[1] + 1
  local hint, id = args[at], args[at + 1]
  local row = base .. 'job:' .. id
  local width = pcall('HLEN', row)
  local is_row = type(width) == 'number'
  local state, group, attempts, unique_key, broken
  if is_row and width > 0 then
    -- @include doctor_row.lua
  elseif not is_row then
    broken = 'type'
  end

  -- Where it is: in fixed sets, in its own lane, in the lane where it was seen.
  local places, scores, own = {}, {}, group and 'g:' .. group
  for i = 1, 4 do
    local score = call('ZSCORE', sets[i], id)
    if score then
      places[#places + 1], scores[names[i]] = names[i], score
    end
  end
  for i = 1, 2 do
    local name = i == 1 and group or i == 2 and hint ~= '' and hint ~= group and hint
    local score = name and pcall('ZSCORE', base .. 'g:' .. name .. ':pending', id)
    if type(score) == 'string' then
      places[#places + 1], scores['g:' .. name] = 'g:' .. name, score
    end
  end

  if broken then
    local known = #places == 1 and (places[1] == own and 'pending' or states[places[1]])
    local mended = mends and broken == 'state' and known
    if mended then
      call('HSET', row, 'state', known)
    end
    found('row_broken', id, broken, mended)
  elseif width == 0 then
    if #places > 0 then
      found('set_without_row', id, table.concat(places, ' '), mends)
    end
    for i = 1, mends and #places or 0 do
      leave(places[i], id)
    end
  else
    -- @include doctor_home.lua
    -- @include doctor_holds.lua
  end
end
