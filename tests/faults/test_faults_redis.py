"""Redis stops, dies, forgets, is full, busy, paused or demoted, under a steady load."""

import time
import unittest

from stage import BRIEF, PATIENT_MS, TIMEOUT_MS, FaultTest, Proxy, Redis
from topologies import AT_ONCE, follow

TIMEOUTS = "5 timeouts"
ENDED = "Server closed the connection|Connection reset by peer|Broken pipe"

# Long enough for the breaker to open, and for requests that meet it open; and where the outage ends
# by itself, also for a busy machine to see it.
OUTAGE_S = 0.5 + 2 * TIMEOUT_MS / 1000
LONG_OUTAGE_S = 4

unless_brief = unittest.skipIf(BRIEF, "a chosen part is enough under a sanitizer")


class RedisFaults(FaultTest):
    # it does not answer

    def test_stopped(self):
        play = self.stage(Redis(self, tcp=True))
        self.redis.stop_answering()
        play.wait_until_failing()
        play.hold(OUTAGE_S)
        self.redis.go_on()
        play.wait_until_back()
        play.hold(0.2)
        outcome = self.end()
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, TIMEOUTS)

    @unless_brief
    def test_clients_paused(self):
        play = self.stage(Redis(self))
        self.redis.command("CLIENT", "PAUSE", str(LONG_OUTAGE_S * 1000), "ALL")
        play.wait_until_failing()
        self.redis.command("PING")  # is answered when the pause is over
        play.wait_until_back()
        outcome = self.end()
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, TIMEOUTS)

    @unless_brief
    def test_asleep(self):
        play = self.stage(Redis(self, "--enable-debug-command", "yes"))
        self.redis.begin(self, "DEBUG", "SLEEP", str(LONG_OUTAGE_S))
        play.wait_until_failing()
        self.redis.command("PING")
        play.wait_until_back()
        outcome = self.end()
        self.assert_failed(outcome, "unavailable")
        self.assert_logged(outcome, TIMEOUTS)

    def test_busy_with_a_script(self):
        play = self.stage(Redis(self, "--lua-time-limit", "50"))
        self.redis.begin(self, "EVAL", "while true do end", "0")
        play.wait_until_failing()
        play.hold(OUTAGE_S)
        self.assertEqual(self.redis.command("SCRIPT", "KILL"), "OK")
        play.wait_until_back()
        outcome = self.end()
        self.assert_failed(outcome, "unavailable", "error")

    # it goes and comes

    def restart(self, redis, losses, **how):
        play = self.stage(redis, **how)
        redis.kill()
        play.wait_until_failing()
        play.hold(0.5)
        redis.start()
        play.wait_until_back()
        play.hold(0.2)
        outcome = self.end(losses)
        self.assert_failed(outcome, "unavailable")
        return outcome

    def test_killed_and_back_without_its_data(self):
        outcome = self.restart(Redis(self), losses=1)
        self.assert_logged(outcome, ENDED)

    def test_killed_and_back_with_its_data(self):
        self.restart(Redis(self, "--appendonly", "yes", "--appendfsync", "always"), losses=0)

    @unless_brief
    def test_killed_with_several_connections_to_it(self):
        """They share what is known of it, and the log has no more lines than for one."""
        outcome = self.restart(Redis(self), losses=1, connections=3, clients=9)
        self.assert_logged(outcome, ENDED)

    # another takes its place

    @unless_brief
    def test_replica_promoted_when_its_master_dies(self):
        """Replicas get what scripts have done, not the scripts, so nobody starts afresh."""
        master, replica = Redis(self, *AT_ONCE, tcp=True), Redis(self)
        follow(master, replica)
        proxy = Proxy(self, f"127.0.0.1:{master.port}")
        play = self.stage(replica, proxy.url)
        master.kill()
        died_at = time.monotonic()
        play.wait_until_failing()
        replica.command("REPLICAOF", "NO", "ONE")
        proxy.do(f"to unix:{replica.path}")
        play.wait_until_back()
        play.hold(0.2)
        outcome = self.end(losses=1)
        self.assert_failed(outcome, "unavailable")
        self.assert_survived(outcome, died_at)
        for key in replica.command("KEYS", "*"):
            self.assertIn(replica.command("PTTL", key), range(1, 2 * 86_400_000), key)

    # it forgets

    def test_scripts_flushed(self):
        play = self.stage(Redis(self), timeout_ms=PATIENT_MS)
        for _ in range(10):
            self.assertEqual(self.redis.command("SCRIPT", "FLUSH"), "OK")
            play.hold(0.05)
        self.assert_unharmed(self.end())

    @unless_brief
    def test_all_flushed(self):
        play = self.stage(Redis(self), timeout_ms=PATIENT_MS)
        self.redis.command("FLUSHALL")
        play.hold(0.3)
        outcome = self.end(losses=1)
        self.assertEqual(outcome.failures(), [])
        self.assertEqual(outcome.lines, [])
        for route in ("/open", "/closed", "/memory"):
            self.assertLess(self.redis.held(route), outcome.admitted(route))

    # it answers, but not as it should

    def test_demoted_and_promoted_again(self):
        play = self.stage(Redis(self))
        self.redis.command("REPLICAOF", "127.0.0.1", "1")
        play.wait_until_failing()
        play.hold(0.5)
        self.redis.command("REPLICAOF", "NO", "ONE")
        play.wait_until_back()
        play.hold(0.2)
        outcome = self.end()
        self.assert_failed(outcome, "unavailable", "error")
        self.assert_logged(outcome, "READONLY .*")

    def test_out_of_memory(self):
        play = self.stage(Redis(self), timeout_ms=PATIENT_MS)
        self.redis.command("CONFIG", "SET", "maxmemory", "1")
        play.wait_until_failing()
        play.hold(0.4)
        self.redis.command("CONFIG", "SET", "maxmemory", "0")
        play.wait_until_back()
        outcome = self.end()
        self.assert_failed(outcome, "error")
        # It answers. Where errors are all there is for a second, that is said in other words.
        self.assertEqual(len(outcome.said(r"does not count \(OOM .*|counts again after")),
                         len(outcome.lines), outcome.lines)
        self.assert_exact(outcome)


if __name__ == "__main__":
    unittest.main()
