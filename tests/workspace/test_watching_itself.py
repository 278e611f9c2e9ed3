"""A workspace that watches its folder itself saves what one that looks at everything saves (S1, S12)."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lastgood
from lastgood.engine import ObjectWriter
from lastgood.errors import Usage
from lastgood.host import ScanRequest
from lastgood.model.report import StatusReport
from lastgood.model.tree import Counts
from lastgood.scanner import cache, inotify, rest, scan, watch
from lastgood.scanner.cache import CachedTree
from lastgood.scanner.remote import RemoteScanner
from lastgood.scanner.watch import DirectoryWatch
from lastgood.workspace import Workspace
from lastgood.worktree import Scan
from tools.event_loops import Loop
from tools.forks import said_by_fork
from tools.living import LONG, descriptors, eventually
from tools.values import not_none

Open = Callable[..., Workspace]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the folders that were looked at while something was watched."""
    found: list[bytes] = []
    cover = DirectoryWatch.cover

    def noted(self: DirectoryWatch, descriptor: int, path: bytes) -> bool:
        found.append(path)
        return cover(self, descriptor, path)

    monkeypatch.setattr(DirectoryWatch, "cover", noted)
    monkeypatch.setattr(scan, "_SECONDS", 3600.0)  # however slow the machine
    for longest in ("_REST", "_MOST"):  # nothing is written meanwhile
        monkeypatch.setattr(rest, longest, 3600.0)
    # Whatever is mounted anywhere, as by other tests, makes a scan look at everything.
    monkeypatch.setattr(DirectoryWatch, "_hear_of_mounts", lambda _self: None)
    return found


@pytest.fixture
def watched(project: Path, opened: Open, looked: list[bytes]) -> Workspace:
    """Return a workspace in which everything was seen, and nothing is so young that it is looked at again."""
    for name in ("a", "b"):
        (project / name).mkdir()
        (project / name / "file").write_text("first")
    workspace = opened(watch=True)
    come_to_rest(workspace, looked)
    return workspace


def come_to_rest(workspace: Workspace, looked: list[bytes]) -> None:
    """Save until nothing is looked at any more: what is young is, where times are not exact enough.

    The first save may have its scan in another process, and see nothing watched.
    """
    ends = time.monotonic() + LONG
    for number in count():
        looked.clear()
        workspace.save(kind="auto")
        if number > 1 and not looked:
            return
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_only_where_something_changed_it_is_looked_at(
    watched: Workspace, project: Path, looked: list[bytes]
) -> None:
    assert watched.watching
    assert not watched.save(kind="auto").created
    assert watched.status().drift == Counts()
    assert looked == []
    (project / "b" / "file").write_text("second")
    assert watched.save().created
    assert looked == [b"b"]


def test_without_being_asked_nothing_is_watched(workspace: Workspace) -> None:
    before = descriptors()
    workspace.save()
    assert not workspace.watching
    assert descriptors() == before


def test_only_yes_and_no_say_whether_to_watch(project: Path, store: Path) -> None:
    with pytest.raises(Usage, match="watch is str"):
        lastgood.open(project, store=store, watch="no")  # type: ignore[arg-type]


def test_it_is_restored_and_undone_as_ever(watched: Workspace, project: Path) -> None:
    good = watched.save(name="good").checkpoint
    (project / "a" / "file").write_text("second")
    (project / "c").mkdir()
    (project / "c" / "new").write_text("new")
    watched.save()
    (project / "b" / "file").write_text("not saved")
    assert watched.restore(good).complete
    assert watched.status().drift == Counts()
    assert watched.save(kind="auto").checkpoint.manifest.root == good.manifest.root
    assert watched.undo().complete
    assert (project / "b" / "file").read_text() == "not saved"
    (project / "a" / "file").write_text("third")
    assert watched.save().checkpoint.manifest.root == _root_by_looking(project, watched)


def _root_by_looking(project: Path, watched: Workspace) -> object:
    """Return what a process comes to that knows nothing."""
    with lastgood.open(project, store=watched.store + ".other", maintenance="off") as other:
        return other.save().checkpoint.manifest.root


def test_a_fork_looks_at_everything_and_hears_nothing_in_the_place_of_its_parent(
    watched: Workspace, project: Path
) -> None:
    (project / "a" / "file").write_text("second")

    def looks() -> str:
        drift = watched.status().drift
        watched.close()
        return f"{watched.watching} {drift}"

    assert said_by_fork(looks) == f"False {Counts(modified=1)}"
    (project / "b" / "file").write_text("second")
    assert watched.watching
    assert watched.status().drift == Counts(modified=2)
    assert watched.save().created


@pytest.mark.parametrize("why", [errno.EMFILE, errno.ENOSYS])
def test_where_nothing_can_be_heard_everything_is_looked_at(
    why: int, opened: Open, project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(_self: inotify.Inotify) -> None:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(inotify.Inotify, "__init__", none)
    caplog.set_level("INFO", "lastgood")
    (project / "file").write_text("first")
    workspace = opened(watch=True)
    workspace.save()
    (project / "file").write_text("second")
    assert workspace.save().created
    assert not workspace.watching
    assert f"what changes in {project} cannot be heard of: " in caplog.text


def test_on_a_file_system_that_others_change_everything_is_looked_at(
    watched: Workspace, project: Path, looked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "proving_device", lambda _descriptor: None)
    not_none(watched._state._watch)._is_remounted = True
    (project / "a" / "file").write_text("second")
    assert watched.save().created
    looked.clear()
    watched.save(kind="auto")
    assert sorted(looked) == [b"", b"a", b"b"]
    assert not watched.watching


def test_while_another_thread_looks_for_long_everything_is_looked_at(
    watched: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_WAIT", 0.0)
    own = not_none(watched._state._watch)
    assert own.take_turn()
    (project / "a" / "file").write_text("second")
    changed: list[StatusReport] = []
    other = threading.Thread(target=lambda: changed.append(watched.status()))
    other.start()
    other.join()
    own.end_turn(whole=True)
    assert changed[0].drift == Counts(modified=1)
    assert watched.save().created


def test_after_a_scan_that_broke_off_nothing_is_believed(
    watched: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had met a link, by which files change elsewhere, and has not looked there."""

    def stopped(_self: DirectoryWatch) -> bool:
        raise KeyboardInterrupt

    os.link(project / "a" / "file", project / "b" / "alias")
    with monkeypatch.context() as patched:
        patched.setattr(DirectoryWatch, "refutes", stopped)
        with pytest.raises(KeyboardInterrupt):
            watched.save()
    with (project / "b" / "alias").open("w") as alias:
        alias.write("second")
    assert watched.save().checkpoint.manifest.root == _root_by_looking(project, watched)


def test_a_turn_that_is_interrupted_as_it_begins_is_over(
    watched: Workspace, looked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(not_none(watched._state._watch), "_interval", stopped)
        with pytest.raises(KeyboardInterrupt):
            watched.save(kind="auto")
    watched.save(kind="auto")
    assert sorted(looked) == [b"", b"a", b"b"]


def test_a_call_from_a_handler_amid_one_that_puts_work_off_does_not_wait_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rest, "_REST", 3600.0)
    own, inner = rest.RestThread(), [False]

    def broke_in(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code is not rest.RestThread.put_off.__code__ or inner[0]:
            return None
        if event == "line":
            inner[0] = True
            own.put_off(lambda: None)
            inner[0] = False
        return broke_in

    def put_off() -> None:
        sys.settrace(broke_in)
        own.put_off(lambda: None)

    caller = threading.Thread(target=put_off, daemon=True)
    caller.start()
    caller.join(LONG)
    assert not caller.is_alive()
    own.end()
    own.end()


def test_nothing_is_written_any_more_once_it_is_closed(
    watched: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the thread that does so at rest, neither."""
    begun, go_on, said = threading.Event(), threading.Event(), list[str]()

    def kept(_folder: bytes, _snapshot: CachedTree) -> None:
        begun.set()
        go_on.wait(LONG)
        said.append("written")

    def close() -> None:
        watched.close()
        said.append("closed")

    (project / "a" / "file").write_text("second")
    watched.save()
    monkeypatch.setattr(watch, "_WAIT_TO_KEEP", LONG)
    monkeypatch.setattr(cache, "keep", kept)
    threads = [threading.Thread(target=one) for one in (not_none(watched._state._watch).settle_up, close)]
    threads[0].start()
    begun.wait(LONG)
    threads[1].start()
    threads[1].join(0.05)  # as long as somebody who does not wait takes, or longer
    go_on.set()
    for thread in threads:
        thread.join()
    assert said == ["written", "closed"]


def test_after_a_restore_nothing_of_the_scan_cache_is_read_again(
    watched: Workspace, project: Path, looked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if it found all as the scan before it had."""
    (project / "a" / "file").write_text("second")
    come_to_rest(watched, looked)
    changed = watched.save(kind="auto").checkpoint
    loaded: list[bytes] = []
    load = cache.load

    def noted(folder: bytes, root: bytes) -> CachedTree:
        loaded.append(folder)
        return load(folder, root)

    monkeypatch.setattr(cache, "load", noted)
    assert watched.restore(not_none(changed.manifest.previous)).complete
    assert watched.save().checkpoint.manifest.root == _root_by_looking(project, watched)
    assert [one for one in loaded if os.fsencode(watched.store) + b"/" in one] == []


def test_everything_is_looked_at_once_in_each_interval(watched: Workspace, looked: list[bytes]) -> None:
    own = not_none(watched._state._watch)
    own._doubted -= watched.settings.auto.interval
    watched.save(kind="auto")
    assert sorted(looked) == [b"", b"a", b"b"]
    looked.clear()
    watched.save(kind="auto")
    assert looked == []


def test_all_that_are_open_take_one_share_of_the_watches(
    watched: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "share", lambda: 4)
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "other" / "deep" / "file").write_text("first")
    with lastgood.open(tmp_path / "other", store=watched.store, maintenance="off", watch=True) as other:
        other.save()
        counts = [not_none(one._state._watch).count for one in (watched, other)]
        assert counts == [3, 1]
        (tmp_path / "other" / "deep" / "file").write_text("second")
        assert other.save().created


def test_another_may_be_opened_at_any_moment_of_their_being_counted(watched: Workspace) -> None:
    """As by another thread."""
    own, before = not_none(watched._state._watch), sys.gettrace()
    opened: list[DirectoryWatch] = []

    def open_at(line: int) -> Callable[..., Any]:
        left = count(line)

        def traced(_frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line" and not next(left):
                sys.settrace(None)
                opened.append(DirectoryWatch(os.fsencode(watched.store)))
                sys.settrace(traced)
            return traced

        return traced

    watched_by_others = own._watched_by_others()
    for line in range(24):
        sys.settrace(open_at(-line))
        counted = own._watched_by_others()
        sys.settrace(before)
        assert counted == watched_by_others
        for one in opened:
            one.close()
    assert opened


def test_what_was_found_is_written_down_when_nobody_calls_for_a_while_and_at_the_end(
    watched: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(text: str, *, rest_for: float) -> None:
        monkeypatch.setattr(rest, "_REST", rest_for)
        (project / "a" / "file").write_text(text)
        watched.save()

    [records] = Path(watched.store).glob("workspaces/*/scan.records")
    own, before = not_none(watched._state._watch), records.read_bytes()
    not_none(own._rest).end()  # there may be a thread by now
    own._rest = rest.RestThread()
    change("second", rest_for=0.0)
    assert eventually(lambda: not own.is_owing)
    written = records.read_bytes()
    assert written != before
    change("third", rest_for=3600.0)
    assert own.is_owing
    assert records.read_bytes() == written
    watched.close()
    assert records.read_bytes() != written


def test_what_would_be_put_off_for_too_long_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "_REST", 3600.0)
    monkeypatch.setattr(rest, "_MOST", 0.0)
    done: list[str] = []
    thread = rest.RestThread()
    thread.put_off(lambda: done.append("work"))
    assert eventually(lambda: done == ["work"])


def test_what_was_found_is_owed_until_it_is_written(
    watched: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, rename, owing = not_none(watched._state._watch), os.rename, list[bool]()

    def renamed(source: bytes, target: bytes, **rest: int) -> None:
        if os.fsdecode(target).endswith("scan.records"):
            owing.append(own.is_owing)
        rename(source, target, **rest)

    (project / "a" / "file").write_text("second")
    watched.save()
    assert own.is_owing
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", renamed)
        own.settle_up()
    assert owing == [True]
    assert not own.is_owing


def test_what_it_has_open_to_hear_is_closed_with_it(project: Path, store: Path) -> None:
    before = descriptors()
    with lastgood.open(project, store=store, maintenance="off", watch=True) as workspace:
        workspace.save()
        told = [workspace.watching]
    told.append(workspace.watching)
    assert told == [True, False]
    assert descriptors() == before


def test_what_could_be_opened_to_hear_is_closed_where_the_rest_could_not(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_MOUNTS", b"/proc/self/none")
    lastgood.open(project, store=store, maintenance="off").close()
    before = descriptors()
    with lastgood.open(project, store=store, maintenance="off", watch=True) as workspace:
        assert not workspace.watching
    assert descriptors() == before


async def test_beside_threads_too_a_large_folder_is_watched(
    loop: Loop, project: Path, store: Path, looked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first look is taken in a process of its own, as ever, and no later one."""
    monkeypatch.setattr(scan, "MOST_FILES", 0)
    elsewhere: list[ScanRequest] = []
    far = RemoteScanner.scan

    def noted(self: RemoteScanner, request: ScanRequest, *, writer: ObjectWriter) -> Scan:
        elsewhere.append(request)
        return far(self, request, writer=writer)

    monkeypatch.setattr(RemoteScanner, "scan", noted)
    (project / "file").write_text("first")
    async with lastgood.open_async(project, store=store, maintenance="off", watch=True) as workspace:
        for _ in range(2):
            await workspace.save(kind="auto")
        while looked:  # what is young is looked at again, where times are not exact enough
            looked.clear()
            await workspace.save(kind="auto")
        assert not (await workspace.save(kind="auto")).created
        assert (workspace.watching, looked, len(elsewhere)) == (True, [], 1)
        (project / "file").write_text("second")
        assert (await workspace.save(kind="auto")).created
        monkeypatch.setattr(scan, "_SECONDS", -3600.0)  # from now on there is no room for it
        (project / "file").write_text("third")
        assert (await workspace.save(kind="auto")).created
        assert len(elsewhere) == 2


def test_a_thread_that_waits_to_write_hinders_no_other_workspace(
    watched: Workspace, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MOST_FILES", 0)
    own = not_none(watched._state._watch)
    (tmp_path / "other").mkdir()
    with lastgood.open(tmp_path / "other", store=watched.store, maintenance="off") as other:
        for text in ("second", "third"):
            (project / "a" / "file").write_text(text)
            watched.save()
        assert own.is_owing
        assert eventually(lambda: own._rest in rest._waiting)
        # There are no others, whatever those who run this test have begun.
        monkeypatch.setattr("lastgood.workspace._count", rest.RestThread.count)
        (tmp_path / "other" / "file").write_text("first")
        other.save()
        assert not_none(other._state._scanner)._remote is None


def test_threads_that_save_at_once_miss_nothing(watched: Workspace, project: Path) -> None:
    def work(name: str) -> None:
        for number in range(8):
            (project / name / f"f{number}").write_text(f"{name} {number}")
            with suppress(lastgood.Busy):
                watched.save(kind="auto")

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watched.save(allow_empty=True).checkpoint.manifest.root == _root_by_looking(project, watched)
