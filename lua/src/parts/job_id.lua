--! Policy of admission: a branded id, of kind JOB. Expects `find`, `id`.
if #id ~= 14 or not find(id, '^JOB[0-9A-Za-z]+$') then
  if #id == 14 and find(id, '^[A-Z][A-Z][A-Z][0-9A-Za-z]+$') then
    return redis.error_reply('EMQKIND a queue admits ids of kind JOB only')
  end
  return redis.error_reply('EMQARG id must be a branded id: 14 bytes')
end
