"""weir explain, and a server's own explanations: what they say before, the server then does."""

import json
import os
import re
import subprocess
import unittest

from support import FREE, PATIENCE_S, Demo, DemoTest, Redis, make_config, make_folder, write_config

TOOL = os.environ["WEIR_TOOL"]

CONFIG = make_config(
    {"api": [{"name": "burst", "by": "client", "rate": "6/hour", "burst": 3}]},
    [("* /v1/*", {"auth": "required", "policy": "api"}),
     ("POST /login", {"policy": "login"})],
    client_ip={"trust": ["loopback"]},
)
CONFIG["policies"]["login"] = {"limits": [{"name": "who", "by": "field:name", "rate": "3/hour"}]}


def explain(*arguments, **how):
    return subprocess.run([TOOL, "explain", *arguments], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, **how)


class Tool(DemoTest):
    def setUp(self):
        self.folder = make_folder(self)
        self.policy = ["--policy", write_config(self.folder, CONFIG)]

    def explain_json(self, *arguments, **how):
        done = explain(*self.policy, "--json", *arguments, **how)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_walks_a_described_request(self):
        done = explain(*self.policy, "--path", "/v1/search?q=gate", "--peer", "127.0.0.1", "--header",
                       "X-Forwarded-For: 203.0.113.7", "--header", "X-API-Key: free-demo-key")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for piece in ("address   203.0.113.7, counted as 203.0.113.7/32, from X-Forwarded-For\n",
                      "identity  API key acme-free, tenant acme, plan free\n",
                      "route     * /v1/*: auth required, policy api, cost 1\n",
                      "gcra 6/hour burst 3: 3 of 3 left, passes\n",
                      "state     as if nothing had been spent\n"):
            self.assertIn(piece, done.stdout)
        self.assertNotIn("free-demo-key", done.stdout)

    def test_reads_a_request_as_it_is_sent(self):
        sent = ("POST /login HTTP/1.1\r\nContent-Type: application/json\r\n"
                "X-Forwarded-For: 203.0.113.7\r\n\r\n{\"name\": \"Ann\"}")
        file = os.path.join(self.folder, "request")
        with open(file, "w", encoding="utf-8", newline="") as stream:
            stream.write(sent)
        of_file = self.explain_json("--request", file)
        self.assertEqual(of_file, self.explain_json("--request", "-", input=sent))
        self.assertEqual(of_file["address"]["client"], "203.0.113.7")
        of_options = self.explain_json("--method", "POST", "--path", "/login", "--field", "name=ann",
                                       "--header", "X-Forwarded-For: 203.0.113.7")
        self.assertEqual(of_options["limits"], of_file["limits"])

    def test_ends_as_asked(self):
        refused = ["--path", "/v1/a"]
        self.assertEqual(explain(*self.policy, *refused).returncode, 0)
        self.assertEqual(explain(*self.policy, *refused, "--exit-code").returncode, 1)
        self.assertEqual(explain(*self.policy, "--path", "/free", "--exit-code").returncode, 0)

    def test_says_what_it_cannot_do(self):
        rows = [
            ([], 2, "--policy FILE"),
            ([*self.policy], 2, "--path PATH"),
            ([*self.policy, "--path", "/a", "--store", "memory:"], 2, "--live"),
            ([*self.policy, "--path", "/a", "--live"], 1, "each server keeps to itself: ask its admin API"),
            ([*self.policy, "--path", "/a", "--live", "--store", "memory:"], 1, "ask its admin API"),
            ([*self.policy, "--path", "/a", "--header", "nothing"], 2, "NAME:VALUE"),
            ([*self.policy, "--path", "/a", "--field", "nothing"], 2, "NAME=VALUE"),
            ([*self.policy, "--path", "/a", "--peer", "nobody"], 1, "The peer is \"nobody\""),
            ([*self.policy, "--request", "/nowhere"], 1, "/nowhere: No such file"),
            ([*self.policy, "--request", "/dev/null"], 1, "Line 1 is no request line"),
            (["--policy", "/nowhere", "--path", "/a"], 1, "/nowhere"),
        ]
        for arguments, status, piece in rows:
            done = explain(*arguments)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(piece, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_never_says_a_key(self):
        for header in ("X-API-Key: s3cret", "Authorization: Bearer s3cret"):
            for form in ([], ["--json"]):
                done = explain(*self.policy, *form, "--path", "/v1/a?key=s3cret", "--header", header)
                self.assertNotIn("s3cret", done.stdout + done.stderr)


class Live(DemoTest):
    def test_asks_the_store_and_spends_nothing(self):
        redis = Redis(self)
        demo = Demo(self, config=CONFIG, store=redis.url)
        policy = ["--policy", os.path.join(demo.folder, "policy.json")]
        request = ["--path", "/v1/catalog", "--header", "X-API-Key: free-demo-key", "--json", "--live",
                   "--store", redis.url]
        for left in (3, 2, 1, 0):
            for _ in range(2):
                done = explain(*policy, *request)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                explanation = json.loads(done.stdout)
                [limit] = explanation["limits"]
                self.assertEqual(limit["remaining"], left)
            response = demo.get("/v1/catalog", FREE)
            self.assertEqual(explanation["verdict"].get("status", 200), response.status)
            said = dict(explanation["verdict"]["headers"])
            self.assertEqual(said["RateLimit-Policy"], response.headers["ratelimit-policy"])
            self.assertEqual("Retry-After" in said, left == 0)
        # What refuses one request in ten minutes may say a second less a moment later.
        self.assertLessEqual(int(said["Retry-After"]) - response.retry_after(), 1)

    def test_says_so_where_the_store_is_away(self):
        redis = Redis(self)
        redis.kill()
        policy = ["--policy", write_config(make_folder(self), CONFIG)]
        done = explain(*policy, "--path", "/v1/a", "--header", "X-API-Key: free-demo-key", "--live",
                       "--store", redis.url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, "state     redis does not answer: .+\n")
        self.assertIn("the store failed", done.stdout)

    def test_a_server_explains_what_it_has_refused(self):
        # Without a token nobody is answered whom the policy trusts to forward.
        demo = Demo(self, config={name: value for name, value in CONFIG.items() if name != "client_ip"})
        responses = [demo.get("/v1/catalog", FREE) for _ in range(4)]
        self.assert_refused(responses[-1])
        unread = demo.post("/login", {"Content-Type": "text/csv"}, b"name,ann")
        self.assertEqual(unread.status, 415)
        before = demo.get("/metrics").body
        explanation = demo.get(
            f"/admin/explain?request_id={responses[-1].headers['x-request-id']}").json()
        self.assertEqual(explanation["request"]["path"], "/v1/catalog")
        self.assertEqual(explanation["limits"][0]["key"], "api_key:acme-free")
        self.assertRegex(explanation["summary"],
                         r"^Refused by policy api, limit burst \(gcra 6/hour, burst 3\), key "
                         r"api_key:acme-free: 0 of 3 left, next in .*\.$")
        described = demo.get("/admin/explain?path=/v1/catalog&peer=127.0.0.1"
                             "&header=X-API-Key:free-demo-key").json()
        self.assertEqual(described["verdict"]["outcome"], "limited")
        explanation = demo.get(f"/admin/explain?request_id={unread.headers['x-request-id']}").json()
        self.assertEqual(explanation["summary"], "Refused with 415 by policy login: limits count by fields of the "
                                                 "body, and it cannot be read.")
        self.assertEqual(demo.get("/admin/explain?request_id=never").status, 404)
        self.assertEqual(demo.get("/admin/explain?path=/a&peer=nobody").status, 400)
        # None of that was counted.
        decided = re.compile(rb"^weir_(?:decisions|units).*$", re.MULTILINE)
        self.assertEqual(decided.findall(before), decided.findall(demo.get("/metrics").body))


if __name__ == "__main__":
    unittest.main()
