"""The stage on which the fault suite plays: a server under weir, a steady load, and what must hold.

A test starts a Stage over a Redis, does something to that Redis while the load goes on, ends the
Stage, and looks at its Outcome. Three routes stand side by side, one for each rule of
`on_store_failure`, and a fourth whose limit is small enough to be met:

    /open, /closed, /memory   a million a day
    /tight                    20 a day, by memory's rule

Two instances are announced, so that the memory of this one holds half of each limit. All windows
open with the first request, so that none ends at midnight.

WEIR_FAULTS says how to play: "brief" under a sanitizer (a chosen part, fewer requests, more
patience), "strict" on a quiet machine (the short timeout that is the default, the bounds that are
promised, and programs that the system prefers to others, for which root is needed); else the whole,
with bounds that a busy machine meets.
"""

import collections
import contextlib
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import time
import unittest

import support
from support import PRO, Client, Program, make_config, make_folder, wait_until, write_config

FOLDER = os.environ["WEIR_FAULT_PROGRAMS"]

# Where the server's requests wait for the store: as it does by itself, unless the environment says
# "thread", "place" or "serve".
WAITING = os.environ.get("WEIR_WAITING", "auto")

# So many connections to one Redis at once: the store's own, and that of each thread which serves.
THREADS = 2
CONNECTIONS_EACH = 1 if WAITING == "thread" else 1 + THREADS

MODE = os.environ.get("WEIR_FAULTS", "")
STRICT = MODE == "strict"
BRIEF = MODE == "brief"

TIMEOUT_MS = 20 if STRICT else 300 if BRIEF else 200

# For plays in which nobody is to meet a deadline, however busy the machine.
PATIENT_MS = 20 if STRICT else 5000
RATE = 120 if BRIEF else 400

# More than wait at once, and no multiple of 128, at which libmicrohttpd's epoll loop stalls.
CONNECTIONS = 100

# What is promised, and what a busy machine may add to it.
LATE_S = 0.005 if STRICT else 1
RETURN_S = 2 if STRICT else 30

ROUTES = ("/open", "/closed", "/memory", "/tight")
MANY = 1_000_000
TIGHT = 20
INSTANCES = 2

# The load has a key for each of its clients, of id load-0 and so on; the test itself has another.
LOAD_KEY = "key-of-load-#"
CLIENTS_MAX = 50


def policy_for(url, timeout_ms=TIMEOUT_MS, **store):
    def policy(rate, rule):
        limit = {"name": "sum", "by": "api_key", "rate": f"{rate}/day",
                 "algorithm": "fixed-window", "start": "first"}
        return {"limits": [limit], "on_store_failure": rule}

    return make_config(
        {
            "open": policy(MANY, "open"),
            "closed": policy(MANY, "closed"),
            "memory": policy(MANY, "memory"),
            "tight": policy(TIGHT, "memory"),
        },
        [(f"* {route}", {"auth": "required", "policy": route[1:]}) for route in ROUTES],
        store={"url": url, "timeout": f"{timeout_ms}ms", **store},
        instances=INSTANCES,
    )


def write_files(folder, config):
    """The policy file, and the keys file that it names; returns the policy's name."""
    keys = list(support.KEYS["keys"])
    for number in range(CLIENTS_MAX):
        secret = LOAD_KEY.replace("#", str(number)).encode()
        keys.append({"id": f"load-{number}", "sha256": hashlib.sha256(secret).hexdigest()})
    name = write_config(folder, config)
    with open(os.path.join(folder, "api-keys.json"), "w", encoding="utf-8") as file:
        json.dump({"keys": keys}, file)
    return name


# programs


class Played(Program):
    """A program of the play. What else goes on must not pass for slowness of weir's."""

    FIRST = ("chrt", "--fifo", "10") if STRICT else ()

    def start_process(self, arguments, folder, **how):
        super().start_process([*self.FIRST, *arguments], folder, **how)


class Server(Played):
    """The server under test; `around` is a command that starts it in other surroundings."""

    def __init__(self, test, config=None, around=(), threads=THREADS):
        folder = make_folder(test)
        arguments = [*around, os.path.join(FOLDER, "fault_server"), "--threads", str(threads),
                     "--waiting", WAITING]
        if config is not None:
            arguments += ["--policy", write_files(folder, config)]
        self.start_process(arguments, folder, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end, signal.SIGKILL)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"the server did not start: {line!r} {self.log()}")
        self.port = int(line.rsplit(":", 1)[1])

    def stop(self):
        """Ends it in good order; returns what it counted. A leak or a crash fails."""
        self.send(signal.SIGTERM)
        printed, _ = self.process.communicate(timeout=support.PATIENCE_S)
        if self.process.returncode != 0:
            raise AssertionError(f"the server ended with {self.process.returncode}: {self.log()}")
        return json.loads(printed)

    def lines(self):
        """What the library logged, as (time, level, text)."""
        found = re.findall(r"^(\d+\.\d+) (\w+) (.*)$", self.log(), flags=re.M)
        return [(float(at), level, text) for at, level, text in found]

    def state(self):
        with contextlib.closing(Client(("127.0.0.1", self.port))) as client:
            return client.get("/state").json()


class Load(Played):
    """A steady load, until stop(). `options` are those of load.c."""

    def __init__(self, test, port, targets=ROUTES, rate=RATE, key=LOAD_KEY, **options):
        folder = make_folder(test)
        self.raw = os.path.join(folder, "raw")
        arguments = [os.path.join(FOLDER, "fault_load"), "--port", str(port), "--rate", str(rate)]
        for name, value in {"connections": CONNECTIONS, "key": key, **options}.items():
            arguments += [f"--{name}", str(value)]
        arguments += ["--raw", self.raw, *targets]
        self.start_process(arguments, folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           text=True)
        test.addCleanup(self.end, signal.SIGKILL)

    def wait(self):
        self.process.stdin.close()
        return super().wait()

    def stop(self):
        """Ends it when the last answer is there; returns them all."""
        printed, _ = self.process.communicate(timeout=support.PATIENCE_S)
        if self.process.returncode != 0:
            raise AssertionError(f"the load ended with {self.process.returncode}: {self.log()}")
        self.summary = [json.loads(line) for line in printed.splitlines()]
        with open(self.raw, encoding="ascii") as file:
            return [Answer.read(line) for line in file]


class Proxy(Played):
    """A bad line to `where`; see proxy.c for what it can do."""

    def __init__(self, test, where):
        arguments = [os.path.join(FOLDER, "fault_proxy"), "--to", where]
        self.start_process(arguments, make_folder(test), stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end, signal.SIGKILL)
        self.port = int(self.process.stdout.readline().split()[-1])
        self.url = f"redis://127.0.0.1:{self.port}"

    def wait(self):
        self.process.stdin.close()
        return super().wait()

    def do(self, command):
        """Gives it a command, and returns the rest of its answer."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise AssertionError(f"{command}: {answer}")
        return answer[1:]

    def connections(self):
        return int(self.do("connections")[0])


class Redis(support.Redis):
    """A Redis with options of its own; `around` as for a Server."""

    database = 0

    def __init__(self, test, *options, around=(), tcp=False):
        self.options, self.around = options, around
        super().__init__(test, tcp)

    def connect(self):
        """In the database where the play is."""
        connection = super().connect()
        if self.database:
            connection.sendall(f"SELECT {self.database}\r\n".encode())
            assert connection.recv(5) == b"+OK\r\n"
        return connection

    def start_process(self, arguments, folder, **how):
        super().start_process([*Played.FIRST, *self.around, *arguments, *self.options], folder, **how)

    def begin(self, test, *words):
        """Sends a command whose reply nobody waits for."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)
        connection = self.connect()
        test.addCleanup(connection.close)
        connection.sendall(request.encode())

    def held(self, route):
        """Units that this Redis holds for the load on a route: lone fixed windows, whose state is
        binary."""
        keys = self.command("KEYS", f"*{{api_key=load-*}}:{route[1:]}:*")
        states = [self.command("GET", key).encode("latin-1") for key in keys]
        return sum(struct.unpack("<ddII", state)[2] for state in states)


# what became of requests


class Answer(collections.namedtuple("Answer",
                                    "at route client status took_s remaining retry_s")):
    @classmethod
    def read(cls, line):
        at, target, client, status, took_us, remaining, retry_s = line.split()
        return cls(float(at), target.split("+")[0], int(client), int(status), int(took_us) / 1e6,
                   int(remaining), int(retry_s))

    @property
    def failed(self):
        """The store failed, and the policy's rule was applied."""
        if self.route == "/open":
            return self.status == 200 and self.remaining < 0
        if self.route == "/closed":
            return self.status == 503
        return self.route == "/memory" and self.remaining < MANY / INSTANCES

    @property
    def ended_at(self):
        return self.at + self.took_s


class Outcome:
    """All that is known when the play is over."""

    def __init__(self, answers, probes, counts, lines, returned_at):
        self.answers, self.probes = answers, probes
        self.runs, self.decisions = counts["runs"], counts["decisions"]
        self.lines, self.returned_at = lines, returned_at

    def of(self, route, everybody=False):
        answers = self.answers + self.probes if everybody else self.answers
        return [answer for answer in answers if answer.route == route]

    def failures(self, route=None):
        return [a for a in self.answers if a.failed and route in (None, a.route)]

    def admitted(self, route):
        """By Redis, and known to be."""
        return sum(a.status == 200 and not a.failed for a in self.of(route))

    def decided(self, path, **fields):
        """How many decisions the limiter reported with these fields."""
        return sum(d["count"] for d in self.decisions
                   if d["path"] == path and all(d[name] == value for name, value in fields.items()))

    def unknown(self, route):
        """How many decisions failed after they had been asked for, so that Redis may have counted
        them. Of those that memory decided it is not told why; they count all."""
        never_sent = ("not connected", "too many checks wait already")
        return sum(d["count"] for d in self.decisions if d["path"] == route
                   and (d["by_memory"] or d["failure"] in ("timeout", "unavailable")
                        and d["why"] not in never_sent))

    def said(self, pattern):
        return [line for line in self.lines if re.search(pattern, line[2])]

    def slowest_s(self):
        return max(answer.took_s for answer in self.answers)

    def quantile_s(self, share):
        times = sorted(answer.took_s for answer in self.answers)
        return times[min(len(times) - 1, int(len(times) * share))]

    def return_s(self):
        """From the return of Redis until the last request that failed was answered."""
        if self.returned_at is None:
            return None
        ends = [a.ended_at for a in self.failures() if a.ended_at > self.returned_at]
        return max(ends) - self.returned_at if ends else 0.0


class Stage:
    """Server and load, at work. Its own requests go with another key than the load's."""

    def __init__(self, test, url, around=(), rate=RATE, clients=1, timeout_ms=TIMEOUT_MS,
                 **store):
        self.test, self.rate, self.clients, self.timeout_ms = test, rate, clients, timeout_ms
        # Of a group of them one that has gone need not come back.
        self.has_one_server = "+sentinel:" not in url and "+cluster:" not in url
        self.server = Server(test, policy_for(url, timeout_ms, **store), around)
        self.client = Client(("127.0.0.1", self.server.port))
        test.addCleanup(self.client.close)
        self.probes = []
        self.returned_at = None
        self.load = None

    def start(self):
        """Starts the load, as soon as all is well."""
        wait_until(self.is_normal, "the server has found Redis")
        self.load = Load(self.test, self.server.port, rate=self.rate, clients=self.clients)
        self.hold(0.3)
        return self

    def hold(self, seconds):
        """Lets the load go on."""
        time.sleep(seconds)

    def ask(self, route):
        at = time.monotonic()
        answer = self.client.get(route, PRO)
        found = re.search(r";r=(\d+)", answer.headers.get("ratelimit", ""))
        self.probes.append(Answer(at, route, -1, answer.status, time.monotonic() - at,
                                  int(found[1]) if found else -1, answer.retry_after() or -1))
        return self.probes[-1]

    def is_normal(self):
        return not any(self.ask(route).failed for route in ("/open", "/closed", "/memory"))

    def is_failing(self):
        return all(self.ask(route).failed for route in ("/open", "/closed", "/memory"))

    def wait_until_failing(self):
        wait_until(self.is_failing, "requests fail")

    def wait_until_back(self):
        """The fault is over now; returns when the server has seen it, and has said so: of several
        connections the last one to come back is not the one that was looked at, and whoever came and
        went a moment ago must last before he is said to be back."""
        self.returned_at = time.monotonic()
        wait_until(self.is_normal, "the server is back to normal")
        if self.has_one_server:
            wait_until(self.has_said_so, "the log says that it is back")

    def has_said_so(self):
        told = [line[2] for line in self.server.lines()
                if "is not answering" in line[2] or "answers again after" in line[2]]
        return told == [] or "answers again after" in told[-1]

    def end(self):
        answers = self.load.stop()
        self.client.close()
        before = time.monotonic()
        counts = self.server.stop()
        outcome = Outcome(answers, self.probes, counts, self.server.lines(), self.returned_at)
        outcome.stop_s = time.monotonic() - before
        return outcome


class FaultTest(unittest.TestCase):
    """What must hold whatever happens."""

    def stage(self, redis, url=None, **how):
        """`redis` is whoever can say in the end what is held()."""
        self.redis = redis
        self.play = Stage(self, url or redis.url, **how)
        return self.play.start()

    def end(self, losses=0):
        """Ends the play and looks at what must hold in each; `losses`: how often Redis lost its
        state."""
        outcome = self.outcome = self.play.end()
        self.print_figures(outcome)
        self.check_answers(outcome)
        self.check_runs(outcome)
        self.check_sums(outcome, losses)
        self.check_times(outcome)
        return outcome

    def print_figures(self, outcome):
        back = outcome.return_s()
        print(f"{self.id().split('.')[-1]}: timeout {self.play.timeout_ms} ms; {len(outcome.answers)} requests,"
              f" {len(outcome.failures())} met a failure; median"
              f" {outcome.quantile_s(0.5) * 1000:.2f} ms, p99 {outcome.quantile_s(0.99) * 1000:.1f} ms,"
              f" slowest {outcome.slowest_s() * 1000:.1f} ms;"
              f" back after {'-' if back is None else f'{back:.3f} s'}", flush=True)

    def check_answers(self, outcome):
        """Statuses are those of the rule, and never 429 because of a failure."""
        wanted = {"/open": {200}, "/closed": {200, 503}, "/memory": {200}, "/tight": {200, 429}}
        for route in ROUTES:
            answers = outcome.of(route, everybody=True)
            self.assertLessEqual({a.status for a in answers}, wanted[route], route)
            for answer in answers:
                if answer.status in (429, 503):
                    self.assertGreaterEqual(answer.retry_s, 1, answer)
                if answer.status == 503:
                    self.assertLessEqual(answer.retry_s, 10, answer)
                    self.assertLess(answer.remaining, 0, answer)
                if route in ("/memory", "/tight"):
                    self.assertGreaterEqual(answer.remaining, 0, answer)
                if route == "/closed" and answer.status == 200:
                    self.assertGreaterEqual(answer.remaining, 0, answer)

    def check_runs(self, outcome):
        """The application ran once for each request that was let through, and the limiter said so
        of each that failed."""
        for route in ROUTES:
            answers = outcome.of(route, everybody=True)
            self.assertEqual(outcome.runs[route], sum(a.status == 200 for a in answers), route)
        for route, name in (("/open", "failed-open"), ("/closed", "failed-closed")):
            self.assertEqual(outcome.decided(route, outcome=name),
                             sum(a.failed for a in outcome.of(route, everybody=True)), route)

    def check_sums(self, outcome, losses):
        """What Redis holds is what it let through, and at most those whose outcome is unknown."""
        for route in ("/open", "/closed", "/memory"):
            held, admitted = self.redis.held(route), outcome.admitted(route)
            most = admitted + outcome.unknown(route)
            if losses == 0:
                self.assertGreaterEqual(held, admitted, route)
            self.assertLessEqual(held, most, route)
        for client in range(self.play.clients):
            self.check_memory(outcome, client)
            self.check_tight(outcome, client, losses)

    def check_memory(self, outcome, client):
        """Of what memory let through none is forgotten between two failures."""
        left = [a.remaining for a in outcome.of("/memory") if a.failed and a.client == client]
        if left:
            self.assertEqual(min(left), MANY // INSTANCES - len(left))

    def check_tight(self, outcome, client, losses):
        """Redis lets 20 through, and memory its share of them, however often it is needed."""
        answers = [a for a in outcome.of("/tight") if a.client == client]
        let_through = sum(a.status == 200 for a in answers)
        fell_back = outcome.decided("/tight", by_memory=True) > 0
        share = TIGHT // INSTANCES if fell_back else 0
        self.assertLessEqual(let_through, TIGHT * (1 + losses) + share)
        if outcome.unknown("/tight") == 0:
            self.assertGreaterEqual(let_through, min(TIGHT, len(answers)))

    def check_times(self, outcome):
        """No request waits past its deadline, and limits hold again soon after Redis is back."""
        late_s = self.play.timeout_ms / 1000 + LATE_S
        # A deadline that is not kept makes all wait who come while Redis is gone; a busy machine, some.
        self.assertLess(outcome.slowest_s() if STRICT else outcome.quantile_s(0.9), late_s)
        if outcome.return_s() is not None:
            self.assertLess(outcome.return_s(), RETURN_S)

    # what a test may ask besides

    def assert_exact(self, outcome):
        """Nothing was in doubt, so that the sums are equal."""
        for route in ("/open", "/closed", "/memory"):
            self.assertEqual(self.redis.held(route), outcome.admitted(route), route)

    def assert_unharmed(self, outcome):
        """No client has noticed anything."""
        self.assertEqual(outcome.failures(), [])
        self.assertEqual(outcome.said("is not answering"), [])
        self.assert_exact(outcome)

    def assert_survived(self, outcome, since, until=0):
        """What the old master had let through stands in the new one, but for what was on its way
        there at that time: replication does not wait."""
        until = max(since, until)
        for route in ("/open", "/closed", "/memory"):
            lost = sum(since - 0.1 < a.at <= until and not a.failed for a in outcome.of(route))
            self.assertGreaterEqual(self.redis.held(route), outcome.admitted(route) - lost, route)

    def assert_failed(self, outcome, *kinds):
        """Requests failed on each route, and in no other ways than these, but that on a busy machine
        any answer may be late."""
        for route in ("/open", "/closed", "/memory"):
            self.assertNotEqual(outcome.failures(route), [], route)
        found = {d["failure"] for d in outcome.decisions if d["failure"]}
        self.assertLessEqual(found, {*kinds, "timeout"}, outcome.decisions[:10])

    def assert_logged(self, outcome, reason, times=1):
        """A line when it went, for this reason, and one when it came back, with a true time. On a
        busy machine there may be others, for answers that were late."""
        down, up = outcome.said("is not answering"), outcome.said("answers again after")
        self.assertEqual(len(down), len(up), outcome.lines[:10])
        expected = [line for line in down if re.search(rf"is not answering \({reason}\); ", line[2])]
        self.assertEqual(len(expected), times, outcome.lines[:10])
        for line in down if STRICT else []:
            self.assertIn(line, expected)
        for line in down:
            if line not in expected:
                self.assertRegex(line[2], r"\(5 timeouts\)|\(it answers too slowly\)")
        for gone, back in zip(down, up):
            told_s = float(re.search(r"after (\d+\.\d) s", back[2])[1])
            self.assertLess(abs(back[0] - gone[0] - told_s), 0.15 if STRICT else 1)
