--! A schedule's name stands in the fields of the timetable. Expects `find`, `name`.
if #name > 128 or not find(name, '^[A-Za-z0-9._-]+$') then
  return redis.error_reply('EMQARG name must be 1 to 128 bytes of A-Z, a-z, 0-9, . _ and -')
end
