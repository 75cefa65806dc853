"""In each story, what an operator looks at leads to the cause; and the runbook shows what it looks like."""

import pathlib
import re
import unittest

import incident
from support import DemoTest, Redis

RUNBOOK = pathlib.Path(__file__).resolve().parents[2] / "docs" / "runbook-429.md"
BLOCK = re.compile(r"<!-- incident: (\w+) (\w+) -->\n\n```\w*\n(.*?)```\n", re.DOTALL)

# Each is played once, for all the tests of it.
scenes = {}


class Stories(DemoTest):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redis(cls, tcp=True)
        for name, play in incident.STORIES.items():
            scenes[name] = play(cls, cls.redis)

    @classmethod
    def addCleanup(cls, function, *arguments, **named):
        """What the stories start is ended with the class."""
        cls.addClassCleanup(function, *arguments, **named)

    def assert_hint(self, scene, piece):
        hints = scene.explanation["hints"]
        self.assertTrue(any(piece in hint for hint in hints), hints)

    def assert_no_hint(self, scene, piece):
        hints = scene.explanation["hints"]
        self.assertFalse(any(piece in hint for hint in hints), hints)

    def assert_all_agree(self, scene):
        """Responses, metrics, the log, and what the dashboard shows tell the same number."""
        refused = len(incident.refused(scene.responses))
        allowed = len(scene.responses) - refused + scene.also_allowed
        self.assertEqual(scene.counts, {"allowed": allowed, "limited": refused})
        self.assertEqual(sum(line["count"] for line in scene.lines), refused)
        self.assertLessEqual(scene.keys[0]["at_least"], refused)
        [policy] = [row for row in scene.stats["policies"] if row["name"] == "api"]
        self.assertEqual(policy["decisions"]["allowed"], allowed)
        self.assertEqual(policy["decisions"]["limited"], refused)

    def test_bursts_under_an_average_are_told_by_the_burst(self):
        scene = scenes["bursts"]
        self.assert_all_agree(scene)
        self.assertGreaterEqual(len(incident.refused(scene.responses)), 20)
        self.assertIn("(gcra 1200/minute, burst 20), key api_key:harbour-live",
                      scene.explanation["summary"])
        self.assert_hint(scene, "1200/minute is 1 unit in 50 ms on average, but at most 20 at once")
        self.assert_no_hint(scene, "share it")
        self.assertIn("1200/minute is 1 unit in 50 ms on average", scene.tool)
        self.assertEqual([key["key"] for key in scene.keys], ["api_key:harbour-live"])
        self.assertEqual({line["address"] for line in scene.lines}, {"203.0.113.7/32"})
        # All of them within an instant, and a second later all is there again.
        self.assertTrue(all(line["retry_us"] <= 50000 for line in scene.lines))

    def test_a_shared_address_is_told_by_the_clients_behind_it(self):
        scene = scenes["nat"]
        self.assert_all_agree(scene)
        self.assertIn("key ip:198.51.100.20/32", scene.explanation["summary"])
        self.assert_hint(scene, "12 clients were refused under this key")
        self.assert_no_hint(scene, "without waiting")
        self.assertIn("429, limited", scene.tool)
        self.assertIn("counts by address: all who share 198.51.100.20/32", scene.tool)
        self.assertGreater(len(scene.keys), 1)
        self.assertTrue(all(key["count"] <= 2 for key in scene.keys), scene.keys)
        self.assertEqual({line["key"] for line in scene.lines}, {"ip:198.51.100.20/32"})
        self.assertEqual({line["client"] for line in scene.lines}, {"staff-7", "staff-8"})

    def test_one_key_of_many_services_is_told_by_their_addresses(self):
        scene = scenes["key"]
        self.assert_all_agree(scene)
        self.assertIn("key api_key:acme-live", scene.explanation["summary"])
        self.assert_hint(scene, "refused from 5 addresses")
        self.assert_no_hint(scene, "without waiting")
        self.assertEqual([key["key"] for key in scene.keys], ["api_key:acme-live"])
        self.assertEqual(len({line["address"] for line in scene.recent}), 5)

    def test_a_retry_storm_is_told_by_who_asks_without_waiting(self):
        scene = scenes["storm"]
        self.assert_all_agree(scene)
        self.assertEqual(scene.other.status, 200)
        self.assert_hint(scene, "asks again without waiting")
        self.assertEqual([key["key"] for key in scene.keys], ["api_key:delta-batch"])
        # So many refusals are two lines.
        self.assertEqual(len(scene.lines), 2)
        self.assertGreaterEqual(scene.lines[1]["count"], 70)

    def test_a_block_is_told_by_who_has_blocked_and_why(self):
        scene = scenes["block"]
        self.assert_all_agree(scene)
        self.assertIn("blocked by an operator until", scene.explanation["summary"])
        self.assertIn("a crawler; ask ann", scene.explanation["summary"])
        self.assert_hint(scene, "has been blocked by")
        self.assertIn("(a crawler; ask ann), refuses", scene.tool)
        [limit] = scene.explanation["limits"]
        self.assertTrue(limit["blocked"])
        # The wait is the block's, not the limit's.
        response = incident.refused(scene.responses)[-1]
        self.assertAlmostEqual(int(response.headers["retry-after"]), 3600, delta=60)
        self.assertEqual(scene.explanation["verdict"]["retry_s"], int(response.headers["retry-after"]))
        self.assertIn("a crawler; ask ann", scene.blocks["list"])

    def test_a_429_of_the_edge_is_told_by_what_it_lacks(self):
        scene = scenes["edge"]
        response = incident.refused(scene.responses)[0]
        self.assertEqual(len(incident.refused(scene.responses)), 2)
        self.assertTrue(response.headers["server"].startswith("nginx"))
        for field in ("x-request-id", "ratelimit", "ratelimit-policy"):
            self.assertNotIn(field, response.headers)
        self.assertNotEqual(response.headers["content-type"], "application/problem+json")
        self.assertIn("the application's own, allowed", scene.tool)
        self.assertEqual(scene.counts, {"allowed": 3})
        self.assertEqual(scene.recent, [])
        self.assertEqual(scene.lines, [])

    def test_no_key_is_shown_anywhere(self):
        for scene in scenes.values():
            for block in scene.blocks.values():
                self.assertNotIn("the key of", block)

    def test_the_runbook_shows_what_comes_out(self):
        blocks = BLOCK.findall(RUNBOOK.read_text(encoding="utf-8"))
        self.assertEqual({story for story, _, _ in blocks}, set(scenes))
        for story, name, shown in blocks:
            with self.subTest(f"{story} {name}"):
                self.assertEqual(
                    incident.masked(shown),
                    incident.masked(scenes[story].blocks[name]),
                    "tests/incident/write_runbook writes it anew",
                )


if __name__ == "__main__":
    unittest.main()
