--! Lanes that gave one job were supposed to have more: those that are empty leave the ring.
local names = {}
for i = 1, n_guessed do
  names[i] = keys[guessed[i]]
end
local full = call('EXISTS', unpack(names, 1, n_guessed))
if full < n_guessed then
  local empty, n_kept = {}, 0
  for i = 1, n_guessed do
    if full == 0 or call('EXISTS', names[i]) == 0 then
      empty[guessed[i]], turning = true, turning - 1
    end
  end
  for i = 1, n_tail do
    local group = tail[i]
    tail[i] = nil
    if not empty[group] then
      n_kept = n_kept + 1
      tail[n_kept] = group
    end
  end
  n_tail = n_kept
end
n_guessed, dropped = 0, false
