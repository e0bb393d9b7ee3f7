--! A unique key is held by a job whose row says so.
for at = 4, #args do
  out[1] = out[1] + 1
  local key = args[at]
  local holder = call('HGET', unique, key)
  if holder and pcall('HGET', base .. 'job:' .. holder, 'unique') ~= key then
    if mends then
      call('HDEL', unique, key)
    end
    found('unique_without_owner', key, holder, mends)
  end
end
