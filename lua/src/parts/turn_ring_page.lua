--! The next lanes of the ring, as many as there are claims left.
local last = math.min(size, read + claim - claimed) - 1
local page = call('LRANGE', ring, read, last)
local names, n_names = {}, 0
for i = 1, #page do
  local group = page[i]
  if not counted[group] then
    counted[group], n_names = 0, n_names + 1
    names[n_names] = group
  end
end
if n_names > 0 then
  -- @include turn_meet.lua
end
if weights > 0 then
  local turns = call('HMGET', gweight, unpack(page))
  for i = 1, #page do
    shares[page[i]] = turns[i] and math.max(1, math.floor(tonumber(turns[i]) or 1))
  end
end
if read == 0 then
  order = page
else
  for i = 1, #page do
    order[read + i] = page[i]
  end
end
read = last + 1
