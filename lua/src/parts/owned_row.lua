--! The row of `id` is to go when its state is `wanted`, with the unique key that it owns. Reads;
--! a row that says otherwise (a torn past) stays. Expects `call`, `base`, `rows`, `owned`, `unique`
--! and `wanted`.
local row = base .. 'job:' .. id
local fields = redis.pcall('HMGET', row, 'state', 'unique')
if fields[1] == wanted then
  rows[#rows + 1] = row
  if fields[2] and call('HGET', unique, fields[2]) == id then
    owned[#owned + 1] = fields[2]
  end
end
