"""The latency of requests with a dead Redis under `open`, against a server without a limiter.

Both servers run side by side and take turns at the same load, so that the ratio is of one run. One
JSON line; each figure is the median of the rounds. Arguments: rounds (5), seconds of each (2),
requests a second (1000)."""

import json
import statistics
import sys
import unittest

from stage import STRICT, Load, Redis, Server, policy_for
from support import wait_until


class DeadRedis(unittest.TestCase):
    rounds, seconds, rate = 5, 2, 1000

    def load(self, server):
        load = Load(self, server.port, targets=("/open",), rate=self.rate, seconds=self.seconds)
        load.process.wait()
        load.stop()
        return load.summary[0]

    def runTest(self):
        redis = Redis(self)
        servers = {"bare": Server(self), "open": Server(self, policy_for(redis.url))}
        wait_until(lambda: servers["open"].state()["answering"], "the server has found Redis")
        redis.kill()
        wait_until(lambda: not servers["open"].state()["answering"], "it knows of the death")
        taken = {name: [] for name in servers}
        for _ in range(self.rounds):
            for name, server in servers.items():
                taken[name].append(self.load(server))
        decided = {name: server.stop() for name, server in servers.items()}["open"]["decisions"]
        self.assertEqual({d["outcome"] for d in decided}, {"failed-open"}, decided)
        line = {"bench": "dead redis"}
        for name, summaries in taken.items():
            for figure in ("p50_us", "p99_us"):
                line[f"{name}_{figure}"] = statistics.median(s[figure] for s in summaries)
        for figure in ("p50", "p99"):
            line[f"{figure}_ratio"] = round(statistics.median(
                dead[f"{figure}_us"] / bare[f"{figure}_us"]
                for dead, bare in zip(taken["open"], taken["bare"])), 2)
        print(json.dumps(line), flush=True)
        if STRICT:
            self.assertLessEqual(line["p99_ratio"], 2)


if __name__ == "__main__":
    for name, argument in zip(("rounds", "seconds", "rate"), sys.argv[1:]):
        setattr(DeadRedis, name, int(argument))
    unittest.main(argv=sys.argv[:1])
