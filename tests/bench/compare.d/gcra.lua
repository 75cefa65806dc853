-- One request by the generic cell rate algorithm. KEYS: the client's. ARGV: microseconds that earn
-- a request, and the burst. Returns whether it may, what is left, and in whole seconds when to come
-- back and when all is there again.
local interval = tonumber(ARGV[1])
local burst = tonumber(ARGV[2])
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]

local tat = tonumber(redis.call("GET", KEYS[1]) or 0)
if tat < now then
    tat = now
end
local next_tat = tat + interval
local early = next_tat - burst * interval - now
if early > 0 then
    return { 0, 0, math.ceil(early / 1000000), math.ceil((tat - now) / 1000000) }
end
local kept = next_tat - now
redis.call("SET", KEYS[1], string.format("%.0f", next_tat), "PX", math.ceil(kept / 1000))
return { 1, math.floor(-early / interval), 0, math.ceil(kept / 1000000) }
