--! What the settles before this point put off.
if n_out > 0 then
  local entering = {}
  if n_freed > 0 then
    -- @include turn_leases_back.lua
  end
  call('ZREM', active, unpack(out, 1, n_out))
  if n_rows > 0 then
    call('DEL', unpack(rows, 1, n_rows))
  end
  if n_owned > 0 then
    call('HDEL', unique, unpack(owned, 1, n_owned))
  end
  if #later > 0 then
    call('ZADD', schedule, unpack(later))
  end
  if #buried > 0 then
    call('ZADD', dead, unpack(buried))
  end
  if #back > 0 then
    call('ZADD', pending, unpack(back))
  end
  if #entering > 0 then
    call('RPUSH', ring, unpack(entering))
    turning, wakes = turning + #entering, true
  end
end
