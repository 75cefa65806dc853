"""Several processes with leases on one Redis: never more than the limit, and hardly less.

The windows last so long that none ends in the middle; there are no bounds in time.
"""

import contextlib
import http.client
import re
import signal
import threading
import unittest

from support import Client, Demo, DemoTest, Redis, one_limit, wait_until

PROCESSES = 4
LIMIT = 4000
BATCH = 50
CLIENTS_EACH = 2

# With this Redis may be silent for as long as a test wants it to be.
PATIENT = "60s"

# Looks in a row.
STILL = 30


def leased_window():
    limit = one_limit("header:X-Round", f"{LIMIT}/day", algorithm="fixed-window", start="first",
                      lease={"batch": BATCH})
    limit["policies"]["only"]["on_store_failure"] = "closed"
    return {**limit, "instances": PROCESSES}


class Hammer(threading.Thread):
    """A client that asks one server until it is refused, or the server is gone."""

    def __init__(self, demo):
        super().__init__(daemon=True)
        self.demo = demo
        self.allowed = 0
        self.last = None

    def run(self):
        with contextlib.closing(Client(self.demo.where)) as client:
            with contextlib.suppress(OSError, http.client.HTTPException):
                while self.last in (None, 200):
                    self.last = client.get("/ip", {"X-Round": "one"}).status
                    self.allowed += self.last == 200


class Leases(DemoTest):
    def setUp(self):
        self.redis = Redis(self)
        config = leased_window()
        config["store"] = {"url": self.redis.url, "timeout": PATIENT}
        self.demos = [Demo(self, config) for _ in range(PROCESSES)]
        self.hammers = [Hammer(demo) for demo in self.demos for _ in range(CLIENTS_EACH)]

    def bound(self):
        """As each process has printed it."""
        bounds = set()
        for demo in self.demos:
            texts = [line.get("text", "") for line in demo.lines()]
            bounds |= {int(found[1]) for found in
                       (re.search(r"may leave up to (\d+) of \d+ units unused", text)
                        for text in texts) if found}
        self.assertEqual(len(bounds), 1, bounds)
        return bounds.pop()

    def allowed(self):
        return sum(hammer.allowed for hammer in self.hammers)

    def check(self, hammers, bound):
        self.assertEqual([hammer.last for hammer in hammers], [429] * len(hammers))
        self.assertLessEqual(self.allowed(), LIMIT)
        self.assertGreaterEqual(self.allowed(), LIMIT - bound)

    def spend_a_part(self):
        for hammer in self.hammers:
            hammer.start()
        wait_until(lambda: self.allowed() > LIMIT // 4, "a part of the limit is spent")

    def await_end(self):
        for hammer in self.hammers:
            wait_until(lambda: not hammer.is_alive(), "a client has been refused, or cut off")

    def stands_still(self):
        """A function that says whether nothing was let through for a while."""
        seen = []

        def look():
            seen.append(self.allowed())
            return seen[-STILL:] == [seen[-1]] * STILL

        return look

    def test_let_through_what_the_limit_has_and_leave_no_more_than_is_printed(self):
        bound = self.bound()
        self.spend_a_part()
        self.await_end()
        self.check(self.hammers, bound)

    def test_lose_with_a_process_that_is_killed_no_more_than_it_held(self):
        bound = self.bound()
        self.spend_a_part()
        self.demos[0].end(signal.SIGKILL)
        self.await_end()
        # What the killed one had let through without telling its clients is spent as well.
        self.check(self.hammers[CLIENTS_EACH:], bound + CLIENTS_EACH)

    def test_let_nothing_more_through_when_redis_is_silent_for_a_while(self):
        bound = self.bound()
        self.spend_a_part()
        self.redis.stop_answering()
        try:
            wait_until(self.stands_still(), "what is held is spent")
            self.assertLess(self.allowed(), LIMIT)
        finally:
            self.redis.go_on()
        self.await_end()
        self.check(self.hammers, bound)


if __name__ == "__main__":
    unittest.main()
