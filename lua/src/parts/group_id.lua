--! A lane is named by a branded id. Expects `find`, `group`; an empty one is the flat set.
if group ~= '' and not find(group, '^%u%u%u%w%w%w%w%w%w%w%w%w%w%w$') then
  return redis.error_reply('EMQARG group must be a branded id: 14 bytes, or empty')
end
