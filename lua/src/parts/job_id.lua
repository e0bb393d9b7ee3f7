--! Policy of admission: a branded id, of kind JOB. Expects `find`, `id`.
if not find(id, '^JOB%w%w%w%w%w%w%w%w%w%w%w$') then
  if find(id, '^%u%u%u%w%w%w%w%w%w%w%w%w%w%w$') then
    return redis.error_reply('EMQKIND a queue admits ids of kind JOB only')
  end
  return redis.error_reply('EMQARG id must be a branded id: 14 bytes')
end
