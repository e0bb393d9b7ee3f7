--! Someone has to recompute a timer when a job becomes strictly the first to be due.
--! Expects `call`, `schedule`, `due`; sets `earliest`.
local head = call('ZRANGE', schedule, '0', '0', 'WITHSCORES')
earliest = not head[1] or due < tonumber(head[2])
