-- Windows on the clock, or from a key's first request. State: "start:used", in µs and units. The
-- start is in the value, so a key that lost its expiry holds nobody for ever.
-- ARGV: "window" or "window-first", limit, length in µs, cost. Replies with the units used and
-- the time left in µs.
local limit, length, cost = ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
at = at + 4

local start, used
if state then
    start, used = string.match(state, '^(%d+):(%d+)$')
    start, used = tonumber(start), tonumber(used)
end
local current = now - now % length
if algorithm == 'window-first' then
    current = now
    if start and start <= now and now < start + length then
        current = start
    end
end

if start and start >= current then
    first = used < limit and used or limit
end
second = current + length - now
left = second
local expiry_ms = (second - second % 1000) / 1000 + spare_ms
if start and start > current then
    -- The clock went back: no time has passed, so what was used counts in this window.
    call('PSETEX', key, expiry_ms, string.format('%d:%d', current, first))
end

fits = first + cost <= limit
if fits and cost > 0 then
    kept_us[i] = second
    kept[i] = string.format('%d:%d', current, first + cost)
end
