--! A pending job leaves its lane: an emptied lane leaves the ring. Expects lane_look, `id`.
if call('ZREM', lane, id) == 1 and depth == 1 and served then
  call('LREM', ring, '1', group)
end
