--! The extensions of a turn, in order, as extend.lua does each.
local held, n_held, n_extended = {}, 0, 0
at, deadline = extends_at, format('%.0f', now + lease_ms)
while args[at] do
  local holder, count = args[at + 1], tonumber(args[at + 2])
  for i = at + 3, at + 2 + 2 * count, 2 do
    local id, verdict = args[i], -1
    local fields = pcall('HMGET', job .. id, 'state', 'attempts', 'holder', 'cancel')
    if fields[1] == 'active' and fields[2] == args[i + 1] and (fields[3] or '') == holder
      and call('ZSCORE', active, id) then
      verdict = fields[4] and 2 or 1
      held[n_held + 1], held[n_held + 2] = deadline, id
      n_held = n_held + 2
    end
    n_extended = n_extended + 1
    extensions[n_extended] = verdict
  end
  at = at + 3 + 2 * count
end
if n_held > 0 then
  call('ZADD', active, unpack(held, 1, n_held))
end
