"""The program weir, from outside: what it prints, how it ends, and what its manual says of it."""

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import unittest

from support import (PATIENCE_S, Demo, DemoTest, Redis, make_config, make_folder, one_limit,
                     wait_until, write_config)

TOOL = os.environ["WEIR_TOOL"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMPLETION = os.path.join(ROOT, "lib", "tools", "completion")


def weir(*arguments, **how):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, **how)


def read(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def listed(text):
    """The names that a help lists, each at the start of its line behind two blanks."""
    return re.findall(r"^  ([a-z]+)  ", text, re.MULTILINE)


def commands():
    """Every command line that there is, as its words."""
    found = []
    for name in listed(weir("--help").stdout):
        actions = listed(weir(name, "--help").stdout)
        found += [(name, action) for action in actions] or [(name,)]
    return found


def options_of(command):
    return set(re.findall(r"^  (--[a-z-]+)", weir(*command, "--help").stdout, re.MULTILINE))


class Program(DemoTest):
    def test_lists_its_commands_and_tells_of_each(self):
        for arguments in (["--help"], ["-h"], ["help"]):
            done = weir(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("  check ", done.stdout)
        self.assertGreaterEqual(len(commands()), 7)
        for command in commands():
            done = weir(*command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertTrue(done.stdout.startswith("usage: weir " + " ".join(command)), done.stdout)
            self.assertEqual(weir("help", *command).stdout, done.stdout)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100, done.stdout)

    def test_says_what_was_meant_and_ends_with_2(self):
        rows = [
            ([], "usage: weir"),
            (["chekc"], 'did you mean "weir check"?'),
            (["--helpp"], "weir --help"),
            (["help", "bensh"], 'did you mean "weir bench"?'),
            (["check"], '"weir check FILE…"'),
            (["check", "--strickt", "x.json"], 'did you mean "--strict"?'),
            (["check", "--json=yes", "x.json"], "--json takes no value"),
            (["check", "--expand", "x.json", "y.json"], "--expand"),
            (["bench"], "--policy FILE"),
            (["bench", "--policy"], "Nothing follows --policy"),
            (["bench", "--policy", "x.json", "y.json"], "y.json"),
            (["bench", "--policy", "x.json", "--threads", "0"], "from 1 to 256"),
            (["keys"], "usage: weir keys"),
            (["keys", "lok"], 'did you mean "weir keys look"?'),
            (["keys", "look"], "--policy FILE"),
            (["keys", "look", "--policy", "x.json"], "--name POLICY"),
            (["keys", "block", "--policy", "x.json", "--name", "a"], "--for TIME"),
            (["keys", "block", "--policy", "x.json", "--name", "a", "--for", "soon"], "soon"),
            (["keys", "look", "--policy", "x.json", "--name", "a", "--value", "X"], "header:X-Device=a1"),
            (["keys", "unblock", "--policy", "x.json", "--name", "a", "--id", "b"], "--id"),
        ]
        for arguments, said in rows:
            done = weir(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(said, done.stderr, arguments)

    def test_tells_its_version(self):
        self.assertRegex(weir("--version").stdout, r"^weir \d+\.\d+\.\d+\n$")

    def test_is_not_upset_by_a_reader_who_has_seen_enough(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([TOOL, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_says_when_its_output_is_lost(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([TOOL, "--help"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot be written", done.stderr)

    def on_a_terminal(self, *arguments, **variables):
        """What the program writes when its standard error is a terminal."""
        terminal, end = pty.openpty()
        subprocess.run([TOOL, *arguments], stdout=subprocess.DEVNULL, stderr=end, timeout=PATIENCE_S,
                       check=False, env={**os.environ, "TERM": "xterm", **variables})
        os.close(end)
        said = os.read(terminal, 65536).decode()
        os.close(terminal)
        return said

    def test_is_in_colours_on_a_terminal_unless_told_otherwise(self):
        missing = os.path.join(make_folder(self), "gone.json")
        self.assertIn("\033[31merror", self.on_a_terminal("check", missing, NO_COLOR=""))
        self.assertNotIn("\033", self.on_a_terminal("check", missing, NO_COLOR="1"))
        self.assertNotIn("\033", self.on_a_terminal("check", missing, TERM="dumb"))
        self.assertNotIn("\033", weir("check", missing).stderr)


class Manual(DemoTest):
    def test_says_the_same_as_the_help(self):
        for name in {command[0] for command in commands()}:
            offered = set().union(*(options_of(c) for c in commands() if c[0] == name))
            page = read("docs", "man", f"weir-{name}.1")
            described = set(re.findall(r"^\.It Fl (-[a-z-]+)", page, re.MULTILINE))
            self.assertEqual({option[1:] for option in offered}, described, name)
            self.assertIn(f".It Cm {name}", read("docs", "man", "weir.1"))
            self.assertIn(f"\n## `weir {name}`\n", read("docs", "cli.md"))

    def test_names_every_member_of_a_policy_file(self):
        folder = os.path.join(ROOT, "lib", "policy")
        sources = [read(folder, name) for name in os.listdir(folder)
                   if name.startswith("policy_json") and name.endswith(".c")]
        members = set(re.findall(r'\{ "([a-z_0-9]+)", *(?!weir_preset)(?:NULL|[a-z]\w+),', "".join(sources)))
        self.assertGreater(len(members), 80)
        rows = re.findall(r"^\.It Cm (.*)$", read("docs", "man", "weir-policy.5"), re.MULTILINE)
        self.assertLessEqual(members, {name for row in rows for name in row.split(" , ")})

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_is_written_as_manuals_are(self):
        folder = os.path.join(ROOT, "docs", "man")
        pages = sorted(name for name in os.listdir(folder) if re.search(r"\.\d$", name))
        done = subprocess.run(["mandoc", "-Tlint", *pages], cwd=folder, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.stdout + done.stderr, "")


class Completion(DemoTest):
    """Each shell offers the commands and their options, and nothing else."""

    def offered_by_bash(self, *words):
        script = f"""source "{COMPLETION}/weir.bash"
            COMP_WORDS=(weir "$@"); COMP_CWORD=$#; _weir; printf '%s\\n' "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=True)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def offered_by_fish(self, *words):
        line = " ".join(("weir", *words))
        done = subprocess.run(
            ["fish", "-c", f"source '{COMPLETION}/weir.fish'; complete -C '{line}'"],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True,
            env={**os.environ, "HOME": make_folder(self)})
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    def check_offers(self, offered):
        names = {command[0] for command in commands()}
        self.assertEqual({word for word in offered("") if not word.startswith("-")}, names | {"help"})
        self.assertEqual(offered("help", ""), names)
        for command in commands():
            if len(command) == 2:
                actions = {c[1] for c in commands() if c[0] == command[0]}
                self.assertEqual({word for word in offered(command[0], "") if word[0] != "-"}, actions)
            self.assertEqual(offered(*command, "--"), options_of(command), command)

    def test_by_bash_is_what_the_help_says(self):
        self.check_offers(self.offered_by_bash)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_by_fish_is_what_the_help_says(self):
        self.check_offers(self.offered_by_fish)

    def test_of_zsh_and_fish_names_the_same_options(self):
        every = set().union(*(options_of(command) for command in commands()))
        script = read("lib", "tools", "completion", "_weir")
        self.assertEqual(set(re.findall(r"['\")*](--[a-z-]+)\[", script)), every | {"--version"})
        script = read("lib", "tools", "completion", "weir.fish")
        self.assertEqual({"--" + name for name in re.findall(r"^complete .* -l ([a-z-]+)", script, re.MULTILINE)},
                         every | {"--version"})

    def test_is_shell_that_each_shell_can_read(self):
        for shell, script in (("bash", "weir.bash"), ("zsh", "_weir"), ("fish", "weir.fish")):
            if shutil.which(shell):
                subprocess.run([shell, "-n", os.path.join(COMPLETION, script)], timeout=PATIENCE_S,
                               check=True)


class Check(DemoTest):
    def write(self, config):
        return write_config(make_folder(self), config)

    def test_likes_a_file_that_a_server_takes(self):
        file = os.path.join(ROOT, "demo-server", "policy.json")
        done = weir("check", file)
        self.assertEqual((done.returncode, done.stdout), (0, f"{file}: no errors, 1 warning\n"))
        self.assertRegex(done.stderr, rf"^{re.escape(file)}:\d+:\d+: warning: /routes/\d+/cost: "
                                      r".* \[cost-above-capacity\]\n$")
        self.assertEqual(weir("check", "--strict", file).returncode, 1)

    def test_says_what_is_wrong_in_one_line_each(self):
        bad = one_limit("ip", "5/minute")
        bad["policies"]["only"]["limits"][0]["algoritm"] = "gcra"
        rows = [
            (bad, r'/policies/only/limits/0/algoritm: .*did you mean "algorithm"\? \[unknown-key\]'),
            (one_limit("ip", "5/fortnight"), r"\[value\]"),
            ({**one_limit("ip", "5/minute"), "store": {"url": "sqlite:x"}}, r"/store/url: .*\[value\]"),
            ({**one_limit("ip", "5/minute"), "store": {"url": "redis://h:99999"}}, r"/store/url: "),
            ({**one_limit("ip", "5/minute"), "store": {"url": "${WEIR_NO_SUCH_VARIABLE}"}},
             r"WEIR_NO_SUCH_VARIABLE.*\[environment\]"),
        ]
        good = self.write(one_limit("ip", "5/minute"))
        for config, said in rows:
            file = self.write(config)
            done = weir("check", file, good)
            self.assertEqual(done.returncode, 1, config)
            errors = [line for line in done.stderr.splitlines() if ": warning: " not in line]
            self.assertEqual(len(errors), 1, errors)
            self.assertRegex(errors[0], rf"^{re.escape(file)}(:\d+:\d+)?: error: .*{said}")
            self.assertTrue(done.stdout.startswith(f"{good}: no errors, "), "the other is looked at too")

    def test_shows_odd_texts_so_that_nobody_is_harmed(self):
        bad = one_limit("ip", "5/minute")
        bad["policies"]["only"]["limits"][0]["rate"] = "\u001b[2J" + "ä" * 400
        folder = make_folder(self).encode() + b"/caf\xe9"
        os.rename(os.path.dirname(write_config(make_folder(self), bad)).encode(), folder)
        done = subprocess.run([TOOL, "check", folder + b"/policy.json"], capture_output=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn(b"\033", done.stderr)
        self.assertIn("ä".encode(), done.stderr)
        done = subprocess.run([TOOL, "check", "--json", folder + b"/policy.json"], capture_output=True,
                              timeout=PATIENCE_S, check=False)
        (file,) = json.loads(done.stdout.decode())["files"]
        self.assertTrue(file["file"].endswith("/caf?/policy.json"), file["file"])
        self.assertEqual(file["errors"][0]["path"], "/policies/only/limits/0/rate")

    def test_names_the_included_file_that_is_wrong(self):
        file = self.write({**one_limit("ip", "5/minute"), "include": ["more.json"]})
        more = os.path.join(os.path.dirname(file), "more.json")
        with open(more, "w", encoding="utf-8") as out:
            json.dump({"policies": {"more": {"limits": [{"name": "a", "by": "ip", "rate": "5/mnute"}]}}}, out)
        done = weir("check", file)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"^{re.escape(more)}:1:\d+: error: /policies/more/limits/0/rate: ")
        (error,) = json.loads(weir("check", "--json", file).stdout)["files"][0]["errors"]
        self.assertEqual(error["file"], more)

    def test_finds_a_file_that_is_not_there_or_no_json(self):
        file = os.path.join(make_folder(self), "policy.json")
        self.assertRegex(weir("check", file).stderr, r": error: .*\[file\]\n$")
        with open(file, "w", encoding="utf-8") as out:
            out.write('{\n  "policies": {,\n')
        done = weir("check", file)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"^{re.escape(file)}:2:\d+: error: .*\[json\]\n$")

    def test_connects_to_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            url = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
            done = weir("check", self.write({**one_limit("ip", "5/minute"), "store": {"url": url}}))
            self.assertEqual(done.returncode, 0, done.stderr)
            with self.assertRaises(BlockingIOError):
                server.accept()

    def test_prints_the_file_as_it_is_meant_and_no_secret(self):
        config = make_config({"login": {"preset": "login"}}, [("POST /login", {"auth": "none", "policy": "login"})])
        config["store"] = {"url": "redis://ann:hunter-2000@h/0"}
        config["secret"] = "a long secret that nobody is shown"
        done = weir("check", "--expand", self.write(config))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(json.loads(done.stdout)["policies"]["login"]["limits"]), 1)
        for secret in ("hunter-2000", config["secret"]):
            self.assertNotIn(secret, done.stdout + done.stderr)

    def test_tells_programs_the_same(self):
        good = os.path.join(ROOT, "demo-server", "policy.json")
        bad = self.write(one_limit("ip", "5/fortnight"))
        done = weir("check", "--json", "--expand", good, bad)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        found = json.loads(done.stdout)
        self.assertEqual((found["ok"], found["errors"], found["warnings"]), (False, 1, 1))
        first, second = found["files"]
        self.assertEqual((first["file"], first["errors"]), (good, []))
        self.assertEqual(first["warnings"][0]["code"], "cost-above-capacity")
        self.assertIn("limits", first["expanded"]["policies"]["login"])
        (error,) = second["errors"]
        self.assertEqual((error["code"], error["path"]), ("value", "/policies/only/limits/0/rate"))
        self.assertGreater(error["line"], 0)
        self.assertTrue(json.loads(weir("check", "--json", good).stdout)["ok"])
        strict = weir("check", "--json", "--strict", good)
        self.assertEqual((strict.returncode, json.loads(strict.stdout)["ok"]), (1, False))


class Bench(DemoTest):
    CONFIG = make_config(
        {"api": [{"name": "client", "by": "client", "rate": "5/hour"},
                 {"name": "all", "by": "global", "rate": "1000000/hour"}],
         "device": [{"name": "pair", "by": ["ip", "header:X-Device"], "rate": "5/hour"},
                    {"name": "key", "by": "api_key", "rate": "1000000/hour"}]},
        [("* /*", {"auth": "none", "policy": "api"})])

    def bench(self, *arguments, **store):
        file = write_config(make_folder(self), {**self.CONFIG, "store": {"url": "memory:", **store}})
        return weir("bench", "--policy", file, *arguments)

    def test_measures_each_policy(self):
        done = self.bench("--requests", "400", "--clients", "10", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((found["store"], found["threads"], found["clients"]), ("memory", 2, 10))
        self.assertEqual([row["name"] for row in found["policies"]], ["api", "device"])
        for row in found["policies"]:
            self.assertEqual((row["decisions"], row["allowed"], row["refused"], row["failed"]),
                             (400, 50, 350, 0), "all limits apply, and each client has 5")
            took = row["latency_us"]
            self.assertLessEqual(0, took["p50"])
            self.assertLessEqual(took["p50"], took["p99"])
            self.assertLessEqual(took["p99"], took["max"])
            self.assertGreater(row["per_s"], 0)

    def test_shows_people_a_table(self):
        done = self.bench("--requests", "10", "--name", "api")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"POLICY +DECISIONS/S .*\napi +\d+ +10 +0 +0 ")
        self.assertNotIn("device", done.stdout)

    def test_leaves_nothing_in_redis_and_touches_nobody(self):
        redis = Redis(self)
        redis.command("SET", "weir:{somebody}:api:client", "untouched")
        done = self.bench("--requests", "400", "--clients", "10", "--json", url=redis.url, prefix="weir")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual([(row["allowed"], row["failed"]) for row in found["policies"]], [(50, 0), (50, 0)])
        self.assertEqual(redis.command("KEYS", "*"), ["weir:{somebody}:api:client"])

    def test_cleans_up_when_it_is_interrupted(self):
        redis = Redis(self)
        file = write_config(make_folder(self), {**self.CONFIG, "store": {"url": redis.url}})
        process = subprocess.Popen([TOOL, "bench", "--policy", file, "--seconds", "600", "--clients", "20"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: redis.command("KEYS", "weir-bench:*"), "it has begun")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0)
        self.assertIn("api", said)
        self.assertEqual(redis.command("KEYS", "*"), [])

    def test_says_when_nobody_answers(self):
        done = self.bench(url="redis://127.0.0.1:1/0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("127.0.0.1:1", done.stderr)
        self.assertIn("refused", done.stderr)

    def test_says_what_is_not_in_the_file(self):
        done = self.bench("--name", "apo")
        self.assertEqual(done.returncode, 1)
        self.assertIn('did you mean "api"?', done.stderr)
        self.assertIn('no plan "gold"', self.bench("--plan", "gold").stderr)


class Keys(DemoTest):
    CONFIG = make_config(
        {"only": [{"name": "minute", "by": "client", "rate": "3/hour"},
                  {"name": "day", "by": "client", "rate": "100/day"}],
         "login": [{"name": "account", "by": "field:username", "rate": "5/hour"}]},
        [("POST /login", {"auth": "none", "policy": "login"}),
         ("* /v1/*", {"auth": "required", "policy": "only"}),
         ("* /*", {"auth": "none", "policy": "only"})])

    def setUp(self):
        super().setUp()
        self.redis = Redis(self)
        self.config = {**self.CONFIG, "secret": "between the server and the tool", "store":
                       {"url": self.redis.url, "timeout": "10s", "denial_cache": "0s"}}
        self.demo = Demo(self, self.config)
        self.file = write_config(make_folder(self), self.config)

    def keys(self, action, *arguments):
        return weir("keys", action, "--policy", self.file, *arguments)

    def done(self, action, *arguments):
        """What a call that must succeed answers to programs."""
        done = self.keys(action, *arguments, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return json.loads(done.stdout)

    def test_look_without_spending(self):
        whom = ("--name", "only", "--ip", "127.0.0.1")
        self.assertEqual(self.demo.get("/ip").status, 200)
        for _ in range(5):
            limits = {row["name"]: row for row in self.done("look", *whom)["limits"]}
            self.assertEqual((limits["minute"]["remaining"], limits["minute"]["limit"]), (2, 3), "(F22)")
            self.assertEqual(limits["day"]["remaining"], 99)
        self.assertEqual(len(self.done("look", *whom, "--limit", "day")["limits"]), 1)
        shown = self.keys("look", *whom).stdout
        self.assertRegex(shown, r"LIMIT +KEY +LEFT +OF +IN .*\nminute +ip:127\.0\.0\.1/32 +2 +3 +1 h ")

    def test_reset_lets_who_was_refused_in_at_once(self):
        while self.demo.get("/ip").status == 200:
            pass
        done = self.keys("reset", "--name", "only", "--ip", "127.0.0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("127.0.0.1/32", done.stdout)
        self.assertEqual(self.demo.get("/ip").status, 200, "(F18)")

    def test_take_an_api_key_by_its_public_id(self):
        self.assertEqual(self.demo.get("/v1/catalog", {"X-API-Key": "free-demo-key"}).status, 200)
        limits = self.done("look", "--name", "only", "--api-key", "acme-free")["limits"]
        self.assertEqual(limits[0]["remaining"], 2)
        done = self.keys("look", "--name", "only", "--api-key", "nobody")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody", done.stderr)

    def test_block_list_and_unblock(self):
        whom = ("--name", "only", "--ip", "127.0.0.1")
        self.assertIn("Nobody is blocked.", self.keys("blocks").stdout)
        done = self.keys("block", *whom, "--for", "1h", "--reason", "scraping")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.demo.get("/ip").status, 429)
        (block,) = self.done("blocks")["blocks"]
        self.assertEqual((block["policy"], block["reason"]), ("only", "scraping"))
        self.assertIn("weir keys", block["by"])
        self.assertIn(block["id"], done.stdout, "it says how to end it")
        self.assertRegex(self.keys("blocks").stdout, r"only +all +ip:127\.0\.0\.1/32 +(1 h|59 min).*scraping")
        self.assertTrue(all(row["blocked"] for row in self.done("look", *whom)["limits"]))
        live = weir("explain", "--policy", self.file, "--live", "--path", "/ip", "--peer", "127.0.0.1")
        self.assertRegex(live.stdout, r"blocked until \S+ by weir keys, \S+ \(scraping\), refuses")
        done = self.keys("unblock", *whom)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.demo.get("/ip").status, 200)
        self.assertEqual(self.done("blocks")["blocks"], [])

    def test_unblock_by_the_row_of_the_list(self):
        field = "field:username=Ann"
        self.done("block", "--name", "login", "--value", field, "--for", "15m")
        (block,) = self.done("blocks")["blocks"]
        self.assertNotIn("ann", block["key"].lower().replace("username", ""), "what was sent stays hidden")
        self.assertEqual(self.keys("unblock", "--id", block["id"]).returncode, 0)
        self.assertEqual(self.done("blocks")["blocks"], [])
        done = self.keys("unblock", "--id", block["id"])
        self.assertEqual(done.returncode, 1, "it is gone")

    def test_reset_though_the_list_of_blocks_cannot_be_read(self):
        whom = ("--name", "only", "--ip", "127.0.0.1")
        self.assertEqual(self.demo.get("/ip").status, 200)
        self.redis.command("SET", "weir::blocks", "no list")
        look, reset = self.keys("look", *whom), self.keys("reset", *whom)
        self.assertRegex(look.stdout, r"\nminute +ip:127\.0\.0\.1/32 +2 +3 .* \?\n")
        self.assertIn("Forgotten is what ip:127.0.0.1/32 has spent", reset.stdout)
        for done in (look, reset):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("weir: The list of blocks stays as it is. What the store keeps as PREFIX::blocks", done.stderr)
        self.assertEqual(self.done("look", *whom)["limits"][0]["remaining"], 3)

    def test_say_once_that_nobody_answers(self):
        self.redis.stop_answering()
        done = self.keys("look", "--name", "only", "--ip", "127.0.0.1")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"weir: The store, redis at {self.redis.path}, does not answer: "
                                      "no answer within 1 s.\n")

    def test_say_what_cannot_be(self):
        memory = write_config(make_folder(self), one_limit("ip", "5/minute"))
        rows = [
            (("--policy", memory, "--name", "only", "--ip", "127.0.0.1"), "admin API"),
            (("--name", "only"), 'No limit of the policy "only"'),
            (("--name", "onyl", "--ip", "127.0.0.1"), "only"),
            (("--name", "only", "--ip", "localhost"), "localhost"),
            (("--name", "only", "--value", "cookie:a=b"), "header:NAME"),
            (("--name", "only", "--ip", "127.0.0.1", "--store", "redis://127.0.0.1:1"), "refused"),
            (("--name", "only", "--ip", "127.0.0.1", "--store", "sqlite:x"), "--store"),
        ]
        for arguments, said in rows:
            done = self.keys("look", *arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
