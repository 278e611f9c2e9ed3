"""Measures lastgood beside git and its peers, in the same run, and prints a table.

Every figure is a median over rounds in which all sides take turns. What counts are the ratios, medians
too, and within what half of the rounds had them: the machine decides the rest.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace

from plot import picture
from rows import LONG, ROWS, SHORT, Bench, Row, Sizes
from sides import ROOT

PAGE = os.path.join(ROOT, "docs", "performance.md")
PICTURE = os.path.join(ROOT, "docs", "performance.svg")
RESULTS = os.path.join(ROOT, ".cache", "bench-results.json")
BLOCK = re.compile(r"(?<=<!-- bench -->\n).*?(?=<!-- end of bench -->)", re.DOTALL)
SIDES = ("lastgood", "git", "opencode", "PraisonAI", "stepback", "borg", "restic")


def main(arguments: list[str]) -> int:
    """Measure what was asked for."""
    options = parse(arguments)
    sizes = SHORT if options.short else Sizes()
    if options.rounds:
        sizes = replace(sizes, rounds=options.rounds)
    place = os.path.realpath(tempfile.mkdtemp(prefix="lastgood-bench-", dir=options.place))
    bench = Bench(place, sizes, with_peers=not options.short)
    results: dict[str, list[Row]] = {} if options.short else load()
    try:
        for name in options.rows or [name for name in ROWS if name not in LONG]:
            begun = time.monotonic()
            results[name] = ROWS[name](bench)
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            if not options.short:
                store(results)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    rows = [row for name in ROWS for row in results.get(name, [])]
    print(table(rows), end="")
    if options.write:
        write(rows)
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument(
        "rows",
        nargs="*",
        choices=[[], *ROWS],
        metavar="ROW",
        help=f"one of {', '.join(ROWS)}; all but {' and '.join(LONG)} if none is named",
    )
    parser.add_argument("--short", action="store_true", help="small sizes, no peers: only prove that it runs")
    parser.add_argument("--write", action="store_true", help="put table and plot into docs/performance.md")
    parser.add_argument("--rounds", type=int, help="how often each figure is taken (default: 7)")
    parser.add_argument("--place", default=tempfile.gettempdir(), help="where trees and stores are laid")
    return parser.parse_args(arguments)


def load() -> dict[str, list[Row]]:
    """Return the rows of earlier runs, so that a single row can be measured again."""
    if not os.path.exists(RESULTS):
        return {}
    with open(RESULTS, encoding="utf-8") as file:
        return {name: [Row(**row) for row in rows] for name, rows in json.load(file).items()}


def store(results: dict[str, list[Row]]) -> None:
    """Keep the rows for the next run."""
    os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
    with open(RESULTS, "w", encoding="utf-8") as file:
        json.dump({name: [asdict(row) for row in rows] for name, rows in results.items()}, file, indent=1)


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    head = ["work", "unit", *SIDES, "ratio", "target", "met"]
    lines = [head, ["---", "---", *["---:" for _ in SIDES], "---:", "---", "---"]]
    for row in rows:
        figures = [shown(row.figures[side]) if side in row.figures else "-" for side in SIDES]
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        if row.spread:
            ratio += f" ({row.spread[0]:.2f} to {row.spread[1]:.2f})"
        met = {True: "yes", False: "**no**", None: "-"}[row.met]
        work = f"{row.work} ({row.note})" if row.note else row.work
        lines.append([work, row.unit, *figures, ratio, row.target, met])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def shown(figure: float) -> str:
    """Return a figure with three digits that mean something."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def write(rows: list[Row]) -> None:
    """Put the table into its page, with the machine it was taken on, and the picture beside it."""
    text = table(rows)
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    assert BLOCK.search(page), PAGE
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(BLOCK.sub(lambda _match: f"{machine()}\n\n{text}", page))
    with open(PICTURE, "w", encoding="utf-8") as file:
        file.write(picture(rows))


def machine() -> str:
    """Return one line on where and when the figures were taken."""
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    today = dt.datetime.now(dt.UTC).date()
    system = f"{platform.system()} {platform.release().split('-')[0]}, {os.cpu_count()} cores"
    return f"Taken {today}: {system}, Python {platform.python_version()}, git {git}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
