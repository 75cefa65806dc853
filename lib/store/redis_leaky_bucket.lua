-- A queue that drains at the rate: as gcra, whose time in use is the wait for the next free moment,
-- and a wait that is too long is refused too. State: that moment, as gcra's.

-- section: arguments
-- Numbers: as for gcra, and the longest wait in µs.
local capacity_i, cost_i, max_wait_i = NUMBERS_i
local used_i = 0

-- section: arguments_of_parts
local capacity_i, span_i, capacity_part_i, span_part_i, parts_i, max_wait_i = NUMBERS_i
local used_i, part_i, cost_i = 0, 0, span_i + span_part_i

-- section: decide
fits_i = fits_i and (used_i <= max_wait_i or cost_i == 0)

-- section: decide_parts
fits_i = fits_i and (used_i < max_wait_i or (used_i == max_wait_i and part_i == 0) or cost_i == 0)
