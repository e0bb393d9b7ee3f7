#!lua flags=allow-oom
-- Set how many jobs a lane gives per turn of the ring.
-- KEYS[1] emq:{q}:gweight   hash, lane -> jobs a turn; absent is 1
-- KEYS[2] emq:{q}:meta      hash, spent (lane|k)
-- ARGV[1] group             the lane's branded id
-- ARGV[2] weight            1..2^31
-- CLOCK   none
-- RETURNS 1 changed | 0 it was so already
-- REFUSES EMQARG
-- LEAVES  the weight; an interrupted share of this lane void
local call = redis.call
local gweight, meta = KEYS[1], KEYS[2]
local group, weight = ARGV[1], ARGV[2]
if #KEYS ~= 2 or #ARGV ~= 2 then
  return redis.error_reply('EMQARG lane_weight takes 2 keys and 2 arguments')
end
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
if not string.find(weight, '^[1-9]%d*$') or tonumber(weight) > 2147483648 then
  return redis.error_reply('EMQARG weight must be an integer from 1 to 2^31')
end
if weight == (call('HGET', gweight, group) or '1') then
  return 0
end
local spent = call('HGET', meta, 'spent')

if weight == '1' then
  call('HDEL', gweight, group)
else
  call('HSET', gweight, group, weight)
end
if spent and string.sub(spent, 1, 15) == group .. '|' then
  call('HDEL', meta, 'spent')
end
return 1
