"""The log of decisions, as the demo writes it: one line for many that are alike, whose counts add up to
what was answered, and nothing secret."""

import collections
import concurrent.futures
import re
import unittest

from support import FREE, Demo, DemoTest, Redis, make_config

HASH = r"[A-Za-z0-9_-]{10}"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

# Values that a client sends, and that no operator may find in a log.
SECRETS = ("free-demo-key", "planted-key", "planted-header", "planted-query", "planted-password")


def make_demo_config(**others):
    return make_config(
        {
            "tight": [{"name": "burst", "by": "api_key", "rate": "2/hour"}],
            "device": [{"name": "each", "by": ["header:X-Device", "query:q"], "rate": "1/hour"}],
            "watched": {"limits": [{"name": "each", "by": "ip", "rate": "1/hour"}],
                        "mode": "shadow"},
            "login": {"limits": [{"name": "account", "by": "field:password", "rate": "1/hour"}]},
        },
        [
            ("GET /v1/search", {"auth": "required", "policy": "tight"}),
            ("GET /v1/catalog", {"auth": "none", "policy": "device"}),
            ("GET /healthz", {"auth": "none", "policy": "watched"}),
            ("POST /login", {"auth": "none", "policy": "login"}),
        ],
        client_ip={"trust": ["loopback"]},
        **others,
    )


class DecisionLog(DemoTest):

    def decisions(self, demo):
        return [line for line in demo.lines() if "decision" in line]

    def test_counts_what_is_alike_in_one_line_and_loses_nothing(self):
        redis = Redis(self)
        demos = [Demo(self, make_demo_config(), store=redis.url, every_decision=False)
                 for _ in range(2)]
        answered = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for status in pool.map(
                    lambda n: demos[n % 2].get("/v1/search?q=a", FREE).status, range(200)):
                answered[status] += 1
            for status in pool.map(lambda n: demos[n % 2].get("/v1/search").status, range(50)):
                answered[status] += 1
        for demo in demos:
            self.assertEqual(len(self.decisions(demo)), 2, "the first of each kind")
            demo.stop()
        lines = [line for demo in demos for line in self.decisions(demo)]
        logged = collections.Counter()
        for line in lines:
            logged[line["status"]] += line["count"]
        self.assertGreater(answered.pop(200), 0)
        self.assertEqual(logged, answered)
        self.assertEqual(len(lines), 8, lines)
        for line in lines:
            self.assertEqual("since" in line, line["count"] > 1)

    def test_says_who_was_refused_by_what_and_in_which_request(self):
        demo = Demo(self, make_demo_config())
        for _ in range(2):
            demo.get("/v1/search", FREE)
        proxied = {"X-Request-Id": "edge-7b3f", "traceparent": TRACE,
                   "X-Forwarded-For": "198.51.100.7"}
        refused = demo.get("/v1/search?q=planted-query", {**FREE, **proxied})
        self.assert_refused(refused)
        self.assertEqual(refused.headers["x-request-id"], "edge-7b3f")
        (line,) = demo.decisions("limited")
        expected = {"level": "info", "status": 429, "policy": "tight", "limit": "burst",
                    "key": "api_key:acme-free", "client": "acme-free",
                    "address": "198.51.100.7/32", "method": "GET", "path": "/v1/search",
                    "cost": 1, "quota": 2, "remaining": 0, "window_s": 3600, "source": "store",
                    "request_id": "edge-7b3f", "traceparent": TRACE, "generation": 1, "count": 1}
        self.assertEqual({name: line[name] for name in expected}, expected)
        self.assertEqual(str(line["retry_s"]), refused.headers["retry-after"])
        made = demo.get("/v1/search", {**FREE, "X-Request-Id": "not fit for a log"})
        self.assertRegex(made.headers["x-request-id"], r"^[0-9a-f]{32}$")
        self.assertEqual(demo.decisions("limited")[-1]["request_id"],
                         made.headers["x-request-id"])

    def test_shows_no_secret_that_a_client_sends(self):
        demo = Demo(self, make_demo_config())
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for _ in range(4):
            demo.get("/v1/search", FREE)
            demo.get("/v1/search", {"X-API-Key": "planted-key"})
            demo.get("/v1/catalog?q=planted-query", {"X-Device": "planted-header"})
            demo.post("/login", form, b"username=ann&password=planted-password")
        demo.stop()
        for secret in SECRETS:
            self.assertNotIn(secret, demo.log())
        keys = {line.get("key") for line in demo.decisions("limited")}
        self.assertIn("api_key:acme-free", keys)
        self.assertTrue(any(re.fullmatch(f"header:X-Device#{HASH} \\+ query:q#{HASH}", key or "")
                            for key in keys), keys)
        self.assertTrue(any(re.fullmatch(f"field:password#{HASH}", key or "") for key in keys))

    def test_says_what_would_have_happened_where_a_policy_only_watches(self):
        demo = Demo(self, make_demo_config(), every_decision=False)
        for _ in range(12):
            self.assertEqual(demo.get("/healthz").status, 200)
        demo.stop()
        lines = demo.decisions("shadow-limited")
        self.assertEqual([line["count"] for line in lines], [1, 10])
        for line in lines:
            self.assertEqual((line["would"], line["would_status"], line["shadow"]),
                             ("limited", 429, True))
            self.assertNotIn("status", line)

    def test_makes_one_line_of_a_store_that_fails_for_many(self):
        redis = Redis(self)
        demo = Demo(self, make_demo_config(), store=redis.url, every_decision=False)
        demo.get("/v1/catalog?q=a", {"X-Device": "0"})
        redis.end()
        for number in range(30):
            demo.get("/v1/catalog?q=a", {"X-Device": str(number)})
        demo.stop()
        lines = [line for line in self.decisions(demo) if line["level"] == "warning"]
        self.assertEqual(sum(line["count"] for line in lines), 30)
        self.assertLessEqual(len(lines), 6, lines)
        self.assertTrue(all(line["failure"] and "key" not in line for line in lines), lines)


if __name__ == "__main__":
    unittest.main()
