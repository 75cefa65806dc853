-- Limits whose state lies together under one key, or one limit with a key to itself.
--
--   a group   count (1 byte), `count` ids (4 bytes each), expiry, states, foreign sections
--   alone     expiry, state
--
-- The expiry (a double, in µs) is the time up to which the key surely lives, so that few decisions
-- need to renew it. One that is farther ahead than any limit can have set it says nothing, and is set
-- anew: such a key may have no expiry at all. A state is 16 bytes: a double and two unsigned integers, as struct weir_state.
-- A foreign section is the id and the state of a limit that somebody else's plan has, or had.

-- section: read_begin
local key_g = KEY_g
local value_g = pcall('GET', key_g)
local expiry_g, before_g, changed_g, renew_g = 0, nil, false, false
local STATES_g

-- section: read_alone
if value_g and #value_g == SIZE_g then
    expiry_g, STATES_g = unpack('<ALL_g', value_g)
else
    -- Not there, or not of ours (a table, for another type): a key like new.
    if value_g and value_g.err and not string.find(value_g.err, 'WRONGTYPE', 1, true) then
        FAIL_g -- it may not be read, and that must not pass for nothing spent
    end
    before_g = ZEROS_g
    STATES_g = unpack('<FORMAT_g', before_g)
end

-- section: read_group
local foreign_g = ''
if value_g and #value_g >= SIZE_g and sub(value_g, 1, HEAD_g) == ARGV[AT_g] then
    expiry_g, STATES_g = unpack('<ALL_g', value_g, HEAD_g + 1)
else
    if value_g and value_g.err and not string.find(value_g.err, 'WRONGTYPE', 1, true) then
        FAIL_g
    end
    before_g = ZEROS_g
    if value_g and #value_g > 0 and #value_g <= 489 then
        -- Limits came, went or changed places: each finds its section by id.
        local count = string.byte(value_g)
        local states = 9 + 4 * count
        if #value_g >= states + 16 * count and #value_g % 20 == 9 then
            local found, order = {}, {}
            for n = 1, (#value_g - 9) / 20 do
                local id, state = 20 * n - 10, 20 * n - 6
                if n <= count then
                    id, state = 4 * n - 2, states + 16 * n - 15
                end
                order[n] = sub(value_g, id, id + 3)
                found[order[n]] = found[order[n]] or sub(value_g, state, state + 15)
            end
            local ours = ''
            for n = 1, COUNT_g do
                local id = sub(ARGV[AT_g], 4 * n - 2, 4 * n + 1)
                ours = ours .. (found[id] or string.rep('\0', 16))
                found[id] = nil
            end
            before_g = ours
            for n = 1, #order do
                local state = found[order[n]]
                -- No more than 16; the newest come first.
                if state and #foreign_g < 320 and state ~= string.rep('\0', 16) then
                    foreign_g = foreign_g .. order[n] .. state
                    found[order[n]] = nil
                end
            end
            expiry_g, renew_g = unpack('<d', value_g, states - 7), true
        end
    end
    STATES_g = unpack('<FORMAT_g', before_g)
end

-- section: repair
-- Somebody may have taken the expiry away: that is seen at every refusal, and at one in sixteen of
-- the other decisions, since looking costs as much as half a decision.
if (not all_fit or now % 16 == 0) and expiry_g ~= 0 and call('PTTL', key_g) == -1 then
    changed_g, renew_g = true, true
end

-- section: reset_group
if value_g and foreign_g == '' and (before_g or #value_g == SIZE_g) then
    call('UNLINK', key_g) -- nothing of somebody else's in it
elseif value_g then
    STATES_g = unpack('<FORMAT_g', ZEROS_g)
    changed_g = true
end

-- section: write_begin
if changed_g then
    local until_g = 0

-- section: write_middle
    local possible_g = POSSIBLE_g
    if until_g <= expiry_g and possible_g and not (before_g or renew_g) then
        call('SETRANGE', key_g, 'OFFSET_g', pack('<FORMAT_g', STATES_g))
    else
        local lives_g = until_g

-- section: write_end_alone
        local ms = lives_g > now and (lives_g - now) / 1000 or 0
        call('PSETEX', key_g, ms - ms % 1 + spare_ms, pack('<ALL_g', lives_g, STATES_g))
    end
end

-- section: write_end_group
        if not before_g then
            foreign_g = sub(value_g, SIZE_g + 1)
        end
        -- Whoever owns the foreign sections counts on it.
        if possible_g and expiry_g > lives_g then
            lives_g = expiry_g
        elseif not possible_g and foreign_g ~= '' then
            lives_g = now + 63331200000000
        end
        local ms = lives_g > now and (lives_g - now) / 1000 or 0
        call('PSETEX', key_g, ms - ms % 1 + spare_ms,
            ARGV[AT_g] .. pack('<ALL_g', lives_g, STATES_g) .. foreign_g)
    end
end
