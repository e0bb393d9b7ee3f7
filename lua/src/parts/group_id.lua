--! A lane is named by a branded id. Expects `group`; an empty one is the flat set.
if group ~= '' then
  -- @include lane_id.lua
end
