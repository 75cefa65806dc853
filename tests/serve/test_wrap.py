"""A program for libmicrohttpd behaves behind weir as it did without, byte for byte, apart from Date
and the quota fields; in every mode of libmicrohttpd, with and without a limiter in the chain.

The two programs of examples/ are built twice from one source each, bare and wrapped. Every exchange
below is held with both, and what comes back is compared. WEIR_EXAMPLES is the folder they are in.
"""

import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

from support import PATIENCE_S, Program, Redis, make_folder, wait_until, was_read

MODES = ["epoll", "select", "pool", "threads", "external"]
KEY = "a-key-for-the-tests"
QUOTA_FIELDS = {b"ratelimit", b"ratelimit-policy"}


# programs


class Example(Program):
    """One of the examples, listening on a port the system chose."""

    def __init__(self, test, name, mode, policy=None, files=None):
        arguments = [os.path.join(os.environ["WEIR_EXAMPLES"], name), "--mode", mode]
        if policy:
            arguments += ["--policy", policy]
        if files:
            arguments += ["--folder", files]
        self.is_limited = policy is not None
        self.start_process(arguments, make_folder(test), stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end, signal.SIGKILL)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"{name} did not start: {self.log()}")
        self.port = int(line.rsplit(":", 1)[1])
        if self.is_limited:
            wait_until(self.is_ready, f"{name} gets an answer of its store")

    def is_ready(self):
        talk = Talk(self)
        talk.send(request("GET", "/ready"))
        status = talk.take_response(False)[0][0]
        talk.leave()
        return b" 503 " not in status

    def stop(self):
        """Stops it; returns what it printed. It must end well."""
        self.send(signal.SIGTERM)
        printed = self.process.stdout.read()
        if self.end() != 0:
            raise AssertionError(f"{self.log_name} ended badly: {self.log()}")
        return printed


def write_policy(test, store_url, **more):
    """Writes a policy file with limits that nobody here will meet; returns its name."""
    folder = pathlib.Path(make_folder(test))
    keys = {"keys": [{"id": "tests", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]}
    policy = {
        "store": {"url": store_url, "timeout": "10s"},
        "api_keys": {"header": "X-API-Key", "file": "keys.json"},
        "policies": {"all": {"limits": [{"name": "burst", "by": "client",
                                         "rate": "100000/minute"}],
                             "on_store_failure": "closed"}},
        "routes": [{"match": "* /*", "auth": "optional", "policy": "all"}],
        **more,
    }
    (folder / "keys.json").write_text(json.dumps(keys))
    (folder / "policy.json").write_text(json.dumps(policy))
    return str(folder / "policy.json")


def make_files(test):
    """A folder for stream_file; returns its name."""
    folder = pathlib.Path(make_folder(test))
    (folder / "many").mkdir()
    (folder / "small.txt").write_bytes(noise(100))
    (folder / "empty.txt").write_bytes(b"")
    (folder / "large.bin").write_bytes(noise(3 * 1024 * 1024))
    for number in range(300):
        (folder / "many" / f"{number}.txt").write_bytes(b"")
    return str(folder)


# conversations


class Talk:
    """One connection, and a record of what came back over it."""

    def __init__(self, program):
        self.program = program
        self.record = []
        self.received = b""
        self.socket = socket.create_connection(("127.0.0.1", program.port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        """Sends what the server will take; it may have closed already."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.received += data
        return len(data) > 0

    def take(self, length):
        while len(self.received) < length and self.more():
            pass
        taken, self.received = self.received[:length], self.received[length:]
        return taken

    def take_until(self, end):
        while end not in self.received and self.more():
            pass
        at = self.received.find(end)
        return self.take(len(self.received) if at < 0 else at + len(end))

    def take_chunked(self):
        taken = b""
        while True:
            line = self.take_until(b"\r\n")
            taken += line
            size = int(line, 16) if line else 0
            taken += self.take(size + 2)
            if size == 0:
                return taken

    def take_rest(self):
        while self.more():
            pass
        return self.take(len(self.received))

    def interim(self):
        """The server's "100 Continue"."""
        self.record.append(self.take_until(b"\r\n\r\n"))

    def take_response(self, head):
        """A whole response: the lines of its head, its fields, its body as it was framed."""
        lines = self.take_until(b"\r\n\r\n").split(b"\r\n")
        fields = {name.lower(): value for name, _, value in
                  (line.partition(b": ") for line in lines[1:])}
        if head or lines[0][9:12] in (b"204", b"304"):
            body = b""
        elif b"transfer-encoding" in fields:
            body = self.take_chunked()
        elif b"content-length" in fields:
            body = self.take(int(fields[b"content-length"]))
        else:
            body = self.take_rest()
        return lines, fields, body

    def answer(self, *, head=False, quota):
        """A response; `quota`: whether a limiter adds its fields to it."""
        lines, fields, body = self.take_response(head)
        found = QUOTA_FIELDS & fields.keys()
        wanted = QUOTA_FIELDS if quota and self.program.is_limited else set()
        if found != wanted:
            raise AssertionError(f'{lines} should have {wanted or "no quota fields"}')
        kept = [line for line in lines
                if line.partition(b":")[0].lower() not in QUOTA_FIELDS | {b"date"}]
        self.record.append(b"\r\n".join(kept) + body)
        return body

    def fate(self):
        """Whether the connection is still good for another request."""
        self.send(request("GET", "/nothing-of-this-name"))
        status = self.take_response(False)[0][0]
        self.record.append(b"open: " + status if status else b"closed")
        self.leave()

    def leave(self):
        self.socket.close()

    def vanish(self):
        """Leaves with a reset, as a client does whose program is killed."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def request(method, target, *lines, body=b"", version="1.1", key=True):
    head = [f"{method} {target} HTTP/{version}", "Host: example", *lines]
    if key:
        head.append(f"X-API-Key: {KEY}")
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head + ["", ""]).encode() + body


FORM = "Content-Type: multipart/form-data; boundary=limit"


def form(file, name="Ada"):
    parts = [b'--limit\r\nContent-Disposition: form-data; name="name"\r\n\r\n', name.encode(),
             b'\r\n--limit\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n'
             b"Content-Type: application/octet-stream\r\n\r\n", file, b"\r\n--limit--\r\n"]
    return b"".join(parts)


def upload(file, *lines, **more):
    return request("POST", "/upload", FORM, *lines, body=form(file), **more)


def noise(length):
    return (b"0123456789abcde\r\n-" * (length // 18 + 1))[:length]


def chunked(data, size):
    chunks = [data[at:at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


def counts(program):
    talk = Talk(program)
    talk.send(request("GET", "/counts"))
    found = talk.answer(quota=True)
    talk.leave()
    return found


def await_counts(program, part):
    """What /counts says once `part` is in it."""
    return wait_until(lambda: next((found for found in [counts(program)] if part in found), None),
                      f"the counts are {part}")


# exchanges with form_upload: shared responses get no quota fields, the others do


def page_in_the_second_call(talk):
    talk.send(request("GET", "/"))
    talk.answer(quota=False)
    talk.fate()


def page_in_the_first_call(talk):
    talk.send(request("GET", "/about"))
    talk.answer(quota=True)
    talk.fate()


def head_of_both(talk):
    talk.send(request("HEAD", "/"))
    talk.answer(head=True, quota=False)
    talk.send(request("HEAD", "/about"))
    talk.answer(head=True, quota=True)
    talk.fate()


def request_without_a_key(talk):
    talk.send(request("GET", "/about", key=False))
    talk.answer(quota=False)
    talk.fate()


def upload_of_a_form(talk):
    talk.send(upload(noise(3000)))
    talk.answer(quota=True)
    talk.fate()


def upload_of_fields_alone(talk):
    talk.send(request("POST", "/upload", "Content-Type: application/x-www-form-urlencoded",
                      body=b"name=Ada&other=1"))
    talk.answer(quota=True)
    talk.fate()


def upload_in_chunks(talk):
    talk.send(request("POST", "/upload", FORM, "Transfer-Encoding: chunked", "Trailer: X-End")
              + chunked(form(noise(5000)), 777) + b"0\r\nX-End: yes\r\n\r\n")
    talk.answer(quota=True)
    talk.fate()


def upload_of_no_chunk(talk):
    talk.send(request("POST", "/upload", FORM, "Transfer-Encoding: chunked") + b"0\r\n\r\n")
    talk.answer(quota=True)
    talk.fate()


def upload_that_asks_first(talk):
    body = form(noise(40000))
    talk.send(request("POST", "/upload", FORM, "Expect: 100-continue",
                      f"Content-Length: {len(body)}"))
    talk.interim()
    talk.send(body)
    talk.answer(quota=True)
    talk.fate()


def upload_of_5_mib(talk):
    talk.send(upload(noise(5 * 1024 * 1024)))
    talk.answer(quota=True)
    talk.fate()


def upload_in_slow_pieces(talk):
    data = upload(noise(900))
    for at in range(0, len(data), 100):
        talk.send(data[at:at + 100])
        time.sleep(0.01)  # a client that is slow: the pieces must not arrive as one
    talk.answer(quota=True)
    talk.fate()


def upload_without_a_body(talk):
    talk.send(request("POST", "/upload", FORM, "Content-Length: 0"))
    talk.answer(quota=True)
    talk.send(request("POST", "/upload", FORM))
    talk.answer(quota=True)
    talk.send(request("POST", "/upload", "Content-Length: 0"))
    talk.answer(quota=False)
    talk.fate()


def upload_that_is_no_form(talk):
    talk.send(request("POST", "/upload", "Content-Type: text/plain", body=b"x" * 100000))
    talk.answer(quota=False)
    talk.fate()


def upload_that_turns_out_too_large(talk):
    talk.send(request("POST", "/upload", FORM, "Transfer-Encoding: chunked")
              + chunked(form(noise(9 * 1024 * 1024)), 1024 * 1024) + b"0\r\n\r\n")
    talk.answer(quota=False)
    talk.fate()


def upload_refused_in_the_first_call(talk):
    talk.send(request("POST", "/elsewhere", "Content-Length: 1000000") + noise(20000))
    talk.answer(quota=True)
    talk.fate()


def upload_refused_by_a_shared_response(talk):
    talk.send(request("POST", "/upload", FORM, "Content-Length: 1000000000"))
    talk.answer(quota=False)
    talk.fate()


def upload_refused_before_it_is_sent(talk):
    talk.send(request("POST", "/elsewhere", "Expect: 100-continue", "Content-Length: 1000000"))
    talk.answer(quota=True)
    talk.fate()


def upload_that_is_given_up(talk):
    whole = upload(noise(100000))
    talk.send(whole[:50000])
    talk.record.append(await_counts(talk.program, b"under way 1"))
    talk.vanish()
    talk.record.append(await_counts(talk.program, b"under way 0"))


def several_on_one_connection(talk):
    for _ in range(2):
        talk.send(request("GET", "/"))
        talk.answer(quota=False)
        talk.send(upload(noise(100)))
        talk.answer(quota=True)
        talk.send(request("GET", "/missing"))
        talk.answer(quota=False)
    talk.fate()


def several_at_once(talk):
    talk.send(request("GET", "/") + upload(noise(200)) + request("HEAD", "/")
              + request("GET", "/missing") + upload(noise(50000)) + request("GET", "/about"))
    talk.answer(quota=False)
    talk.answer(quota=True)
    talk.answer(head=True, quota=False)
    talk.answer(quota=False)
    talk.answer(quota=True)
    talk.answer(quota=True)
    talk.fate()


def nothing_there(talk):
    talk.send(request("GET", "/missing?really=yes"))
    talk.answer(quota=False)
    talk.fate()


def http_1_0(talk):
    talk.send(request("GET", "/", "Connection: keep-alive", version="1.0"))
    talk.answer(quota=False)
    talk.send(upload(noise(300), "Connection: keep-alive", version="1.0"))
    talk.answer(quota=True)
    talk.send(request("GET", "/about", version="1.0"))
    talk.answer(quota=True)
    talk.fate()


def client_that_wants_to_close(talk):
    talk.send(request("GET", "/", "Connection: close"))
    talk.answer(quota=False)
    talk.fate()


def method_without_an_answer(talk):
    talk.send(request("BREW", "/"))
    talk.record.append(talk.take_rest())
    talk.leave()


def request_that_is_broken(talk):
    talk.send(b"GET / HTTP/1.1\r\nno field at all\r\n\r\n")
    talk.record.append(re.sub(b"Date:.*\r\n", b"", talk.take_rest()))
    talk.leave()


def paths_that_are_odd(talk):
    for path in ["//", "/.../", "/a..b", "/a%00b", "*", "http://other/x", "/" + "p" * 999]:
        talk.send(request("GET", path))
        talk.answer(quota=False)
    talk.fate()


UPLOADS = [
    page_in_the_second_call, page_in_the_first_call, head_of_both, request_without_a_key,
    upload_of_a_form, upload_of_fields_alone, upload_in_chunks, upload_of_no_chunk,
    upload_that_asks_first, upload_of_5_mib, upload_in_slow_pieces, upload_without_a_body,
    upload_that_is_no_form, upload_that_turns_out_too_large, upload_refused_in_the_first_call,
    upload_refused_by_a_shared_response, upload_refused_before_it_is_sent, upload_that_is_given_up,
    several_on_one_connection, several_at_once, nothing_there, http_1_0,
    client_that_wants_to_close, method_without_an_answer, request_that_is_broken,
    paths_that_are_odd,
]


# exchanges with stream_file


def small_file(talk):
    talk.send(request("GET", "/small.txt"))
    talk.answer(quota=True)
    talk.fate()


def empty_file(talk):
    talk.send(request("GET", "/empty.txt"))
    talk.answer(quota=True)
    talk.fate()


def large_file(talk):
    talk.send(request("GET", "/large.bin"))
    talk.answer(quota=True)
    talk.fate()


def heads_of_files(talk):
    for path in ["/small.txt", "/large.bin", "/missing"]:
        talk.send(request("HEAD", path))
        talk.answer(head=True, quota=True)
    talk.fate()


def head_of_a_listing(talk):
    talk.send(request("HEAD", "/many/", "Connection: close"))
    talk.answer(head=True, quota=True)
    talk.record.append(talk.take_rest())  # libmicrohttpd 0.9.75 sends an empty chunk here
    talk.leave()


def listing(talk):
    talk.send(request("GET", "/many/"))
    talk.answer(quota=True)
    talk.fate()


def listing_in_http_1_0(talk):
    talk.send(request("GET", "/many/", version="1.0"))
    talk.answer(quota=True)
    talk.fate()


def missing_file(talk):
    talk.send(request("GET", "/missing"))
    talk.answer(quota=True)
    talk.fate()


def forbidden_path(talk):
    talk.send(request("GET", "/a..b"))
    talk.answer(quota=False)
    talk.send(request("GET", "/secret.."))
    talk.answer(quota=False)
    talk.fate()


def method_that_is_refused(talk):
    talk.send(request("DELETE", "/small.txt"))
    talk.answer(quota=True)
    talk.fate()


def upload_that_is_refused(talk):
    talk.send(request("PUT", "/small.txt", "Content-Length: 500000") + noise(1000))
    talk.answer(quota=True)
    talk.fate()


def several_files_at_once(talk):
    paths = ["/small.txt", "/large.bin", "/many/", "/missing", "/small.txt"]
    talk.send(b"".join(request("GET", path) for path in paths))
    for _ in paths:
        talk.answer(quota=True)
    talk.fate()


def head_that_is_too_large(talk):
    talk.send(b"GET /huge HTTP/1.1\r\nX-Huge: " + b"x" * 100000 + b"\r\n\r\n")
    talk.record.append(re.sub(b"Date:.*\r\n", b"", talk.take_rest()))
    talk.leave()


FILES = [
    small_file, empty_file, large_file, heads_of_files, head_of_a_listing, listing,
    listing_in_http_1_0, missing_file, forbidden_path, method_that_is_refused,
    upload_that_is_refused, several_files_at_once, request_that_is_broken,
    head_that_is_too_large,
]


# tests


def hold(exchange, program):
    """Holds an exchange on a new connection; returns what came back."""
    talk = Talk(program)
    try:
        exchange(talk)
        return talk.record
    finally:
        talk.leave()


class Busy(threading.Thread):
    """A client that asks without a pause until the server is gone."""

    def __init__(self, program):
        super().__init__(daemon=True)
        self.program = program
        self.answers = 0
        self.start()

    def run(self):
        try:
            while True:
                talk = Talk(self.program)
                while self.ask(talk, request("GET", "/")) and self.ask(talk, upload(noise(2000))):
                    self.answers += 2
                talk.leave()
        except OSError:
            pass  # nobody listens any more

    def ask(self, talk, data):
        talk.send(data)
        return talk.take_response(False)[0][0] != b""


class Wrapped(unittest.TestCase):
    """A check of each kind for each mode; for_each_mode() makes the tests of them."""

    def setUp(self):
        self.redis = Redis(self)

    def redis_policy(self):
        return write_policy(self, self.redis.url, default="all")

    def compare(self, name, mode, exchanges):
        """Returns what the programs printed: the bare one, then each of the wrapped ones."""
        files = make_files(self)
        bare = Example(self, f"{name}_bare", mode, files=files)
        wanted = [hold(exchange, bare) for exchange in exchanges]
        printed = [bare.stop()]
        chains = {"alone": None, "with a limiter in memory":
                  write_policy(self, "memory:", default="all"),
                  "with a limiter on Redis": self.redis_policy()}
        for chain, policy in chains.items():
            wrapped = Example(self, f"{name}_wrapped", mode, files=files, policy=policy)
            for exchange, want in zip(exchanges, wanted):
                with self.subTest(chain=chain, exchange=exchange.__name__):
                    self.assertEqual(hold(exchange, wrapped), want)
            printed.append(wrapped.stop())
        return printed

    def uploads_behave_as_before(self, mode):
        self.compare("form_upload", mode, UPLOADS)

    def files_behave_as_before(self, mode):
        bare, *wrapped = [sorted(line for line in printed.splitlines() if "/ready" not in line)
                          for printed in self.compare("stream_file", mode, FILES)]
        self.assertIn("/huge not served 1", bare)
        for lines in wrapped:
            self.assertEqual(lines, bare)

    def hold_a_body_back_while_the_store_is_asked(self, mode):
        program = Example(self, "form_upload_wrapped", mode, policy=self.redis_policy())
        body = form(noise(1000))
        talk = Talk(program)
        self.redis.stop_answering()
        talk.send(request("POST", "/upload", FORM, "Expect: 100-continue",
                          f"Content-Length: {len(body)}"))
        talk.socket.settimeout(0.2)
        self.assertRaises(socket.timeout, talk.socket.recv, 1)
        self.redis.go_on()
        talk.socket.settimeout(PATIENCE_S)
        talk.interim()
        talk.send(body)
        talk.answer(quota=True)
        talk.leave()
        self.assertIn(b"100 Continue", talk.record[0])
        program.stop()

    def answer_everyone_who_waits_when_they_stop(self, mode):
        program = Example(self, "form_upload_wrapped", mode, policy=self.redis_policy())
        self.redis.stop_answering()
        talks = [Talk(program) for _ in range(10)]
        for talk in talks:
            talk.send(request("GET", "/"))
        for talk in talks:
            wait_until(lambda: was_read(talk.socket), "the request has been read")
        program.send(signal.SIGTERM)
        for talk in talks:
            self.assertIn(b" 503 ", talk.take_response(False)[0][0])
            talk.leave()
        program.stop()

    def stop_well_under_load(self, mode):
        for store_url in ("memory:", self.redis.url):
            program = Example(self, "form_upload_wrapped", mode,
                              policy=write_policy(self, store_url, default="all"))
            crowd = [Busy(program) for _ in range(6)]
            wait_until(lambda: sum(busy.answers for busy in crowd) > 600, "many were answered")
            program.stop()
            for busy in crowd:
                busy.join(PATIENCE_S)
                self.assertFalse(busy.is_alive())

    def test_keep_dots_from_the_application(self):
        program = Example(self, "stream_file_wrapped", "epoll")
        talk = Talk(program)
        for path in ["/small.txt/../..", "/./small.txt", "/../secret"]:
            talk.send(request("GET", path))
            talk.answer(quota=False)
            self.assertIn(b" 400 ", talk.record[-1][:13])
        talk.fate()
        program.stop()

    def test_refuse_a_path_without_a_meaning_where_there_is_no_default(self):
        program = Example(self, "form_upload_wrapped", "epoll",
                          policy=write_policy(self, "memory:"))
        talk = Talk(program)
        talk.send(request("GET", "/../.."))
        talk.answer(quota=False)
        talk.fate()
        self.assertIn(b" 400 ", talk.record[0][:13])
        self.assertIn(b"open", talk.record[1])
        program.stop()


def for_each_mode(check):
    for mode in MODES:
        def test(self, mode=mode):
            check(self, mode)
        setattr(Wrapped, f"test_{check.__name__}_in_mode_{mode}", test)


for_each_mode(Wrapped.uploads_behave_as_before)
for_each_mode(Wrapped.files_behave_as_before)
for_each_mode(Wrapped.hold_a_body_back_while_the_store_is_asked)
for_each_mode(Wrapped.answer_everyone_who_waits_when_they_stop)
for_each_mode(Wrapped.stop_well_under_load)


if __name__ == "__main__":
    unittest.main()
