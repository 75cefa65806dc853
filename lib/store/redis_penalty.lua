-- Bans that grow with each violation of the limit in front. State: when it has been quiet since in µs
-- in `first`, which lies ahead during a ban; how many violations there were in `low`.
--
-- ARGV: after how long it is forgotten, in µs. To decide also: 1 if what is asked costs something that
-- can fit; 1 if an attempt during a ban is a violation; how many violations bring the first ban; the
-- row of bans, 8 bytes each. They are read where they are needed, which is seldom.

-- section: function
-- How long the ban is that so many violations bring, by the arguments at `at`.
local function ban_for(violations, at)
    local row, bans = violations - ARGV[at], ARGV[at + 1]
    if row < 0 then
        return 0
    end
    return (unpack('<d', bans, 8 * math.min(row, #bans / 8 - 1) + 1))
end

-- section: limit
-- What no penalty can have written (this also finds nan and inf). Nothing blocks one.
local left_i = 0
if low_i > 1000000000 or high_i > 0 or first_i % 1 ~= 0 or first_i >= 9007199254740992 then
    first_i, low_i, high_i = 0, 0, 0
end

-- section: decide
local costs_i, bans_i = ARGV[AT_i + 1] == '1', first_i > now
if bans_i then
    local most = ban_for(low_i, AT_i + 3)
    if first_i - now > most then
        -- The clock went back or the penalty was changed: as long as it can be, but no longer.
        first_i, changed_g, bans_i = now + most, true, most > 0
    end
end
if costs_i and LIMIT_LEFT <= 0
    and (bans_i and ARGV[AT_i + 2] == '1' or not (bans_i or LIMIT_FITS)) then
    if now - first_i >= ARGV[AT_i] + 0 then
        low_i = 0
    end
    low_i = math.min(low_i + 1, 1000000000)
    first_i, changed_g = now + ban_for(low_i, AT_i + 3), true
end
local fits_i = first_i <= now or not costs_i

-- section: lasts
until_i = low_i > 0 and first_i + ARGV[AT_i] or 0

-- section: refuse_all
-- In place of the log's own: during a ban nothing is logged.
if not (fits_i or BANS) and ring_i.left == 0 and ring_i.cost <= ring_i.limit then
    add_refused(ring_i)
end
