"""Several processes and many requests at once: never more than the limit."""

import socket
import unittest

from support import PATIENCE_S, Demo, DemoTest, Redis, one_limit, raw_request, read_response

ROUNDS = 20

# libmicrohttpd's own epoll loop stalls when exactly 128 of a thread's connections are ready at once
# (0.9.75 and 1.0.1), which a crowd of 200 brings about now and then.
MANY_AT_ONCE = ["--mode", "poll"]


class Crowd:
    """Open connections to several servers, which all send at once."""

    def __init__(self, test, demos, size):
        self.connections = []
        for i in range(size):
            made = socket.create_connection(demos[i % len(demos)].where, timeout=PATIENCE_S)
            stream = made.makefile("rb")
            test.addCleanup(made.close)
            test.addCleanup(stream.close)
            self.connections.append((made, stream))

    def ask(self, target, headers):
        """One request on each connection; how many there were of each status."""
        request = raw_request("GET", target, headers)
        for connection, _ in self.connections:
            connection.sendall(request)
        counts = {}
        for _, stream in self.connections:
            status = read_response(stream).status
            counts[status] = counts.get(status, 0) + 1
        return counts


def by_round(rate, **limit):
    """Each value of X-Round is a client of its own, so that rounds need no new server."""
    return one_limit("header:X-Round", rate, **limit)


class Shared(DemoTest):
    def test_share_one_limit_through_redis(self):
        redis = Redis(self)
        config = one_limit("ip", "5/minute")
        demos = [Demo(self, config, store=redis.url) for _ in range(3)]
        statuses = [demos[i % 3].get("/ip").status for i in range(12)]
        self.assertEqual(statuses.count(200), 5, statuses)
        self.assertEqual(statuses, [200] * 5 + [429] * 7)

    def test_share_a_window_from_the_first_request_through_redis(self):
        redis = Redis(self)
        config = one_limit("ip", "5/minute", algorithm="fixed-window", start="first")
        demos = [Demo(self, config, store=redis.url) for _ in range(3)]
        statuses = [demos[i % 3].get("/ip").status for i in range(12)]
        self.assertEqual(statuses, [200] * 5 + [429] * 7)

    def test_let_each_process_count_for_itself_on_the_memory_store(self):
        demos = [Demo(self, one_limit("ip", "5/minute")) for _ in range(3)]
        statuses = [demos[i % 3].get("/ip").status for i in range(18)]
        self.assertEqual(statuses, [200] * 15 + [429] * 3, "three times the limit of 5")
        for demo in demos:
            notice = [line["text"] for line in demo.lines() if "memory" in line.get("text", "")]
            self.assertTrue(any("this process alone" in text for text in notice), "(F15)")

    def test_keep_what_was_spent_when_a_process_restarts(self):
        redis = Redis(self)
        config = one_limit("ip", "10/hour", algorithm="fixed-window", start="first")
        for expected in ([200] * 6, [200] * 4 + [429] * 2):
            demo = Demo(self, config, store=redis.url)
            self.assertEqual([demo.get("/ip").status for _ in range(6)], expected)
            demo.stop()

    def check_crowd(self, demos, **limit):
        crowd = Crowd(self, demos, 200)
        for number in range(ROUNDS):
            with self.subTest(processes=len(demos), round=number):
                counts = crowd.ask("/ip", {"X-Round": f"{len(demos)}-{number}"})
                self.assertEqual(counts, {200: 100, 429: 100})

    def test_admit_exactly_the_limit_of_parallel_requests_in_memory(self):
        self.check_crowd([Demo(self, by_round("100/hour"), options=MANY_AT_ONCE)])

    def test_admit_exactly_the_limit_of_parallel_requests_through_redis(self):
        redis = Redis(self)
        config = by_round("100/hour", match="* /*")
        config["store"] = {"url": redis.url, "timeout": "10s"}
        for processes in (1, 2, 3):
            demos = [Demo(self, config, options=MANY_AT_ONCE) for _ in range(processes)]
            self.check_crowd(demos)
            for demo in demos:
                demo.stop()

    def test_admit_exactly_the_limit_in_every_mode(self):
        redis = Redis(self)
        config = by_round("10/hour")
        config["store"] = {"url": redis.url, "timeout": "10s"}
        for number, options in enumerate((["--threads", "1"], ["--mode", "poll"],
                                          ["--mode", "poll", "--threads", "1"],
                                          ["--mode", "thread-per-connection"], ["--mode", "serve"])):
            with self.subTest(options=options):
                demo = Demo(self, config, options=options)
                counts = Crowd(self, [demo], 40).ask("/ip", {"X-Round": f"mode {number}"})
                self.assertEqual(counts, {200: 10, 429: 30})


if __name__ == "__main__":
    unittest.main()
