-- A queue that drains at the rate: as gcra, whose time in use is the wait for the next free moment,
-- and a wait that is too long is refused too. State: that moment, as gcra's.

-- section: arguments
-- Behind those of gcra. ARGV: the longest wait in µs.
local max_wait_i = ARGV[AT_i + 2] + 0

-- section: arguments_of_parts
local max_wait_i = ARGV[AT_i + 5] + 0

-- section: decide
fits_i = fits_i and (used_i <= max_wait_i or cost_i == 0)

-- section: decide_parts
fits_i = fits_i and (used_i < max_wait_i or (used_i == max_wait_i and part_i == 0) or cost_i == 0)
