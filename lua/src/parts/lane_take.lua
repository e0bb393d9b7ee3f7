--! A pending job leaves its lane: an emptied lane leaves the ring, its interrupted share void. It is
--! looked for from the tail, where it entered with this job or went when it gave its last one away.
--! Expects lane_look, `id` and the key `meta`.
local empties = depth == 1 and served
local spent = empties and call('HGET', meta, 'spent')
if call('ZREM', lane, id) == 1 and empties then
  call('LREM', ring, '-1', group)
  if spent and string.sub(spent, 1, 15) == group .. '|' then
    call('HDEL', meta, 'spent')
  end
end
