#!lua flags=allow-oom
-- Pause a queue: claims answer empty from now on, flight is untouched.
-- KEYS[1] emq:{q}:meta      hash, paused
-- CLOCK   none
-- RETURNS 1 paused now | 0 it was already
-- REFUSES EMQARG
-- LEAVES  paused in meta
if #KEYS ~= 1 or #ARGV ~= 0 then
  return redis.error_reply('EMQARG queue_pause takes 1 key and no argument')
end
return redis.call('HSETNX', KEYS[1], 'paused', '1')
