"""Fixtures of the fault runs: the injector, and a quick place for trials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lastgood
from faults import sweep
from faults.cli import Bench
from faults.injector import Injector
from faults.stage import Stage
from lastgood.workspace import Workspace
from tools.judge import git_faults
from tools.long_form import LONG

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

CACHE = Path(__file__).parent.parent.parent / ".cache"


@pytest.fixture(scope="module")
def injector(arena: Path) -> Iterator[Injector]:
    with Injector(cache=CACHE, scratch=arena) as running:
        yield running


@pytest.fixture(scope="module")
def stage(arena: Path, request: pytest.FixtureRequest) -> Stage:
    return Stage(arena / request.module.__name__)


@pytest.fixture
def environment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Keep what is known of the store outside it where it is put back with the stage."""
    place = {"LASTGOOD_WITNESS": str(stage.folder / "live" / "witness")}
    monkeypatch.setenv("LASTGOOD_WITNESS", place["LASTGOOD_WITNESS"])
    return place


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A workspace and a store for the command line and the API, side by side; git judges the store."""
    folder = tmp_path.resolve()
    for name in ("workspace", "home"):
        (folder / name).mkdir()
    made = Bench(folder / "workspace", folder / "store", folder / "home")
    yield made
    if not request.node.get_closest_marker("damages"):
        assert git_faults(made.store) == ""


@pytest.fixture
def workspace(bench: Bench) -> Iterator[Workspace]:
    """The workspace of `bench`, opened in this process."""
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Tell how much of the long form the sweeps of this process were."""
    if sweep.count["could"]:
        rest = "" if LONG else "; scripts/torture hits each one"
        terminalreporter.write_line("sweeps: {were} of {could} calls hit".format(**sweep.count) + rest)
