"""What comes back beside files, together or alone, and the way back from it (rules T9, T11, P2, P6)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lastgood
from lastgood.errors import Conflict, Invalid, Unsafe, Usage
from lastgood.model.operation import JOURNAL, OPERATION
from lastgood.model.session import Progress
from lastgood.workspace import Workspace
from tools.command import Command
from tools.living import times_open
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.literals import Scope


HOST = "550e8400-e29b-41d4-a716-446655440000"


def spoken(*texts: str) -> bytes:
    """Return a host's transcript."""
    records = [
        {"type": "user", "sessionId": HOST, "message": {"role": "user", "content": text}} for text in texts
    ]
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude" / "projects" / "here"
    folder.mkdir(parents=True)
    return folder / f"{HOST}.jsonl"


@pytest.fixture
def first(workspace: Workspace, project: Path, transcript: Path) -> str:
    """Save a state of files, conversation and progress, then change all three; return the first's id."""
    (project / "file").write_text("one")
    transcript.write_bytes(spoken("one"))
    workspace.progress_set(goal="go", phase="build", step=1, steps=3)
    saved = workspace.save("one", transcript=transcript).checkpoint.id
    (project / "file").write_text("two")
    transcript.write_bytes(spoken("one", "two"))
    workspace.progress_set(step=2)
    workspace.save("two", transcript=transcript)
    return saved


def step_of(workspace: Workspace) -> int | None:
    return workspace.progress().position.step


def forks(transcript: Path) -> list[Path]:
    return sorted(path for path in transcript.parent.iterdir() if path != transcript)


def test_files_conversation_and_progress_come_back_together(
    workspace: Workspace, project: Path, first: str, transcript: Path
) -> None:
    """T11: by default; the host's own transcript stays, and a new one is written beside it."""
    report = workspace.restore(first)

    assert (project / "file").read_text() == "one"
    assert step_of(workspace) == 1
    assert report.progress == workspace.progress()
    [fork] = forks(transcript)
    assert b'"two"' not in fork.read_bytes()
    assert transcript.read_bytes() == spoken("one", "two")
    assert report.scopes == ("files", "conversation", "progress")
    assert report.conversation is not None
    assert report.conversation["messages"] == 1
    assert report.conversation["transcript"] == str(fork)
    assert "claude" in str(report.conversation["resume_command"])
    assert {part.scope: part.result for part in report.parts} == {
        "progress": "restored",
        "conversation": "restored",
    }


def test_an_undo_takes_all_of_it_back_and_a_redo_brings_it_again(
    workspace: Workspace, project: Path, first: str, transcript: Path
) -> None:
    """T8, T11: files, progress and the new transcript."""
    workspace.restore(first)
    workspace.undo()
    back = (project / "file").read_text(), step_of(workspace), forks(transcript)
    workspace.redo()
    assert back == ("two", 2, [])
    assert (project / "file").read_text() == "one"
    assert step_of(workspace) == 1
    assert len(forks(transcript)) == 1


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (["files"], ("one", 2, 0)),
        (["progress"], ("two", 1, 0)),
        (["conversation"], ("two", 2, 1)),
        (["progress", "files"], ("one", 1, 0)),
    ],
)
def test_each_scope_comes_back_alone(
    workspace: Workspace,
    project: Path,
    first: str,
    transcript: Path,
    only: list[Scope],
    expected: tuple[str, int, int],
) -> None:
    """T11: and an undo takes back just that."""

    def state() -> tuple[str, int | None, int]:
        return (project / "file").read_text(), step_of(workspace), len(forks(transcript))

    workspace.restore(first, only=only)
    done = state()
    workspace.undo()
    assert (done, state()) == (expected, ("two", 2, 0))


def test_paths_mean_files_only(workspace: Workspace, project: Path, first: str) -> None:
    """T11: and nothing beside them can be asked for with them."""
    report = workspace.restore(first, paths=["file"])
    assert (project / "file").read_text() == "one"
    assert (report.scopes, report.parts, step_of(workspace)) == (("files",), (), 2)
    with pytest.raises(Usage):
        workspace.restore(first, paths=["file"], only=["progress"])
    with pytest.raises(Usage):
        workspace.restore(first, paths=["file"], git=True)


def test_a_transcript_that_a_plan_compares_is_closed(
    workspace: Workspace, first: str, transcript: Path
) -> None:
    transcript.write_bytes(spoken("ONE"))  # as long as what is held of it
    before = times_open(transcript)
    workspace.plan_restore(first, only=["conversation"])
    assert times_open(transcript) == before


def test_what_is_no_scope_is_refused(workspace: Workspace, first: str) -> None:
    """T11, K2: nothing is widened by a slip."""
    with pytest.raises(Usage, match="everything"):
        workspace.plan_restore(first, only=["everything"])  # type: ignore[list-item]
    with pytest.raises(Usage):
        workspace.plan_restore(first, only="files")  # type: ignore[arg-type]


def test_a_plan_touches_nothing_and_its_id_covers_the_parts(
    workspace: Workspace, first: str, transcript: Path
) -> None:
    """T1, T16: what is planned is what happens, beside files too."""
    plan = workspace.plan_restore(first)
    assert workspace.plan_restore(first).id == plan.id
    assert (step_of(workspace), forks(transcript)) == (2, [])
    assert workspace.plan_restore(first, only=["files"]).id != plan.id
    workspace.progress_set(step=3)
    assert workspace.plan_restore(first).id != plan.id


def test_a_plan_is_refused_when_the_progress_went_on_since(
    workspace: Workspace, project: Path, first: str
) -> None:
    """T1: and nothing at all is done then."""
    plan = workspace.plan_restore(first)
    workspace.progress_set(step=3)
    with pytest.raises(Conflict, match="progress"):
        workspace.apply(plan)
    assert (project / "file").read_text() == "two"
    assert step_of(workspace) == 3


def test_a_preview_says_what_the_report_will(workspace: Workspace, first: str) -> None:
    """T1, T9: parts, conversation, HEAD and steps are in the report of a dry run too."""
    workspace.step_end(workspace.step_start("mail", irreversible=True))
    preview = workspace.preview(workspace.plan_restore(first))
    assert preview.dry_run
    assert {part.scope: part.result for part in preview.parts} == {
        "progress": "planned",
        "conversation": "planned",
    }
    report = workspace.restore(first)
    assert preview.conversation == report.conversation
    assert [one.name for one in preview.irreversible] == [one.name for one in report.irreversible] == ["mail"]


def test_nothing_to_change_is_an_empty_plan(workspace: Workspace, project: Path) -> None:
    """T11: neither a file nor a part."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint.id
    assert workspace.plan_restore(saved).empty
    report = workspace.restore(saved)
    assert (report.guard, report.operation, report.parts) == (None, None, ())


def test_progress_alone_makes_a_plan(workspace: Workspace, project: Path) -> None:
    """T11: though no file differs."""
    (project / "file").write_text("one")
    workspace.progress_set(step=1)
    saved = workspace.save("one").checkpoint.id
    workspace.progress_set(step=2)
    report = workspace.restore(saved)
    assert step_of(workspace) == 1
    assert (report.outcomes, report.operation is None) == ((), False)
    workspace.undo()
    assert step_of(workspace) == 2


def test_progress_that_nobody_ever_spoke_of_comes_back_as_such(workspace: Workspace, project: Path) -> None:
    """T11, T8: and an undo brings what was said since."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint.id
    workspace.progress_set(goal="go", step=2, state={"deep": {"er": [1, None, "ü"]}})
    before = workspace.progress()
    workspace.restore(saved)
    assert workspace.progress() == Progress()
    workspace.undo()
    assert workspace.progress() == before


def test_the_progress_of_a_session_that_ended_stays_as_it_ended(workspace: Workspace) -> None:
    """P6: what comes back is the workspace's own from now on."""
    with workspace.session(goal="go") as session:
        workspace.progress_set(step=1)
        middle = workspace.save("in the middle").checkpoint.id
        workspace.progress_set(step=2)

    workspace.restore(middle, only=["progress"])

    assert step_of(workspace) == 1
    assert workspace.get_session(session.id).progress.position.step == 2


def waiting(workspace: Workspace, *, tasks: int = 1) -> str:
    """Leave a session with tasks done, which waits until somebody goes on with it; return its id."""
    id = workspace.session_start(goal="go").session.id
    inside = workspace.within(id)
    for number in range(1, tasks + 1):
        inside.task_start(f"T{number}")
        inside.task_done(f"T{number}")
    workspace.session_end(id, finished=False)
    return id


def test_a_session_that_waits_begins_again_where_files_go_back_to_before_it(workspace: Workspace) -> None:
    """T11: its tasks are not taken for done whose files are gone."""
    before = workspace.save().checkpoint.id
    id = waiting(workspace)
    workspace.restore(before)
    assert workspace.get_session(id).progress.tasks == ()


def test_every_session_that_waits_begins_again_where_files_go_back_to_before_it(
    workspace: Workspace,
) -> None:
    """T11: beside what is reported without a session, and long lists too; undo brings all of it again."""
    before = workspace.save().checkpoint.id
    workspace.progress_set(step=1)
    waits = [waiting(workspace, tasks=20) for _ in range(2)]
    workspace.restore(before)
    assert [workspace.get_session(id).progress.tasks for id in waits] == [(), ()]
    assert workspace.progress().position.step is None
    workspace.undo()
    assert [len(workspace.get_session(id).progress.tasks) for id in waits] == [20, 20]
    assert workspace.progress().position.step == 1


def test_a_restore_within_a_session_leaves_the_progress_of_one_that_waits(workspace: Workspace) -> None:
    """T11: what it puts back is its own."""
    before = workspace.save().checkpoint.id
    id = waiting(workspace)
    workspace.session_start()
    workspace.restore(before)
    assert [task.state for task in workspace.get_session(id).progress.tasks] == ["done"]


def test_state_files_come_back_with_the_progress(project: Path, store: Path) -> None:
    """P2: although no other file does; one that came since and is ignored stays (T4)."""
    capture = lastgood.Settings().capture.replace(state_files=("state/*.json",), include=("state/*.json",))
    settings = lastgood.Settings(capture=capture)
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        (project / ".gitignore").write_text("state/\n")
        (project / "state").mkdir()
        (project / "state" / "a.json").write_text("1")
        (project / "file").write_text("one")
        workspace.progress_set(step=1)
        saved = workspace.save("one").checkpoint.id
        (project / "state" / "a.json").write_text("2")
        (project / "state" / "b.json").write_text("new")
        (project / "file").write_text("two")
        workspace.progress_set(step=2)

        workspace.restore(saved, only=["progress"])

        assert (project / "state" / "a.json").read_text() == "1"
        assert (project / "state" / "b.json").read_text() == "new"
        assert (project / "file").read_text() == "two"
        workspace.undo()
        assert (project / "state" / "a.json").read_text() == "2"


def test_head_and_index_come_back_when_asked_for(
    workspace: Workspace, project: Path, git: Callable[..., str]
) -> None:
    """T9: no branch is moved; and an undo puts them back."""
    git(project, "init", "-q", "-b", "main")
    (project / "file").write_text("one")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "one")
    saved = workspace.save("one").checkpoint.id
    (project / "file").write_text("two")
    git(project, "commit", "-q", "-a", "-m", "two")
    tip = git(project, "rev-parse", "main")

    assert workspace.restore(saved, only=["files"]).head_moved is not None
    workspace.undo()
    report = workspace.restore(saved, git=True)

    assert report.scopes == ("files", "conversation", "progress", "git")
    assert report.head_moved is None
    assert git(project, "rev-parse", "HEAD") == git(project, "rev-parse", "main~1")
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "rev-parse", "main") == tip
    workspace.undo()
    assert git(project, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert git(project, "status", "--porcelain") == ""


def test_git_without_a_repository_is_refused_before_the_first_write(
    workspace: Workspace, project: Path, first: str
) -> None:
    """T9: nothing is half done."""
    with pytest.raises(Unsafe):
        workspace.restore(first, git=True)
    assert (project / "file").read_text() == "two"


def test_aside_only_files_are_written(
    workspace: Workspace, project: Path, first: str, tmp_path: Path
) -> None:
    """T11: `--to` touches nothing else."""
    report = workspace.restore(first, to=tmp_path / "aside", only=["files"])
    assert (report.scopes, step_of(workspace)) == (("files",), 2)
    assert os.listdir(tmp_path / "aside") == ["file"]
    for options in ({"only": ["conversation"]}, {"git": True}, {"merge": True}):
        with pytest.raises(Usage):
            workspace.restore(first, to=tmp_path / "other", **options)
    with pytest.raises(Invalid):
        workspace.restore(first, to=tmp_path / "other", paths=["file"])
    assert (project / "file").read_text() == "two"


def test_an_undo_is_refused_when_the_progress_went_on(
    workspace: Workspace, project: Path, first: str
) -> None:
    """T8: forced, progress goes back too, and the guard holds what it was."""
    workspace.restore(first)
    workspace.progress_set(step=3)
    with pytest.raises(Conflict, match="progress") as caught:
        workspace.undo()
    assert caught.value.message == "the progress went on since, so nothing was undone"
    assert caught.value.hint.split("\n") == [
        "to undo the files alone, and keep the progress as it is: lastgood undo --merge",
        "or both, the progress too (the present state is saved first): lastgood undo --force",
    ]
    assert (project / "file").read_text() == "one"

    report = workspace.undo(force=True)

    assert step_of(workspace) == 2
    assert workspace.get(not_none(report.guard)).manifest.progress.position.step == 3
    assert all(part.result == "restored" for part in report.parts)


def test_an_undo_that_merges_leaves_progress_that_went_on(
    workspace: Workspace, project: Path, first: str
) -> None:
    """T8, T17: what changed since stays, and is listed."""
    workspace.restore(first)
    workspace.progress_set(step=3)
    report = workspace.undo(merge=True)
    assert (project / "file").read_text() == "two"
    assert step_of(workspace) == 3
    assert {part.scope: part.result for part in report.parts} == {
        "conversation": "restored",
        "progress": "kept",
    }


def test_a_transcript_that_somebody_went_on_with_stays(
    workspace: Workspace, first: str, transcript: Path
) -> None:
    """T8, T11: an undo takes away only what it wrote."""
    workspace.restore(first)
    [fork] = forks(transcript)
    fork.write_bytes(fork.read_bytes() + spoken("three"))
    report = workspace.undo()
    assert b"three" in fork.read_bytes()
    assert {part.scope: part.result for part in report.parts}["conversation"] == "kept"


def test_steps_that_cannot_be_undone_are_named(workspace: Workspace, project: Path) -> None:
    """P6: those begun after the target that were done, or may have been; no others."""
    (project / "file").write_text("one")
    workspace.step_end(workspace.step_start("before", irreversible=True))
    (project / "file").write_text("two")
    target = workspace.save("two").checkpoint.id
    workspace.step_end(workspace.step_start("push", irreversible=True))
    workspace.step_end(workspace.step_start("deploy", irreversible=True), state="unknown")
    workspace.step_end(workspace.step_start("refused", irreversible=True), state="failed")
    workspace.step_end(workspace.step_start("build"))
    (project / "file").write_text("three")
    report = workspace.restore(target)
    assert [one.name for one in report.irreversible] == ["push", "deploy"]


def test_records_of_before_there_were_parts_are_read() -> None:
    """Invariant: operations and journals of old stay readable."""
    operation = OPERATION.decode(
        '{"at":1,"checkpoints":[],"guard":null,"id":"op_1","of":null,"steps":[],"target":null,'
        '"type":"restore","undone":false,"version":1,"workspace_key":"k"}'
    )
    assert (operation.parts, operation.session) == ((), None)
    assert OPERATION.decode(OPERATION.encode(operation)) == operation
    journal = JOURNAL.decode(
        b'{"guard":"g","of":null,"operation":"op_1","plan":{"discard":false,"force":false,"id":"p","paths":[],'
        b'"steps":[],"target":"t","workspace_key":"k"},"started_at":1,"target_tree":"t","type":"restore",'
        b'"version":1}'
    )
    assert (journal.plan.scopes, journal.plan.parts, journal.session) == (("files",), (), None)


# What the command says of a restore beside its files (rules T1, T9, T11, T14, T17, P6).


@pytest.fixture
def told_of(command: Command) -> str:
    """Save a state with progress, then go on; return the first one's id."""
    file = command.project / "file"
    file.write_text("one\n")
    command("progress", "set", "--phase", "build", "--step", "1/3")
    saved = command.save("--name", "first")
    command("task", "start", "deploy", "--irreversible")
    command("task", "done", "deploy")
    command("progress", "set", "--step", "2/3")
    file.write_text("two\n")
    return saved


def test_a_person_is_told_of_everything_before_the_first_write(command: Command, told_of: str) -> None:
    """T1, P6: first what changed since where one stands, then the parts, and what stays done."""
    said = command.terminal("restore", told_of, answers="n\n", expect=130).out
    places = [
        said.index(words)
        for words in (
            "where you are: 1 file modified",
            "progress: will be put back",
            "deploy was done",
            "Go ahead?",
        )
    ]
    assert places == sorted(places)
    assert "step 1/3" in said
    assert (command.project / "file").read_text() == "two\n"


def test_a_goal_that_comes_back_alone_is_told(command: Command) -> None:
    """T1, T10: after a session that had nothing else, where no file differs."""
    command("session", "start", "--goal", "add rates")
    command("session", "end")
    assert "progress: will be put back (goal: add rates)" in command("restore", "@", "--dry-run").out
    assert "progress: put back (goal: add rates)" in command("restore", "@", "--yes").err
    assert "add rates" in command("progress", "show").out
    assert "progress: put back" in command("undo").err
    assert "add rates" not in command("progress", "show").out


def test_a_report_tells_of_parts_and_of_steps_that_stay_done(command: Command, told_of: str) -> None:
    """T11, P6: in the documents of a dry run, a restore, and an undo."""
    planned = command("restore", told_of, "--dry-run", "--json").json
    assert planned["parts"] == [{"scope": "progress", "result": "planned"}]
    done = command("restore", told_of, "--plan", planned["plan"], "--json").json
    for document in (planned, done):
        assert document["scopes"] == ["files", "conversation", "progress"]
        assert [step["name"] for step in document["irreversible"]] == ["deploy"]
        assert document["conflicts"] == []
    assert done["parts"] == [{"scope": "progress", "result": "restored"}]
    assert (planned["progress"]["tasks"][0]["state"], done["progress"]["tasks"]) == ("done", [])
    undone = command("undo", "--json").json
    assert undone["parts"] == [{"scope": "progress", "result": "restored"}]


def test_scopes_are_named_one_by_one(command: Command, told_of: str) -> None:
    """T11: `--only` may be repeated; paths mean files only."""
    document = command("restore", told_of, "--only", "progress", "--yes", "--json").json
    assert (document["scopes"], document["files"]) == (["progress"], [])
    assert (command.project / "file").read_text() == "two\n"
    both = command("restore", told_of, "--only", "progress", "--only", "files", "--dry-run", "--json").json
    assert both["scopes"] == ["files", "progress"]
    paths = command("restore", told_of, "--dry-run", "--json", "--", "file").json
    assert paths["scopes"] == ["files"]
    command("restore", told_of, "--only", "progress", "--yes", "--", "file", expect=2)
    command("restore", told_of, "--git", "--to", "../aside", expect=2)
    command("restore", told_of, "--base", "@", "--yes", expect=2)
    command("undo", "--force", "--merge", expect=2)


@pytest.fixture
def repository(command: Command, git: Callable[..., str]) -> Callable[..., str]:
    """Return a call of git in the project, which is a repository with one commit of a file."""

    def call(*words: str) -> str:
        return git(command.project, *words)

    call("init", "-q", "-b", "main")
    (command.project / "file").write_text("one\n")
    call("add", ".")
    call("commit", "-q", "-m", "words")
    return call


def test_head_is_named_when_it_has_moved(
    command: Command, told_of: str, repository: Callable[..., str]
) -> None:
    """T9: also by a dry run; and where it goes with `--git`."""
    target = command.save("--name", "second")
    (command.project / "file").write_text("1\n")
    repository("commit", "-q", "-a", "-m", "words")
    moved = command("restore", target, "--dry-run", "--json").json["head_moved"]
    assert moved["commits"] == 1
    assert "HEAD has moved by 1 commit" in command("restore", target, "--dry-run").out
    planned = command("restore", target, "--git", "--dry-run").out
    assert f"HEAD and index: will be put back (at {moved['from'][:12]}, detached)" in planned
    said = command("restore", target, "--git", "--yes")
    assert "HEAD and index: put back" in said.err
    assert "main is not where it was" in said.err
    assert "to be on it as it is now: git switch main" in said.err
    repository("branch", "-q", "-D", "main")
    repository("commit", "-q", "--allow-empty", "-m", "away")
    gone = command("restore", target, "--git", "--yes").err
    assert "to make it again here: git switch -c main" in gone
    repository("switch", "-q", "-c", "main")


def test_a_branch_that_another_worktree_has_is_told_so(
    command: Command, repository: Callable[..., str], tmp_path: Path
) -> None:
    """T9: git would not switch to it here."""
    repository("switch", "-q", "-c", "feature")
    target = command.save("on feature")
    repository("switch", "-q", "main")
    repository("worktree", "add", "-q", str(tmp_path / "beside"), "feature")
    said = command("restore", target, "--git", "--yes").err
    assert "HEAD is detached: feature is checked out in another worktree" in said
    assert "git switch feature" not in said
    assert "to go on from here: git switch -c NEW_BRANCH" in said


def test_a_branch_that_was_switched_is_named(command: Command, repository: Callable[..., str]) -> None:
    """T9: also where both are at the same commit."""
    repository("switch", "-q", "-c", "feature")
    target = command.save("on feature")
    repository("switch", "-q", "main")
    (command.project / "file").write_text("changed\n")
    told = "git was on feature at that checkpoint, is on main now, and stays as it is"
    assert told in command("restore", target, "--dry-run").out
    moved = command("restore", target, "--yes", "--json").json["head_moved"]
    assert (moved["commits"], moved["from_branch"], moved["to_branch"]) == (0, "feature", "main")
    repository("switch", "-q", "--detach")
    repository("commit", "-q", "-a", "--allow-empty", "-m", "more")
    (command.project / "file").write_text("more\n")
    told = "git was on feature at that checkpoint, is on no branch now (1 commit away)"
    assert told in command("restore", target, "--dry-run").out


def test_a_repository_that_went_with_its_folder_is_not_told_to_have_moved(
    command: Command, repository: Callable[..., str]
) -> None:
    """T9, T12a."""
    target = command.save("first")
    shutil.rmtree(command.project)
    place = ("-C", str(command.project))
    said = command(*place, "restore", target, "--yes", cwd=command.project.parent)
    assert "its .git is in no checkpoint" in said.err
    assert "HEAD" not in said.err
    (command.project / "file").write_text("changed\n")
    told = "git was on main at that checkpoint, and the repository is gone"
    assert told in command("restore", target, "--yes").err


def test_renames_that_stay_staged_are_told(command: Command, repository: Callable[..., str]) -> None:
    """T9: the files are back under their old names, and git's index has the new ones."""
    target = command.save("before the rename")
    told = "git's index stays as it is, and is not as it was at that checkpoint (--git puts it back too)"
    (command.project / "file").write_text("two\n")
    assert told not in command("restore", target, "--yes").err
    repository("mv", "file", "renamed")
    assert told not in command("restore", target, "--yes", "--", "file").err
    (command.project / "file").unlink()
    said = command("restore", target, "--yes", "--json").json
    assert (said["index_differs"], said["head_moved"]) == (True, None)
    command("undo")
    assert told in command("restore", target, "--yes").err
    command("undo")
    assert told not in command("restore", target, "--git", "--yes").err
    assert repository("status", "--short") == ""


def test_conflicts_are_listed_and_give_code_3(command: Command, told_of: str) -> None:
    """T17, T10: with the other version beside them; a choice settles them."""
    command.save("base")
    (command.project / "file").write_text("three\n")
    short = told_of[:13]
    planned = command("restore", told_of, "--merge", "--dry-run")
    assert f"create  file.lastgood-{short}  (file as {short} has it)" in planned.out
    assert "skip    file  (conflict: it changed since, and stays as it is)" in planned.out
    said = command("restore", told_of, "--merge", "--yes", expect=3)
    assert "skipped file (conflict: it changed since, and stays as it is)" in said.err
    assert (command.project / f"file.lastgood-{short}").read_text() == "one\n"
    again = command("restore", told_of, "--merge", "--only", "files", "--yes", "--json", expect=3).json
    assert (again["conflicts"], again["operation"]) == (["file"], None)
    command("undo")
    command("restore", told_of, "--merge", "--conflict", "theirs", "--yes")
    assert (command.project / "file").read_text() == "one\n"


def test_an_undo_can_keep_what_changed_since(command: Command, told_of: str) -> None:
    """T8, T17."""
    command("restore", told_of, "--yes")
    (command.project / "file").write_text("three\n")
    refused = command("undo", expect=13)
    assert "--merge" in refused.err
    said = command("undo", "--merge", expect=3)
    assert "skipped file (conflict: it changed since, and stays as it is)" in said.err
    assert "progress: put back" in said.err
    assert (command.project / "file").read_text() == "three\n"


def test_a_session_at_work_refuses_a_restore(command: Command, told_of: str) -> None:
    """T14: with exit code 13, the session and its owner, and the way to go on all the same."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as agent:
        started = command("session", "start", "--owner-pid", str(agent.pid), "--json").json
        id = started["session"]["id"]
        refused = command("restore", told_of, "--yes", expect=13)
        assert id in refused.err
        assert str(agent.pid) in refused.err
        assert "--force" in refused.err
        command("restore", told_of, "--only", "files", "--yes", env={"LASTGOOD_SESSION": id})
        assert (command.project / "file").read_text() == "one\n"
        command("undo", env={"LASTGOOD_SESSION": id})
        command("restore", told_of, "--only", "files", "--yes", "--force")
        agent.kill()
    assert os.path.exists(command.project / "file")
