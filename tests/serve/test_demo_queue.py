"""Requests that wait their turn in the queue of a leaky bucket, on memory and on Redis."""

import select
import signal
import threading
import time
import unittest

from support import (Demo, DemoTest, Redis, make_config, raw_request, read_response, wait_until,
                     was_read)


def queue(rate, burst, max_wait="30s", store=None):
    limit = {"name": "queue", "by": "global", "rate": rate, "burst": burst,
             "algorithm": "leaky-bucket", "max_wait": max_wait}
    others = {"store": {"url": store, "timeout": "5s"}} if store else {}
    return make_config({"queue": [limit]}, [("GET /ip", {"policy": "queue"}), ("* /*", {})],
                       **others)


class Crowd:
    """Requests sent at the same time, each on a connection of its own."""

    def __init__(self, demos):
        self.answers = []
        self.start = time.monotonic()
        self.threads = [threading.Thread(target=self.ask, args=(demo,)) for demo in demos]
        for thread in self.threads:
            thread.start()

    def ask(self, demo):
        answer = demo.get("/ip")
        self.answers.append((time.monotonic() - self.start, answer))

    def wait(self):
        for thread in self.threads:
            thread.join()
        return sorted(self.answers, key=lambda item: item[0])


def is_readable(connection):
    return bool(select.select([connection], [], [], 0)[0])


class Queue(DemoTest):
    def stores(self):
        """None for memory, then one Redis."""
        yield None
        yield Redis(self).url

    def check_crowd(self, demos, rate):
        answers = Crowd(demos).wait()
        self.assertEqual([answer.status for _, answer in answers], [200] * len(demos))
        for number, (after_s, _) in enumerate(answers):
            self.assertGreaterEqual(after_s + 0.001, number / rate, f"reply {number} came early")

    def test_lets_requests_go_on_at_the_rate(self):
        for store in self.stores():
            with self.subTest(store=store):
                demo = Demo(self, queue("20/second", 8, store=store))
                self.check_crowd([demo] * 8, rate=20)

    def test_is_one_queue_for_all_instances(self):
        redis = Redis(self)
        demos = [Demo(self, queue("20/second", 8, store=redis.url)) for _ in range(2)]
        self.check_crowd(demos * 4, rate=20)

    def test_refuses_when_the_queue_is_full_or_the_wait_too_long(self):
        for limit in (dict(burst=3), dict(burst=100, max_wait="2s")):
            for store in self.stores():
                with self.subTest(store=store, **limit):
                    demo = Demo(self, queue("1/second", store=store, **limit))
                    crowd = Crowd([demo] * 6)
                    answers = [answer for _, answer in crowd.wait()]
                    refused = [answer for answer in answers if answer.status == 429]
                    # One goes on at once, two wait; a slow machine lets more in, never fewer.
                    self.assertIn(len(refused), (1, 2, 3))
                    for answer in refused:
                        self.assert_refused(answer)

    def test_lets_all_pass_at_once_that_need_not_wait(self):
        demo = Demo(self, queue("1/hour", 5, max_wait="0s"))
        statuses = [demo.get("/ip").status for _ in range(6)]
        self.assertEqual(statuses, [200] * 5 + [429])

    def test_gives_the_place_of_a_client_that_hangs_up_to_others(self):
        for store in self.stores():
            with self.subTest(store=store):
                demo = Demo(self, queue("1/minute", 2, max_wait="60s", store=store))
                self.assertEqual(demo.get("/ip").status, 200)
                with demo.socket() as (waiting, stream):
                    self.ask(waiting)
                    wait_until(lambda: self.waits(waiting, stream) and self.is_full(demo),
                               "the queue is full")
                    self.assertFalse(is_readable(waiting), "it is who waits")
                wait_until(lambda: not self.is_full(demo), "the place is free again")

    def ask(self, waiting):
        waiting.sendall(raw_request("GET", "/ip"))
        wait_until(lambda: was_read(waiting), "the server knows of it")

    def waits(self, waiting, stream):
        """True if it is not refused; else it asks again. A request that was read first need not be
        decided first, and a probe may have had its place."""
        if not is_readable(waiting):
            return True
        self.assertEqual(read_response(stream).status, 429)
        self.ask(waiting)
        return False

    def is_full(self, demo):
        """Whether a request finds no place; one that does leaves at once and frees it."""
        with demo.socket() as (asking, stream):
            asking.sendall(raw_request("GET", "/ip"))
            asking.settimeout(0.3)
            try:
                answer = read_response(stream)
            except TimeoutError:
                return False
            self.assertEqual(answer.status, 429, answer)
            return True

    def test_answers_who_waits_when_the_server_stops(self):
        demo = Demo(self, queue("1/minute", 3, max_wait="60s"))
        self.assertEqual(demo.get("/ip").status, 200)
        with demo.socket() as (waiting, stream):
            waiting.sendall(raw_request("GET", "/ip"))
            wait_until(lambda: was_read(waiting), "the server knows of it")
            demo.send(signal.SIGTERM)
            answer = read_response(stream)
        self.assertEqual(answer.status, 503, answer)
        self.assertEqual(demo.wait(), 0)


if __name__ == "__main__":
    unittest.main()
