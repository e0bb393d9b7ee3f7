--! The ring is due: `id` is the next of the lane `group` at its head; `more` whether others wait
--! behind it, `guess` whether that is only supposed. A lane that isn't serviceable (a torn past)
--! leaves instead.
if not lap and head > read and read < size then
  -- @include turn_ring_page.lua
end
if lap then
  group = lap[head]
elseif head <= read then
  group = order[head]
end
if not group then
  lap, tail, n_tail, head = tail, {}, 0, 1
  group = lap[1]
end

out, ceiling, share = counted[group], tops[group], shares[group] or 1
local key = keys[group]
if not key then
  key = base .. 'g:' .. group .. ':pending'
  keys[group] = key
  -- One job is all that it gives before the others had their turn. Most lanes have more: that is
  -- found out for all of them at once.
  if share == 1 and turning > 1 and turning >= claim - claimed
    and (not ceiling or out < ceiling) then
    id = pcall('ZPOPMIN', key)[1]
    more, guess = id, id
  end
end
if not id then
  local gone = taken[group] or 0
  if gone + 2 > (known[group] or 0) then
    -- As many as it may give in this call, and the one behind them.
    local want = share
    if turning < claim - claimed then
      want = share * math.ceil((claim - claimed) / turning)
    end
    want = math.min(want, claim - claimed)
    local ids = pcall('ZRANGE', key, gone, gone + want)
    heads[group], skips[group] = ids, gone
    known[group] = #ids > want and gone + #ids or math.huge
  end
  id = heads[group][gone - skips[group] + 1]
  if id and (not ceiling or out < ceiling) then
    more = heads[group][gone - skips[group] + 2]
    taken[group] = gone + 1
  else
    id, head, turning, dropped = nil, head + 1, turning - 1, n_guessed > 0
    if spent_lane == group then
      spent_lane = nil
    end
  end
end
