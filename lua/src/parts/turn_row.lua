--! The claim of `id`, whose row has `fields`: the row is written, the rest put off. Expects `group`,
--! nil for the flat set.
local token, text = 1, '1'
if fields[2] ~= '0' then
  token = (tonumber(fields[2]) or 0) + 1
  text = format('%.0f', token)
end
if ticket ~= '' then
  call('HSET', row, 'state', 'active', 'attempts', text, 'holder', ticket)
else
  call('HSET', row, 'state', 'active', 'attempts', text)
  if token > 1 then
    call('HDEL', row, 'holder')
  end
end
leased[2 * claimed + 1], leased[2 * claimed + 2] = deadline, id
claimed = claimed + 1
jobs[n_jobs + 1], jobs[n_jobs + 2], jobs[n_jobs + 3] = id, fields[3], token
jobs[n_jobs + 4], jobs[n_jobs + 5] = group or '', fields[4] or ''
jobs[n_jobs + 6] = fields[5] or ''
n_jobs = n_jobs + 6
