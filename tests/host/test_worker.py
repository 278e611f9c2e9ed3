"""A forked process beside this one: nothing of it outlives who wanted it."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lastgood.worker import Worker
from tools.living import children, descriptors


def test_an_interruption_while_it_is_made_leaves_no_process_and_no_file_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S13: the resident, or a notebook, goes on for long after that."""
    fork = os.fork

    def interrupted() -> int:
        child = fork()
        if child:
            # To this thread, as in a process that has no other: those that run tests have.
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return child

    asked, asking = os.pipe()
    others, opened = set(children(os.getpid())), descriptors()

    def work(_tell: object) -> None:
        os.read(asked, 1)

    monkeypatch.setattr(os, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Worker(work, keep=[asked])

    assert set(children(os.getpid())) <= others
    assert descriptors() == opened
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    os.close(asked)
    os.close(asking)


def test_one_that_somebody_else_waited_for_is_not_killed_by_a_number_that_may_be_a_stranger_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a program waits for all its children, or ignores SIGCHLD."""
    before = set(children(os.getpid()))
    worker = Worker(lambda tell: tell(b"done"), keep=())
    [child] = set(children(os.getpid())) - before
    assert worker.hear(4) == b"done"
    os.waitpid(child, 0)
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda process, _number: killed.append(process))
    worker.end()
    assert killed == []


def test_one_that_is_still_at_work_ends_with_whoever_wanted_it() -> None:
    before, opened = set(children(os.getpid())), descriptors()
    asked, asking = os.pipe()

    def work(_tell: object) -> None:
        os.read(asked, 1)

    Worker(work, keep=[asked]).end()
    assert set(children(os.getpid())) <= before
    os.close(asked)
    os.close(asking)
    assert descriptors() == opened


def test_all_that_one_says_is_heard_however_long_and_no_more_than_was_asked_for() -> None:
    said = bytes(range(256)) * (3 << 12)
    worker = Worker(lambda tell: tell(said + b"more"), keep=())
    assert worker.hear(len(said), patience=600_000) == said
    assert worker.hear(9) == b"more"
    worker.end()


def test_one_of_which_nobody_knows_any_more_ends() -> None:
    """S13: as where an interruption comes when it is made, and not yet somebody's."""
    before, opened = set(children(os.getpid())), descriptors()
    asked, asking = os.pipe()

    def work(_tell: object) -> None:
        os.read(asked, 1)

    worker = Worker(work, keep=[asked])
    assert len(set(children(os.getpid())) - before) == 1
    del worker
    assert set(children(os.getpid())) <= before
    os.close(asked)
    os.close(asking)
    assert descriptors() == opened
