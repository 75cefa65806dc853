-- Windows on the clock, on a calendar, or from a key's first request. State: the window's start in µs
-- in `first`, the units used in it in `low`.

-- section: arguments
-- On the clock. Numbers: limit, cost, length in µs.
local limit_i, cost_i, length_i = NUMBERS_i
local start_i, used_i = now - now % length_i, 0
local end_i = start_i + length_i

-- section: arguments_first
-- From the first request. Numbers: limit, cost, length in µs.
local limit_i, cost_i, length_i = NUMBERS_i
local start_i, used_i = now, 0
if low_i > 0 and first_i <= now and now - first_i < length_i then
    start_i = first_i
end
local end_i = start_i + length_i

-- section: arguments_calendar
-- Redis knows no time zones. Numbers: limit, cost, and the edges of the windows before, now and after
-- by the clock of who asks.
local limit_i, cost_i, earliest, start_i, end_i, latest = NUMBERS_i
local used_i = 0
if now < start_i then
    start_i, end_i = earliest, start_i
elseif now >= end_i then
    start_i, end_i = end_i, latest
end
if now < start_i or now >= end_i then
    FAIL('ERR the clocks of Redis and its client are too far apart')
end

-- section: decide
if first_i >= start_i then
    used_i = low_i
    if first_i > start_i and low_i > 0 then
        -- The clock went back: no time has passed, so what was used counts in this window.
        first_i, changed_g = start_i, true
    end
end
fits_i = cost_i == 0 or used_i + cost_i <= limit_i

-- section: spend
first_i, low_i, high_i, changed_g = start_i, used_i + cost_i, 0, true

-- section: lasts
until_i = first_i >= start_i and end_i or 0

-- section: settle
-- In place of a cost: by how much it changes. Behind the other arguments: when it was decided.
local decided = ARGV[AT_i + 3] + 0

-- section: settle_calendar
local decided = ARGV[AT_i + 6] + 0

-- section: settle_used
if first_i >= start_i and low_i > 0 and decided >= start_i and decided < end_i then
    local settled = math.max(0, math.min(low_i + cost_i, math.max(limit_i, low_i)))
    if settled ~= low_i then
        first_i, low_i, high_i, changed_g = start_i, settled, 0, true
    end
end
