--! A lane is named by a branded id. What starts with a lower digit than the highest id needs no
--! second look. Expects `group`.
if #group ~= 14 or not string.find(group, '^[A-Z][A-Z][A-Z][0-9][0-9A-Za-z]+$') then
  local name, what = group, 'group'
  -- @include branded_id.lua
end
