--! What the claims took leaves where it was, all at once.
if claimed > 0 then
  call('ZADD', active, unpack(leased, 1, 2 * claimed))
end
if flat_taken > 0 then
  call('ZREMRANGEBYRANK', pending, '0', flat_taken - 1)
end
for group, gone in pairs(taken) do
  call('ZREMRANGEBYRANK', keys[group], '0', gone - 1)
end

local passed = lap and size or head - 1
if passed > 0 then
  local back, n_back = {}, 0
  while lap and lap[head] do
    n_back = n_back + 1
    back[n_back], head = lap[head], head + 1
  end
  for i = 1, n_tail do
    back[n_back + i] = tail[i]
  end
  n_back = n_back + n_tail
  call('LTRIM', ring, passed, '-1')
  if n_back > 0 then
    call('RPUSH', ring, unpack(back, 1, n_back))
  end
end

local interrupted = spent_lane and spent_lane .. '|' .. format('%.0f', spent)
if interrupted and interrupted ~= facts[2] then
  if left ~= (tonumber(facts[3]) or 0) then
    call('HSET', meta, 'spent', interrupted, 'left', format('%.0f', left))
  else
    call('HSET', meta, 'spent', interrupted)
  end
else
  if facts[2] and not interrupted then
    call('HDEL', meta, 'spent')
  end
  if left ~= (tonumber(facts[3]) or 0) then
    call('HSET', meta, 'left', format('%.0f', left))
  end
end
