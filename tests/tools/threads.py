"""Has each test begin without threads of earlier ones, which verbs would count and go other ways beside."""

from __future__ import annotations

import _thread
import os
import sys
import time
from importlib import import_module

import pytest

# How long threads of earlier tests are waited for, in seconds.
_PATIENCE = 10.0
# How long an idle thread of trio's waits for work, which by itself is ten seconds.
_IDLE = 0.01
# Where threads are counted.
_COUNTING = ("lastgood.worker", "lastgood.workspace", "lastgood.workspace.opened")


class Threads:
    """How many of this process are no test's, as the one with which a worker waits for the controller."""

    waiting = _thread._count()

    @classmethod
    def of_tests(cls) -> int:
        return max(0, _thread._count() - cls.waiting)

    @classmethod
    def forked(cls) -> None:
        """Count none that is not here: some versions of Python count them in a fork, though it has none."""
        cls.waiting = min(cls.waiting, _thread._count())

    @classmethod
    def let_end(cls) -> None:
        """Wait for those of earlier tests; what stays all the same, as some library's, is no test's."""
        ends = time.monotonic() + _PATIENCE
        while _thread._count() > cls.waiting and time.monotonic() < ends:
            time.sleep(0.001)
        cls.waiting = _thread._count()


def as_without_waiting_threads() -> None:
    """Have verbs in a worker of xdist go the ways of most programs, which have one thread.

    Beside any other scans, the collector of cycles and the helper of a first save go other ways (decision
    022); for `beside` in scripts/check the worker's own counts.
    """
    os.register_at_fork(after_in_child=Threads.forked)
    for name in _COUNTING:
        assert hasattr(import_module(name), "_count")
        vars(import_module(name))["_count"] = Threads.of_tests


if "PYTEST_XDIST_WORKER" in os.environ and "LASTGOOD_TESTS_BESIDE" not in os.environ:
    as_without_waiting_threads()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let threads of the tests before come to their end."""
    if kept := sys.modules.get("trio._core._thread_cache"):
        vars(kept)["IDLE_TIMEOUT"] = _IDLE
    Threads.let_end()
