--! The end of a batch. Expects `call`, `ring`, `wake`, `entering`, `runnable`, `tokens` (the
--! length of `wake`): tokens are pushed until it is the least of `runnable` and 64.
if #entering > 0 then
  call('RPUSH', ring, unpack(entering))
end
for _ = tokens + 1, math.min(runnable, 64) do
  call('RPUSH', wake, '1')
end
