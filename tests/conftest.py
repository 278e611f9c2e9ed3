"""Fixtures for everyone: a workspace and a store in a temporary folder, and a home that must not be used."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, cast

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

import lastgood as package
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.command import Command
from tools.judge import git_faults

if TYPE_CHECKING:
    from tools.event_loops import Loop

pytest_plugins = ["tools.chance", "tools.costs", "tools.mounts", "tools.threads"]

HERE = Path(__file__).parent
MEMORY = Path("/dev/shm")
# Where scripts/check mounted a file system in memory for the run, and the tests that stay on the disk all the
# same: how files are told to be unchanged, replaced and made safe depends on the file system. What does the
# main job (`beside` in scripts/check) runs once more, and on the disk.
PLACE = os.environ.get("LASTGOOD_TEST_MEMORY")
ON_DISK = (
    "project_git/",
    "real/",
    "scanner/",
    "faults/test_environment.py",  # file systems that cannot be written, and odd ones
    "restore/test_barred_ways.py",
    "restore/test_hazards.py",  # who swaps what during a restore
    "workspace/test_git_as_state.py",
    "workspace/test_history.py",  # no sequence of verbs loses anything
    "workspace/test_left_overs.py",
    "workspace/test_saves_in_parts.py",  # in memory, what is young waits for the last part
    "workspace/test_scanning.py",
)
# When the collector looks for garbage: there is little, and by Python's own numbers it takes 4 in 100.
SELDOM = (10_000, 20, 50)
# Of a test's name, what its folder is called by; and the next number of each such name.
LONGEST_NAME = 30
NUMBERS: defaultdict[str, count[int]] = defaultdict(count)
FAILED = pytest.StashKey[bool]()
GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A. Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.org",
    "GIT_COMMITTER_NAME": "A. Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.org",
}


# A machine that is busy with other things is no fault of what is tested: nothing here asserts a duration.
# Nor does how many draws were filtered or how large they came out by chance.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("patient")
# Whether a commit is sound must not depend on the luck of a draw: CI takes the same examples each time.
hypothesis.settings.register_profile("steady", hypothesis.settings.get_profile("patient"), derandomize=True)


@pytest.hookimpl(trylast=True)  # after the profile was chosen
def pytest_configure() -> None:
    """Have the steady examples depend on nothing but the tests.

    Else some are made of the constants of whatever modules the tests before happened to import.
    """
    chosen = hypothesis.settings.default
    if chosen is not None and chosen.derandomize and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have nobody look for garbage among all modules and tests: they stay, and forks share their pages."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Await a test that is a coroutine function: on the loop that it asks for, else on asyncio's."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test = partial(pyfuncitem.obj, **given)
    loop = cast("Loop | None", pyfuncitem.funcargs.get("loop"))
    asyncio.run(test()) if loop is None else loop.run(test)
    return True


# A shell that starts the tests in the background has them ignore Ctrl-C and Ctrl-\, and nohup a hangup; what
# they start inherits that.
for number, own in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, own)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, for the fixtures that clean up."""
    report = yield
    item.stash[FAILED] = report.failed or item.stash.get(FAILED, False)
    return report


def _made(name: str, base: Path, request: pytest.FixtureRequest) -> Path:
    """Make a folder, in memory if there is room and the test need not be on a disk.

    pytest would look for a number that is free among the names of all folders, for each one anew.
    """
    if PLACE is not None and not request.path.relative_to(HERE).as_posix().startswith(ON_DISK):
        base = Path(PLACE, base.name)
    folder = base / f"{name}{next(NUMBERS[name.lower()])}"
    folder.mkdir(mode=0o700, parents=True)
    return folder


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return the folder of the test; what is in memory is gone after it, or on the disk if it failed."""
    base = tmp_path_factory.getbasetemp()
    folder = _made(re.sub(r"\W", "_", request.node.name)[:LONGEST_NAME], base, request)
    yield folder
    if folder.parent != base:
        if request.node.stash.get(FAILED, False):
            subprocess.run(["cp", "-a", folder, base], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nobody_uses_the_real_home(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Point home, state and configuration at an empty folder, and forget inherited settings."""
    home = _made("home", tmp_path_factory.getbasetemp(), request)
    monkeypatch.setenv("HOME", str(home))
    for name in tuple(os.environ):
        if name.startswith(("LASTGOOD_", "XDG_", "GIT_")) and name != "LASTGOOD_TEST_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LASTGOOD_MAINTENANCE", "off")
    monkeypatch.setenv("LASTGOOD_WATCH_ON_DEMAND", "never")
    # The command of this checkout is what a shell finds by its name, so that hints say it by that.
    monkeypatch.setenv(
        "PATH", os.pathsep.join((str(Path(__file__).parent.parent), os.environ.get("PATH", os.defpath)))
    )
    for name, value in GIT_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def arena() -> Iterator[Path]:
    """A folder in memory where there is one: trials copy a great deal."""
    home = MEMORY if os.access(MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="lastgood-tests-", dir=home)).resolve()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty folder to work in."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return where the store of this test goes; at the end git judges what became of it."""
    folder = tmp_path / "store"
    yield folder
    if not request.node.get_closest_marker("damages"):
        assert git_faults(folder) == ""


@pytest.fixture
def workspace(project: Path, store: Path) -> Iterator[Workspace]:
    """Return the project, opened."""
    with package.open(project, store=store, maintenance="off") as opened:
        yield opened


@pytest.fixture
def opened(project: Path, store: Path) -> Iterator[Callable[..., Workspace]]:
    """Return a call that opens the project, as often as wanted."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            package.open(project, store=store, maintenance="off", **options)
        )


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that stands still until it is moved."""
    return FakeClock()


@pytest.fixture
def lastgood(project: Path, store: Path, request: pytest.FixtureRequest) -> Command:
    """Return the command, in the project."""
    return Command(project, store, starts=request.node.get_closest_marker("starts") is not None)


@pytest.fixture(params=["asyncio", "trio"])
def loop(request: pytest.FixtureRequest) -> Loop:
    """Return an event loop of each kind; a test that is a coroutine function runs on it."""
    from tools.event_loops import Loop

    return Loop(request.param)


@pytest.fixture
def sleeper() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Return a call that starts a process that does nothing until it is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        one = subprocess.Popen(["sleep", "600"])
        started.append(one)
        while not Path(f"/proc/{one.pid}/cmdline").read_bytes().startswith(b"sleep\0"):
            time.sleep(0.001)  # the kernel knows its words a moment after it started
        return one

    yield start
    for one in started:
        one.kill()
        one.wait()


@pytest.fixture
def git() -> Callable[..., str]:
    """Return a call of the real git in a folder, hermetic."""

    def call(folder: Path, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout

    return call
