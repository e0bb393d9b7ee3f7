--! Claims over ring and flat set: each step serves one or the other exactly as lane_claim and claim
--! would, but lanes are read at once and what was taken leaves at the end.
local spent_lane, spent, left = nil, 0, tonumber(facts[3]) or 0
if facts[2] then
  spent_lane, spent = string.sub(facts[2], 1, 14), tonumber(string.sub(facts[2], 16)) or 0
end
local claimed, looks, n_jobs, leased = 0, claim + 100, 0, {}
-- The flat set: ids read, the place in them, and how many are taken from its head.
local flat_ids, flat_at, flat_taken = {}, 0, 0
-- The ring: how long it was, how many of its lanes are read, and they in order; per lane its jobs a
-- turn, where not one, and its key; of those that aren't popped the ids at the head from rank
-- `skips`, how many of the ranks are known, and how many ids are to leave.
local size, read, order, shares, keys = turning, 0, {}, {}, {}
local heads, skips, known, taken = {}, {}, {}, {}
-- The rotation: `lap` has the lanes still to come, nil while those are the ones as read; `head` is
-- the place in it; `tail` has those that had their turn, and of those `guessed` may be empty by now.
local lap, head, tail, n_tail = nil, 1, {}, 0
local guessed, n_guessed, dropped = {}, 0, false

while claimed < claim and looks > 0 do
  looks = looks - 1
  local id, group, more, guess, out, ceiling, share
  -- Before the ring's length counts, or a lane comes again.
  if n_guessed > 0 and (dropped or head > size or (flat > 0 and left == 0)) then
    -- @include turn_guessed.lua
  end
  if flat > 0 and (left == 0 or turning == 0) then
    -- @include turn_flat_step.lua
  elseif turning > 0 then
    -- @include turn_lane_step.lua
  else
    looks = 0
  end
  if id then
    local row = job .. id
    local fields = pcall('HMGET', row, 'state', 'attempts', 'payload', 'checkpoint', 'kind')
    -- An id whose row is missing or says that it sits elsewhere (a torn past) is dropped.
    if fields[1] == 'pending' and fields[3] then
      -- @include turn_row.lua
      if group then
        -- @include turn_lane_served.lua
      elseif turning > 0 then
        -- The flat set had its turn: the ring's come first now.
        left = turning
      end
    end
  end
end
if n_guessed > 0 then
  -- @include turn_guessed.lua
end
-- @include turn_claimed.lua
