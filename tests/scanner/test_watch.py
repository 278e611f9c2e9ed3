"""Scans that look only where something was heard come to what scans of everything come to (S1, S12)."""

from __future__ import annotations

import errno
import os
import select
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lastgood
from lastgood.model.tree import Counts
from lastgood.scanner import cache, watch
from lastgood.scanner.examine import Examiner
from lastgood.scanner.read import Lister
from lastgood.scanner.scan import _SEVERAL_DIRECTORIES
from lastgood.scanner.walk import Walk
from lastgood.workspace import Workspace
from tools.living import eventually
from tools.long_form import examples
from tools.operations import STEPS, Step, take

if TYPE_CHECKING:
    from lastgood.scanner import Evidence, Record
    from lastgood.scanner.examine import Node
    from lastgood.scanner.walk import Frame


class Twins:
    """One folder as two stores know it: by watching, and by looking at everything."""

    def __init__(self, folder: Path) -> None:
        self.above = folder / "above"
        self.root = self.above / "project"
        self.outside = folder / "outside"
        for place in (self.root, self.outside):
            place.mkdir(parents=True)
        self.watched = lastgood.open(self.root, store=folder / "watched", maintenance="off", allow_root=True)
        self.watch = self.watched._state.watch()
        self.looking = lastgood.open(self.root, store=folder / "looking", maintenance="off", allow_root=True)

    def close(self) -> None:
        self.watched.close()
        self.looking.close()

    def agree(self) -> None:
        """Save both, and compare them."""
        told = [_saved(one) for one in (self.watched, self.looking)]
        assert told[0] == told[1]


def _saved(workspace: Workspace) -> tuple[object, ...]:
    manifest = workspace.save(allow_empty=True).checkpoint.manifest
    counted = manifest.files, manifest.size, manifest.gaps, manifest.ignored, manifest.ignored_paths
    return manifest.root.tree, manifest.root.modes, *counted, manifest.git, manifest.private


@pytest.fixture
def mounting(tmp_path: Path) -> Iterator[Twins]:
    made = Twins(tmp_path)
    yield made
    made.close()


@pytest.fixture
def twins(mounting: Twins, monkeypatch: pytest.MonkeyPatch) -> Twins:
    """Hear of no mounts: whatever is mounted anywhere, as by other tests, makes a scan look at everything."""
    monkeypatch.setattr(mounting.watch, "_remounted", select.poll())
    return mounting


def test_a_scan_looks_only_where_something_was_heard(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (twins.root / f"d{number}" / "deep").mkdir(parents=True)
        (twins.root / f"d{number}" / "deep" / "file").write_text("first")
    twins.agree()
    _settle(twins)
    (twins.root / "d7" / "deep" / "file").write_text("second")
    listed: list[bytes] = []
    look = Walk._look

    def noted(walk: Walk, descriptor: int, path: bytes, *told: Any) -> Frame:
        listed.append(path)
        return look(walk, descriptor, path, *told)

    with monkeypatch.context() as patched:
        patched.setattr(Walk, "_look", noted)
        twins.watched.save()
    assert listed == [b"d7/deep"]


def test_a_folder_that_was_looked_at_once_is_not_judged_again_for_a_file(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plant(twins)
    judged: list[bytes] = []
    examine = Examiner.examine

    def noted(examiner: Examiner, path: bytes, *arguments: Any, **told: Any) -> Node:
        judged.append(path)
        return examine(examiner, path, *arguments, **told)

    monkeypatch.setattr(Examiner, "examine", noted)
    (twins.root / "a" / "f3").write_text("second")
    twins.watched.save()
    assert judged == []


def test_of_a_folder_with_proven_names_only_files_are_asked_of_which_something_was_heard(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plant(twins)
    (twins.root / "a" / "f3").write_text("second")
    asked = _asked(monkeypatch)
    twins.agree()
    assert asked == {b"f3"}


def test_where_a_name_came_a_folder_is_asked_for_everything(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plant(twins)
    (twins.root / "a" / "f3").write_text("second")
    (twins.root / "a" / "new").write_text("first")
    asked = _asked(monkeypatch)
    twins.agree()
    assert asked == set()


def test_where_a_file_has_another_name_by_now_its_folder_is_asked_for_everything(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plant(twins)
    os.link(twins.root / "a" / "f3", twins.outside / "f3")
    (twins.root / "a" / "f3").write_text("second")
    twins.agree()
    (twins.outside / "f3").write_text("third")
    (twins.root / "a" / "f4").write_text("second")
    twins.agree()


def test_of_another_folder_in_the_place_of_one_everything_is_asked(twins: Twins) -> None:
    _plant(twins)
    shutil.copytree(twins.root / "a", twins.outside / "copy")
    (twins.outside / "copy" / "f5").write_text("other")
    (twins.root / "a" / "f3").write_text("second")
    (twins.root / "a").rename(twins.outside / "old")
    (twins.outside / "copy").rename(twins.root / "a")
    twins.agree()


def _plant(twins: Twins) -> None:
    """Make a folder whose names are proven, of files that are old enough."""
    for number in range(20):
        (twins.root / f"b{number}").mkdir()
        (twins.root / f"b{number}" / "file").write_text("first")
    (twins.root / "a").mkdir()
    for number in range(8):
        (twins.root / "a" / f"f{number}").write_text("first")
    _settle(twins)


def test_of_another_folder_that_comes_as_one_is_opened_everything_is_asked(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plant(twins)
    shutil.copytree(twins.root / "a", twins.outside / "copy")
    (twins.outside / "copy" / "f5").write_text("other")
    (twins.root / "a" / "f3").write_text("second")
    vouches = twins.watch.vouches
    ways: list[bytes] = []

    def exchanging(path: bytes, record: Record) -> bool:
        if path == b"a" and not ways:
            ways.append(path)
            (twins.root / "a").rename(twins.outside / "old")
            (twins.outside / "copy").rename(twins.root / "a")
        return vouches(path, record)

    monkeypatch.setattr(twins.watch, "vouches", exchanging)
    twins.agree()
    assert ways == [b"a"]


def _asked(monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """Return the names of those that are going to be asked alone."""
    asked: set[bytes] = set()
    ask = Lister.ask_alone

    def noted(
        lister: Lister, descriptor: int, names: Collection[bytes], *, known: Record
    ) -> dict[bytes, Evidence] | None:
        told = ask(lister, descriptor, names, known=known)
        asked.update(told or ())
        return told

    monkeypatch.setattr(Lister, "ask_alone", noted)
    return asked


def test_folders_in_which_nothing_was_heard_are_passed_by(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/b", "a/c", "d/e"):
        (twins.root / name).mkdir(parents=True)
        (twins.root / name / "file").write_text("first")
    _settle(twins)
    (twins.root / "a" / "b" / "file").write_text("second")
    asked: list[bytes] = []
    vouches = twins.watch.vouches

    def noted(path: bytes, record: Record) -> bool:
        asked.append(path)
        return vouches(path, record)

    monkeypatch.setattr(twins.watch, "vouches", noted)
    twins.agree()
    assert asked == [b"", b"a", b"a/b"]


def test_a_folder_that_is_moved_meanwhile_to_where_a_scan_passes_by_is_saved_there(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("from/moved", "to"):
        (twins.root / name).mkdir(parents=True)
        (twins.root / name / "file").write_text("first")
    _settle(twins)
    (twins.root / "from" / "more").write_text("heard")
    ways = twins.watch.ways

    def meanwhile(records: Mapping[bytes, Record], *, is_dependent: bool) -> set[bytes] | None:
        found = ways(records, is_dependent=is_dependent)
        if (twins.root / "from" / "moved").exists():
            (twins.root / "from" / "moved").rename(twins.root / "to" / "moved")
        return found

    monkeypatch.setattr(twins.watch, "ways", meanwhile)
    twins.agree()


def test_what_was_found_is_written_down_at_rest_and_another_process_needs_it_not(twins: Twins) -> None:
    (twins.root / "a").mkdir()
    (twins.root / "a" / "file").write_text("first")
    _settle(twins)
    [records] = Path(twins.watched.store).glob("workspaces/*/scan.records")
    before = records.read_bytes()
    (twins.root / "a" / "file").write_text("second")
    twins.agree()
    assert twins.watch.is_owing
    assert records.read_bytes() == before
    _as_another_finds_it(twins)
    (twins.root / "a" / "file").write_text("third")
    _settle(twins)
    before = records.read_bytes()
    (twins.root / "a" / "file").write_text("fourth")
    twins.agree()
    twins.watch.settle_up()
    assert records.read_bytes() != before
    _as_another_finds_it(twins)
    (twins.root / "a" / "file").write_text("fifth")
    twins.agree()


def test_much_that_was_found_is_written_down_at_once(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    (twins.root / "file").write_text("first")
    _settle(twins)
    monkeypatch.setattr(watch, "_MOST_OWED", 10)
    [records] = Path(twins.watched.store).glob("workspaces/*/scan.records")
    before = records.read_bytes()
    (twins.root / "file").write_text("second")
    twins.agree()
    assert not twins.watch.is_owing
    assert records.read_bytes() != before


def test_what_another_process_wrote_down_meanwhile_is_left_to_it(twins: Twins) -> None:
    (twins.root / "a").mkdir()
    (twins.root / "a" / "file").write_text("first")
    _settle(twins)
    (twins.root / "a" / "file").write_text("second")
    twins.agree()
    (twins.root / "a" / "file").write_text("third")
    _as_another_finds_it(twins)
    [records] = Path(twins.watched.store).glob("workspaces/*/scan.records")
    written = records.read_bytes()
    twins.watch.settle_up()
    assert records.read_bytes() == written
    twins.agree()


def _as_another_finds_it(twins: Twins) -> None:
    with lastgood.open(twins.root, store=twins.watched.store, maintenance="off", allow_root=True) as other:
        assert _saved(other) == _saved(twins.looking)


def test_what_the_last_save_left_is_not_read_again(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another process saved meanwhile, who leaves something else."""
    (twins.root / "a").mkdir()
    (twins.root / "a" / "file").write_text("first")
    twins.agree()
    loaded: list[bytes] = []
    load = cache.load

    def noted(folder: bytes, root: bytes) -> cache.CachedTree:
        loaded.append(folder)
        return load(folder, root)

    monkeypatch.setattr(cache, "load", noted)
    (twins.root / "a" / "file").write_text("second")
    watched = _saved(twins.watched)
    assert loaded == []
    assert _saved(twins.looking) == watched
    with lastgood.open(twins.root, store=twins.watched.store, maintenance="off", allow_root=True) as other:
        (twins.root / "a" / "file").write_text("third")
        other.save()
    loaded.clear()
    (twins.root / "a" / "file").write_text("fourth")
    twins.agree()
    # By the one whose store another wrote to: the looking one has a store of its own.
    assert [one.startswith(os.fsencode(twins.watched.store)) for one in loaded] == [True]


def test_where_nothing_happened_nothing_is_looked_at(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    (twins.root / "a" / "b").mkdir(parents=True)
    (twins.root / "a" / "b" / "file").write_text("first")
    _settle(twins)

    def refused(_descriptor: int, path: bytes) -> bool:
        raise AssertionError(path)

    with monkeypatch.context() as patched:
        patched.setattr(twins.watch, "cover", refused)
        patched.setattr(cache, "load", refused)
        twins.watched.save(allow_empty=True)
        (report,) = (twins.watched.status(),)
        assert report.drift == Counts()
    (twins.root / "a" / "b" / "file").write_text("second")
    twins.agree()


def test_what_counts_beside_the_files_is_looked_at_each_time(twins: Twins) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=twins.root, check=True, capture_output=True)

    (twins.root / "file").write_text("first")
    (twins.root / "aside.log").write_text("first")
    git("init", "-q")
    git("add", "file")
    _settle(twins)
    git("commit", "-qm", "one")
    twins.agree()
    git("checkout", "-qb", "other")
    _settle(twins)
    (twins.root / ".git" / "info" / "exclude").write_text("*.log\n")
    twins.agree()
    _settle(twins)
    git("rm", "-q", "--cached", "file")
    twins.agree()
    _settle(twins)
    subprocess.run(["git", "init", "-q", "nested"], cwd=twins.root, check=True)
    _settle(twins)
    (twins.root / "nested" / ".git" / "HEAD").write_text("ref: refs/heads/elsewhere\n")
    twins.agree()


def test_after_a_purge_no_scan_is_believed(twins: Twins) -> None:
    (twins.root / "file").write_text("first")
    _settle(twins)
    for one in (twins.watched, twins.looking):
        one.purge("file")
    twins.agree()


def _settle(twins: Twins) -> None:
    """Save until no file is so young that it has to be looked at again."""
    for _ in range(3):
        twins.agree()


@settings(
    max_examples=examples(short=40, long=400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=5, max_size=30))
def test_whatever_is_done_to_files_both_come_to_the_same(tmp_path: Path, steps: list[Step]) -> None:
    folder = tmp_path / "one"
    shutil.rmtree(folder, ignore_errors=True)
    twins = Twins(folder)
    for number in range(_SEVERAL_DIRECTORIES):  # of fewer no names are proven, and each is listed as a whole
        (twins.root / f"other {number}").mkdir()
    for place in ("", "a", "b"):
        (twins.root / place).mkdir(exist_ok=True)
        for name in ("c", "A"):
            (twins.root / place / name).write_text("first")
    try:
        twins.agree()
        for number, step in enumerate(steps):
            take(step, number, root=twins.root, outside=twins.outside, save=twins.agree)
            if number % 4 == 1:  # a look that keeps nothing, and the cache written at rest
                twins.watched.status()
            if number % 4 == 3:
                twins.watch.settle_up()
        twins.agree()
        twins.agree()
    finally:
        twins.close()


def test_a_folder_that_went_away_and_came_back_elsewhere_is_heard(twins: Twins) -> None:
    (twins.root / "a" / "b").mkdir(parents=True)
    (twins.root / "a" / "b" / "file").write_text("first")
    _settle(twins)
    (twins.root / "a").rename(twins.root / "c")
    twins.agree()
    _settle(twins)
    (twins.root / "c" / "b" / "file").write_text("second")
    twins.agree()


def test_a_write_through_another_name_of_a_file_is_seen(twins: Twins) -> None:
    for name in ("a", "b"):
        (twins.root / name).mkdir()
    (twins.root / "a" / "file").write_text("first")
    _settle(twins)
    os.link(twins.root / "a" / "file", twins.root / "b" / "alias")
    _settle(twins)
    (twins.root / "b" / "alias").write_text("second")
    twins.agree()


def test_more_events_than_the_queue_takes_make_it_look_at_everything(twins: Twins) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for name in ("a", "b"):
        (twins.root / name).mkdir()
        (twins.root / name / "file").write_text("first")
    _settle(twins)
    with (twins.root / "a" / "file").open("w") as one, (twins.root / "a" / "other").open("w") as two:
        for _ in range(most // 2 + 2):  # two in turn: equal events one after another count once
            for file in (one, two):
                os.write(file.fileno(), b"x")
    (twins.root / "b" / "file").write_text("unheard of")
    twins.agree()


def test_a_mount_that_hides_a_folder_is_noticed(mounting: Twins) -> None:
    hidden = mounting.root / "hidden"
    hidden.mkdir()
    (hidden / "file").write_text("first")
    _settle(mounting)
    done = subprocess.run(["mount", "-t", "tmpfs", "none", str(hidden)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        (hidden / "other").write_text("on the mount")
        mounting.agree()
        assert eventually(lambda: not mounting.watch.hear())  # others mount something, too
        (hidden / "other").write_text("heard, though it is looked at in any case")
        assert mounting.watch.hear()
        mounting.agree()
    finally:
        subprocess.run(["umount", str(hidden)], check=True)
    mounting.agree()


def test_a_folder_that_two_paths_lead_to_is_looked_at(twins: Twins) -> None:
    for name in ("a", "b"):
        (twins.root / name).mkdir()
    (twins.root / "a" / "file").write_text("first")
    done = subprocess.run(
        ["mount", "--bind", twins.root / "a", twins.root / "b"], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        _settle(twins)
        for number, name in enumerate(("a", "b", "a")):
            (twins.root / name / "file").write_text(f"change {number}")
            twins.agree()
    finally:
        subprocess.run(["umount", twins.root / "b"], check=True)


def test_what_an_older_scan_wrote_down_meanwhile_is_not_vouched_for(twins: Twins) -> None:
    (twins.root / "a").mkdir()
    (twins.root / "a" / "file").write_text("first")
    _settle(twins)
    cache = [one for one in Path(twins.watched.store).glob("workspaces/*/scan.*") if one.stat().st_size]
    older = [(one, one.read_bytes()) for one in cache]
    (twins.root / "a" / "file").write_text("second")
    _settle(twins)
    for path, content in older:
        path.write_bytes(content)
    twins.agree()


def test_another_folder_in_the_place_of_the_one_above_is_looked_at_whole(twins: Twins) -> None:
    (twins.root / "a" / "b").mkdir(parents=True)
    _settle(twins)
    shutil.copytree(twins.above, twins.outside / "copy")
    twins.above.rename(twins.outside / "old")  # no watched directory is told of this
    (twins.outside / "copy").rename(twins.above)
    _settle(twins)
    (twins.root / "a" / "b" / "file").write_text("second")
    twins.agree()


def test_without_room_for_watches_everything_is_looked_at(twins: Twins) -> None:
    twins.watch._most = lambda: 2
    for name in ("a", "b", "c"):
        (twins.root / name).mkdir()
        (twins.root / name / "file").write_text("first")
    _settle(twins)
    assert twins.watch.count == 2
    for name in ("a", "b", "c"):
        (twins.root / name / "file").write_text("second")
        twins.agree()


def test_below_a_folder_that_could_not_be_watched_everything_is_looked_at(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs may take the last watch just then, and let go of one a moment later."""
    for name in ("a/b", "new"):
        (twins.root / name / "c" / "d").mkdir(parents=True)
        (twins.root / name / "c" / "d" / "file").write_text(name)
    unwatched = (twins.root / "a").stat().st_ino
    add = twins.watch._inotify.add

    def refused(descriptor: int, mask: int) -> int:
        if os.fstat(descriptor).st_ino == unwatched:
            raise OSError(errno.ENOSPC, "no watch is left")
        return add(descriptor, mask)

    with monkeypatch.context() as crowded:
        crowded.setattr(twins.watch._inotify, "add", refused)
        _settle(twins)
    (twins.root / "a" / "b").rename(twins.outside / "old")
    (twins.root / "new").rename(twins.root / "a" / "b")
    twins.agree()


def test_a_folder_of_the_same_shape_in_the_place_of_another_is_watched_anew(twins: Twins) -> None:
    for name in ("a", "new"):
        (twins.root / name / "b" / "c").mkdir(parents=True)
        (twins.root / name / "b" / "c" / "file").write_text("first")
    _settle(twins)
    (twins.root / "a").rename(twins.outside / "old")
    (twins.root / "new").rename(twins.root / "a")
    _settle(twins)
    (twins.root / "a" / "b" / "file").write_text("second")
    twins.agree()


def test_a_write_through_a_name_made_since_the_last_scan_is_seen_at_once(twins: Twins) -> None:
    for name in ("a", "b"):
        (twins.root / name).mkdir()
    (twins.root / "a" / "file").write_text("first")
    _settle(twins)
    os.link(twins.root / "a" / "file", twins.root / "b" / "alias")
    (twins.root / "b" / "alias").write_text("second")
    twins.agree()


def test_a_file_that_is_given_a_second_name_once_more_is_looked_at_again(twins: Twins) -> None:
    for name in ("a", "b"):
        (twins.root / name).mkdir()
    (twins.root / "a" / "file").write_text("first")
    for _ in range(2):
        os.link(twins.root / "a" / "file", twins.root / "b" / "alias")
        _settle(twins)
        (twins.root / "b" / "alias").write_text("second")
        twins.agree()
        (twins.root / "b" / "alias").unlink()
        _settle(twins)
        (twins.root / "a" / "file").write_text("third")
        _settle(twins)


def test_a_name_made_where_there_is_no_watch_is_noticed(twins: Twins) -> None:
    twins.watch._most = lambda: 2
    (twins.root / "a").mkdir()
    (twins.root / "a" / "file").write_text("first")
    _settle(twins)
    (twins.root / "b").mkdir()
    os.link(twins.root / "a" / "file", twins.root / "b" / "alias")
    _settle(twins)
    (twins.root / "b" / "alias").write_text("second")
    twins.agree()


def test_a_store_that_takes_no_byte_makes_it_look_at_everything(twins: Twins) -> None:
    (twins.root / "a").mkdir()
    (twins.root / "a" / "file").write_text("first")
    _settle(twins)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, twins.watch._mark)
    os.close(full)
    (twins.root / "a" / "file").write_text("second")
    twins.agree()


def test_a_write_to_a_file_that_was_opened_without_a_name_is_seen(twins: Twins) -> None:
    _plant(twins)
    writer = os.open(twins.root / "a", os.O_TMPFILE | os.O_WRONLY)
    try:
        os.link(f"/proc/self/fd/{writer}", twins.root / "a" / "named later", src_dir_fd=writer)
        _settle(twins)
        os.write(writer, b"second")
    finally:
        os.close(writer)
    twins.agree()


def test_a_write_to_a_file_by_the_name_that_it_was_opened_by_is_seen(twins: Twins) -> None:
    _plant(twins)
    writer = os.open(twins.root / "a" / "f3", os.O_WRONLY)
    try:
        os.link(twins.root / "a" / "f3", twins.root / "a" / "kept")
        (twins.outside / "f3").write_text("another")
        (twins.outside / "f3").rename(twins.root / "a" / "f3")
        _settle(twins)
        os.write(writer, b"second")
    finally:
        os.close(writer)
    twins.agree()
