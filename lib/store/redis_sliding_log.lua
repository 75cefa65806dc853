-- What was admitted in the last window, each with its time. A key of its own: a ring in a string.
--
--   header    expiry and time of the newest entry (doubles, µs); that time as it stands in the ring,
--             and the oldest one's (48 bits each); the place of the oldest entry, how many there are,
--             for how many there is room; the sum before the oldest, up to it, and up to the newest
--             (32 bits each)
--   entries   48 bits of time, and the running sum up to and with this entry, modulo 2^32
--
-- With running sums no question needs a walk. Times in the ring are only compared with each other,
-- so a clock that goes back moves all entries by changing the header alone. A blocked key holds what
-- a limit that stands alone does (redis_group.lua).

-- section: functions
local turn, header_format = 281474976710656, '<ddI6I6I4I4I4I4I4I4'

local function read_ring(key, limit, cost, window)
    local ring = { key = key, limit = limit, cost = cost, window = window, left = 0,
        expiry = 0, newest = now, newest_at = 0, oldest_at = 0,
        first = 0, count = 0, size = 0, before = 0, oldest = 0, total = 0 }
    local length = pcall('STRLEN', key)
    if type(length) == 'table' and not string.find(length.err, 'WRONGTYPE', 1, true) then
        error(length.err) -- it may not be read, and that must not pass for nothing spent
    end
    if type(length) ~= 'number' or length < 24 then
        return ring
    end
    local header = call('GETRANGE', key, '0', '51')
    if length == 24 then
        local _, first, _, high = unpack('<ddI4I4', header)
        ring.is_over = high == 4294967295 and first <= now
        if high == 4294967295 and first > now and first < 9007199254740992 and first % 1 == 0 then
            ring.left = first - now
        end
        return ring
    end
    if length < 62 then
        return ring
    end
    local expiry, newest, newest_at, oldest_at, first, count, size, before, oldest, total =
        unpack(header_format, header)
    if length ~= 52 + 10 * size or count < 1 or count > size or first >= size
        or newest % 1 ~= 0 or newest < 0 or newest >= 9007199254740992 then
        return ring -- not of ours: like new
    end
    ring.expiry, ring.newest, ring.newest_at, ring.oldest_at = expiry, newest, newest_at, oldest_at
    ring.first, ring.count, ring.size = first, count, size
    ring.before, ring.oldest, ring.total = before, oldest, total
    if newest > now then
        ring.newest, ring.changed = now, limit > 0 -- the clock went back: no time has passed since
    end
    return ring
end

-- The time of an entry in the ring, and the sum up to it.
local function entry(ring, n)
    if n == ring.count - 1 then
        return ring.newest_at, ring.total
    elseif n == 0 then
        return ring.oldest_at, ring.oldest
    end
    local at = 10 * ((ring.first + n) % ring.size)
    if ring.entries then
        return unpack('<I6I4', ring.entries, at + 1)
    end
    return unpack('<I6I4', call('GETRANGE', ring.key, at + 52, at + 61))
end

local function age(ring, at)
    return now - ring.newest + (ring.newest_at - at) % turn
end

-- The first entry, from number `low` on, for which `holds` says so; it does for the newest. Steps
-- that double, then halves: what is near is found at once.
local function first_entry(ring, low, holds)
    if holds(entry(ring, low)) then
        return low
    end
    local high, step = ring.count - 1, 1
    while low + step < high do
        if holds(entry(ring, low + step)) then
            high = low + step
            break
        end
        low, step = low + step, step * 2
    end
    while high - low > 1 do
        local middle = math.floor((low + high) / 2)
        if holds(entry(ring, middle)) then
            high = middle
        else
            low = middle
        end
    end
    return high
end

-- How many entries have left the window, the sum of the others, and when the newest leaves.
local function count_ring(ring)
    ring.gone, ring.sum, ring.counted_from, ring.leaves, ring.retry = 0, 0, ring.before, 0, 0
    if ring.count == 0 then
        return
    elseif now - ring.newest >= ring.window then
        ring.gone = ring.count
        return
    end
    ring.leaves = ring.newest + ring.window - now
    ring.gone = first_entry(ring, 0, function(at)
        return age(ring, at) < ring.window
    end)
    if ring.gone > 0 then
        local _, before = entry(ring, ring.gone - 1)
        ring.counted_from = before
    end
    ring.sum = (ring.total - ring.counted_from) % 4294967296
end

local function header_of(ring)
    return pack(header_format, ring.expiry, ring.newest, ring.newest_at, ring.oldest_at,
        ring.first, ring.count, ring.size, ring.before, ring.oldest, ring.total)
end

-- Not too early for the newest entry, and not farther ahead than write_ring() sets it.
local function has_possible_expiry(ring)
    local until_us = ring.newest + ring.window
    return until_us <= ring.expiry and ring.expiry <= until_us + ring.window / 4
end

local function write_ring(ring)
    local until_us = ring.newest + ring.window
    local renews = not has_possible_expiry(ring)
    if renews then
        ring.expiry = until_us + math.floor(ring.window / 4)
    end
    local ms = math.floor((ring.expiry - now) / 1000) + spare_ms
    local at = 10 * ((ring.first + ring.count - 1) % ring.size)
    local newest = pack('<I6I4', ring.newest_at, ring.total)
    if ring.entries then
        call('PSETEX', ring.key, ms, header_of(ring) .. sub(ring.entries, 1, at) .. newest
            .. sub(ring.entries, at + 11))
        return
    end
    if ring.has_new then
        call('SETRANGE', ring.key, at + 52, newest)
    end
    call('SETRANGE', ring.key, '0', header_of(ring))
    if renews then
        call('PEXPIRE', ring.key, ms)
    end
end

-- section: functions_to_spend
-- Forgets the entries before that one.
local function forget(ring, n)
    if n == 0 then
        return
    elseif n == ring.count then
        ring.before, ring.oldest = ring.total, ring.total
    else
        local _, before = entry(ring, n - 1)
        ring.oldest_at, ring.oldest = entry(ring, n)
        ring.before = before
    end
    ring.first, ring.count, ring.gone = (ring.first + n) % ring.size, ring.count - n, 0
end

-- Writes everything anew, with more room. Entries whose units were all given back are left out where
-- there are more than the limit can have otherwise.
local function grow(ring)
    local entries = ''
    if ring.count > 0 then
        entries = call('GETRANGE', ring.key, '52', '-1')
        entries = sub(entries, 10 * ring.first + 1) .. sub(entries, 1, 10 * ring.first)
        entries = sub(entries, 1, 10 * ring.count)
    end
    if ring.count > ring.limit then
        local kept, sum = {}, ring.before
        for n = 1, ring.count do
            local text = sub(entries, 10 * n - 9, 10 * n)
            local _, up_to = unpack('<I6I4', text)
            if up_to ~= sum or n == ring.count then
                kept[#kept + 1] = text
            end
            sum = up_to
        end
        entries, ring.count = table.concat(kept), #kept
        ring.oldest_at, ring.oldest = unpack('<I6I4', entries)
    end
    local size = math.floor(ring.count * 1.25) + 8
    if ring.count <= ring.limit and size > ring.limit + 1 then
        size = ring.limit + 1 -- one more than admissions fill, for a refusal that is logged
    end
    ring.first, ring.size = 0, size
    ring.entries = entries .. string.rep('\0', 10 * (size - ring.count))
end

-- Adds what it costs at this time, in place of what has left the window.
local function add(ring)
    local units = ring.cost
    forget(ring, ring.gone)
    if ring.count > 0 and ring.newest == now then
        local _, before = nil, ring.before
        if ring.count > 1 then
            _, before = entry(ring, ring.count - 2)
        end
        -- There is no end to the refusals in one microsecond; sums must stay below 2^32.
        units = math.min(units, 2000000000 - (ring.total - before) % 4294967296)
        ring.total = (ring.total + units) % 4294967296
    else
        if ring.count == ring.size then
            grow(ring)
        end
        ring.newest_at = (ring.newest_at + now - ring.newest) % turn
        ring.newest, ring.total = now, (ring.total + units) % 4294967296
        ring.count = ring.count + 1
    end
    if ring.count == 1 then
        ring.oldest_at, ring.oldest = ring.newest_at, ring.total
    end
    ring.has_new, ring.changed = true, true
end

-- How long until so much has left that the cost fits.
local function find_retry(ring)
    local needed = ring.sum + ring.cost - ring.limit
    local at = entry(ring, first_entry(ring, ring.gone, function(_, sum)
        return (sum - ring.counted_from) % 4294967296 >= needed
    end))
    ring.retry = ring.window - age(ring, at)
end

local function keep_ring(ring, looks_closer)
    if ring.changed then
        write_ring(ring)
    elseif ring.is_over then
        call('UNLINK', ring.key)
    end
    if looks_closer and ring.expiry ~= 0 and call('PTTL', ring.key) == -1 then
        local lives = has_possible_expiry(ring) and ring.expiry or ring.newest + ring.window
        call('PEXPIRE', ring.key, math.floor((lives - now) / 1000) + spare_ms)
    end
end

-- section: functions_to_refuse
-- Logs a refusal: it too must leave before there is room, but no more is kept than fills the limit.
local function add_refused(ring)
    add(ring)
    forget(ring, first_entry(ring, 0, function(_, sum)
        return (ring.total - sum) % 4294967296 < ring.limit
    end))
    ring.sum, ring.counted_from = (ring.total - ring.before) % 4294967296, ring.before
    ring.leaves = ring.window
end

-- section: functions_to_settle
-- Adds to the sums from an entry on.
local function add_to_sums(ring, n, units)
    if n == 0 then
        ring.oldest = (ring.oldest + units) % 4294967296
    end
    ring.total = (ring.total + units) % 4294967296
    while n < ring.count do
        local place = (ring.first + n) % ring.size
        local run = math.min(ring.count - n, ring.size - place, 256)
        local entries = call('GETRANGE', ring.key, 52 + 10 * place, 51 + 10 * (place + run))
        local changed = {}
        for k = 1, run do
            local at, sum = unpack('<I6I4', entries, 10 * k - 9)
            changed[k] = pack('<I6I4', at, (sum + units) % 4294967296)
        end
        call('SETRANGE', ring.key, 52 + 10 * place, table.concat(changed))
        n = n + run
    end
end

-- Corrects what was admitted at a time, if it is still in the window.
local function settle_ring(ring, decided)
    ring.changed = false
    if ring.sum == 0 and ring.gone == ring.count or decided > ring.newest
        or now - decided >= ring.window then
        return
    end
    local n = first_entry(ring, 0, function(at)
        return age(ring, at) <= now - decided
    end)
    local at, up_to = entry(ring, n)
    if age(ring, at) ~= now - decided then
        return
    end
    local before = ring.before
    if n > 0 then
        local _, sum = entry(ring, n - 1)
        before = sum
    end
    local units = (up_to - before) % 4294967296
    local most = units + math.max(0, ring.limit - ring.sum)
    local settled = math.max(0, math.min(units + ring.cost, most))
    if settled ~= units then
        add_to_sums(ring, n, settled - units)
        ring.changed = true
    end
end

-- section: read
-- Numbers: limit, cost (or by how much it changes), window in µs.
local ring_i = read_ring(KEYS[NUMBER_i], NUMBERS_i)
count_ring(ring_i)

-- section: decide
local fits_i = ring_i.cost == 0 or ring_i.left == 0 and ring_i.sum + ring_i.cost <= ring_i.limit

-- section: spend
if ring_i.cost > 0 then
    add(ring_i)
end

-- section: refuse_all
if not fits_i and ring_i.left == 0 and ring_i.cost <= ring_i.limit then
    add_refused(ring_i)
end

-- section: keep
keep_ring(ring_i, not all_fit or now % 16 == 0)

-- section: reply
-- Units in the window, and in µs: until the newest leaves it, and until this fits; for a blocked key
-- -1 and how long it is blocked.
if not fits_i and ring_i.left == 0 and ring_i.cost <= ring_i.limit then
    find_retry(ring_i)
end
local before_g = pack('<ddd', ring_i.left > 0 and -1 or ring_i.sum,
    ring_i.left > 0 and ring_i.left or ring_i.leaves, ring_i.retry)

-- section: settle
-- Behind those: when it was decided.
if ring_i.left == 0 and ring_i.limit > 0 then
    settle_ring(ring_i, ARGV[AT_i + 3] + 0)
    if ring_i.changed then
        write_ring(ring_i)
    end
end

-- section: block
-- ARGV: for how long, in µs. The lone form of a state.
local left_i = ARGV[AT_i] + 0
call('PSETEX', KEYS[NUMBER_i], (left_i - left_i % 1000) / 1000 + spare_ms,
    pack('<ddI4I4', now + left_i, now + left_i, 0, 4294967295))
