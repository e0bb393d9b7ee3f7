--! The caller must hold the job. Expects `call`, `active`, `id`, `token`, `ticket` and `fields`,
--! which starts with state, attempts, holder.
if fields[1] ~= 'active' or fields[2] ~= token or (fields[3] or '') ~= ticket
  or not call('ZSCORE', active, id) then
  return redis.error_reply('EMQSTALE no live lease under this token and ticket; drop the result')
end
