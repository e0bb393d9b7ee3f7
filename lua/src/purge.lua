#!lua flags=allow-oom
-- Empty the morgue from its oldest end, all of it or what was minted before an id.
-- KEYS[1] emq:{q}:dead      zset, score 0
-- KEYS[2] emq:{q}:unique    hash, unique key -> the id that holds it
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] before_id         only ids below it in byte order; empty: all
-- ARGV[3] limit             1..1000 jobs
-- DERIVED emq:{q}:job:<id>  the rows of the dead ids
-- CLOCK   none
-- RETURNS the count removed; 0: nothing is left to purge
-- REFUSES EMQARG EMQLIMIT
-- LEAVES  no trace of the jobs removed
local call = redis.call
local dead, unique = KEYS[1], KEYS[2]
local base, before_id, limit = ARGV[1], ARGV[2], ARGV[3]
if #KEYS ~= 2 or #ARGV ~= 3 or (before_id ~= '' and #before_id ~= 14) then
  return redis.error_reply('EMQARG purge takes 2 keys and 3 arguments, before_id 14 bytes or none')
end
-- @include limit_1000.lua

local ids
if before_id == '' then
  ids = call('ZRANGE', dead, '0', limit - 1)
else
  ids = call('ZRANGE', dead, '-', '(' .. before_id, 'BYLEX', 'LIMIT', '0', limit)
end
if #ids == 0 then
  return 0
end
local rows, owned, wanted = {}, {}, 'dead'
for i = 1, #ids do
  local id = ids[i]
  -- @include owned_row.lua
end
call('ZREM', dead, unpack(ids))
-- @include rows_gone.lua
return #ids
