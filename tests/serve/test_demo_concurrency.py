"""Requests at once, from outside: what clients are answered, what is logged, what a crash leaves."""

import contextlib
import json
import signal
import unittest

from support import (FREE, PRO, Demo, DemoTest, Redis, make_config, raw_request, read_response,
                     wait_until)

BODY = b'{"rows": 1}'
POLICIES = {
    "exports": {
        "limits": [{"name": "burst", "by": "api_key", "rate": "1000/day"}],
        "concurrency": {"fixed": 2, "by": "api_key"},
    },
    "back": {
        "concurrency": {
            "adaptive": {"floor": 2, "initial": 2, "ceiling": 2},
            "partition_by": "tenant",
            "partitions": {"globex": 0.5},
        }
    },
}
ROUTES = [("POST /v1/export", {"auth": "required", "policy": "exports"})]


class Concurrency(DemoTest):
    def demo(self, **others):
        return Demo(self, make_config(POLICIES, ROUTES, **others))

    def begin(self, demo, stack, key):
        """A request that is under way, as its client is told to go on, until its body is sent."""
        made, stream = stack.enter_context(demo.socket())
        lines = {**key, "Content-Length": len(BODY), "Expect": "100-continue"}
        made.sendall(raw_request("POST", "/v1/export", lines, None))
        self.assertEqual(stream.readline(), b"HTTP/1.1 100 Continue\r\n")
        self.assertEqual(stream.readline(), b"\r\n")
        return made, stream

    def await_end(self, ask):
        """The server learns a little later that its clients have gone."""
        return wait_until(lambda: (lambda made: made.status == 200 and made)(ask()), "all have ended")

    def export(self, demo, key):
        return lambda: demo.post("/v1/export", key, BODY)

    def test_answers_429_to_who_has_too_many_of_its_own(self):
        demo = self.demo()
        with contextlib.ExitStack() as stack:
            held = [self.begin(demo, stack, FREE) for _ in range(2)]
            response = demo.post("/v1/export", FREE, BODY)
            self.assertEqual(response.status, 429)
            self.assertEqual(response.headers["retry-after"], "1")
            self.assertEqual(
                response.headers["ratelimit-policy"], '"concurrency";q=2;qu="concurrent-requests"'
            )
            self.assertNotIn("ratelimit", response.headers)
            self.assertEqual(json.loads(response.body)["violated-policies"], ["concurrency"])
            self.assertEqual(demo.post("/v1/export", PRO, BODY).status, 200)
            for made, stream in held:
                made.sendall(BODY)
                response = read_response(stream, "POST")
                self.assertEqual(response.status, 200)
                self.assertIn('"concurrency";q=2', response.headers["ratelimit-policy"])
            self.await_end(self.export(demo, FREE))
        line = demo.decisions("busy")[0]
        self.assertEqual((line["policy"], line["limit"], line["client"]),
                         ("exports", "concurrency", "acme-free"))

    def test_charges_nothing_to_who_is_turned_away(self):
        redis = Redis(self)
        for store in (None, redis.url):
            with self.subTest(store=store):
                others = {"store": {"url": store, "timeout": "5s"}} if store else {}
                demo = self.demo(**others)
                with contextlib.ExitStack() as stack:
                    for _ in range(2):
                        self.begin(demo, stack, FREE)
                    for _ in range(20):
                        self.assertEqual(demo.post("/v1/export", FREE, BODY).status, 429)
                    self.assertEqual(demo.decisions("limited"), [])
                response = self.await_end(self.export(demo, FREE))
                # The two that were given up, and this one; one may have been earned back meanwhile.
                left = int(response.headers["ratelimit"].split(";r=")[1].split(";")[0])
                self.assertIn(left - (1000 - 2 - 1), (0, 1))
                demo.stop()

    def test_answers_503_where_the_back_end_is_full(self):
        routes = [("* /*", {"auth": "optional", "policy": "back"})]
        demo = Demo(self, make_config(POLICIES, routes))
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                self.begin(demo, stack, {})
            response = demo.get("/ip")
            self.assertEqual(response.status, 503)
            self.assertIn(response.headers["retry-after"], ("1", "2", "3"))
            self.assert_no_quota(response)
            self.assertIn("#temporary-reduced-capacity", response.body.decode())
            # globex has one of two kept for it, and acme has not.
            response = demo.get("/v1/catalog", FREE)
            self.assertEqual(response.status, 503)
            self.assertEqual(response.headers["ratelimit-policy"],
                             '"concurrency";q=2;qu="concurrent-requests"')
            self.assertEqual(demo.get("/v1/catalog", PRO).status, 200)
        self.await_end(lambda: demo.get("/ip"))

    def test_leaves_nothing_behind_when_a_process_is_killed(self):
        redis = Redis(self)
        store = {"url": redis.url, "timeout": "5s"}
        first = self.demo(store=store)
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                self.begin(first, stack, FREE)
            self.assertEqual(first.post("/v1/export", FREE, BODY).status, 429)
            first.send(signal.SIGKILL)
            first.wait()
        second = self.demo(store=store)
        for _ in range(3):
            self.assertEqual(second.post("/v1/export", FREE, BODY).status, 200)


if __name__ == "__main__":
    unittest.main()
