"""Five calls of "we are under your limit, why do we get 429?", each with a real cause.

A story starts what it needs (weir-demo, Redis, nginx), lets clients do what they did, and then looks
where an operator would: at the response, at explain, at the metrics, the decision log and what the
dashboard shows. What it sees is kept as blocks of text, for the tests and for docs/runbook-429.md.
"""

import contextlib
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "serve"))

from support import (  # noqa: E402
    Demo,
    Nginx,
    PATIENCE_S,
    Redis,
    make_config,
    make_folder,
    raw_request,
    read_response,
    wait_until,
)

WEIR = os.environ["WEIR_TOOL"]

# The demos are behind a proxy, so that they answer an operator who shows the token.
os.environ["WEIR_ADMIN_TOKEN"] = "the-token-of-the-stories"
CURL = 'curl -s -H "Authorization: Bearer $WEIR_ADMIN_TOKEN"'
AUTH = {"Authorization": f"Bearer {os.environ['WEIR_ADMIN_TOKEN']}"}

def keys_file(ids):
    return {
        "keys": [
            {"id": name, "sha256": hashlib.sha256(key_of(name).encode()).hexdigest()} for name in ids
        ]
    }


def key_of(name):
    """The key that is presented for an id of the keys file."""
    return f"the key of {name}"


def policy(limit, auth="optional", route="* /v1/*"):
    """A policy file as these servers have it: one limit, behind a gateway on this machine."""
    return make_config(
        {"api": [limit]},
        [(route, {"auth": auth, "policy": "api"})],
        client_ip={"trust": ["loopback"], "header": "X-Forwarded-For"},
        secret="the same everywhere",
    )


class Scene:
    """A running demo on a Redis, and what was seen of it."""

    def __init__(self, test, redis, config, ids, options=()):
        self.folder = make_folder(test)
        self.config = os.path.join(self.folder, "policy.json")
        redis.command("FLUSHALL")
        config["store"] = {"url": redis.url, "timeout": "10s"}
        self.write("api-keys.json", keys_file(ids))
        self.write("policy.json", config)
        self.redis = redis
        self.demo = Demo(
            test, options=("--config", self.config, *options), every_decision=False
        )
        self.blocks = {}
        self.responses = []
        self.also_allowed = 0  # beside the responses

    def write(self, name, content):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)

    # what clients do

    def connect(self):
        made = socket.create_connection(self.demo.where, timeout=PATIENCE_S)
        return made, made.makefile("rb")

    def ask_many(self, requests):
        """Sends requests back to back on one connection, and returns the responses."""
        connection, stream = self.connect()
        with connection, stream:
            connection.sendall(b"".join(requests))
            return [read_response(stream) for _ in requests]

    def ask_again_and_again(self, request, times):
        """Sends a request as soon as the last one is answered, whatever the answer says."""
        connection, stream = self.connect()
        responses = []
        with connection, stream:
            while len(responses) < times:
                connection.sendall(request)
                responses.append(read_response(stream))
        return responses

    # what operators look at

    def see(self, name, command, output):
        """Keeps what a command prints, as it would look at a terminal."""
        output = output.replace("\r\n", "\n").replace(self.demo.url, "http://127.0.0.1:8080")
        output = output.replace(f"{self.demo.where[1]}", "8080")
        output = output.replace(self.redis.url, "redis://10.0.0.5:6379/0")
        output = output.replace(self.folder + "/", "")
        self.blocks[name] = f"$ {command}\n{output.rstrip()}\n"

    def admin(self, target):
        return self.demo.get(f"/admin{target}", AUTH)

    def explain(self, request_id):
        """Looks at a refused request, and keeps the sentence and the hints."""
        response = self.admin(f"/explain?request_id={request_id}")
        explanation = response.json()
        lines = [explanation["summary"], *(f"- {hint}" for hint in explanation["hints"])]
        self.see(
            "explain",
            f"{CURL} 'http://127.0.0.1:8080/admin/explain?request_id={request_id}' "
            "| jq -r '.summary, (.hints[] | \"- \" + .)'",
            "\n".join(lines),
        )
        return explanation

    def explain_by_tool(self, *options, shown):
        """Asks the program, as an operator would with a request that a client has sent in."""
        done = subprocess.run(
            [WEIR, "explain", "--policy", self.config, *options],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.see("tool", f"weir explain --policy policy.json {shown}", done.stdout)
        return done.stdout

    def metrics(self):
        """What was decided, by outcome, as /metrics has it."""
        text = self.demo.get("/metrics", AUTH).body.decode()
        start = 'weir_decisions_total{policy="api"'
        lines = [
            line for line in text.splitlines() if line.startswith(start) and line[-2:] != " 0"
        ]
        self.see(
            "metrics",
            f"{CURL} http://127.0.0.1:8080/metrics | grep '{start}' | grep -v ' 0$'",
            "\n".join(lines),
        )
        sums = {}
        for line in lines:
            outcome = re.search(r'outcome="([^"]*)"', line)[1]
            sums[outcome] = sums.get(outcome, 0) + int(line.rsplit(" ", 1)[1])
        return sums

    def top(self, by):
        response = self.admin(f"/top?policy=api&by={by}&count=3")
        self.see(
            "top",
            f"{CURL} 'http://127.0.0.1:8080/admin/top?policy=api&by={by}&count=3' | jq -c '.keys[]'",
            "\n".join(json.dumps(key, separators=(",", ":")) for key in response.json()["keys"]),
        )
        return response.json()["keys"]

    def log(self):
        """The decision log's lines, once the demo has ended and so has written all of it."""
        self.demo.stop()
        lines = [line for line in self.demo.log().splitlines() if '"decision"' in line]
        self.see("log", "grep decision weir-demo.log", "\n".join(lines))
        return [json.loads(line) for line in lines]

    def show(self, response, name="response"):
        """Keeps a response as curl prints it."""
        reasons = {200: "OK", 404: "Not Found", 429: "Too Many Requests"}
        lines = [f"HTTP/1.1 {response.status} {reasons[response.status]}"]
        lines += [f"{title(field)}: {value}" for field, value in response.headers.items()]
        self.see(
            name, "curl -si https://api.example.com/v1/catalog",
            "\n".join(lines) + "\n\n" + response.body.decode(),
        )


def title(field):
    return {"ratelimit": "RateLimit", "ratelimit-policy": "RateLimit-Policy"}.get(
        field, field.title()
    )


def from_address(address, key=None):
    """The header lines of a request that came through the gateway."""
    headers = {"X-Forwarded-For": address}
    if key is not None:
        headers["X-API-Key"] = key_of(key)
    return headers


def catalog(headers):
    return raw_request("GET", "/v1/catalog", headers)


def refused(responses):
    return [response for response in responses if response.status == 429]


# --- the stories ---


def partner_in_bursts(test, redis):
    """20 requests a second on average, sent as 40 every two seconds, under "1200/minute"."""
    limit = {"name": "minute", "by": "api_key", "rate": "1200/minute", "burst": 20}
    scene = Scene(test, redis, policy(limit, auth="required"), ["harbour-live"])
    headers = from_address("203.0.113.7", "harbour-live")
    started = time.monotonic()
    responses = scene.ask_many([catalog(headers)] * 40)
    # The burst is earned back in a second, so the next one meets a full limit.
    wait_until(lambda: time.monotonic() > started + 2, "two seconds have passed")
    responses += scene.ask_many([catalog(headers)] * 40)
    scene.responses = responses
    scene.show(refused(responses)[-1])
    scene.explanation = scene.explain(refused(responses)[-1].headers["x-request-id"])
    scene.tool = scene.explain_by_tool(
        "--path", "/v1/catalog", "--peer", "127.0.0.1", "--header", "X-Forwarded-For: 203.0.113.7",
        "--header", f"X-API-Key: {key_of('harbour-live')}",
        shown="--path /v1/catalog --peer 127.0.0.1 \\\n"
        "    --header 'X-Forwarded-For: 203.0.113.7' --header 'X-API-Key: …'",
    )
    scene.counts = scene.metrics()
    scene.stats = scene.admin("/stats").json()
    scene.keys = scene.top("refused")
    scene.lines = scene.log()
    return scene


def shared_nat(test, redis):
    """Twelve colleagues behind one address, each with a few requests."""
    staff = [f"staff-{number}" for number in range(1, 13)]
    limit = {"name": "address", "by": "ip", "rate": "30/hour"}
    scene = Scene(test, redis, policy(limit), staff)
    for _ in range(4):
        scene.responses += scene.ask_many(
            [catalog(from_address("198.51.100.20", name)) for name in staff]
        )
    scene.show(refused(scene.responses)[-1])
    scene.explanation = scene.explain(refused(scene.responses)[-1].headers["x-request-id"])
    scene.tool = scene.explain_by_tool(
        "--path", "/v1/catalog", "--peer", "127.0.0.1", "--header",
        "X-Forwarded-For: 198.51.100.20", "--header", f"X-API-Key: {key_of('staff-1')}", "--live",
        shown="--live --path /v1/catalog --peer 127.0.0.1 \\\n"
        "    --header 'X-Forwarded-For: 198.51.100.20' --header 'X-API-Key: …'",
    )
    scene.counts = scene.metrics()
    scene.stats = scene.admin("/stats").json()
    scene.keys = scene.top("refused")
    scene.lines = scene.log()
    return scene


def one_key_for_five(test, redis):
    """One API key in five services, of which none knows of the others."""
    limit = {"name": "key", "by": "api_key", "rate": "10/second", "burst": 15}
    scene = Scene(test, redis, policy(limit, auth="required"), ["acme-live"])
    services = [f"203.0.113.{number}" for number in range(11, 16)]
    scene.responses = scene.ask_many(
        [catalog(from_address(address, "acme-live")) for address in services * 6]
    )
    scene.show(refused(scene.responses)[-1])
    scene.explanation = scene.explain(refused(scene.responses)[-1].headers["x-request-id"])
    scene.counts = scene.metrics()
    scene.stats = scene.admin("/stats").json()
    scene.keys = scene.top("refused")
    scene.recent = scene.admin("/recent?count=50").json()["decisions"]
    addresses = sorted({line["address"] for line in scene.recent})
    scene.see(
        "recent",
        f"{CURL} 'http://127.0.0.1:8080/admin/recent?count=50' "
        "| jq -r '.decisions[] | .key + \" \" + .address' | sort | uniq -c",
        "\n".join(
            f"      {sum(line['address'] == address for line in scene.recent)} "
            f"api_key:acme-live {address}"
            for address in addresses
        ),
    )
    scene.lines = scene.log()
    return scene


def retry_storm(test, redis):
    """A client that takes each 429 for a reason to ask again at once."""
    limit = {"name": "minute", "by": "api_key", "rate": "60/minute", "burst": 10}
    scene = Scene(test, redis, policy(limit, auth="required"), ["delta-batch", "quiet-live"])
    headers = from_address("203.0.113.40", "delta-batch")
    scene.responses = scene.ask_again_and_again(catalog(headers), 90)
    scene.also_allowed = 1
    scene.other = scene.demo.get("/v1/catalog", from_address("203.0.113.41", "quiet-live"))
    scene.show(refused(scene.responses)[-1])
    scene.explanation = scene.explain(refused(scene.responses)[-1].headers["x-request-id"])
    scene.counts = scene.metrics()
    scene.stats = scene.admin("/stats").json()
    scene.keys = scene.top("refused")
    scene.lines = scene.log()
    return scene


def blocked_by_an_operator(test, redis):
    """A client far below its limit, whom somebody has blocked."""
    limit = {"name": "hour", "by": "api_key", "rate": "1000/hour"}
    scene = Scene(test, redis, policy(limit, auth="required"), ["harbour-live"])
    headers = from_address("203.0.113.7", "harbour-live")
    scene.responses = scene.ask_many([catalog(headers)] * 3)
    subject = {"policy": "api", "api_key": "harbour-live"}
    blocked = scene.demo.post(
        "/admin/block",
        {**AUTH, "Content-Type": "application/json"},
        json.dumps({**subject, "seconds": 3600, "reason": "a crawler; ask ann"}).encode(),
    )
    assert blocked.status == 200, blocked.body
    scene.responses += scene.ask_many([catalog(headers)] * 2)
    scene.show(refused(scene.responses)[-1])
    scene.explanation = scene.explain(refused(scene.responses)[-1].headers["x-request-id"])
    scene.tool = scene.explain_by_tool(
        "--path", "/v1/catalog", "--peer", "127.0.0.1", "--header", "X-Forwarded-For: 203.0.113.7",
        "--header", f"X-API-Key: {key_of('harbour-live')}", "--live",
        shown="--live --path /v1/catalog --peer 127.0.0.1 \\\n"
        "    --header 'X-Forwarded-For: 203.0.113.7' --header 'X-API-Key: …'",
    )
    scene.counts = scene.metrics()
    scene.stats = scene.admin("/stats").json()
    scene.keys = scene.top("refused")
    rows = scene.admin("/blocks").json()["blocks"]
    scene.see(
        "list",
        f"{CURL} http://127.0.0.1:8080/admin/blocks | jq -c '.blocks[] | [.key, .until, .by, .reason]'",
        "\n".join(
            json.dumps([row[name] for name in ("key", "until", "by", "reason")], separators=(",", ":"))
            for row in rows
        ),
    )
    scene.lines = scene.log()
    return scene


class Edge(Nginx):
    """A CDN with a limit of its own, which it answers 429 by itself."""

    CONFIG = Nginx.CONFIG.replace(
        "    server {{",
        "    limit_req_zone $binary_remote_addr zone=edge:1m rate=1r/m;\n"
        "    limit_req_status 429;\n    server {{",
    ).replace(
        "proxy_pass {upstream};", "limit_req zone=edge burst=2 nodelay;\n"
        "            proxy_pass {upstream};",
    )

    @contextlib.contextmanager
    def connection(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as made:
            with made.makefile("rb") as stream:
                yield made, stream


def edge_answers(test, redis):
    """The CDN refuses by itself: the API has seen nothing of it."""
    limit = {"name": "key", "by": "api_key", "rate": "10/second", "burst": 15}
    scene = Scene(test, redis, policy(limit, auth="required"), ["harbour-live"])
    edge = Edge(test, scene.demo.url)
    headers = {"X-API-Key": key_of("harbour-live"), "Connection": "keep-alive"}
    for _ in range(5):
        scene.responses.append(edge.ask("GET", "/v1/catalog", headers))
    scene.show(refused(scene.responses)[-1])
    scene.show(scene.responses[0], "passed")
    scene.tool = scene.explain_by_tool(
        "--path", "/v1/catalog", "--peer", "127.0.0.1", "--header", "X-Forwarded-For: 203.0.113.7",
        "--header", f"X-API-Key: {key_of('harbour-live')}", "--live",
        shown="--live --path /v1/catalog --peer 127.0.0.1 \\\n"
        "    --header 'X-Forwarded-For: 203.0.113.7' --header 'X-API-Key: …'",
    )
    scene.counts = scene.metrics()
    scene.stats = scene.admin("/stats").json()
    scene.recent = scene.admin("/recent?count=50").json()["decisions"]
    scene.see(
        "recent",
        f"{CURL} http://127.0.0.1:8080/admin/recent | jq '.decisions | length'",
        f"{len(scene.recent)}",
    )
    scene.lines = scene.log()
    return scene


STORIES = {
    "bursts": partner_in_bursts,
    "nat": shared_nat,
    "key": one_key_for_five,
    "storm": retry_storm,
    "block": blocked_by_an_operator,
    "edge": edge_answers,
}


# --- comparing with what was printed before ---

KEPT = re.compile(
    r"\d+/(?:second|minute|hour|day)|burst \d+|(?:\d+\.){3}\d+(?:/\d+)?|HTTP/1\.1 \d+"
    r"|\"status\":\d+|q=\d+;w=\d+|[01]-\d"
)
VOLATILE = [
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} [\d:]+ GMT"), "DATE"),
    (re.compile(r'"instance":"[^"]*"'), '"instance":"HOST"'),
    (re.compile(r"nginx/[\d.]+"), "nginx/VERSION"),
    (re.compile(r"the id [\w-]{8},"), "the id ID,"),
    (re.compile(r"\b(?:less than 1|[\d.]+) (?:ms|s|seconds?|minutes?)\b"), "SPAN"),
]


def masked(text):
    """What is the same whenever the stories run, on every machine."""
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    pieces, at = [], 0
    for kept in KEPT.finditer(text):
        pieces += [re.sub(r"\d+", "#", text[at : kept.start()]), kept[0]]
        at = kept.end()
    return "".join(pieces) + re.sub(r"\d+", "#", text[at:])
