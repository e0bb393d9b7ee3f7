--! An operator's change of a lane: it enters the ring at the tail when it became serviceable, and
--! leaves it, its interrupted share void, when it stopped being so. Writes. Expects lane_look,
--! `serves`, `tokens`, `spent` (of meta) and the keys `ring`, `wake`, `meta`.
if serves and not served then
  call('RPUSH', ring, group)
  if tokens == 0 then
    call('RPUSH', wake, '1')
  end
elseif served and not serves then
  call('LREM', ring, '1', group)
  if spent and string.sub(spent, 1, 15) == group .. '|' then
    call('HDEL', meta, 'spent')
  end
end
