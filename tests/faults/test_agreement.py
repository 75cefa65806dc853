"""Metrics, decision log, replies, and what the store holds agree to the unit, whatever happens to Redis.

A mixed load runs against one server or two that share a Redis: policies of all kinds, keys, costs that
are settled afterwards, limits that count by the outcome, uploads that break off, watched policies, lists,
missing and unknown keys. Meanwhile Redis is stopped, killed, slow, or hard to reach. In the end four
books are held against each other:

    the clients'          how often each status came, for each path
    the application's     how often it ran, for each path
    the decision log      the sums of its lines
    the metrics           decisions by policy, limit, outcome and source; units spent and returned

and, of the windows that last for days, what Redis has: neither more nor less than was spent and not
returned. Only what was asked for without an answer may be there or not; it is counted as unsure, is no
more than the requests that failed, and nothing where no request has failed.

WEIR_AGREEMENT is how many requests there are, in all plays together."""

import collections
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import stage
import support
from support import make_config, make_folder, wait_until

REQUESTS = int(os.environ.get("WEIR_AGREEMENT") or (4_000 if stage.BRIEF else 20_000))

# Of a long play the load is as fast as can be.
RATE = 1_500 if stage.BRIEF else 4_000 if REQUESTS <= 100_000 else 100_000

KEYS = 10  # as counting_server has it
MANY = 1_000_000_000
SLOW_MS = 100
PATIENT_MS = 20_000
HOLD_S = 0.2  # that harm lasts

# Which statuses the application itself answers with, and its count of units for each.
OUTCOMES = {200: 0, 401: 2, 500: 1}

KNOWN = ("plain", "closed", "tight", "settled", "outcome", "shadow", "leased", "pair")
OTHERS = ("log", "rented")
SETTLED = ("settled", "rented")
UNKNOWN = ("plain", "address", "denied", "off")

# The limits whose units are compared: with Redis's own numbers, and with what is left by weir's word.
WINDOWS = {"plain": "sum", "closed": "sum", "tight": "sum", "settled": "sum", "outcome": "sum",
           "shadow": "sum", "leased": "sum", "rented": "sum", "upload": "sum"}
LEASED = ("leased", "rented")
RETURNING = ("settled", "outcome", "leased", "rented", "upload")
PEEKED = {"pair": ("day", "week"), "log": ("sum",)}


def window(rate, by="api_key", **members):
    return {"name": "sum", "by": by, "rate": f"{rate}/day", "algorithm": "fixed-window",
            "start": "first", **members}


def make_policy(url, timeout_ms, requests, instances):
    """Limits that some of the load meets, if it is as long as planned."""
    each = max(requests // (len(KNOWN) + 2) // KEYS, 3)
    policies = {
        "plain": [window(MANY)],
        "closed": {"limits": [window(MANY)], "on_store_failure": "closed"},
        "tight": {"limits": [window(min(max(each // 3, 2), 100))], "on_store_failure": "memory"},
        "settled": [window(MANY)],
        "outcome": [window(MANY, count={"2xx": 0, "401": 2})],
        "shadow": {"limits": [window(min(max(each // 4, 1), 100))], "mode": "shadow"},
        "leased": [window(MANY, lease={"batch": 20})],
        "rented": [window(MANY, lease={"batch": 20})],
        "pair": {"limits": [window(MANY, name="day"),
                            {"name": "week", "by": "api_key", "rate": f"{MANY}/week",
                             "algorithm": "fixed-window", "start": "first"}],
                 "on_store_failure": "closed"},
        "log": {"limits": [{"name": "sum", "by": "api_key", "rate": f"{min(each // 2 + 1, 9000)}/day",
                            "algorithm": "sliding-log"}],
                "on_store_failure": "closed"},
        "address": {"limits": [{"name": "sum", "by": "ip", "rate": f"{each * 3}/day"}],
                    "on_store_failure": "closed"},
        "denied": {"limits": [window(MANY)], "deny": {"ip": ["127.0.0.0/8"]}},
        "off": {"limits": [window(MANY)], "mode": "off"},
        "upload": {"limits": [window(MANY)], "on_abort": "return"},
    }
    auth = {name: "none" for name in ("address", "denied", "off")}
    costs = {"settled": 3, "rented": 2}
    routes = [(f"* /{name}", {"auth": auth.get(name, "required"), "policy": name, "cost": costs.get(name, 1)})
              for name in policies]
    return make_config(policies, routes, instances=instances,
                       store={"url": url, "timeout": f"{timeout_ms}ms", "denial_cache": "2s"},
                       api_keys={"header": "X-API-Key", "file": "api-keys.json",
                                 "guesses": f"{each}/hour"})


class Server(stage.Played):
    def __init__(self, test, config, waiting):
        folder = make_folder(test)
        self.decision_log = os.path.join(folder, "decisions")
        self.start_process([os.path.join(stage.FOLDER, "counting_server"), "--policy",
                            stage.write_files(folder, config), "--log", self.decision_log,
                            "--waiting", waiting], folder, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end, signal.SIGKILL)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"the server did not start: {line!r} {self.log()}")
        self.port = int(line.rsplit(":", 1)[1])

    def get(self, path):
        with contextlib.closing(support.Client(("127.0.0.1", self.port))) as client:
            answer = client.get(path)
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer}")
        return answer.body.decode()

    def metrics(self):
        """{(name, label, label…): number}, with labels in the order in which they are written."""
        found = {}
        for line in self.get("/metrics").splitlines():
            if not line.startswith("#"):
                name, labels, number = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
                found[(name, *re.findall(r'="([^"]*)"', labels or ""))] = float(number)
        return found

    def stop(self):
        """Ends it in good order; returns how often the application ran for each path."""
        self.send(signal.SIGTERM)
        printed, _ = self.process.communicate(timeout=support.PATIENCE_S)
        if self.process.returncode != 0:
            raise AssertionError(f"the server ended with {self.process.returncode}: {self.log()}")
        return json.loads(printed)


class Uploads(threading.Thread):
    """Uploads that are sent whole, and such that break off, each on a connection of its own."""

    def __init__(self, port, key):
        super().__init__(daemon=True)
        self.port, self.key = port, key
        self.stopping = threading.Event()
        self.sent = 0
        self.seen = collections.Counter()

    def run(self):
        while not self.stopping.wait(0.02):
            self.sent += 1
            self.upload(is_whole=self.sent % 2 == 0)

    def upload(self, is_whole):
        head = (f"POST /upload HTTP/1.1\r\nHost: load\r\nX-API-Key: {self.key}\r\n"
                "Content-Length: 10\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.port), support.PATIENCE_S) as made:
            made.sendall(head.encode() + (b"0123456789" if is_whole else b"012"))
            if not is_whole:
                # libmicrohttpd 0.9.75 overlooks an end that comes with the last bytes, until it tires.
                wait_until(lambda: support.was_read(made), "the server has read what was sent")
                return
            with made.makefile("rb") as stream:
                answer = support.read_response(stream)
        self.seen["known", "upload", answer.status, "ratelimit" in answer.headers] += 1

    def stop(self):
        self.stopping.set()
        self.join()


class Redis(stage.Redis):
    """One that has what it has answered, even when it was killed in between: a write to its file goes
    before the reply, and the system keeps it."""

    def __init__(self, test):
        super().__init__(test, "--appendonly", "yes", "--appendfsync", "no")

    def used(self, policy):
        keys = self.command("KEYS", f"*{{api_key=load-*}}:{policy}:*")
        return sum(struct.unpack("<ddII", self.command("GET", key).encode("latin-1"))[2]
                   for key in keys)


class Books:
    """What clients, application, log and metrics say in the end."""

    def __init__(self):
        self.seen = collections.Counter()     # (kind of client, path, status, whether it had quota fields)
        self.runs = collections.Counter()     # path
        self.logged = collections.Counter()   # (policy, limit, outcome)
        self.metrics = collections.Counter()  # as Server.metrics() has it
        self.settled = collections.Counter()  # units by path, of the requests that could be settled
        self.uploads = 0                      # that were sent, whole or not
        self.stored = {}                      # (policy, limit)
        self.left = collections.Counter()     # (policy, limit)

    def decided(self, policy=None, outcome=None, source=None):
        return sum(number for name, number in self.metrics.items()
                   if name[0] == "weir_decisions_total" and policy in (None, name[1])
                   and outcome in (None, name[3]) and source in (None, name[4]))

    def units(self, fate, policy, limit="sum", store="main"):
        return self.metrics[(f"weir_units_{fate}_total", policy, limit, store)]

    def net(self, policy, limit="sum"):
        return self.units("spent", policy, limit) - self.units("returned", policy, limit)

    def replies(self, path, statuses=None, kind="known", quotas=None):
        return sum(number for (who, where, status, has), number in self.seen.items()
                   if who == kind and where == path and (statuses is None or status in statuses)
                   and quotas in (None, has))


class Play:
    def __init__(self, test, requests, url, waiting="auto", servers=1, timeout_ms=PATIENT_MS):
        self.requests = requests
        config = self.config = make_policy(url, timeout_ms, requests, servers)
        self.servers = [Server(test, config, waiting) for _ in range(servers)]
        self.books = Books()
        self.test = test

    def start(self):
        wait_until(lambda: all(self.is_well(server) for server in self.servers), "the store is there")
        self.loads, self.uploads = [], []
        kinds = (("known", KNOWN, "key-of-load-#", RATE),
                 ("known", OTHERS, "key-of-load-#", RATE // len(KNOWN) * len(OTHERS)),
                 ("unknown", UNKNOWN, "nobody-#", min(RATE // 10, 1000)),
                 ("nobody", ("closed",), "", min(RATE // 20, 500)))
        for number, server in enumerate(self.servers):
            for kind, paths, key, rate in kinds:
                load = stage.Load(self.test, server.port, [f"/{path}" for path in paths],
                                  rate // len(self.servers), key, connections=30, clients=KEYS, life=500)
                self.loads.append((kind, load))
            uploads = Uploads(server.port, f"key-of-load-{number}")
            uploads.start()
            self.test.addCleanup(uploads.stop)
            self.uploads.append(uploads)

    @staticmethod
    def is_well(server):
        return any(name[0] == "weir_store_up" and number == 1
                   for name, number in server.metrics().items())

    def decided(self):
        return sum(number for server in self.servers for name, number in server.metrics().items()
                   if name[0] == "weir_decisions_total")

    def run_for(self, seconds):
        time.sleep(seconds)

    def wait_until_well(self):
        """And lets the load go on a little: what is asked for must be answered, too."""
        wait_until(lambda: all(self.is_well(server) for server in self.servers), "the store is back")
        self.run_for(0.1)

    def has_enough(self):
        return self.decided() >= self.requests

    def run_to_the_end(self):
        wait_until(self.has_enough, "enough requests were sent", within_s=3600)

    def capacity(self, policy, limit):
        """Of all keys of the load."""
        rules = self.config["policies"][policy]["limits"]
        rate = next(rule["rate"] for rule in rules if rule["name"] == limit)
        return KEYS * int(rate.split("/")[0])

    def end(self, store_has):
        """Ends the load, and reads all books when nothing changes any more."""
        for uploads in self.uploads:
            uploads.stop()
            self.books.seen.update(uploads.seen)
            self.books.uploads += uploads.sent
        for kind, load in self.loads:
            self.take_answers(kind, load)
        self.books.stored = self.wait_until_quiet(store_has)
        for server in self.servers:
            self.read_books(server)
        return self.books

    def wait_until_quiet(self, store_has):
        """Until what is on its way has arrived, and leases have ended; returns what the store has then."""
        before, now = None, []
        while now != before:
            time.sleep(1.2 if self.is_leasing() else 0.3)
            before, now = now, [[self.quiet_metrics(server) for server in self.servers], store_has()]
        return now[1]

    def is_leasing(self):
        return any(number > 0 for server in self.servers for name, number in server.metrics().items()
                   if name[0] == "weir_lease_units_held")

    @staticmethod
    def quiet_metrics(server):
        """Those of decisions and units."""
        return {name: number for name, number in server.metrics().items()
                if name[0].startswith(("weir_decisions", "weir_units", "weir_lease", "weir_parked"))}

    def take_answers(self, kind, load):
        seen = self.books.seen
        load.wait()
        with open(load.raw, encoding="ascii") as file:
            for line in file:
                _, target, _, status, _, remaining, _ = line.split()
                seen[kind, target[1:], int(status), remaining != "-1"] += 1

    def read_books(self, server):
        books = self.books
        books.metrics.update(server.metrics())
        for path in SETTLED:
            books.settled[path] += int(server.get(f"/units?path=/{path}"))
        for policy, limits in PEEKED.items():
            for limit in limits:
                books.left[policy, limit] = int(server.get(f"/left?policy={policy}&limit={limit}"))
        books.runs.update({path[1:]: count for path, count in server.stop().items()})
        with open(server.decision_log, encoding="utf-8") as file:
            for line in file:
                said = json.loads(line)
                books.logged[said.get("policy", ""), said.get("limit", ""), said["decision"]] += said["count"]


class Agreement(unittest.TestCase):
    """`share` of the requests are for each play."""

    def play(self, share, url, **how):
        self.stage = Play(self, max(int(REQUESTS * share), 500), url, **how)
        self.stage.start()
        return self.stage

    def end(self, used):
        """`used(policy, limit)` is what the store holds for the load's keys."""
        books = self.books = self.stage.end(lambda: {window: used(*window) for window in WINDOWS.items()})
        self.print_figures()
        self.check_answers(books)
        self.check_decisions(books)
        self.check_runs(books)
        self.check_log(books)
        self.check_units(books)
        self.check_spent(books)
        return books

    def print_figures(self):
        books = self.books
        outcomes = collections.Counter()
        for name, number in books.metrics.items():
            if name[0] == "weir_decisions_total":
                outcomes[name[3]] += int(number)
        unsure = sum(number for name, number in books.metrics.items()
                     if name[0] in ("weir_units_unsure_total", "weir_lease_units_unsure_total"))
        print(f"{self.id().split('.')[-1]}: {sum(books.seen.values())} requests; "
              f"{dict(outcomes.most_common())}; {int(unsure)} units unsure, "
              f"stored {self.doubtful}, "
              f"{int(books.metrics[('weir_store_late_answers_total',)])} late answers", flush=True)

    def check_answers(self, books):
        """Each request has been answered, and by the rules."""
        wanted = {"plain": {200}, "closed": {200, 503}, "tight": {200, 429}, "settled": {200},
                  "outcome": {200, 401, 500}, "shadow": {200}, "leased": {200}, "rented": {200},
                  "pair": {200, 503}, "log": {200, 429, 503}, "upload": {200}}
        others = {"plain": {401, 429}, "address": {200, 429, 503}, "denied": {403}, "off": {200}}
        for (kind, path, status, _), number in books.seen.items():
            statuses = wanted if kind == "known" else others if kind == "unknown" else {"closed": {401}}
            self.assertIn(status, statuses[path], (kind, path, number))

    def check_decisions(self, books):
        """Clients have seen as many of each kind as the metrics tell of."""
        for path in ("plain", "outcome", *SETTLED, "leased"):
            self.assertEqual(books.decided(path, "allowed"), books.replies(path, quotas=True), path)
            self.assertEqual(books.decided(path, "failed-open"), books.replies(path, quotas=False), path)
        for path in ("closed", "pair", "log"):
            self.assertEqual(books.decided(path, "allowed"), books.replies(path, {200}), path)
            self.assertEqual(books.decided(path, "limited"), books.replies(path, {429}), path)
        self.assertEqual(books.decided("tight", "allowed"), books.replies("tight", {200}))
        self.assertEqual(books.decided("tight", "limited"), books.replies("tight", {429}))
        for path, kind in (("closed", "known"), ("pair", "known"), ("log", "known"), ("address", "unknown")):
            self.assertEqual(books.decided(path, "failed-closed"), books.replies(path, {503}, kind), path)
        self.assertEqual(books.decided("shadow"), books.replies("shadow"))
        self.assertGreater(books.decided("shadow", "shadow-limited"), 0)
        self.assertEqual(books.decided("address", "allowed"), books.replies("address", {200}, "unknown"))
        self.assertEqual(books.decided("address", "limited"), books.replies("address", {429}, "unknown"))
        self.assertEqual(books.decided("denied", "denied"), books.replies("denied", {403}, "unknown"))
        self.assertEqual(books.decided("off", "allowed"), books.replies("off", {200}, "unknown"))
        self.assertEqual(books.decided("api_keys", "limited"), books.replies("plain", {429}, "unknown"))
        self.assertEqual(books.decided(outcome="unauthenticated"),
                         books.replies("plain", {401}, "unknown") + books.replies("closed", {401}, "nobody"))
        # Of those that broke off, some did so before they were decided.
        broken_off = books.decided("upload") - books.replies("upload")
        self.assertTrue(0 <= broken_off <= books.uploads - books.replies("upload"), broken_off)
        self.assertEqual(books.decided(), sum(books.seen.values()) + broken_off)

    def check_runs(self, books):
        """The application ran for what was let through, once."""
        for path in KNOWN + OTHERS:
            let_through = sum(books.decided(path, outcome)
                              for outcome in ("allowed", "failed-open", "shadow-limited"))
            self.assertEqual(books.runs[path], let_through, path)
        self.assertEqual(books.runs["upload"], books.replies("upload"))
        self.assertEqual(books.runs["denied"], 0)

    def check_log(self, books):
        """Whatever is no plain allow has a line, or a share in one; who decided, one line may tell of several."""
        counted = collections.Counter()
        for name, number in books.metrics.items():
            if (name[0] == "weir_decisions_total" and number > 0
                    and (name[3] != "allowed" or name[4] == "memory")):
                counted[name[1:4]] += int(number)
        self.assertEqual(sorted((books.logged - counted).items()), [])
        self.assertEqual(sorted((counted - books.logged).items()), [])

    def unsure(self, policy, limit="sum"):
        return self.books.units("unsure", policy, limit)

    @property
    def doubtful(self):
        """Units that were asked for without an answer, and that the store has."""
        return {policy: f"{stored - self.books.units('spent', policy, limit):.0f} of "
                        f"{self.unsure(policy, limit):.0f}"
                for (policy, limit), stored in self.books.stored.items() if policy not in RETURNING}

    def check_units(self, books):
        """The store has what was spent and not returned."""
        for (policy, limit), stored in books.stored.items():
            if policy not in LEASED:
                self.check_stored(books, policy, limit, stored)
        for policy, limits in PEEKED.items():
            for limit in limits:
                used = self.stage.capacity(policy, limit) - books.left[policy, limit]
                self.check_stored(books, policy, limit, used)
        self.check_leased(books)

    def check_leased(self, books):
        """Of leases the metrics tell no policies apart."""
        stored = sum(books.stored[policy, "sum"] for policy in LEASED)
        counted = (sum(books.net(policy) for policy in LEASED) + books.metrics[("weir_lease_units_held",)]
                   + books.metrics[("weir_lease_units_stranded_total",)])
        unsure = (sum(self.unsure(policy) for policy in LEASED)
                  + books.metrics[("weir_lease_units_unsure_total",)])
        self.assertLessEqual(abs(stored - counted), unsure, (stored, counted))

    def check_stored(self, books, policy, limit, stored):
        """What was answered is there; what nobody returns can only be more, and only by what has failed."""
        counted, unsure = books.net(policy, limit), self.unsure(policy, limit)
        told = (policy, limit, stored, counted, unsure)
        self.assertLessEqual(stored, counted + unsure, told)
        if policy in RETURNING:
            self.assertGreaterEqual(stored, counted - unsure, told)
            return
        self.assertGreaterEqual(stored, counted, told)
        failed = (books.decided(policy, "failed-open") + books.decided(policy, "failed-closed")
                  + books.decided(policy, source="memory"))
        self.assertLessEqual(unsure, failed, told)

    def check_spent(self, books):
        """Of units the metrics say what clients and application say, who know nothing of the store."""
        for policy in ("plain", "closed", "leased", "log"):
            self.assertEqual(books.units("spent", policy), books.decided(policy, "allowed"), policy)
        for limit in PEEKED["pair"]:
            self.assertEqual(books.units("spent", "pair", limit), books.decided("pair", "allowed"))
        for policy in ("tight", "shadow"):
            self.assertEqual(books.units("spent", policy), books.decided(policy, "allowed")
                             - books.decided(policy, "allowed", "memory"), policy)
        for path in SETTLED:
            self.check_net(books, path, books.settled[path])
        self.check_net(books, "outcome", sum(units * books.replies("outcome", {status}, quotas=True)
                                             for status, units in OUTCOMES.items()))
        self.check_net(books, "upload", books.replies("upload", {200}, quotas=True))

    def check_net(self, books, policy, units):
        self.assertLessEqual(abs(books.net(policy) - units), self.unsure(policy), (policy, units))

    def assert_sure(self):
        """No request has failed, and nothing is in doubt."""
        self.assertEqual([name for name, number in self.books.metrics.items()
                          if "unsure" in name[0] and number > 0], [])
        self.assertEqual(self.books.decided(outcome="failed-open") + self.books.decided(outcome="failed-closed")
                         + self.books.decided(source="memory"), 0)


class InMemory(Agreement):
    def test_agree_in_the_memory_of_the_process(self):
        play = self.play(0.25, "memory:")
        play.run_to_the_end()
        self.end(self.used)
        self.assert_sure()

    def used(self, policy, limit):
        left = int(self.stage.servers[0].get(f"/left?policy={policy}&limit={limit}"))
        return self.stage.capacity(policy, limit) - left


class InRedis(Agreement):
    def setUp(self):
        self.redis = Redis(self)
        self.line = stage.Proxy(self, f"unix:{self.redis.path}")

    def used(self, policy, _):
        return self.redis.used(policy)

    def begin(self, share, **how):
        play = self.play(share, self.line.url, **how)
        play.run_for(0.3)
        return play

    # what happens to Redis while the load goes on

    def stop_redis(self, seconds):
        self.redis.stop_answering()
        self.stage.run_for(seconds)
        self.redis.go_on()

    def with_the_line(self, command, seconds):
        self.line.do(command)
        self.stage.run_for(seconds)
        self.line.do("pass")

    def disturb(self):
        """What a patient client does not notice."""
        for _ in range(2):
            self.redis.command("SCRIPT", "FLUSH")
            self.with_the_line("delay 20", 0.2)
            self.stop_redis(0.2)
            self.with_the_line("split", 0.1)

    def do_harm(self):
        """Answers come too late, or never."""
        self.stop_redis(HOLD_S)
        self.stage.wait_until_well()
        self.redis.command("CLIENT", "KILL", "TYPE", "normal")
        self.stage.wait_until_well()
        self.with_the_line(f"delay {SLOW_MS * 0.8:.0f}", HOLD_S)
        for command in ("reset 5000", "truncate 3001", "swallow"):
            self.stage.wait_until_well()
            self.with_the_line(command, HOLD_S)
        self.line.do("drop")
        self.stage.wait_until_well()
        self.redis.kill()
        self.stage.run_for(HOLD_S)
        self.redis.start()
        self.stage.wait_until_well()

    def play_with_harm(self, share, **how):
        play = self.begin(share, timeout_ms=SLOW_MS, **how)
        self.do_harm()
        while not play.has_enough():
            self.do_harm()
        self.end(self.used)
        self.assertGreater(self.books.decided(outcome="failed-open"), 0)
        self.assertGreater(self.books.decided(outcome="failed-closed"), 0)

    # plays

    def test_agree_to_the_unit_where_no_answer_is_late(self):
        play = self.begin(0.25, waiting="thread")
        self.disturb()
        play.run_to_the_end()
        self.end(self.used)
        self.assert_sure()
        # F6: a refusal that is repeated from memory, and B7: what the store has is what is counted.
        self.assertGreater(self.books.decided("shadow", "shadow-limited", "denials"), 0)

    def test_agree_where_two_servers_wait_in_place(self):
        self.play_with_harm(0.25, servers=2)

    @unittest.skipIf(stage.BRIEF, "the sanitizers watch a part")
    def test_agree_where_requests_wait_for_a_thread(self):
        self.play_with_harm(0.25, waiting="thread")


if __name__ == "__main__":
    unittest.main()
