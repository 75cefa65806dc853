"""A real Prometheus that scrapes the demo, and is asked what it has found."""

import json
import pathlib
import re
import unittest
import urllib.parse

from support import PRO, Client, Demo, DemoTest, Program, Redis, make_folder, wait_until
from test_demo_metrics import DOCS, RULES, with_store

CONFIG = """
global: {{ scrape_interval: 1s, evaluation_interval: 1s }}
rule_files: [{rules}]
scrape_configs:
  - job_name: weir
    static_configs: [{{ targets: ["{target}"] }}]
"""


class Prometheus(Program):
    def __init__(self, test, target):
        folder = pathlib.Path(make_folder(test))
        (folder / "prometheus.yml").write_text(CONFIG.format(rules=RULES, target=target))
        self.start_process(
            ["prometheus", f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0"],
            str(folder))
        test.addCleanup(self.end)
        where = wait_until(
            lambda: re.search(r'msg="Listening on" address=127\.0\.0\.1:(\d+)', self.log())
            or not self.is_running(), "Prometheus listens or ends")
        if not self.is_running():
            raise AssertionError(self.log())
        self.client = Client(("127.0.0.1", int(where[1])))
        test.addCleanup(self.client.close)

    def ask(self, path, **query):
        answer = self.client.get(f"/api/v1/{path}?{urllib.parse.urlencode(query)}")
        found = answer.json()
        if found["status"] != "success":
            raise AssertionError(f"{query}: {found}")
        return found["data"]

    def is_ready(self):
        return self.client.get("/-/ready").status == 200

    def value(self, expression):
        """Of an expression with one result; None: it has none yet."""
        found = self.ask("query", query=expression)["result"]
        return float(found[0]["value"][1]) if found else None


def expressions():
    """All that the dashboard asks for, with its variables filled in."""
    dashboard = json.loads((DOCS / "weir-grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield (target["expr"].replace("$__rate_interval", "1m").replace("$job", "weir")
                   .replace("$instance", ".*").replace("$policy", ".*"))


class Scraped(DemoTest):
    def test_is_understood_by_prometheus(self):
        redis = Redis(self)
        demo = Demo(self, with_store(redis.url))
        client = demo.client()
        for _ in range(7):
            client.get("/v1/search?q=gate", PRO)
            client.get("/ip")
        prometheus = Prometheus(self, "{}:{}".format(*demo.where))
        wait_until(prometheus.is_ready, "Prometheus is ready")
        wait_until(lambda: prometheus.value('up{job="weir"}') is not None, "the demo was scraped")
        self.assertEqual([target["lastError"] for target in prometheus.ask("targets")["activeTargets"]],
                         [""])

        self.assertEqual(prometheus.value('weir_decisions_total{policy="api",outcome="allowed"}'), 7)
        refused = 'sum(weir_decisions_total{policy="shop",outcome="limited"})'
        self.assertEqual(prometheus.value(refused), 5)
        self.assertEqual(prometheus.value('weir_units_spent_total{limit="daily"}'), 35)
        client.get("/ip")
        wait_until(lambda: prometheus.value(refused) == 6, "the next scrape has one more")

        kinds = {name: kind[0]["type"] for name, kind in prometheus.ask("metadata").items()}
        self.assertEqual(kinds["weir_decisions"], "counter")
        self.assertEqual(kinds["weir_store_latency_seconds"], "histogram")
        self.assertEqual(kinds["weir_build"], "info")

        for expression in expressions():
            prometheus.ask("query", query=expression)
        wait_until(lambda: all(rule["health"] == "ok"
                               for group in prometheus.ask("rules")["groups"]
                               for rule in group["rules"]), "all rules were evaluated")


if __name__ == "__main__":
    unittest.main()
