--! The oldest jobs of a lane, as many as there is room for. Reads. Expects `call`,
--! `base`, `group`, `takes`, `room`, `ids`; sets `depth`.
local lane = base .. 'g:' .. group .. ':pending'
local depth = call('ZCARD', lane)
ids = {}
if depth > 0 then
  ids = call('ZRANGE', lane, '0', room - 1)
  takes[#takes + 1] = { lane, ids, 'pending' }
  room = room - #ids
end
