--! Release, as release.lua does for a flat job; one of a lane is left to turn_alone.
local fields = pcall('HMGET', row, 'state', 'attempts', 'holder', 'group', 'forgiven')
if fields[1] == 'active' and fields[2] == token and (fields[3] or '') == holder
  and call('ZSCORE', active, id) then
  if fields[4] then
    alone = fields
  else
    verdict, wakes, flat = 1, true, flat + 1
    n_out = n_out + 1
    out[n_out] = id
    back[#back + 1] = '0'
    back[#back + 1] = id
    call('HSET', row, 'state', 'pending',
      'forgiven', format('%.0f', (tonumber(fields[5]) or 0) + 1))
    if holder ~= '' then
      call('HDEL', row, 'holder')
    end
  end
end
