"""The command line, and what README.md promises."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from support import (DEMO, PATIENCE_S, Demo, DemoTest, Redis, make_config, make_folder, one_limit,
                     reserved_port, wait_until, write_config)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Command(DemoTest):
    def run_demo(self, *arguments):
        return subprocess.run([DEMO, *arguments], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)

    def check_config(self, config, *arguments):
        file = write_config(make_folder(self), config)
        return self.run_demo("--check", "--config", file, *arguments)

    def test_finds_its_own_policy_and_likes_it(self):
        done = self.run_demo("--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no errors", done.stdout)
        (warning,) = done.stderr.splitlines()
        self.assertIn("[cost-above-capacity]", warning, "an export is not for the free plan")

    def test_finds_its_own_policy_from_any_folder(self):
        done = subprocess.run([os.path.relpath(DEMO, "/"), "--check"], capture_output=True,
                              text=True, timeout=PATIENCE_S, cwd="/", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_says_what_is_wrong_with_a_file_and_what_was_meant(self):
        config = one_limit("ip", "5/minute")
        config["policies"]["only"]["limits"][0]["algoritm"] = "gcra"
        done = self.check_config(config)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/policies/only/limits/0", done.stderr, "(F7)")
        self.assertIn("algoritm", done.stderr)
        self.assertIn("algorithm", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_refuses_bad_files_when_it_checks_and_when_it_starts(self):
        bad_rate = one_limit("ip", "5/fortnight")
        no_policy = make_config({}, [("GET /ip", {"policy": "gone"})])
        later = {**one_limit("ip", "5/minute"), "include": ["more.json"]}
        for config in (bad_rate, no_policy, later, {"store": {"url": "sqlite:x"}}, {"store": 5},
                       {**one_limit("ip", "5/minute"), "store": {"url": "redis://h:99999"}},
                       []):
            for arguments in (["--check"], ["--listen", "127.0.0.1:0"]):
                file = write_config(make_folder(self), config)
                done = self.run_demo("--config", file, *arguments)
                self.assertEqual(done.returncode, 1, (config, done))
                self.assertIn(file, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_refuses_a_file_that_is_no_json_or_not_there(self):
        folder = make_folder(self)
        file = os.path.join(folder, "policy.json")
        for store in ([], ["--store", "memory:"]):
            done = self.run_demo("--check", "--config", file, *store)
            self.assertEqual(done.returncode, 1)
            self.assertIn(file, done.stderr)
        with open(file, "w", encoding="utf-8") as out:
            out.write('{\n  "policies": {,\n')
        for store in ([], ["--store", "memory:"]):
            done = self.run_demo("--check", "--config", file, *store)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{file}:2:", done.stderr, "it names the line")

    def test_prints_warnings_and_still_accepts_the_file(self):
        config = make_config(
            {"login": {"limits": [{"name": "a", "by": "ip", "rate": "5/minute"}],
                       "on_store_failure": "open"}},
            [("POST /login", {"auth": "none", "policy": "login"})],
        )
        done = self.check_config(config)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("[open-on-login]", done.stderr)
        demo = Demo(self, config)
        self.assertTrue(any("[open-on-login]" in line.get("text", "") for line in demo.lines()))

    def test_takes_another_store_than_the_files(self):
        redis = Redis(self)
        config = one_limit("ip", "5/minute")
        config["store"] = {"url": "memory:", "prefix": "other", "timeout": "10s"}
        demo = Demo(self, config, store=redis.url)
        self.assertEqual(demo.get("/ip").status, 200)
        keys = redis.command("KEYS", "*")
        self.assertTrue(keys and all(key.startswith("other:") for key in keys), keys)
        for url in ("sqlite:x", "", "127.0.0.1:6379", "${WEIR_NO_SUCH_VARIABLE}", "redis://h:99999"):
            done = self.check_config(config, "--store", url)
            self.assertEqual(done.returncode, 1)
            self.assertIn("weir-demo: --store: /store/url: ", done.stderr)
        config["store"]["memory"] = "64KiB"
        done = self.check_config(config, "--store", "memory:")
        self.assertIn(".json:1:", done.stderr)
        self.assertIn(": /store/memory: ", done.stderr)
        self.assertIn("128KiB", done.stderr)

    def test_names_lines_of_the_file_whatever_its_store_is(self):
        file = os.path.join(make_folder(self), "policy.json")
        cases = [
            ('"routes": [\n{"match": "GET /ip", "policy": "gone"}]', "policy.json:3:", 1),
            ('"routes": [\n{"match": "GET /ip", "cost": -1}]', "policy.json:3:", 1),
            ('"include":\n"policy.json"', "policy.json:2:1: /include: ", 1),
            ('"policies": {"login": {"limits":\n[{"name": "a", "by": "ip", "rate": "5/minute"}],'
             '\n"on_store_failure": "open"}}, "routes": [{"match": "POST /login", "auth": "none", '
             '"policy": "login"}]', "policy.json:4:", 0),
        ]
        for text, place, code in cases:
            with open(file, "w", encoding="utf-8") as out:
                out.write('{"store": {"url": "redis://127.0.0.1:1"},\n' + text + "}")
            for store in ([], ["--store", "memory:"]):
                done = self.run_demo("--check", "--config", file, *store)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(place, done.stderr, store)

    def test_waits_for_no_pipe_and_ignores_none(self):
        folder = make_folder(self)
        pipe = os.path.join(folder, "policy.json")
        os.mkfifo(pipe)
        for store in ([], ["--store", "memory:"]):
            done = self.run_demo("--check", "--config", pipe, *store)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("it is a pipe", done.stderr)
        config = one_limit("ip", "5/minute")
        del config["api_keys"]
        text = json.dumps(config)
        for store, code in (([], 0), (["--store", "redis://127.0.0.1:1"], 1)):
            done = subprocess.run([DEMO, "--check", "--config", "/dev/stdin", *store], input=text,
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_leaves_the_files_settings_for_tls_to_the_files_store(self):
        config = one_limit("ip", "5/minute")
        config["store"] = {"url": "rediss://127.0.0.1:1", "tls": {"ca_file": "gone.pem"}}
        for store in ("memory:", "redis://127.0.0.1:1"):
            done = self.check_config(config, "--store", store)
            self.assertEqual(done.returncode, 0, done.stderr)
        for store in ([], ["--store", "rediss://127.0.0.1:1"]):
            done = self.check_config(config, *store)
            self.assertEqual(done.returncode, 1, store)
            self.assertIn("/store/", done.stderr)

    def test_keeps_a_password_of_the_store_out_of_sight(self):
        config = one_limit("ip", "5/minute")
        config["store"] = {"url": "redis://ann:hunter-2000@127.0.0.1:1/0"}
        demo = Demo(self, config)
        self.assertEqual(demo.get("/ip").status, 200)
        self.assertNotIn("hunter-2000", demo.log() + demo.get("/healthz").body.decode())

    def test_says_what_to_type_for_options_it_does_not_know(self):
        for arguments in (["--confg"], ["-x"], ["--threads", "many"], ["--threads", "0"],
                          ["--mode", "fast"], ["--config"], ["serve"]):
            done = self.run_demo(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(arguments[-1], done.stderr)
            self.assertIn("weir-demo --help", done.stderr)

    def test_says_what_is_wrong_with_where_to_listen(self):
        demo = Demo(self)
        taken = "{}:{}".format(*demo.where)
        for where in ("8080", ":8080", "127.0.0.1:", "::1:8080", "127.0.0.1:99999999", taken,
                      "unix:", "unix:/" + "x" * 200):
            done = self.run_demo("--listen", where)
            self.assertEqual(done.returncode, 1, where)
            self.assertTrue(done.stderr.startswith("weir-demo: "), done.stderr)

    def test_has_help_and_a_version(self):
        self.assertIn("--listen ADDR:PORT", self.run_demo("--help").stdout)
        self.assertRegex(self.run_demo("--version").stdout, r"^weir-demo \d+\.\d+\.\d+\n$")

    def test_reloads_its_own_policy_when_it_is_asked_to(self):
        demo = Demo(self)
        demo.send(signal.SIGHUP)
        wait_until(lambda: "generation 2" in demo.log(), "it is logged")
        self.assertEqual(demo.get("/healthz").status, 200)

    def test_logs_one_json_line_for_what_is_not_a_plain_allow(self):
        demo = Demo(self, one_limit("ip", "1/hour"))
        self.assertEqual(demo.get("/ip").status, 200)
        self.assertEqual([line for line in demo.lines() if "decision" in line], [])
        self.assertEqual(demo.get("/%ff%22%0a").status, 429)
        (line,) = demo.decisions("limited")
        self.assertEqual((line["method"], line["client"], line["policy"], line["limit"]),
                         ("GET", "127.0.0.1/32", "only", "only"))
        self.assertEqual(line["path"], '/\ufffd"\n', "what is no UTF-8 is still logged")
        self.assertGreater(line["retry_s"], 3000)


class Tls(DemoTest):
    """Redis behind TLS, where weir was built with it; else how that is said."""

    def make_certificate(self, folder):
        """A certificate for localhost that signs itself, so that it is its own authority."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", "redis.key",
                        "-out", "redis.pem"],
                       cwd=folder, capture_output=True, timeout=PATIENCE_S, check=True)

    def start_redis(self, folder):
        redis = Redis(self)
        self.port = reserved_port(self)
        self.assertEqual(redis.command(
            "CONFIG", "SET", "tls-cert-file", f"{folder}/redis.pem", "tls-key-file",
            f"{folder}/redis.key", "tls-ca-cert-file", f"{folder}/redis.pem", "tls-auth-clients",
            "no", "tls-port", str(self.port)), "OK")

    def write(self, folder, tls):
        config = one_limit("ip", "2/hour")
        config["policies"]["only"]["on_store_failure"] = "closed"
        config["store"] = {"url": f"rediss://localhost:{self.port}", "timeout": "10s", "tls": tls}
        return write_config(folder, config)

    def is_built(self, folder):
        self.port = 1
        done = subprocess.run([DEMO, "--check", "--config", self.write(folder, {})],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 0:
            self.assertIn("[not-built]", done.stderr)
        return done.returncode == 0

    def test_is_spoken_as_the_policy_file_says(self):
        folder = make_folder(self)
        if not self.is_built(folder):
            return
        self.make_certificate(folder)
        self.start_redis(folder)
        file = self.write(folder, {"ca_file": "redis.pem"})
        demo = Demo(self, options=["--config", file])
        self.assertEqual([demo.get("/ip").status for _ in range(3)], [200, 200, 429])
        file = self.write(folder, {})
        demo = Demo(self, options=["--config", file])
        self.assertEqual(demo.get("/ip").status, 503)
        self.assertIn("TLS: its certificate: ", demo.log())


class Readme(DemoTest):
    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_shows_commands_whose_answers_are_what_it_says(self):
        demo = Demo(self)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            commands = re.findall(r"^curl (.*?) +# (\d+)", file.read(), re.MULTILINE)
        self.assertGreaterEqual(len(commands), 3)
        for command, status in commands:
            command = command.replace("http://127.0.0.1:8080", demo.url)
            done = subprocess.run(f"curl -sS {command}", shell=True, capture_output=True,
                                  text=True, timeout=PATIENCE_S, check=True)
            self.assertEqual(done.stdout.split()[1], status, command)
            shows = "RateLimit: " in done.stdout
            self.assertEqual(shows, status == "200" and "X-API-Key" in command, command)


if __name__ == "__main__":
    unittest.main()
