#!lua flags=allow-oom
-- Pass the wake on: a worker that stops may have eaten a token meant for another.
-- KEYS[1] emq:{q}:wake      list, wake tokens
-- CLOCK   none
-- RETURNS 1
-- REFUSES EMQARG
-- LEAVES  one token more, unless 64 stand there
if #KEYS ~= 1 or #ARGV ~= 0 then
  return redis.error_reply('EMQARG nudge takes 1 key and no argument')
end
if redis.call('LLEN', KEYS[1]) < 64 then
  redis.call('RPUSH', KEYS[1], '1')
end
return 1
