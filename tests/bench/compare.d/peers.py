"""Who is compared, and how each is configured and started.

A peer serves the same body at two paths, to clients that are told apart by X-API-Key: at `items`
every request is let through, at `refused` next to none. Each works in a folder of its own."""

import dataclasses
import getpass
import hashlib
import json
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent

KEYS = 1000  # clients in the scenario with many of them

# All that is asked in a measurement fits into the burst, so that nobody is refused.
RATE_PER_S = 1000
BURST = 100_000_000


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    prepare: callable  # (stage, folder, port) -> the command that serves at the port
    bare: str = None  # the name of the same server without a limiter
    redis: bool = False
    items: str = "/items"
    refused: str = "/refused"  # None: not loaded

    @property
    def is_limited(self):
        return self.bare is not None


@dataclasses.dataclass(frozen=True)
class Stage:
    """What all peers share."""
    programs: pathlib.Path  # the build folder of weir
    packages: pathlib.Path  # where npm's and Debian's packages were unpacked
    body: pathlib.Path  # the file that everybody serves
    redis_port: int


# weir

OPEN = {"name": "burst", "by": "client", "rate": f"{RATE_PER_S}/second", "burst": BURST}
SHUT = {"name": "shut", "by": "client", "rate": "1/day"}


def weir_policy(folder, store, shut_path, lease=None):
    """Writes a policy file, and the keys that it names, into the folder."""
    keys = [{"id": f"client-{number}",
             "sha256": hashlib.sha256(f"key-{number}".encode()).hexdigest()}
            for number in range(1, KEYS + 1)]
    (folder / "keys.json").write_text(json.dumps({"keys": keys}))
    leased = {} if lease is None else {"lease": lease}
    policy = folder / "policy.json"
    policy.write_text(json.dumps({
        # A timeout that is never met: a request that goes uncounted would be cheap.
        "store": {"url": store, "timeout": "2s"},
        "api_keys": {"header": "X-API-Key", "file": "keys.json"},
        "instances": 1,
        "policies": {
            "open": {"limits": [{**OPEN, **leased}], "on_store_failure": "closed"},
            "shut": {"limits": [SHUT], "on_store_failure": "closed"},
        },
        "routes": [
            {"match": f"GET {shut_path}", "auth": "required", "policy": "shut"},
            {"match": "* /*", "auth": "required", "policy": "open"},
        ],
    }))
    return policy


def redis_url(stage):
    return f"redis://127.0.0.1:{stage.redis_port}/0"


def bare_handler(stage, folder, port):
    return [stage.programs / "tests/bench/compare_server", port, stage.body]


def weir_memory(stage, folder, port):
    return [*bare_handler(stage, folder, port), weir_policy(folder, "memory:", "/refused")]


def weir_redis(stage, folder, port, lease=None):
    policy = weir_policy(folder, redis_url(stage), "/refused", lease)
    return [*bare_handler(stage, folder, port), policy]


def weir_store_thread(stage, folder, port):
    return [*weir_redis(stage, folder, port), "store-thread"]


def weir_leased(stage, folder, port):
    return weir_redis(stage, folder, port, "auto")


def weir_demo(stage, folder, port):
    policy = weir_policy(folder, redis_url(stage), "/v1/search")
    return [stage.programs / "demo-server/weir-demo", "--config", policy,
            "--listen", f"127.0.0.1:{port}", "--threads", "1"]


# Node

def node(program, kind):
    def prepare(stage, folder, port):
        shutil.copy(HERE / program, stage.packages)  # where node looks for packages from
        return ["node", stage.packages / program, port, stage.body, kind, stage.redis_port]
    return prepare


# nginx

LUA_MODULES = ("load_module /usr/lib/nginx/modules/ndk_http_module.so;\n"
               "load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;")


def fill(template, target, **values):
    text = (HERE / template).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", str(value))
    target.write_text(text)
    return target


def nginx(stage, folder, port, modules="", limits="", items="", refused=""):
    (folder / "www").mkdir(exist_ok=True)
    for path in ("items", "refused"):
        shutil.copy(stage.body, folder / "www" / path)
    fill("nginx.conf", folder / "nginx.conf", user=getpass.getuser(), port=port, modules=modules,
         limits=limits, items=items, refused=refused)
    return ["nginx", "-p", folder, "-c", "nginx.conf", "-e", "stderr"]


def nginx_limit_req(stage, folder, port):
    zones = (f"limit_req_zone $http_x_api_key zone=open:10m rate={RATE_PER_S}r/s;\n"
             "    limit_req_zone $http_x_api_key zone=shut:10m rate=1r/m;\n"
             "    limit_req_status 429;")
    return nginx(stage, folder, port, limits=zones,
                 items=f"limit_req zone=open burst={BURST} nodelay;",
                 refused="limit_req zone=shut;")


def nginx_lua(stage, folder, port):
    for name in ("limiter.lua", "gcra.lua"):
        shutil.copy(HERE / name, folder)
    start = (f'lua_package_path "{folder}/?.lua;{stage.packages}/usr/share/lua/5.1/?.lua;;";\n'
             f'    init_by_lua_block {{ require("limiter").init("{folder}/gcra.lua") }}')

    def limit(name, interval_us, burst, seconds):
        return (f'access_by_lua_block {{ require("limiter").limit({stage.redis_port}, "{name}", '
                f"{interval_us}, {burst}, '\"{name}\";q={burst};w={seconds}') }}")
    return nginx(stage, folder, port, modules=LUA_MODULES, limits=start,
                 items=limit("open", 1_000_000 // RATE_PER_S, BURST, BURST // RATE_PER_S),
                 refused=limit("shut", 86_400_000_000, 1, 86_400))


# HAProxy

def haproxy(stage, folder, port, limits=""):
    config = fill("haproxy.cfg", folder / "haproxy.cfg", port=port, limits=limits, body=stage.body)
    return ["haproxy", "-db", "-q", "-f", config]


def haproxy_table(stage, folder, port):
    return haproxy(stage, folder, port, limits="\n    ".join((
        "stick-table type string len 64 size 100k expire 60s store http_req_rate(60s)",
        "http-request track-sc0 req.hdr(X-API-Key)",
        "http-request deny deny_status 429 if { path /refused } { sc_http_req_rate(0) gt 10 }",
        f"http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {BURST} }}")))


BARE = "libmicrohttpd, bare"
STRICT = "weir, Redis, strict"
LEASED = "weir, Redis, leased"
EXPRESS = "Express + rate-limit-redis"
LUA = "nginx + Lua, Redis"

PEERS = (
    Peer(BARE, bare_handler),
    Peer("weir, memory", weir_memory, BARE),
    Peer(STRICT, weir_redis, BARE, redis=True),
    Peer("weir, Redis, strict, store's thread", weir_store_thread, BARE, redis=True),
    Peer(LEASED, weir_leased, BARE, redis=True),
    # It writes a line of log for each refusal, which would be measured.
    Peer("weir-demo, Redis", weir_demo, BARE, redis=True, items="/v1/catalog", refused=None),
    Peer("Express 5, bare", node("express.js", "bare")),
    Peer("Express + express-rate-limit, memory", node("express.js", "memory"), "Express 5, bare"),
    Peer(EXPRESS, node("express.js", "redis"), "Express 5, bare", redis=True),
    Peer("Fastify 5, bare", node("fastify.js", "bare")),
    Peer("Fastify + @fastify/rate-limit, Redis", node("fastify.js", "redis"), "Fastify 5, bare",
         redis=True),
    Peer("nginx, bare", nginx),
    Peer("nginx + limit_req", nginx_limit_req, "nginx, bare"),
    Peer(LUA, nginx_lua, "nginx, bare", redis=True),
    Peer("HAProxy, bare", haproxy),
    Peer("HAProxy + stick table", haproxy_table, "HAProxy, bare"),
)
