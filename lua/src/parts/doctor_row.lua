--! The fields of a row: none is empty but the payload, and those that every job has are there.
--! Sets `state`, `group`, `attempts`, `unique_key` and `broken`.
local whole = false
if width <= 64 then
  local given = call('HKEYS', row)
  for i = 1, #given do
    local field = given[i]
    if field == 'payload' then
      whole = true
    elseif field ~= 'state' and field ~= 'attempts' and call('HSTRLEN', row, field) == 0 then
      if mends then
        call('HDEL', row, field)
      end
      found('empty_field', id, field, mends)
    end
  end
end
local fields = call('HMGET', row, 'state', 'group', 'attempts', 'unique')
state, attempts = fields[1], fields[3]
group = fields[2] ~= '' and fields[2]
unique_key = fields[4] ~= '' and fields[4]
if width > 64 then
  broken = 'fields'
elseif not whole then
  broken = 'payload'
elseif not attempts or not find(attempts, '^%d+$') then
  broken = 'attempts'
elseif group and not is_lane(group) then
  broken, group = 'group', nil
elseif not homes[state or ''] then
  broken = 'state'
end
