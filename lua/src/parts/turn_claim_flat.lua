--! Claims while the ring is empty: the oldest of the flat set, exactly as claim would. An id that is
--! alone is popped: one call fewer, of which a claim of one job has few.
local claimed, looks, n_jobs, leased, group = 0, claim + 100, 0, {}, nil
while claimed < claim and looks > 0 and flat > 0 do
  local want, ids, met = math.min(claim - claimed, looks, flat), nil, nil
  if want == 1 then
    ids = call('ZPOPMIN', pending)
    met = #ids / 2
  else
    ids = call('ZRANGE', pending, '0', want - 1)
    met = #ids
    if met > 0 then
      call('ZREMRANGEBYRANK', pending, '0', met - 1)
    end
  end
  for i = 1, met do
    local id = ids[i]
    local row = job .. id
    local fields = pcall('HMGET', row, 'state', 'attempts', 'payload', 'checkpoint', 'kind')
    -- An id whose row is missing or says that it sits elsewhere (a torn past) is dropped.
    if fields[1] == 'pending' and fields[3] then
      -- @include turn_row.lua
    end
  end
  flat, looks = flat - met, met > 0 and looks - met or 0
end
if claimed > 0 then
  call('ZADD', active, unpack(leased, 1, 2 * claimed))
end
