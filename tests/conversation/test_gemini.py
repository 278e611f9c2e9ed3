"""Conversations of Gemini CLI, which lists all messages anew when it goes on or sums up (P5, T11)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lastgood.conversation.reader import listed_anew
from lastgood.workspace import Workspace
from tools.values import not_none

# Written by Gemini CLI 0.61.0 in three turns, each a process of its own; before the third it summed up.
RECORDED = Path(__file__).parent / "recorded/gemini-cli-0.61.0-summed-up.jsonl"


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    folder = tmp_path / "home/.gemini/tmp/project/chats"
    folder.mkdir(parents=True)
    head = json.loads(RECORDED.read_text().splitlines()[0])
    file = folder / f"session-2026-11-24T03-57-{head['sessionId'][:8]}.jsonl"
    file.write_bytes(RECORDED.read_bytes())
    return file


def words(message: dict[str, Any]) -> str:
    first = message["content"][0]
    return str(first.get("text", first.get("name", "a result")))[:43].strip()


def resumed(file: Path) -> list[str]:
    """Return the messages that Gemini CLI has when it goes on, as its own reader folds the lines."""
    held: dict[str, Any] = {}
    for record in map(json.loads, file.read_text().splitlines()):
        if "id" in record:
            held[record["id"]] = record
        elif "messages" in record.get("$set", {}):
            held = {one["id"]: one for one in record["$set"]["messages"]}
    return [json.dumps(one["content"]) for one in held.values()]


def test_each_message_is_shown_once_and_so_is_what_one_was_summed_up_to(
    workspace: Workspace, transcript: Path
) -> None:
    """P5."""
    kept = workspace.save(transcript=transcript).checkpoint
    shown = [(str(one["role"]), words(one)) for one in workspace.conversation(kept.id)]
    assert (
        shown
        == [
            ("user", "the first question, make a file"),
            ("assistant", "run_shell_command"),
            ("user", "a result"),
            ("assistant", "understood, said the scripted model"),
            ("user", "the second question and more"),
            ("assistant", "understood, said the scripted model"),
            ("user", "understood, said the scripted model"),  # the summary, as the model gave it
            ("assistant", "Got it. Thanks for the additional context!"[:43]),
            ("user", "the third question"),
            ("assistant", "understood, said the scripted model"),
        ]
    )


def test_a_copy_is_gone_on_with_from_the_summary(workspace: Workspace, transcript: Path) -> None:
    """T11: and the original keeps all that it had."""
    before, held = transcript.read_bytes(), resumed(transcript)
    kept = workspace.save(transcript=transcript).checkpoint
    with transcript.open("a") as file:
        file.write('{"id":"later","type":"user","content":[{"text":"the fourth question"}]}\n')
    copy = Path(str(not_none(workspace.restore(kept.id).conversation)["transcript"]))
    assert resumed(copy) == held
    assert len(held) == 5
    assert transcript.read_bytes().startswith(before)
    assert "the fourth question" in transcript.read_text()


@pytest.mark.parametrize(
    "line",
    [
        b'{"$set":{"messages":"none"}}',
        b'{"$set":{"messages":[7,null,{"id":"a"},{"id":"b","type":"user","content":[]}]}}',
        b'{"$set":[]}',
        b'["$set"]',
        b'{"$set":{"messages":[{"id":["c"],"type":"user","content":"x"}]}}',
        b'{"id":{},"type":"user","content":"x"}',
    ],
)
def test_a_list_of_another_form_says_nothing(line: bytes) -> None:
    assert list(listed_anew(line, set())) == []
