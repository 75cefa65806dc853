"""Medians, ratios, tables and a chart from what was measured.

Ratios are taken within each round, and then their median: the machine's mood changes from round to
round more than within one."""

import dataclasses
import statistics
from xml.sax.saxutils import escape

from peers import BARE, EXPRESS, LEASED, LUA, PEERS, STRICT

BEGIN = "<!-- tests/bench/compare writes from here -->"
END = "<!-- to here -->"
BY_NAME = {peer.name: peer for peer in PEERS}


class Figures:
    def __init__(self, results):
        self.rounds = results["rounds"]
        self.peers = [peer for peer in PEERS if peer.name in self.rounds[0]]

    def has(self, name, load):
        return load in self.rounds[0].get(name, {})

    def median(self, name, load, figure):
        return statistics.median(of[name][load][figure] for of in self.rounds)

    def ratio(self, one, other, figure):
        """The median of one's figure over the other's, each (name, load); None if one is missing."""
        if not self.has(*one) or not self.has(*other):
            return None
        return statistics.median(
            value(of[one[0]][one[1]], figure) / value(of[other[0]][other[1]], figure)
            for of in self.rounds)


def value(figures, name):
    if name == "all_us":
        return figures["cpu_us"] + figures["redis_us"]
    return figures[name]


# What is promised


@dataclasses.dataclass(frozen=True)
class Promise:
    what: str
    ratio: float
    least: float

    @property
    def is_kept(self):
        return self.ratio >= self.least


def promises(results):
    figures = Figures(results)
    wanted = (
        ("requests a second, weir on Redis, strict, over Express with rate-limit-redis",
         (STRICT, "one"), (EXPRESS, "one"), 12),
        ("requests a second, weir on Redis, leased, over Express with rate-limit-redis",
         (LEASED, "one"), (EXPRESS, "one"), 20),
        ("requests a second, weir on Redis, strict, over nginx with Lua and Redis",
         (STRICT, "one"), (LUA, "one"), 1),
        ("429s a second, weir on Redis under flood, over the bare handler's answers",
         (STRICT, "refused"), (BARE, "one"), 0.9),
    )
    ratios = ((what, figures.ratio(one, other, "per_s"), least)
              for what, one, other, least in wanted)
    return [Promise(what, ratio, least) for what, ratio, least in ratios if ratio is not None]


# Tables


def number(amount):
    """Three digits that count."""
    if amount is None:
        return ""
    digits = 0 if amount >= 99.95 else 1 if amount >= 9.995 else 2 if amount >= 0.9995 else 3
    return f"{amount:,.{digits}f}"


def table(head, rows):
    """A Markdown table that reads well as text, too; all columns but the first to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells):
        return "| " + " | ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths))) + " |"
    rule = "|" + "|".join("-" * (width + 2) if i == 0 else "-" * (width + 1) + ":"
                          for i, width in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def times(ratio):
    return "" if ratio is None else f"{number(ratio)} ×"


def cpu_cells(figures, peer, load):
    """CPU per request of the server, and of Redis where it has a part."""
    return [number(figures.median(peer.name, load, "cpu_us")),
            number(figures.median(peer.name, load, "redis_us")) if peer.redis else ""]


def milliseconds(figures, peer, load, figure):
    return number(figures.median(peer.name, load, figure) / 1000)


def one_client(figures):
    head = ["one client, all let through", "requests/s", "of its bare", "CPU µs: server", "Redis",
            "together, of its bare", "weir, strict, does"]
    rows = []
    for peer in figures.peers:
        own, bare = (peer.name, "one"), (peer.bare, "one")
        rows.append([
            peer.name, number(figures.median(*own, "per_s")),
            times(figures.ratio(own, bare, "per_s")), *cpu_cells(figures, peer, "one"),
            times(figures.ratio(own, bare, "all_us")),
            times(figures.ratio((STRICT, "one"), own, "per_s"))])
    return table(head, rows)


def latencies(figures):
    head = ["how long an answer takes", "64 connections: p50 ms", "p99 ms",
            "one connection: p50 ms", "p99 ms"]
    return table(head, [
        [peer.name, *(milliseconds(figures, peer, load, figure)
                      for load in ("one", "quiet") for figure in ("p50_us", "p99_us"))]
        for peer in figures.peers])


def other_cells(figures, peer, load):
    if not figures.has(peer.name, load):
        return [""] * 4
    return [number(figures.median(peer.name, load, "per_s")),
            milliseconds(figures, peer, load, "p99_us"), *cpu_cells(figures, peer, load)]


def other_loads(figures):
    head = ["many clients; one that is refused", "many: requests/s", "p99 ms", "CPU µs: server",
            "Redis", "refused: 429s/s", "p99 ms", "CPU µs: server", "Redis"]
    return table(head, [
        [peer.name, *other_cells(figures, peer, "many"), *other_cells(figures, peer, "refused")]
        for peer in figures.peers if peer.is_limited])


def promise_lines(results):
    return [f"- {promise.what}: {number(promise.ratio)} × "
            f"({'' if promise.is_kept else 'missed: '}at least {promise.least} × is promised)"
            for promise in promises(results)]


def as_text(results):
    figures = Figures(results)
    rounds = len(figures.rounds)
    return "\n\n".join([
        f"Medians of {rounds} round{'s' * (rounds != 1)}.", one_client(figures),
        latencies(figures), other_loads(figures), "\n".join(promise_lines(results))])


def facts_table(results):
    return table(["what", "which"], [[name, str(fact)] for name, fact in results["facts"].items()])


# The chart

BAR, GAP, EDGE, LEFT, WIDTH = 18, 6, 16, 290, 800
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; }
  .ground { fill: #ffffff; }
  .weir { fill: #0969da; }
  .other { fill: #8c959f; }
  .bare { fill: #d0d7de; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .ground { fill: #0d1117; }
    .weir { fill: #4493f8; }
    .other { fill: #848d97; }
    .bare { fill: #484f58; }
  }"""
GROUPS = (
    ("Counted in a Redis that all share: requests per second", "one", lambda peer: peer.redis),
    ("Counted in the process, or not at all: requests per second", "one",
     lambda peer: not peer.redis),
    ("One client far over its limit: 429s per second", "refused", lambda peer: True),
)


def colour(peer):
    return "bare" if not peer.is_limited else "weir" if peer.name.startswith("weir") else "other"


def bars(title, entries, most, top):
    """The lines of one group of bars, of entries (peer, amount), and where the next may start."""
    lines = [f'<text class="title" x="{EDGE}" y="{top + 14}">{escape(title)}</text>']
    top += 26
    for peer, amount in entries:
        length = round((WIDTH - LEFT - EDGE - 70) * amount / most, 1)
        name = escape(peer.name)
        lines += [f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{name}</text>',
                  f'<rect class="{colour(peer)}" x="{LEFT}" y="{top}" width="{length}" '
                  f'height="{BAR}" rx="2"/>',
                  f'<text x="{LEFT + length + 6:.1f}" y="{top + 13}">{amount:,.0f}</text>']
        top += BAR + GAP
    return lines, top + 14


def group_entries(figures, load, is_in):
    entries = [(peer, figures.median(peer.name, load, "per_s"))
               for peer in figures.peers if is_in(peer) and figures.has(peer.name, load)]
    return sorted(entries, key=lambda entry: -entry[1])


def chart(results):
    """All groups have one scale."""
    figures = Figures(results)
    groups = [(title, group_entries(figures, load, is_in)) for title, load, is_in in GROUPS]
    most = max(entries[0][1] for _, entries in groups if entries)
    lines, height = [], EDGE
    for title, entries in groups:
        if entries:
            added, height = bars(title, entries, most, height)
            lines += added
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" '
        'aria-label="Requests per second of weir and of other limiters">',
        f"<style>{STYLE}\n</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>', *lines, "</svg>", ""])


# The page


def with_figures(page, text):
    """The page with the text in place of what stands between the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def write_docs(results, folder):
    page = folder / "benchmarks.md"
    text = "\n\n".join([as_text(results), facts_table(results)])
    page.write_text(with_figures(page.read_text(), text))
    (folder / "benchmarks.svg").write_text(chart(results))
