"""The admin API of the demo: who may ask it, what it shows, and what it changes on all instances."""

import json
import os
import signal
import subprocess
import unittest

from support import DEMO, FREE, PRO, Demo, DemoTest, Nginx, Redis, make_config, read_response, wait_until

TOKEN = "an-operator-s-token-4711"
BEARER = {"Authorization": f"Bearer {TOKEN}"}

POLICY = make_config(
    {
        "api": [
            {"name": "burst", "by": "api_key", "rate": "5/hour"},
            {"name": "daily", "by": "tenant", "rate": "1000/hour", "algorithm": "fixed-window",
             "start": "first"},
        ],
        "login": [{"name": "account", "by": "field:username", "rate": "3/hour", "algorithm": "sliding-log"}],
        "public": [{"name": "address", "by": "ip", "rate": "100/hour"}],
    },
    [("POST /login", {"auth": "none", "policy": "login"}), ("* /v1/*", {"auth": "required", "policy": "api"})],
    default="public",
    secret="planted-secret-in-the-policy-file",
)


def with_token(token=TOKEN):
    return {**os.environ, "WEIR_ADMIN_TOKEN": token}


class StockNginx(Nginx):
    """One that is told where to pass requests on, and no more."""

    CONFIG = "\n".join(line for line in Nginx.CONFIG.splitlines() if "proxy_set_header" not in line)


class AdminTest(DemoTest):
    def start(self, config=None, redis=None, token=TOKEN, **how):
        """A demo whose token is in its environment."""
        before = os.environ.pop("WEIR_ADMIN_TOKEN", None)
        if token is not None:
            os.environ["WEIR_ADMIN_TOKEN"] = token
        try:
            config = dict(config or POLICY)
            if redis is not None:
                config["store"] = {"url": redis.url, "timeout": "5s"}
            return Demo(self, config, **how)
        finally:
            os.environ.pop("WEIR_ADMIN_TOKEN", None)
            if before is not None:
                os.environ["WEIR_ADMIN_TOKEN"] = before

    def see(self, demo, path):
        answer = demo.get(f"/admin{path}", BEARER)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertEqual(answer.headers["cache-control"], "no-store")
        return answer.json()

    def post(self, demo, path, body, headers=None):
        return demo.post(f"/admin{path}", {**BEARER, "Content-Type": "application/json", **(headers or {})},
                         json.dumps(body).encode())

    def do(self, demo, path, **body):
        answer = self.post(demo, path, body)
        self.assertEqual(answer.status, 200, answer)
        return answer.json()

    def remaining(self, demo, limit="burst", subject="policy=api&api_key=acme-free"):
        limits = {found["name"]: found for found in self.see(demo, f"/key?{subject}")["limits"]}
        return limits[limit]["remaining"]

    def catalog(self, demo, key=FREE):
        return demo.get("/v1/catalog", key).status


class Access(AdminTest):
    def test_answers_only_who_shows_the_token(self):
        demo = self.start()
        for headers, error in (({}, False), ({"Authorization": "Bearer wrong-token-0815-4712"}, True),
                               ({"Authorization": f"Basic {TOKEN}"}, False),
                               ({"Authorization": f"Bearer {TOKEN}x"}, True), ({"X-API-Key": TOKEN}, False)):
            answer = demo.get("/admin/health", headers)
            self.assert_problem(answer, 401)
            self.assertEqual("invalid_token" in answer.headers["www-authenticate"], error, headers)
            self.assertTrue(answer.headers["www-authenticate"].startswith("Bearer "))
            self.assertEqual(answer.headers["cache-control"], "no-store")
        for scheme in ("Bearer", "bearer"):
            self.assertEqual(demo.get("/admin/health", {"Authorization": f"{scheme} {TOKEN}"}).status, 200)
        self.assertEqual(demo.get("/admin/nothing").status, 401)  # nor who wants to know what there is
        self.assertNotIn("4711", demo.log())
        self.assertNotIn("4712", demo.log())

    def test_slows_down_an_address_that_tries_tokens(self):
        demo = self.start()
        wrong = {"Authorization": "Bearer not-the-token-at-all"}
        tried = [demo.get("/admin/health", wrong, source="127.0.0.2").status for _ in range(11)]
        self.assertEqual(tried, [401] * 10 + [429])
        late = demo.get("/admin/health", BEARER, source="127.0.0.2")  # else it could go on trying
        self.assert_problem(late, 429)
        self.assertIn(late.retry_after(), range(1, 7))
        self.assertEqual(demo.get("/admin/health", BEARER).status, 200)  # another address
        for _ in range(20):  # who shows none has not tried
            self.assertEqual(demo.get("/admin/health", source="127.0.0.3").status, 401)
        lines = [line for line in demo.lines() if "wrong token" in line.get("text", "")]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("1 time since the last such line, and last from 127.0.0.2/32.", lines[0]["text"])
        demo.end()
        self.assertIn("9 times since the last such line", demo.log())  # the one that had to wait was no attempt

    def test_finds_addresses_through_trusted_proxies(self):
        demo = self.start({**POLICY, "client_ip": {"trust": ["loopback"], "header": "X-Forwarded-For"}})
        for client, status in (("198.51.100.7", 429), ("203.0.113.7", 401)):
            headers = {"Authorization": "Bearer not-the-token-at-all", "X-Forwarded-For": client}
            tries = 11 if status == 429 else 1
            self.assertEqual([demo.get("/admin/health", headers).status for _ in range(tries)][-1], status)
        done = demo.post("/admin/reset", {**BEARER, "X-Forwarded-For": "203.0.113.9", "Content-Type": "application/json"},
                         b'{"policy": "api", "api_key": "acme-free"}')
        self.assertEqual(done.status, 200)
        self.assertTrue([line for line in demo.lines() if line.get("text", "").endswith("by 203.0.113.9: done.")])

    def assert_does_not_start(self, options, token, *words):
        environment = {name: value for name, value in os.environ.items() if name != "WEIR_ADMIN_TOKEN"}
        if token is not None:
            environment["WEIR_ADMIN_TOKEN"] = token
        done = subprocess.run([DEMO, *options], env=environment, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1, done)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("policy.json", done.stderr)

    def test_does_not_start_open_to_others(self):
        for mode in ("epoll", "serve"):
            self.assert_does_not_start(["--listen", "0.0.0.0:0", "--admin", "--mode", mode], None,
                                       "The admin API has no token", "0.0.0.0", "openssl rand -hex 24", "127.0.0.1")
        self.assert_does_not_start(["--listen", "127.0.0.1:0"], "short", "has 5 characters", "openssl rand -hex 24")
        self.assert_does_not_start(["--listen", "127.0.0.1:0"], "with blanks in its middle", "character 5")
        self.assert_does_not_start(["--listen", "127.0.0.1:0"], "", "has 0 characters")

    def test_is_left_out_where_it_would_be_open(self):
        demo = self.start(token=None, listen="0.0.0.0:0")
        for path in ("/admin/health", "/admin", "/metrics"):
            self.assertEqual(demo.get(path, to="127.0.0.1").status, 404)
        demo = self.start(options=["--no-admin"])
        self.assertEqual(demo.get("/admin/health", BEARER).status, 404)
        demo = self.start(listen="0.0.0.0:0")  # with a token
        self.assertEqual(demo.get("/admin/health", BEARER, to="127.0.0.1").status, 200)
        self.assertEqual(demo.get("/metrics", to="127.0.0.1").status, 401)
        self.assertEqual(demo.get("/metrics", BEARER, to="127.0.0.1").status, 200)
        demo = self.start()
        self.assertEqual((demo.get("/metrics").status, demo.get("/metrics", BEARER).status), (401, 200))
        self.assertEqual(self.start(token=None).get("/metrics").status, 200)

    def test_answers_this_machine_without_a_token(self):
        demo = self.start(token=None)
        port = demo.where[1]
        for headers in ({}, {"Host": f"localhost:{port}"}, {"Host": "LOCALHOST"}, {"Host": "127.1.2.3"},
                        {"Host": f"[::1]:{port}"}, {"Origin": f"http://127.0.0.1:{port}"},
                        {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
            self.assertEqual(demo.get("/admin/health", headers).status, 200, headers)
        for headers in ({"Host": "weir.example"}, {"Host": "127.0.0.1.example"}, {"Host": "localhost.example"},
                        {"Host": "10.0.0.1"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                        {"Origin": f"http://127.0.0.1:{port + 1}"}, {"Sec-Fetch-Site": "cross-site"},
                        {"Sec-Fetch-Site": "same-site"}, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=::1"},
                        {"X-Real-IP": "127.0.0.1"}, {"Via": "1.1 edge"}):
            answer = demo.get("/admin/health", headers)
            self.assert_problem(answer, 403)
            self.assertIn("Without a token", answer.json()["detail"])
        self.assert_problem(demo.get("/admin/health", {"Host": "localhost:8o"}), 403)
        with demo.socket() as (connection, stream):
            connection.sendall(b"GET /admin/health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            self.assertEqual(read_response(stream).status, 403)

    def test_takes_nothing_that_can_be_read_in_two_ways(self):
        for demo in (self.start(), self.start(token=None)):
            bearer = f"Authorization: Bearer {TOKEN}"
            lines = ["Host: localhost", bearer, "Origin: http://localhost", "Sec-Fetch-Site: none"]
            for name, twice in ((None, None), ("Host", "host: evil.example"), ("Origin", "Origin: http://evil.example"),
                                ("Authorization", "authorization: Bearer x"), ("Sec-Fetch-Site", "Sec-Fetch-Site: cross-site")):
                with demo.socket() as (connection, stream):
                    sent = "\r\n".join(["GET /admin/health HTTP/1.1", *lines, *([twice] if twice else []), "", ""])
                    connection.sendall(sent.encode())
                    answer = read_response(stream)
                self.assertEqual(answer.status, 400 if name else 200, name)
                if name:
                    self.assertIn(f"more than one {name}.", answer.json()["detail"])

    def test_finds_paths_as_the_chain_does(self):
        demo = self.start()
        for path in ("/admin/health/", "//admin//health", "/admin/x/../health", "/%61dmin/he%61lth", "/admin/health%00"):
            self.assertEqual(demo.get(path).status, 401, path)
            self.assertEqual(demo.get(path, BEARER).json()["status"], "ok", path)
        self.assertEqual(demo.get("/admin/Health", BEARER).status, 404)

    def test_answers_no_proxy_without_a_token(self):
        trusting = {**POLICY, "client_ip": {"trust": ["loopback"], "header": "X-Forwarded-For"}}
        demos = [self.start(config, token=None) for config in (POLICY, trusting)]
        for demo in demos:
            nginx = StockNginx(self, demo.url)
            for path in ("/admin/health", "/admin/policy", "/metrics"):
                self.assert_problem(nginx.ask("GET", path), 403)
        self.assertEqual([demo.get("/admin/health").status for demo in demos], [200, 403])
        told = [[line["text"] for line in demo.lines() if "answers nobody without a token" in line.get("text", "")]
                for demo in demos]
        self.assertEqual([len(texts) for texts in told], [0, 1])
        self.assertIn("WEIR_ADMIN_TOKEN", told[1][0])
        demo = self.start(trusting)
        self.assertEqual(StockNginx(self, demo.url).ask("GET", "/admin/health", BEARER).status, 200)

    def test_says_when_a_reload_shuts_it_for_want_of_a_token(self):
        demo = self.start(token=None)
        file = os.path.join(demo.folder, "policy.json")
        for trust, times in (([], 0), (["10.0.0.1"], 0), (["127.0.0.1"], 1), (["loopback"], 1), ([], 1), ([], 1), (2, 2)):
            with open(file, "w", encoding="utf-8") as written:
                json.dump({"store": {"url": "memory:", "timeout": "10s"}, **POLICY,
                           **({"client_ip": {"trust": trust}} if trust else {})}, written)
            before = demo.log().count("Reloaded")
            demo.send(signal.SIGHUP)
            wait_until(lambda: demo.log().count("Reloaded") > before, "the policy is reloaded")
            wait_until(lambda: demo.get("/admin/health").status == (403 if trust in (["127.0.0.1"], ["loopback"], 2) else 200),
                       "the API is shut or open")
            self.assertEqual(demo.log().count("answers nobody without a token"), times, trust)

    def test_shows_the_page_to_everybody(self):
        demo = self.start()
        for path in ("/admin", "/admin/", "/admin/dashboard"):
            page = demo.get(path)
            self.assertEqual(page.status, 200)
            self.assertTrue(page.headers["content-type"].startswith("text/html"))
            self.assertIn("default-src 'none'", page.headers["content-security-policy"])
            self.assertNotIn(b"planted-secret", page.body)
        answer = demo.post("/admin/dashboard")
        self.assert_problem(answer, 405)
        self.assertEqual(answer.headers["allow"], "GET, HEAD")


class Reading(AdminTest):
    def test_is_not_limited_like_a_client(self):
        demo = self.start(make_config({"public": [{"name": "address", "by": "ip", "rate": "1/hour"}]}, [],
                                      default="public"))
        self.assertEqual(demo.get("/ip").status, 200)
        self.assertEqual(demo.get("/ip").status, 429)
        for _ in range(3):
            self.assertEqual(demo.get("/admin/health", BEARER).status, 200)

    def test_says_how_it_is(self):
        demo = self.start()
        health = self.see(demo, "/health")
        self.assertEqual(set(health), {"status", "version", "instance", "uptime_s", "store", "policy"})
        self.assertEqual((health["status"], health["store"]["name"], health["store"]["breaker"]),
                         ("ok", "memory", "closed"))
        self.assertTrue(health["store"]["answering"])
        self.assertTrue(health["policy"]["file"].endswith("policy.json"))
        self.assertEqual(health["policy"]["generation"], 1)
        self.assertRegex(health["policy"]["loaded"], r"^20\d\d-\d\d-\d\dT[\d:.]+Z$")
        self.assertTrue(health["policy"]["reload"]["ok"])
        self.assertTrue(health["instance"])

    def test_shows_the_policy_that_is_in_force_without_its_secrets(self):
        demo = self.start()
        file = os.path.join(demo.folder, "policy.json")
        text = json.dumps(self.see(demo, "/policy"))
        self.assertIn('"burst"', text)
        self.assertNotIn("planted-secret", text)
        with open(file, "w", encoding="utf-8") as broken:
            broken.write('{ "policies": { "api": { "limits": [{ "name": "burst", "by": "ip", "rate": "5/fortnight" }] } } }')
        answer = self.post(demo, "/reload", {})
        self.assert_problem(answer, 409)
        self.assertIn("policy.json", answer.json()["detail"])
        self.assertIn("fortnight", answer.json()["detail"])
        health = self.see(demo, "/health")
        self.assertEqual((health["status"], health["policy"]["generation"], health["policy"]["reload"]["ok"]),
                         ("degraded", 1, False))
        self.assertIn("fortnight", health["policy"]["reload"]["why"])
        self.assertEqual(json.dumps(self.see(demo, "/policy")), text)
        good = json.loads(json.dumps(POLICY).replace("5/hour", "6/hour"))
        with open(file, "w", encoding="utf-8") as mended:
            json.dump({"store": {"url": "memory:", "timeout": "10s"}, **good}, mended)
        self.assertEqual(self.do(demo, "/reload")["generation"], 2)
        self.assertIn("6/hour", json.dumps(self.see(demo, "/policy")))
        self.assertEqual(self.see(demo, "/health")["status"], "ok")
        self.assertTrue([line for line in demo.lines() if "by 127.0.0.1" in line.get("text", "")])

    def test_works_in_every_mode(self):
        for mode in ("poll", "thread-per-connection", "serve"):
            demo = self.start(options=["--mode", mode])
            client = demo.client()  # a connection that is kept
            for _ in range(2):
                self.assertEqual(client.get("/admin/key?policy=api&api_key=acme-free", BEARER).status, 200)
                done = client.post("/admin/reset", {**BEARER, "Content-Type": "application/json"},
                                   b'{"policy": "api", "api_key": "acme-free"}')
                self.assertEqual(done.status, 200)
                self.assertEqual(client.get("/admin/health", BEARER).status, 200)
            client.close()

    def test_counts(self):
        demo = self.start()
        for _ in range(7):
            self.catalog(demo)
        stats = self.see(demo, "/stats")
        self.assertEqual(set(stats), {"time_us", "generation", "instance", "policies", "store", "parked", "denials",
                                      "leases", "memory"})
        api = next(policy for policy in stats["policies"] if policy["name"] == "api")
        self.assertEqual((api["mode"], api["enforce_percent"]), ("enforce", 100))
        self.assertEqual(api["limits"][0], {"name": "burst", "by": "api_key", "algorithm": "gcra", "rate": "5/hour"})
        self.assertEqual((api["decisions"]["allowed"], api["decisions"]["limited"]), (5, 2))
        self.assertEqual(stats["store"]["latency"]["buckets"][-1][0], None)
        self.assertGreater(stats["memory"]["keys"], 0)

    def test_describes_limits_of_every_kind(self):
        rates = ("100/day", "200/week", "300/month", "400/3months", "500/year")
        algorithms = ("gcra", "token-bucket", "leaky-bucket", "fixed-window", "sliding-counter", "sliding-log")
        demo = self.start(make_config({
            "own": [{"name": "own", "by": "tenant|ip", "rate": "5/second", "burst": 10},
                    {"name": "free", "by": "user", "rate": "unlimited"}, {"name": "paid", "by": "user", "rate": "plan"}],
            "calendar": [{"name": rate[:3], "by": "ip", "rate": rate, "algorithm": "fixed-window", "calendar": "Europe/Berlin"}
                         for rate in rates],
            "algorithm": [{"name": algorithm, "by": "global", "rate": "60/minute", "algorithm": algorithm}
                          for algorithm in algorithms]}, [], default="own", plans={"free": {"paid": "7/minute"}, "pro": {"paid": "9/minute"}}))
        policies = {policy["name"]: {limit["name"]: (limit["by"], limit["rate"], limit["algorithm"]) for limit in policy["limits"]}
                    for policy in self.see(demo, "/stats")["policies"] if policy["name"]}
        self.assertEqual(policies, {
            "own": {"own": ("tenant|ip", "5/second", "gcra"), "free": ("user", "unlimited", "gcra"), "paid": ("user", "plan", "gcra")},
            "calendar": {rate[:3]: ("ip", rate, "fixed-window") for rate in rates},
            "algorithm": {algorithm: ("global", "60/minute", algorithm) for algorithm in algorithms},
            "api_keys": {"guesses": ("ip", "20/minute", "gcra")}})

    def test_treats_guesses_at_keys_as_a_policy(self):
        demo = self.start({**POLICY, "api_keys": {**POLICY["api_keys"], "guesses": "3/hour"}})
        mistyped, here = {"X-API-Key": "mistyped-key"}, {"policy": "api_keys", "ip": "127.0.0.1"}
        self.assertEqual([self.catalog(demo, mistyped) for _ in range(5)], [401] * 3 + [429] * 2)
        found = next(policy for policy in self.see(demo, "/stats")["policies"] if policy["name"] == "api_keys")
        self.assertEqual((found["decisions"]["limited"], found["units"]["spent"]), (2, 3))
        refused = self.see(demo, "/top?policy=api_keys&by=refused")
        self.assertEqual([(row["key"], row["count"]) for row in refused["keys"]], [("ip:127.0.0.1/32", 5)])  # three were 401
        subject = "policy=api_keys&ip=127.0.0.1"
        self.assertEqual(self.remaining(demo, "guesses", subject), 0)
        self.do(demo, "/reset", **here)
        self.assertEqual(self.remaining(demo, "guesses", subject), 3)
        self.assertEqual(self.catalog(demo, mistyped), 401)
        self.do(demo, "/block", **here, seconds=600)
        self.assertEqual(self.catalog(demo, mistyped), 429)
        self.assertEqual(self.do(demo, "/unblock", **here)["unblocked"], 1)
        self.assertEqual(self.catalog(demo, mistyped), 401)
        answer = self.post(demo, "/reset", {**here, "policy": "api_key"})
        self.assert_problem(answer, 404)
        self.assertIn("\"api_keys\" is close", answer.json()["detail"])
        keyless = self.start({name: value for name, value in POLICY.items() if name not in ("api_keys", "routes")})
        self.assertEqual(keyless.get("/admin/top?policy=api_keys", BEARER).status, 404)
        self.assertNotIn("api_keys", [policy["name"] for policy in self.see(keyless, "/stats")["policies"]])

    def test_lists_the_last_refusals_and_who_has_most(self):
        demo = self.start()
        for _ in range(7):
            self.catalog(demo)
        recent = self.see(demo, "/recent")
        self.assertEqual([(line["decision"], line["limit"], line["key"]) for line in recent["decisions"]],
                         [("limited", "burst", "api_key:acme-free")] * 2)
        self.assertEqual(self.see(demo, f"/recent?after={recent['next']}"), {"next": recent["next"], "decisions": []})
        self.assertEqual(len(self.see(demo, "/recent?count=1")["decisions"]), 1)
        spent = self.see(demo, "/top?policy=api&by=spent&count=3")
        self.assertEqual((spent["by"], spent["total"], spent["error_bound"]), ("spent", 5, 0))
        self.assertEqual(spent["keys"], [{"key": "api_key:acme-free", "count": 5, "at_least": 5}])
        self.assertEqual(self.see(demo, "/top?policy=api&by=refused")["keys"][0]["count"], 2)
        for query, status, word in (("by=spent", 400, "policy"), ("policy=no", 404, "policy"),
                                    ("policy=api&by=cost", 400, "refused"), ("policy=api&count=0", 400, "1 to 128"),
                                    ("policy=api&cuont=1", 400, "\"count\" is close"),
                                    ("policy=api&policy=login", 400, "twice")):
            answer = demo.get(f"/admin/top?{query}", BEARER)
            self.assert_problem(answer, status)
            self.assertIn(word, answer.json()["detail"])

    def test_explains_a_request_that_is_described(self):
        demo = self.start()
        told = self.see(demo, "/explain?method=GET&path=/v1/catalog&peer=203.0.113.7&header=X-API-Key:%20free-demo-key"
                              "&header=Accept:%20text/html")
        self.assertIn("acme-free", json.dumps(told))
        self.assertNotIn("free-demo-key", json.dumps(told))
        self.assertEqual(self.remaining(demo), 5)  # nothing was spent
        for _ in range(6):
            refused = demo.get("/v1/catalog", FREE)
        told = self.see(demo, f"/explain?request_id={refused.headers['x-request-id']}")
        self.assertIn("burst", json.dumps(told))
        for query, status, word in (("method=GET", 400, "path"), ("request_id=a&path=/", 400, "says all"),
                                    ("path=/v1/catalog&header=nonsense", 400, "Name: value"),
                                    ("request_id=never-was", 404, "")):
            answer = demo.get(f"/admin/explain?{query}", BEARER)
            self.assert_problem(answer, status)
            self.assertIn(word, answer.json()["detail"])

    def test_refuses_what_it_does_not_know(self):
        demo = self.start()
        self.assert_problem(demo.get("/admin/nothing", BEARER), 404)
        for method, path, allow in (("POST", "/health", "GET, HEAD"), ("GET", "/block", "POST"),
                                    ("DELETE", "/blocks", "GET, HEAD")):
            answer = demo.ask(method, f"/admin{path}", BEARER)
            self.assert_problem(answer, 405)
            self.assertEqual(answer.headers["allow"], allow)
        head = demo.ask("HEAD", "/admin/health", BEARER)
        self.assertEqual((head.status, head.body), (200, b""))
        self.assert_problem(demo.post("/admin/reset", BEARER, b"policy=api"), 415)
        self.assert_problem(self.post(demo, "/reset", {"policy": "api", "api_key": "x" * 20000}), 413)
        for body, status, word in (
                ({"policy": "api"}, 400, "subject's own"), ({"policy": "appi", "ip": "::1"}, 404, "\"api\" is close"),
                ({"policy": "api", "ip": "1.2.3"}, 400, "no address"), ({"ip": "::1"}, 400, "whose limits"),
                ({"policy": "api", "api-key": "a"}, 400, "\"api_key\" is close"),
                ({"policy": "api", "api_key": "nobody"}, 404, "keys file"), ({"policy": 5}, 400, "no text"),
                ({"policy": "api", "limit": "brust", "api_key": "acme-free"}, 404, "\"burst\" is close"), ([], 400, "object"),
                ("text", 400, "no JSON")):
            answer = self.post(demo, "/reset", body)
            self.assert_problem(answer, status)
            self.assertIn(word, answer.json()["detail"], body)
        broken = demo.post("/admin/reset", {**BEARER, "Content-Type": "application/json; charset=utf-8"}, b"{\"policy\"")
        self.assert_problem(broken, 400)
        self.assertIn("no JSON", broken.json()["detail"])
        self.post(demo, "/reset", {"policy": "api", "api_key": "free-demo-key"})  # the key itself, by mistake
        self.assertIn("Admin API: reset, by 127.0.0.1: not done. [reference]", demo.log())
        self.assertNotIn("free-demo-key", demo.log())
        for seconds in (0, -1, 1.5, "60", None, 2**62):
            answer = self.post(demo, "/block", {"policy": "api", "api_key": "acme-free", "seconds": seconds})
            self.assert_problem(answer, 400)
            self.assertIn("seconds", answer.json()["detail"])


    def test_logs_changes_that_were_not_made(self):
        """… with whom they name where it is somebody, and with no more of what was sent."""
        demo = self.start()
        ann = {"policy": "api", "api_key": "acme-free"}
        whom = "of policy api, limit all, key api_key:acme-free"

        def told():
            return [line["text"] for line in demo.lines() if line.get("text", "").startswith("Admin API: ")]

        self.assertEqual(self.do(demo, "/block", **ann, seconds=60, reason="spends too much")["reason"], "spends too much")
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for status, path, body, headers, line in (
                (415, "/reset", {}, form, "reset, by 127.0.0.1: not done. 415 Unsupported Media Type"),
                (413, "/reset", {"user": "planted" * 3000}, {}, "reset, by 127.0.0.1: not done. 413 Content Too Large"),
                (400, "/unblock", {"planted": 1}, {}, "unblock, by 127.0.0.1: not done. 400 Bad Request"),
                (400, "/block", {"ip": "::1", "seconds": 5}, {}, "block, by 127.0.0.1: not done. 400 Bad Request"),
                (400, "/block", {**ann, "seconds": "planted"}, {}, "block, by 127.0.0.1: not done. 400 Bad Request"),
                (400, "/reload", {"planted": 1}, {}, "reload, by 127.0.0.1: not done. 400 Bad Request"),
                (404, "/block", {**ann, "api_key": "planted", "seconds": 5}, {}, "block for 5 s, by 127.0.0.1: not done. [reference]"),
                (400, "/block", {**ann, "seconds": 5, "reason": "a\u202eb"}, {},
                 f"block for 5 s {whom}, by 127.0.0.1: not done. The reason has a control character at byte 2. [value]"),
                (404, "/unblock", {"policy": "public", "ip": "192.0.2.7"}, {},
                 "unblock of policy public, limit all, key ip:192.0.2.7/32, by 127.0.0.1: not done. "
                 "The list has no such block. [reference]"),
                (404, "/unblock", {"id": "planted"}, {},
                 "unblock by id, by 127.0.0.1: not done. The list has no such block. [reference]")):
            count = len(told())
            self.assert_problem(self.post(demo, path, body, headers), status)
            wait_until(lambda: len(told()) > count, "there is a line")
            self.assertEqual(told()[count:], [f"Admin API: {line}"])
        self.assertIn(f"Admin API: block for 60 s {whom}, by 127.0.0.1: done. Reason: spends too much", told())
        self.assertNotIn("planted", demo.log())
        with demo.socket() as (connection, _):
            connection.sendall(f"POST /admin/reset HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
                               "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{".encode())
            wait_until(lambda: demo.client().get("/admin/health", BEARER).status == 200, "it is read")
        wait_until(lambda: "reset, by 127.0.0.1: not done. The request broke off." in demo.log(), "the end is seen")


LEASED = make_config({"api": [{"name": "burst", "by": "api_key", "rate": "60/hour", "lease": {"batch": 10}}]},
                     [("* /v1/*", {"auth": "required", "policy": "api"})], instances=2)


class Leased(AdminTest):
    def setUp(self):
        redis = Redis(self)
        self.one, self.other = (self.start(LEASED, redis) for _ in range(2))

    def wait_for(self, status):
        for demo in (self.one, self.other):
            wait_until(lambda: self.catalog(demo) == status, f"{demo.url} answers {status}", within_s=5)

    def test_resets_what_is_leased(self):
        while self.catalog(self.one) == 200 or self.catalog(self.other) == 200:
            continue
        self.do(self.one, "/reset", policy="api", api_key="acme-free")
        self.assertEqual(self.catalog(self.one), 200)
        self.wait_for(200)

    def test_blocks_what_is_leased(self):
        for demo in (self.one, self.other):
            self.assertEqual([self.catalog(demo) for _ in range(3)], [200] * 3)
        block = self.do(self.one, "/block", policy="api", api_key="acme-free", seconds=600)
        self.assertEqual(self.catalog(self.one), 429)
        self.wait_for(429)
        for demo in (self.one, self.other):
            self.assertEqual(self.catalog(demo), 429)
        self.do(self.other, "/unblock", id=block["id"])
        self.wait_for(200)


class Changing(AdminTest):
    def setUp(self):
        self.redis = Redis(self)
        self.one, self.other = (self.start(redis=self.redis) for _ in range(2))

    def test_looks_without_spending(self):
        """F22"""
        self.catalog(self.one)
        for demo in (self.one, self.other, self.one, self.other, self.one):
            self.assertEqual((self.remaining(demo), self.remaining(demo, "daily")), (4, 999))
        found = self.see(self.one, "/key?policy=api&api_key=acme-free&limit=burst")["limits"]
        self.assertEqual(len(found), 1)
        self.assertEqual({**found[0], "reset_s": 0}, {
            "name": "burst", "key": "api_key:acme-free", "limit": 5, "remaining": 4, "window_s": 3600, "reset_s": 0,
            "blocked": False})
        self.assertEqual(self.see(self.one, "/key?policy=login&ip=::1"), {"policy": "login", "limits": []})

    def test_resets_on_all_instances(self):
        """F18"""
        for _ in range(5):
            self.catalog(self.one)
        for demo in (self.one, self.other):
            self.assertEqual(self.catalog(demo), 429)
        done = self.do(self.one, "/reset", policy="api", api_key="acme-free", limit="burst")
        self.assertEqual(done, {"policy": "api", "limit": "burst", "key": "api_key:acme-free", "unblocked": 0})
        self.assertEqual(self.catalog(self.one), 200)
        # The other one repeats its refusal until its denials have ended, after a second at most.
        wait_until(lambda: self.catalog(self.other) == 200, "the other lets it through", within_s=3)
        self.assertEqual(self.remaining(self.one, "daily"), 993)  # the other limit is as it was
        self.assertIn("Admin API: reset of policy api, limit burst, key api_key:acme-free, by 127.0.0.1: done.",
                      [line.get("text") for line in self.one.lines()])

    def test_blocks_on_all_instances_until_one_of_them_unblocks(self):
        block = self.do(self.one, "/block", policy="api", api_key="acme-free", seconds=3600, reason="spends too much")
        self.assertEqual((block["policy"], block["limit"], block["key"], block["reason"], block["by"]),
                         ("api", "all", "api_key:acme-free", "spends too much", "admin API, 127.0.0.1"))
        for demo in (self.one, self.other):
            self.assertEqual(self.catalog(demo), 429)
            self.assertEqual(self.catalog(demo, PRO), 200)
            listed = self.see(demo, "/blocks")["blocks"]
            self.assertEqual([{**row, "left_s": 0} for row in listed], [{**block, "left_s": 0}])
            self.assertIn(listed[0]["left_s"], range(3000, 3601))
            limits = self.see(demo, "/key?policy=api&api_key=acme-free")["limits"]
            self.assertEqual({row["name"]: (row["blocked"], row["remaining"] > 0) for row in limits},
                             {"burst": (True, False), "daily": (False, True)})
        self.assertEqual(self.do(self.other, "/unblock", id=block["id"]),
                         {"policy": "api", "limit": "all", "key": "api_key:acme-free", "unblocked": 1})
        self.assertEqual(self.see(self.one, "/blocks"), {"blocks": []})
        self.assertEqual(self.catalog(self.other), 200)
        wait_until(lambda: self.catalog(self.one) == 200, "the one lets it through", within_s=3)
        answer = self.post(self.other, "/unblock", {"id": block["id"]})
        self.assert_problem(answer, 404)
        texts = [line.get("text") for line in self.one.lines() + self.other.lines()]
        self.assertIn("Admin API: block for 3600 s of policy api, limit all, key api_key:acme-free, by 127.0.0.1: done. "
                      "Reason: spends too much", texts)
        self.assertIn("Admin API: unblock of policy api, limit all, key api_key:acme-free, by 127.0.0.1: done.", texts)

    def test_shows_no_value_that_a_client_sends(self):
        login = {"policy": "login", "field:username": "ann.planted@example.org"}
        block = self.do(self.one, "/block", **login, seconds=600)
        self.assertTrue(block["key"].startswith("field:username#"), block)
        self.assertNotIn("planted", json.dumps(self.see(self.other, "/blocks")))
        self.assertNotIn("planted", self.one.log())
        body = b"username=Ann.Planted%40example.org&password=x"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self.assertEqual(self.other.post("/login", form, body).status, 429)
        self.assertEqual(self.do(self.other, "/unblock", **login)["unblocked"], 1)
        self.assertEqual(self.other.post("/login", form, body).status, 401)

    def test_forgets_a_block_that_has_ended(self):
        block = self.do(self.one, "/block", policy="public", ip="192.0.2.7", seconds=2)
        self.assertEqual(block["policy"], "public")
        wait_until(lambda: self.see(self.other, "/blocks") == {"blocks": []}, "the block has ended", within_s=20)
        wait_until(lambda: self.redis.command("KEYS", "*blocks*") == [], "Redis has forgotten the list", within_s=20)

    def test_remembers_blocks_over_a_restart(self):
        self.do(self.one, "/block", policy="api", tenant="acme", limit="daily", seconds=600)
        for demo in (self.one, self.other):
            self.assertEqual(demo.end(), 0)
        again = self.start(redis=self.redis)
        self.assertEqual([(row["limit"], row["key"]) for row in self.see(again, "/blocks")["blocks"]],
                         [("daily", "tenant:acme")])
        self.assertEqual(self.catalog(again), 429)
        self.assertEqual(self.do(again, "/reset", policy="api", tenant="acme")["unblocked"], 1)
        self.assertEqual(self.catalog(again), 200)

    def test_has_one_block_for_each_key(self):
        for seconds, reason in ((600, "first"), (60, "second")):
            self.do(self.one, "/block", policy="api", api_key="acme-free", seconds=seconds, reason=reason)
        self.do(self.one, "/block", policy="api", api_key="globex-pro", seconds=60)
        self.assertEqual([row.get("reason") for row in self.see(self.one, "/blocks")["blocks"]], [None, "second"])

    def test_says_that_the_store_does_not_answer(self):
        self.redis.kill()
        wait_until(lambda: not self.see(self.one, "/health")["store"]["answering"], "that is seen")
        self.assertEqual(self.see(self.one, "/health")["status"], "degraded")
        for answer in (self.one.get("/admin/key?policy=api&api_key=acme-free", BEARER),
                       self.one.get("/admin/blocks", BEARER),
                       self.post(self.one, "/block", {"policy": "api", "api_key": "acme-free", "seconds": 5})):
            self.assert_problem(answer, 503)
            self.assertIn("store", answer.json()["detail"])
        self.assertTrue([line for line in self.one.lines() if "key api_key:acme-free, by 127.0.0.1: not done. " in line.get("text", "") and line["text"].endswith(". [store-unavailable]")])

    def test_takes_what_stands_in_place_of_the_list(self):
        key = "weir::blocks"
        self.redis.command("HSET", key, "a", "b")
        self.assertEqual(self.see(self.one, "/blocks"), {"blocks": []})
        for text in ("x", "m" * 16, "m" * 16 + "[", "m" * 16 + '[1,{},{"id":1},{"id":"a","policy":"p","key":"k",'
                     '"until":99999999999,"keys":[["l","k",-5,99]]}]', "m" * 49200):
            self.redis.command("SET", key, text)
            self.assertIn(self.one.get("/admin/blocks", BEARER).status, (200, 503), text[:60])
            self.assertEqual(self.remaining(self.one), 5)
        for text in ("x", "m" * 16 + "["):  # no list: a reset is done, and what is blocked is not known
            self.redis.command("SET", key, text)
            self.catalog(self.one)
            found = self.see(self.one, "/key?policy=api&api_key=acme-free")
            self.assertEqual((found["limits"][0]["remaining"], found["limits"][0]["blocked"]), (4, None))
            self.assertIn("PREFIX::blocks cannot be read", found["hint"])
            done = self.do(self.one, "/reset", policy="api", api_key="acme-free")
            self.assertEqual((done["key"], done["unblocked"]), ("api_key:acme-free", None))
            self.assertIn("PREFIX::blocks cannot be read", done["hint"])
            self.assertEqual(self.remaining(self.one), 5)
        self.assertEqual(self.one.log().count("reset of policy api, limit all, key api_key:acme-free, by 127.0.0.1: done"), 2)
        steering = [{"id": "a", "policy": "p", "limit": "all", "key": "k", "by": "b", "until": 99999999999,
                     "keys": [["l", "k", 0, 1]], name: "\u001b]0;x\u0007"} for name in ("id", "policy", "limit", "key", "by", "reason")]
        self.redis.command("SET", key, "m" * 16 + json.dumps(steering))
        self.assertEqual(self.see(self.one, "/blocks"), {"blocks": []})
        self.redis.command("SET", key, "m" * 16 + "[]")
        self.do(self.one, "/block", policy="public", ip="192.0.2.9", seconds=60)
        self.assertEqual(len(self.see(self.other, "/blocks")["blocks"]), 1)


if __name__ == "__main__":
    unittest.main()
