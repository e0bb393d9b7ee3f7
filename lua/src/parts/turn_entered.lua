--! The end of a reap or a promotion: the ring, the wakes, and what the claims go by.
-- @include ring_and_wakes.lua
turning = turning + #entering
tokens = math.max(tokens, math.min(runnable, 64))
flat = call('ZCARD', pending)
