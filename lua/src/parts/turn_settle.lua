--! The settles of a turn, in order. What touches the sets is put off and written for all at once;
--! where an item needs to see that (the job again, or one that sits elsewhere than in flight), it
--! is written first, and the item is settled alone.
at = 9
local n_settled, wakes, run, verb, holder = 0, false, 0, nil, nil
while at < extends_at do
  local seen, alone, n_out, n_rows, n_owned, n_freed = {}, nil, 0, 0, 0, 0
  local out, rows, owned, freed, freed_ids = {}, {}, {}, {}, {}
  local back, buried, later = {}, {}, {}
  while at < extends_at do
    if run == 0 then
      verb, holder, run = args[at], args[at + 1], tonumber(args[at + 2])
      at = at + 3
    end
    local id, token = args[at], args[at + 1]
    if seen[id] then
      break
    end
    seen[id] = true
    local row, verdict = job .. id, -1
    if verb == 'complete' then
      -- @include turn_complete.lua
    elseif verb == 'retry' then
      -- @include turn_retry.lua
    else
      -- @include turn_release.lua
    end
    if alone then
      break
    end
    n_settled, run = n_settled + 1, run - 1
    verdicts[n_settled] = verdict
    at = at + (verb == 'retry' and 5 or 2)
  end
  -- @include turn_flush.lua
  if alone then
    -- @include turn_leases_out.lua
    local id, verdict = args[at], 1
    local row = job .. id
    -- @include turn_alone.lua
    n_settled, run = n_settled + 1, run - 1
    verdicts[n_settled] = verdict
    at = at + 2
  end
end
if wakes and tokens == 0 then
  call('RPUSH', wake, '1')
  tokens = 1
end
