"""POST /password/reset by the preset: the way back into an account that strangers have locked."""

import time
import unittest

from login_support import AttackTest, form, own_policy


def with_reset():
    """The demo has no resets: what is counted is the same wherever a field "email" is posted to."""
    config = own_policy()
    config["policies"]["reset"] = {"preset": "password-reset", "fields": {"account": "destination"}}
    for route in config["routes"]:
        if route.get("policy") == "otp-send":
            route["policy"] = "reset"
    return config


class Resets:
    def ask(self, demo, name, source):
        return self.post(demo, "/otp/send", form(destination=name), source=source).status

    def test_a_stranger_leaves_the_way_back_open(self):
        demo = self.start(with_reset())
        name = "ann@example.org"
        for i in range(6):
            seen = [self.ask(demo, name, f"127.0.8.{i}") for _ in range(5)]
            self.assertEqual(seen, [202] * 3 + [429] * 2)
        self.assertEqual(self.ask(demo, name, "127.0.7.7"), 202, "the owner, from elsewhere")

    def test_an_inbox_gets_no_more_than_twenty(self):
        demo = self.start(with_reset())
        seen = [self.ask(demo, "ann@example.org", f"127.0.8.{i // 3}") for i in range(30)]
        self.assertEqual(seen.count(202), 20, seen)
        self.assertEqual(self.ask(demo, "bob@example.org", "127.0.7.7"), 202)

    def test_many_accounts_from_one_address(self):
        demo, start = self.start(with_reset()), time.monotonic()
        seen = [self.ask(demo, f"user{i}@example.org", "127.0.8.1") for i in range(9)]
        earned = 1 + int((time.monotonic() - start) / 12)
        self.assertEqual(seen[:5], [202] * 5)
        self.assertLessEqual(seen.count(202), 5 + earned, seen)


class OnMemory(Resets, AttackTest):
    pass


class OnRedis(Resets, AttackTest):
    with_redis = True


if __name__ == "__main__":
    unittest.main()
