"""One workspace under many spellings; paths and values as callers give them (rules S19, K2)."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import LastgoodError, NotFound, Unsafe, Usage
from lastgood.workspace import Workspace


def test_a_symlinked_spelling_is_the_same_workspace(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S19: one identity for one real path."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (tmp_path / "alias").symlink_to(project)

    with lastgood.open(f"{tmp_path}/alias/", store=store, maintenance="off") as alias:
        assert [one.id for one in alias.list()] == [saved.id]


def test_a_path_may_be_given_by_another_spelling_of_the_workspace(
    workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    """S19."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    (tmp_path / "alias").symlink_to(project)

    workspace.restore(saved.id, paths=[tmp_path / "alias" / "file"])

    assert (project / "file").read_text() == "one"


@pytest.mark.parametrize("spelling", ["src", "src/", "./src", "src/../src/.", "src//a"])
def test_a_scope_may_be_spelled_freely(workspace: Workspace, project: Path, spelling: str) -> None:
    """T3."""
    (project / "src").mkdir()
    (project / "src" / "a").write_text("one")
    (project / "b").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "src" / "a").write_text("two")
    (project / "b").write_text("two")

    workspace.restore(saved.id, paths=[spelling])

    assert (project / "src" / "a").read_text() == "one"
    assert (project / "b").read_text() == "two"


def test_a_dot_means_the_whole_workspace(workspace: Workspace, project: Path) -> None:
    """T3."""
    (project / "a").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "a").write_text("two")

    workspace.restore(saved.id, paths=["."])

    assert (project / "a").read_text() == "one"


@pytest.mark.parametrize("paths", [[""], "a", b"a", [None], [3]])
def test_a_malformed_scope_never_widens_a_restore(workspace: Workspace, project: Path, paths: object) -> None:
    """K2 in spirit: an empty variable of a caller must not mean everything."""
    (project / "a").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "a").write_text("two")

    with pytest.raises(LastgoodError):
        workspace.restore(saved.id, paths=paths)  # type: ignore[arg-type]

    assert (project / "a").read_text() == "two"


def test_a_path_that_is_not_utf8_can_be_named(workspace: Workspace, project: Path) -> None:
    """S3: names of any bytes."""
    odd = os.fsencode(project) + b"/odd\xff\n"
    with open(odd, "wb") as file:
        file.write(b"one")
    saved = workspace.save("one").checkpoint
    os.unlink(odd)

    workspace.restore(saved.id, paths=[os.fsdecode(b"odd\xff\n")])

    with open(odd, "rb") as file:
        assert file.read() == b"one"


def test_a_path_that_leads_out_is_refused(workspace: Workspace, project: Path) -> None:
    """T12."""
    (project / "a").write_text("one")
    saved = workspace.save("one").checkpoint

    with pytest.raises(Unsafe):
        workspace.restore(saved.id, paths=["../a"])


CALLS: dict[str, Callable[[Workspace], object]] = {
    "message": lambda one: one.save(3),  # type: ignore[arg-type]
    "message of bytes": lambda one: one.save(b"x"),  # type: ignore[arg-type]
    "name": lambda one: one.save(name=3),  # type: ignore[arg-type]
    "kind": lambda one: one.save(kind="bogus"),  # type: ignore[arg-type]
    "kind of no text": lambda one: one.save(kind=[]),  # type: ignore[arg-type]
    "metadata value": lambda one: one.save(metadata={"a": 1}),  # type: ignore[dict-item]
    "metadata value of any kind": lambda one: one.save(metadata={"a": object()}),  # type: ignore[dict-item]
    "metadata key": lambda one: one.save(metadata={1: "a"}),  # type: ignore[dict-item]
    "metadata of no pairs": lambda one: one.save(metadata="abc"),  # type: ignore[arg-type]
    "budget": lambda one: one.save(budget="2s"),  # type: ignore[arg-type]
    "budget below zero": lambda one: one.save(budget=-1.0),
    "budget that is no number": lambda one: one.save(budget=float("nan")),
    "actor": lambda one: one.save(actor="me", allow_empty=True),  # type: ignore[arg-type]
    "actor of an unknown type": lambda one: one.save(actor=lastgood.Actor(type="robot"), allow_empty=True),  # type: ignore[arg-type]
    "reference": lambda one: one.restore(3),  # type: ignore[arg-type]
    "reference of bytes": lambda one: one.restore(b"@"),  # type: ignore[arg-type]
    "no reference": lambda one: one.restore(None),
    "deleted": lambda one: one.delete(3),  # type: ignore[arg-type]
    "deleted many at once": lambda one: one.delete(["@"]),  # type: ignore[arg-type]
    "plan": lambda one: one.apply("plan_1234"),  # type: ignore[arg-type]
    "turns": lambda one: one.rewind("1"),  # type: ignore[arg-type]
    "turns by halves": lambda one: one.rewind(1.5),  # type: ignore[arg-type]
    "limit": lambda one: one.list(limit="3"),  # type: ignore[arg-type]
    "limit below zero": lambda one: one.list(limit=-1),
    "moment": lambda one: one.list(since="2h"),  # type: ignore[arg-type]
    "kind listed": lambda one: one.list(kind="bogus"),  # type: ignore[arg-type]
    "kind listed of no text": lambda one: one.list(kind=[]),  # type: ignore[arg-type]
    "name listed": lambda one: one.list(name=3),  # type: ignore[arg-type]
    "session listed": lambda one: one.list(session=3),  # type: ignore[arg-type]
    "scopes of which there are none": lambda one: one.restore("@", only=[]),
    "folder": lambda one: one.restore("@", to=3),  # type: ignore[arg-type]
    "new name": lambda one: one.name("@", 3),  # type: ignore[arg-type]
    "forgotten": lambda one: one.forget(3),  # type: ignore[arg-type]
    "listed operations": lambda one: one.operations(can="so"),  # type: ignore[arg-type]
    "attached": lambda one: one.attach(3),  # type: ignore[arg-type]
    "folder opened": lambda one: lastgood.open(3, store=one.store),  # type: ignore[arg-type]
    "store opened": lambda one: lastgood.open(one.path, store=3),  # type: ignore[arg-type]
    "store with a nul": lambda one: lastgood.open(one.path, store="a\0b"),
    "folder with a nul": lambda one: lastgood.open("a\0b", store=one.store),
}


@pytest.mark.parametrize("what", list(CALLS))
def test_a_wrong_value_is_a_typed_failure_and_changes_nothing(
    workspace: Workspace, project: Path, what: str
) -> None:
    (project / "a").write_text("one")
    workspace.save("one")
    (project / "a").write_text("two")

    with pytest.raises(LastgoodError):
        CALLS[what](workspace)

    assert (project / "a").read_text() == "two"
    assert len(workspace.list()) == 1


@pytest.mark.parametrize("since", [-(10**30), -1, 0])
def test_a_moment_before_all_others_lists_all(workspace: Workspace, project: Path, since: int) -> None:
    """As `list --since 9999999w` asks for."""
    (project / "a").write_text("one")
    workspace.save("one")
    assert len(workspace.list(since=since)) == 1


TEXTS = [
    *("a\0b", "\ud800", "subject\n\nbody\nmore", "\u202eright to left", "\x1b[31mred\x1b[0m\a", "\U0001f600"),
    *("", "--quiet", "-m", "100% %s {} \\n", "a | pipe || two", "[step-7] not a step", "'; DROP TABLE x; --"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_may_be_a_message(workspace: Workspace, project: Path, text: str) -> None:
    """S13: what was acknowledged can be read again, and hides no other."""
    (project / "a").write_text("one")

    saved = workspace.save(text, metadata={text: text}).checkpoint
    other = workspace.save("other", allow_empty=True).checkpoint

    assert workspace.list() == (other, saved)
    assert saved.message == text
    assert workspace.verify(deep=True).ok


def test_a_workspace_that_was_closed_says_so(workspace: Workspace, project: Path) -> None:
    """A slip of the caller, not a fault of ours."""
    workspace.close()

    for verb in (workspace.list, workspace.save, workspace.undo, workspace.status):
        with pytest.raises(Usage, match="closed") as caught:
            verb()
        assert "open it again" in caught.value.hint


def test_an_observer_may_call_back_into_the_workspace(workspace: Workspace, project: Path) -> None:
    """No lock is held when observers are told."""
    (project / "a").write_text("one")
    workspace.save("one")
    seen: list[int] = []

    def observer(event: lastgood.Event) -> None:
        if event.type == "deleted":
            workspace.undo()
            seen.append(len(workspace.list()))

    workspace.subscribe(observer)
    workspace.delete("@")

    assert seen == [1]


def test_beside_threads_a_verb_waits_less_for_the_interpreter_and_leaves_its_setting(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []
    stop = threading.Event()
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        seen.append(sys.getswitchinterval())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)  # which a save calls in its midst
    (project / "file").write_text("x")
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        workspace.save("seen")
        with pytest.raises(NotFound):
            workspace.restore("nothing")
    finally:
        stop.set()
        thread.join()
    assert seen
    assert max(seen) < usual
    assert sys.getswitchinterval() == usual


def test_threads_may_share_a_workspace(workspace: Workspace, project: Path) -> None:
    """S16: saves, readings and restores at once, and every checkpoint can be had back."""
    for number in range(40):
        (project / f"file{number}").write_text("0")
    first = workspace.save("first").checkpoint
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for turn in range(5):
                (project / f"file{thread}").write_text(f"{thread} {turn}")
                workspace.save(f"{thread} {turn}")
                workspace.read(first.id, f"file{thread}")
                workspace.list()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert workspace.verify(deep=True).ok


def test_two_workspaces_of_one_store_do_not_see_each_other(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """T13, T8."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("other")
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    workspace.restore(first.id)
    with lastgood.open(tmp_path / "other", store=store, maintenance="off") as other:
        other.save("other")
        assert len(other.list()) == 1
        with pytest.raises(NotFound):
            other.undo()


def test_a_workspace_may_be_forgotten_from_one_that_was_never_saved(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """K8, T8: from anywhere, and undoable from there."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (tmp_path / "other").mkdir()
    with lastgood.open(tmp_path / "other", store=store, maintenance="off") as other:
        other.forget(str(project))
        assert workspace.list() == ()

        other.undo()

    assert [one.id for one in workspace.list()] == [saved.id]


def test_an_attached_workspace_is_restored_and_undone(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S19, T13: its stack moves with it."""
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    workspace.restore(first.id)
    moved = tmp_path / "moved"
    project.rename(moved)
    with lastgood.open(moved, store=store, maintenance="off") as there:
        there.attach(str(project))
        there.undo()
        assert (moved / "file").read_text() == "two"
        there.restore(first.id)
    with lastgood.open(moved, store=store, maintenance="off") as again:
        assert len(again.list()) == 2


def test_a_folder_whose_own_checkpoints_were_forgotten_can_be_attached(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S19: as the refusal's hint says."""
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    moved = tmp_path / "moved"
    project.rename(moved)
    with lastgood.open(moved, store=store, maintenance="off") as there:
        there.save("too early")
        with pytest.raises(lastgood.Conflict):
            there.attach(str(project))
        there.forget(str(moved))

        there.attach(str(project))

        assert [one.id for one in there.list()] == [first.id]
    with lastgood.open(moved, store=store, maintenance="off") as again:
        assert [one.id for one in again.list()] == [first.id]


@pytest.mark.parametrize("name", ["moved", "project"])
def test_where_a_moved_workspace_is_begun_anew_its_old_place_is_named(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path, name: str
) -> None:
    """S19: by its name, or by what is in it; with what to type."""
    for one in ("a", "b"):
        (project / one).write_text("one")
    first = workspace.save("one").checkpoint
    (project / "a").write_text("two")
    workspace.restore(first)  # its guard is no checkpoint that anybody counts
    other = tmp_path / "other"
    other.mkdir()
    (other / "c").write_text("another project")
    with lastgood.open(other, store=store, maintenance="off") as unlike:
        unlike.save("two")
        moved = tmp_path / "new" / name
        moved.parent.mkdir()
        project.rename(moved)
        with lastgood.open(moved, store=store, maintenance="off") as there:
            (note,) = (one for one in there.status().health if one.code == "moved-here")
            assert note.message == f"{project}, which is not there any more, has 1 checkpoint"
            assert note.hint == f"if this is that project: lastgood workspace attach {project}"
            (note,) = there.save("too early").notes
            assert note.code == "moved-here"
            assert note.hint.endswith(f"lastgood workspace attach {project}")
            assert there.save("again").notes == ()
            assert "moved-here" not in {one.code for one in there.status().health}
        assert unlike.status().health == ()


def test_of_many_that_are_alike_the_one_of_the_same_name_is_named_first(store: Path, tmp_path: Path) -> None:
    """S19: worktrees of one project, moved or copied with their store."""
    names = [f"tree{number}" for number in range(6)]
    (tmp_path / "old").mkdir()
    for name in names:
        (tmp_path / "old" / name).mkdir()
        for one in ("a", "b"):
            (tmp_path / "old" / name / one).write_text(name)
        with lastgood.open(tmp_path / "old" / name, store=store, maintenance="off") as workspace:
            workspace.save(name)
    (tmp_path / "old").rename(tmp_path / "new")

    with lastgood.open(tmp_path / "new" / "tree5", store=store, maintenance="off") as there:
        told = [one.message for one in there.status().health if one.code == "moved-here"]
    assert told[0].startswith(f"{tmp_path}/old/tree5, ")
    assert len(told) == 3


def test_the_only_other_workspace_is_named_when_it_is_gone_however_little_it_is_like_this_one(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S19: a folder may be begun anew under another name, and empty."""
    (project / "file").write_text("one")
    workspace.save("one")
    project.rename(tmp_path / "away")
    (tmp_path / "new").mkdir()
    with lastgood.open(tmp_path / "new", store=store, maintenance="off") as there:
        assert [note.code for note in there.status().health] == ["moved-here"]


def test_a_project_that_is_like_none_that_is_gone_hears_of_none(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S19: one name in common says nothing."""
    for one in ("README", "a", "b"):
        (project / one).write_text("one")
    workspace.save("one")
    for name in ("second", "new"):
        other = tmp_path / name
        other.mkdir()
        (other / "README").write_text("one")
        with lastgood.open(other, store=store, maintenance="off") as there:
            if name == "new":
                project.rename(tmp_path / "away")
            assert there.status().health == ()
            assert there.save("one").notes == ()


def test_a_restore_aside_never_writes_into_the_store(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """T11, S18."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint

    with pytest.raises(Unsafe):
        workspace.restore(saved.id, to=store / "workspaces" / "aside")


def test_what_is_no_list_and_no_observer_is_refused_in_words(workspace: Workspace) -> None:
    odd: Any = 5
    with pytest.raises(Usage, match="messages are no list"):
        workspace.save("odd", messages=odd)
    before = workspace.save("sound").checkpoint
    with pytest.raises(Usage, match="given as a list"):
        workspace.restore(before.id, paths=odd)
    with pytest.raises(Usage, match="not a call"):
        workspace.subscribe(odd)


ODD: tuple[Any, ...] = (5, b"\xff", object(), ["\0"], {"a": 1}, "\ud800", "\0")


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd) if type(odd) is not object else "object")
def test_odd_words_are_refused_by_errors_of_ours(workspace: Workspace, odd: Any) -> None:
    before = workspace.save("sound").checkpoint.id
    step = workspace.step_start("step")
    calls: list[Callable[[], object]] = [
        lambda: workspace.check(before, odd),
        lambda: workspace.save("odd", check=odd),
        lambda: workspace.save("odd", pin=odd),
        lambda: workspace.plan_restore(before, only=odd),
        lambda: workspace.get_session(odd),
        lambda: workspace.session_end(odd),
        lambda: workspace.session_heartbeat(odd),
        lambda: workspace.step_end(odd),
        lambda: workspace.step_end(step, state=odd),
    ]
    if odd != b"\xff":  # which is a path
        calls += [
            lambda: workspace.read(before, odd),
            lambda: workspace.restore(before, to=odd),
            lambda: workspace.save("odd", transcript=odd),
            lambda: workspace.session_start(transcript=odd),
        ]
    for call in calls:
        with pytest.raises(LastgoodError):
            call()


def test_a_checkpoint_stands_for_itself_wherever_a_ref_does(workspace: Workspace, project: Path) -> None:
    """What a save returned goes into every other verb, as it is now: named, judged or deleted since."""
    (project / "a").write_text("one")
    first = workspace.save("first").checkpoint
    (project / "a").write_text("two")
    second = workspace.save("second").checkpoint
    assert workspace.get(first).id == first.id
    assert [one.path for one in workspace.diff(first, second).files] == [b"a"]
    assert workspace.restore(first).target == first.id
    assert (project / "a").read_text() == "one"
    assert workspace.name(first, "before").name == "before"
    assert workspace.get(first).name == "before"
    assert workspace.read(second, "a") == b"two"
    assert workspace.plan_restore(second, merge=True, base=first).target == second.id
    assert workspace.check(first, "true").check.exit_code == 0
    assert workspace.recover(first, choice="review").checkpoint == workspace.get(first)
    workspace.delete(second)
    with pytest.raises(NotFound):
        workspace.get(second)
    with pytest.raises(Usage):
        workspace.get(7)  # type: ignore[arg-type]
