-- nginx with Lua: asks Redis by one script, over a pool of connections, and tells the client what
-- weir tells it. Errors let the request through, as the examples of lua-resty-redis have it.
local redis = require "nginx.redis"

local M = { _VERSION = "1" }
local script, sha

function M.init(path)
    local file = assert(io.open(path))
    script = file:read("*a")
    file:close()
end

local function ask(client, ...)
    if sha then
        local answer, err = client:evalsha(sha, 1, ...)
        if answer or not string.find(err, "NOSCRIPT", 1, true) then
            return answer, err
        end
    end
    local err
    sha, err = client:script("LOAD", script)
    if not sha then
        return nil, err
    end
    return client:evalsha(sha, 1, ...)
end

-- `interval` is in microseconds; `policy` is the field RateLimit-Policy.
function M.limit(port, name, interval, burst, policy)
    local client = redis:new()
    client:set_timeout(1000)
    local ok, err = client:connect("127.0.0.1", port)
    if not ok then
        return ngx.log(ngx.ERR, "Redis: ", err)
    end
    local who = ngx.var.http_x_api_key or ngx.var.remote_addr
    local answer, why = ask(client, "gcra:" .. name .. ":" .. who, interval, burst)
    if not answer then
        return ngx.log(ngx.ERR, "Redis: ", why)
    end
    client:set_keepalive(10000, 100)

    local allowed, remaining, retry, reset = answer[1], answer[2], answer[3], answer[4]
    ngx.header["RateLimit-Policy"] = policy
    ngx.header["RateLimit"] = '"' .. name .. '";r=' .. remaining .. ";t=" .. reset
    if allowed == 0 then
        ngx.header["Retry-After"] = retry
        return ngx.exit(429)
    end
end

return M
