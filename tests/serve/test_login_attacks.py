"""POST /login of a running server under attack, and the people who only want to log in."""

import contextlib
import http.client
import json
import statistics
import time
import unittest

from login_support import (BEHIND_PROXY, FORM, JSON, MULTIPART, PASSWORD, AttackTest,
                           assert_device_cookie, form, look_of, multipart, name_of, own_policy)
from support import wait_until

LIMITS = ("address", "address-hour", "pair", "account", "device", "stop")


def left_to_handler():
    return own_policy({"limits": [{"name": name, "refusal": "handler"} for name in LIMITS]})


class Guessing:
    """Whoever guesses gets no more tries than the policy has."""

    def test_one_password_over_many_users(self):
        demo, start = self.start(), time.monotonic()
        seen = [self.miss(demo, f"user{i}") for i in range(26)]
        earned = 1 + int((time.monotonic() - start) / 3)
        self.assertEqual(seen[:20], [401] * 20)
        self.assertLessEqual(seen.count(401), 20 + earned, seen)
        self.assertEqual(self.log_in(demo, source="127.0.0.2").status, 200, "others are not concerned")

    def test_many_passwords_on_one_user_from_one_address(self):
        demo = self.start()
        self.assertEqual([self.miss(demo) for _ in range(7)], [401] * 5 + [429] * 2)
        self.assertEqual(self.log_in(demo).status, 429, "even the right one, now")
        self.assertEqual(self.miss(demo, "bob"), 401, "another user from there")
        self.assertEqual(self.log_in(demo, source="127.0.0.2").status, 200, "the user from elsewhere")

    def test_many_passwords_on_one_user_from_many_addresses(self):
        demo = self.start()
        self.lock_out(demo)
        refused = self.log_in(demo, source="127.0.9.9")
        self.assert_refused(refused)
        self.assertEqual(refused.retry_after() % 60, 0)
        self.assertEqual(self.miss(demo, "bob", source="127.0.9.9"), 401)

    def test_rotation_of_ipv6_addresses_in_one_network(self):
        demo = self.start(own_policy(**BEHIND_PROXY))
        inside = [f"2001:db8:0:1{i:02x}:{i + 1:x}::{i * 77 + 1:x}" for i in range(7)]
        seen = [self.miss(demo, via=address) for address in inside]
        self.assertEqual(seen, [401] * 5 + [429] * 2)
        self.assertEqual(self.miss(demo, via="2001:db8:0:200::1"), 401, "a network of its own")

    def test_forwarding_headers_that_nobody_trusts(self):
        demo = self.start()
        seen = [self.miss(demo, via=f"198.51.100.{i}", headers={
            "Forwarded": f"for=198.51.100.{i}", "X-Real-IP": f"198.51.100.{i}"}) for i in range(7)]
        self.assertEqual(seen, [401] * 5 + [429] * 2)

    def test_forwarding_headers_that_the_client_wrote_before_the_proxy(self):
        demo = self.start(own_policy(**BEHIND_PROXY))
        seen = [self.miss(demo, via=f"198.51.100.{i}, 127.0.0.{i + 1}, 203.0.113.9")
                for i in range(7)]
        self.assertEqual(seen, [401] * 5 + [429] * 2)

    def test_random_api_keys(self):
        demo, start = self.start(), time.monotonic()
        seen = [demo.get("/v1/catalog", {"X-API-Key": f"guess-{i}"}).status for i in range(40)]
        earned = 1 + int((time.monotonic() - start) / 3)
        self.assertEqual(seen[:20], [401] * 20)
        self.assertLessEqual(seen.count(401), 20 + earned)
        # And they are no identity of their own on a login.
        tries = [self.miss(demo, source="127.0.0.2", headers={"X-API-Key": f"guess-{i}"})
                 for i in range(7)]
        self.assertEqual(tries, [401] * 5 + [429] * 2)

    def test_empty_user_names_are_nobodys(self):
        demo = self.start()
        for user in ("", " ", "\t \u00a0") * 5:
            self.assertIn(self.log_in(demo, user, "wrong").status, (400, 401))
        self.assertEqual(self.miss(demo, source="127.0.0.2"), 401)
        self.assertEqual(self.log_in(demo, " ", "wrong", source="127.0.0.2").status, 401)
        self.assertEqual(self.log_in(demo).status, 200)

    def test_user_names_of_ten_thousand_characters(self):
        demo = self.start()
        name = "x" * 10000
        self.assertEqual([self.miss(demo, name) for _ in range(6)], [401] * 5 + [429])
        self.assertEqual(self.miss(demo, name[1:]), 401)
        if self.redis:
            self.assertLess(max(map(len, self.redis.command("KEYS", "*"))), 400)

    def test_spellings_of_one_name(self):
        demo = self.start()
        spellings = [
            (FORM, form(username="ann", password="x")),
            (FORM, "password=x&username=%20A%6eN%09"),
            (JSON, json.dumps({"username": "\u00a0Ann\u3000", "password": "x"})),
            (JSON, '{"username": "\\u0061NN", "password": "x"}'),
            (MULTIPART, multipart(username=" aNN ", password="x")),
            (MULTIPART, multipart(password="x", username="ann")),
            (FORM, form(username="ann", password="x")),
        ]
        seen = [self.post(demo, "/login", body, kind=kind).status for kind, body in spellings]
        self.assertEqual(seen, [401] * 5 + [429] * 2)

    def test_what_can_be_read_in_two_ways_costs_its_sender(self):
        demo, start = self.start(), time.monotonic()
        broken = [
            (FORM, "username=a%00b&password=x"),
            (FORM, "username=ann&username=bob&password=x"),
            (JSON, '{"username": "a\\u0000b", "password": "x"}'),
            (JSON, '{"username": "ann", "username": "bob", "password": "x"}'),
            (JSON, '{"username": ["ann"], "password": "x"}'),
            (JSON, "[" * 5000),
            (JSON, '{"username": "ann"'),
            (MULTIPART, multipart(username="ann") + multipart(username="bob")),
            (FORM, b"username=\xff\xfe&password=x"),
            (FORM, "username=%zz&password=x"),
        ]
        seen = [self.post(demo, "/login", body, kind=kind).status for kind, body in broken * 3]
        earned = 1 + int((time.monotonic() - start) / 3)
        self.assertNotIn(401, seen)
        self.assertGreaterEqual(seen.count(400), 18)
        self.assertLessEqual(seen.count(400), 20 + earned, seen)
        self.assertIn(429, seen)
        self.assertEqual(self.log_in(demo, source="127.0.0.2").status, 200)

    def test_says_no_name_password_or_cookie_to_anybody(self):
        demo = self.start()
        words = ["zoe-of-the-mill", "hunter-2000", "stolen-api-key", "guessed-cookie"]
        ann = self.log_in(demo, source="127.0.0.3")
        cookie = self.cookie_of(ann)
        for i in range(8):
            self.log_in(demo, words[0], words[1], headers={"X-API-Key": words[2]},
                        cookie=f"{name_of(cookie)}={words[3]}")
        self.post(demo, "/login", f"username={words[0]}&username={words[1]}")
        self.log_in(demo, "ann", words[1], cookie=cookie)
        demo.get("/v1/catalog", {"X-API-Key": words[2]})
        # Nothing of a cookie that would help to make it, either.
        words += [PASSWORD, cookie] + cookie.split("=")[1].split(".")[1::2]
        told = demo.log() + "".join(body.decode() for body in self.bodies)
        if self.redis:
            wait_until(lambda: "known" in self.store_text(), "the address is remembered")
            told += self.store_text()
        for word in words:
            self.assertNotIn(word, told)
        self.assertGreaterEqual(len(demo.decisions("limited")), 3)


class LockOut:
    """A stranger must not shut somebody out."""

    def test_a_victim_gets_in_from_a_device_that_logged_in_before(self):
        demo = self.start()
        first = self.log_in(demo, source="127.0.0.3")
        assert_device_cookie(self, first.headers["set-cookie"])
        cookie = self.cookie_of(first)
        self.lock_out(demo)
        self.assertEqual(self.log_in(demo, source="127.0.7.7").status, 429)
        again = self.log_in(demo, source="127.0.7.7", cookie=f"a=b; {cookie}; c")
        self.assertEqual(again.status, 200)
        self.assertNotIn("set-cookie", again.headers, "it has one, and that is young")

    def test_a_victim_gets_in_from_an_address_it_logged_in_from_before(self):
        demo = self.start()
        self.log_in(demo, source="127.0.0.3")
        self.lock_out(demo)
        self.assertEqual(self.log_in(demo, source="127.0.7.7").status, 429)
        again = self.log_in(demo, source="127.0.0.3")
        self.assertEqual(again.status, 200)
        assert_device_cookie(self, again.headers["set-cookie"])

    def test_what_a_stranger_makes_up_is_no_known_device(self):
        demo = self.start(own_policy(**BEHIND_PROXY))
        home, stranger = "203.0.113.7", "198.51.100.66"
        cookie = self.cookie_of(self.log_in(demo, via=home))
        name, value = cookie.split("=")
        version, device, expires, code = value.split(".")
        for i in range(12):
            self.miss(demo, via=f"192.0.2.{i // 4}")
        other = "A" if code[0] != "A" else "B"
        for made_up in (
            "", name, f"{name}=", f"{name}=v1", f"{name}={'v1.' * 99}", "=" * 50, ";" * 50,
            f"{name}=v1.{device}.{int(expires) + 1}.{code}",
            f"{name}=v1.{device}.{expires}.{other}{code[1:]}",
            f"{name}=v2.{device}.{expires}.{code}", f"{name}x={value}", f"{name[:-1]}={value}",
            f"{name}={value}.x", f"{name}=\"{value}\"", f"{name}=v1.{device}.{'9' * 40}.{code}",
        ):
            answer = self.log_in(demo, via=stranger, cookie=made_up)
            self.assertIn(answer.status, (429,), made_up)
        # Nor is an address that the proxy did not see.
        for via in (f"{home}, {stranger}", f"{home},{home}, {stranger}", f"for={home}, {stranger}"):
            self.assertEqual(self.log_in(demo, via=via).status, 429, via)
        self.assertEqual(self.log_in(demo, via=stranger, cookie=cookie).status, 200)
        self.assertEqual(self.log_in(demo, via=home).status, 200)

    def test_a_cookie_of_another_account_or_policy_helps_nobody(self):
        config = own_policy()
        config["policies"]["login-too"] = config["policies"]["login"]
        demo = self.start(config)
        cookie = self.cookie_of(self.log_in(demo, source="127.0.0.3"))
        self.lock_out(demo, "bob")
        self.assertEqual(self.miss(demo, "bob", source="127.0.7.7", cookie=cookie), 429)
        for route in config["routes"]:
            if route.get("policy") == "login":
                route["policy"] = "login-too"
        other = self.start(config)
        self.lock_out(other)
        self.assertEqual(self.miss(other, source="127.0.7.7", cookie=cookie), 429)

    def test_cookies_without_end(self):
        demo = self.start()
        cookie = self.cookie_of(self.log_in(demo, source="127.0.0.3"))
        name = name_of(cookie)
        self.lock_out(demo)
        wrong = f"{name}=v1.{'A' * 22}.2000000000.{'B' * 22}"
        many = "; ".join([wrong] * 100 + [cookie])
        self.assertEqual(self.log_in(demo, source="127.0.7.7", cookie=many).status, 200)
        with contextlib.suppress(OSError, http.client.HTTPException):  # it may just hang up
            huge = self.log_in(demo, source="127.0.7.7", cookie="; ".join([wrong] * 500))
            self.assertIn(huge.status, (413, 431))
        self.assertEqual(self.log_in(demo, source="127.0.7.7", cookie=cookie).status, 200)

    def test_a_browser_of_many_accounts_keeps_nine_cookies(self):
        demo = self.start()
        first = self.cookie_of(self.log_in(demo, source="127.0.0.3"))
        begin = first.split("_known_")[0] + "_known_"
        jar = [f"{begin}{i:010}=v" for i in range(20)]
        for left in (12, 8, 8):  # eight at once
            answer = self.log_in(demo, source="127.0.0.4", cookie="; ".join(["a=b", first, *jar]))
            self.assertEqual(answer.status, 200)
            gone = [line.split("=")[0] for line in self.set_cookies(answer)]
            self.assertEqual(gone, [cookie.split("=")[0] for cookie in jar[:len(jar) - left]])
            for line in self.set_cookies(answer):
                self.assertRegex(line, r"^\w+=; Max-Age=0; Path=/login; HttpOnly; SameSite=Lax$")
            jar = jar[-left:]
        full = "; ".join([first, *jar, f"{begin}abcdefghij=v"])
        self.assertEqual(self.set_cookies(self.log_in(demo, password="wrong", cookie=full)), [])

    def test_a_known_device_may_not_guess_for_ever(self):
        demo = self.start(own_policy({"limits": [{"name": "stop", "rate": "12/366days"},
                                                 {"name": "device", "rate": "12/second"}]}))
        cookie = self.cookie_of(self.log_in(demo, source="127.0.0.3"))
        seen = [self.miss(demo, source=f"127.0.7.{i // 8}", cookie=cookie) for i in range(14)]
        self.assertEqual(seen, [401] * 12 + [429] * 2)
        self.assertEqual(self.log_in(demo, source="127.0.0.3", cookie=cookie).status, 429)
        self.assertEqual(self.log_in(demo, source="127.0.9.9").status, 200,
                         "which is no matter of the others")

    def test_two_typos_leave_no_trace(self):
        demo = self.start()
        for i in range(6):  # more than the account has, were they not forgiven
            source = f"127.0.6.{i}"
            self.assertEqual([self.miss(demo, source=source), self.miss(demo, source=source),
                              self.log_in(demo, source=source).status], [401, 401, 200])
        self.lock_out(demo)  # takes ten, as at the start

    def test_no_cookie_comes_with_a_refusal(self):
        demo = self.start()
        for _ in range(7):
            self.assertNotIn("set-cookie", self.log_in(demo, password="wrong").headers)
        self.assertNotIn("set-cookie", self.log_in(demo).headers)
        self.assertNotIn("set-cookie", self.log_in(demo, "", "").headers)


class OneAnswer:
    """Refusals tell nobody why."""

    def test_all_refusals_look_alike(self):
        demo = self.start()
        cookie = self.cookie_of(self.log_in(demo, source="127.0.0.3"))
        self.lock_out(demo, sources=("127.0.8.1", "127.0.8.2", "127.0.8.3"))
        refused = [self.log_in(demo, "ann", PASSWORD, source="127.0.9.1"),  # the account is banned
                   self.log_in(demo, "ann", "wrong", source="127.0.8.1")]   # the pair, and a ban
        for user in ("bob", "nobody"):
            seen = [self.log_in(demo, user, "wrong", source="127.0.9.2") for _ in range(6)]
            self.assertEqual([answer.status for answer in seen], [401] * 5 + [429])
            refused.append(seen[-1])
            self.assert_all_alike(seen[:5])
        device = [self.log_in(demo, "ann", "wrong", source="127.0.9.3", cookie=cookie)
                  for _ in range(11)]
        self.assertEqual([answer.status for answer in device], [401] * 10 + [429])
        refused.append(device[-1])
        crowd = (self.log_in(demo, f"user{i}", "wrong", source="127.0.9.4") for i in range(99))
        refused.append(next(answer for answer in crowd if answer.status != 401))
        for answer in refused:
            self.assert_refused(answer)
            self.assert_no_quota(answer)
            self.assertEqual(answer.retry_after() % 60, 0)
        self.assert_all_alike(refused)

    def test_a_handler_that_refuses_itself_says_one_thing_only(self):
        demo = self.start(left_to_handler())
        cookie = self.cookie_of(self.log_in(demo, source="127.0.0.3"))
        answers = [self.log_in(demo, "ann", "wrong", source="127.0.9.1"),
                   self.log_in(demo, "nobody", "wrong", source="127.0.9.1")]
        answers += [self.log_in(demo, "ann", "wrong", source=f"127.0.8.{i // 4}") for i in range(12)]
        answers += [self.log_in(demo, "ann", source="127.0.9.1"),  # right, and locked
                    self.log_in(demo, "bob", "wrong", source="127.0.9.1")]
        answers += [self.log_in(demo, "nobody", "wrong", source="127.0.9.1") for _ in range(6)]
        self.assertEqual(look_of(answers[0])[0], 401)
        self.assert_all_alike(answers)
        self.assertNotIn("retry-after", answers[-1].headers)
        self.assertNotIn("set-cookie", answers[-1].headers)
        self.assertGreaterEqual(len(demo.decisions("limited")), 3, "an operator is told")
        self.assertEqual(self.log_in(demo, source="127.0.9.1", cookie=cookie).status, 200)

    def test_a_handler_that_refuses_itself_takes_as_long(self):
        demo = self.start(left_to_handler())
        while len(demo.decisions("limited")) < 1:
            self.miss(demo, "carl", source="127.0.5.1")
        times = {"carl": [], "dora": []}  # limited, and not
        for i in range(5):
            for user, list_of_times in times.items():
                start = time.monotonic()
                self.assertEqual(self.miss(demo, user, source="127.0.5.1"), 401)
                list_of_times.append(time.monotonic() - start)
        limited, free = (statistics.median(times[user]) for user in ("carl", "dora"))
        # Without hashing it would be some hundredth.
        self.assertTrue(free / 3 < limited < free * 3, times)

    def test_tells_nobody_or_always_the_same_of_the_wait_where_told_to(self):
        for rule, wanted in (("none", None), ("90s", "90")):
            demo = self.start(own_policy({"retry_after": rule}))
            seen = [self.log_in(demo, "carl", "wrong", source="127.0.5.1") for _ in range(6)]
            if self.redis:
                self.redis.command("FLUSHALL")
            self.assertEqual(seen[-1].status, 429)
            self.assertEqual(seen[-1].headers.get("retry-after"), wanted)


class OnMemory(Guessing, LockOut, OneAnswer, AttackTest):
    pass


class OnRedis(Guessing, LockOut, OneAnswer, AttackTest):
    with_redis = True

    def sums(self):
        """Redis's keys and values."""
        return {key: self.redis.command("GET", key) for key in self.redis.command("KEYS", "*")}

    def test_two_typos_leave_nothing_in_redis_but_what_was_there(self):
        demo = self.start()
        # Somebody else has guessed once: that must stay.
        self.assertEqual(self.miss(demo, source="127.0.8.1"), 401)
        before = self.sums()
        pairs = [key for key in before if ":pair:" in key]
        self.assertEqual(len(pairs), 1, before.keys())
        for _ in range(2):
            self.assertEqual(self.miss(demo, source="127.0.6.1"), 401)
        self.assertEqual(len([key for key in self.sums() if ":pair:" in key]), 2)
        self.assertEqual(self.log_in(demo, source="127.0.6.1").status, 200)

        def mine():
            return [key for key in self.sums() if ":pair:" in key and key not in pairs]

        wait_until(lambda: not mine() and any(":::known:" in key for key in self.sums()),
                   "the pair is forgotten, and the address is not")
        after = self.sums()
        accounts = [key for key in before if ":account:" in key]
        self.assertEqual(len(accounts), 1, before.keys())
        self.assertEqual(after.get(pairs[0]), before[pairs[0]])
        # In front of the sum stands how long it is worth keeping.
        self.assertEqual(after[accounts[0]][8:], before[accounts[0]][8:])
        self.assertEqual([key for key in after if ":stop:" in key], [], "nothing to stop any more")

    def test_killing_redis_opens_nothing(self):
        demo = self.start()
        self.assertEqual([self.miss(demo, source="127.0.8.1") for _ in range(4)], [401] * 4)
        self.redis.kill()
        seen = [self.miss(demo, source=f"127.0.7.{i // 4}") for i in range(28)]
        self.assertLessEqual(seen.count(401), 10, seen)
        self.assertEqual(set(seen), {401, 429})
        self.assertEqual(seen[-1], 429)
        self.assertEqual(self.log_in(demo, source="127.0.9.9").status, 429)

    def test_two_typos_are_no_failure_without_redis_and_many_instances(self):
        demo = self.start(own_policy(instances=100))
        self.assertEqual(self.miss(demo), 401)
        self.redis.kill()
        self.assertEqual([self.miss(demo), self.miss(demo), self.log_in(demo).status],
                         [401, 401, 200])
        seen = [self.log_in(demo, password="wrong", source=f"127.0.7.{i}") for i in range(9)]
        self.assertEqual([answer.status for answer in seen][-5:], [429] * 5)
        for answer in seen[-5:]:
            self.assertEqual(answer.headers["retry-after"], "60", "not till next year")

    def test_a_redis_that_hangs_opens_nothing(self):
        config = own_policy()
        config["store"]["timeout"] = "20ms"
        demo = self.start(config)
        self.redis.stop_answering()
        seen = [self.miss(demo, source=f"127.0.7.{i // 4}") for i in range(16)]
        self.assertEqual(seen.count(401), 10, seen)
        self.assertEqual(seen[-1], 429)

    def test_killing_redis_shuts_a_closed_policy(self):
        demo = self.start(own_policy({"on_store_failure": "closed"}))
        self.assertEqual(self.miss(demo), 401)
        self.redis.kill()
        for i in range(10):
            self.assertEqual(self.log_in(demo, source=f"127.0.7.{i}").status, 503)

    def test_a_known_device_is_known_without_redis(self):
        demo = self.start()
        cookie = self.cookie_of(self.log_in(demo, source="127.0.0.3"))
        self.redis.kill()
        self.lock_out(demo)
        self.assertEqual(self.log_in(demo, source="127.0.7.7", cookie=cookie).status, 200)
        self.assertEqual(self.log_in(demo, source="127.0.0.3").status, 429,
                         "addresses are in Redis")

    def test_instances_share_what_they_know(self):
        one, other = self.start(), self.start()
        cookie = self.cookie_of(self.log_in(one, source="127.0.0.3"))
        self.lock_out(one)
        self.assertEqual(self.log_in(other, source="127.0.7.7").status, 429)
        self.assertEqual(self.log_in(other, source="127.0.7.7", cookie=cookie).status, 200)
        wait_until(lambda: self.log_in(other, source="127.0.0.3").status == 200,
                   "the address is known there, too")


if __name__ == "__main__":
    unittest.main()
