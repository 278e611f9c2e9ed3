"""What a restore has brought is known to the next scan, as far as that is certain (rules S8, K6)."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lastgood.errors import Conflict, LastgoodError, NotFound
from lastgood.model.tree import Counts
from lastgood.restore.look import PathProver
from lastgood.scanner import cache, read
from lastgood.scanner.read import file_system, open_file
from lastgood.scanner.restored import TouchedFolders
from lastgood.scanner.walk import Walk
from lastgood.scanner.watch import DirectoryWatch
from lastgood.workspace import Workspace
from tools.long_form import examples

if TYPE_CHECKING:
    from lastgood.scanner import Evidence
    from lastgood.scanner.read import Lister
    from lastgood.scanner.restored import RestoredFolder
    from lastgood.scanner.walk import Frame

Open = Callable[..., Workspace]


@pytest.fixture
def exact(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the project's file system among those that stamp each change with a time of its own."""
    descriptor = os.open(project, os.O_RDONLY)
    monkeypatch.setattr(read, "_MULTIGRAIN", frozenset({file_system(descriptor)}))
    monkeypatch.setattr(read, "_MULTIGRAIN_KERNEL", (0, 0))
    os.close(descriptor)


def plant(project: Path) -> None:
    (project / ".gitignore").write_text("*.log\n")
    for number in range(24):
        place = project / f"d{number % 4}" / f"e{number % 3}" / f"f{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"content {number}\n")
    (project / "d1" / "x.log").write_text("ignored")
    (project / "link").symlink_to("d1")
    time.sleep(0.06)


@pytest.mark.usefixtures("exact")
def test_the_next_scan_reads_nothing_that_a_restore_brought(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(project)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited")
    (project / "d1" / "e1" / "f13").chmod(0o755)
    (project / "d2" / "e2" / "f2").unlink()
    (project / "d3" / "more" / "deep").mkdir(parents=True)
    (project / "d3" / "more" / "deep" / "new").write_text("new")
    (project / "link").unlink()
    (project / "link").symlink_to("d2")
    workspace.restore(saved.id)
    opened: list[bytes] = []

    def counted(name: bytes, *, directory: int) -> int:
        opened.append(name)
        return open_file(name, directory=directory)

    monkeypatch.setattr(read, "open_file", counted)

    assert not workspace.save("two", kind="auto").created
    assert opened == []


@pytest.mark.usefixtures("exact")
def test_where_it_watches_the_next_scan_reads_nothing_that_a_restore_brought_either(
    opened: Open, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(project)
    workspace = opened(watch=True)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited")
    (project / "d2" / "e2" / "f2").unlink()
    workspace.restore(saved.id)
    opened_files: list[bytes] = []

    def counted(name: bytes, *, directory: int) -> int:
        opened_files.append(name)
        return open_file(name, directory=directory)

    monkeypatch.setattr(read, "open_file", counted)

    assert not workspace.save("two", kind="auto").created
    assert opened_files == []
    (project / "d2" / "e2" / "f2").write_text("edited, too")
    assert workspace.save("three").checkpoint.manifest.changes == Counts(modified=1)


@pytest.mark.usefixtures("exact")
def test_a_directory_that_is_emptied_after_a_restore_is_noticed(workspace: Workspace, project: Path) -> None:
    plant(project)
    saved = workspace.save("one").checkpoint
    place = project / "d1" / "e1"
    (place / "f1").unlink()
    workspace.restore(saved.id)  # it brings a name that the scan before it had not listed
    for file in place.iterdir():
        file.unlink()

    found = workspace.save("two", kind="auto")

    assert found.created
    assert found.checkpoint.manifest.files == saved.manifest.files - 2


def restored(workspace: Workspace, project: Path) -> bytes:
    """Take an edit back, and return what lies in the cache after that."""
    plant(project)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited")
    workspace.restore(saved.id)
    return cached(workspace)


def cached(workspace: Workspace) -> bytes:
    [file] = Path(workspace.store).glob("workspaces/*/scan.records")
    return file.read_bytes()


@pytest.mark.usefixtures("exact")
def test_what_a_restore_left_is_written_once_the_workspace_is_closed(
    opened: Open, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened()
    before = restored(first, project)
    read_anew: list[bytes] = []

    def counted(name: bytes, *, directory: int) -> int:
        read_anew.append(name)
        return open_file(name, directory=directory)

    first.close()
    monkeypatch.setattr(read, "open_file", counted)

    assert cached(first) != before
    assert not opened().save("two", kind="auto").created
    assert read_anew == []


@pytest.mark.usefixtures("exact")
def test_a_scan_cache_that_somebody_else_wrote_after_a_restore_stays(opened: Open, project: Path) -> None:
    first, second = opened(), opened()
    restored(first, project)
    assert not second.save("two", kind="auto").created  # nor is anything amiss before it is written
    (project / "d2" / "e2" / "f2").write_text("edited, too")
    second.save("three")
    theirs = cached(second)

    first.close()

    assert cached(second) == theirs


@pytest.mark.usefixtures("exact")
def test_a_fork_leaves_it_to_its_parent_to_write_what_a_restore_left(opened: Open, project: Path) -> None:
    workspace = opened()
    before = restored(workspace, project)
    child = os.fork()
    if not child:
        try:
            workspace.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    assert cached(workspace) == before
    workspace.close()
    assert cached(workspace) != before


@pytest.mark.usefixtures("exact")
def test_what_a_restore_left_is_written_at_once_where_it_is_much(
    opened: Open, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_MOST_OWED", 0)
    workspace = opened()
    before = restored(workspace, project)
    (project / "d2" / "e2" / "f2").write_text("edited, too")
    workspace.restore("@")

    assert cached(workspace) != before


def change(project: Path, chance: random.Random) -> None:
    """Change something, often what was just brought back, and often to what is as long."""
    folder = project / f"d{chance.randrange(4)}" / f"e{chance.randrange(3)}"
    files = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    kind = chance.randrange(9)
    if kind == 0 and folder.is_dir():
        shutil.rmtree(folder)
    elif kind == 8:
        for file in files:
            file.unlink()
    elif kind == 1 or not files:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"n{chance.randrange(3)}").write_text("new")
    elif kind == 2:
        chance.choice(files).unlink()
    elif kind == 3:
        chance.choice(files).chmod(chance.choice([0o644, 0o755]))
    elif kind == 4:
        (project / f"d{chance.randrange(4)}" / ".gitignore").write_text(chance.choice(["n1\n", "f*\n", ""]))
    elif kind == 5:
        folder.chmod(chance.choice([0o700, 0o755]))
    else:
        path = chance.choice(files)
        path.write_text(chance.choice("abc") * len(path.read_text()))


@pytest.mark.usefixtures("exact")
def test_an_edit_beside_what_was_restored_is_in_the_next_save(workspace: Workspace, project: Path) -> None:
    plant(project)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited\n")
    (project / "d1" / "e1" / "f13").write_text("edited, too\n")
    workspace.restore(saved.id, paths=["d1/e1/f1"])

    found = workspace.save("two").checkpoint

    assert [change.path for change in workspace.diff(saved.id, found.id).files] == [b"d1/e1/f13"]


@pytest.mark.usefixtures("exact")
def test_a_tree_that_a_sweep_has_freed_is_stored_again_after_a_restore_has_led_to_it(
    workspace: Workspace, project: Path
) -> None:
    plant(project)
    first = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f13").write_text("edited\n")
    workspace.delete(workspace.save("two").checkpoint.id)
    workspace.prune(now=True)
    (project / "d1" / "e1" / "f1").write_text("edited, too\n")
    workspace.restore(first.id, paths=["d1/e1/f1"])  # what the deleted one held

    found = workspace.save("three").checkpoint

    assert [change.path for change in workspace.diff(first.id, found.id).files] == [b"d1/e1/f13"]
    assert workspace.verify().ok


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("opening", [{}, {"watch": True}])
@pytest.mark.parametrize("seed", range(examples(short=1, long=50)))
def test_any_series_of_restores_comes_out_as_without_a_cache(
    opened: Open, project: Path, store: Path, seed: int, opening: dict[str, bool]
) -> None:
    chance = random.Random(seed)
    plant(project)
    workspace = opened(**opening)
    saved = [workspace.save("first").checkpoint.id]
    [cache] = (store / "workspaces").iterdir()
    for turn in range(8):
        for _ in range(chance.randrange(4)):
            change(project, chance)
        target = chance.choice(saved)
        paths = chance.choice([(), (), ("d1", "d3")])
        plan = workspace.plan_restore(target, paths=paths)
        cache.rename(aside := cache.with_name("aside"))
        cache.mkdir()
        assert workspace.plan_restore(target, paths=paths).steps == plan.steps
        shutil.rmtree(cache)
        aside.rename(cache)
        workspace.restore(target, paths=paths)
        if chance.randrange(3) == 0:
            with contextlib.suppress(NotFound, Conflict):  # where nothing was restored just now
                workspace.undo()
        if chance.randrange(2):
            change(project, chance)
        saved.append(workspace.save(f"{turn}").checkpoint.id)
        for file in cache.glob("scan.*"):
            file.unlink()
        assert not workspace.save("afresh", kind="auto").created


@pytest.fixture
def stamped(project: Path) -> None:
    """Skip where the project's file system does not stamp each change with a time of its own."""
    descriptor = os.open(project, os.O_RDONLY)
    device = read.multigrain_device(descriptor)
    os.close(descriptor)
    if device is None:
        pytest.skip("times of this file system prove no young directory")


class Listings:
    """Counts the directories whose names a scan reads: those that it has open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._list = os.listdir
        monkeypatch.setattr(os, "listdir", self)

    def __call__(self, folder: int | str) -> list[str]:
        self.count += isinstance(folder, int)
        return self._list(folder)


@pytest.mark.usefixtures("stamped")
@pytest.mark.parametrize("opening", [{}, {"watch": True}])
def test_the_next_scan_lists_no_directory_in_which_a_restore_changed_names(
    opened: Open, project: Path, monkeypatch: pytest.MonkeyPatch, opening: dict[str, bool]
) -> None:
    plant(project)
    workspace = opened(**opening)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited")
    (project / "d2" / "e2" / "f2").unlink()
    workspace.restore(saved.id)
    listings = Listings(monkeypatch)

    assert not workspace.save("two", kind="auto").created
    assert listings.count == 0


@pytest.mark.usefixtures("stamped")
def test_a_directory_in_which_names_changed_right_before_a_save_is_not_listed_again(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(project)
    workspace.save("one")
    (project / "new").write_text("as an editor writes")
    (project / "new").rename(project / "d1" / "e1" / "f1")
    workspace.save("two")
    listings = Listings(monkeypatch)

    assert not workspace.save("three", kind="auto").created
    assert listings.count == 0


def bring(place: Path) -> None:
    (place.parent / "theirs").write_text("brought")
    (place.parent / "theirs").rename(place / "brought")


def take_away(place: Path) -> None:
    (place / "f13").rename(place.parent / "taken")


def rename(place: Path) -> None:
    (place / "f13").rename(place / "f14")


def replace(place: Path) -> None:
    (place.parent / "theirs").write_text("content 13\n")
    (place.parent / "theirs").rename(place / "f13")


def take_what_was_brought(place: Path) -> None:
    (place / "f1").rename(place.parent / "taken")


def rename_and_back(place: Path) -> None:
    rename(place)
    (place / "f14").rename(place / "f13")


def put_another_folder(place: Path) -> None:
    aside = place.parent / "aside"
    place.rename(aside)
    place.mkdir()
    for file in aside.iterdir():
        file.rename(place / file.name)
    (place / "f13").write_text("another")


ACTS = [bring, take_away, rename, replace, take_what_was_brought, rename_and_back, put_another_folder]


@pytest.mark.usefixtures("stamped")
@pytest.mark.parametrize("opening", [{}, {"watch": True}])
@pytest.mark.parametrize("moment", ["before", "before the listing", "after the listing", "after"])
@pytest.mark.parametrize("act", ACTS)
def test_what_a_stranger_renames_while_a_restore_lists_a_directory_is_found_by_the_next_scan(
    opened: Open,
    project: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    act: Callable[[Path], None],
    opening: dict[str, bool],
) -> None:
    plant(project)
    workspace = opened(**opening)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited")
    listed, names, looking = os.listdir, TouchedFolders.names, False

    def interrupted(folders: TouchedFolders, path: bytes) -> tuple[bytes, Evidence] | None:
        nonlocal looking
        looking = True
        if moment == "before":
            act(project / os.fsdecode(path))
        found = names(folders, path)
        looking = False
        if moment == "after":
            act(project / os.fsdecode(path))
        return found

    def listing(folder: int | str) -> list[str]:
        if looking and moment == "before the listing":
            act(project / "d1" / "e1")
        found = listed(folder)
        if looking and moment == "after the listing":
            act(project / "d1" / "e1")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(TouchedFolders, "names", interrupted)
        patched.setattr(os, "listdir", listing)
        workspace.restore(saved.id)
    workspace.save("two")

    for file in store.glob("workspaces/*/scan.*"):
        file.unlink()
    assert not opened().save("afresh", kind="auto").created


def edit_in_place(place: Path) -> None:
    (place / "f1").write_text("CONTENT 1\n")


def edit_by_another_name(place: Path) -> None:
    (place.parent / "other").hardlink_to(place / "f13")
    (place.parent / "other").write_text("by another name")


@pytest.mark.usefixtures("stamped")
@pytest.mark.parametrize("asked", ["what was heard of", "everything"])
@pytest.mark.parametrize("moment", ["before", "once it is watched", "after"])
@pytest.mark.parametrize("act", [bring, take_away, replace, edit_in_place, edit_by_another_name])
def test_what_happens_while_a_watch_looks_again_at_what_a_restore_left_is_in_the_next_save(
    opened: Open,
    project: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    act: Callable[[Path], None],
    asked: str,
) -> None:
    plant(project)
    if asked == "everything":  # as where a file with several names was met
        (project / "other name").hardlink_to(project / "d0" / "e0" / "f0")
    workspace = opened(watch=True)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited")
    watching = "heard_of" if asked == "what was heard of" else "cover"
    tell, watched = TouchedFolders.tell, getattr(DirectoryWatch, watching)
    place, acted = project / "d1" / "e1", []

    def looking(
        folders: TouchedFolders,
        watch: DirectoryWatch,
        path: bytes,
        *,
        restored: RestoredFolder,
        lister: Lister,
    ) -> None:
        def covering(*arguments: Any) -> Any:
            found = watched(*arguments)
            assert found
            if moment == "once it is watched":
                act(place)
            return found

        acted.append(path)
        if moment == "before":
            act(place)
        with monkeypatch.context() as patched:
            patched.setattr(DirectoryWatch, watching, covering)
            tell(folders, watch, path, restored=restored, lister=lister)
        if moment == "after":
            act(place)

    with monkeypatch.context() as patched:
        patched.setattr(TouchedFolders, "tell", looking)
        workspace.restore(saved.id)
    workspace.save("two")

    assert acted == [b"d1/e1"]
    for file in store.glob("workspaces/*/scan.*"):
        file.unlink()
    assert not opened().save("afresh", kind="auto").created


@pytest.mark.usefixtures("stamped")
@pytest.mark.parametrize("opened_by", ["no name", "a name that is another's"])
def test_what_is_written_to_a_file_by_another_name_while_a_watch_looks_again_is_in_the_next_save(
    opened: Open, project: Path, store: Path, monkeypatch: pytest.MonkeyPatch, opened_by: str
) -> None:
    plant(project)
    place = project / "d1" / "e1"
    if opened_by == "no name":
        writer = os.open(place, os.O_TMPFILE | os.O_WRONLY)
        os.link(f"/proc/self/fd/{writer}", place / "named later", src_dir_fd=writer)
    else:
        writer = os.open(place / "f13", os.O_WRONLY)
        os.link(place / "f13", place / "kept")
        (project / "new").write_text("another")
        (project / "new").rename(place / "f13")
    workspace = opened(watch=True)
    saved = workspace.save("one").checkpoint
    (place / "f1").write_text("edited")
    keep = DirectoryWatch.keep_restored

    def keeping(*arguments: Any, **told: Any) -> None:
        os.write(writer, b"second")
        keep(*arguments, **told)

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryWatch, "keep_restored", keeping)
        workspace.restore(saved.id)
    os.close(writer)
    workspace.save("two")

    for file in store.glob("workspaces/*/scan.*"):
        file.unlink()
    assert not opened().save("afresh", kind="auto").created


@pytest.mark.usefixtures("stamped")
def test_where_it_watches_the_next_scan_looks_at_no_directory_that_is_as_a_restore_left_it(
    opened: Open, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(project)
    workspace = opened(watch=True)
    saved = workspace.save("one").checkpoint
    (project / "d1" / "e1" / "f1").write_text("edited")
    (project / "d2" / "e2" / "f2").write_text("edited, too")
    workspace.restore(saved.id)
    (project / "d2" / "e2" / "f2").write_text("edited again")
    looked_at: list[bytes] = []
    look = Walk._look

    def looking(walk: Walk, descriptor: int, path: bytes, *told: Any) -> Frame:
        looked_at.append(path)
        return look(walk, descriptor, path, *told)

    monkeypatch.setattr(Walk, "_look", looking)

    assert workspace.save("two").checkpoint.manifest.changes == Counts(modified=1)
    assert looked_at == [b"d2/e2"]


def test_a_directory_that_is_taken_away_while_it_is_emptied_leaves_nothing_to_take_in(
    workspace: Workspace, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T10: nothing is at its path any more, and nobody proved what has become of what lay deeper."""
    plant(project)
    saved = workspace.save("one").checkpoint
    place = project / "new"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "file").write_text("new")
    workspace.save("two")
    removed = os.rmdir

    def removing(path: str, **more: Any) -> None:
        if place.exists():
            (place / "deep" / "theirs").write_text("theirs")
            with contextlib.suppress(OSError):
                removed(path, **more)
            place.rename(tmp_path / "away")
        removed(path, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", removing)
        with contextlib.suppress(Conflict):
            workspace.restore(saved.id)

    assert not place.exists()
    last = workspace.save("three").checkpoint
    assert workspace.entries(last) == workspace.entries(saved)


def meddle(project: Path, chance: random.Random) -> None:
    """Rename something, as strangers do."""
    files = sorted(path for path in project.rglob("*") if path.is_file())
    one = chance.choice(files)
    other = one.parent / chance.choice(["f1", "f2", "theirs", f"f{chance.randrange(24)}"])
    if not other.is_dir():
        one.rename(other)


@pytest.mark.usefixtures("stamped")
@pytest.mark.parametrize("opening", [{}, {"watch": True}])
@pytest.mark.parametrize("seed", range(examples(short=2, long=50)))
def test_whatever_strangers_rename_at_any_step_of_a_restore_is_in_the_next_save(
    opened: Open,
    project: Path,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    opening: dict[str, bool],
) -> None:
    chance = random.Random(seed)
    plant(project)
    workspace = opened(**opening)
    saved = [workspace.save("first").checkpoint.id]
    asked, listed = os.fstat, os.listdir
    likely = 0.0

    def may_meddle() -> None:
        nonlocal likely
        if chance.random() < likely:
            likely, before = 0.0, likely
            meddle(project, chance)
            likely = before

    def ask(descriptor: int) -> os.stat_result:
        may_meddle()
        found = asked(descriptor)
        may_meddle()
        return found

    def listing(folder: int | str) -> list[str]:
        may_meddle()
        found = listed(folder)
        may_meddle()
        return found

    monkeypatch.setattr(os, "fstat", ask)
    monkeypatch.setattr(os, "listdir", listing)
    for turn in range(12):
        for _ in range(chance.randrange(3)):
            change(project, chance)
        likely = chance.choice([0.01, 0.05, 0.2])
        with contextlib.suppress(LastgoodError):  # what they were in the way of
            workspace.restore(chance.choice(saved))
        likely = 0.0
        saved.append(workspace.save(f"{turn}").checkpoint.id)
        for file in store.glob("workspaces/*/scan.*"):
            file.unlink()
        afresh = opened()
        assert not afresh.save("afresh", kind="auto").created
        afresh.close()


def test_what_somebody_has_open_for_writing_is_no_proof(project: Path) -> None:
    (project / "file").write_text("content")
    with (project / "file").open("r+b"), PathProver(os.fsencode(project), {}) as prover:
        proof = prover.prove(b"file", None)
    assert proof.entry is not None
    assert proof.stat is not None
    assert not proof.steady
