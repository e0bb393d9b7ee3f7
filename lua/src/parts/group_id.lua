--! A lane is named by a branded id. Expects `find`, `group`; an empty one is the flat set.
if group ~= '' and (#group ~= 14 or not find(group, '^[A-Z][A-Z][A-Z][0-9A-Za-z]+$')) then
  return redis.error_reply('EMQARG group must be a branded id: 14 bytes, or empty')
end
