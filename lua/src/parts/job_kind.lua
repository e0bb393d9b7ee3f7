--! Policy of admission, once all arguments are known to be well formed. Expects `is_job`.
if not is_job then
  return redis.error_reply('EMQKIND a queue admits ids of kind JOB only')
end
