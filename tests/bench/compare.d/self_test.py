"""Checks what can be checked without starting a server."""

import ast
import json
import shutil
import subprocess
import xml.etree.ElementTree

import facts
import load
import peers
import report


def check_parses(here):
    for path in [here.parent / "compare", *here.glob("*.py")]:
        ast.parse(path.read_text(), str(path))
    for tool, pattern, arguments in (("node", "*.js", ["--check"]), ("luac", "*.lua", ["-p"])):
        for path in here.glob(pattern) if shutil.which(tool) else ():
            subprocess.run([tool, *arguments, path], check=True)


def check_lock(here):
    """What npm installs is pinned, and no file says where from."""
    wanted = json.loads((here / "package.json").read_text())["dependencies"]
    lock = json.loads((here / "package-lock.json").read_text())["packages"]
    for name, version in wanted.items():
        assert lock[f"node_modules/{name}"]["version"] == version, name
    for path, package in lock.items():
        assert "resolved" not in package, path
        assert path == "" or package["integrity"].startswith("sha512-"), path


def check_peers():
    names = [peer.name for peer in peers.PEERS]
    assert len(names) == len(set(names))
    assert {peer.bare for peer in peers.PEERS} - {None} <= set(names)
    assert load.CONNECTIONS % 128 != 0


def made_up(per_s):
    one = {"per_s": per_s, "p50_us": 500, "p99_us": 2000, "cpu_us": 10, "redis_us": 5}
    others = {"many": one, "refused": one}
    return {peer.name: {"one": one, "quiet": one, **(others if peer.is_limited else {})}
            for peer in peers.PEERS}


def check_report():
    results = {"facts": {"nginx": "1.2"}, "rounds": [made_up(1000), made_up(3000), made_up(2000)]}
    figures = report.Figures(results)
    assert figures.median(peers.STRICT, "one", "per_s") == 2000
    assert figures.ratio((peers.STRICT, "one"), (peers.EXPRESS, "one"), "all_us") == 1
    assert figures.ratio((peers.STRICT, "one"), (None, "one"), "per_s") is None
    assert [promise.is_kept for promise in report.promises(results)] == [False, False, True, True]
    assert len({len(line) for line in report.one_client(figures).splitlines()}) == 1
    assert len({len(line) for line in report.latencies(figures).splitlines()}) == 1
    assert len({len(line) for line in report.other_loads(figures).splitlines()}) == 1
    xml.etree.ElementTree.fromstring(report.chart(results))
    page = f"a\n{report.BEGIN}\nold\n{report.END}\nb\n"
    assert report.with_figures(page, "new") == f"a\n{report.BEGIN}\n\nnew\n\n{report.END}\nb\n"


def check_small():
    numbers = {None: "", 1234.5: "1,234", 99.96: "100", 12.34: "12.3", 9.996: "10.0",
               1.23: "1.23", 0.06: "0.060"}
    assert {amount: report.number(amount) for amount in numbers} == numbers
    assert facts.version_in("HAProxy version 2.6.12-1+deb12u4") == "2.6.12"
    assert load.stat_of("self")[1].isdigit() and load.stat_of(0) == []


def run(here):
    check_parses(here)
    check_lock(here)
    check_peers()
    check_report()
    check_small()
    return 0
