"""What `recover` asks about a session that an agent's host left: what each answer brings, and which (P7)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lastgood.workspace import Workspace
from tools.command import Command
from tools.telling import Host


@pytest.fixture
def left(workspace: Workspace, project: Path) -> Host:
    """Return a host that was killed amid its second turn."""
    (project / "mine").write_text("mine")
    host = Host(workspace, project)
    host.tells("session-start")
    host.asked("write the plan")
    (project / "plan").write_text("a plan")
    host.tells("turn-end")
    host.asked("tidy up")
    (project / "plan").unlink()
    return host


@pytest.mark.usefixtures("left")
def test_each_choice_says_what_it_brings_in_the_words_of_the_prompt(lastgood: Command, project: Path) -> None:
    shown = " ".join(lastgood.terminal("recover", answers="b\ny\n").out.split())
    assert "sess_" in shown
    assert re.search(r' of Claude Code: .* asked last: "tidy up", .*, not ended changed in it: plan ', shown)
    assert "step tidy up" not in shown
    assert re.search(
        r' c: continue it: no file changes b: files back to before "tidy up" \(asked [^;]+; ckpt_\w{8}\):'
        r" 1 file to write; shows first what would go"
        r" r: files back to before a turn that you pick from a list e: end it: no file changes What now\?",
        shown,
    )
    assert (project / "plan").read_text() == "a plan"


def test_what_was_rewound_is_not_offered_as_the_way_back(
    lastgood: Command, workspace: Workspace, left: Host
) -> None:
    """P7b: and an advice fits who made the session."""
    workspace.rewind(2, force=True)
    shown = " ".join(lastgood.terminal("recover", answers="e\n").out.split())
    assert re.search(r"Its files are as in ckpt_\w{8}.*: nothing is left to take back\. c: ", shown)
    assert " b: " not in shown
    assert "What now? [c/r/e/N]" in shown
    assert "Nothing has to be started: Claude Code begins a session at its next prompt." in shown
    assert "session start" not in shown.partition("What now?")[2]
    assert left.name


def test_of_two_that_wait_each_is_told_by_what_it_was_asked(
    lastgood: Command, workspace: Workspace, left: Host, project: Path
) -> None:
    other = Host(workspace, project, name="two", host="codex")
    other.asked("add a test")
    shown = lastgood.terminal("recover", answers="\n", expect=130).out
    line = r'\b([12]) Session sess_\w+ of ([\w ]+?)(?: \([\w ]+\))?: .*? asked last: "([\w ]+)"'
    told = re.findall(line, " ".join(shown.split()))
    assert told == [("1", "Codex", "add a test"), ("2", "Claude Code", "tidy up")], shown
    assert left.name


def test_status_tells_a_session_by_what_its_host_was_asked(lastgood: Command, left: Host) -> None:
    """P7: the name of a file in the host's folder tells it from no other."""
    shown = lastgood("status").out
    assert 'asked last: "tidy up"' in shown
    assert str(left.transcript) not in shown


def test_a_rollback_names_what_other_sessions_saved_since(
    lastgood: Command, workspace: Workspace, left: Host, project: Path
) -> None:
    """P7b: it takes the whole folder back, and who works in it beside has to hear that first."""
    other = Host(workspace, project, name="two")
    other.asked("add a test")
    (project / "test").write_text("mine alone")
    other.tells("turn-end")
    (mine,) = (
        one.session.id for one in workspace.sessions() if one.session.transcript == str(left.transcript)
    )

    shown = lastgood.terminal("recover", mine, answers="b\nn\n", expect=130).out
    assert " of them saved by other sessions; shows first" in " ".join(shown.split())
    done = lastgood("recover", mine, "--rollback")
    said = re.search(
        r"Saved by other sessions since, .*\n  (\S+) \(asked last: .add a test.\): (.*)\n", done.err
    )
    assert said is not None, done.err
    assert said[1] != mine
    assert "test" in said[2]
    assert re.search(r"^  delete +test$", done.out, re.MULTILINE)


def test_what_was_said_is_kept_with_the_files_of_the_death(
    lastgood: Command, workspace: Workspace, left: Host, project: Path
) -> None:
    """P7c: not with those that a rollback brought, which would then be no place where one stands."""
    left.transcript.write_text('{"type": "user", "message": {"role": "user", "content": "tidy up"}}\n')
    done = lastgood("recover", "--rollback", "--json").json

    (kept,) = workspace.list(kind="interrupt")
    assert kept.conversation is not None
    assert lastgood("cat", kept.id, "plan", expect=10).err
    assert lastgood("status", "--json").json["at"]["id"] == done["rolled_back_to"]
    assert lastgood("recover", "--review", "--json").json["checkpoint"]["id"] == done["rolled_back_to"]
    assert (project / "plan").exists()
