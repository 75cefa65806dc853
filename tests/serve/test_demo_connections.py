"""Bodies, kept connections, pipelining, and clients that go away."""

import signal
import socket
import struct
import unittest

from support import (FREE, PATIENCE_S, Demo, DemoTest, Redis, make_config, one_limit, raw_request,
                     read_response, wait_until, was_read)

MEBIBYTE = 1024 * 1024


def keyed(rate):
    return one_limit("client", rate, match="* /v1/*", auth="required")


def slow_redis_config(redis):
    """Requests stay parked while Redis is stopped: their deadline is far away."""
    return {**keyed("1000/hour"), "store": {"url": redis.url, "timeout": "10s"}}


class Bodies(DemoTest):
    def test_counts_an_upload_of_a_mebibyte_once(self):
        demo = Demo(self, keyed("5/hour"))
        client = demo.client()
        body = b'{"rows": 3}'.ljust(MEBIBYTE)
        for left in (4, 3):
            answer = client.post("/v1/export", FREE, body)
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.quotas()["only"]["r"], left)
            self.assertEqual(len(answer.body.splitlines()), 3)

    def test_counts_a_chunked_upload_once(self):
        demo = Demo(self, keyed("5/hour"))
        client = demo.client()
        pieces = iter([b'{"rows"', b": 2", b"}"] + [b" " * 1000] * 100)
        answer = client.post("/v1/export", FREE, pieces)  # http.client makes chunks of an iterator
        self.assertEqual((answer.status, answer.quotas()["only"]["r"]), (200, 4))
        self.assertEqual(len(answer.body.splitlines()), 2)
        self.assertEqual(client.get("/v1/catalog", FREE).quotas()["only"]["r"], 3)

    def expect(self, demo, key):
        """Announces a body and waits to be asked for it; returns the connection's lines so far."""
        headers = {**key, "Expect": "100-continue", "Content-Length": str(MEBIBYTE)}
        with demo.socket() as (connection, stream):
            connection.sendall(raw_request("POST", "/v1/export", headers, None))
            first = read_response(stream)
            if first.status != 100:
                return first, stream.read()
            connection.sendall(b'{"rows": 1}'.ljust(MEBIBYTE))
            return first, read_response(stream)

    def test_refuses_an_upload_before_it_is_sent(self):
        demo = Demo(self, keyed("1/hour"))
        first, answer = self.expect(demo, FREE)
        self.assertEqual((first.status, answer.status), (100, 200))
        refused, rest = self.expect(demo, FREE)
        self.assert_refused(refused)
        self.assertEqual(rest, b"", "nothing follows: the body was never asked for")
        unknown, rest = self.expect(demo, {})
        self.assertEqual((unknown.status, rest), (401, b""))

    def test_refuses_an_upload_before_it_is_sent_with_redis_too(self):
        redis = Redis(self)
        demo = Demo(self, keyed("1/hour"), store=redis.url)
        self.assertEqual(self.expect(demo, FREE)[0].status, 100)
        self.assertEqual(self.expect(demo, FREE)[0].status, 429)

    def test_answers_a_client_that_pushes_its_body_regardless(self):
        demo = Demo(self, keyed("1/hour"))
        self.assertEqual(demo.get("/v1/catalog", FREE).status, 200)
        self.assertEqual(demo.post("/v1/export", FREE, b'{"rows": 1}').status, 429)

    def test_refuses_a_body_above_what_the_handler_takes(self):
        demo = Demo(self, keyed("5/hour"))
        for length in (MEBIBYTE + 1, 10**18):
            with socket.create_connection(demo.where, timeout=PATIENCE_S) as connection:
                # Refused for what it announces, before any of it is sent.
                connection.sendall(raw_request("POST", "/v1/export",
                                               {**FREE, "Content-Length": length}, None))
                with connection.makefile("rb") as stream:
                    self.assert_problem(read_response(stream), 413)
                    self.assertEqual(stream.read(), b"", "the connection ends")


class Connections(DemoTest):
    def test_keep_a_connection_through_refusals(self):
        demo = Demo(self, keyed("1/hour"))
        client = demo.client()
        self.assertEqual(client.get("/v1/catalog", FREE).status, 200)
        port = client.local_port()
        for target, key, status in (("/v1/catalog", FREE, 429), ("/v1/catalog", {}, 401),
                                    ("/nowhere", {}, 404), ("/ip", {}, 200)):
            self.assertEqual(client.get(target, key).status, status)
            self.assertEqual(client.local_port(), port, f"after {status} it is another connection")

    def test_keep_a_connection_through_a_refusal_by_redis(self):
        redis = Redis(self)
        demo = Demo(self, keyed("1/hour"), store=redis.url)
        client = demo.client()
        statuses = []
        for _ in range(3):
            statuses.append(client.get("/v1/catalog", FREE).status)
            port = client.local_port()
        self.assertEqual(statuses, [200, 429, 429])
        self.assertEqual(client.get("/ip").status, 200)
        self.assertEqual(client.local_port(), port)

    def check_pipeline(self, store):
        demo = Demo(self, keyed("3/hour"), store=store)
        requests = [raw_request("GET", "/v1/catalog", FREE),
                    raw_request("HEAD", "/v1/catalog", FREE),
                    raw_request("POST", "/v1/export", {**FREE, "Content-Length": "11"},
                                b'{"rows": 2}'),
                    raw_request("GET", "/v1/catalog", FREE),
                    raw_request("GET", "/ip")]
        with demo.socket() as (connection, stream):
            connection.sendall(b"".join(requests))
            answers = [read_response(stream, method)
                       for method in ("GET", "HEAD", "POST", "GET", "GET")]
        self.assertEqual([answer.status for answer in answers], [200, 200, 200, 429, 200])
        self.assertEqual([answer.quotas()["only"]["r"] for answer in answers[:4]], [2, 1, 0, 0])

    def test_answer_pipelined_requests_in_order(self):
        self.check_pipeline("memory:")

    def test_answer_pipelined_requests_in_order_with_redis(self):
        self.check_pipeline(Redis(self).url)

    def test_tell_what_is_not_there_from_what_is_not_allowed(self):
        demo = Demo(self, keyed("1000/hour"))
        self.assert_problem(demo.get("/nowhere"), 404)
        self.assert_problem(demo.get("/v1/nowhere", FREE), 404)
        self.assert_problem(demo.get("/v1/nowhere"), 401)
        for method, target, allow in (("DELETE", "/ip", "GET, HEAD"), ("GET", "/login", "POST"),
                                      ("PUT", "/v1/export", "POST")):
            answer = demo.ask(method, target, FREE)
            self.assert_problem(answer, 405)
            self.assertEqual(answer.headers["allow"], allow)

    def test_match_paths_however_they_are_spelt(self):
        demo = Demo(self, keyed("1000/hour"))
        for target in ("/v1/catalog", "/v1//catalog", "/v1/./catalog/", "/x/../v1/catalog",
                       "/%761/catalog"):
            self.assertEqual(demo.get(target).status, 401, target)
            self.assertEqual(demo.get(target, FREE).status, 200, target)


class Leaving(DemoTest):
    def test_survive_clients_that_leave_while_they_wait(self):
        redis = Redis(self)
        demo = Demo(self, slow_redis_config(redis))
        self.assertEqual(demo.get("/v1/catalog", FREE).status, 200)
        redis.stop_answering()
        for _ in range(20):
            with demo.socket() as (connection, _):
                connection.sendall(raw_request("GET", "/v1/catalog", FREE))
        redis.go_on()
        # Each of them was counted, or was gone before it was read; nothing else may be wrong.
        answer = demo.get("/v1/catalog", FREE)
        self.assertEqual(answer.status, 200)
        self.assertTrue(978 <= answer.quotas()["only"]["r"] <= 998, answer)
        self.assertTrue(demo.is_running())

    def test_survive_clients_that_leave_in_the_middle_of_a_body(self):
        # libmicrohttpd's epoll mode may miss the end of a connection that came along with its last
        # bytes, until the connection times out; it never misses a reset.
        for options, resets in ((["--mode", "poll"], False), ([], True)):
            with self.subTest(options=options):
                demo = Demo(self, keyed("1000/hour"), options=options)
                for _ in range(20):
                    self.leave_in_the_middle(demo, resets)
                self.assertEqual(demo.get("/v1/catalog", FREE).status, 200)

    def leave_in_the_middle(self, demo, resets):
        headers = {**FREE, "Content-Length": str(MEBIBYTE)}
        with demo.socket() as (connection, _):
            connection.sendall(raw_request("POST", "/v1/export", headers, b"{" * 5000))
            if resets:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def test_answer_requests_that_wait_when_the_server_stops(self):
        for options in ([], ["--threads", "1"], ["--mode", "thread-per-connection"],
                        ["--mode", "serve"]):
            with self.subTest(options=options):
                self.check_stop(options)

    def check_stop(self, options):
        redis = Redis(self)
        demo = Demo(self, slow_redis_config(redis), options=options)
        self.assertEqual(demo.get("/v1/catalog", FREE).status, 200)
        redis.stop_answering()
        with demo.socket() as (first, first_stream), demo.socket() as (second, second_stream):
            for connection in (first, second):
                connection.sendall(raw_request("GET", "/v1/catalog", FREE))
                wait_until(lambda: was_read(connection), "the request is read")
            demo.get("/healthz")  # and by now it is parked
            demo.send(signal.SIGTERM)
            for stream in (first_stream, second_stream):
                answer = read_response(stream)
                self.assertIsNotNone(answer, "a request that waited was cut off")
                self.assert_problem(answer, 503)
                self.assert_no_quota(answer)
                self.assertIsNotNone(answer.retry_after())
        self.assertEqual(demo.wait(), 0, demo.log())
        redis.go_on()

    def test_stop_at_once_when_nothing_is_under_way(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            demo = Demo(self, keyed("5/hour"))
            client = demo.client()
            client.get("/v1/catalog", FREE)
            demo.send(number)
            self.assertEqual(demo.wait(), 0, "an idle connection keeps nobody")


if __name__ == "__main__":
    unittest.main()
