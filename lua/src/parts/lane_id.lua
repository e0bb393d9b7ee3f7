--! A lane is named by a branded id. Expects `group`.
if #group ~= 14 or not string.find(group, '^[A-Z][A-Z][A-Z][0-9A-Za-z]+$') then
  return redis.error_reply('EMQARG group must be a branded id: 14 bytes')
end
