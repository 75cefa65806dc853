-- The generic cell rate algorithm. State: the theoretical arrival time in µs, "tat", and where
-- the rate needs fractions, their number of 1/parts µs behind it: "tat part".
-- ARGV: "gcra", capacity, cost, both in µs; or "gcra-parts", capacity, cost, the parts of both,
-- and how many parts make a µs. Replies with the time in use: µs and parts.
local capacity, cost = ARGV[at + 1] + 0, ARGV[at + 2] + 0
local capacity_part, cost_part, parts = 0, 0, 1
if algorithm == 'gcra-parts' then
    capacity_part, cost_part, parts = ARGV[at + 3] + 0, ARGV[at + 4] + 0, ARGV[at + 5] + 0
    at = at + 6
else
    at = at + 3
end

local tat, part = tonumber(state), 0
if state and not tat then
    tat, part = string.match(state, '^(%d+) (%d+)$')
    tat, part = tonumber(tat), tonumber(part)
end
-- What is no whole number (nan and inf are none either) was not written here: a key like new.
if tat and tat % 1 == 0 and tat >= now then
    first = tat - now
    second = part < parts and part or parts - 1 -- of another rate: less than a µs
    if first > capacity or (first == capacity and second > capacity_part) then
        -- The clock went back or the limit was lowered: as full as can be, but no fuller.
        first, second = capacity, capacity_part
        local full = string.format(second == 0 and '%d' or '%d %d', now + first, second)
        call('PSETEX', key, (first - first % 1000) / 1000 + spare_ms, full)
    end
end

local sum, sum_part = first + cost, second + cost_part
if sum_part >= parts then
    sum, sum_part = sum + 1, sum_part - parts
end
left = first
fits = sum < capacity or (sum == capacity and sum_part <= capacity_part)
if fits and (cost > 0 or cost_part > 0) then
    kept_us[i] = sum
    kept[i] = string.format(sum_part == 0 and '%d' or '%d %d', now + sum, sum_part)
end
