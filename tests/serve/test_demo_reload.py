"""A policy that is replaced while the server runs."""

import json
import os
import shutil
import signal
import socket
import unittest

from support import (FREE, KEYS, Demo, DemoTest, Redis, one_limit, raw_request, read_response,
                     wait_until)


class Reload(DemoTest):
    def start(self, config, **how):
        demo = Demo(self, config, **how)
        self.file = os.path.join(demo.folder, "policy.json")
        return demo

    def put(self, config, file=None):
        """Puts a file in the place of another, as most editors and tools do."""
        file = file or self.file
        text = config if isinstance(config, str) else json.dumps(
            {"store": {"url": "memory:", "timeout": "10s"}, **config})
        with open(f"{file}.new", "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(f"{file}.new", file)

    def reloads(self, demo):
        return [line["text"] for line in demo.lines() if "eloaded" in line.get("text", "")]

    def reload(self, demo, config=None):
        """Reloads by signal, and returns the one line that the log says of it."""
        before = len(self.reloads(demo))
        if config is not None:
            self.put(config)
        demo.send(signal.SIGHUP)
        return wait_until(lambda: self.reloads(demo)[before:], "it is logged")[0]

    def hits(self, demo, count, headers=None):
        return [demo.get("/ip", headers).status for _ in range(count)]

    def test_goes_by_the_new_file_after_a_hangup_and_counts_on(self):
        demo = self.start(one_limit("ip", "5/hour", algorithm="fixed-window", start="first"))
        self.assertEqual(self.hits(demo, 3), [200] * 3)
        line = self.reload(demo)
        self.assertRegex(line, rf"^Reloaded {self.file}: generation 2, \d warnings?\.$")
        self.assertEqual(self.hits(demo, 3), [200, 200, 429], "three were counted before (F13)")
        self.reload(demo, one_limit("ip", "7/hour", algorithm="fixed-window", start="first"))
        self.assertEqual(self.hits(demo, 3), [200, 200, 429])

    def test_stays_with_the_policy_of_before_where_a_file_is_bad_or_gone(self):
        demo = self.start(one_limit("ip", "2/hour"))
        bad = one_limit("ip", "2/fortnight")
        line = self.reload(demo, bad)
        self.assertIn("the policy of before stays in force", line)
        self.assertIn("/policies/only/limits/0/rate", line)
        os.unlink(self.file)
        self.assertIn("cannot be read", self.reload(demo), "(F4)")
        self.assertEqual(self.hits(demo, 3), [200, 200, 429])
        self.assertIn("restart", self.reload(demo, {**one_limit("ip", "9/hour"),
                                                    "store": {"url": "redis://127.0.0.1:1"}}))
        self.assertIn("generation 2", self.reload(demo, one_limit("ip", "unlimited")))
        self.assertEqual(self.hits(demo, 3), [200] * 3)

    def metrics(self, demo):
        lines = [line for line in demo.get("/metrics").body.decode().splitlines()
                 if not line.startswith("#")]
        found = dict(line.rsplit(" ", 1) for line in lines)
        self.assertEqual(len(found), len(lines), "no series is there twice (F12)")
        return found

    def test_tells_of_it_in_metrics_and_goes_on_with_their_numbers(self):
        demo = self.start(one_limit("ip", "5/hour"))
        self.assertEqual(self.hits(demo, 3), [200] * 3)
        for _ in range(3):
            self.reload(demo)
        self.reload(demo, "{")
        self.assertEqual(self.hits(demo, 3), [200, 200, 429])
        metrics = self.metrics(demo)
        self.assertEqual(metrics["weir_policy_generation"], "4")
        self.assertEqual(metrics['weir_policy_reloads_total{result="success"}'], "3")
        self.assertEqual(metrics['weir_policy_reloads_total{result="failure"}'], "1")
        self.assertEqual(metrics["weir_policy_last_reload_successful"], "0")
        allowed = [int(value) for name, value in metrics.items()
                   if 'outcome="allowed"' in name and 'policy="only"' in name]
        self.assertEqual(sum(allowed), 5)

    def test_stays_with_the_store_that_the_command_line_names(self):
        redis = Redis(self)
        demo = self.start(one_limit("ip", "3/hour"), store=redis.url)
        self.assertEqual(self.hits(demo, 2), [200] * 2)
        self.assertIn("generation 2", self.reload(demo))
        self.assertEqual(self.hits(demo, 2), [200, 429])
        self.assertEqual(len(redis.command("KEYS", "weir:*only*")), 1)

    def test_watches_files_the_way_they_are_mounted_in_kubernetes(self):
        demo = self.start(one_limit("ip", "1/hour"), options=["--watch"])
        self.put(one_limit("ip", "unlimited"))
        wait_until(lambda: self.reloads(demo), "the file is read again")
        self.assertEqual(self.hits(demo, 3), [200] * 3)
        # From here on it is a link to a folder that is a link, and only that one is swapped.
        for number, rate in (("..one", "0/hour"), ("..two", "unlimited")):
            folder = os.path.join(demo.folder, number)
            os.mkdir(folder)
            self.put(one_limit("ip", rate), os.path.join(folder, "policy.json"))
            with open(os.path.join(folder, "api-keys.json"), "w", encoding="utf-8") as out:
                json.dump(KEYS, out)
            os.symlink(number, os.path.join(demo.folder, "..data_tmp"))
            os.replace(os.path.join(demo.folder, "..data_tmp"),
                       os.path.join(demo.folder, "..data"))
            if number == "..one":
                for name in ("policy.json", "api-keys.json"):
                    os.symlink(f"..data/{name}", os.path.join(demo.folder, f"{name}.link"))
                    os.replace(os.path.join(demo.folder, f"{name}.link"),
                               os.path.join(demo.folder, name))
            wanted = 429 if rate == "0/hour" else 200
            wait_until(lambda: demo.get("/ip").status == wanted, "the link's file is read")
        shutil.rmtree(os.path.join(demo.folder, "..one"))
        os.unlink(self.file)
        wait_until(lambda: "cannot be read" in demo.log(), "it is noticed that it is gone (F4)")
        self.assertEqual(demo.get("/ip").status, 200)

    def test_lets_a_reply_that_is_under_way_go_on(self):
        demo = self.start(one_limit("api_key", "1000/hour", auth="required"))
        with demo.socket() as (connection, stream):
            # More than fits into the sockets, so that it is under way for as long as nobody reads.
            connection.sendall(raw_request("POST", "/v1/export",
                                           {**FREE, "Content-Length": "16"}, b'{"rows": 100000}'))
            connection.recv(1, socket.MSG_PEEK)
            for _ in range(3):
                self.reload(demo, one_limit("ip", "1/hour"))
                self.reload(demo, one_limit("api_key", "1000/hour", auth="required"))
            answer = read_response(stream)
            self.assertEqual(len(answer.body.splitlines()), 100000)
            connection.sendall(raw_request("GET", "/ip", FREE))
            self.assertEqual(read_response(stream).quotas()["only"]["r"], 998)

    def test_stops_well_right_after_it_was_told_to_reload(self):
        demo = self.start(one_limit("ip", "2/hour"), options=["--watch"])
        for _ in range(20):
            self.put(one_limit("ip", "3/hour"))
            demo.send(signal.SIGHUP)
        self.assertEqual(demo.end(), 0)


if __name__ == "__main__":
    unittest.main()
