"""What the server leaves in Redis, seen from Redis's side."""

import re
import time
import unittest

from stage import BRIEF, CONNECTIONS_EACH, FaultTest, Proxy, Redis, Server
from support import FREE, PATIENCE_S, Client, make_config, wait_until

ALGORITHMS = ("gcra", "token-bucket", "leaky-bucket", "fixed-window", "sliding-counter",
              "sliding-log")

# Longer than any test takes, so that hardly one meets the end of a window on the clock.
RATE, WINDOW_MS = "10/366days", 366 * 86_400_000


def limits_of(algorithm, *names, **fields):
    return [{"name": name, "by": "api_key", "rate": RATE, "algorithm": algorithm, **fields}
            for name in names]


def every_kind_of_policy():
    """Each algorithm alone, several limits of one client, and limits of two subjects."""
    policies = {algorithm: limits_of(algorithm, "only") for algorithm in ALGORITHMS}
    policies["first"] = limits_of("fixed-window", "only", start="first")
    policies["group"] = limits_of("gcra", "one") + limits_of("fixed-window", "two") \
        + limits_of("sliding-counter", "three")
    policies["apart"] = limits_of("gcra", "one") + [{"name": "two", "by": "ip", "rate": RATE}]
    return policies


class RedisKeys(FaultTest):
    def serve(self, redis, policies, cost=1, timeout="5s"):
        routes = [(f"* /{name}", {"auth": "required", "policy": name, "cost": cost})
                  for name in policies]
        self.server = Server(self, make_config(policies, routes,
                                               store={"url": redis.url, "timeout": timeout,
                                                      "denial_cache": "0s"}))
        self.client = Client(("127.0.0.1", self.server.port))
        self.addCleanup(self.client.close)
        wait_until(lambda: self.server.state()["answering"], "the server has found Redis")

    def get(self, route):
        answer = self.client.get(route, FREE)
        self.assertIn(answer.status, (200, 429))
        return answer

    # which keys

    def watched(self, redis, use):
        """The commands that Redis runs while use() does its work, as lists of words."""
        with redis.connect() as monitor, monitor.makefile("rb") as stream:
            monitor.sendall(b"MONITOR\r\n")
            self.assertEqual(stream.readline(), b"+OK\r\n")
            use()
            redis.command("ECHO", "that was all")
            lines = []
            while not lines or '"that was all"' not in lines[-1]:
                lines.append(stream.readline().decode("latin-1"))
        return [(" lua] " in line, re.findall(r'"((?:[^"\\]|\\.)*)"', line)) for line in lines]

    def test_scripts_touch_the_keys_that_they_are_given_and_no_others(self):
        redis = Redis(self)
        policies = every_kind_of_policy()
        self.serve(redis, policies)

        def use():
            for name in policies:
                for _ in range(12):
                    self.get(f"/{name}")

        declared, calls, inside = [], 0, 0
        for is_inside, words in self.watched(redis, use):
            if "weir:{advice}" in words[1:2]:
                continue  # what may we? asked of any node, of a key that is never there
            if is_inside:
                inside += 1
                if words[0] != "TIME":
                    self.assertIn(words[1], declared, words)
            elif words[0] in ("EVALSHA", "EVAL"):
                calls += 1
                count = int(words[2])
                declared = words[3 : 3 + count]
                self.assertEqual(len(set(declared)), count, words[:10])
                for key in declared:
                    self.assertRegex(key, r"^weir:\{[^{}]+\}:")
                for argument in words[3 + count :]:
                    self.assertNotIn("weir:", argument)
        self.assertGreaterEqual(calls, 12 * len(policies))
        self.assertGreater(inside, calls)

    # how long they live

    def test_keys_live_for_two_windows_at_most_whatever_the_first_cost(self):
        for cost in (1, 5, 11):
            redis = Redis(self)
            policies = every_kind_of_policy()
            self.serve(redis, policies, cost)
            for name in policies:
                for _ in range(3):
                    answer = self.get(f"/{name}")
                if cost == 11:
                    self.assertEqual((answer.status, answer.retry_after()), (429, None), name)
            keys = redis.command("KEYS", "*")
            self.assertEqual(len(keys), 0 if cost == 11 else len(policies) + 1, keys)
            for key in keys:
                lives_ms = redis.command("PTTL", key)
                self.assertGreater(lives_ms, 0, key)
                self.assertLessEqual(lives_ms, 2 * WINDOW_MS, key)
            self.server.stop()

    def test_each_window_is_whole_though_requests_come_at_its_last_moment(self):
        redis = Redis(self)
        policies = {"short": [{"name": "only", "by": "api_key", "rate": "5/100ms",
                               "algorithm": "fixed-window", "start": "first"}]}
        self.serve(redis, policies)
        let_through = []
        start = time.monotonic()

        def has_seen_it_all():
            """Some windows, and one that was used up, which a slow machine may seldom manage."""
            passed_s = time.monotonic() - start
            return passed_s > PATIENCE_S or (passed_s > (1 if BRIEF else 2) and 0 in let_through
                                             and let_through.count(4) > 5)

        while not has_seen_it_all():
            answer = self.get("/short")
            if answer.status == 200:
                let_through.append(answer.quotas()["only"]["r"])
            for key in redis.command("KEYS", "*"):
                self.assertNotEqual(redis.command("PTTL", key), -1, "it would never end")
        # A new window is whole, however little was spent of the one before.
        for before, left in zip(let_through, let_through[1:]):
            self.assertIn(left, (4, before - 1))
        self.assertGreater(let_through.count(4), 5)
        self.assertIn(0, let_through)

    # which database, and as whom

    def test_every_connection_has_its_login_and_its_database(self):
        redis = Redis(self)
        redis.command("ACL", "SETUSER", "meter", "on", ">open:sesame", "~weir:*", "+@all")
        redis.database = 3
        proxy = Proxy(self, f"unix:{redis.path}")
        play = self.stage(redis, f"redis://meter:open%3Asesame@127.0.0.1:{proxy.port}/3")
        for _ in range(5):
            proxy.do("drop")
            play.hold(0.1)
            names = re.findall(r"user=(\w+)", redis.command("CLIENT", "LIST"))
            self.assertLessEqual(names.count("meter"), CONNECTIONS_EACH)
        play.wait_until_back()
        outcome = self.end()
        databases = re.findall(r"^db(\d+):", redis.command("INFO", "keyspace"), flags=re.M)
        self.assertEqual(databases, ["3"])
        self.assertEqual([line for line in outcome.lines if "sesame" in line[2]], [])


if __name__ == "__main__":
    unittest.main()
