--! Expects `lease_ms` as given; makes a number of it.
if not string.find(lease_ms, '^[1-9]%d*$') or tonumber(lease_ms) > 1099511627776 then
  return redis.error_reply('EMQARG lease_ms must be an integer from 1 to 2^40')
end
lease_ms = tonumber(lease_ms)
