"""Tells which files of tests take most of a processor, with all that they start.

`--costs FOLDER` has each process of pytest write there what its tests took; this program, given the folder,
adds it up by file: seconds of a processor of pytest's own process and of its children, and on the clock.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import pytest

SHOWN = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that asks for it."""
    parser.addoption("--costs", metavar="FOLDER", help="write there what each test took of a processor")


def pytest_configure(config: pytest.Config) -> None:
    """Begin, if it is asked for; the controller of workers runs no tests."""
    folder = config.getoption("--costs")
    controls = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if folder is not None and not controls:
        config.pluginmanager.register(Costs(Path(folder)))


class Costs:
    """Writes a line for each test, its fixtures counted in, and for the collection and the end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{os.getpid()}.tsv").open("w", encoding="utf-8")
        self._before = (0.0, 0.0, time.monotonic())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        self._write("collection")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        done = yield
        self._write(item.nodeid)
        return done

    def pytest_unconfigure(self) -> None:
        self._write("end")
        self._file.close()

    def _write(self, name: str) -> None:
        own, theirs = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
        now = (own.ru_utime + own.ru_stime, theirs.ru_utime + theirs.ru_stime, time.monotonic())
        took = [f"{after - before:.4f}" for before, after in zip(self._before, now, strict=True)]
        self._before = now
        self._file.write("\t".join([*took, name]) + "\n")


def main(folder: Path) -> None:
    """Print what was written into a folder, added up."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for file in folder.glob("*.tsv"):
        for line in file.read_text(encoding="utf-8").splitlines():
            *took, name = line.split("\t", 3)
            of_file, of_all = sums[name.partition("::")[0]], sums["all"]
            for column, value in enumerate([*map(float, took), 1.0]):
                of_file[column] += value
                of_all[column] += value
    print("   own  children  clock  tests")
    for name, row in sorted(sums.items(), key=lambda one: -one[1][0] - one[1][1])[:SHOWN]:
        own, theirs, clock, tests = row
        print(f"{own:6.1f} {theirs:9.1f} {clock:6.1f} {tests:6.0f}  {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
