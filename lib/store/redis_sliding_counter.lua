-- The window before this one counts as far as it is still within one length of time. State: this
-- window's start in `first`, units used in it in `low`, in the one before in `high`.

-- section: arguments
-- Numbers: limit, cost, length in µs.
local limit_i, cost_i, length_i = NUMBERS_i
local start_i, used_i, previous_i = now - now % length_i, 0, 0
if first_i >= start_i then
    used_i, previous_i = low_i, high_i
elseif first_i >= start_i - length_i then
    previous_i = low_i
end

-- section: decide
if first_i > start_i then
    first_i, changed_g = start_i, true -- the clock went back: no time has passed
end
-- previous * still / length <= room, without the division. Products above 2^53 are rounded, but only
-- two that come out as equal may not be in the right order.
local room = limit_i - used_i - cost_i
local still = start_i + length_i - now
local weighted, most = previous_i * still, room * length_i
fits_i = cost_i == 0 or (room >= 0 and weighted <= most)
if fits_i and weighted == most and most > 9007199254740992 then
    local whole, rest = share(previous_i, still, length_i)
    fits_i = cost_i == 0 or whole < room or (whole == room and rest == 0)
end

-- section: spend
first_i, low_i, high_i, changed_g = start_i, used_i + cost_i, previous_i, true

-- section: lasts
until_i = first_i + 2 * length_i

-- section: settle
local decided = ARGV[AT_i + 3] + 0
decided = decided - decided % length_i
if decided == start_i then
    local settled = math.max(0, math.min(used_i + cost_i, math.max(limit_i, used_i)))
    if settled ~= used_i then
        first_i, low_i, high_i, changed_g = start_i, settled, previous_i, true
    end
elseif decided + length_i == start_i then
    local settled = math.max(0, math.min(previous_i + cost_i, math.max(limit_i, previous_i)))
    if settled ~= previous_i then
        first_i, low_i, high_i, changed_g = start_i, used_i, settled, true
    end
end
