-- Tokens that come back one by one. State: `high` whole tokens were missing at the time `first`, and
-- `low` 1/parts µs.

-- section: arguments
-- For intervals of whole µs. Numbers: cost, burst, interval in µs.
local cost_i, burst_i, interval_i = NUMBERS_i
local anchor_i, missing_i = 0, 0

-- section: decide
anchor_i, missing_i = first_i, high_i
local is_wrong = low_i > 0 or anchor_i > now
if anchor_i > now then
    anchor_i = now -- the clock went back
end
if (now - anchor_i) >= missing_i * interval_i then
    anchor_i, missing_i = now, 0
else
    local since = now - anchor_i
    local earned = (since - since % interval_i) / interval_i
    anchor_i, missing_i = anchor_i + earned * interval_i, missing_i - earned
end
if is_wrong or missing_i > burst_i then
    -- That, or the limit was lowered or has another rate.
    if missing_i > burst_i then
        missing_i = burst_i
    end
    first_i, low_i, high_i, changed_g = anchor_i, 0, missing_i, true
end
fits_i = cost_i == 0 or missing_i + cost_i <= burst_i

-- section: spend
first_i, low_i, high_i, changed_g = anchor_i, 0, missing_i + cost_i, true

-- section: lasts
-- Of a limit that was lowered no more is missing than it holds.
until_i = first_i + (high_i < burst_i and high_i or burst_i) * interval_i

-- section: lengthen
local capacity_i = burst_i * interval_i

-- section: arguments_of_parts
-- For any interval. Numbers: cost, burst, interval in µs and its part, and how many parts make a µs.
local cost_i, burst_i, interval_i, interval_part_i, parts_i = NUMBERS_i
local anchor_i, part_i, missing_i = 0, 0, 0

-- section: bring
-- Brings the state to the last moment at which a token came.
anchor_i, part_i, missing_i = first_i, low_i, high_i
local is_wrong = part_i >= parts_i
if is_wrong then
    part_i = parts_i - 1
end
if anchor_i > now or (anchor_i == now and part_i > 0) then
    anchor_i, part_i, is_wrong = now, 0, true
end
local since = now - anchor_i
-- The time of some tokens from the anchor on, in µs and parts.
local function time_of(tokens)
    local us, part = share(tokens, interval_part_i, parts_i)
    us, part = us + tokens * interval_i, part + part_i
    if part >= parts_i then
        us, part = us + 1, part - parts_i
    end
    return us, part
end
local function has_come(tokens)
    local us, part = time_of(tokens)
    return us < since or (us == since and part == 0)
end
if has_come(missing_i) then
    anchor_i, part_i, missing_i = now, 0, 0
else
    -- A quotient of rounded numbers may be off by one.
    local earned = math.floor((since - part_i / parts_i) / (interval_i + interval_part_i / parts_i))
    if not has_come(earned) then
        earned = earned - 1
    elseif has_come(earned + 1) then
        earned = earned + 1
    end
    local us, part = time_of(earned)
    anchor_i, part_i, missing_i = anchor_i + us, part, missing_i - earned
end

-- section: decide_parts
if is_wrong or missing_i > burst_i then
    if missing_i > burst_i then
        missing_i = burst_i
    end
    first_i, low_i, high_i, changed_g = anchor_i, part_i, missing_i, true
end
fits_i = cost_i == 0 or missing_i + cost_i <= burst_i

-- section: spend_parts
first_i, low_i, high_i, changed_g = anchor_i, part_i, missing_i + cost_i, true

-- section: lasts_parts
until_i = first_i + 2
    + math.ceil((high_i < burst_i and high_i or burst_i) * (interval_i + interval_part_i / parts_i))

-- section: lengthen_parts
local capacity_i = burst_i * (interval_i + 1)

-- section: settle_arguments
-- Behind those that gcra settles with. ARGV: burst, interval in µs, its part.
local burst_i, interval_i = ARGV[AT_i + 7] + 0, ARGV[AT_i + 8] + 0
local interval_part_i = ARGV[AT_i + 9] + 0

-- section: settle_begin
local anchor_i, part_i, missing_i

-- section: settle_used
-- The time in use: until the last of the missing tokens has come.
if missing_i > burst_i then
    missing_i = burst_i
end
local used, part = time_of(missing_i)
used = used + anchor_i - now
if used < 0 then
    used, part = 0, 0
end

-- section: settle
if settled ~= used or settled_part ~= part then
    local interval = interval_i + interval_part_i / parts_i
    local tokens = math.ceil((settled + settled_part / parts_i) / interval)
    anchor_i, part_i = now, 0
    local us, us_part = time_of(tokens - 1)
    if us > settled or (us == settled and us_part >= settled_part) then
        tokens = tokens - 1
    else
        us, us_part = time_of(tokens)
        if us < settled or (us == settled and us_part < settled_part) then
            tokens = tokens + 1
        end
    end
    if tokens > 0 then
        us, us_part = time_of(tokens)
    else
        us, us_part = 0, 0
    end
    first_i, low_i, high_i, changed_g = now + settled - us, settled_part - us_part, tokens, true
    if low_i < 0 then
        first_i, low_i = first_i - 1, low_i + parts_i
    end
end
