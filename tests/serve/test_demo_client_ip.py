"""Who the client is: behind nginx, on two families at once, on a Unix socket."""

import contextlib
import os
import socket
import unittest

from support import Client, Demo, DemoTest, Nginx, make_config, make_folder, one_limit

FORGED = {
    "X-Forwarded-For": "127.0.0.1",
    "Forwarded": "for=127.0.0.1",
    "X-Real-IP": "127.0.0.1",
    "CF-Connecting-IP": "127.0.0.1",
}


def behind(trust, header="X-Forwarded-For", rate="1/hour", **client_ip):
    config = one_limit("ip", rate)
    config["client_ip"] = {"trust": trust, "header": header, **client_ip}
    return config


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


class BehindNginx(DemoTest):
    """The client sits at 127.0.0.2, nginx reaches the demo from 127.0.0.1, which is trusted."""

    def test_counts_a_spoofing_client_by_its_real_address(self):
        demo = Demo(self, behind(["127.0.0.1"], rate="3/hour"))
        nginx = Nginx(self, demo.url)
        statuses = []
        for number in range(5):
            forged = {"X-Forwarded-For": f"203.0.113.{number}", "Forwarded": f"for=10.0.0.{number}"}
            statuses.append(nginx.ask("GET", "/ip", forged, source="127.0.0.2").status)
        self.assertEqual(statuses, [200] * 3 + [429] * 2)
        self.assertEqual(nginx.ask("GET", "/ip", source="127.0.0.3").status, 200, "another client")

    def test_tells_the_truth_whatever_the_client_says(self):
        demo = Demo(self, behind(["127.0.0.1"], rate="1000/hour"))
        nginx = Nginx(self, demo.url)
        for headers in (
            {},
            FORGED,
            {"X-Forwarded-For": "127.0.0.1, 127.0.0.1"},
            {"X-Forwarded-For": "203.0.113.9, unknown, 127.0.0.1"},
            {"X-Forwarded-For": "127.0.0.1, 198.51.100.7"},
            {"X-Forwarded-For": ", ,,"},
            {"X-Forwarded-For": "x" * 3000},
        ):
            seen = nginx.ask("GET", "/ip", headers, source="127.0.0.2").json()
            self.assertEqual(seen, {"ip": "127.0.0.2", "counted_as": "127.0.0.2/32",
                                    "peer": "127.0.0.1", "from": "X-Forwarded-For"}, headers)

    def test_believes_nobody_who_does_not_come_through_the_proxy(self):
        demo = Demo(self, behind(["127.0.0.1"], rate="1000/hour"))
        seen = demo.get("/ip", FORGED, source="127.0.0.2").json()
        self.assertEqual((seen["ip"], seen["peer"], seen["from"]),
                         ("127.0.0.2", "127.0.0.2", "peer"))

    def test_takes_a_header_of_the_proxys_own(self):
        demo = Demo(self, behind(["127.0.0.1"], header="X-Real-IP", rate="1000/hour"))
        nginx = Nginx(self, demo.url)
        seen = nginx.ask("GET", "/ip", FORGED, source="127.0.0.2").json()
        self.assertEqual((seen["ip"], seen["from"]), ("127.0.0.2", "X-Real-IP"))

    def test_finds_the_client_behind_two_proxies(self):
        demo = Demo(self, behind(["127.0.0.1", "127.0.0.8/29"], rate="1000/hour"))
        inner = Nginx(self, demo.url)
        outer = Nginx(self, f"http://127.0.0.1:{inner.port}", proxy_address="127.0.0.9")
        for headers in ({}, FORGED):
            seen = outer.ask("GET", "/ip", headers, source="127.0.0.2").json()
            self.assertEqual((seen["ip"], seen["peer"]), ("127.0.0.2", "127.0.0.1"))


class Forwarded(DemoTest):
    """Rows of the field reports, with the test as the trusted proxy."""

    def statuses(self, demo, *lines, header="X-Forwarded-For"):
        return [demo.get("/ip", {header: line}).status for line in lines]

    def test_leaves_a_port_out_of_the_key(self):
        demo = Demo(self, behind(1))
        self.assertEqual(self.statuses(demo, "203.0.113.9:51001", "203.0.113.9:51002"), [200, 429])
        self.assertEqual(self.statuses(demo, "[2001:db8::1]:443", "2001:db8::1"), [200, 429])

    def test_counts_a_subscribers_whole_network(self):
        one, other = "2001:db8:0:1100::1", "2001:db8:0:11ff:ffff::9"
        self.assertEqual(self.statuses(Demo(self, behind(1)), one, other), [200, 429])
        narrow = Demo(self, behind(1, ipv6_prefix=64))
        self.assertEqual(self.statuses(narrow, one, other), [200, 200])

    def test_finds_the_same_client_however_many_trusted_entries_follow(self):
        demo = Demo(self, behind(["loopback", "10.0.0.0/8"], rate="1000/hour"))
        for tail in ("", ", 10.0.0.1", ", 10.0.0.1, 10.9.9.9", ", 10.0.0.1, 10.9.9.9, 10.0.0.3"):
            seen = demo.get("/ip", {"X-Forwarded-For": "203.0.113.7" + tail}).json()
            self.assertEqual(seen["ip"], "203.0.113.7", tail)

    def test_consults_the_configured_header_alone_and_stops_at_the_first_stranger(self):
        demo = Demo(self, behind(["loopback"], rate="1000/hour"))
        headers = {"X-Forwarded-For": "127.0.0.1, 198.51.100.7", "Forwarded": "for=127.0.0.1"}
        self.assertEqual(demo.get("/ip", headers).json()["ip"], "198.51.100.7")

    def test_reads_the_forwarded_header(self):
        demo = Demo(self, behind(["loopback"], header="Forwarded", rate="1000/hour"))
        line = 'for=127.0.0.1, for="[2001:db8:cafe::17]:4711";proto=https'
        seen = demo.get("/ip", {"Forwarded": line, "X-Forwarded-For": "192.0.2.1"}).json()
        self.assertEqual((seen["ip"], seen["from"]), ("2001:db8:cafe::17", "Forwarded"))

    def test_never_makes_one_key_of_what_is_absent(self):
        config = make_config(
            {"api": [{"name": "account", "by": "header:X-Account", "rate": "1/hour"}]},
            [("GET /ip", {"auth": "none", "policy": "api"})],
        )
        demo = Demo(self, config)
        for headers in ({}, {}, {"X-Account": ""}, {"X-Account": " "}):
            self.assertEqual(demo.get("/ip", headers).status, 200, "(A22)")
        self.assertEqual(self.statuses(demo, "ann", " ANN ", "bob", header="X-Account"),
                         [200, 429, 200])


class Listening(DemoTest):
    @unittest.skipUnless(has_ipv6(), "this machine has no IPv6")
    def test_folds_mapped_addresses_on_a_socket_for_both_families(self):
        demo = Demo(self, one_limit("ip", "1/hour"), listen="[::]:0")
        for source in ("127.0.0.2", "127.0.0.3"):
            answer = demo.get("/ip", source=source, to="127.0.0.1")
            self.assertEqual(answer.status, 200, "each has a limit of its own (A3)")
            self.assertEqual(answer.json()["ip"], source)
            self.assertEqual(answer.json()["counted_as"], f"{source}/32")
            self.assertEqual(demo.get("/ip", source=source, to="127.0.0.1").status, 429)
        self.assertEqual(demo.get("/ip", to="::1").json()["counted_as"], "::/56")

    @unittest.skipUnless(has_ipv6(), "this machine has no IPv6")
    def test_trusts_a_mapped_proxy_on_a_socket_for_both_families(self):
        demo = Demo(self, behind(["127.0.0.0/8"]), listen="[::]:0")
        seen = demo.get("/ip", {"X-Forwarded-For": "203.0.113.7"}, to="127.0.0.1").json()
        self.assertEqual((seen["ip"], seen["peer"]), ("203.0.113.7", "127.0.0.1"))

    @unittest.skipUnless(has_ipv6(), "this machine has no IPv6")
    def test_listens_on_an_ipv6_address_alone(self):
        demo = Demo(self, listen="[::1]:0")
        self.assertTrue(demo.url.startswith("http://[::1]:"))
        self.assertEqual(demo.get("/ip").json()["ip"], "::1")

    def test_serves_a_unix_socket_whose_peer_has_no_address(self):
        path = os.path.join(make_folder(self), "demo.sock")
        demo = Demo(self, one_limit("ip", "1/hour"), listen=f"unix:{path}")
        self.assertEqual(demo.url, f"unix:{path}")
        with contextlib.closing(Client(None, unix=path)) as client:
            for _ in range(3):
                answer = client.get("/ip", {"X-Forwarded-For": "203.0.113.7"})
                self.assertEqual(answer.status, 200, "no address, so no limit by address (A12)")
                self.assertEqual((answer.json()["ip"], answer.json()["peer"]), (None, None))

    def test_believes_a_proxy_on_a_trusted_unix_socket(self):
        path = os.path.join(make_folder(self), "demo.sock")
        Demo(self, behind(["unix"]), listen=f"unix:{path}")
        with contextlib.closing(Client(None, unix=path)) as client:
            forwarded = {"X-Forwarded-For": "203.0.113.7"}
            self.assertEqual(client.get("/ip", forwarded).json()["ip"], "203.0.113.7")
            self.assertEqual(client.get("/ip", forwarded).status, 429)

    def test_serves_nginx_through_a_unix_socket(self):
        path = os.path.join(make_folder(self), "demo.sock")
        Demo(self, behind(["unix"], rate="1000/hour"), listen=f"unix:{path}")
        # proxy_bind is for addresses; "off" keeps nginx from binding a Unix socket to one.
        nginx = Nginx(self, f"http://unix:{path}", proxy_address="off")
        seen = nginx.ask("GET", "/ip", FORGED, source="127.0.0.2").json()
        self.assertEqual((seen["ip"], seen["peer"]), ("127.0.0.2", None))


if __name__ == "__main__":
    unittest.main()
