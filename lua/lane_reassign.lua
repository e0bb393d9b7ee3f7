#!lua flags=allow-oom
-- Move a job, or the oldest jobs of a backlog, to another lane or to the flat set.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:wake      list, wake tokens
-- KEYS[3] emq:{q}:ring      list, the serviceable lanes
-- KEYS[4] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[5] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[6] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[7] emq:{q}:meta      hash, spent (lane|k)
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                the job, or empty: the backlog of from
-- ARGV[3] from              the lane of the backlog, or empty: the flat set; empty with an id
-- ARGV[4] group             the lane to move to, or empty: the flat set
-- ARGV[5] limit             1..200 jobs of a backlog
-- DERIVED emq:{q}:job:<id>  the rows of the jobs
-- DERIVED emq:{q}:g:<group>:pending  the two lanes
-- CLOCK   none
-- RETURNS a job: 1 moved | 2 it was there | 0 no row; a backlog: the count that left it, 0: it is
--         empty
-- REFUSES EMQARG EMQLIMIT EMQSTATE
-- LEAVES  the row's group, whatever its state; a pending id in the new lane or pending only; both
--         lanes in the ring exactly when serviceable; a token in wake for each job that became
--         runnable, up to 64
local call, find = redis.call, string.find
local pending, wake, ring, paused = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local glimit, gactive, meta = KEYS[5], KEYS[6], KEYS[7]
local base, id, from, group, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if #KEYS ~= 7 or #ARGV ~= 5 or (id ~= '' and (#id ~= 14 or from ~= '')) then
  return redis.error_reply('EMQARG lane_reassign takes 7 keys, 5 arguments; an id (14) or a backlog')
end
if group ~= '' then
  if #group ~= 14 or not string.find(group, '^[A-Z][A-Z][A-Z][0-9][0-9A-Za-z]+$') then
    local name, what = group, 'group'
    local wrong = #name ~= 14 or not string.find(name, '^[A-Z][A-Z][A-Z][0-9A][0-9A-Za-z]+$')
    for i = 4, wrong and 0 or 14 do
      local digit, most = string.byte(name, i), string.byte('...AzL8n0Y58m7', i)
      if digit ~= most then
        wrong = digit > most
        break
      end
    end
    if wrong then
      return redis.error_reply('EMQARG ' .. what .. ' must be a branded id, up to AzL8n0Y58m7')
    end
  end
end
if from ~= '' and (#from ~= 14 or not find(from, '^[A-Z][A-Z][A-Z][0-9A-Za-z]+$')) then
  return redis.error_reply('EMQARG from must be a branded id: 14 bytes, or empty')
end
if id == '' and from == group then
  return redis.error_reply('EMQARG a backlog can not move to where it is')
end
if not string.find(limit, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG limit must be an integer from 1 to 200')
end
if tonumber(limit) > 200 then
  return redis.error_reply('EMQLIMIT a call moves at most 200 jobs; call again for more')
end

if id ~= '' then
  local row = base .. 'job:' .. id
  local fields = call('HMGET', row, 'state', 'group')
  local state = fields[1]
  from = fields[2] or ''
  if not state then
    return 0
  end
  if from == group then
    return 2
  end
  if state == 'active' then
    return redis.error_reply('EMQSTATE the job is leased; reassign it when it is back')
  end
  if state ~= 'pending' then
    -- It enters its lane when it is promoted or requeued.
    if group ~= '' then
      call('HSET', row, 'group', group)
    else
      call('HDEL', row, 'group')
    end
    return 1
  end
end

-- Everything is read before the first write. An id whose row is missing or says that it sits
-- elsewhere (a torn past) is dropped.
local lanes, source, target = {}, false, false
if group ~= '' then
  local lane = lanes[group]
  if not lane then
    lane = { group = group, key = base .. 'g:' .. group .. ':pending' }
    lane.depth = call('ZCARD', lane.key)
    lane.leases = tonumber(call('HGET', gactive, group)) or 0
    lane.ceiling = tonumber(call('HGET', glimit, group)) or 0
    lane.parked = call('SISMEMBER', paused, group) == 1
    lane.served = lane.depth > 0 and not lane.parked
      and (lane.ceiling == 0 or lane.leases < lane.ceiling)
    lanes[group] = lane
  end
  target = lane
end
if from ~= '' then
  local group = from
  local lane = lanes[group]
  if not lane then
    lane = { group = group, key = base .. 'g:' .. group .. ':pending' }
    lane.depth = call('ZCARD', lane.key)
    lane.leases = tonumber(call('HGET', gactive, group)) or 0
    lane.ceiling = tonumber(call('HGET', glimit, group)) or 0
    lane.parked = call('SISMEMBER', paused, group) == 1
    lane.served = lane.depth > 0 and not lane.parked
      and (lane.ceiling == 0 or lane.leases < lane.ceiling)
    lanes[group] = lane
  end
  source = lane
end
call('ZCARD', pending)
local ids = { id }
if id == '' then
  ids = call('ZRANGE', source and source.key or pending, '0', limit - 1)
end
local rows, adds = {}, {}
for i = 1, #ids do
  local row = base .. 'job:' .. ids[i]
  local fields = redis.pcall('HMGET', row, 'state', 'group')
  if fields[1] == 'pending' and (fields[2] or '') == from then
    rows[#rows + 1] = row
    adds[#adds + 1] = '0'
    adds[#adds + 1] = ids[i]
  end
end
if #ids == 0 then
  return 0
end
local tokens, spent = call('LLEN', wake), call('HGET', meta, 'spent')
call('LLEN', ring)

local left = call('ZREM', source and source.key or pending, unpack(ids))
if source and source.served and left == source.depth then
  call('LREM', ring, '1', from)
  if spent and string.sub(spent, 1, 15) == from .. '|' then
    call('HDEL', meta, 'spent')
  end
end
local runnable, entering = 0, {}
if #rows > 0 then
  call('ZADD', target and target.key or pending, unpack(adds))
  for i = 1, #rows do
    if target then
      call('HSET', rows[i], 'group', group)
    else
      call('HDEL', rows[i], 'group')
    end
  end
  if target then
    local lane = target
    lane.depth = lane.depth + #rows
    local enters = not lane.served and lane.depth > 0 and not lane.parked
      and (lane.ceiling == 0 or lane.leases < lane.ceiling)
    if enters then
      lane.served = true
      entering[#entering + 1] = lane.group
    end
  end
  local waited = left == 0 or (source and not source.served)
  if waited and (not target or target.served) then
    runnable = #rows
  end
end
if #entering > 0 then
  call('RPUSH', ring, unpack(entering))
end
for _ = tokens + 1, math.min(runnable, 64) do
  call('RPUSH', wake, '1')
end
return id ~= '' and 1 or #ids
