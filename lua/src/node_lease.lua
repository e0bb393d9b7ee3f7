#!lua flags=allow-oom
-- Take or renew a minting node: while the lease holds, no other process mints under it.
-- KEYS[1] {emq}:nodes         zset, node -> expiry, unix ms
-- KEYS[2] {emq}:nodes:owners  hash, node -> owner
-- ARGV[1] owner             opaque, random, the same for each renewal
-- ARGV[2] lease_ms          1..2^40, from now
-- ARGV[3] grace_ms          0..2^40, how long an ended lease keeps its node from other owners
-- ARGV[4] node              0..1023: exactly this one; empty: any
-- CLOCK   server
-- RETURNS {node, expiry in unix ms}
-- REFUSES EMQARG EMQSTATE
-- LEAVES  the node leased to the owner until expiry; any other owner's live lease as it was
local call, find = redis.call, string.find
local nodes, owners = KEYS[1], KEYS[2]
local owner, lease_ms, grace_ms, node = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if #KEYS ~= 2 or #ARGV ~= 4 or owner == '' or #owner > 256 then
  return redis.error_reply('EMQARG node_lease takes 2 keys, 4 arguments, owner of 1 to 256 bytes')
end
-- @include lease_ms.lua
if not find(grace_ms, '^%d+$') or tonumber(grace_ms) > 1099511627776 then
  return redis.error_reply('EMQARG grace_ms must be an integer from 0 to 2^40')
end
if node ~= '' and (not find(node, '^%d%d?%d?%d?$') or tonumber(node) > 1023) then
  return redis.error_reply('EMQARG node must be an integer from 0 to 1023, or empty')
end

local now
-- @include now.lua
local free_since = now - grace_ms
if node ~= '' then
  node = string.format('%.0f', tonumber(node))
  local expiry = call('ZSCORE', nodes, node)
  if expiry and tonumber(expiry) > free_since and call('HGET', owners, node) ~= owner then
    return redis.error_reply('EMQSTATE another owner holds this node; wait, or take any node')
  end
else
  -- What the owner has already, else one never used, else the one that ended longest ago.
  local taken = call('ZRANGE', nodes, '0', '-1', 'WITHSCORES')
  local owned = call('HGETALL', owners)
  for i = 1, #owned, 2 do
    if owned[i + 1] == owner then
      node = owned[i]
    end
  end
  if node == '' then
    local used = {}
    for i = 1, #taken, 2 do
      used[taken[i]] = true
    end
    for i = 0, 1023 do
      if not used[tostring(i)] then
        node = tostring(i)
        break
      end
    end
  end
  if node == '' then
    if tonumber(taken[2]) > free_since then
      return redis.error_reply('EMQSTATE every minting node is leased; stop some or wait')
    end
    node = taken[1]
  end
end

local expiry = now + lease_ms
call('ZADD', nodes, expiry, node)
call('HSET', owners, node, owner)
return { tonumber(node), expiry }
