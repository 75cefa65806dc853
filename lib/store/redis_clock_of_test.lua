-- A test moves time by hand and sends it along; real time must not expire its keys meanwhile.
local call = redis.call
local now = ARGV[#ARGV] + 0
local spare_ms = 3600000
