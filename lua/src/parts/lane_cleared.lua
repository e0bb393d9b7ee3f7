--! A lane's oldest jobs, as many as there is room for, unless it was looked at before. Reads.
--! Expects what lane_drained does, and `cleared`, which learns whether the lane is empty then.
if cleared[group] == nil and room > 0 then
  -- @include lane_drained.lua
  cleared[group] = depth == #ids
end
