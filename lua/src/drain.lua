#!lua flags=allow-oom
-- Empty a queue of what waits, flat and in every lane; what is in flight or dead stays.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[3] emq:{q}:ring      list, the serviceable lanes
-- KEYS[4] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[5] emq:{q}:glimit    not used: a lane at its ceiling has leases out
-- KEYS[6] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[7] emq:{q}:unique    hash, unique key -> the id that holds it
-- KEYS[8] emq:{q}:meta      hash, spent (lane|k)
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] scheduled         1: scheduled jobs go as well; 0: they stay
-- ARGV[3] limit             1..1000 jobs
-- DERIVED emq:{q}:job:<id>  the rows of the jobs
-- DERIVED emq:{q}:g:<group>:pending  the lanes that hold jobs
-- CLOCK   none
-- RETURNS the count removed; 0: nothing is left to drain
-- REFUSES EMQARG EMQLIMIT
-- LEAVES  no trace of the jobs removed; emptied lanes out of the ring
local call = redis.call
local pending, schedule, ring, paused = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local gactive, unique, meta = KEYS[6], KEYS[7], KEYS[8]
local base, scheduled, limit = ARGV[1], ARGV[2], ARGV[3]
if #KEYS ~= 8 or #ARGV ~= 3 or (scheduled ~= '0' and scheduled ~= '1') then
  return redis.error_reply('EMQARG drain takes 8 keys and 3 arguments, scheduled is 0 or 1')
end
-- @include limit_1000.lua

-- A take is a set and the ids that leave it. Everything is read before the first write.
local takes, room = {}, tonumber(limit)
local ids = call('ZRANGE', pending, '0', room - 1)
if #ids > 0 then
  takes[1] = { pending, ids, 'pending' }
  room = room - #ids
end
if scheduled == '1' and room > 0 then
  ids = call('ZRANGE', schedule, '0', room - 1)
  if #ids > 0 then
    takes[#takes + 1] = { schedule, ids, 'scheduled' }
    room = room - #ids
  end
end

-- The lanes of the ring, from its head: those that are emptied are its first ones.
local emptied, seen, void = 0, {}, false
if room > 0 then
  local spent = call('HGET', meta, 'spent')
  local lanes = call('LRANGE', ring, '0', room - 1)
  for i = 1, #lanes do
    local group = lanes[i]
    seen[group] = true
    if room > 0 then
      -- @include lane_drained.lua
      if depth == #ids then
        emptied = i
        void = void or (spent and string.sub(spent, 1, 15) == group .. '|')
      end
    end
  end
end
-- A lane that holds jobs and isn't in the ring is parked, or at its ceiling with leases out.
local cursor = '0'
repeat
  local page = room > 0 and call('SSCAN', paused, cursor, 'COUNT', '500') or { '0', {} }
  local step, groups = 1, page[2]
  cursor = page[1]
  -- @include lanes_drained.lua
until cursor == '0'
repeat
  local page = room > 0 and call('HSCAN', gactive, cursor, 'COUNT', '500') or { '0', {} }
  local step, groups = 2, page[2]
  cursor = page[1]
  -- @include lanes_drained.lua
until cursor == '0'

local rows, owned, removed = {}, {}, 0
for t = 1, #takes do
  local wanted, taken = takes[t][3], takes[t][2]
  for i = 1, #taken do
    local id = taken[i]
    -- @include owned_row.lua
  end
end
for t = 1, #takes do
  call('ZREM', takes[t][1], unpack(takes[t][2]))
  removed = removed + #takes[t][2]
end
if emptied > 0 then
  call('LTRIM', ring, emptied, '-1')
  if void then
    call('HDEL', meta, 'spent')
  end
end
-- @include rows_gone.lua
return removed
