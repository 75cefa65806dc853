#!/usr/bin/env python3
"""Writes docs/herd.svg from what bench_herd prints, and the table of docs/clients.md to standard output.

Usage: bench_herd_chart.py BUILD/tests/bench/bench_herd docs/herd.svg"""

import json
import subprocess
import sys

SHOWN = ('Retry-After, to the second', 'exponential, without jitter', 'weir_backoff')
WIDTH, PANEL, LEFT, RIGHT, TOP, GAP = 720, 96, 56, 16, 52, 34
MOST = 1000  # requests in 100 ms at the top of a panel
TEXT = 'font-family="sans-serif" font-size="12" fill="#333"'


def bars(counts, bottom):
    """One path for all bars: each as wide as its 100 ms."""
    step = (WIDTH - LEFT - RIGHT) / len(counts)
    moves = []
    for index, count in enumerate(counts):
        if count:
            height = count / MOST * PANEL
            moves.append(f'M{LEFT + index * step:.1f} {bottom}v-{height:.1f}h{step:.1f}v{height:.1f}z')
    return ''.join(moves)


def panel(name, counts, top):
    bottom = top + PANEL
    lines = [f'<text x="{LEFT}" y="{top - 6}" {TEXT}>{name}</text>']
    for value in (0, MOST // 2, MOST):
        y = bottom - value / MOST * PANEL
        lines.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" {TEXT}>{value}</text>')
    lines.append(f'<path d="{bars(counts, bottom)}" fill="#2b6cb0"/>')
    return lines


def axis(seconds, bottom):
    lines = []
    for second in range(0, seconds + 1, 10):
        x = LEFT + second / seconds * (WIDTH - LEFT - RIGHT)
        lines.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" {TEXT}>{second} s</text>')
    return lines


def chart(series):
    height = TOP + len(SHOWN) * (PANEL + GAP) + 4
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
             '<title>Requests in each 100 ms after 1000 clients were refused at once</title>',
             f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
             f'<text x="{LEFT}" y="16" {TEXT}>requests in each 100 ms; the limit lets 5 through</text>']
    top = TOP
    for name in SHOWN:
        lines += panel(name, series[name], top)
        top += PANEL + GAP
    lines += axis(len(series[SHOWN[0]]) // 10, top - GAP)
    return '\n'.join(lines + ['</svg>', ''])


def table(figures):
    yield '| strategy | attempts | busiest 100 ms | busiest second | all served after |'
    yield '|---|---|---|---|---|'
    for it in figures:
        yield (f'| {it["strategy"]} | {it["attempts"]} | {it["peak_per_100ms"]} '
               f'| {it["peak_per_s"]} | {it["all_served_after_s"]:.1f} s |')


def main():
    program, file = sys.argv[1:]
    printed = subprocess.run([program, '--series'], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in printed.splitlines()]
    with open(file, 'w') as svg:
        svg.write(chart({row['strategy']: row['per_100ms'] for row in rows if 'per_100ms' in row}))
    print('\n'.join(table([row for row in rows if 'attempts' in row])))


main()
