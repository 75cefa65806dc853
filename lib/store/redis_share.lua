-- section: function
-- units * span / whole, and the rest of it, for up to 2^30 units of a share of a whole below 2^45: a
-- product that Lua's numbers do not hold, so in digits of 7 bits.
local function share(units, span, whole)
    local quotient, rest, digit_unit = 0, 0, 268435456
    for _ = 1, 5 do
        local low = units % digit_unit
        local sum = rest * 128 + (units - low) / digit_unit * span
        rest = sum % whole
        quotient = quotient * 128 + (sum - rest) / whole
        units, digit_unit = low, digit_unit / 128
    end
    return quotient, rest
end
