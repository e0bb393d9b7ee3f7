--! The counts and caps of a turn. Expects `claim`, `promote`, `reap`, `lost_cap` and `max_attempts`
--! as given; makes numbers of them.
if not find(claim, '^%d+$') or not find(promote, '^%d+$') or not find(reap, '^%d+$') then
  return redis.error_reply('EMQARG claim, promote and reap must be integers from 0 to 200')
end
if not find(lost_cap, '^[1-9]%d*$') or tonumber(lost_cap) > 2147483648 then
  return redis.error_reply('EMQARG lost_cap must be an integer from 1 to 2^31')
end
if not find(max_attempts, '^[1-9]%d*$') or tonumber(max_attempts) > 2147483648 then
  return redis.error_reply('EMQARG max_attempts must be an integer from 1 to 2^31')
end
claim, promote, reap = tonumber(claim), tonumber(promote), tonumber(reap)
lost_cap, max_attempts = tonumber(lost_cap), tonumber(max_attempts)
if claim > 200 or promote > 200 or reap > 200 then
  return redis.error_reply('EMQLIMIT a turn claims, promotes and reaps at most 200 jobs each')
end
