--! A row that has a unique key holds it.
local holder = unique_key and call('HGET', unique, unique_key)
if unique_key and holder ~= id then
  local contested = holder and pcall('HGET', base .. 'job:' .. holder, 'unique') == unique_key
  if contested then
    found('unique_contested', id, unique_key, false)
  else
    if mends then
      call('HSET', unique, unique_key, id)
    end
    found('unique_not_held', id, unique_key, mends)
  end
end
