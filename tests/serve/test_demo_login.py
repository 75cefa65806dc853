"""POST /login: what a guesser may and may not learn."""

import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import unittest

from login_support import own_policy
from support import FREE, PRO, Demo, DemoTest, make_config

FORM = "application/x-www-form-urlencoded"
RIGHT = "username=ann&password=correct+horse+battery+staple"


def generous(rate="100000/hour"):
    return make_config({"login": [{"name": "address", "by": "ip", "rate": rate}]},
                       [("POST /login", {"auth": "none", "policy": "login"})])


LOGIN_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/login.md"


class Page(DemoTest):
    """What docs/login.md lets its reader paste into a shell, in its order, on the demo's own policy."""

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_does_what_the_page_says(self):
        demo = Demo(self, own_policy(), options=["--show-codes"])
        script = re.search(r"```sh\n(for try.*?)```", LOGIN_PAGE.read_text(encoding="utf-8"), re.S)[1]
        self.assertEqual(script.count("http://127.0.0.1:8080"), 5)
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run(["bash", "-c", script.replace("http://127.0.0.1:8080", demo.url.rstrip("/"))], cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
                                  check=True).stdout.decode()
        statuses = [int(found) for found in re.findall(r"^(?:HTTP/1.1 )?(\d{3})\b", said, re.M)]
        self.assertEqual(statuses, [401] * 5 + [429, 200] + [401] * 6 + [202, 401])
        self.assertEqual(said.lower().count("set-cookie: weir_known_"), 1)


class Login(DemoTest):
    def log_in(self, demo, body=RIGHT, kind=FORM, **headers):
        return demo.post("/login", {"Content-Type": kind, **headers}, body)

    def test_lets_the_right_password_in_as_form_and_as_json(self):
        demo = Demo(self)
        words = {"username": "ann", "password": "correct horse battery staple"}
        for kind, body in (
            (FORM, RIGHT),
            (FORM, "username=%61nn&x=1&password=correct%20horse%20battery%20staple"),
            (FORM + "; charset=utf-8", RIGHT),
            ("application/json", json.dumps(words)),
            ("Application/JSON; charset=utf-8", json.dumps(words)),
        ):
            answer = self.log_in(demo, body, kind)
            self.assertEqual((answer.status, answer.json()), (200, {"status": "ok"}), body)

    def test_says_the_same_to_a_wrong_password_and_an_unknown_user(self):
        demo = Demo(self)
        answers = [self.log_in(demo, f"username={name}&password={word}")
                   for name, word in (("ann", "wrong"), ("bob", "wrong"), ("", ""), ("ANN", "x"))]
        for answer in answers:
            self.assert_problem(answer, 401)
            self.assertIn("www-authenticate", answer.headers)
            self.assertEqual(answer.body, answers[0].body)
            self.assertEqual(set(answer.headers), set(answers[0].headers))

    def test_takes_as_long_for_an_unknown_user(self):
        demo = Demo(self, generous())
        client = demo.client()

        def time_of(name):
            start = time.monotonic()
            client.post("/login", {"Content-Type": FORM}, f"username={name}&password=wrong")
            return time.monotonic() - start

        times = {name: [] for name in ("ann", "bob")}
        for _ in range(9):
            for name, list_of_times in times.items():
                list_of_times.append(time_of(name))
        known, unknown = statistics.median(times["ann"]), statistics.median(times["bob"])
        # Without the hashing of nobody it would be some hundredth.
        self.assertTrue(known / 3 < unknown < known * 3, times)

    def test_refuses_a_body_that_is_no_login(self):
        demo = Demo(self, generous())
        for kind, body in (
            (FORM, ""),
            (FORM, "username=ann"),
            (FORM, "password=x"),
            (FORM, "username=ann&username=bob&password=x"),
            (FORM, "username=ann%00&password=x"),
            (FORM, "username=ann%&password=x"),
            (FORM, "username=ann&password=%zz"),
            (FORM, f"username=ann&password={'x' * 2000}"),
            ("application/json", "{"),
            ("application/json", "[]"),
            ("application/json", '{"username": "ann"}'),
            ("application/json", '{"username": "ann", "password": null}'),
            ("application/json", '{"username": "ann", "password": ["x"]}'),
            ("application/json", '{"username": "ann\\u0000", "password": "x"}'),
            ("text/plain", RIGHT),
        ):
            self.assert_problem(self.log_in(demo, body, kind), 400)
        self.assert_problem(demo.post("/login", {}, RIGHT), 400)

    def test_refuses_a_body_that_is_too_large(self):
        demo = Demo(self, generous())
        self.assert_problem(self.log_in(demo, RIGHT + "&x=" + "x" * 17000), 413)
        fits = RIGHT + "&x="
        fits += "x" * (16 * 1024 - len(fits))
        self.assertEqual(self.log_in(demo, fits).status, 200)

    def test_never_shows_quota_even_to_a_valid_key(self):
        demo = Demo(self, generous("3/hour"))
        seen = []
        for headers in (FREE, PRO, {}, FREE, {}):
            body = RIGHT if not seen else "username=ann&password=wrong"
            answer = self.log_in(demo, body, **headers)
            self.assert_no_quota(answer)
            seen.append(answer)
        self.assertEqual([answer.status for answer in seen], [200, 401, 401, 429, 429])
        for answer in seen[3:]:
            problem = self.assert_refused(answer)
            self.assertEqual(set(problem) - {"type", "title", "status"}, set(),
                             "nothing tells one cause from another")

    def test_limits_logins_of_an_address_and_no_other(self):
        demo = Demo(self)
        client = demo.client()
        statuses = []
        while 429 not in statuses and len(statuses) < 200:  # on a slow machine some come back
            answer = client.post("/login", {"Content-Type": FORM},
                                 f"username=u{len(statuses)}&password=b")
            statuses.append(answer.status)
        self.assertGreaterEqual(len(statuses), 21, statuses)
        self.assertEqual(statuses[-1], 429, statuses)
        self.assertEqual(set(statuses[:-1]), {401}, statuses)
        other = demo.post("/login", {"Content-Type": FORM}, RIGHT, source="127.0.0.2")
        self.assertEqual(other.status, 200)

    def test_keeps_names_and_passwords_out_of_its_log(self):
        demo = Demo(self, generous("1/hour"))
        for _ in range(3):
            self.log_in(demo, "username=ann-of-old&password=hunter-2000")
        self.assertEqual(len(demo.decisions("limited")), 2)
        self.assertNotIn("ann-of-old", demo.log())
        self.assertNotIn("hunter-2000", demo.log())


if __name__ == "__main__":
    unittest.main()
