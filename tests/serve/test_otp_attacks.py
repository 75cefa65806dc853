"""POST /otp/send and /otp/verify of a running server under attack."""

import unittest

from login_support import BEHIND_PROXY, AttackTest, at_once, form, own_policy
from support import wait_until

PHONE = "+49 30 901820"
SHOWN = ("--show-codes",)


def without_limits():
    """Only what the demo itself counts."""
    config = own_policy()
    for name in ("otp-send", "otp-verify"):
        config["policies"][name] = {"limits": [{"name": "any", "by": "ip", "rate": "1000/second"}]}
    return config


class Codes:
    def send(self, demo, to=PHONE, **how):
        return self.post(demo, "/otp/send", form(destination=to), **how)

    def verify(self, demo, code, to=PHONE, **how):
        return self.post(demo, "/otp/verify", form(destination=to, code=code), **how)

    def sent_code(self, demo, to=PHONE, **how):
        """Has a code sent, and reads it where the demo shows it."""
        before = len(self.codes(demo))
        answer = self.send(demo, to, **how)
        self.assertEqual((answer.status, answer.json()), (202, {"status": "sent"}), answer)
        return wait_until(lambda: self.codes(demo)[before:], "the code is shown")[0]["code"]

    def codes(self, demo):
        return [line for line in demo.lines() if "code" in line]

    def wrong(self, code, step=1):
        return f"{(int(code) + step) % 1000000:06}"

    def test_a_code_works_once(self):
        demo = self.start(options=SHOWN)
        code = self.sent_code(demo)
        self.assertRegex(code, r"^[0-9]{6}$")
        self.assertEqual(self.verify(demo, code).status, 200)
        self.assertEqual(self.verify(demo, code).status, 401)

    def test_a_code_is_for_one_destination(self):
        demo = self.start(options=SHOWN)
        code = self.sent_code(demo)
        self.assertEqual(self.verify(demo, code, "+49 30 1").status, 401)
        self.assertEqual(self.verify(demo, code, f" {PHONE}\t").status, 200)

    def test_a_new_code_takes_the_place_of_the_old(self):
        demo = self.start(without_limits(), options=SHOWN)
        old = self.sent_code(demo)
        new = self.sent_code(demo)
        while new == old:
            new = self.sent_code(demo)
        self.assertEqual(self.verify(demo, old).status, 401)
        self.assertEqual(self.verify(demo, new).status, 200)

    def test_a_code_takes_five_tries_whoever_tries(self):
        demo = self.start(without_limits(), options=SHOWN)
        code = self.sent_code(demo)
        for i in range(5):
            self.assertEqual(self.verify(demo, self.wrong(code, i + 1), source=f"127.0.4.{i}").status, 401)
        self.assertEqual(self.verify(demo, code).status, 401)

    def test_a_code_works_once_though_two_hundred_try_it_at_once(self):
        demo = self.start(without_limits(), options=("--threads", "4", *SHOWN))
        code = self.sent_code(demo)
        answers = at_once(200, lambda i: self.verify(demo, code, source=f"127.0.4.{i}").status)
        self.assertEqual((answers.count(200), answers.count(401)), (1, 199))

    def test_two_hundred_guesses_at_once_find_ten_tries(self):
        demo = self.start(options=("--threads", "4", *SHOWN))
        code = self.sent_code(demo)
        answers = at_once(200, lambda i: self.verify(demo, self.wrong(code, i + 1),
                                                     source=f"127.0.{i // 100 + 4}.{i % 100}"))
        statuses = [answer.status for answer in answers]
        self.assertEqual((statuses.count(401), statuses.count(429)), (10, 190), statuses)
        self.assert_all_alike([answer for answer in answers if answer.status == 429])
        self.assertEqual(self.verify(demo, code, source="127.0.9.9").status, 429)

    def test_a_new_code_brings_no_new_tries(self):
        config = own_policy()
        config["policies"]["otp-send"] = without_limits()["policies"]["otp-send"]
        demo = self.start(config, options=SHOWN)
        seen = []
        for i in range(4):
            code = self.sent_code(demo)
            seen += [self.verify(demo, self.wrong(code, k + 1)).status for k in range(3)]
        self.assertEqual(seen, [401] * 10 + [429] * 2)

    def test_sends_have_a_gap_and_a_ceiling(self):
        demo = self.start()
        self.assertEqual(self.send(demo).status, 202)
        for again in (PHONE, f"  {PHONE} ", PHONE.upper()):
            refused = self.send(demo, again, source="127.0.0.2")
            self.assert_refused(refused)
            self.assertEqual(refused.retry_after(), 60)
        config = own_policy()
        config["policies"]["otp-send"]["limits"] = [{"name": "gap", "rate": "1000/second"}]
        demo = self.start(config)
        other = "mail@example.org"
        seen = [self.send(demo, other, source=f"127.0.4.{i}").status for i in range(7)]
        self.assertEqual(seen, [202] * 5 + [429] * 2)
        seen = [self.send(demo, f"{i}@example.org", source="127.0.5.1").status
                for i in range(12)]
        self.assertEqual(seen, [202] * 10 + [429] * 2, "an address has ten")

    def test_a_stranger_shuts_nobody_out_who_was_there_before(self):
        demo = self.start(options=SHOWN)
        right = self.verify(demo, self.sent_code(demo), source="127.0.0.3")
        cookie = self.cookie_of(right)
        for i in range(12):
            self.verify(demo, "000000", source=f"127.0.8.{i}")
        self.assertEqual(self.verify(demo, "000000", source="127.0.7.7").status, 429)
        self.assertEqual(self.verify(demo, "000000", source="127.0.7.7", cookie=cookie).status, 401)
        self.assertEqual(self.verify(demo, "000000", source="127.0.0.3").status, 401)

    def test_the_hard_stop_holds_over_all_hours(self):
        config = own_policy(**BEHIND_PROXY)
        config["policies"]["otp-verify"]["limits"] = [{"name": "account", "rate": "1000/second"}]
        demo = self.start(config)
        seen = [self.verify(demo, "000000", via=f"192.0.2.{i // 8}").status for i in range(103)]
        self.assertEqual(seen, [401] * 100 + [429] * 3)

    def test_shows_codes_only_where_told_to(self):
        demo = self.start()
        self.assertEqual(self.send(demo, "zoe@mill.example").status, 202)
        for i in range(12):
            self.verify(demo, f"90210{i % 10}", "zoe@mill.example")
        self.assertEqual(self.codes(demo), [])
        self.assertGreaterEqual(len(demo.decisions("limited")), 1)
        told = demo.log() + "".join(body.decode() for body in self.bodies)
        if self.redis:
            told += self.store_text()
        for word in ("zoe", "mill.example", "90210"):
            self.assertNotIn(word, told)

    def test_answers_the_same_to_who_is_there_and_who_is_not(self):
        demo = self.start(options=SHOWN)
        code = self.sent_code(demo)
        self.assert_all_alike([self.verify(demo, self.wrong(code)),
                               self.verify(demo, self.wrong(code), "nobody@example.org"),
                               self.verify(demo, "", "nobody@example.org"),
                               self.verify(demo, "x" * 5000)])


class OnMemory(Codes, AttackTest):
    pass


class OnRedis(Codes, AttackTest):
    with_redis = True

    def test_killing_redis_brings_no_tries_for_ever(self):
        demo = self.start(options=SHOWN)
        code = self.sent_code(demo)
        for i in range(3):
            self.verify(demo, self.wrong(code, i + 1), source=f"127.0.8.{i}")
        self.redis.kill()
        seen = [self.verify(demo, self.wrong(code, i + 4), source=f"127.0.7.{i}").status
                for i in range(25)]
        self.assertLessEqual(seen.count(401), 10, seen)
        self.assertEqual(set(seen), {401, 429})
        self.assertEqual(self.verify(demo, code, source="127.0.9.9").status, 429)


if __name__ == "__main__":
    unittest.main()
