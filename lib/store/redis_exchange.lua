-- A text that operators share, which is no limit: see struct weir_exchange.

-- section: text
-- ARGV: the mark that is expected, "" for none; for how many ms the new text is kept, 0 to look only;
-- the text, "" for none.
local key, keep_ms, text = KEYS[1], ARGV[2] + 0, ARGV[3]
local held = pcall('GET', key)
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
    return held -- it may not be read, and that must not pass for nothing kept
end
if type(held) ~= 'string' then
    held = ''
end
if keep_ms > 0 and sub(held, 1, 16) == ARGV[1] then
    if text == '' then
        call('UNLINK', key)
    else
        call('PSETEX', key, keep_ms + spare_ms, text)
    end
end
return pack('<d', now) .. held
