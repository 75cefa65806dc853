-- Decides 1 to 8 limits as one: all are spent, or none is. A key for each limit; ARGV holds, for
-- each limit in turn, the name of its algorithm and its numbers. Numbers stay below 2^53, where
-- Lua's are exact.
--
-- Replies with two numbers for each limit, from which the library works out its answers. A lone
-- limit whose second number is 0 gets the first alone: an array costs Redis half a µs more.
--
-- The algorithms stand in the loop as they are: functions would be made anew in every call.

-- include: redis_clock.lua

local states = call('MGET', unpack(KEYS))
local reply, kept, kept_us, all_fit, at = {}, {}, {}, true, 1
for i = 1, #KEYS do
    local key, state, algorithm = KEYS[i], states[i], ARGV[at]
    local fits, first, second, left = false, 0, 0, 0 -- left: µs in which the state matters
    if algorithm == 'gcra' or algorithm == 'gcra-parts' then
        -- include: redis_gcra.lua
    elseif algorithm == 'zero' then
        -- Nothing fits a limit of 0, and nothing is kept for it. ARGV: "zero", cost.
        fits, at = ARGV[at + 1] == '0', at + 2
    else
        -- include: redis_fixed_window.lua
    end
    if state and not fits and call('PTTL', key) == -1 then
        -- Somebody took the expiry away. Otherwise a refusal leaves it as it is.
        call('PEXPIRE', key, (left - left % 1000) / 1000 + spare_ms)
    end
    all_fit = all_fit and fits
    reply[2 * i - 1], reply[2 * i] = first, second
end

if all_fit then
    for i = 1, #KEYS do
        if kept[i] then
            call('PSETEX', KEYS[i], (kept_us[i] - kept_us[i] % 1000) / 1000 + spare_ms, kept[i])
        end
    end
end
if #reply == 2 and reply[2] == 0 then
    return reply[1]
end
return reply
