--! The queue as it is, and proof that each fixed key is of its type. Reads. Sets `facts` of meta, the
--! lengths `turning`, `tokens`, `flat`, `limits` and `weights`, `first_due`, and `first_end` where
--! the call may need it before it writes. What many queues haven't got is asked for at once: a key
--! that isn't there is of no other type, and each that is there has a length above 0.
local facts = call('HMGET', meta, 'paused', 'spent', 'left')
local turning, tokens, flat = call('LLEN', ring), call('LLEN', wake), call('ZCARD', pending)
local first_due = tonumber(call('ZRANGE', schedule, '0', '0', 'WITHSCORES')[2])
local first_end
if reap > 0 or settled + extended == 0 then
  first_end = tonumber(call('ZRANGE', active, '0', '0', 'WITHSCORES')[2])
else
  call('ZCARD', active)
end
local limits, weights = 0, 0
local others = call('EXISTS', gactive, dead, unique, glimit, gweight, paused)
if others > 0 and call('HLEN', gactive) > 0 then
  others = others - 1
end
if others > 0 and call('ZCARD', dead) > 0 then
  others = others - 1
end
if others > 0 and call('HLEN', unique) > 0 then
  others = others - 1
end
if others > 0 then
  limits, weights = call('HLEN', glimit), call('HLEN', gweight)
  call('SCARD', paused)
end
