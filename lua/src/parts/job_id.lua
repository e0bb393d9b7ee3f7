--! An admitted id is a branded one; `is_job` says whether of kind JOB. Expects `find`, `id`.
local is_job = #id == 14 and find(id, '^JOB[0-9A-Za-z]+$')
if not is_job and (#id ~= 14 or not find(id, '^[A-Z][A-Z][A-Z][0-9A-Za-z]+$')) then
  return redis.error_reply('EMQARG id must be a branded id: 14 bytes')
end
