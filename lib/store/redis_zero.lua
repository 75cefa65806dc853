-- A limit of nothing: only a look fits, and nothing is kept, though what was there may matter again.
-- Numbers: cost.

-- section: limit
local left_i, over_i = 0
if high_i == 4294967295 and low_i == 0 and first_i % 1 == 0
    and first_i > now and first_i < 9007199254740992 then
    left_i = first_i - now
end

-- section: arguments
local cost_i = NUMBERS_i

-- section: decide
fits_i = cost_i == 0
