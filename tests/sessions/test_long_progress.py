"""Progress of many tasks and features: each checkpoint has all of it, in parts that it shares (P8a)."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lastgood
from lastgood.catalogue import rows, work
from lastgood.errors import Damaged
from lastgood.model import long_list, session
from lastgood.model.checkpoint import Checkpoint, Manifest, decode
from lastgood.model.session import Features, Progress, Task, in_parts, lists_in_parts
from lastgood.objects.write import GitWriter
from lastgood.workspace import Workspace
from tools.harm import lose
from tools.values import not_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lastgood.context import SessionTransaction

MANY = 700


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    """Begin as a process that has seen no list yet."""
    long_list.forget()


def told(workspace: Workspace, *, tasks: int = MANY, features: int = 0) -> Progress:
    """Record that so many tasks wait and so many features are complete."""
    progress = Progress(
        goal="all of it",
        tasks=tuple(Task(id=f"T{number:04}") for number in range(tasks)),
        features=Features(completed=tuple(f"F{number:04}" for number in range(features))),
    )
    context = workspace._context

    def put(work: SessionTransaction) -> Progress:
        work.add_workspace(context.row)
        return work.change_progress(context.key, lambda _: progress, workspace_key=context.key)

    context.work.change(put)
    return progress


def git(workspace: Workspace, *words: str) -> str:
    done = subprocess.run(
        ["git", "--git-dir", f"{workspace.store}/objects.git", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def parts_of(workspace: Workspace, checkpoint: Checkpoint) -> dict[str, str]:
    """Return the blobs that a checkpoint has of its progress, by path."""
    lines = git(workspace, "ls-tree", "-r", f"{checkpoint.commit}:progress").splitlines()
    return {line.split("\t")[1]: line.split()[2] for line in lines}


def again(workspace: Workspace, ref: str) -> Checkpoint:
    """Return a checkpoint as somebody else reads it."""
    long_list.forget()
    return workspace.get(ref)


def test_a_checkpoint_holds_all_tasks_for_any_reader_of_git(workspace: Workspace) -> None:
    """P8a: without any other checkpoint, and in the form of git."""
    wanted = told(workspace)
    made = workspace.save("all").checkpoint

    found = []
    for oid in parts_of(workspace, made).values():
        found += json.loads(git(workspace, "cat-file", "blob", oid))

    assert [one["id"] for one in found] == [task.id for task in wanted.tasks]
    assert not_none(again(workspace, made.id).progress) == wanted
    assert "T0001" not in git(workspace, "cat-file", "blob", f"{made.commit}:checkpoint.json")


def test_a_changed_task_stores_one_part_anew(workspace: Workspace) -> None:
    """P8a: what was said of the others is shared by content."""
    told(workspace)
    before = parts_of(workspace, workspace.save("before").checkpoint)
    workspace.task_start("T0300")
    long_list.forget()
    saved = not_none(workspace.task_done("T0300").saved).checkpoint

    after = parts_of(workspace, saved)

    assert [path for path in after if after[path] != before[path]] == ["tasks/0000/18"]
    assert not_none(again(workspace, saved.id).progress).tasks[300].state == "done"


def test_a_list_in_parts_has_the_ids_that_git_gives_it(workspace: Workspace) -> None:
    """P8a: lists are compared by them, and parts that are stored are known by them."""
    wanted = told(workspace, features=100)
    made = workspace.save("all").checkpoint

    trees = {
        line.split("\t")[1]: line.split()[2]
        for line in git(workspace, "ls-tree", f"{made.commit}:progress").splitlines()
    }

    assert trees == {name: items.oid.hex() for name, items in lists_in_parts(in_parts(wanted)).items()}
    assert set(trees) == {"tasks", "completed"}
    assert not_none(again(workspace, made.id).progress).features == wanted.features


def test_progress_of_many_tasks_is_no_change_while_it_stays(workspace: Workspace) -> None:
    """S10."""
    told(workspace)
    first = workspace.save("one").checkpoint
    long_list.forget()

    assert workspace.save().checkpoint == first
    workspace.task_start("T0001")
    assert workspace.save().created


def test_a_list_and_the_status_read_no_tasks(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8a."""
    told(workspace)
    workspace.save("one")
    long_list.forget()

    def refuse(*_given: object, **_more: object) -> None:
        raise AssertionError("a part of a list was read")

    monkeypatch.setattr(long_list.Part, "items", refuse)
    assert [one.metrics.tasks_total for one in workspace.list()] == [MANY]
    assert workspace.status().at is not None
    assert workspace.plan_prune().keep


def test_many_tasks_come_back_with_a_restore_and_go_with_its_undo(workspace: Workspace) -> None:
    """T11, T8."""
    wanted = told(workspace)
    made = workspace.save("one").checkpoint
    workspace.task_start("T0005")
    workspace.task_done("T0005")
    later = workspace.progress()
    long_list.forget()

    workspace.restore(made.id)
    assert workspace.progress() == wanted
    long_list.forget()
    workspace.undo()
    assert workspace.progress() == later


def test_an_older_checkpoint_that_has_its_tasks_in_its_record_alone_is_no_guard(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T8, S10: an undo needs them as what is stored."""
    empty = workspace.save("none").checkpoint
    with monkeypatch.context() as older:
        older.setattr(session, "SHORT", MANY)
        told(workspace)
        whole = workspace.save("all").checkpoint
    workspace.task_skip("more")
    workspace.restore(whole.id)
    wanted = workspace.progress()
    workspace.restore(empty.id)
    long_list.forget()

    workspace.undo()

    assert not lists_in_parts(whole.manifest.progress)
    assert workspace.progress() == wanted


def test_a_copy_of_a_store_is_given_what_was_stored_in_another_copy(tmp_path: Path) -> None:
    """P8a: both have the same generation."""
    (tmp_path / "project").mkdir()
    with lastgood.open(tmp_path / "project", store=tmp_path / "store", maintenance="off") as first:
        first.save("none")
    for name in ("one", "other"):
        shutil.copytree(tmp_path / "store", tmp_path / name)
        with lastgood.open(tmp_path / "project", store=tmp_path / name, maintenance="off") as workspace:
            told(workspace)
            workspace.save("all")
            assert workspace.verify().ok


def test_an_older_copy_put_in_the_place_of_a_store_is_given_what_it_lacks(tmp_path: Path) -> None:
    """P8a: what was stored since is not in it."""
    store, old = tmp_path / "store", tmp_path / "old"
    (tmp_path / "project").mkdir()
    with lastgood.open(tmp_path / "project", store=store, maintenance="off") as workspace:
        told(workspace, features=40)
        workspace.save("some")
        shutil.copytree(store, old)
        told(workspace, tasks=MANY + 1, features=40)
        workspace.save("more")
    shutil.rmtree(store)
    old.rename(store)
    with lastgood.open(tmp_path / "project", store=store, maintenance="off") as workspace:
        told(workspace, tasks=MANY + 1, features=40)
        workspace.save("more")
        assert workspace.verify().ok


def test_many_tasks_arrive_in_another_store(workspace: Workspace, tmp_path: Path) -> None:
    """P8a: an export has the parts that its checkpoints need, and no others."""
    wanted = told(workspace, features=40)
    workspace.task_start("T0001")
    made = not_none(workspace.task_done("T0001").saved).checkpoint
    wanted = workspace.progress()
    workspace.export(tmp_path / "parcel", made.id)
    long_list.forget()
    (tmp_path / "elsewhere").mkdir()

    with lastgood.open(tmp_path / "elsewhere", store=tmp_path / "other", maintenance="off") as there:
        there.import_file(tmp_path / "parcel")
        long_list.forget()
        arrived = there._context.catalogue.get(made.id)
        assert not_none(arrived).manifest.progress == wanted
        assert tuple(not_none(arrived).manifest.progress.tasks) == tuple(wanted.tasks)
        assert there._context.work.progress(made.manifest.workspace_key) == wanted
        assert there.verify(deep=True).ok


def test_pruning_frees_no_part_that_a_checkpoint_needs(workspace: Workspace) -> None:
    """P8a, K3: a checkpoint needs no other one."""
    told(workspace)
    made = []
    for number in range(4):
        workspace.task_start(f"T{number:04}")
        made.append(not_none(workspace.task_done(f"T{number:04}").saved).checkpoint)
    last = workspace.progress()

    workspace.prune(keep=1, now=True)

    assert [one.id for one in workspace.list()] == [made[-1].id]
    assert tuple(not_none(again(workspace, made[-1].id).progress).tasks) == tuple(last.tasks)
    assert workspace.verify(deep=True).ok


def test_a_catalogue_made_anew_knows_the_tasks(workspace: Workspace) -> None:
    """P8a, invariant 6: from the commits alone."""
    told(workspace)
    made = workspace.save("one").checkpoint
    wanted = workspace.progress()
    store, path = workspace.store, workspace.path
    workspace.close()
    for one in Path(store).glob("catalogue*"):
        one.unlink()
    long_list.forget()

    with lastgood.open(path, store=store, maintenance="off", repair=True) as repaired:
        repaired.verify(repair=True)
        assert not_none(repaired.get(made.id).progress) == wanted


@pytest.mark.damages
def test_a_part_that_is_lost_is_named_and_hides_no_other_checkpoint(workspace: Workspace) -> None:
    """K4."""
    (Path(workspace.path) / "kept").write_text("before")
    sound = workspace.save("sound").checkpoint
    told(workspace)
    hurt = workspace.save("hurt").checkpoint
    lose(Path(workspace.store), f"{hurt.commit}:progress/tasks/0000/07")
    workspace.close()
    long_list.forget()

    with lastgood.open(workspace.path, store=workspace.store, maintenance="off") as opened:
        report = opened.verify()
        assert {one.id: one.files for one in report.damaged} == {hurt.id: (b"progress/tasks",)}
        assert opened.get(sound.id).damaged is None
        assert len(opened.list()) == 2
        with pytest.raises(Damaged):
            tuple(not_none(opened.get(hurt.id).progress).tasks)


@pytest.mark.damages
def test_a_repair_takes_a_lost_part_from_the_progress_in_force(workspace: Workspace) -> None:
    """P8a, K4: as the next save would, for every checkpoint that shares it."""
    (Path(workspace.path) / "kept").write_text("before")
    wanted = told(workspace)
    first = workspace.save("first").checkpoint
    workspace.task_start("T0001")
    workspace.task_done("T0001")
    lose(Path(workspace.store), f"{first.commit}:progress/tasks/0000/07")
    workspace.close()
    long_list.forget()

    with lastgood.open(workspace.path, store=workspace.store, maintenance="off") as opened:
        report = opened.verify(repair=True)
        assert report.damaged == ()
        assert "1 part of progress stored again, as the catalogue has them" in report.repaired
        assert tuple(not_none(again(opened, first.id).progress).tasks) == tuple(wanted.tasks)
        assert opened.verify(repair=True).repaired == ()


def test_the_status_counts_what_is_damaged_without_reading_every_record(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8a, K4: those that were marked, and those that were altered from outside."""
    (Path(workspace.path) / "kept").write_text("one")
    made = [workspace.save(f"save {number}").checkpoint for number in range(30)]
    context = workspace._context
    with closing(sqlite3.connect(f"{workspace.store}/catalogue.sqlite3")) as connection, connection:
        connection.execute("UPDATE checkpoint SET name = 'altered' WHERE id = ?", (made[-3].id,))
    read: list[object] = []

    def counted(text: bytes | str, *, brief: bool = False) -> Manifest:
        read.append(text)
        return decode(text, brief=brief)

    monkeypatch.setattr(rows, "decode", counted)

    notes = {note.code: note.message for note in workspace.status().health}

    assert notes["damaged-checkpoints"].startswith("1 checkpoint")
    assert context.catalogue.count_damaged(context.key) == 1
    assert len(read) < len(made) / 2


def test_what_one_store_holds_is_not_asked_of_another(tmp_path: Path) -> None:
    """P8a: both have the same parts, and one of them is gone."""
    opened = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        with lastgood.open(tmp_path / name, store=tmp_path / f"{name}.store", maintenance="off") as made:
            told(made, features=MANY)
            made.save("all")
    long_list.forget()
    for name in ("one", "other"):
        workspace = lastgood.open(tmp_path / name, store=tmp_path / f"{name}.store", maintenance="off")
        completed = workspace.list()[0].manifest.progress.features.completed
        assert completed[0] == "F0000"
        opened.append((workspace, completed))
    opened[1][0].close()
    shutil.rmtree(tmp_path / "other.store")
    assert opened[0][1][MANY - 1] == f"F{MANY - 1:04}"
    opened[0][0].close()


def test_saves_in_two_stores_in_turn_look_for_no_part_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8a: a task costs the same beside another project's."""
    with ExitStack() as stack:
        both = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            opened = lastgood.open(tmp_path / name, store=tmp_path / f"{name}.store", maintenance="off")
            both.append(stack.enter_context(opened))
        for workspace in both:
            told(workspace)
            workspace.save("all")
        looked_for: list[set[bytes]] = []
        original = GitWriter.unreadable

        def noted(writer: GitWriter, oids: Iterable[bytes]) -> set[bytes]:
            looked_for.append(set(oids))
            return original(writer, looked_for[-1])

        monkeypatch.setattr(GitWriter, "unreadable", noted)
        for task in ("T0001", "T0300"):
            for workspace in both:
                workspace.task_start(task)
                assert not_none(workspace.task_done(task).saved).created

        assert looked_for
        assert max(map(len, looked_for)) < 5, "a part, its folder and the list are new"
        for workspace in both:
            assert workspace.verify(deep=True).ok


def test_tasks_of_three_workspaces_in_turn_read_no_list_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8a: what a process remembers of one list is there although it changes others."""
    with ExitStack() as stack:
        several = []
        for name in ("one", "other", "third"):
            (tmp_path / name).mkdir()
            opened = lastgood.open(tmp_path / name, store=tmp_path / f"{name}.store", maintenance="off")
            several.append(stack.enter_context(opened))
            told(several[-1], tasks=40)
        read: list[str] = []
        original = work._sound_parts

        def noted(connection: sqlite3.Connection, key: str) -> Iterator[tuple[str, bytes]]:
            read.append(key)
            return original(connection, key)

        monkeypatch.setattr(work, "_sound_parts", noted)
        for task in ("T0001", "T0002"):
            for workspace in several:
                workspace.task_start(task)
                workspace.task_done(task)
        assert read == []


def test_copies_of_a_store_written_in_turn_have_each_what_was_stored_in_it(tmp_path: Path) -> None:
    """P8a: both have the same generation, and neither what the other was given."""
    (tmp_path / "project").mkdir()
    with lastgood.open(tmp_path / "project", store=tmp_path / "store", maintenance="off") as first:
        told(first)
        first.save("all")
    with ExitStack() as stack:
        both = []
        for name in ("one", "other"):
            shutil.copytree(tmp_path / "store", tmp_path / name)
            opened = lastgood.open(tmp_path / "project", store=tmp_path / name, maintenance="off")
            both.append(stack.enter_context(opened))
        for more in (1, 40, 80):
            for workspace in both:
                told(workspace, tasks=MANY + more)
                workspace.save("more")
        for workspace in both:
            assert workspace.verify(deep=True).ok
