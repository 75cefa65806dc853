-- wrk's part: keys in turn, and one line of JSON at the end.
--
--     wrk … -s load.lua URL -- PATH KEYS
--
-- With one key the request never changes, and no Lua runs while the load does.
local requests = {}
local turn = 0

local function next_request()
    turn = turn % #requests + 1
    return requests[turn]
end

function init(arguments)
    local path, keys = arguments[1], tonumber(arguments[2])
    for key = 1, keys do
        requests[key] = wrk.format("GET", path, { ["X-API-Key"] = "key-" .. key })
    end
    wrk.path = path
    wrk.headers["X-API-Key"] = "key-1"
    if keys > 1 then
        request = next_request
    end
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '{"requests": %d, "seconds": %.6f, "not_2xx": %d, "broken": %d, '
            .. '"p50_us": %d, "p99_us": %d}\n',
        summary.requests, summary.duration / 1000000, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
