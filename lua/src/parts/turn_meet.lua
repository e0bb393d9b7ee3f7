--! Lanes of `names` that this call meets for the first time: their leases out, as counted here and
--! as gactive has them, and their ceilings. A foreign count is none, and written over.
local outs = call('HMGET', gactive, unpack(names, 1, n_names))
for i = 1, n_names do
  local group, out = names[i], outs[i]
  local leases = out and tonumber(out) or 0
  counted[group], stored[group] = leases, leases
  if out and leases <= 0 then
    stored[group] = -1
  end
end
if limits > 0 then
  local ceilings = call('HMGET', glimit, unpack(names, 1, n_names))
  for i = 1, n_names do
    local ceiling = tonumber(ceilings[i]) or 0
    tops[names[i]] = ceiling > 0 and ceiling or nil
  end
end
