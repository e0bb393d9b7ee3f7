-- Admit one job to the flat set; a taken id or unique key changes nothing.
-- KEYS[1] emq:{q}:pending   zset, score 0
-- KEYS[2] emq:{q}:wake      list, wake tokens
-- KEYS[3] emq:{q}:unique    hash, unique key -> the id that holds it
-- ARGV[1] emq:{q}:          the queue's base
-- ARGV[2] id                of kind JOB, at most JOBAzL8n0Y58m7 in byte order
-- ARGV[3] payload           opaque bytes
-- ARGV[4] durable           1: a duplicate rewrites its row's state with itself; 0: it does not
-- ARGV[5..] pairs           field and value, of kind, headers, max_attempts (1..2^31), unique
-- DERIVED emq:{q}:job:<id>  the job's row
-- CLOCK   none
-- RETURNS 1 admitted | 0 duplicate | the id that holds the unique key
-- REFUSES EMQARG EMQKIND OOM
-- LEAVES  the id in pending only; a token in wake
local call, find = redis.call, string.find
local pending, wake = KEYS[1], KEYS[2]
local base, id, durable = ARGV[1], ARGV[2], ARGV[4]
if #KEYS ~= 3 or #ARGV < 4 or (durable ~= '0' and durable ~= '1') then
  return redis.error_reply('EMQARG enqueue takes 3 keys, 4 arguments (durable 0 or 1) and pairs')
end
local is_job = #id == 14 and find(id, '^JOB[0-9][0-9A-Za-z]+$')
if not is_job then
  local name, what = id, 'id'
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
  is_job = string.sub(id, 1, 3) == 'JOB'
end
local first, last, unique_key = 5, #ARGV, false
if last >= first then
  if (last - first) % 2 == 0 or last - first > 7 then
    return redis.error_reply('EMQARG options must be pairs of a field and its value')
  end
  local given = {}
  for i = first, last, 2 do
    local field, value = ARGV[i], ARGV[i + 1]
    if field ~= 'kind' and field ~= 'headers' and field ~= 'max_attempts'
      and field ~= 'unique' then
      return redis.error_reply('EMQARG an option must be kind, headers, max_attempts or unique')
    end
    if value == '' or given[field] then
      return redis.error_reply('EMQARG an option must be given once and not empty: ' .. field)
    end
    given[field] = true
    if field == 'unique' then
      unique_key = value
    elseif field == 'max_attempts' then
      if not find(value, '^[1-9]%d*$') or tonumber(value) > 2147483648 then
        return redis.error_reply('EMQARG max_attempts must be an integer from 1 to 2^31')
      end
    end
  end
end
if not is_job then
  return redis.error_reply('EMQKIND a queue admits ids of kind JOB only')
end

local row = base .. 'job:' .. id
if call('EXISTS', row) == 1 then
  if durable == '1' then
    local state = call('HGET', row, 'state')
    if state then
      call('HSET', row, 'state', state)
    end
  end
  return 0
end
if unique_key then
  local holder = call('HGET', KEYS[3], unique_key)
  if holder and holder ~= id then
    return holder
  end
end
local tokens = call('LLEN', wake)

call('ZADD', pending, '0', id)
call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', ARGV[3], unpack(ARGV, 5))
if unique_key then
  call('HSET', KEYS[3], unique_key, id)
end
if tokens == 0 then
  call('RPUSH', wake, '1')
end
return 1
