"""What /healthz says of the store, and what the log advises about it."""

import os
import unittest

from support import Demo, DemoTest, Redis, one_limit, wait_until


def config_for(url):
    config = one_limit("ip", "1000/hour")
    config["store"] = {"url": url, "timeout": "5s"}
    config["policies"]["only"]["on_store_failure"] = "open"
    return config


class Health(DemoTest):
    def start(self, url):
        self.demo = Demo(self, config_for(url))
        self.client = self.demo.client()

    def health(self):
        """Always 200: a server that does without its store is not to be taken out of service."""
        answer = self.client.get("/healthz")
        self.assertEqual(answer.status, 200)
        return answer.json()

    def wait_for(self, status):
        return wait_until(lambda: self.health()["status"] == status and self.health(),
                          f"the page says {status}")

    def answering(self, redis):
        server = f"127.0.0.1:{redis.port}" if redis.tcp else redis.path
        return {"status": "ok", "store": "redis", "server": server, "answering": True,
                "breaker": "closed"}

    def assert_degraded(self, health, why):
        self.assertEqual(set(health), {"status", "store", "server", "answering", "breaker", "why",
                                       "down_s"})
        self.assertEqual((health["store"], health["answering"]), ("redis", False))
        self.assertIn(health["breaker"], ("open", "probing"))
        self.assertEqual(health["why"], why)
        self.assertIsInstance(health["down_s"], int)
        self.assertGreaterEqual(health["down_s"], 0)

    def test_has_little_to_say_of_the_memory_store(self):
        self.start("memory:")
        self.assertEqual(self.health(), {"status": "ok", "store": "memory"})

    def test_names_the_server_that_answers(self):
        for tcp in (True, False):
            redis = Redis(self, tcp=tcp)
            self.start(redis.url)
            self.wait_for("ok")
            wait_until(lambda: self.health()["breaker"] == "closed", "the first try has succeeded")
            self.assertEqual(self.health(), self.answering(redis))

    def test_says_why_and_since_when_redis_does_not_answer(self):
        redis = Redis(self)
        self.start(redis.url)
        wait_until(lambda: self.health() == self.answering(redis), "Redis is found")
        redis.kill()
        self.wait_for("degraded")
        wait_until(lambda: self.health().get("down_s", 0) >= 1, "that has lasted for a while")
        self.assert_degraded(self.health(), "Connection refused")
        os.unlink(redis.path)
        wait_until(lambda: self.health()["why"] == "No such file or directory", "the reason changed")
        self.assert_degraded(self.health(), "No such file or directory")
        redis.start()
        wait_until(lambda: self.health() == self.answering(redis), "Redis is found again")

    def test_says_why_redis_was_never_there(self):
        redis = Redis(self, start=False)
        self.start(redis.url)
        self.wait_for("degraded")
        self.assert_degraded(self.health(), "No such file or directory")

    def test_says_that_the_password_is_wrong_and_not_what_it_is(self):
        redis = Redis(self, tcp=True)
        redis.command("CONFIG", "SET", "requirepass", "right-one-4711")
        self.start(f"redis://:wrong-one-4712@127.0.0.1:{redis.port}/0")
        self.wait_for("degraded")
        self.assert_degraded(self.health(), "AUTH refused: WRONGPASS")
        self.assertNotIn("4712", self.client.get("/healthz").body.decode() + self.demo.log())


class Advice(DemoTest):
    def advice(self):
        return [line["text"] for line in self.demo.lines() if "[redis-" in line.get("text", "")]

    def test_logs_what_redis_should_be_set_to(self):
        redis = Redis(self, tcp=True)
        redis.command("CONFIG", "SET", "maxmemory", "100mb")
        redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        self.demo = Demo(self, config_for(redis.url))
        wait_until(self.advice, "the log has it")
        self.assertEqual(len(self.advice()), 1)
        self.assertTrue(self.advice()[0].startswith(
            f"Redis at 127.0.0.1:{redis.port} drops keys when its memory is full"), self.advice())
        self.assertTrue(self.advice()[0].endswith("[redis-eviction]"), self.advice())


if __name__ == "__main__":
    unittest.main()
