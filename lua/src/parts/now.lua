--! The server's clock, in unix ms. Expects `call`; sets `now`.
local time = call('TIME')
now = time[1] * 1000 + math.floor(time[2] / 1000)
