"""Who changed what: lines, files and folders, told by the checkpoints that they came with (S22)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.documents import told
from lastgood.errors import NotFound, Unsafe
from lastgood.model.checkpoint import Actor
from lastgood.model.report import BlameReport
from lastgood.settings import CaptureSettings, Settings
from lastgood.workspace import Workspace

AGENT = Actor(type="agent", name="claude-code")
TOOL = Actor(type="tool", name="Write", call="toolu_1")
PERSON = Actor(type="person")
UNKNOWN = Actor()


def keep(workspace: Workspace, actor: Actor, said: str = "") -> str:
    kind = "tool" if actor.type == "tool" else "turn" if actor.type == "agent" else "manual"
    return workspace.save(said, kind=kind, actor=actor, allow_empty=True).checkpoint.id  # type: ignore[arg-type]


def in_session(workspace: Workspace) -> Workspace:
    """Return a workspace as a program sees it that says for whom it saves: in a session of its own."""
    return workspace.within(workspace.session_start(exclusive=False).session.id)


def by_line(report: BlameReport) -> list[str | None]:
    """Return for each line the checkpoint that it came with."""
    found: list[str | None] = []
    for one in report.lines:
        assert one.first == len(found) + 1
        assert one.last is not None
        found += [one.by.checkpoint] * (one.last - one.first + 1)
    return found


def actors(report: BlameReport) -> list[str]:
    """Return for each line what kind of somebody changed it, or why nobody is known."""
    words: list[str] = []
    for one in report.lines:
        assert one.first is not None
        assert one.last is not None
        by = one.by
        word = "unsaved" if by.checkpoint is None else "initial" if by.initial else by.actor.type
        words += [word] * (one.last - one.first + 1)
    return words


def test_each_line_has_whoever_changed_it_last(workspace: Workspace, project: Path) -> None:
    """S22."""
    file = project / "file"
    file.write_text("one\ntwo\nthree\n")
    first = keep(workspace, UNKNOWN)
    workspace = in_session(workspace)
    file.write_text("one\nTWO\nthree\n")
    turn = keep(workspace, AGENT, "shout")
    file.write_text("zero\none\nTWO\nthree\n")
    tool = keep(workspace, TOOL, "Write file")
    file.write_text("zero\none\nTWO\nthree\nfour")

    report = workspace.blame("file")

    assert by_line(report) == [tool, first, turn, first, None]
    assert actors(report) == ["tool", "initial", "agent", "initial", "unsaved"]
    assert [one.by.label for one in report.lines][::2] == ["Write file", "shout", ""]
    assert report.content == (b"zero\n", b"one\n", b"TWO\n", b"three\n", b"four")


def test_histories_of_any_edits_give_each_line_to_its_author(workspace: Workspace, project: Path) -> None:
    """Judged by a model that knows who wrote each line, all of which differ."""
    draw = random.Random(7)
    lines: list[tuple[str, str | None]] = [(f"line {number}\n", None) for number in range(12)]
    number, file = 100, project / "file"
    saved: list[str] = []
    for step in range(25):
        fresh = []
        for _ in range(draw.randrange(1, 4)):
            place, number = draw.randrange(len(lines) + 1), number + 1
            if draw.random() < 0.4 and len(lines) > 3:
                del lines[min(place, len(lines) - 1)]
            else:
                lines.insert(place, (f"line {number}\n", "new"))
                fresh.append(number)
        file.write_text("".join(text for text, _ in lines))
        saved.append(keep(workspace, draw.choice((AGENT, TOOL, PERSON)), f"step {step}"))
        lines = [(text, saved[-1] if by in {"new", None} and (by or step == 0) else by) for text, by in lines]

    assert by_line(workspace.blame("file")) == [by for _, by in lines]


def test_a_file_that_was_renamed_is_followed(workspace: Workspace, project: Path) -> None:
    (project / "old").write_text("one\ntwo\n")
    keep(workspace, UNKNOWN)
    workspace = in_session(workspace)
    (project / "old").write_text("one\nTWO\n")
    turn = keep(workspace, AGENT)
    (project / "old").rename(project / "new")
    keep(workspace, PERSON)

    report = workspace.blame("new")

    assert actors(report) == ["initial", "agent"]
    assert (report.lines[1].by.checkpoint, report.lines[1].path) == (turn, b"old")


@pytest.mark.parametrize("content", [b"\0one", b"x" * ((8 << 20) + 1)], ids=["binary", "large"])
def test_what_is_no_text_is_told_as_a_whole(workspace: Workspace, project: Path, content: bytes) -> None:
    (project / "file").write_bytes(content)
    keep(workspace, UNKNOWN)
    (project / "file").write_bytes(content + b"\1")
    tool = keep(workspace, TOOL)
    (project / "other").touch()
    keep(workspace, PERSON)

    report = workspace.blame("file")

    assert (report.whole, report.content) == (True, None)
    [only] = report.lines
    assert (only.first, only.last, only.by.checkpoint) == (None, None, tool)
    assert '"first"' not in json.dumps(told(report))


def test_an_empty_file_has_no_lines(workspace: Workspace, project: Path) -> None:
    (project / "file").touch()
    keep(workspace, UNKNOWN)

    assert workspace.blame("file").lines == ()


def test_of_a_folder_each_file_has_whoever_changed_it_last(workspace: Workspace, project: Path) -> None:
    folder = project / "folder"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / name).write_text("one")
    (project / "beside").write_text("one")
    keep(workspace, UNKNOWN)
    (folder / "a").write_text("two")
    turn = keep(workspace, AGENT)
    (folder / "b").write_text("three")

    report = workspace.blame("folder")

    assert [(one.path, one.by.checkpoint == turn) for one in report.files] == [
        (b"folder/a", True),
        (b"folder/b", False),
        (b"folder/c", False),
    ]
    assert [one.by.initial for one in report.files] == [False, False, True]
    assert len(workspace.blame(".").files) == 4


def test_beside_the_turn_of_another_session_nobody_knows_who_it_was(
    workspace: Workspace, project: Path
) -> None:
    """T14: two agents in one folder; once the other has ended its turn it is known again."""
    file = project / "file"
    file.write_text("0\n")
    one, two = (workspace.within(workspace.session_start(exclusive=False).session.id) for _ in range(2))
    theirs = two.step_start("their prompt")
    file.write_text("0\n1\n")
    keep(one, AGENT)
    keep(two, AGENT)
    two.step_end(theirs)
    file.write_text("0\n1\n2\n")
    keep(one, AGENT)

    assert actors(workspace.blame("file")) == ["initial", "unknown", "agent"]


def test_what_a_person_saves_within_a_turn_may_be_the_agent_s(workspace: Workspace, project: Path) -> None:
    file = project / "file"
    file.write_text("0\n")
    within = workspace.within(workspace.session_start(exclusive=False).session.id)
    turn = within.step_start("a prompt")
    file.write_text("0\n1\n")
    keep(workspace, PERSON, "in between")
    file.write_text("0\n1\n2\n")
    keep(within, AGENT, "a prompt")
    within.step_end(turn)
    file.write_text("0\n1\n2\n3\n")
    keep(workspace, PERSON)

    assert actors(workspace.blame("file")) == ["initial", "unknown", "agent", "person"]


def test_where_checkpoints_between_are_gone_nobody_knows(workspace: Workspace, project: Path) -> None:
    """Whose what was between is told only as long as it can be known."""
    file = project / "file"
    file.write_text("0\n")
    keep(workspace, UNKNOWN)
    workspace = in_session(workspace)
    file.write_text("0\n1\n")
    person = keep(workspace, PERSON)
    file.write_text("0\n1\n2\n")
    keep(workspace, AGENT)
    assert actors(workspace.blame("file")) == ["initial", "person", "agent"]

    workspace.delete(person)
    assert actors(workspace.blame("file")) == ["initial", "unknown", "unknown"]
    workspace.prune(keep=10, now=True)
    assert actors(workspace.blame("file")) == ["initial", "unknown", "unknown"]


def test_calls_of_tools_that_are_gone_leave_their_changes_to_the_turn(
    workspace: Workspace, project: Path
) -> None:
    """K1: they are thinned out before turns are."""
    file = project / "file"
    file.write_text("0\n")
    within = workspace.within(workspace.session_start(exclusive=False).session.id)
    turn = within.step_start("a prompt")
    file.write_text("0\n1\n")
    call = keep(within, TOOL)
    file.write_text("0\n1\n2\n")
    keep(within, AGENT, "a prompt")
    within.step_end(turn)
    assert actors(workspace.blame("file")) == ["initial", "tool", "agent"]

    workspace.delete(call)
    report = workspace.blame("file")
    assert actors(report) == ["initial", "agent", "agent"]
    assert report.lines[-1].by.label == "a prompt"
    workspace.prune(keep=10, now=True)
    assert actors(workspace.blame("file")) == ["initial", "agent", "agent"]


def test_history_is_that_from_where_the_workspace_stands(workspace: Workspace, project: Path) -> None:
    """T15: what a restore led away from changed nothing of what is there."""
    file = project / "file"
    file.write_text("0\n")
    keep(workspace, UNKNOWN)
    workspace.session_start(exclusive=False)
    file.write_text("0\n1\n")
    kept = keep(workspace, PERSON)
    file.write_text("0\nruined\n")
    keep(workspace, AGENT)
    workspace.restore(kept)

    report = workspace.blame("file")

    assert by_line(report)[1] == kept
    assert actors(report) == ["initial", "person"]


def test_a_file_is_told_that_no_checkpoint_held_for_a_while(workspace: Workspace, project: Path) -> None:
    """S7: of a gap nobody knows what was in it."""
    file = project / "file"
    file.write_text("0\n1\n")
    keep(workspace, UNKNOWN)
    file.chmod(0)
    file.unlink()
    file.symlink_to("x")
    keep(workspace, PERSON)
    file.unlink()
    file.write_text("0\n1\n")
    turn = keep(workspace, AGENT)

    assert by_line(workspace.blame("file")) == [turn, turn]


@pytest.mark.parametrize("changed", [True, False])
def test_of_a_folder_a_file_is_followed_past_a_gap(
    opened: Callable[..., Workspace], project: Path, *, changed: bool
) -> None:
    """S7: as the file alone is: what changed in between is nobody's, what did not is whose it was before."""
    workspace = opened(settings=Settings(capture=CaptureSettings(max_file_size=100)))
    file = project / "folder" / "file"
    file.parent.mkdir()
    file.write_text("0\n")
    keep(workspace, UNKNOWN)
    file.write_text("0\n1\n")
    mine = keep(workspace, AGENT)
    file.write_text("x" * 200)
    keep(workspace, PERSON)
    (project / "beside").touch()
    keep(workspace, TOOL)
    file.write_text("0\n1\n2\n" if changed else "0\n1\n")
    keep(workspace, AGENT)

    [one] = workspace.blame("folder").files

    if changed:
        assert (one.by.actor.type, one.by.why) == ("unknown", "gone")
    else:
        assert one.by.checkpoint == mine
    assert one.by.checkpoint == workspace.blame("folder/file").lines[-1].by.checkpoint


def test_whose_a_file_is_that_was_ignored_before_nobody_knows(workspace: Workspace, project: Path) -> None:
    """T4: it may have been there all the time."""
    (project / ".gitignore").write_text("hidden\n")
    (project / "hidden").write_text("mine\n")
    keep(workspace, UNKNOWN)
    workspace = in_session(workspace)
    (project / ".gitignore").write_text("\n")
    (project / "new").write_text("one\n")
    keep(workspace, AGENT)

    assert actors(workspace.blame("hidden")) == ["unknown"]
    assert {one.path: one.by.actor.type for one in workspace.blame(".").files} == {
        b".gitignore": "agent",
        b"hidden": "unknown",
        b"new": "agent",
    }


def test_private_files_are_told_of_when_asked_for(workspace: Workspace, project: Path) -> None:
    """S5."""
    (project / ".gitignore").write_text(".env\n")
    (project / ".env").write_text("KEY=1\n")
    keep(workspace, UNKNOWN)

    assert workspace.blame(".env").content == (b"KEY=1\n",)
    with pytest.raises(Unsafe, match="private"):
        workspace.blame(".env", private=False)
    assert b".env" in [one.path for one in workspace.blame(".").files]


def test_what_is_not_there_is_named(workspace: Workspace, project: Path) -> None:
    (project / "file").write_text("one")
    (project / ".gitignore").write_text("ignored\n")
    (project / "ignored").write_text("one")
    keep(workspace, UNKNOWN)

    with pytest.raises(NotFound, match="ignored"):
        workspace.blame("ignored")
    with pytest.raises(NotFound) as caught:
        workspace.blame("fil")
    assert "did you mean file?" in caught.value.hint


def test_before_the_first_save_all_is_unsaved(workspace: Workspace, project: Path) -> None:
    (project / "file").write_text("one\n")

    assert actors(workspace.blame("file")) == ["unsaved"]
    assert workspace.blame(".").files[0].by.checkpoint is None
