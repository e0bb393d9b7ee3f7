--! One settle as its single script does it: complete of a job that sits elsewhere than in flight,
--! release into a lane. `alone` are the row's fields; all that was put off is written.
local group = alone[4]
if group and type(pcall('ZCARD', base .. 'g:' .. group .. ':pending')) ~= 'number' then
  verdict = -1
elseif verb == 'release' then
  -- @include lane_look.lua
  leases = leases - 1
  local runnable = not parked and (ceiling == 0 or leases < ceiling)
  call('ZREM', active, id)
  call('ZADD', lane, '0', id)
  if leases > 0 then
    call('HSET', gactive, group, format('%.0f', leases))
  else
    call('HDEL', gactive, group)
  end
  if runnable and not served then
    call('RPUSH', ring, group)
  end
  wakes = wakes or runnable
  call('HSET', row, 'state', 'pending',
    'forgiven', format('%.0f', (tonumber(alone[5]) or 0) + 1))
  if holder ~= '' then
    call('HDEL', row, 'holder')
  end
else
  local state, unique_key = alone[1], alone[5]
  -- @include waiting_gone.lua
  facts[2] = call('HGET', meta, 'spent')
  first_due = tonumber(call('ZRANGE', schedule, '0', '0', 'WITHSCORES')[2])
  flat = call('ZCARD', pending)
end
turning = call('LLEN', ring)
