"""Conversations in the database of opencode are kept as lines, and come back under new ids (P5, T11)."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conversation.transcripts import captured
from lastgood.conversation import opencode_database
from lastgood.conversation.files import TranscriptFiles
from lastgood.conversation.opencode import head_line, importable, todo_line, todo_statement
from lastgood.errors import Invalid, NotFound
from lastgood.model.report import RestoreReport
from lastgood.workspace import Workspace
from tools.command import Command
from tools.opencode_database import OpencodeDatabase
from tools.values import not_none


@pytest.fixture
def opencode(tmp_path: Path, project: Path) -> Iterator[OpencodeDatabase]:
    database = OpencodeDatabase(tmp_path / "data", directory=str(project))
    database.begin()
    yield database
    database.close()


def content(path: Path) -> bytes:
    """Return a conversation as saves read it."""
    file = TranscriptFiles(b"/nonexistent").open(os.fsencode(path))
    try:
        return file.read(0, file.place().size)
    finally:
        file.close()


def texts(workspace: Workspace, ref: str) -> list[str]:
    return [one["content"][0].get("text") for one in workspace.conversation(ref)]  # type: ignore[index]


def imported(report: RestoreReport) -> dict[str, Any]:
    """Return what the file says that a restore wrote for `opencode import`."""
    told = not_none(report.conversation)
    found: dict[str, Any] = json.loads(Path(str(told["transcript"])).read_text())
    return found


def test_a_conversation_of_a_database_is_kept_as_lines(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5: the head, what opens a message, its parts, what ends an answer."""
    opencode.user("please")
    opencode.assistant("done")
    kept = captured(workspace, opencode.path).checkpoint
    held = not_none(kept.conversation)
    assert (held.form, held.messages) == ("opencode", 2)
    lines = [json.loads(line) for line in workspace.transcript(kept.id).splitlines()]
    assert [next(iter(line)) for line in lines] == [
        "host",
        *("message", "part"),
        *("message", "part", "part", "end"),
    ]
    assert lines[0]["session"]["id"] == opencode.session
    assert [one["role"] for one in workspace.conversation(kept.id)] == ["user", "assistant"]
    assert texts(workspace, kept.id) == ["please", "done"]


def test_what_is_said_later_only_adds_lines(opencode: OpencodeDatabase) -> None:
    """P5: at every moment of two turns, also while a message is written."""
    seen = [content(opencode.path)]

    def look() -> None:
        seen.append(content(opencode.path))

    for turn in range(2):
        asked = opencode.user(f"please {turn}")
        look()
        opencode.assistant()
        look()
        text = opencode.part({"type": "text", "text": "", "time": {"start": 1}})
        look()
        opencode.change_part(text, {"type": "text", "text": "I do", "time": {"start": 1, "end": 2}})
        look()
        tool = opencode.tool("make")
        look()
        done = {"status": "completed", "input": {"command": "make"}, "output": "ok"}
        opencode.change_part(tool, {"type": "tool", "tool": "bash", "callID": "c", "state": done})
        look()
        opencode.part({"type": "step-finish", "reason": "stop"})
        opencode.end(cost=0.5)
        look()
        opencode.change(asked, summary={"diffs": [{"file": "a.txt"}]})
        look()
    for before, after in pairwise(seen):
        assert after.startswith(before)
    assert len(set(seen)) == 2 * 5 + 1
    assert all(one.endswith(b"}\n") for one in seen)


def test_what_a_killed_answer_left_open_is_kept_once_another_one_began(opencode: OpencodeDatabase) -> None:
    """P5: what was asked meanwhile waits for the answer before it."""
    opencode.user("please")
    opencode.assistant()
    opencode.text("I begin")
    opencode.tool("sleep 600")
    killed = content(opencode.path)
    assert b"I begin" in killed
    assert b"sleep 600" not in killed
    opencode.user("go on")
    assert content(opencode.path) == killed
    opencode.assistant()
    after = content(opencode.path)
    assert after.startswith(killed)
    assert after.index(b"sleep 600") < after.index(b"go on")


def test_a_save_costs_the_new_bytes_only(workspace: Workspace, opencode: OpencodeDatabase) -> None:
    """P5: what was stored stays where it is."""
    opencode.user("x" * 3_000_000)
    opencode.assistant("y" * 3_000_000)
    captured(workspace, opencode.path)
    opencode.user("and now")
    report = captured(workspace, opencode.path)
    assert report.notes == ()
    assert report.checkpoint.metrics.stored_bytes < 30_000
    assert workspace.transcript(report.checkpoint.id) == content(opencode.path)


def test_an_unchanged_conversation_makes_no_checkpoint_whatever_else_the_database_gets(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """S10: its own session alone counts."""
    opencode.user("please")
    path = opencode.path
    captured(workspace, path)
    opencode.begin()
    opencode.user("another conversation, in the same folder")
    assert not captured(workspace, path).created


def test_a_text_of_any_characters_and_size_comes_back_as_it_is(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5: also what no other program would have written."""
    odd = 'ä\n\u2028\x00\ud83d \\" \ud83d\ude00'.encode("utf-8", "replace").decode()
    opencode.user(odd)
    opencode.user("z" * 40_000_000)
    opencode.raw_part('{"type": "text",\n "text": "on two lines"}')
    kept = captured(workspace, opencode.path).checkpoint
    lines = workspace.transcript(kept.id).splitlines()
    assert json.loads(lines[2])["data"]["text"] == odd
    assert len(json.loads(lines[4])["data"]["text"]) == 40_000_000
    assert json.loads(lines[5])["data"]["text"] == "on two lines"


def test_what_was_taken_back_in_opencode_is_no_part_of_the_conversation(opencode: OpencodeDatabase) -> None:
    """P5: it goes with the next prompt; until then opencode can bring it back."""
    opencode.user("please")
    opencode.assistant("done")
    before = content(opencode.path)
    wrong = opencode.user("something else")
    opencode.assistant()
    first = opencode.text("one")
    opencode.text("two")
    opencode.end()
    whole = content(opencode.path)
    opencode.revert({"messageID": wrong})
    assert content(opencode.path) == before
    message = json.loads(whole.splitlines()[-1])["end"]
    opencode.revert({"messageID": message, "partID": first})
    assert b'"one"' not in content(opencode.path)
    assert b"something else" in content(opencode.path)
    opencode.revert(None)
    assert content(opencode.path) == whole


def test_reading_changes_nothing_in_the_folder_of_opencode(opencode: OpencodeDatabase) -> None:
    """P5: the original is only ever read, while it is open and when it is not."""
    opencode.user("please")
    said = content(opencode.path)
    log = Path(f"{opencode.file}-wal")
    assert log.stat().st_size > 0
    before = log.read_bytes(), opencode.file.read_bytes()
    content(opencode.path)
    assert (log.read_bytes(), opencode.file.read_bytes()) == before
    opencode.close()
    assert os.listdir(opencode.file.parent) == ["opencode.db"]
    assert content(opencode.path) == said
    assert os.listdir(opencode.file.parent) == ["opencode.db"]


def test_a_log_that_goes_as_a_database_is_opened_leaves_a_reader_with_one_moment(
    opencode: OpencodeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5, S8: it is looked at once, so that what others write from then on is not seen."""
    opencode.user("a" * 8_000_000)
    wanted = content(opencode.path)
    looked: list[object] = []

    def look(database: bytes) -> object:
        looked.append(unlogged(database))
        if len(looked) == 1:
            opencode.close()
        return looked[-1]

    unlogged = opencode_database._unlogged
    monkeypatch.setattr(opencode_database, "_unlogged", look)
    file = opencode_database.OpenConversation(os.fsencode(opencode.path))
    with closing(sqlite3.connect(opencode.file, isolation_level=None)) as other:
        other.execute("UPDATE part SET data = replace(data, 'aaaa', 'bbbb')")
        other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    assert file.read(0, file.place().size) == wanted
    file.close()


def test_a_reader_holds_up_no_writer_and_sees_one_moment(opencode: OpencodeDatabase) -> None:
    """P5."""
    opencode.user("please")
    file = TranscriptFiles(b"/nonexistent").open(os.fsencode(opencode.path))
    size = file.place().size
    opencode.assistant("done")
    opencode.connection.execute("VACUUM")
    assert b"done" not in file.read(0, size * 2)
    assert len(file.read(0, size * 2)) == size
    file.close()
    assert b"done" in content(opencode.path)


def damaged(database: OpencodeDatabase) -> None:
    database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    with open(database.file, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 200_000)


def other_schema(database: OpencodeDatabase) -> None:
    database.connection.execute("ALTER TABLE part RENAME COLUMN data TO body")


def no_table(database: OpencodeDatabase) -> None:
    database.connection.execute("DROP TABLE message")


def no_database(database: OpencodeDatabase) -> None:
    database.close()
    database.file.write_bytes(b"something else entirely" * 1000)


def gone(database: OpencodeDatabase) -> None:
    database.close()
    database.file.unlink()


def deleted(database: OpencodeDatabase) -> None:
    database.connection.execute("DELETE FROM session")


def locked(database: OpencodeDatabase) -> None:
    database.close()
    database.connection = sqlite3.connect(database.file, isolation_level=None)
    database.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.user("held")


def no_json(database: OpencodeDatabase) -> None:
    database.connection.execute("UPDATE message SET data = 'x'")


UNREADABLE = [
    (damaged, Invalid),
    (other_schema, Invalid),
    (no_table, Invalid),
    (no_database, Invalid),
    (gone, NotFound),
    (deleted, NotFound),
    (locked, Invalid),
    (no_json, Invalid),
]


@pytest.mark.parametrize(("harm", "error"), UNREADABLE, ids=[harm.__name__ for harm, _ in UNREADABLE])
def test_what_cannot_be_read_never_costs_a_save_and_is_said(
    harm: Any, error: type[Exception], workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5: the checkpoint is made without conversation, with the reason."""
    opencode.user("please")
    workspace.session_start(transcript=opencode.path)
    harm(opencode)
    report = workspace.save("without")
    assert report.checkpoint.conversation is None
    (note,) = [one for one in report.notes if one.code == "transcript-unreadable"]
    assert str(opencode.path) in note.message
    with pytest.raises(error):
        workspace.save("named", transcript=opencode.path)


@pytest.mark.parametrize(("harm", "hint"), [(damaged, "is damaged"), (locked, "save again")])
def test_whoever_cannot_read_a_database_hears_what_helps(
    harm: Any, hint: str, workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5."""
    opencode.user("please")
    harm(opencode)
    with pytest.raises(Invalid) as caught:
        captured(workspace, opencode.path)
    assert hint in not_none(caught.value.hint)


def test_a_part_that_is_no_json_is_kept_and_said_and_the_rest_comes_back(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5, T11."""
    opencode.user("please")
    opencode.assistant("done")
    opencode.connection.execute("UPDATE part SET data = '{' || data WHERE data LIKE '%done%'")
    opencode.user("and more")
    saved = captured(workspace, opencode.path)
    (note,) = saved.notes
    assert (note.code, "1 new line is broken" in note.message) == ("transcript-broken", True)
    assert texts(workspace, saved.checkpoint.id) == ["please", "and more"]
    opencode.user("later")
    assert captured(workspace, opencode.path).notes == ()
    found = imported(workspace.restore(saved.checkpoint.id, only=["conversation"]))
    assert [len(one["parts"]) for one in found["messages"]] == [1, 1, 1]


def test_a_message_that_is_no_json_is_kept_and_said_and_the_rest_comes_back(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5, T11: what it said lies in its parts; whose it was nobody knows, so it cannot be taken in again."""
    opencode.user("please")
    opencode.assistant("done")
    broken = opencode.user("lost")
    opencode.assistant("and this")
    opencode.connection.execute("UPDATE message SET data = '{' || data WHERE id = ?", (broken,))
    saved = captured(workspace, opencode.path)
    (note,) = saved.notes
    assert (note.code, "1 new line is broken" in note.message) == ("transcript-broken", True)
    assert texts(workspace, saved.checkpoint.id) == ["please", "done", "lost", "and this"]
    assert b'{"broken":' in workspace.transcript(saved.checkpoint.id)
    opencode.user("later")
    assert captured(workspace, opencode.path).notes == ()
    found = imported(workspace.restore(saved.checkpoint.id, only=["conversation"]))
    assert [one["info"]["role"] for one in found["messages"]] == ["user", "assistant", "assistant"]
    assert "lost" not in str(found)


def test_a_broken_part_of_an_answer_that_goes_on_refuses_nothing(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5."""
    opencode.user("please")
    opencode.assistant()
    opencode.raw_part("{broken")
    opencode.text("so far")
    assert texts(workspace, captured(workspace, opencode.path).checkpoint.id) == ["please", "so far"]


def test_a_whole_database_is_no_transcript(
    workspace: Workspace, opencode: OpencodeDatabase, tmp_path: Path
) -> None:
    """P5: it holds the conversations of all projects, under whatever name."""
    opencode.user("please")
    database = tmp_path / "data/opencode/opencode.db"
    renamed = tmp_path / "kept.jsonl"
    renamed.write_bytes(database.read_bytes())
    for path in (database, renamed):
        with pytest.raises(Invalid, match="is a database with conversations of every project"):
            TranscriptFiles(b"/nonexistent").open(os.fsencode(path))
        with pytest.raises(Invalid):
            captured(workspace, path)


def test_a_schema_of_another_release_is_called_one(workspace: Workspace, opencode: OpencodeDatabase) -> None:
    """P5."""
    other_schema(opencode)
    with pytest.raises(Invalid, match=r"form that is not known: no such column: data"):
        workspace.save("named", transcript=opencode.path)


def test_a_file_for_opencode_to_take_in_is_put_beside_its_database(
    workspace: Workspace, opencode: OpencodeDatabase, lastgood: Command
) -> None:
    """T11: cut at the checkpoint, under ids that nothing else has and that keep their order."""
    asked = opencode.user("please")
    opencode.assistant("done")
    kept = captured(workspace, opencode.path).checkpoint
    opencode.user("later")
    before = content(opencode.path)

    report = workspace.restore(kept.id, only=["conversation"])

    told = not_none(report.conversation)
    file = Path(str(told["transcript"]))
    assert file.parent == opencode.file.parent
    assert file.stat().st_mode & 0o777 == 0o600
    assert content(opencode.path) == before
    found = imported(report)
    session = found["info"]["id"]
    assert file.name == f"{session}.json"
    assert told["resume_command"] == f"opencode import {file} && opencode --session {session}"
    assert session[:16] == opencode.session[:16]
    assert (session == opencode.session, found["info"]["title"]) == (False, "please")
    first, second = found["messages"]
    assert first["info"]["id"][:16] == asked[:16]
    assert first["info"]["id"] != asked
    assert second["info"]["parentID"] == first["info"]["id"]
    assert second["info"]["time"]["completed"]
    assert [one["text"] for one in (first["parts"][0], second["parts"][1])] == ["please", "done"]
    for message in (first, second):
        assert {one["messageID"] for one in message["parts"]} == {message["info"]["id"]}
        assert {one["sessionID"] for one in (*message["parts"], message["info"])} == {session}
    assert opencode.session not in file.read_text()


def test_an_answer_that_was_cut_short_is_one_that_can_be_taken_in(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """T11: with what its host demands of every answer."""
    opencode.user("please")
    opencode.assistant()
    opencode.text("I begin")
    opencode.tool("sleep 600")
    kept = captured(workspace, opencode.path).checkpoint
    opencode.end()
    (_, answer) = imported(workspace.restore(kept.id, only=["conversation"]))["messages"]
    assert answer["info"]["cost"] == 0
    assert answer["info"]["tokens"]["cache"] == {"read": 0, "write": 0}
    assert answer["info"]["time"]["completed"] == answer["info"]["time"]["created"]
    assert [part["type"] for part in answer["parts"]] == ["text", "tool"]


def test_what_goes_on_when_it_is_kept_comes_back_closed_as_opencode_closes_it(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5, T11: a tool that runs, a text that comes in, the prompt that waits behind them."""
    opencode.user("please")
    opencode.assistant()
    opencode.part({"type": "text", "text": "I am about to", "time": {"start": 5}})
    state = {"status": "running", "input": {"command": "make"}, "metadata": {"output": "cc a.c"}}
    opencode.part({"type": "tool", "tool": "bash", "callID": "c", "state": state | {"time": {"start": 7}}})
    opencode.user("wait")
    kept = captured(workspace, opencode.path).checkpoint
    assert texts(workspace, kept.id) == ["please", "I am about to", None, "wait"]
    assert b"make" not in workspace.transcript(kept.id)
    opencode.assistant("later")

    _, answer, waiting = imported(workspace.restore(kept.id, only=["conversation"]))["messages"]
    text, tool = answer["parts"]
    assert (text["text"], text["time"]) == ("I am about to", {"start": 5, "end": 5})
    assert tool["state"] == {
        "status": "error",
        "input": {"command": "make"},
        "error": "Tool execution aborted",
        "metadata": {"output": "cc a.c"},
        "time": {"start": 7, "end": 7},
    }
    assert waiting["parts"][0]["text"] == "wait"


def test_what_a_host_was_at_when_it_was_killed_is_in_the_checkpoint_that_recovery_makes(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P7c: no line was added since, but a tool had begun."""
    opencode.user("please")
    opencode.assistant()
    with subprocess.Popen(["sleep", "600"]) as host:
        session = workspace.session_start(transcript=opencode.path, owner_pid=host.pid).session.id
        workspace.within(session).save("before", kind="turn")
        opencode.tool("sleep 600")
        host.kill()
    workspace.recover(session)
    newest = workspace.list(kind="interrupt")[0]
    assert workspace.conversation(newest.id)[-1]["content"][0]["input"] == {"command": "sleep 600"}  # type: ignore[index]


def test_title_and_to_do_list_come_back(workspace: Workspace, opencode: OpencodeDatabase) -> None:
    """T11: the list by what opencode's own command is told; its texts end no statement."""
    opencode.user("please")
    opencode.call("A kind request")
    odd = "it's; DROP TABLE todo --\x01ä"
    opencode.plan("first", odd)
    kept = captured(workspace, opencode.path).checkpoint
    opencode.call("Another title")
    opencode.plan("first")
    opencode.assistant("later")
    report = workspace.restore(kept.id, only=["conversation"])
    found, told = imported(report), not_none(report.conversation)
    assert found["info"]["title"] == "A kind request"
    file = Path(str(told["transcript"])).with_suffix(".sql")
    assert f'&& opencode db "$(cat {file})" && opencode --session' in str(told["resume_command"])
    session = opencode.begin()
    opencode.connection.execute("UPDATE session SET id = ? WHERE id = ?", (found["info"]["id"], session))
    opencode.connection.execute(file.read_text())
    rows = opencode.connection.execute(
        "SELECT content, status, priority FROM todo WHERE session_id = ? ORDER BY position",
        (found["info"]["id"],),
    ).fetchall()
    assert rows == [("first", "pending", "high"), (odd, "pending", "high")]


def test_a_path_with_spaces_is_quoted_in_the_command(
    workspace: Workspace, tmp_path: Path, project: Path
) -> None:
    """T11: what is printed can be typed."""
    database = OpencodeDatabase(tmp_path / "my data", directory=str(project))
    database.begin()
    database.user("please")
    kept = captured(workspace, database.path).checkpoint
    database.connection.execute("DELETE FROM session")
    told = not_none(workspace.restore(kept.id, only=["conversation"]).conversation)
    words = shlex.split(str(told["resume_command"]))
    assert words[:3] == ["opencode", "import", told["transcript"]]
    database.close()


def test_what_sub_agents_said_comes_back_beside_the_copy_and_goes_with_it(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """T11: also those of a sub-agent's own; the agent knows them by the ids of the copies."""
    root = opencode.session
    opencode.user("please")
    outer = opencode.begin(parent=root)
    opencode.call("look (@general subagent)")
    opencode.user("look")
    inner = opencode.begin(parent=outer)
    opencode.user("deeper")
    opencode.assistant()
    opencode.tool("ls")
    opencode.session = root
    opencode.assistant()
    state = {"status": "completed", "input": {}, "output": f"task_id: {outer} (for later)"}
    state |= {"metadata": {"sessionId": outer}}
    opencode.part({"type": "tool", "tool": "task", "callID": "c", "state": state})
    opencode.end()
    kept = captured(workspace, opencode.path).checkpoint
    opencode.user("later")
    before = sorted(os.listdir(opencode.file.parent))

    report = workspace.restore(kept.id, only=["conversation"])

    main = imported(report)
    files = {found["info"]["id"]: found for found in map(json.loads, texts_beside(opencode))}
    assert len(files) == 3
    (one,) = (found for found in files.values() if found["info"].get("parentID") == main["info"]["id"])
    assert (one["info"]["title"], one["messages"][0]["parts"][0]["text"]) == (
        "look (@general subagent)",
        "look",
    )
    (other,) = (found for found in files.values() if found["info"].get("parentID") == one["info"]["id"])
    assert other["messages"][1]["parts"][0]["state"]["error"] == "Tool execution aborted"
    told = main["messages"][1]["parts"][0]["state"]
    assert told["metadata"]["sessionId"] == one["info"]["id"]
    assert told["output"] == f"task_id: {one['info']['id']} (for later)"
    assert not any(old in text for old in (root, outer, inner) for text in texts_beside(opencode))
    command = str(not_none(report.conversation)["resume_command"])
    assert command.count("opencode import ") == 3
    workspace.undo()
    assert sorted(os.listdir(opencode.file.parent)) == before


def test_a_sub_agent_that_cannot_be_read_costs_its_own_alone_and_is_said(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5."""
    opencode.user("please")
    root = opencode.path
    for broken in (True, False):
        agent = opencode.begin(parent=root.name)
        opencode.user("look")
        if broken:
            opencode.connection.execute("UPDATE session SET permission = '[' WHERE id = ?", (agent,))
    saved = captured(workspace, root)
    (note,) = saved.notes
    assert note.code == "transcript-partial"
    opencode.session = root.name
    opencode.user("later")
    workspace.restore(saved.checkpoint.id, only=["conversation"])
    assert len(texts_beside(opencode)) == 2


def texts_beside(database: OpencodeDatabase) -> list[str]:
    return [path.read_text() for path in database.file.parent.glob("*.json")]


def test_what_a_sub_agent_says_is_worth_a_checkpoint_and_kept_at_the_next(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5, S10: what did not change since is not read again."""
    opencode.user("please")
    root, agent = opencode.path, opencode.begin(parent=opencode.session)
    opencode.user("look")
    captured(workspace, root)
    assert not captured(workspace, root).created
    opencode.assistant("here it is")
    kept = captured(workspace, root)
    assert kept.created
    opencode.session = root.name
    opencode.user("later")
    workspace.restore(kept.checkpoint.id, only=["conversation"])
    assert sum("here it is" in text for text in texts_beside(opencode)) == 1
    assert agent not in "".join(texts_beside(opencode))


def test_a_copy_that_opencode_took_in_is_never_written_over(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """T11: what was said in it since stays, and the next restore gets a session of its own."""
    opencode.user("please")
    kept = captured(workspace, opencode.path).checkpoint
    opencode.user("later")
    first = imported(workspace.restore(kept.id, only=["conversation"]))["info"]["id"]
    opencode.connection.execute(
        "UPDATE session SET id = ? WHERE id = ?", (first, opencode.begin(directory="/elsewhere"))
    )
    report = workspace.undo()
    (part,) = [one for one in report.parts if one.scope == "conversation"]
    assert part.result == "kept"
    assert "taken it in" in str(part.reason)
    assert not list(opencode.file.parent.glob("*.json"))
    second = imported(workspace.restore(kept.id, only=["conversation"]))["info"]["id"]
    assert second != first


def test_undo_takes_the_file_away_that_opencode_did_not_take_in(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """T11."""
    opencode.user("please")
    kept = captured(workspace, opencode.path).checkpoint
    opencode.user("later")
    workspace.restore(kept.id, only=["conversation"])
    workspace.undo()
    assert not list(opencode.file.parent.glob("*.json"))


def test_a_database_that_is_gone_takes_nothing_from_the_conversation(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """T11: opencode makes a new one when it takes the file in."""
    opencode.user("please")
    kept = captured(workspace, opencode.path).checkpoint
    gone(opencode)
    found = imported(workspace.restore(kept.id, only=["conversation"]))
    assert found["messages"][0]["parts"][0]["text"] == "please"


@pytest.mark.parametrize("line", [b'{"data":{"type":"text"}}\n', b'{"info":{"role":"user"}}\n'])
def test_a_line_without_its_id_is_none_of_a_session(line: bytes) -> None:
    """T11: a store that was imported may have any lines."""
    head = head_line({"id": "ses_1", "time": {"created": 1}})
    with pytest.raises(Invalid):
        b"".join(importable([head, line], old="ses_1", new="ses_2"))


def test_a_folder_that_ends_like_a_database_is_a_folder(workspace: Workspace, tmp_path: Path) -> None:
    """P5."""
    file = tmp_path / "opencode.db" / "ses_1"
    file.parent.mkdir()
    file.write_text("hello\n")
    kept = captured(workspace, file).checkpoint
    assert not_none(kept.conversation).form == "lines"


def test_a_long_conversation_is_kept_and_brought_back(
    workspace: Workspace, opencode: OpencodeDatabase
) -> None:
    """P5, T11."""
    opencode.connection.execute("BEGIN")
    for number in range(25):
        opencode.user(f"please {number}")
        opencode.assistant(f"{number:06}" * 170_000)
    opencode.connection.execute("COMMIT")
    kept = captured(workspace, opencode.path).checkpoint
    assert not_none(kept.conversation).size > 25_000_000
    opencode.user("later")
    again = captured(workspace, opencode.path)
    assert again.notes == ()
    assert again.checkpoint.metrics.stored_bytes < 300_000
    found = imported(workspace.restore(kept.id, only=["conversation"]))
    assert len(found["messages"]) == 50


def test_a_to_do_list_is_no_longer_than_a_command_can_be() -> None:
    """T11: else the shell would refuse it, and what comes after it."""
    head = head_line({"id": "ses_a", "time": {"created": 1}})
    todo = ({"content": "x" * 700, "status": "pending", "priority": "high"} for _ in range(200))
    made = not_none(todo_statement(head, [todo_line(todo)], session="ses_b"))
    assert subprocess.run(["true", made], check=True).returncode == 0
    assert made.count(b"CAST(X'7365735f62'") > 50
