#!lua flags=allow-oom
-- Turn the ring one step: claim the oldest job of the lane at its head under a lease.
-- KEYS[1] emq:{q}:ring      list, the serviceable lanes
-- KEYS[2] emq:{q}:active    zset, score = lease deadline, unix ms
-- KEYS[3] emq:{q}:wake      list, wake tokens
-- KEYS[4] emq:{q}:pending   zset, score 0
-- KEYS[5] emq:{q}:paused    not used: no parked lane is in the ring
-- KEYS[6] emq:{q}:glimit    hash, lane -> ceiling
-- KEYS[7] emq:{q}:gactive   hash, lane -> leases out
-- KEYS[8] emq:{q}:gweight   hash, lane -> jobs a turn
-- KEYS[9] emq:{q}:meta      hash, paused, spent (lane|k), left
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] lease_ms          1..2^40
-- ARGV[3] ticket            the claim's, at most 256 bytes; empty: none
-- DERIVED emq:{q}:job:<id>  the row of the id at the head of the lane
-- DERIVED emq:{q}:g:<group>:pending  the lane at the head of the ring
-- CLOCK   server
-- RETURNS {} | {id, payload, token, group} | {id, payload, token, group, checkpoint}
-- REFUSES EMQARG
-- LEAVES  the id in active only; attempts = token; the lane at the ring's tail, or at its head
--         while its weight lasts, if still serviceable; a token in wake when work is left
local call, format = redis.call, string.format
local ring, active, wake, pending = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local glimit, gactive, gweight, meta = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local base, lease_ms, ticket = ARGV[1], ARGV[2], ARGV[3]
if #KEYS ~= 9 or #ARGV ~= 3 or #ticket > 256 then
  return redis.error_reply('EMQARG lane_claim takes 9 keys and 3 arguments, ticket to 256 bytes')
end
if not string.find(lease_ms, '^[1-9]%d*$') or tonumber(lease_ms) > 1099511627776 then
  return redis.error_reply('EMQARG lease_ms must be an integer from 1 to 2^40')
end
lease_ms = tonumber(lease_ms)
local facts = call('HMGET', meta, 'paused', 'spent', 'left')
if facts[1] then
  return {}
end

-- An id whose row is missing or says that it sits elsewhere (a torn past) is dropped, and the next
-- one is looked at; so is a lane that isn't serviceable.
local turning = call('LLEN', ring)
local group, lane, leases, ceiling, id, more, row, fields
for _ = 1, 100 do
  group = call('LINDEX', ring, '0')
  if not group then
    break
  end
  lane = base .. 'g:' .. group .. ':pending'
  local head = call('ZRANGE', lane, '0', '1')
  id, more = head[1], head[2]
  leases = tonumber(call('HGET', gactive, group)) or 0
  ceiling = tonumber(call('HGET', glimit, group)) or 0
  if not id or (ceiling > 0 and leases >= ceiling) then
    id = nil
    call('LPOP', ring)
    turning = turning - 1
    if facts[2] and string.sub(facts[2], 1, 15) == group .. '|' then
      call('HDEL', meta, 'spent')
      facts[2] = false
    end
  else
    row = base .. 'job:' .. id
    fields = redis.pcall('HMGET', row, 'state', 'attempts', 'payload', 'checkpoint', 'holder')
    if fields[1] == 'pending' and fields[3] then
      break
    end
    call('ZREM', lane, id)
    id = nil
  end
end
local flat = call('ZCARD', pending)
local tokens = call('LLEN', wake)

local reply = {}
if id then
  local weight = tonumber(call('HGET', gweight, group)) or 1
  local spent = 1
  if facts[2] and string.sub(facts[2], 1, 15) == group .. '|' then
    spent = (tonumber(string.sub(facts[2], 16)) or 0) + 1
  end
  local stays = more and (ceiling == 0 or leases + 1 < ceiling)
  local token = (tonumber(fields[2]) or 0) + 1
  local now
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  call('ZADD', active, now + lease_ms, id)
  call('ZREM', lane, id)
  call('HSET', gactive, group, format('%.0f', leases + 1))
  if ticket ~= '' then
    call('HSET', row, 'state', 'active', 'attempts', string.format('%.0f', token), 'holder', ticket)
  else
    call('HSET', row, 'state', 'active', 'attempts', string.format('%.0f', token))
    if fields[5] then
      call('HDEL', row, 'holder')
    end
  end

  if stays and spent < weight then
    call('HSET', meta, 'spent', group .. '|' .. format('%.0f', spent))
  else
    if facts[2] then
      call('HDEL', meta, 'spent')
    end
    if not stays then
      call('LPOP', ring)
      turning = turning - 1
    elseif turning > 1 then
      call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
    end
    -- A lane's turn is over: the flat set, which counts as one more lane, is due when left is 0, and
    -- after one turn of a ring that got shorter meanwhile.
    local left = tonumber(facts[3]) or 0
    if flat > 0 and left > 0 then
      call('HSET', meta, 'left', math.min(left, stays and turning or turning + 1) - 1)
    end
  end
  reply = { id, fields[3], token, group, fields[4] or nil }
end
if (turning > 0 or flat > 0) and tokens == 0 then
  call('RPUSH', wake, '1')
end
return reply
