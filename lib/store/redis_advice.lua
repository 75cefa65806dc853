-- Tries the commands that the scripts of checks use, as the user that the store logs in as. None has
-- an effect on a key that is not there: nothing is written by an empty SETRANGE, and PSETEX ends at
-- its expiry, which cannot be. Redis looks first whether the user may run a command, and then at all
-- else, so that what is met says which it was. No key is declared, since in a cluster any node must
-- do, and no sum is touched. Returns "COMMAND what it met" for each that met an error.

-- section: try
local key, met = 'weir:{advice}', {}
for _, command in ipairs({ { 'TIME' }, { 'GET', key }, { 'GETRANGE', key, 0, 0 }, { 'STRLEN', key },
    { 'SETRANGE', key, 0, '' }, { 'PSETEX', key, 0, '' }, { 'PEXPIRE', key, 1 }, { 'PTTL', key },
    { 'UNLINK', key } }) do
    local reply = redis.pcall(unpack(command))
    if type(reply) == 'table' and reply.err then
        met[#met + 1] = command[1] .. ' ' .. reply.err
    end
end
return met
