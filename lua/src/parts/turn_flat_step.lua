--! The flat set is due: `id` is its next.
flat_at = flat_at + 1
id = flat_ids[flat_at]
if not id then
  local want = claim - claimed
  if turning > 0 then
    want = math.floor(want / (turning + 1)) + 1
  end
  flat_ids = call('ZRANGE', pending, flat_taken, flat_taken + want - 1)
  flat_at, id = 1, flat_ids[1]
end
if id then
  flat, flat_taken = flat - 1, flat_taken + 1
else
  flat = 0
end
