-- What stands around the limits in a script. A script is composed for each shape of a check; how,
-- and what the names in capitals and those with "_i" and "_g" become, redis_script.h says.

-- section: clock
-- Redis decides by its own clock, so that all instances agree; `now` is in µs since the epoch. An
-- expiry rests on the time at which the script began, which is a little before `now`, and both are
-- cut to whole milliseconds.
local call, pcall = redis.call, redis.pcall
local pack, unpack = struct.pack, struct.unpack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local spare_ms = 3

-- section: clock_of_test
-- A test moves time by hand and sends it along; real time must not expire its keys meanwhile.
local call, pcall = redis.call, redis.pcall
local pack, unpack = struct.pack, struct.unpack
local now = ARGV[#ARGV] + 0
local spare_ms = 3600000

-- section: sub
-- For all but the commonest script, in which each look-up counts.
local sub = string.sub

-- section: limit
-- What no decision can have written (this also finds nan and inf), and what is blocked.
local left_i, over_i = 0
if high_i > HIGH_i or low_i > 1000000000 or first_i % 1 ~= 0 or first_i >= 9007199254740992 then
    if high_i == 4294967295 and low_i == 0 and first_i % 1 == 0 and first_i < 9007199254740992 then
        if first_i > now then
            left_i = first_i - now
        else
            over_i, first_i, low_i, high_i = first_i, 0, 0, 0
        end
    else
        first_i, low_i, high_i = 0, 0, 0
    end
end

-- section: decide_begin
local fits_i
if over_i then
    changed_g = true
end
if left_i > 0 then
    fits_i = cost_i == 0
else

-- section: end
end

-- section: spend_all
local all_fit = FITS
if all_fit then

-- section: spend_begin
if cost_i > 0 then

-- section: refuse
else

-- section: settle_begin
if left_i == 0 then

-- section: settle_end
    if over_i and first_i == 0 then
        -- Nothing to correct: as it was, and it matters no longer.
        first_i, high_i, left_i = over_i, 4294967295, -1
    end
end

-- section: reset
call('UNLINK', KEY_g)

-- section: block
local left_i = ARGV[AT_i] + 0
first_i, low_i, high_i, changed_g = now + left_i, 0, 4294967295, true

-- section: lasts_begin
local until_i = first_i
if left_i == 0 then

-- section: lasts_end
end
if until_i > until_g then
    until_g = until_i
end

-- section: lengthen_begin
if left_i == 0 and until_i > now then

-- section: reply_used
-- A lone limit whose answer rests on one number: the time in use, or below 0 how long it is blocked,
-- which is cheaper than its state.
return pack('<dd', now, left_i > 0 and -left_i or used_i)

-- section: reply_states
return pack('<d', all_fit and now or -now) .. BEFORE

-- section: reply_done
return 1
