-- What stands around the limits where one call decides many checks of one shape. Checks that follow
-- each other and have the same keys are a run: their keys are read once, and written once behind the
-- last of them. A run in which a command fails has changed nothing, and says so for itself alone.

-- section: begin
local try, spread = pcall, unpack

-- section: loop
-- `runs` has a byte for each run: how many checks it has. `numbers` are the limits' numbers, of one
-- check after the other. So far `n` checks are decided, which are those of `run` runs.
local byte, runs, numbers = string.byte, ARGV[RUNS], ARGV[NUMBERS]
local replies, failed, n, run, first, last = {}, nil, 0, 0, 0, 0
local function fail(text)
    error(text, 0)
end
local function decide_rest()
    while run < #runs do
        local key_at = run * KEYS_EACH
        run = run + 1
        first, last = n, n + byte(runs, run)

-- section: time
-- In front of each check's answer, so that it reads as if it had come alone.
local let_through, refused = pack('<d', now), pack('<d', -now)

-- section: check
repeat
    local at = n * BYTES_EACH
    n = n + 1

-- section: states
-- As they were before this check.
local states_g = n > first + 1 and pack('<FORMAT_g', STATES_g) or before_g
    or RAW_g

-- section: write
if n == last then

-- section: reply_used
replies[n] = left_i > 0 and -left_i or used_i

-- section: reply_states
replies[n] = (all_fit and let_through or refused) .. BEFORE

-- section: end
        until n == last
    end
end
while run < #runs do
    local is_done, why = try(decide_rest)
    if not is_done then
        failed = failed or {}
        if type(why) == 'table' then
            why = why.err
        end
        for k = first + 1, last do
            replies[k], failed[k] = NO_REPLY, sub(tostring(why), 1, 200)
        end
        n = last
    end
end

-- section: all_used
-- The time, and what each check's answer rests on.
local all = pack('<d' .. string.rep('d', n), now, spread(replies))

-- section: all_states
local all = table.concat(replies)

-- section: reply
if not failed then
    return all
end
local list = { all }
for k = 1, n do
    list[k + 1] = failed[k] or ''
end
return list
