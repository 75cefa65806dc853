-- Redis decides by its own clock, so that all instances agree; `now` is in µs since the epoch.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- An expiry rests on the time at which the script began, which is a little before `now`.
local spare_ms = 2
