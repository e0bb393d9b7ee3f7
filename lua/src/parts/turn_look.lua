--! The queue as it is, and proof that each fixed key is of its type. Reads. Sets `facts` of meta, the
--! lengths `flat`, `turning`, `tokens`, `limits` and `weights`, `first_due`, and `first_end` where
--! the call may need it before it writes. A key that isn't there is of no other type, and one that
--! is has a length above 0: so how many are there is asked first, and then one by one, those that
--! most queues have before the others, until as many were met.
local there = call('EXISTS', unpack(KEYS))
local flat, turning, tokens, limits, weights = 0, 0, 0, 0, 0
local first_end, first_due, facts = nil, nil, {}
if there > 0 then
  flat = call('ZCARD', pending)
  there = flat > 0 and there - 1 or there
end
if there > 0 and (reap > 0 or settled + extended == 0) then
  first_end = tonumber(call('ZRANGE', active, '0', '0', 'WITHSCORES')[2])
  there = first_end and there - 1 or there
elseif there > 0 and call('ZCARD', active) > 0 then
  there = there - 1
end
if there > 0 then
  turning = call('LLEN', ring)
  there = turning > 0 and there - 1 or there
end
if there > 0 and call('HLEN', gactive) > 0 then
  there = there - 1
end
if there > 0 then
  tokens = call('LLEN', wake)
  there = tokens > 0 and there - 1 or there
end
if there > 0 and call('ZCARD', dead) > 0 then
  there = there - 1
end
if there > 0 then
  first_due = tonumber(call('ZRANGE', schedule, '0', '0', 'WITHSCORES')[2])
  there = first_due and there - 1 or there
end
if there > 0 then
  facts = call('HMGET', meta, 'paused', 'spent', 'left')
  there = (facts[1] or facts[2] or facts[3]) and there - 1 or there
end
if there > 0 and call('HLEN', unique) > 0 then
  there = there - 1
end
if there > 0 then
  limits, weights = call('HLEN', glimit), call('HLEN', gweight)
  call('SCARD', paused)
end
