"""A conversation comes back beside the original, which is never touched (T11)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lastgood
from conversation.transcripts import SESSION, THREAD, append, captured, rolled, said, whole_lines
from lastgood.errors import Conflict
from lastgood.model.report import RestoreReport
from lastgood.restore.parts import conversation
from lastgood.transaction import RestoreTransaction
from lastgood.workspace import Workspace
from tools.command import Command
from tools.harm import lose
from tools.living import eventually
from tools.values import not_none


def brought_back(report: RestoreReport) -> Path:
    return Path(str(not_none(report.conversation)["transcript"]))


def test_a_copy_under_a_new_session_is_put_beside_the_original(workspace: Workspace, claude: Path) -> None:
    """T11: the new id everywhere it belongs, all else byte for byte."""
    quoted = said(f'the file "{SESSION}" and \\"sessionId\\":\\"{SESSION}\\"')
    append(claude, quoted)
    kept = captured(workspace, claude).checkpoint
    held = claude.read_bytes()
    append(claude, said("later"))
    later = claude.read_bytes()

    report = workspace.restore(kept.id, only=["conversation"])

    copy = brought_back(report)
    assert copy.parent == claude.parent
    assert copy.stat().st_mode & 0o777 == 0o600
    assert claude.read_bytes() == later
    records = [json.loads(line) for line in copy.read_bytes().splitlines()]
    assert {record["sessionId"] for record in records} == {copy.stem}
    assert copy.stem != SESSION
    assert copy.read_bytes().replace(copy.stem.encode(), SESSION.encode()) == held
    assert [record["message"] for record in records] == list(workspace.conversation(kept.id))
    assert report.conversation is not None
    assert report.conversation["messages"] == 3
    assert report.conversation["resume_command"] == f"claude --resume {copy.stem}"
    assert "later messages" in str(report.conversation["note"])
    assert not list(claude.parent.glob(".*"))


def test_a_thread_of_codex_gets_its_id_in_name_and_records(workspace: Workspace, codex: Path) -> None:
    """T11."""
    kept = captured(workspace, codex).checkpoint
    append(codex, rolled("later"))
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    new = copy.stem[-36:]
    assert copy.name == codex.name.replace(THREAD, new)
    head = json.loads(copy.read_bytes().splitlines()[0])
    assert head["payload"] == {"id": new, "session_id": new}
    assert THREAD not in copy.read_text()


def test_a_plan_names_the_path_and_writes_nothing(workspace: Workspace, claude: Path) -> None:
    """T1, T16: the same plan has the same id."""
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    plan = workspace.plan_restore(kept.id, only=["conversation"])
    again = workspace.plan_restore(kept.id, only=["conversation"])
    assert plan.id == again.id
    assert list(claude.parent.iterdir()) == [claude]
    planned = str(plan.parts[0].after["transcript"])
    assert str(brought_back(workspace.apply(plan))) == planned


def test_a_transcript_that_already_is_what_was_saved_is_left_alone(
    workspace: Workspace, project: Path, claude: Path
) -> None:
    """T11."""
    kept = captured(workspace, claude).checkpoint
    (project / "file").write_text("new")
    report = workspace.restore(kept.id)
    assert [part.scope for part in report.parts] == []
    assert list(claude.parent.iterdir()) == [claude]


def test_an_original_as_long_as_what_was_saved_that_says_something_else_is_not_whole(
    workspace: Workspace, claude: Path
) -> None:
    """T11: a host may write its file anew."""
    kept = captured(workspace, claude).checkpoint
    held = claude.read_bytes()
    claude.write_bytes(held.replace(b"two", b"new"))
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    assert copy.read_bytes() == held.replace(SESSION.encode(), copy.stem.encode())


def test_an_original_that_its_host_swept_away_comes_back_too(workspace: Workspace, claude: Path) -> None:
    """T11."""
    kept = captured(workspace, claude).checkpoint
    claude.unlink()
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    assert not claude.exists()
    assert len(copy.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_folders_that_a_host_makes_for_a_transcript_are_made_again(
    host: str, workspace: Workspace, claude: Path, codex: Path
) -> None:
    """T11: its own home too, if what that lies in is there."""
    file = claude if host == "claude-code" else codex
    kept = captured(workspace, file).checkpoint
    home = file.parents[3 if host == "claude-code" else 5]
    for one in list(home.iterdir()):
        shutil.rmtree(one)
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    assert copy.parent == file.parent
    made = [folder for folder in copy.parents if folder.is_relative_to(home) and folder != home]
    assert {folder.stat().st_mode & 0o777 for folder in made} == {0o700}
    workspace.undo()
    assert not copy.exists()


def test_undo_removes_the_copy_and_redo_writes_it_again(workspace: Workspace, claude: Path) -> None:
    """T8, T11."""
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    content = copy.read_bytes()
    workspace.undo()
    assert list(claude.parent.iterdir()) == [claude]
    workspace.redo()
    assert copy.read_bytes() == content


def test_undo_keeps_a_copy_that_was_continued_and_says_why(workspace: Workspace, claude: Path) -> None:
    """T8, T11."""
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    append(copy, said("went on"))
    content = copy.read_bytes()
    (outcome,) = workspace.undo().parts
    assert outcome.result == "kept"
    assert "continued" in (outcome.reason or "")
    assert copy.read_bytes() == content


def test_a_name_that_was_taken_since_the_plan_is_a_conflict(workspace: Workspace, claude: Path) -> None:
    """T1, T11: nothing of another's is overwritten."""
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    plan = workspace.plan_restore(kept.id, only=["conversation"])
    other = Path(str(plan.parts[0].after["transcript"]))
    other.write_text("somebody's")
    with pytest.raises(Conflict):
        workspace.apply(plan)
    assert other.read_text() == "somebody's"


def test_settling_twice_is_settling_once(workspace: Workspace, claude: Path) -> None:
    """T7: also over what a kill left of the first time."""
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    (part,) = workspace.plan_restore(kept.id, only=["conversation"]).parts
    path = Path(str(part.after["transcript"]))
    path.with_name(f".{path.name}.lastgood").write_text("half of it")
    with RestoreTransaction(workspace._context) as restoring:
        for _ in range(2):
            assert conversation.settle(restoring, part).result == "restored"
            assert set(claude.parent.iterdir()) == {claude, path}
        for _ in range(2):
            assert conversation.settle(restoring, part.turned()).result == "restored"
            assert list(claude.parent.iterdir()) == [claude]


def test_two_restores_make_two_copies(workspace: Workspace, claude: Path) -> None:
    """T11: each with its own session, each undone by itself."""
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    first = brought_back(workspace.restore(kept.id, only=["conversation"]))
    second = brought_back(workspace.restore(kept.id, only=["conversation"]))
    assert first != second
    workspace.undo()
    assert first.exists()
    assert not second.exists()


@pytest.mark.parametrize(
    "why", ["elsewhere", "messages", "no-folder", "open-folder", "linked-away", "link-to-nothing"]
)
def test_where_no_host_would_find_it_nothing_is_written(
    why: str, workspace: Workspace, claude: Path, file: Path, project: Path, tmp_path: Path
) -> None:
    """T11, T12: files come back all the same, and the report says that it comes as messages."""
    (project / "file").write_text("then")
    if why == "messages":
        kept = workspace.save(messages=[{"role": "user", "content": "hi"}]).checkpoint
    else:
        if why == "elsewhere":
            file.write_bytes(claude.read_bytes())
        kept = captured(workspace, file if why == "elsewhere" else claude).checkpoint
    append(claude, said("later"))
    if why == "no-folder":
        shutil.rmtree(claude.parents[3])
    elif why == "open-folder":
        claude.parent.chmod(0o777)
    elif why == "linked-away":
        claude.unlink()
        claude.parent.rmdir()
        (tmp_path / "elsewhere").mkdir()
        claude.parent.symlink_to(tmp_path / "elsewhere")
    elif why == "link-to-nothing":
        home = claude.parents[2]
        shutil.rmtree(home)
        home.symlink_to(tmp_path / "not attached")
    (project / "file").write_text("now")
    report = workspace.restore(kept.id)
    assert (project / "file").read_text() == "then"
    assert report.conversation is not None
    assert "transcript" not in report.conversation
    assert "is not taken back: " in str(report.conversation["note"])
    assert report.conversation["messages"] == (1 if why == "messages" else 2)


@pytest.mark.parametrize("is_whole", [False, True])
def test_where_a_hosts_home_of_then_is_gone_its_present_one_is_taken(
    project: Path, store: Path, claude: Path, tmp_path: Path, *, is_whole: bool
) -> None:
    """T11: as that which an SDK makes for one session, and takes away; what is there is left alone."""
    home, then = tmp_path / "present", claude.parents[2]
    place = home / claude.relative_to(then)
    place.parent.mkdir(parents=True)
    place.write_text("an earlier part\n")
    command = Command(project, store)
    command.environment["CLAUDE_CONFIG_DIR"] = str(home)
    command("save", "said", "--transcript", str(claude))
    held = claude.read_bytes()
    shutil.rmtree(then)
    if is_whole:
        place.write_bytes(held)  # it is whole there already
    done = command("restore", "@", "--only", "conversation", "--yes", "--json").json["conversation"]
    assert not then.exists()
    if is_whole:
        assert done["resume_command"] == f"claude --resume {claude.stem}"
        assert list(place.parent.iterdir()) == [place]
        return
    copy = Path(done["transcript"])
    assert (copy.parent, place.read_text()) == (place.parent, "an earlier part\n")
    assert copy.read_bytes().replace(copy.stem.encode(), claude.stem.encode()) == held
    command("undo", "--yes")
    assert list(place.parent.iterdir()) == [place]


@pytest.mark.parametrize("why", ["gone", "open"])
def test_the_command_says_why_no_transcript_was_written_and_what_to_type(
    why: str, project: Path, store: Path, claude: Path, tmp_path: Path
) -> None:
    """T10, T11: what was asked for was not done, so the exit code is not 0."""
    command = Command(project, store)
    command("save", "said", "--transcript", str(claude))
    home = tmp_path / "home"
    if why == "gone":
        shutil.rmtree(home)
    else:
        append(claude, said("later"))
        claude.parent.chmod(0o777)
    done = command("-C", str(project), "restore", "@", "--only", "conversation", "--yes", expect=3)
    assert "(said) cannot be written for its host\n" in done.out
    assert ("is not there" if why == "gone" else "others can write into") in done.out
    mend = f"mkdir -p {home}" if why == "gone" else f"chmod go-w {claude.parent}"
    assert f"fix that, and restore again: {mend}\n" in done.out
    read = next(line for line in done.out.splitlines() if "read what was said: " in line)
    words = shlex.split(read.partition("read what was said: ")[2])
    assert "assistant:\n  two\n" in command(*words[1:]).out
    subprocess.run(shlex.split(mend), check=True)
    again = command("restore", "@", "--only", "conversation", "--yes").err
    assert "go on with it: claude --resume " in again


def test_the_command_names_the_transcript_that_is_as_it_was_already(
    project: Path, store: Path, claude: Path
) -> None:
    """T11."""
    command = Command(project, store)
    command("save", "said", "--transcript", str(claude))
    done = command("restore", "@", "--only", "conversation", "--yes")
    assert "nothing to restore: what was asked for already is as in ckpt_" in done.out
    assert "conversation: it is just as it was then\n" in done.out
    assert f"go on with it: claude --resume {SESSION}\n" in done.out


def test_a_restore_of_files_that_are_right_does_not_say_so_of_the_conversation(
    project: Path, store: Path, claude: Path
) -> None:
    """T11."""
    command = Command(project, store)
    command("save", "said", "--transcript", str(claude))
    shutil.rmtree(claude.parents[3])
    done = command("restore", "@", "--yes")
    assert "nothing to restore: all but the conversation already is as in ckpt_" in done.out
    assert "conversation: is not taken back: " in done.out


def test_what_refuses_a_redo_is_told_before_the_question_with_what_can_be_done(
    project: Path, store: Path, claude: Path
) -> None:
    """T8, T11: somebody went on with the conversation that the restore wrote."""
    command = Command(project, store)
    (project / "file").write_text("then")
    command("save", "said", "--transcript", str(claude))
    append(claude, said("later"))
    (project / "file").write_text("now")
    restored = command("restore", "@", "--yes", "--json").json
    append(Path(restored["conversation"]["transcript"]), said("gone on"))
    command("undo")
    command("save", "meanwhile")
    asked = command.terminal("redo", answers="n\n", expect=130).out
    assert "something else lies where the conversation was to go" in asked
    assert "nothing was redone" not in asked
    assert asked.count("Go ahead?") == 1
    assert asked.index("change  file") < asked.index("conversation: left as it is") < asked.index("Go ahead?")


def test_a_link_that_leads_into_the_hosts_folder_is_followed(
    workspace: Workspace, claude: Path, tmp_path: Path
) -> None:
    """T11: homes are often linked elsewhere."""
    home = tmp_path / "home"
    home.rename(tmp_path / "far")
    home.symlink_to(tmp_path / "far")
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    assert copy.parent == Path(os.path.realpath(claude.parent))


def test_a_transcript_that_is_a_link_is_read_and_its_copy_lies_beside_the_link(
    workspace: Workspace, claude: Path, tmp_path: Path
) -> None:
    """P5, T11."""
    far = tmp_path / "far.jsonl"
    claude.rename(far)
    claude.symlink_to(far)
    kept = captured(workspace, claude).checkpoint
    before = far.read_bytes()
    append(claude, said("later"))
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    assert (copy.parent, copy.is_symlink()) == (claude.parent, False)
    assert len(copy.read_bytes()) == len(before)
    assert (os.readlink(claude), far.read_bytes()) == (str(far), before + said("later"))


def test_files_and_conversation_go_back_together(workspace: Workspace, project: Path, claude: Path) -> None:
    """T11."""
    (project / "file").write_text("then")
    kept = captured(workspace, claude).checkpoint
    (project / "file").write_text("now")
    append(claude, said("later"))
    report = workspace.restore(kept.id)
    assert (project / "file").read_text() == "then"
    assert brought_back(report).exists()
    workspace.undo()
    assert (project / "file").read_text() == "now"
    assert not brought_back(report).exists()


@pytest.mark.damages
def test_files_come_back_where_the_conversation_cannot_be_read(
    workspace: Workspace, project: Path, claude: Path, lastgood: Command
) -> None:
    """T11, K4: that it did not is told, and is no success."""
    (project / "file").write_text("then")
    kept = captured(workspace, claude).checkpoint
    append(claude, said("later"))
    lose(Path(workspace.store), f"{kept.commit}:conversation/0000/00")
    (project / "file").write_text("now")

    report = workspace.restore(kept.id)

    assert (project / "file").read_text() == "then"
    assert [(part.scope, part.result) for part in report.parts] == [("conversation", "kept")]
    assert not report.complete
    again = lastgood("restore", kept.id, "--yes", expect=3)
    assert "all but the conversation already is as in" in again.out


def test_a_copy_ends_with_a_whole_line(workspace: Workspace, claude: Path) -> None:
    """T11: what the host appends begins a line of its own."""
    append(claude, said("three").rstrip(b"\n"))
    kept = captured(workspace, claude).checkpoint
    append(claude, b"\n" + said("later"))
    copy = brought_back(workspace.restore(kept.id, only=["conversation"]))
    assert copy.read_bytes().endswith(b"\n")
    assert len(copy.read_bytes().splitlines()) == 3


# In a session with a transcript every save captures it, and never fails for it (P5, S14).


def test_every_checkpoint_of_a_session_holds_its_conversation(
    workspace: Workspace, project: Path, claude: Path
) -> None:
    """P5."""
    with workspace.session(goal="talk", transcript=claude):
        (project / "file").write_text("1")
        one = workspace.save("one").checkpoint
        append(claude, said("three"))
        two = workspace.save(kind="turn").checkpoint
    first = not_none(one.conversation)
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
        assert workspace.transcript(not_none(report.guard)) == claude.read_bytes()


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
            assert eventually(file.exists)
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


def test_what_goes_on_with_a_conversation_is_the_last_line_after_a_yes(
    project: Path, store: Path, claude: Path
) -> None:
    """T11: the one before the question has scrolled away, and the host names another as it ends."""
    command = Command(project, store)
    (project / "a.txt").write_text("then\n")
    command("save", "said", "--transcript", str(claude))
    (project / "a.txt").write_text("now\n")
    append(claude, said("later"))
    shown = command.terminal("restore", "@", answers="y\n").out
    asked, _, after = shown.partition("Go ahead?")
    assert "  go on with it: claude --resume " in asked
    assert after.splitlines()[-1].startswith("go on with it: claude --resume ")
