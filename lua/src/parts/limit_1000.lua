--! Expects `limit` as given.
if not string.find(limit, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG limit must be an integer from 1 to 1000')
end
if tonumber(limit) > 1000 then
  return redis.error_reply('EMQLIMIT a call removes at most 1000 jobs; call again for more')
end
