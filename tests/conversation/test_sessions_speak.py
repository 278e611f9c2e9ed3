"""In a session with a transcript every save captures it, and never fails for it (P5, S14)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lastgood
from conversation.transcripts import append, captured, said, whole_lines
from lastgood.workspace import Workspace
from tools.command import Command


def test_every_checkpoint_of_a_session_holds_its_conversation(
    workspace: Workspace, project: Path, claude: Path
) -> None:
    """P5."""
    with workspace.session(goal="talk", transcript=claude):
        (project / "file").write_text("1")
        one = workspace.save("one").checkpoint
        append(claude, said("three"))
        two = workspace.save(kind="turn").checkpoint
    first = one.conversation
    assert first is not None
    assert first.messages == 2
    assert workspace.transcript(two.id) == claude.read_bytes()
    kinds = {one.kind: one.conversation for one in workspace.list()}
    assert kinds["session-end"] is not None


@pytest.mark.parametrize("bad", ["missing", "folder", "fifo"])
def test_a_transcript_that_cannot_be_read_is_a_note_and_no_lost_save(
    bad: str, workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    """P5, S14: hosts make the file with the first message only."""
    path = tmp_path / "t.jsonl"
    if bad == "folder":
        path.mkdir()
    elif bad == "fifo":
        os.mkfifo(path)
    with workspace.session(transcript=path):
        (project / "file").write_text("1")
        report = workspace.save("one")
        assert report.created
        assert report.checkpoint.conversation is None
        assert [note.code for note in report.notes] == ["transcript-unreadable"]
        assert [note.code for note in workspace.status().health] == ["transcript-unreadable"]
        if bad == "missing":
            path.write_bytes(said("now it is there"))
            assert workspace.save("two").checkpoint.conversation is not None


def test_a_guard_holds_the_later_messages(workspace: Workspace, project: Path, claude: Path) -> None:
    """T2, P5."""
    with workspace.session(transcript=claude):
        (project / "file").write_text("1")
        kept = workspace.save("one").checkpoint
        append(claude, said("later"))
        (project / "file").write_text("2")
        report = workspace.restore(kept.id)
        assert report.guard is not None
        assert workspace.transcript(report.guard) == claude.read_bytes()


def test_two_transcripts_take_turns_in_one_workspace(workspace: Workspace, file: Path, claude: Path) -> None:
    """P5."""
    for number in range(4):
        for one in (file, claude):
            append(one, said(f"message {number}"))
            report = captured(workspace, one)
            assert report.notes == ()
            assert workspace.transcript(report.checkpoint.id) == one.read_bytes()


@pytest.mark.chance("how far a save is when it is killed")
def test_a_killed_save_loses_nothing_of_the_conversation(project: Path, store: Path, file: Path) -> None:
    """P5, S13, S14: at any moment; the next save has it all."""
    program = (
        "import sys, lastgood\n"
        "w = lastgood.open(sys.argv[1], store=sys.argv[2], maintenance='off')\n"
        "while True:\n"
        '    open(sys.argv[3], \'ab\').write(b\'{"type":"user","sessionId":"s"}\\n\' * 700)\n'
        "    w.save(kind='turn', transcript=sys.argv[3])\n"
    )
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for turn in range(12):
        command = [sys.executable, "-c", program, str(project), str(store), str(file)]
        with subprocess.Popen(command, env=environment) as saver:
            while not file.exists():
                time.sleep(0.01)
            time.sleep(0.1 + 0.037 * turn)
            saver.send_signal(signal.SIGKILL)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        content = file.read_bytes()
        for one in workspace.list():
            assert content.startswith(workspace.transcript(one.id))
        last = captured(workspace, file)
        held = workspace.transcript(last.checkpoint.id)
        assert held == whole_lines(content)
        assert last.notes == ()
        assert workspace.verify(deep=True).ok


def test_several_save_one_transcript_at_once(project: Path, store: Path, file: Path) -> None:
    """P5, S16."""
    program = (
        "import sys, lastgood\n"
        "with lastgood.open(sys.argv[1], store=sys.argv[2], maintenance='off') as w:\n"
        "    for n in range(15):\n"
        '        open(sys.argv[3], \'ab\', 0).write(b\'{"type":"user","sessionId":"s"}\\n\' * 50)\n'
        "        r = w.save(kind='turn', transcript=sys.argv[3])\n"
        "        assert open(sys.argv[3], 'rb').read().startswith(w.transcript(r.checkpoint.id))\n"
    )
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(project), str(store), str(file)]
    savers = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [saver.wait(300) for saver in savers] == [0, 0, 0]
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert workspace.transcript(captured(workspace, file).checkpoint.id) == file.read_bytes()


def test_the_command_shows_a_conversation_without_its_secrets(
    project: Path, store: Path, claude: Path
) -> None:
    """S17, P5."""
    append(claude, said("the password=hunter2! and \x1b[31m red"))
    command = Command(project, store)
    command("save", "with", "--transcript", str(claude))
    shown = command("show", "@", "--conversation")
    assert "assistant:\n  two\n" in shown.out
    assert "hunter2" not in shown.out
    assert "\x1b" not in shown.out
    document = command("show", "@", "--conversation", "--json").json
    assert len(document["messages"]) == document["checkpoint"]["conversation"]["messages"] == 3
    assert "hunter2" not in str(document)
    assert "hunter2" in claude.read_text()
    command("save", "without", "--allow-empty")
    refused = command("show", "@", "--conversation", expect=10)
    assert "--transcript" in refused.err


def test_a_relative_transcript_is_meant_from_the_current_folder(
    project: Path, store: Path, file: Path
) -> None:
    """P5."""
    file.write_bytes(said("one"))
    command = Command(project, store)
    command("save", "--transcript", os.path.relpath(file, project))
    assert command("show", "@", "--json").json["checkpoint"]["conversation"]["source"] == str(file)
    command("save", "--transcript", "nothing", expect=10)
