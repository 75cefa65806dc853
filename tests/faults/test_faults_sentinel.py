"""A master fails or is relieved, and its Sentinels name another, under a steady load."""

import time
import unittest

from stage import BRIEF, PATIENT_MS, RETURN_S, STRICT, FaultTest
from support import wait_until
from topologies import Watched

unless_brief = unittest.skipIf(BRIEF, "a chosen part is enough under a sanitizer")


class SentinelFaults(FaultTest):
    def begin(self, **how):
        self.watched = Watched(self)
        play = self.stage(self.watched, **how)
        self.master = self.watched.named()
        return play

    def follow(self, play):
        """The new master is there: from now on limits must hold again soon, and there."""
        new = self.watched.wait_for_another(self.master)
        play.wait_until_back()
        news = f'The master "{Watched.NAME}" is now at 127.0.0.1:{new.port}'
        wait_until(lambda: any(news in line[2] for line in play.server.lines()), news)
        self.followed_at = time.monotonic()
        print(f"    followed {self.followed_at - play.returned_at:.3f} s after its Sentinels named it")
        if STRICT:
            self.assertLess(self.followed_at - play.returned_at, RETURN_S)
        play.hold(0.3)

    def check(self, outcome, since, until=0):
        """One master was followed to one other, which knows what the first one knew."""
        if not STRICT and len(outcome.said("is now at")) > 1:
            print("    the Sentinels have changed their mind, as they may on a busy machine")
            return
        self.assert_survived(outcome, since, until)
        down, up = outcome.said("is not answering"), outcome.said("answers again after")
        self.assertEqual(len(down), len(up), outcome.lines[:10])
        self.assertLessEqual(len(down), 1, outcome.lines[:10])

    def test_master_killed(self):
        play = self.begin()
        self.master.kill()
        died_at = time.monotonic()
        self.follow(play)
        # The old one comes back, and is made a replica: nobody goes back to it.
        self.master.start()
        play.hold(1)
        outcome = self.end(losses=1)
        self.assert_failed(outcome, "unavailable")
        self.check(outcome, died_at)

    @unless_brief
    def test_master_stopped(self):
        play = self.begin()
        self.master.stop_answering()
        died_at = time.monotonic()
        self.follow(play)
        self.master.go_on()
        play.hold(1)
        outcome = self.end(losses=1)
        self.assert_failed(outcome, "unavailable")
        self.check(outcome, died_at)

    def test_master_relieved(self):
        """Sentinels promote one a while before they say so. Until then the old one counts, and that
        is lost; but nobody waits, or is let through without limits for long."""
        play = self.begin()
        reply = self.watched.sentinels[0].command("SENTINEL", "FAILOVER", Watched.NAME)
        self.assertEqual(reply, "OK")
        relieved_at = time.monotonic()
        self.follow(play)
        outcome = self.end(losses=1)
        self.check(outcome, relieved_at, self.followed_at)
        self.assertLess(len(outcome.failures()), len(outcome.answers) / 4)

    @unless_brief
    def test_sentinels_killed(self):
        """The master is well, and stays."""
        play = self.begin(timeout_ms=PATIENT_MS)
        for sentinel in self.watched.sentinels:
            sentinel.end()
        play.hold(1)
        self.redis = self.master
        self.assert_unharmed(self.end())


if __name__ == "__main__":
    unittest.main()
