--! The lane gave its job: it stays at the ring's head while its weight lasts, goes to the tail when
--! its turn is over, and leaves when it isn't serviceable any more.
counted[group] = out + 1
if spent_lane == group then
  spent = spent + 1
else
  spent_lane, spent = group, 1
end
local stays = more and (not ceiling or out + 1 < ceiling)
if not stays or spent >= share then
  spent_lane = nil
  if not stays then
    head, turning = head + 1, turning - 1
  elseif turning > 1 then
    head, n_tail = head + 1, n_tail + 1
    tail[n_tail] = group
    if guess then
      n_guessed = n_guessed + 1
      guessed[n_guessed] = group
    end
  end
  -- The flat set, which counts as one more lane, is due when left is 0, and after one turn of a ring
  -- that got shorter meanwhile.
  if flat > 0 and left > 0 then
    left = math.min(left, stays and turning or turning + 1) - 1
  end
end
