#!lua flags=allow-oom
-- Take a paused queue down, step by step: its jobs, then everything that is known of it.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[3] emq:{q}:schedule  zset, score = run-at, unix ms
-- KEYS[4] emq:{q}:dead      zset, score 0
-- KEYS[5] emq:{q}:wake      list, wake tokens
-- KEYS[6] emq:{q}:ring      list, the serviceable lanes
-- KEYS[7] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[8] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[9] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[10] emq:{q}:gweight  hash, lane -> jobs a turn
-- KEYS[11] emq:{q}:unique   hash, unique key -> the id that holds it
-- KEYS[12] emq:{q}:meta     hash, paused, spent (lane|k)
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] force             1: jobs in flight go as well; 0: they are a refusal
-- ARGV[3] limit             1..1000 jobs
-- DERIVED emq:{q}:job:<id>  the rows of the jobs
-- DERIVED emq:{q}:g:<group>:pending  the lanes that hold jobs
-- CLOCK   none
-- RETURNS {removed, left}: the count of jobs; 1: call again | 0: no key of the queue is left
-- REFUSES EMQARG EMQLIMIT EMQSTATE
-- LEAVES  no trace of the jobs removed; the queue paused until its last key goes, in one step
local call = redis.call
local pending, active, schedule, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local wake, ring, paused, glimit = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local gactive, gweight, unique, meta = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local base, force, limit = ARGV[1], ARGV[2], ARGV[3]
if #KEYS ~= 12 or #ARGV ~= 3 or (force ~= '0' and force ~= '1') then
  return redis.error_reply('EMQARG obliterate takes 12 keys and 3 arguments, force is 0 or 1')
end
if not string.find(limit, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG limit must be an integer from 1 to 1000')
end
if tonumber(limit) > 1000 then
  return redis.error_reply('EMQLIMIT a call removes at most 1000 jobs; call again for more')
end
local facts = call('HMGET', meta, 'paused', 'spent')
if not facts[1] then
  if call('EXISTS', unpack(KEYS)) == 0 then
    return { 0, 0 }
  end
  return redis.error_reply('EMQSTATE only a paused queue can go; pause it first')
end
local flying = call('ZCARD', active)
if flying > 0 and force == '0' then
  return redis.error_reply('EMQSTATE jobs are in flight; wait for their settles, or force it')
end

-- A take is a set and the ids that leave it. Everything is read before the first write. A lane is
-- found where every lane with jobs is known: in the ring, among the parked, or by its leases out.
-- `cleared` has the lanes that were looked at, and whether they are empty after this.
local takes, room, cleared, voids = {}, tonumber(limit), {}, false
local sets = { pending, schedule, dead }
for s = 1, 3 do
  local ids = room > 0 and call('ZRANGE', sets[s], '0', room - 1) or {}
  if #ids > 0 then
    takes[#takes + 1] = { sets[s], ids }
    room = room - #ids
  end
end
local ids, emptied, unparked, freed = {}, 0, {}, {}
if room > 0 then
  local lanes = call('LRANGE', ring, '0', room - 1)
  for i = 1, #lanes do
    local group = lanes[i]
    if cleared[group] == nil and room > 0 then
      local lane = base .. 'g:' .. group .. ':pending'
      local depth = call('ZCARD', lane)
      ids = {}
      if depth > 0 then
        ids = call('ZRANGE', lane, '0', room - 1)
        takes[#takes + 1] = { lane, ids, 'pending' }
        room = room - #ids
      end
      cleared[group] = depth == #ids
    end
    if cleared[group] and emptied == i - 1 then
      emptied = i
      voids = voids or (facts[2] and string.sub(facts[2], 1, 15) == group .. '|')
    end
  end
end
if room > 0 then
  local lanes = call('SRANDMEMBER', paused, limit)
  for i = 1, #lanes do
    local group = lanes[i]
    if cleared[group] == nil and room > 0 then
      local lane = base .. 'g:' .. group .. ':pending'
      local depth = call('ZCARD', lane)
      ids = {}
      if depth > 0 then
        ids = call('ZRANGE', lane, '0', room - 1)
        takes[#takes + 1] = { lane, ids, 'pending' }
        room = room - #ids
      end
      cleared[group] = depth == #ids
    end
    if cleared[group] then
      unparked[#unparked + 1] = group
    end
  end
end
local flight, back = {}, {}
if room > 0 and flying > 0 then
  local leased = call('ZRANGE', active, '0', room - 1)
  for i = 1, #leased do
    local group = redis.pcall('HGET', base .. 'job:' .. leased[i], 'group')
    if type(group) == 'string' then
      if cleared[group] == nil and room > 0 then
        local lane = base .. 'g:' .. group .. ':pending'
        local depth = call('ZCARD', lane)
        ids = {}
        if depth > 0 then
          ids = call('ZRANGE', lane, '0', room - 1)
          takes[#takes + 1] = { lane, ids, 'pending' }
          room = room - #ids
        end
        cleared[group] = depth == #ids
      end
      if cleared[group] and room > 0 then
        back[group] = (back[group] or 0) + 1
      end
    else
      group = false
    end
    if room > 0 and (not group or cleared[group]) then
      flight[#flight + 1] = leased[i]
      room = room - 1
    end
  end
  if #flight > 0 then
    takes[#takes + 1] = { active, flight }
  end
elseif room > 0 then
  -- No lease is out, so none of these is true (a torn past).
  local lanes = call('HRANDFIELD', gactive, limit)
  for i = 1, #lanes do
    local group = lanes[i]
    if cleared[group] == nil and room > 0 then
      local lane = base .. 'g:' .. group .. ':pending'
      local depth = call('ZCARD', lane)
      ids = {}
      if depth > 0 then
        ids = call('ZRANGE', lane, '0', room - 1)
        takes[#takes + 1] = { lane, ids, 'pending' }
        room = room - #ids
      end
      cleared[group] = depth == #ids
    end
    if cleared[group] then
      freed[#freed + 1] = group
    end
  end
end

local rows, owned, counts, removed = {}, {}, {}, 0
for t = 1, #takes do
  local taken = takes[t][2]
  for i = 1, #taken do
    local row = base .. 'job:' .. taken[i]
    local unique_key = redis.pcall('HGET', row, 'unique')
    if type(unique_key) == 'string' and call('HGET', unique, unique_key) == taken[i] then
      owned[#owned + 1] = unique_key
    end
    rows[#rows + 1] = row
  end
  removed = removed + #taken
end
for group in pairs(back) do
  counts[group] = tonumber(call('HGET', gactive, group)) or 0
end

for t = 1, #takes do
  call('ZREM', takes[t][1], unpack(takes[t][2]))
end
if emptied > 0 then
  call('LTRIM', ring, emptied, '-1')
  if voids then
    call('HDEL', meta, 'spent')
  end
end
if #unparked > 0 then
  call('SREM', paused, unpack(unparked))
end
for group, ended in pairs(back) do
  if counts[group] > ended then
    call('HSET', gactive, group, string.format('%.0f', counts[group] - ended))
  else
    call('HDEL', gactive, group)
  end
end
if #freed > 0 then
  call('HDEL', gactive, unpack(freed))
end
if #rows > 0 then
  call('DEL', unpack(rows))
end
if #owned > 0 then
  call('HDEL', unique, unpack(owned))
end
if call('EXISTS', pending, active, schedule, dead, ring, paused, gactive) > 0 then
  return { removed, 1 }
end
-- Nothing waits anywhere: these are its last keys.
call('UNLINK', wake, glimit, gweight, unique, meta)
return { removed, 0 }
