#!lua flags=allow-oom
-- Take back jobs whose lease expired: to pending, or to the morgue when lost too often.
-- KEYS[1] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[2] emq:{q}:pending   zset, score 0
-- KEYS[3] emq:{q}:dead      zset, score 0
-- KEYS[4] emq:{q}:wake      list, wake tokens
-- KEYS[5] emq:{q}:ring      list, the serviceable lanes
-- KEYS[6] emq:{q}:paused    set, lanes parked by an operator
-- KEYS[7] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[8] emq:{q}:gactive   hash, lane -> leases out
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] limit             1..200 jobs
-- ARGV[3] lost_cap          1..2^31, the loss that buries a job
-- DERIVED emq:{q}:job:<id>  the rows of the expired ids
-- DERIVED emq:{q}:g:<group>:pending  their lanes
-- CLOCK   server
-- RETURNS {returned, buried}
-- REFUSES EMQARG EMQLIMIT
-- LEAVES  each of them in pending, its lane or dead only, lost + 1, holder kept; no lease of theirs
--         counted; a token in wake for each runnable one, up to 64
local call, format = redis.call, string.format
local active, pending, dead, wake, ring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local paused, glimit, gactive = KEYS[6], KEYS[7], KEYS[8]
local base, limit, lost_cap = ARGV[1], ARGV[2], ARGV[3]
if #KEYS ~= 8 or #ARGV ~= 3 then
  return redis.error_reply('EMQARG reap takes 8 keys and 3 arguments')
end
if not string.find(limit, '^[1-9]%d*$') then
  return redis.error_reply('EMQARG limit must be an integer from 1 to 200')
end
if tonumber(limit) > 200 then
  return redis.error_reply('EMQLIMIT a call moves at most 200 jobs; call again for more')
end
if not string.find(lost_cap, '^[1-9]%d*$') or tonumber(lost_cap) > 2147483648 then
  return redis.error_reply('EMQARG lost_cap must be an integer from 1 to 2^31')
end
lost_cap = tonumber(lost_cap)

local now
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
local ids = call('ZRANGE', active, '-inf', format('%.0f', now), 'BYSCORE', 'LIMIT', '0', limit)
if #ids == 0 then
  return { 0, 0 }
end
-- Everything is read before the first write. An id whose row is missing or says that it sits
-- elsewhere (a torn past) is dropped.
local back, buried, flat, laned, lanes = {}, {}, {}, {}, {}
for i = 1, #ids do
  local id = ids[i]
  local row = base .. 'job:' .. id
  local fields = redis.pcall('HMGET', row, 'state', 'group', 'lost')
  local group = fields[2]
  if fields[1] == 'active' then
    local lost = (tonumber(fields[3]) or 0) + 1
    local to_dead = lost >= lost_cap
    if to_dead then
      buried[#buried + 1] = { row, lost, id }
    else
      back[#back + 1] = { row, lost }
    end
    if group then
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
      laned[#laned + 1] = { id, lane, to_dead }
    elseif not to_dead then
      flat[#flat + 1] = '0'
      flat[#flat + 1] = id
    end
  end
end
local tokens = call('LLEN', wake)
call('LLEN', ring)
call('ZCARD', dead)

if #flat > 0 then
  call('ZADD', pending, unpack(flat))
end
call('ZREM', active, unpack(ids))
local runnable, entering = #flat / 2, {}
for i = 1, #laned do
  local id, lane, to_dead = laned[i][1], laned[i][2], laned[i][3]
  lane.leases = lane.leases - 1
  if not to_dead then
    call('ZADD', lane.key, '0', id)
    lane.depth = lane.depth + 1
  end
  local enters = not lane.served and lane.depth > 0 and not lane.parked
    and (lane.ceiling == 0 or lane.leases < lane.ceiling)
  if enters then
    lane.served = true
    entering[#entering + 1] = lane.group
  end
  if enters or (lane.served and not to_dead) then
    runnable = runnable + 1
  end
end
for group, lane in pairs(lanes) do
  if lane.leases > 0 then
    call('HSET', gactive, group, format('%.0f', lane.leases))
  else
    call('HDEL', gactive, group)
  end
end
for i = 1, #back do
  local job = back[i]
  call('HSET', job[1], 'state', 'pending', 'lost', format('%.0f', job[2]))
end
for i = 1, #buried do
  local job = buried[i]
  local lost = format('%.0f', job[2])
  call('ZADD', dead, '0', job[3])
  call('HSET', job[1], 'state', 'dead', 'lost', lost,
    'last_error', 'lost ' .. lost .. ' times: its lease ended before a settle came')
end
if #entering > 0 then
  call('RPUSH', ring, unpack(entering))
end
for _ = tokens + 1, math.min(runnable, 64) do
  call('RPUSH', wake, '1')
end
return { #back, #buried }
