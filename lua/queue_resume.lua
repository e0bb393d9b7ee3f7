#!lua flags=allow-oom
-- Resume a queue; someone wakes when it has work.
-- KEYS[1] emq:{q}:meta      hash, paused
-- KEYS[2] emq:{q}:pending   zset, score 0
-- KEYS[3] emq:{q}:ring      list, the serviceable lanes
-- KEYS[4] emq:{q}:wake      list, wake tokens
-- CLOCK   none
-- RETURNS 1 resumed | 0 it was not paused
-- REFUSES EMQARG
-- LEAVES  no pause in meta; a token in wake when anything is runnable
local call = redis.call
if #KEYS ~= 4 or #ARGV ~= 0 then
  return redis.error_reply('EMQARG queue_resume takes 4 keys and no argument')
end
local work = call('ZCARD', KEYS[2]) + call('LLEN', KEYS[3])
local tokens = call('LLEN', KEYS[4])
local resumed = call('HDEL', KEYS[1], 'paused')
if work > 0 and tokens == 0 then
  call('RPUSH', KEYS[4], '1')
end
return resumed
