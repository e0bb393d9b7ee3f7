--! gactive is the leases out, per lane: all are counted at once, when they are few enough to be
--! counted in a few milliseconds. At most 1000 findings a call.
local flying = call('ZCARD', active)
if flying > 4000 then
  found('leases_uncounted', 'active', tostring(flying), false)
else
  local job, counts, groups, known = base .. 'job:', {}, {}, 0
  -- One command reads them all, at a third of the time; a user without rights on every key, and a
  -- cluster, may be denied it.
  local read = pcall('SORT_RO', active, 'BY', 'nosort', 'GET', job .. '*->state',
    'GET', job .. '*->group')
  if read.err then
    read = {}
    local ids = call('ZRANGE', active, '0', '-1')
    for i = 1, #ids do
      local fields = pcall('HMGET', job .. ids[i], 'state', 'group')
      read[2 * i - 1], read[2 * i] = fields[1] or false, fields[2] or false
    end
  end
  for i = 1, #read, 2 do
    local group = read[i + 1]
    if read[i] == 'active' and group and group ~= '' then
      if not counts[group] then
        counts[group], groups[#groups + 1] = 0, group
      end
      counts[group] = counts[group] + 1
    end
  end
  local faults = {}
  for at = 1, #groups, 500 do
    local fields = call('HMGET', gactive, unpack(groups, at, math.min(at + 499, #groups)))
    for i = 1, #fields do
      local group, field = groups[at + i - 1], fields[i]
      known = field and known + 1 or known
      if field ~= tostring(counts[group]) then
        faults[#faults + 1] = { group, counts[group], field }
      end
    end
  end
  -- Fields of lanes without leases, looked for only when there are any.
  local others, cursor, pages = call('HLEN', gactive) - known, '0', 0
  while others > 0 and pages < 20 and #faults < 1000 do
    local page = call('HSCAN', gactive, cursor, 'COUNT', '500')
    cursor, pages = page[1], pages + 1
    for i = 1, #page[2], 2 do
      local group = page[2][i]
      if not counts[group] then
        counts[group] = 0
        faults[#faults + 1] = { group, 0, page[2][i + 1] }
      end
    end
    if cursor == '0' then
      others = 0
    end
  end
  out[1] = mends and (others > 0 or #faults > 1000) and 1 or 0
  for i = 1, math.min(#faults, 1000) do
    local group, count, field = faults[i][1], faults[i][2], faults[i][3]
    if cost > walks then
      out[1] = 1
      break
    end
    found('lease_count', group, count .. ' ' .. (field or ''), mends)
    if mends then
      local lane = lane_at(group)
      if count > 0 then
        call('HSET', gactive, group, tostring(count))
      else
        call('HDEL', gactive, group)
      end
      if lane then
        settle(group, lane.served)
      end
    end
  end
end
