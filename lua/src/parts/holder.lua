--! The arguments of a settle by the job's holder. Expects `find`, `id`, `token`.
if #id ~= 14 or not find(token, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG id must be 14 bytes and token an integer from 1')
end
