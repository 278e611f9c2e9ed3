"""Contents taken out of every checkpoint and pack, for good (rule S5)."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.catalogue.backup import ask, is_sound
from lastgood.engine import CheckpointContents, Engine
from lastgood.errors import Busy, Conflict, Damaged, Invalid, NotFound
from lastgood.workspace import Workspace
from tools.command import module
from tools.values import not_none

Kill = Callable[..., None]
SECRET = b"TOKEN=a very secret word\n"


def is_stored(store: Path, content: bytes) -> bool:
    """Let git say whether the store has a content in any pack."""
    git = ["git", "--git-dir", str(store / "objects.git")]
    oid = subprocess.run(["git", "hash-object", "--stdin"], input=content, capture_output=True, check=True)
    name = oid.stdout.decode().strip()
    return subprocess.run([*git, "cat-file", "-e", name], capture_output=True, check=False).returncode == 0


@pytest.fixture
def leaky(project: Path, workspace: Workspace) -> Workspace:
    """Return the workspace with a key in some of its checkpoints, in two versions."""
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("one\n")
    workspace.save("without", name="without")
    (project / "src" / "key").write_bytes(SECRET)
    workspace.save("with", name="with")
    (project / "src" / "key").write_bytes(SECRET * 2)
    (project / "src" / "app.py").write_text("two\n")
    workspace.save("later", name="later")
    return workspace


def test_a_plan_says_where_a_content_is_and_changes_nothing(leaky: Workspace, store: Path) -> None:
    plan = leaky.plan_purge("src/key")
    assert (plan.path, len(plan.contents), plan.size) == (b"src/key", 2, 3 * len(SECRET))
    assert [one.id for one in plan.checkpoints] == [leaky.get("later").id, leaky.get("with").id]
    assert {one.paths for one in plan.checkpoints} == {(b"src/key",)}
    assert (plan.elsewhere, plan.others, plan.again) == ((), (), False)
    assert leaky.read("later", "src/key") == SECRET * 2
    assert is_stored(store, SECRET)


def test_all_versions_of_a_path_are_gone_from_all_checkpoints_and_packs(
    leaky: Workspace, store: Path
) -> None:
    """S5."""
    ids = [one.id for one in leaky.list()]
    report = leaky.purge("src/key")
    assert report.plan.contents
    assert report.freed_bytes >= 0, "of so little the disk may get no block back"
    assert not is_stored(store, SECRET)
    assert not is_stored(store, SECRET * 2)
    assert [one.id for one in leaky.list()] == ids
    assert leaky.verify(deep=True).ok
    for name, content in (("without", b"one\n"), ("with", b"one\n"), ("later", b"two\n")):
        assert leaky.read(name, "src/app.py") == content
    with pytest.raises(NotFound):
        leaky.read("with", "src/key")


def test_what_was_purged_is_a_gap_with_its_reason(leaky: Workspace) -> None:
    """S5, S7."""
    files = leaky.get("later").files
    leaky.purge("src/key")
    later = leaky.get("later")
    assert [(gap.path, gap.reason, gap.size) for gap in later.gaps] == [(b"src/key", "purged", 50)]
    assert later.files == files - 1
    assert leaky.get("without").gaps == ()


def test_a_restore_keeps_what_stands_in_a_purged_place_and_names_it(leaky: Workspace, project: Path) -> None:
    """S5, T4: a gap is never a deletion."""
    leaky.purge("src/key")
    (project / "src" / "app.py").write_text("three\n")
    report = leaky.restore("with")
    assert (project / "src" / "key").read_bytes() == SECRET * 2
    kept = {one.path: one.reason for one in report.outcomes if one.result == "kept"}
    assert kept[b"src/key"] == "not held then: purged"


def test_a_restore_says_that_it_cannot_bring_back_what_was_purged(leaky: Workspace, project: Path) -> None:
    """S5."""
    leaky.purge("src/key")
    (project / "src" / "key").unlink()
    (one,) = leaky.restore("with").not_held
    assert (one.path, one.reason) == (b"src/key", "purged")


def test_the_same_content_is_saved_again_by_who_wants_it(leaky: Workspace, project: Path) -> None:
    """S5: nothing is banned."""
    leaky.purge("src/key")
    saved = leaky.save("again").checkpoint
    assert leaky.read(saved.id, "src/key") == SECRET * 2
    (project / "src" / "key").unlink()
    leaky.restore(saved.id)
    assert (project / "src" / "key").read_bytes() == SECRET * 2


def test_the_same_content_goes_wherever_it_is_if_that_was_said(leaky: Workspace, project: Path) -> None:
    """S5."""
    (project / "copy").write_bytes(SECRET * 2)
    leaky.save("copied", name="copied")
    assert leaky.plan_purge("src/key", everywhere=True).elsewhere == (b"copy",)
    report = leaky.purge("src/key", everywhere=True)
    assert (report.plan.spared, report.plan.spared_contents) == ((), ())
    assert [gap.path for gap in leaky.get("copied").gaps] == [b"copy", b"src/key"]


@pytest.mark.parametrize("path", ["src/key", "src"])
def test_what_lies_at_another_path_too_stays_and_is_named(
    leaky: Workspace, project: Path, store: Path, path: str
) -> None:
    """S5: nobody has looked at that file."""
    (project / "copy").write_bytes(SECRET * 2)
    leaky.save("copied", name="copied")
    plan = leaky.purge(path).plan
    assert (plan.elsewhere, plan.spared, len(plan.spared_contents)) == ((b"copy",), (b"copy",), 1)
    assert leaky.read("copied", "copy") == SECRET * 2
    assert leaky.read("copied", "src/key") == SECRET * 2
    assert not is_stored(store, SECRET)
    assert leaky.verify(deep=True).ok


def test_where_all_is_at_other_paths_too_nothing_is_purged(leaky: Workspace, project: Path) -> None:
    """S5."""
    (project / "one").write_bytes(SECRET)
    (project / "two").write_bytes(SECRET * 2)
    leaky.save("copied")
    plan = leaky.purge("src/key").plan
    assert (plan.contents, plan.checkpoints, plan.again) == ((), (), False)
    assert plan.spared == (b"one", b"two")
    assert leaky.read("with", "src/key") == SECRET


def test_guards_and_deleted_checkpoints_lose_it_too(leaky: Workspace, project: Path, store: Path) -> None:
    """S5, T8: a deletion can be taken back."""
    (project / "src" / "key").write_bytes(b"only a guard has this\n")
    guard = not_none(leaky.restore("with", paths=["src/key"]).guard)
    leaky.delete("later")
    leaky.purge("src/key")
    assert [gap.reason for gap in leaky.get(guard).gaps] == ["purged"]
    leaky.undo()
    assert [gap.reason for gap in leaky.get("later").gaps] == ["purged"]
    assert not is_stored(store, b"only a guard has this\n")
    assert leaky.verify(deep=True).ok


def test_a_folder_stands_for_all_files_that_were_ever_in_it(leaky: Workspace, store: Path) -> None:
    """S5."""
    assert len(leaky.plan_purge("src").contents) == 4
    leaky.purge("src")
    assert not is_stored(store, SECRET)
    assert not is_stored(store, b"one\n")
    assert leaky.verify(deep=True).ok


def test_an_empty_file_takes_no_other_along(leaky: Workspace, project: Path) -> None:
    """S5: all of them share one content, which says nothing."""
    (project / "empty").touch()
    (project / "other").touch()
    leaky.save("empty")
    with pytest.raises(NotFound):
        leaky.purge("empty")
    assert leaky.read("@", "other") == b""


def test_what_another_workspace_holds_too_is_purged_only_if_that_was_said(
    leaky: Workspace, store: Path, tmp_path: Path
) -> None:
    """S5."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_bytes(SECRET)
    with lastgood.open(other, store=store, maintenance="off") as there:
        there.save("theirs")
        with pytest.raises(Conflict, match="other workspaces") as refused:
            leaky.purge("src/key")
        assert refused.value.details["workspaces"] == [str(other)]
        assert there.read("@", "mine") == SECRET
        leaky.purge("src/key", all_workspaces=True)
        assert [gap.path for gap in there.get("@").gaps] == [b"mine"]
    assert not is_stored(store, SECRET)


def test_a_second_purge_finds_that_nothing_is_left(leaky: Workspace) -> None:
    """S5."""
    leaky.purge("src/key")
    assert leaky.plan_purge("src/key").again
    assert leaky.purge("src/key").freed_bytes == 0


def test_a_purge_that_was_killed_before_it_freed_anything_ends_when_it_is_called_again(
    leaky: Workspace, store: Path, killed: Kill
) -> None:
    """S5."""
    killed(lambda: leaky.purge("src/key"), event="os.remove", path="/objects.git/objects/pack/")
    assert is_stored(store, SECRET)
    assert leaky.plan_purge("src/key").again
    leaky.purge("src/key")
    assert not is_stored(store, SECRET)
    assert leaky.verify(deep=True).ok


@pytest.fixture
def hurt(project: Path, workspace: Workspace, store: Path) -> Workspace:
    """Return the workspace with a key in two versions, of which the first is damaged on the disk."""
    (project / "keep").write_text("kept\n")
    workspace.save("without", name="without")
    (project / "key").write_bytes(random.Random(1).randbytes(9000))
    workspace.save("first", name="first")
    largest = max(
        (store / "objects.git" / "objects" / "pack").glob("*.pack"), key=lambda one: one.stat().st_size
    )
    (project / "key").write_bytes(SECRET)
    workspace.save("second", name="second")
    largest.chmod(0o600)
    held = bytearray(largest.read_bytes())
    held[len(held) // 2] ^= 0xFF
    largest.write_bytes(held)
    return workspace


@pytest.mark.parametrize("before", ["verify --repair", "list"])
def test_a_damaged_version_does_not_keep_the_others(
    hurt: Workspace, project: Path, store: Path, before: str
) -> None:
    """S5, K4."""
    hurt.close()
    module(project, store, *before.split())
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.purge("key")
        assert not is_stored(store, SECRET)
        assert [gap.reason for gap in workspace.get("second").gaps] == ["purged"]
        assert [(gap.path, gap.reason) for gap in workspace.get("first").gaps] == [(b"key", "purged")]
        assert workspace.read("first", "keep") == b"kept\n"
        assert workspace.verify(deep=True).ok


def test_a_checkpoint_whose_commit_is_damaged_is_reduced_all_the_same(
    leaky: Workspace, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5: its row says what it is."""
    hit = bytes.fromhex(leaky.get("with").commit)
    engine = type(leaky._context.engine)
    real = engine.contents

    def contents(self: Engine, commit: bytes) -> CheckpointContents:
        if commit == hit:
            raise Damaged("this commit is damaged")
        return real(self, commit)

    with monkeypatch.context() as patched:
        patched.setattr(engine, "contents", contents)
        leaky.purge("src/key")
    assert [gap.reason for gap in leaky.get("with").gaps] == ["purged"]
    assert not is_stored(store, SECRET)
    assert leaky.verify(deep=True).ok


def test_a_path_that_no_checkpoint_ever_held_is_not_found(leaky: Workspace) -> None:
    with pytest.raises(NotFound, match="no checkpoint holds any content of 'src/kez'"):
        leaky.purge("src/kez")
    with pytest.raises(Invalid):
        leaky.purge(".")


def test_nothing_is_purged_while_a_restore_waits_to_be_finished(
    leaky: Workspace, project: Path, killed: Kill
) -> None:
    """T7: it may need it."""
    (project / "src" / "app.py").write_text("three\n")
    killed(lambda: leaky.restore("with"), event="os.rename", path=".lastgood-")
    with pytest.raises(Busy):
        leaky.purge("src/key")


def test_an_undo_that_needs_what_was_purged_says_so(leaky: Workspace, project: Path) -> None:
    """T8, S5."""
    leaky.restore("with", paths=["src/key"])
    leaky.purge("src/key")
    with pytest.raises(NotFound, match=r"purged.*: src/key") as refused:
        leaky.undo()
    assert "lastgood undo --force" in str(refused.value.hint)
    assert (project / "src" / "key").read_bytes() == SECRET


@pytest.mark.parametrize("way", ["force", "merge"])
def test_an_undo_brings_back_all_but_what_was_purged(leaky: Workspace, project: Path, way: str) -> None:
    """T8, S5: else nothing before it could ever be taken back either."""
    leaky.restore("with")
    assert (project / "src" / "app.py").read_bytes() == b"one\n"
    leaky.purge("src/key")
    report = leaky.undo(force=way == "force", merge=way == "merge")
    assert (project / "src" / "app.py").read_bytes() == b"two\n"
    assert (project / "src" / "key").read_bytes() == SECRET
    kept = {one.path: one.reason for one in report.outcomes if one.result == "kept"}
    assert kept == {b"src/key": "purged: no checkpoint holds it any more"}
    assert leaky.verify(deep=True).ok
    with pytest.raises(NotFound, match="nothing to undo"):
        leaky.undo()


def test_a_catalogue_that_is_lost_afterwards_comes_back_without_it(
    leaky: Workspace, project: Path, store: Path
) -> None:
    """S5, K4: the list of checkpoints is rebuilt, and names nothing that is gone."""
    leaky.maintain()
    ids = [one.id for one in leaky.list()]
    leaky.purge("src/key")
    leaky.close()
    for path in store.glob("catalogue.sqlite3*"):
        if path.suffix in {".sqlite3", ".sqlite3-wal", ".sqlite3-shm"}:
            path.unlink()
    assert module(project, store, "verify", "--repair").returncode == 0
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert [one.id for one in again.list()] == ids
        assert again.verify(deep=True).ok
        assert [gap.reason for gap in again.get("with").gaps] == ["purged"]


def lose_catalogue(store: Path, *, backups: str = "") -> None:
    """Delete the list of checkpoints, and the backups that a pattern fits."""
    for path in [*store.glob("catalogue.sqlite3*"), *(store.glob(backups) if backups else ())]:
        path.unlink()


@pytest.mark.parametrize("kept", ["older", "newest", "none"])
def test_a_catalogue_rebuilt_from_any_backup_keeps_all_other_files(
    leaky: Workspace, project: Path, store: Path, kept: str
) -> None:
    """S5, K4: one of before the purge names commits that are gone; their reduced copies are there."""
    leaky.maintain()
    before = (store / "catalogue.backup.sqlite3.gz").read_bytes()
    ids = {one.id for one in leaky.list()}
    leaky.purge("src/key")
    leaky.close()
    lose_catalogue(store, backups="" if kept == "newest" else "catalogue.backup.sqlite3*")
    if kept == "older":
        (store / "catalogue.backup.sqlite3.gz").write_bytes(before)
    assert module(project, store, "verify", "--repair").returncode == 0
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert {one.id for one in again.list()} == ids
        assert again.verify(deep=True).ok
        for name, content in (("without", b"one\n"), ("with", b"one\n"), ("later", b"two\n")):
            assert again.read(name, "src/app.py") == content
        assert [gap.reason for gap in again.get("with").gaps] == ["purged"]
        assert again.plan_purge("src/key").again


def test_no_backup_that_names_what_was_purged_stays(leaky: Workspace, store: Path) -> None:
    """S5, K4."""
    leaky.maintain()
    leaky.save("more", allow_empty=True)
    leaky.maintain()
    gone = {one.commit for one in leaky.list() if one.id != leaky.get("without").id}
    leaky.purge("src/key")
    found = sorted(store.glob("catalogue.backup.sqlite3*"))
    assert found
    for path in found:
        assert is_sound(str(path)), path
        named = ask(str(path), lambda known: known.execute("SELECT commit_id FROM checkpoint").fetchall())
        assert gone.isdisjoint(commit for (commit,) in named), path


def test_a_purge_that_was_killed_while_it_freed_has_a_backup_that_names_what_is_left(
    leaky: Workspace, project: Path, store: Path, killed: Kill
) -> None:
    """S5, K4: made before the first byte goes."""
    leaky.maintain()
    killed(lambda: leaky.purge("src/key"), event="os.remove", path="/objects.git/objects/pack/")
    leaky.close()
    lose_catalogue(store)
    assert module(project, store, "verify", "--repair").returncode == 0
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert [gap.reason for gap in again.get("with").gaps] == ["purged"]
        assert again.verify(deep=True).ok
        again.purge("src/key")
    assert not is_stored(store, SECRET)


def test_a_rebuild_lets_a_whole_checkpoint_be_although_a_copy_of_it_was_begun(
    leaky: Workspace, project: Path, store: Path, killed: Kill
) -> None:
    """S5, K4: the purge had not come to take anything out of the list."""
    leaky.maintain()
    before = (store / "catalogue.backup.sqlite3.gz").read_bytes()
    killed(lambda: leaky.purge("src/key"), event="os.remove", path="/objects.git/objects/pack/")
    leaky.close()
    lose_catalogue(store, backups="catalogue.backup.sqlite3*")
    (store / "catalogue.backup.sqlite3.gz").write_bytes(before)
    assert module(project, store, "verify", "--repair").returncode == 0
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert again.read("with", "src/key") == SECRET
        assert again.verify(deep=True).ok
        again.purge("src/key")
        assert again.verify(deep=True).ok
    assert not is_stored(store, SECRET)


def test_a_private_file_that_was_purged_is_held_no_more_once_it_is_excluded(
    project: Path, workspace: Workspace, store: Path
) -> None:
    """S5: no checkpoint before holds it, so a line of ours counts."""
    (project / ".gitignore").write_text(".env\n")
    (project / ".env").write_bytes(SECRET)
    workspace.save("one")
    (project / ".lastgoodignore").write_text(".env\n")
    workspace.purge(".env")
    workspace.save("two")
    assert b".env" not in {one.path for one in workspace.entries("@")}
    assert not is_stored(store, SECRET)


def test_a_guard_says_no_more_that_it_was_made_to_hold_what_was_purged(
    leaky: Workspace, project: Path
) -> None:
    """S5: of the rest it still says so."""
    (project / "src" / "pass").write_text("one")
    leaky.save("both", name="both")
    (project / ".gitignore").write_text("key\npass\n")
    (project / "src" / "key").unlink()
    (project / "src" / "pass").unlink()
    leaky.save("neither")
    (project / "src" / "key").write_bytes(b"only a guard has this\n")
    (project / "src" / "pass").write_text("and this")
    guard = not_none(leaky.restore("both", paths=["src/key", "src/pass"]).guard)
    assert leaky.get(guard).manifest.forced == (b"src/key", b"src/pass")

    leaky.purge("src/key")

    assert leaky.get(guard).manifest.forced == (b"src/pass",)


def test_a_purge_leaves_nothing_that_is_to_be_freed(leaky: Workspace) -> None:
    """K3: else all that comes later looks for it again."""
    leaky.purge("src/key")
    assert leaky._context.catalogue.freed() == []


def test_a_purge_leaves_more_than_one_backup(leaky: Workspace, project: Path, store: Path) -> None:
    """S5, K4: each without what was purged, in case that the newest is damaged too."""
    leaky.pin("later")
    leaky.maintain()
    leaky.purge("src/key")
    leaky.close()
    lose_catalogue(store)
    (store / "catalogue.backup.sqlite3.gz").write_bytes(b"no backup")
    assert module(project, store, "verify", "--repair").returncode == 0
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert again.get("later").pinned
