"""What stands between the server and Redis is slow, cuts, swallows or is gone, under a steady load."""

import ctypes
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import stage
from stage import BRIEF, TIMEOUT_MS, FaultTest, Proxy, Redis
from support import Program, make_folder, wait_until

OUTAGE_S = 0.5 + 2 * TIMEOUT_MS / 1000

# How the end of a connection may show.
ENDED = "Server closed the connection|Connection reset by peer|Broken pipe"

unless_brief = unittest.skipIf(BRIEF, "a chosen part is enough under a sanitizer")


class ProxyFaults(FaultTest):
    def start(self, **how):
        redis = Redis(self)
        self.proxy = Proxy(self, f"unix:{redis.path}")
        return self.stage(redis, self.proxy.url, **how)

    def fail_by(self, command, outage_s=OUTAGE_S):
        """The proxy does something that makes requests fail, for a while."""
        play = self.start()
        since = time.monotonic()
        self.proxy.do(command)
        play.wait_until_failing()
        play.hold(outage_s)
        self.proxy.do("pass")
        play.wait_until_back()
        self.outage_s = time.monotonic() - since
        play.hold(0.2)
        return self.end()

    def stay_unharmed_by(self, command, **how):
        play = self.start(timeout_ms=stage.PATIENT_MS, **how)
        self.proxy.do(command)
        play.hold(0.5)
        self.proxy.do("pass")
        play.hold(0.2)
        self.assert_unharmed(self.end())
        self.assertLessEqual(self.proxy.connections(), stage.CONNECTIONS_EACH)

    def test_replies_come_late(self):
        outcome = self.fail_by(f"delay {TIMEOUT_MS}")
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, "5 timeouts")

    @unless_brief
    def test_replies_take_a_while(self):
        self.stay_unharmed_by(f"delay {TIMEOUT_MS // 5}")

    def test_replies_come_byte_by_byte(self):
        # A packet for each byte takes its time.
        self.stay_unharmed_by("split", rate=min(stage.RATE, 80))

    def test_connections_end_in_mid_reply(self):
        # In the first reply to a greeting, so that none comes to be.
        outcome = self.fail_by("truncate 20")
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, ENDED)

    @unless_brief
    def test_connections_are_reset_in_mid_reply(self):
        outcome = self.fail_by("reset 20")
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, ENDED)

    def test_connections_break_off_after_a_few_answers(self):
        """Each of them works, a moment long; neither the log nor Redis is flooded with them."""
        outcome = self.fail_by("reset 100")
        self.assert_failed(outcome, "unavailable")
        # A line a second; and pauses between the tries, which are longest in the end.
        self.assertLess(len(outcome.said("is not answering")), 8 + self.outage_s)
        most = (40 + 5 * self.outage_s) * stage.CONNECTIONS_EACH
        self.assertLess(self.proxy.connections(), most)

    @unless_brief
    def test_nothing_comes_through_a_half_open_connection(self):
        outcome = self.fail_by("swallow")
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, "5 timeouts")
        # The first, and one at a time to see whether it is over, each for a second.
        most = (3 + self.outage_s) * stage.CONNECTIONS_EACH
        self.assertLessEqual(self.proxy.connections(), most)

    def test_the_peer_is_a_black_hole(self):
        outcome = self.fail_by("blackhole")
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, "5 timeouts")

    @unless_brief
    def test_connections_are_reset_now_and_then(self):
        """One that lasted is replaced at once, and hardly anybody notices."""
        play = self.start(timeout_ms=stage.PATIENT_MS)
        for _ in range(3):
            play.hold(1.2)
            before = self.proxy.connections()
            self.proxy.do("drop")
            wait_until(lambda: self.proxy.connections() >= before + 1, "another connection is made")
            play.wait_until_back()
        play.hold(0.2)
        outcome = self.end()
        self.assertLessEqual(self.proxy.connections(), 4 * stage.CONNECTIONS_EACH)
        self.assert_logged(outcome, ENDED, times=3)
        self.assertLess(len(outcome.failures()), len(outcome.answers) / (20 if stage.STRICT else 8))


# namespaces


def change_namespace(kind, fd=None):
    """Moves this thread, and what it starts, to a new namespace, or to that of `fd`."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.unshare(kind) if fd is None else libc.setns(fd, kind)
    if done != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


class Network(Program):
    """Two networks with a line between them and no way out: the test moves into the one, and
    `around` starts programs in the other."""

    NEW = 0x40000000  # CLONE_NEWNET
    HERE, THERE = "198.51.100.1", "198.51.100.2"

    def __init__(self, test):
        with open("/proc/self/ns/net", "rb") as before:
            descriptor = os.dup(before.fileno())
        test.addCleanup(os.close, descriptor)
        try:
            change_namespace(self.NEW)
        except OSError as why:
            test.skipTest(f"this machine forbids network namespaces: {why}")
        test.addCleanup(change_namespace, self.NEW, descriptor)
        # Holds the other network as long as its standard input is open.
        self.start_process(["unshare", "--net", "sh", "-c", "echo there; exec cat"],
                           make_folder(test), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        test.addCleanup(self.end, signal.SIGKILL)
        self.process.stdout.readline()
        self.around = ("nsenter", f"--net=/proc/{self.process.pid}/ns/net")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns",
            str(self.process.pid))
        run("ip", "address", "add", f"{self.HERE}/30", "dev", "here")
        run(*self.around, "ip", "address", "add", f"{self.THERE}/30", "dev", "there")
        run("ip", "link", "set", "here", "up")
        self.mend()

    def wait(self):
        self.process.stdin.close()
        return super().wait()

    def cut(self):
        """From here on packets vanish, both ways, and nobody is told."""
        run(*self.around, "ip", "link", "set", "there", "down")

    def mend(self):
        run(*self.around, "ip", "link", "set", "there", "up")


class NamespaceFaults(FaultTest):
    def start(self):
        self.network = Network(self)
        redis = Redis(self, "--port", "6379", "--bind", Network.THERE, "--protected-mode", "no",
                      around=self.network.around)
        return self.stage(redis, f"redis://{Network.THERE}")

    def test_packets_are_dropped(self):
        play = self.start()
        self.network.cut()
        play.wait_until_failing()
        # It may end at any moment between two tries.
        play.hold(2 + random.random())
        self.network.mend()
        play.wait_until_back()
        play.hold(0.2)
        outcome = self.end()
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, "5 timeouts")

    @unless_brief
    def test_packets_are_dropped_for_a_moment(self):
        play = self.start()
        for _ in range(5):
            self.network.cut()
            play.hold(TIMEOUT_MS / 1000 / 2)
            self.network.mend()
            play.hold(0.2)
        play.wait_until_back()
        play.hold(0.1)
        self.end()


# names


class NameServer:
    """A DNS server of one name, at an address of its own; it may be silent."""

    NAME = "redis.example"

    def __init__(self, test):
        self.is_silent = False
        self.asked = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = self.bind()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        test.addCleanup(self.end)

    def bind(self):
        """Only port 53 is asked, but of any address of the loopback net."""
        while True:
            address = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"
            try:
                self.socket.bind((address, 53))
                return address
            except PermissionError as why:
                raise unittest.SkipTest(f"this machine forbids port 53: {why}") from why
            except OSError:
                continue

    def serve(self):
        while True:
            question, who = self.socket.recvfrom(512)
            if not question:
                return
            self.asked += 1
            if not self.is_silent:
                self.socket.sendto(self.answer(question), who)

    def answer(self, question):
        """127.0.0.1 for an A record, none for any other (RFC 1035, section 4)."""
        end = question.index(b"\0", 12) + 5
        is_a = question[end - 4 : end - 2] == b"\0\x01"
        head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_a), 0, 0)
        record = b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0\x01" if is_a else b""
        return head + question[12:end] + record

    def end(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (self.address, 53))
        self.thread.join()
        self.socket.close()


class NameFaults(FaultTest):
    """The server, in a mount namespace, asks our name server alone."""

    def around(self, names, patience_s):
        config = os.path.join(make_folder(self), "resolv.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"nameserver {names.address}\noptions timeout:{patience_s} attempts:2\n")
        around = ("unshare", "--mount", "sh", "-c",
                  f'mount --bind {config} /etc/resolv.conf && exec "$@"', "sh")
        tried = subprocess.run([*around, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"this machine forbids mount namespaces: {tried.stderr.strip()}")
        return around

    def start(self, patience_s):
        """A connection is lost just when the name server has fallen silent, which the system bears
        for twice `patience_s`."""
        self.names = NameServer(self)
        redis = Redis(self)
        self.proxy = Proxy(self, f"unix:{redis.path}")
        play = self.stage(redis, f"redis://{NameServer.NAME}:{self.proxy.port}",
                          around=self.around(self.names, patience_s))
        self.names.is_silent = True
        before = self.names.asked
        self.proxy.do("drop")
        wait_until(lambda: self.names.asked > before, "the name is looked up again")
        return play

    def test_name_server_falls_silent(self):
        """Nothing waits for it: neither requests, nor the return, nor the end of the server."""
        play = self.start(patience_s=20)
        play.wait_until_back()
        play.hold(0.2)
        outcome = self.end()
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, ENDED)
        self.assertLess(outcome.stop_s, 10)

    @unless_brief
    def test_name_server_falls_silent_while_redis_is_away(self):
        play = self.start(patience_s=1)
        self.proxy.do("to 127.0.0.1:1")
        self.proxy.do("drop")
        play.wait_until_failing()
        play.hold(0.5)
        self.names.is_silent = False
        self.proxy.do(f"to unix:{self.redis.path}")
        play.wait_until_back()
        play.hold(0.2)
        self.assert_failed(self.end(), "unavailable")


if __name__ == "__main__":
    unittest.main()
