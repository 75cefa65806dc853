"""What the tests of /login and /otp share: the demo's own policy, changed where a test says so, on the
memory store and on a real Redis."""

import contextlib
import copy
import json
import os
import re
import threading
import urllib.parse

from support import DEMO, PATIENCE_S, Client, Demo, DemoTest, Redis

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
PASSWORD = "correct horse battery staple"

# What differs between two answers that are to look alike.
VARIES = ("date", "retry-after", "x-request-id")

with open(os.path.join(os.path.dirname(DEMO), "policy.json"), encoding="utf-8") as file:
    OWN = json.load(file)


def own_policy(login=(), **others):
    """The demo's policy file, with these members of the policy "login" and of the file."""
    config = copy.deepcopy(OWN)
    config["policies"]["login"].update(login)
    # A machine that is slow for a moment must not look like a Redis that failed.
    config["store"]["timeout"] = "10s"
    config.update(others)
    return config


BEHIND_PROXY = {"client_ip": {"trust": ["loopback"]}}


def form(**fields):
    return urllib.parse.urlencode(fields)


def multipart(**fields):
    parts = [f'--line\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             for name, value in fields.items()]
    return "".join(parts) + "--line--\r\n"


MULTIPART = "multipart/form-data; boundary=line"


def look_of(answer):
    """All that a client sees of an answer but the time."""
    shown = {name: value for name, value in answer.headers.items() if name not in VARIES}
    return answer.status, shown, answer.body


def at_once(count, ask):
    """Runs ask(0) to ask(count - 1), all at the same moment, and returns what they returned."""
    start, found = threading.Barrier(count), [None] * count

    def run(index):
        start.wait(PATIENCE_S)
        found[index] = ask(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class AttackTest(DemoTest):
    """A test on one store; `with_redis` says which."""

    with_redis = False

    def setUp(self):
        self.redis = Redis(self) if self.with_redis else None
        self.bodies = []

    def start(self, config=None, options=()):
        return Demo(self, config or own_policy(), store=self.redis.url if self.redis else None, options=options)

    def post(self, demo, path, body, source="", via=None, cookie=None, kind=FORM, headers=()):
        """Posts from the address `source`, or as a proxy for `via`."""
        lines = {"Content-Type": kind, **dict(headers)}
        if via is not None:
            lines["X-Forwarded-For"] = via
        if cookie is not None:
            lines["Cookie"] = cookie
        with contextlib.closing(Client(demo.where, source)) as client:
            answer = client.post(path, lines, body)
        self.bodies.append(answer.body)
        return answer

    def log_in(self, demo, user="ann", password=PASSWORD, **how):
        return self.post(demo, "/login", form(username=user, password=password), **how)

    def miss(self, demo, user="ann", **how):
        """A wrong password; returns the status."""
        return self.log_in(demo, user, "wrong", **how).status

    def lock_out(self, demo, user="ann", sources=("127.0.8.1", "127.0.8.2", "127.0.8.3")):
        """Strangers guess until the account is shut to all whom it does not know."""
        seen = [self.miss(demo, user, source=sources[i // 4]) for i in range(4 * len(sources))]
        self.assertEqual(seen.count(401), 10, seen)
        self.assertEqual(seen[-1], 429, seen)

    def cookie_of(self, answer):
        """The cookie that an answer sets, as a client sends it back."""
        self.assertIn("set-cookie", answer.headers, answer)
        return answer.headers["set-cookie"].split(";")[0]

    def set_cookies(self, answer):
        """The lines with which an answer sets or takes back cookies."""
        lines = answer.headers.get("set-cookie")
        return lines.split(", ") if lines else []

    def store_text(self):
        """All keys and values of Redis."""
        found = []
        for key in self.redis.command("KEYS", "*"):
            kind = self.redis.command("TYPE", key)
            self.assertEqual(kind, "string", key)
            found += [key, self.redis.command("GET", key)]
        return "\n".join(found)

    def assert_all_alike(self, answers):
        for answer in answers[1:]:
            self.assertEqual(look_of(answer), look_of(answers[0]))


def assert_device_cookie(test, line):
    test.assertRegex(line, r"^weir_known_[\w-]+=v1\.[\w-]{22}\.\d+\.[\w-]{22}; Max-Age=\d+; Path=/login; "
                           r"HttpOnly; SameSite=Lax(; Secure)?$")


def name_of(cookie):
    return re.match(r"[^=]+", cookie)[0]
