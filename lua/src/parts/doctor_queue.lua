--! The facts of the whole queue, and whether someone must be woken. That work waits and no token
--! stands may mean that a worker is on its way; so a mark of the work's head is answered, and only
--! when a later look finds the same head is the wake lost.
local fields = call('HLEN', meta) <= 64 and call('HGETALL', meta) or {}
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  local sane, mended = false, mends
  if field == 'paused' then
    sane = value == '1'
  elseif field == 'left' then
    sane = find(value, '^%d+$')
  elseif field == 'spent' then
    -- A lane that left the ring has no share to go on with.
    local group = string.match(value, '^(.*)|[1-9]%d*$')
    local lane = group and is_lane(group) and lane_at(group)
    sane = lane and lane.served
  else
    mended = false
  end
  if not sane then
    if mended and field == 'paused' then
      call('HSET', meta, 'paused', '1')
    elseif mended then
      call('HDEL', meta, field)
    end
    found('meta_field', field, value, mended)
  end
end
if tokens > 64 then
  if mends then
    call('LTRIM', wake, '0', '63')
  end
  found('wake_over', 'wake', tostring(tokens), mends)
end
out[1] = ''
local head = call('ZRANGE', pending, '0', '0')[1]
if tokens == 0 and not facts[1] and (head or turning > 0) then
  local group, first = call('LINDEX', ring, '0'), nil
  if group then
    first = pcall('ZRANGE', base .. 'g:' .. group .. ':pending', '0', '0')[1]
  end
  out[1] = (head or '') .. '|' .. (group or '') .. '|' .. (first or '')
  if out[1] == args[4] then
    found('wake_missing', 'wake', '', mends)
    if mends then
      call('RPUSH', wake, '1')
    end
  end
end
