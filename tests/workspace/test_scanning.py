"""Where a scan runs: here while other threads leave room, else in a process of its own (decision 022)."""

from __future__ import annotations

import _thread
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import lastgood
from lastgood import workspace as scanning
from lastgood.errors import Busy, NotFound
from lastgood.objects.engine import GitEngine
from lastgood.restore.site import Threads
from lastgood.scanner import scan
from lastgood.scanner.cache import CacheMemory
from lastgood.scanner.remote import RemoteScanner
from lastgood.scanner.scan import ScanLimits, Starved, ThreadBudget, WorkspaceScanner
from lastgood.scanner.watch import DirectoryWatch
from lastgood.testing.clock import FakeClock
from lastgood.workspace import ScannerOfChoice, Workspace, opened
from tools.desk import Desk
from tools.forks import ended, forked
from tools.killing import Killer

SOURCES = Path(lastgood.__file__).parents[1]

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
        self.scanner = ScannerOfChoice(self._here, self._elsewhere, memory=self._memory, watch=lambda: None)
        self.desk.scanner = self.scanner

    def _memory(self) -> CacheMemory:
        return CacheMemory(os.fsencode(self.desk.cache))

    def _here(self, memory: CacheMemory, watch: DirectoryWatch | None) -> WorkspaceScanner:
        self.here += 1
        return WorkspaceScanner(
            cache=os.fsencode(self.desk.cache),
            clock=self.desk.clock,
            objects=self.engine,
            watch=watch,
            memory=memory,
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
    check = ThreadBudget.check

    def tired(self: ThreadBudget) -> None:
        nonlocal looks
        looks += 1
        if looks == 25:
            monkeypatch.setattr(scan, "_SECONDS", -3600.0)
            self.begin({b"": (b"",) * 6 + (0,)})  # type: ignore[dict-item]  # a tree without files
        check(self)

    monkeypatch.setattr(ThreadBudget, "check", tired)
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
    thread_budget = ThreadBudget(factor=-1.0)
    thread_budget.begin({b"": (b"",) * 6 + (1,)})  # type: ignore[dict-item]  # a tree of one file
    limits = ScanLimits(FakeClock(), budget=None, thread_budget=thread_budget)
    assert not limits.is_over()
    with pytest.raises(Starved):
        limits.is_late()
    assert thread_budget.worn


def test_a_change_in_the_tick_of_the_one_before_is_seen_whatever_clock_the_caller_brings(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: how young a file is, the clock says by which its times are set."""
    monkeypatch.setattr(scanning, "_count", lambda: 0)
    # As on a kernel whose times tell no two changes within a tick apart.
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(sysname="Linux", release="6.1.0"))
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


# Whatever verb has a workspace scanned, it does not notice that the process that scans was killed.


Verb = Callable[[Workspace], object]


@pytest.fixture
def killer(project: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Return what kills the processes that scan the workspace, of which two checkpoints were made."""
    killer = Killer(tmp_path, monkeypatch, call="ftruncate")
    monkeypatch.setattr(sys, "executable", str(killer.python))
    monkeypatch.setattr(scanning, "_count", lambda: 1)  # as beside another thread
    monkeypatch.setattr(scan, "MOST_FILES", -1)  # as if there were many files
    (project / "a").write_text("first")
    workspace.save("first", name="first")
    (project / "a").write_text("second")
    workspace.save("second")
    return killer


VERBS: dict[str, Verb] = {
    "save": lambda workspace: workspace.save("third"),
    "restore": lambda workspace: workspace.restore("first"),
    "undo": lambda workspace: workspace.undo(),
    "diff": lambda workspace: workspace.diff("first"),
    "status": lambda workspace: workspace.status(),
}

CHECK: dict[str, Verb] = {"check": lambda workspace: workspace.check("latest", ["true"])}


@pytest.mark.parametrize("verb", VERBS | CHECK)
def test_a_killed_scan_is_not_noticed(workspace: Workspace, project: Path, killer: Killer, verb: str) -> None:
    if verb == "undo":
        workspace.restore("first")
    (project / "b").write_text("new")
    killer.kill(1)
    (VERBS | CHECK)[verb](workspace)
    assert len(killer.killed) == 1


def test_a_check_that_cannot_look_at_the_workspace_is_made_aside(
    workspace: Workspace, killer: Killer
) -> None:
    killer.kill(99)
    report = workspace.check("latest", ["true"])
    assert (report.good, report.aside) == (True, True)


@pytest.mark.parametrize("verb", VERBS)
def test_scans_that_are_killed_again_and_again_are_told(
    workspace: Workspace, project: Path, store: Path, killer: Killer, verb: str
) -> None:
    if verb == "undo":
        workspace.restore("first")
    (project / "b").write_text("new")
    killer.kill(99)
    with pytest.raises(Busy, match="killed"):
        VERBS[verb](workspace)
    assert list((store / "tmp").iterdir()) == []
    killer.kill(0)
    VERBS[verb](workspace)


# Verbs do without the collector of cycles, and leave it as they found it.


Looks = list[str]


@pytest.fixture
def looks() -> Iterator[Looks]:
    """Have the collector look often, and write down that it did."""
    enabled, thresholds, seen = gc.isenabled(), gc.get_threshold(), list[str]()

    def note(phase: str, _facts: dict[str, int]) -> None:
        seen.append(phase)

    gc.enable()
    gc.set_threshold(1000)
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


def test_no_cycles_are_looked_for_during_a_verb(
    workspace: Workspace, project: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "_count", int)  # a worker of xdist has threads
    for word in ("one", "two"):
        for number in range(1000):
            (project / f"file{number}").write_text(word)
        workspace.save(word)
    before = len(looks)
    workspace.restore("@~1")
    assert len(looks) - before < 12
    assert gc.isenabled()


def test_the_collector_goes_on_after_a_verb_that_failed(workspace: Workspace, looks: Looks) -> None:
    with pytest.raises(NotFound):
        workspace.undo()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(workspace: Workspace, looks: Looks) -> None:
    gc.disable()
    workspace.save("one", allow_empty=True)
    assert not gc.isenabled()


_SAVING = """
import os, sys
import lastgood
root, store = sys.argv[1:]
found = []
def heard(event, told):
    if event == "open" and isinstance(told[0], bytes) and told[0].endswith(b"/scan.records"):
        found.append(told)
sys.addaudithook(heard)
with lastgood.open(root, store=store, maintenance="off", allow_root=True) as workspace:
    for _ in range(2):
        found.clear()
        workspace.save("again")
        print(len(found))
"""


@pytest.mark.parametrize("folders", [20, 2_001])
def test_a_save_reads_the_scan_cache_once_at_most(tmp_path: Path, folders: int) -> None:
    """Also of more folders than are remembered, in which there are few files."""
    root, store = tmp_path / "project", tmp_path / "store"
    for number in range(folders):
        (root / f"{number % 40}" / f"{number}").mkdir(parents=True)
    (root / "file").write_text("x")
    with lastgood.open(root, store=store, maintenance="off", allow_root=True) as workspace:
        workspace.save("first")
    words = [sys.executable, "-c", _SAVING, str(root), str(store)]
    told = subprocess.run(words, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, check=True).stdout
    assert told.split() == ([b"1", b"0"] if folders < 2_000 else [b"1", b"1"])


def test_a_thread_of_a_restore_counts_as_none_that_is_busy() -> None:
    """It waits for the disk or for its end, when the next verb has begun."""
    before = scanning._busy_threads()
    goes_on, began = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        goes_on.wait(60)

    with Threads() as threads:
        waiting = threads.beside(wait)
        assert began.wait(60)
        assert _thread._count() > 0
        assert scanning._busy_threads() == before
        ended_in_a_fork = forked(_assert_busy_after_one_began)
        goes_on.set()
        waiting.wait()
    assert ended(ended_in_a_fork) == 0


def _assert_busy_after_one_began() -> None:
    goes_on = threading.Event()
    threading.Thread(target=goes_on.wait).start()
    try:
        assert scanning._busy_threads() >= 1  # some versions of Python count its parent's, too
    finally:
        goes_on.set()
