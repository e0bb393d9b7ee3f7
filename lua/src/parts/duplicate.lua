--! A durable resend has a write to wait for. Expects `call`, `row`, `durable`.
if durable == '1' then
  local state = call('HGET', row, 'state')
  if state then
    call('HSET', row, 'state', state)
  end
end
