"""Whoever is stopped (Ctrl-Z, SIGSTOP) at some call: others read all the same, or hear at once of whom."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood
from faults.cli import SOURCES, Answer, Bench
from faults.injector import Blow, Injector, Mode
from lastgood.errors import Busy
from lastgood.locks import FolderTurn
from tools.values import not_none

BUSY = 14
DATABASE = ("catalogue.sqlite3", "catalogue.sqlite3-wal", "catalogue.sqlite3-shm")


@pytest.fixture
def kept(bench: Bench) -> Bench:
    (bench.workspace / "a").write_text("a\n")
    bench.save("--allow-root", "first", "--name", "first")
    (bench.workspace / "a").write_text("b\n")
    return bench


def order_of(bench: Bench) -> dict[str, object]:
    return {"workspace": str(bench.workspace), "store": str(bench.store)}


def calls_of(injector: Injector, bench: Bench, verb: str, order: dict[str, object]) -> list[tuple[int, str]]:
    """Return the calls by which a verb changes files, with the files' names; all is as before then."""
    roots = (bench.store, bench.workspace)
    for root in roots:
        shutil.copytree(root, root.with_suffix(".kept"))
    trial = injector.run(verb, order, roots=roots, blow=Blow(), traced=True)
    assert trial.status == 0, trial
    for root in roots:
        shutil.rmtree(root)
        root.with_suffix(".kept").rename(root)
    lines = (line.split(" ", 2) for line in trial.trace.splitlines())
    return [(int(number), f"{call} {os.path.basename(path)}") for number, call, path in lines]


def stopped_at(injector: Injector, bench: Bench, verb: str, order: dict[str, object], *, call: int) -> int:
    """Begin a verb and return the process that is stopped before one of its calls."""
    injector.start(verb, order, roots=(bench.store, bench.workspace), blow=Blow(call, Mode.STOP))
    pid = injector.stopped()
    assert pid, call
    return pid


def names_who(answer: Answer, pid: int) -> bool:
    return f"pid {pid}" in answer.err and f"kill -CONT {pid}" in answer.err


def test_reads_beside_a_save_that_is_stopped_anywhere_in_the_catalogue(
    injector: Injector, kept: Bench
) -> None:
    """S16: they are answered, or end as busy and name who is stopped, and what lets it go on."""
    found = calls_of(injector, kept, "save", order_of(kept))
    calls = {what: number for number, what in reversed(found) if what.split(" ")[1] in DATABASE}
    busy = set()
    for turn, (what, number) in enumerate(sorted(calls.items())):
        (kept.workspace / "a").write_text(f"{number}\n")
        pid = stopped_at(injector, kept, "save", order_of(kept), call=number)
        try:
            answer = kept(("list", "status")[turn % 2], "--allow-root")
        finally:
            injector.go_on()
        assert injector.finish().status == 0, what
        assert answer.code in {0, BUSY}, (what, answer)
        if answer.code == BUSY:
            busy.add(what)
            assert names_who(answer, pid), (what, answer)
    # Where it is set up, and where the last one closes it: everywhere else reads need not wait.
    assert {what for what in busy if "-wal" in what} <= {"unlink catalogue.sqlite3-wal"}
    assert any("ftruncate" in what and "-shm" in what for what in busy), busy


def test_status_beside_a_restore_that_is_stopped_says_so(injector: Injector, kept: Bench) -> None:
    """S16, P8: how things stand is told without waiting for whoever changes the workspace."""
    order = order_of(kept) | {"ref": "first"}
    found = calls_of(injector, kept, "restore", order)
    writing = next(number for number, what in found if what.split(" ")[1].startswith(".lastgood-"))
    with lastgood.open(kept.workspace, store=kept.store, maintenance="off", allow_root=True) as workspace:
        pid = stopped_at(injector, kept, "restore", order, call=writing)
        try:
            report = workspace.status()
            with pytest.raises(Busy) as caught:
                workspace.save("beside it", allow_empty=True)
        finally:
            injector.go_on()
        assert injector.finish().status == 0
    assert report.drift is None
    assert report.state == "idle"
    assert [note.code for note in report.health] == ["busy"]
    assert str(pid) in report.health[0].message
    assert caught.value.details["pid"] == pid
    assert f"kill -CONT {pid}" in caught.value.hint


def test_a_store_whose_maker_is_stopped_is_not_waited_for(injector: Injector, bench: Bench) -> None:
    """S16: nor is it made by somebody else meanwhile; when it is made, all is well."""
    (bench.workspace / "a").write_text("a\n")
    pid = stopped_at(injector, bench, "save", order_of(bench), call=4)
    try:
        answer = bench("save", "--allow-root")
    finally:
        injector.go_on()
    assert answer.code == BUSY, answer
    assert names_who(answer, pid), answer
    assert injector.finish().status == 0
    assert bench("save", "--allow-root", "--allow-empty").code == 0


_FIRST = """
import sys
from lastgood.ledger.file import WriterQueue as Place
with Place(sys.argv[1], wait=1):
    print("first", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def first_in_line(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    """A process that stands first in the line of a store's ledger, and is stopped."""
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off", allow_root=True) as workspace:
        workspace._context.ledgers.space("test", workspace=workspace._context.key)
    words = [sys.executable, "-c", _FIRST, str(bench.store)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env={"PYTHONPATH": str(SOURCES)}, stdin=pipe, stdout=pipe, text=True) as one:
        assert not_none(one.stdout).readline() == "first\n"
        one.send_signal(signal.SIGSTOP)
        yield one
        one.kill()


def test_the_line_of_the_ledger_goes_on_without_one_that_is_stopped(
    bench: Bench, first_in_line: subprocess.Popen[str]
) -> None:
    """The line is a courtesy: whoever is stopped at its head loses the place."""
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off", allow_root=True) as workspace:
        space = workspace._context.ledgers.space("test", workspace=workspace._context.key)
        assert space.change(lambda _writer: "changed") == "changed"
    assert first_in_line.poll() is None


def test_what_has_to_be_waited_for_names_who_is_stopped(
    tmp_path: Path, bench: Bench, first_in_line: subprocess.Popen[str]
) -> None:
    """S16: a turn that is no courtesy is never taken from its owner."""
    with pytest.raises(Busy, match=f"what is made is held by pid {first_in_line.pid}"):
        FolderTurn(str(bench.store), what="what is made").__enter__()
    with FolderTurn(str(tmp_path), what="another"):
        pass
