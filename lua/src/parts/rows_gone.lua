--! The writes that belong to owned_row.
if #rows > 0 then
  call('DEL', unpack(rows))
end
if #owned > 0 then
  call('HDEL', unique, unpack(owned))
end
