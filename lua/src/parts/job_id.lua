--! An admitted id is a branded one; `is_job` says whether of kind JOB. What starts with a lower
--! digit than the highest id needs no second look. Expects `find`, `id`.
local is_job = #id == 14 and find(id, '^JOB[0-9][0-9A-Za-z]+$')
if not is_job then
  local name, what = id, 'id'
  -- @include branded_id.lua
  is_job = string.sub(id, 1, 3) == 'JOB'
end
