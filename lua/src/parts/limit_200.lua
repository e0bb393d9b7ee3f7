--! Expects `limit` as given.
if not string.find(limit, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG limit must be an integer from 1 to 200')
end
if tonumber(limit) > 200 then
  return redis.error_reply('EMQLIMIT a call moves at most 200 jobs; call again for more')
end
