--! Complete, as complete.lua does for a job in flight; one that sits elsewhere is left to
--! turn_alone.
local fields = pcall('HMGET', row, 'state', 'attempts', 'holder', 'group', 'unique')
local state, group, unique_key = fields[1], fields[4], fields[5]
if not state then
  verdict = 0
elseif fields[2] == token and (fields[3] or '') == holder then
  if state ~= 'active' then
    alone = fields
  else
    verdict = 1
    n_out, n_rows = n_out + 1, n_rows + 1
    out[n_out], rows[n_rows] = id, row
    if group then
      n_freed = n_freed + 1
      freed[n_freed], freed_ids[n_freed] = group, id
    end
    if unique_key and call('HGET', unique, unique_key) == id then
      n_owned = n_owned + 1
      owned[n_owned] = unique_key
    end
  end
end
