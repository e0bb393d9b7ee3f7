--! The row of a claimed job. Expects `call`, `row`, `token`, `ticket` and `fields`, whose fifth is
--! the last holder.
if ticket ~= '' then
  call('HSET', row, 'state', 'active', 'attempts', string.format('%.0f', token), 'holder', ticket)
else
  call('HSET', row, 'state', 'active', 'attempts', string.format('%.0f', token))
  if fields[5] then
    call('HDEL', row, 'holder')
  end
end
