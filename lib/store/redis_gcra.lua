-- The generic cell rate algorithm, and what the leaky bucket shares with it. State: the theoretical
-- arrival time in µs in `first`, and in `low` the rest of it in 1/parts µs.

-- section: arguments
-- For intervals of whole µs. Numbers: capacity, cost, in µs.
local capacity_i, cost_i = NUMBERS_i
local used_i = 0

-- section: decide
used_i = first_i - now
if used_i < 0 then
    used_i = 0
elseif used_i > capacity_i then
    -- The clock went back or the limit was lowered: as full as can be, but no fuller.
    used_i = capacity_i
    first_i, low_i, changed_g = now + capacity_i, 0, true
elseif low_i > 0 then
    low_i, changed_g = 0, true -- of another rate: less than a µs
end
fits_i = used_i + cost_i <= capacity_i

-- section: spend
first_i, low_i, high_i, changed_g = now + used_i + cost_i, 0, 0, true

-- section: lengthen
-- Twice as long as it must, and some seconds at least, but not longer than twice the capacity: a key
-- that is in use is renewed now and then, and one that is not is soon gone.
local twice_i = 2 * (until_i - now)
if twice_i < 4000000 then
    twice_i = capacity_i < 2000000 and 2 * capacity_i or 4000000
end
if now + twice_i > lives_g then
    lives_g = now + twice_i
end

-- section: arguments_of_parts
-- For any interval. Numbers: capacity and cost in µs, their parts, and how many parts make a µs.
local capacity_i, span_i, capacity_part_i, span_part_i, parts_i = NUMBERS_i
local used_i, part_i, cost_i = 0, 0, span_i + span_part_i

-- section: decide_parts
used_i, part_i = first_i - now, low_i
if used_i < 0 then
    used_i, part_i = 0, 0
elseif part_i >= parts_i then
    part_i, low_i, changed_g = 0, 0, true
end
if used_i > capacity_i or (used_i == capacity_i and part_i > capacity_part_i) then
    used_i, part_i = capacity_i, capacity_part_i
    first_i, low_i, changed_g = now + used_i, part_i, true
end
local sum_i, sum_part_i = used_i + span_i, part_i + span_part_i
if sum_part_i >= parts_i then
    sum_i, sum_part_i = sum_i + 1, sum_part_i - parts_i
end
fits_i = sum_i < capacity_i or (sum_i == capacity_i and sum_part_i <= capacity_part_i)

-- section: spend_parts
first_i, low_i, high_i, changed_g = now + used_i + span_i, part_i + span_part_i, 0, true
if low_i >= parts_i then
    first_i, low_i = first_i + 1, low_i - parts_i
end

-- section: lasts_parts
until_i = first_i + (low_i > 0 and 1 or 0)

-- section: settle_arguments
-- ARGV: capacity; the time of the units that are given back or taken; each in µs and parts; how many
-- parts make a µs; when all would have been there again; 1 to take, 0 to give back.
local capacity_i, parts_i = ARGV[AT_i] + 0, ARGV[AT_i + 4] + 0

-- section: settle_used
local used, part = first_i - now, low_i
if used < 0 then
    used, part = 0, 0
elseif part >= parts_i then
    part = 0
end

-- section: settle_span
local capacity_part, full, takes = ARGV[AT_i + 1] + 0, ARGV[AT_i + 5] + 0, ARGV[AT_i + 6] == '1'
local span, span_part = ARGV[AT_i + 2] + 0, ARGV[AT_i + 3] + 0
if used > capacity_i or (used == capacity_i and part > capacity_part) then
    used, part = capacity_i, capacity_part
end
-- What time has earned back since is neither given back nor taken again.
local settled, settled_part = used, part
local full_left = full - now
if takes then
    if full_left < 0 then
        span = span + full_left
    end
    if span >= 0 then
        settled, settled_part = used + span, part + span_part
        if settled_part >= parts_i then
            settled, settled_part = settled + 1, settled_part - parts_i
        end
        if settled > capacity_i or (settled == capacity_i and settled_part > capacity_part) then
            settled, settled_part = capacity_i, capacity_part
        end
    end
elseif full_left > 0 then
    if span >= full_left then
        span, span_part = full_left, 0
    end
    settled, settled_part = used - span, part - span_part
    if settled_part < 0 then
        settled, settled_part = settled - 1, settled_part + parts_i
    end
    if settled < 0 then
        settled, settled_part = 0, 0
    end
end

-- section: settle
if settled ~= used or settled_part ~= part then
    first_i, low_i, high_i, changed_g = now + settled, settled_part, 0, true
end
