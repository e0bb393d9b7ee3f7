--! The registered pairs in ARGV[first..last]. Expects `find`, `first`, `last`, and `unique_key`
--! declared as false, which becomes the job's unique key.
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
