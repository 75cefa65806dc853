"""What /metrics says, held against promtool, Redis, and the files in docs/ that name metrics."""

import json
import pathlib
import re
import signal
import subprocess
import unittest

from support import PRO, Demo, DemoTest, Redis, make_config, make_folder, wait_until

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
RULES = DOCS / "weir-alerts.yml"
OPEN = {"Accept": "application/openmetrics-text;version=1.0.0"}

# Some of all there is to count.
CONFIG = make_config(
    {
        "api": [
            {"name": "daily", "by": "api_key", "rate": "1000/day", "algorithm": "fixed-window",
             "start": "first"},
            {"name": "burst", "by": "api_key", "rate": "20/hour", "burst": 60},
        ],
        "leased": [{"name": "all", "by": "global", "rate": "100000/day",
                    "algorithm": "fixed-window", "start": "first", "lease": {"batch": 50}}],
        "shop": {"limits": [{"name": "address", "by": "ip", "rate": "2/hour"}],
                 "concurrency": {"group": "shop", "adaptive": {}},
                 "on_store_failure": "memory"},
        "watched": {"limits": [{"name": "address", "by": "ip", "rate": "1/hour"}],
                    "mode": "shadow"},
    },
    [
        ("GET /v1/search", {"auth": "required", "policy": "api", "cost": 5}),
        ("GET /v1/quota", {"auth": "required", "policy": "api", "cost": 0}),
        ("GET /v1/catalog", {"auth": "required", "policy": "leased"}),
        ("GET /ip", {"auth": "none", "policy": "shop"}),
        ("GET /healthz", {"auth": "none", "policy": "watched"}),
    ],
)

SAMPLE = re.compile(r'(\w+)(\{(?:\w+="(?:[^"\\]|\\.)*",?)*\})? (\S+)')


def run_promtool(*arguments, text=None):
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True,
                          timeout=60, check=False)


def samples(text):
    """{'weir_x_total{a="b"}': 1.0}; a sample that stands there twice fails."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.fullmatch(line)
        assert match, f"no sample: {line!r}"
        name = match[1] + (match[2] or "")
        assert name not in found, f"twice: {line!r}"
        found[name] = float(match[3])
    return found


def families(text):
    return re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)


def with_store(url):
    return {**CONFIG, "store": {"url": url, "timeout": "10s", "denial_cache": "5s"}}


class Metrics(DemoTest):
    def start(self, config):
        self.demo = Demo(self, config)
        self.client = self.demo.client()

    def text(self, headers=None):
        answer = self.client.get("/metrics", headers)
        self.assertEqual(answer.status, 200)
        return answer.body.decode()

    def numbers(self):
        return samples(self.text())

    def decisions(self, policy, limit, outcome, source):
        return self.numbers().get(
            f'weir_decisions_total{{policy="{policy}",limit="{limit}",'
            f'outcome="{outcome}",source="{source}"}}', 0)

    def units(self, fate, policy, limit, store="main"):
        return self.numbers().get(
            f'weir_units_{fate}_total{{policy="{policy}",limit="{limit}",store="{store}"}}', 0)

    def ask_for_all(self):
        for _ in range(5):
            self.client.get("/v1/search?q=gate", PRO)
            self.client.get("/v1/catalog", PRO)
            self.client.get("/ip")
            self.client.get("/healthz")
            self.client.get("/v1/quota")  # 401

    def left(self, limit):
        quotas = self.client.get("/v1/quota", PRO).json()["limits"]
        return next(quota["remaining"] for quota in quotas if quota["name"] == limit)


class WithRedis(Metrics):
    def setUp(self):
        self.redis = Redis(self)
        self.start(with_store(self.redis.url))
        wait_until(lambda: self.numbers()['weir_breaker_state{state="closed"}'] == 1,
                   "Redis is found")

    def test_pleases_promtool(self):
        self.ask_for_all()
        checked = run_promtool("check", "metrics", text=self.text())
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))

    def test_says_the_same_in_both_forms(self):
        self.ask_for_all()
        plain, opened = self.text(), self.text(OPEN)
        self.assertTrue(opened.endswith("# EOF\n"))
        self.assertEqual(samples(plain).keys(), samples(opened).keys())
        self.assertEqual(samples(plain)['weir_units_spent_total{policy="api",limit="daily",'
                                        'store="main"}'],
                         samples(opened)['weir_units_spent_total{policy="api",limit="daily",'
                                         'store="main"}'])

    def test_counts_each_request_once(self):
        self.ask_for_all()
        self.assertEqual(self.decisions("api", "", "allowed", "store"), 5)
        self.assertEqual(self.decisions("shop", "", "allowed", "store"), 2)
        refused = [self.decisions("shop", "address", "limited", source)
                   for source in ("store", "denials")]
        self.assertEqual((sum(refused), refused[0] >= 1), (3, True))
        self.assertEqual(self.numbers()["weir_denials_total"] >= refused[1], True)
        shadow = [self.decisions("watched", "address", "shadow-limited", source)
                  for source in ("store", "denials")]
        self.assertEqual(sum(shadow), 4)
        total = sum(number for name, number in self.numbers().items()
                    if name.startswith("weir_decisions_total") and 'unauthenticated' in name)
        self.assertEqual(total, 5)

    def test_agrees_with_what_redis_has(self):
        """B7"""
        for _ in range(20):
            self.client.get("/v1/search?q=gate", PRO)  # 5 units, and some of them come back
        wait_until(lambda: 1000 - self.left("daily")
                   == self.units("spent", "api", "daily") - self.units("returned", "api", "daily"),
                   "what was given back has arrived")
        self.assertGreater(self.units("returned", "api", "daily"), 0)
        self.assertGreater(self.units("spent", "api", "daily"), 0)
        self.assertEqual(self.units("unsure", "api", "daily"), 0)
        self.assertGreater(self.numbers()["weir_store_latency_seconds_count"], 0)

    def test_goes_on_counting_after_reloads(self):
        """F12"""
        self.client.get("/v1/search?q=gate", PRO)
        for generation in range(2, 5):
            self.demo.send(signal.SIGHUP)
            wait_until(lambda: self.numbers()["weir_policy_generation"] == generation,
                       "the policy was loaded again")
            self.client.get("/v1/search?q=gate", PRO)
        self.assertEqual(self.decisions("api", "", "allowed", "store"), 4)
        self.assertEqual(self.numbers()['weir_policy_reloads_total{result="success"}'], 3)
        self.assertEqual(len(set(families(self.text()))), len(families(self.text())))

    def test_answers_while_redis_does_not(self):
        self.redis.kill()
        wait_until(lambda: self.numbers()['weir_store_up{store="redis"}'] == 0,
                   "the store is known to be down")
        self.client.get("/v1/search?q=gate", PRO)
        self.client.get("/ip")
        numbers = self.numbers()
        self.assertEqual(numbers['weir_breaker_state{state="closed"}'], 0)
        self.assertGreaterEqual(numbers['weir_store_failures_total{kind="unavailable"}'], 2)
        self.assertEqual(self.decisions("api", "", "failed-open", "none"), 1)
        self.assertEqual(self.decisions("shop", "", "allowed", "memory"), 1)
        self.assertEqual(self.units("spent", "shop", "address", "fallback"), 1)

    def test_has_all_that_docs_name(self):
        self.ask_for_all()
        text = self.text()
        known = set(families(text)) | {name.split("{")[0] for name in samples(text)}
        dashboard = json.loads((DOCS / "weir-grafana.json").read_text())
        named = {
            "weir-grafana.json": json.dumps(dashboard),
            "weir-alerts.yml": RULES.read_text(),
            "metrics.md": (DOCS / "metrics.md").read_text(),
        }
        for file, content in named.items():
            for name in re.findall(r"\bweir_\w+\b(?!\()", content):
                self.assertIn(name, known, file)
        for name in families(text):
            self.assertIn(f"`{name}`", named["metrics.md"])
            self.assertTrue(any(name in named[file] for file in named if file != "metrics.md")
                            or name == "weir_build_info", f"{name} is on no dashboard")


class Late(Metrics):
    def test_is_as_unsure_as_it_must_be(self):
        """Redis counts what it answers too late, and nobody here knows of which limit."""
        redis = Redis(self)
        config = with_store(redis.url)
        config["store"]["timeout"] = "1s"
        self.start(config)
        wait_until(lambda: self.client.get("/v1/quota", PRO).status == 200, "Redis is found")
        redis.stop_answering()
        self.assertEqual(self.client.get("/v1/search?q=gate", PRO).status, 200)
        redis.go_on()
        wait_until(lambda: self.left("daily") and self.numbers()["weir_store_late_answers_total"] > 0,
                   "the answer has come")
        self.assertEqual(self.decisions("api", "", "failed-open", "none"), 1)
        self.assertEqual((self.units("spent", "api", "daily"), self.units("unsure", "api", "daily")),
                         (0, 5))
        self.assertEqual(self.left("daily"), 995)


class Rules(unittest.TestCase):
    def test_hold_for_series_made_by_hand(self):
        checked = run_promtool("check", "rules", str(RULES))
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        cases = (pathlib.Path(__file__).parent / "metrics_alerts.yml").read_text()
        file = pathlib.Path(make_folder(self)) / "cases.yml"
        file.write_text(cases.replace("[RULES]", f"[{RULES}]"))
        tested = run_promtool("test", "rules", str(file))
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)

    def test_are_all_described(self):
        operate = (DOCS / "metrics.md").read_text()
        for alert in re.findall(r"alert: (\w+)", RULES.read_text()):
            self.assertIn(f"`{alert}`", operate)


if __name__ == "__main__":
    unittest.main()
