--! The ring is due: `id` is the next of the lane `group`, its `j`th, at its head; `more` whether
--! others wait behind it. A lane that isn't serviceable, or that was in the ring before (a torn
--! past), leaves instead.
if not lap and head > read and read < size then
  local last = math.min(size, read + claim - claimed) - 1
  local names = call('LRANGE', ring, read, last)
  local outs = call('HMGET', gactive, unpack(names))
  local tops = limits > 0 and call('HMGET', glimit, unpack(names)) or {}
  local turns = weights > 0 and call('HMGET', gweight, unpack(names)) or {}
  if read == 0 then
    groups, leases, ceilings, shares = names, outs, tops, turns
  else
    for i = 1, #names do
      groups[read + i], leases[read + i] = names[i], outs[i]
      ceilings[read + i], shares[read + i] = tops[i], turns[i]
    end
  end
  read = last + 1
end
if lap then
  j = lap[head]
elseif head <= read then
  j = head
end
if not j then
  lap, tail, n_tail, head = tail, {}, 0, 1
  j = lap[1]
end

group = groups[j]
local key = keys[j]
out = leases[j] and tonumber(leases[j]) or 0
ceiling = ceilings[j] and tonumber(ceilings[j]) or 0
share = shares[j] and math.max(1, math.floor(tonumber(shares[j]) or 1)) or 1
if not key then
  key = base .. 'g:' .. group .. ':pending'
  keys[j], skips[j], known[j], taken[j] = key, 0, 0, 0
  -- A second look at the same lane would not know what the first one takes from it.
  if met[group] then
    heads[j], known[j] = {}, math.huge
  end
  met[group] = true
end
local gone = taken[j]
if gone + 2 > known[j] then
  -- As many as it may give in this call, and the one behind them.
  local want = claim - claimed
  if turning < want then
    want = share * math.ceil(want / turning)
  else
    want = share
  end
  want = math.min(want, claim - claimed)
  local ids = pcall('ZRANGE', key, gone, gone + want)
  heads[j], skips[j] = ids, gone
  known[j] = #ids > want and gone + #ids or math.huge
end
id = heads[j][gone - skips[j] + 1]
if id and (ceiling == 0 or out < ceiling) then
  more = heads[j][gone - skips[j] + 2]
  taken[j] = gone + 1
else
  id, head, turning = nil, head + 1, turning - 1
  if spent_lane == group then
    spent_lane = nil
  end
end
