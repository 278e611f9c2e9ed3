"""Where a scan runs: here while other threads leave room, else in a process of its own (decision 022)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lastgood
from lastgood import workspace as scanning
from lastgood.objects.engine import GitEngine
from lastgood.scanner import scan
from lastgood.scanner.remote import RemoteScanner
from lastgood.scanner.scan import Bounds, Patience, Starved, WorkspaceScanner
from lastgood.testing.clock import FakeClock
from lastgood.workspace import ScannerOfChoice
from tools.desk import Desk

SIZE = 12_345


class Choice:
    """A desk whose scanner chooses, and the places that it chose."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder)
        (self.desk.store / "tmp").mkdir()
        self.store = os.fsencode(self.desk.store)
        self.engine = GitEngine.create(
            self.store + b"/objects.git", temporary=os.fsencode(self.desk.store / "tmp")
        )
        self.desk.engine = self.engine
        self.here = 0
        self.elsewhere = 0
        self.scanner = ScannerOfChoice(self._here, self._elsewhere)
        self.desk.scanner = self.scanner

    def _here(self) -> WorkspaceScanner:
        self.here += 1
        return WorkspaceScanner(
            cache=os.fsencode(self.desk.cache), clock=self.desk.clock, objects=self.engine
        )

    def _elsewhere(self) -> RemoteScanner:
        self.elsewhere += 1
        return RemoteScanner(cache=os.fsencode(self.desk.cache), store=self.store, engine=self.engine)

    def save(self) -> set[str]:
        """Save and return what the checkpoint holds."""
        return self.desk.names(self.desk.save())


@pytest.fixture
def choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Choice]:
    monkeypatch.setattr(scanning, "_count", lambda: 1)
    monkeypatch.setattr(scan, "_SECONDS", 3600.0)  # however slow the machine
    choice = Choice(tmp_path)
    choice.desk.write("a")
    yield choice
    choice.scanner.close()


def test_alone_a_scan_runs_here(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_count", lambda: 0)
    choice.save()
    choice.save()
    assert (choice.here, choice.elsewhere) == (2, 0)


def test_beside_threads_what_is_not_known_yet_is_scanned_elsewhere(choice: Choice) -> None:
    assert choice.save() == {"a"}
    assert (choice.here, choice.elsewhere) == (1, 1)


def test_beside_quiet_threads_a_small_workspace_is_scanned_here(choice: Choice) -> None:
    choice.save()
    choice.desk.write("b")
    assert choice.save() == {"a", "b"}
    assert choice.here == 2
    choice.scanner.close()
    assert choice.save() == {"a", "b"}
    assert choice.elsewhere == 1


def test_a_large_workspace_is_scanned_elsewhere_by_one_process(
    choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_FILES", 1)
    choice.desk.write("b")
    for _ in range(3):
        assert choice.save() == {"a", "b"}
    assert choice.elsewhere == 1


def test_a_scan_that_is_starved_goes_on_elsewhere(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored until then is stored once, and whole."""
    for number in range(30):
        choice.desk.write(f"d{number}/f", f"first {number}")
    choice.save()
    monkeypatch.setattr(scan, "_SECONDS", -3600.0)
    for number in range(30):
        choice.desk.write(f"d{number}/f", f"second {number}")
    choice.desk.write("d7/g", "new")
    held = choice.desk.held(choice.desk.save())
    assert held[b"d29/f"][2] == b"second 29"
    assert held[b"d7/g"][2] == b"new"
    assert choice.elsewhere == 1


def test_a_scan_that_is_starved_in_the_middle_loses_nothing(
    choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        choice.desk.write(f"d{number}/f", f"first {number}")
    choice.save()
    looks = 0
    heed = Patience.heed

    def tired(self: Patience) -> None:
        nonlocal looks
        looks += 1
        if looks == 25:
            monkeypatch.setattr(scan, "_SECONDS", -3600.0)
            self.begin({b"": (b"",) * 6 + (0,)})  # type: ignore[dict-item]  # a tree without files
        heed(self)

    monkeypatch.setattr(Patience, "heed", tired)
    for number in range(30):
        choice.desk.write(f"d{number}/f", f"second {number}")
    held = choice.desk.held(choice.desk.save())
    assert looks == 25
    assert {held[b"d%d/f" % number][2] for number in range(30)} == {
        b"second %d" % number for number in range(30)
    }


def test_after_starving_once_a_scan_is_not_tried_here_for_a_while(
    choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_SHUNNED", 2)
    choice.desk.write("d/f")
    choice.save()
    with monkeypatch.context() as busy:
        busy.setattr(scan, "_SECONDS", -3600.0)
        choice.save()
    tried = choice.here
    choice.save()
    choice.save()
    assert choice.here == tried
    choice.save()
    assert choice.here == tried + 1


def test_waiting_for_young_files_is_no_starving() -> None:
    """S8: the scan itself waits, at its end, until they have come to rest."""
    patience = Patience(factor=-1.0)
    patience.begin({b"": (b"",) * 6 + (1,)})  # type: ignore[dict-item]  # a tree of one file
    limits = Bounds(FakeClock(), budget=None, patience=patience)
    assert not limits.is_over()
    with pytest.raises(Starved):
        limits.is_late()
    assert patience.worn


def test_a_change_in_the_tick_of_the_one_before_is_seen_whatever_clock_the_caller_brings(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: how young a file is, the clock says by which its times are set."""
    monkeypatch.setattr(scanning, "_count", lambda: 0)
    tick = time.time_ns() + 3600 * 10**9  # however slow the machine, it is not over

    def frozen(look: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def ask(*arguments: object, **options: object) -> os.stat_result:
            seen = look(*arguments, **options)
            if seen.st_size != SIZE:
                return seen
            return os.stat_result(tuple(seen), {"st_mtime_ns": tick, "st_ctime_ns": tick})

        return ask

    for name in ("stat", "fstat"):
        monkeypatch.setattr(os, name, frozen(getattr(os, name)))
    later = FakeClock(start=tick + 3600 * 10**9)
    with lastgood.open(project, store=store, maintenance="off", clock=later) as workspace:
        (project / "file").write_text("1" * SIZE)
        workspace.save("one")
        (project / "file").write_text("2" * SIZE)
        saved = workspace.save("two").checkpoint
        assert workspace.read(saved.id, "file") == b"2" * SIZE


def test_a_busy_thread_does_not_hinder_a_save(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for number in range(300):
        choice.desk.write(f"d{number % 10}/f{number}", "x")
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        for turn in range(5):
            choice.desk.write("d1/f1", str(turn))
            held = choice.desk.held(choice.desk.save())
            assert held[b"d1/f1"][2] == str(turn).encode()
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
