--! The lanes of a page, every `step`-th of `groups`, that aren't seen yet; one look tells whether
--! any of them holds jobs. Reads. Expects what lane_drained does, and `seen`.
local keys = {}
for i = 1, #groups, step do
  keys[#keys + 1] = base .. 'g:' .. groups[i] .. ':pending'
end
if #keys > 0 and call('EXISTS', unpack(keys)) > 0 then
  for i = 1, #groups, step do
    local group = groups[i]
    if not seen[group] and room > 0 then
      seen[group] = true
      -- @include lane_drained.lua
    end
  end
end
