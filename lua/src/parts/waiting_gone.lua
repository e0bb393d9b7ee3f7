--! A job that nobody holds is gone, with its unique key and its place in the ring. Expects `call`,
--! `base`, `id`, `row`, `state`, `group`, `unique_key` and the keys.
local owner = unique_key and call('HGET', unique, unique_key) == id
if state == 'scheduled' then
  call('ZREM', schedule, id)
elseif state == 'dead' then
  call('ZREM', dead, id)
elseif not group then
  call('ZREM', pending, id)
else
  -- @include lane_look.lua
  -- @include lane_take.lua
end
call('DEL', row)
if owner then
  call('HDEL', unique, unique_key)
end
