"""The whole server while Redis stalls, dies, forgets, or was never there.

One server with a route for each rule: /v1/catalog lets through (open), /v1/search is closed, and
/v1/quota and /ip are decided in this process (memory), with their limits divided by `instances`.
"""

import signal
import time
import unittest

from support import FREE, Demo, DemoTest, Redis, make_config, one_limit, wait_until

# Where Redis is to be silent; and where it answers or is gone, however busy the machine is.
TIMEOUT_S = 0.3
PATIENT_S = 10

# What a busy machine may add to a deadline. An answer that was waited for without a deadline would
# not come at all.
SLOWNESS_S = 5

# All are to return to normal within this time after Redis has, of which a quiet machine takes a
# part; what is promised the strict plays of tests/faults measure.
RETURN_S = 20

OPEN, CLOSED, MEMORY, OTHER_MEMORY = "/v1/catalog", "/v1/search?q=gate", "/v1/quota", "/ip"


def config_for(redis, timeout_s):
    def policy(name, by, rate, rule):
        return {"limits": [{"name": name, "by": by, "rate": rate}], "on_store_failure": rule}

    required = {"auth": "required"}
    return make_config(
        {
            "open": policy("open", "client", "1000/hour", "open"),
            "closed": policy("closed", "client", "1000/hour", "closed"),
            "memory": policy("memory", "client", "10/hour", "memory"),
            "other": policy("other", "ip", "6/hour", "memory"),
        },
        [
            ("GET /v1/catalog", {"policy": "open", **required}),
            ("GET /v1/search", {"policy": "closed", **required}),
            ("GET /v1/quota", {"policy": "memory", **required}),
            ("GET /ip", {"policy": "other", "auth": "none"}),
        ],
        # Each request is to ask Redis, those that it has refused a moment ago as well.
        store={"url": redis.url, "timeout": f"{int(timeout_s * 1000)}ms", "denial_cache": "0s"},
        instances=2,
    )


class Faults(DemoTest):
    def start(self, redis, timeout_s=PATIENT_S):
        self.redis, self.timeout_s = redis, timeout_s
        self.demo = Demo(self, config_for(redis, timeout_s))
        self.client = self.demo.client()
        self.slowest_s = 0

    def get(self, target):
        return self.client.get(target, FREE)

    # what must hold

    def is_normal(self):
        answers = (self.get(OPEN), self.get(CLOSED))
        return (
            [(answer.status, set(answer.quotas())) for answer in answers]
            == [(200, {"open"}), (200, {"closed"})]
            and self.client.get("/healthz").json()["status"] == "ok"
        )

    def check_return(self):
        """Redis is back and answers; the server must be, soon."""
        wait_until(self.redis.answers, "Redis answers")
        start = time.monotonic()
        wait_until(self.is_normal, "the server is back to normal")
        took_s = time.monotonic() - start
        print(f"{self.id().split('.')[-1]}: back to normal after {took_s:.2f} s; before that the "
              f"slowest answer took {self.slowest_s * 1000:.0f} ms", flush=True)
        self.assertLess(took_s, RETURN_S)

    def check_failing(self):
        self.check_open()
        self.check_closed()
        self.check_memory()
        health = self.client.get("/healthz")
        self.assertEqual((health.status, health.json()["store"]), (200, "redis"))
        wait_until(self.is_degraded, "the health page says so")

    def is_degraded(self):
        self.get(OPEN)
        return self.client.get("/healthz").json()["status"] == "degraded"

    def check_open(self):
        before = len(self.demo.decisions("failed-open"))
        times = []
        for _ in range(5):
            start = time.monotonic()
            answer = self.get(OPEN)
            times.append(time.monotonic() - start)
            self.assertEqual(answer.status, 200)
            self.assertIn("items", answer.json())
            self.assert_no_quota(answer)
        self.assertEqual(len(self.demo.decisions("failed-open")) - before, 5, "once for each")
        self.assertLess(max(times), self.timeout_s + SLOWNESS_S, times)
        self.slowest_s = max(self.slowest_s, *times)

    def check_closed(self):
        for _ in range(3):
            start = time.monotonic()
            answer = self.get(CLOSED)
            self.assertLess(time.monotonic() - start, self.timeout_s + SLOWNESS_S)
            self.assert_problem(answer, 503, "#temporary-reduced-capacity")
            self.assertIn(answer.retry_after(), range(1, 11))
            self.assert_no_quota(answer)

    def check_memory(self):
        """Each route has its own limit, and this instance's half of it."""
        for target, share in ((MEMORY, 5), (OTHER_MEMORY, 3)):
            answers = [self.get(target) for _ in range(share + 2)]
            self.assertEqual([answer.status for answer in answers], [200] * share + [429] * 2)
            self.assert_refused(answers[-1])

    # what can happen

    def test_does_what_each_policy_says_while_redis_is_stopped(self):
        self.start(Redis(self, tcp=True), TIMEOUT_S)
        wait_until(self.is_normal, "the server has found Redis")
        self.redis.stop_answering()
        self.check_failing()
        self.redis.go_on()
        self.check_return()

    def test_does_what_each_policy_says_while_redis_is_dead(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        self.redis.kill()
        self.check_failing()
        self.redis.start()
        self.check_return()

    def test_finds_redis_again_on_its_port_after_a_crash(self):
        self.start(Redis(self, tcp=True))
        wait_until(self.is_normal, "the server has found Redis")
        self.redis.kill()
        self.check_open()
        self.redis.start()
        self.check_return()

    def test_says_on_its_health_page_that_redis_is_full(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        self.redis.command("CONFIG", "SET", "maxmemory", "1")

        def is_degraded():
            self.check_open()
            return self.is_degraded()

        wait_until(is_degraded, "the health page says so")
        health = self.client.get("/healthz").json()
        self.assertEqual((health["answering"], health["breaker"]), (True, "closed"))
        self.assertRegex(health["why"], "^OOM ")
        self.redis.command("CONFIG", "SET", "maxmemory", "0")
        wait_until(self.is_normal, "the server is back to normal")
        self.assertNotIn("why", self.client.get("/healthz").json())

    def test_returns_as_soon_after_a_long_outage(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        self.redis.kill()
        # Long enough for pauses between attempts to have grown, were there no bound to them.
        end = time.monotonic() + 5
        while time.monotonic() < end:
            self.check_open()
            self.check_closed()
        # Whoever waits as long as is asked for, again and again, backs off by doubling.
        self.assertIn(self.get(CLOSED).retry_after(), range(4, 11))
        self.redis.start()
        self.check_return()

    def statuses(self, target, count):
        return [self.get(target).status for _ in range(count)]

    def by_memory(self):
        return len([line for line in self.demo.lines() if line.get("by_memory")])

    def test_keeps_what_redis_refuses_from_the_fallback(self):
        """This process's share is untouched, and would let five more through (B12)."""
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        self.assertEqual(self.statuses(MEMORY, 13), [200] * 10 + [429] * 3)
        self.assertEqual(self.by_memory(), 0)
        self.redis.kill()
        self.assertEqual(self.statuses(MEMORY, 6), [200] * 5 + [429])

    def test_decides_in_two_places_while_redis_comes_and_goes(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        self.assertEqual(self.statuses(MEMORY, 2), [200] * 2)
        self.redis.kill()
        self.assertEqual(self.statuses(MEMORY, 3), [200] * 3)

        self.redis.start()
        wait_until(self.is_normal, "the server has found Redis again")
        asked = self.by_memory()
        # That Redis kept nothing over its end, so its sum begins anew; none of the share is added.
        self.assertEqual(self.statuses(MEMORY, 12), [200] * 10 + [429] * 2)
        self.assertEqual(self.by_memory(), asked, "Redis decided (E18)")

        self.redis.kill()
        # The share goes on where it stood: two of five are left of it.
        self.assertEqual(self.statuses(MEMORY, 4), [200] * 2 + [429] * 2)
        self.assertEqual(self.by_memory(), asked + 4)

    def test_starts_before_redis_and_finds_it_when_it_comes(self):
        self.start(Redis(self, start=False))
        self.assertEqual(self.client.get("/healthz").json()["status"], "degraded")
        self.check_failing()
        self.redis.start()
        self.check_return()

    def test_goes_on_when_the_scripts_are_flushed(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        left = self.get(OPEN).quotas()["open"]["r"]
        for number in range(1, 4):
            self.assertEqual(self.redis.command("SCRIPT", "FLUSH"), "OK")
            answer = self.get(OPEN)
            self.assertEqual((answer.status, answer.quotas()["open"]["r"]), (200, left - number),
                             "counted once (E1)")
        self.assertEqual(self.demo.decisions("failed-open"), [])

    def test_starts_anew_when_all_is_flushed(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        statuses = [self.get(MEMORY).status for _ in range(12)]
        self.assertEqual(statuses, [200] * 10 + [429] * 2)
        self.assertEqual(self.redis.command("FLUSHALL"), "OK")
        answer = self.get(MEMORY)
        self.assertEqual((answer.status, answer.quotas()["memory"]["r"]), (200, 9))

    def test_comes_through_a_restart_that_loses_scripts_and_sums(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        self.redis.end(signal.SIGTERM)
        self.redis.start()
        self.check_return()

    def test_leaves_no_key_without_an_expiry(self):
        self.start(Redis(self))
        wait_until(self.is_normal, "the server has found Redis")
        for target in (OPEN, CLOSED, MEMORY, OTHER_MEMORY):
            self.get(target)
        keys = self.redis.command("KEYS", "*")
        self.assertGreaterEqual(len(keys), 4)
        for key in keys:
            self.assertGreater(self.redis.command("PTTL", key), 0, key)
            self.assertNotIn("free-demo-key", key)


class Kinds(DemoTest):
    """Each kind of failure has a rule of its own, and a refusal is none of them."""

    def start(self):
        self.redis = Redis(self)
        config = one_limit("ip", "10/hour")
        config["policies"]["only"]["on_store_failure"] = {
            "timeout": "open", "unavailable": "memory", "error": "closed"}
        config.update({"instances": 2, "store": {"url": self.redis.url, "timeout": "3s",
                                                "denial_cache": "0s"}})
        self.demo = Demo(self, config)
        self.client = self.demo.client()
        wait_until(lambda: self.get().status == 200 and not self.failures(), "Redis decides")

    def get(self):
        return self.client.get("/ip")

    def failures(self):
        """Also forgets them."""
        lines = self.demo.lines()
        found = [line["failure"] for line in lines[self.seen:] if "failure" in line]
        self.seen = len(lines)
        return found

    seen = 0

    def test_applies_to_each_kind_of_failure_its_own_rule(self):
        self.start()
        self.redis.stop_answering()
        self.assertEqual(self.get().status, 200)
        self.assertEqual(self.failures(), ["timeout"])
        self.redis.go_on()

        self.redis.command("CONFIG", "SET", "maxmemory", "1")
        self.assert_problem(self.get(), 503, "#temporary-reduced-capacity")
        self.assertEqual(self.failures(), ["error"])
        self.redis.command("CONFIG", "SET", "maxmemory", "0")

        statuses = [self.get().status for _ in range(12)]
        self.assertEqual(statuses[-2:], [429] * 2, "Redis refuses, which is no failure")
        self.assertEqual(self.failures(), [])

        self.redis.kill()
        self.assertEqual([self.get().status for _ in range(6)], [200] * 5 + [429])
        self.assertEqual(self.failures(), [])
        self.assertTrue(all(line.get("by_memory") for line in self.demo.lines()[-6:]
                            if "decision" in line))


if __name__ == "__main__":
    unittest.main()
