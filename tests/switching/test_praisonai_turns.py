"""Turns of a coding session, as PraisonAI's command line takes them back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lastgood.integrations.praisonai import CheckpointDiff, SessionCheckpointManager
from tools.values import not_none


class Conversation:
    """Keeps messages as the original's stores do: a revert keeps the message of its index."""

    def __init__(self, *messages: str) -> None:
        self.messages = list(messages)

    def get_messages(self, session_id: str) -> list[str]:
        assert session_id == "session"
        return list(self.messages)

    def revert_to_message(self, session_id: str, index: int) -> bool:
        if session_id != "session" or not 0 <= index < len(self.messages):
            return False
        del self.messages[index + 1 :]
        return True


class Clearable(Conversation):
    def clear_history(self, session_id: str) -> None:
        assert session_id == "session"
        self.messages.clear()


class Broken:
    def get_messages(self, session_id: str) -> list[str]:
        raise RuntimeError(session_id)


@pytest.fixture(autouse=True)
def no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRAISONAI_CHECKPOINTS", raising=False)


def manager(
    project: Path, storage: Path, store: object = None, **section: object
) -> SessionCheckpointManager:
    config = {"checkpoints": {"auto": True, "storage_dir": str(storage), **section}}
    return SessionCheckpointManager.from_config(
        str(project), config, session_store=store, session_id="session" if store else None
    )


@pytest.mark.parametrize(
    ("config", "switch", "default", "expected"),
    [
        (None, None, False, False),
        (None, None, True, True),
        ({"checkpoints": {"auto": True}}, None, False, True),
        ({"checkpoints": {"auto": False}}, None, True, False),
        ({"checkpoints": {"auto": False}}, " On ", False, True),
        ({"checkpoints": {"auto": True}}, "off", True, False),
        ({"checkpoints": "yes"}, None, True, True),
    ],
)
def test_the_environment_counts_more_than_the_configuration_and_that_more_than_the_default(
    config: Any,
    switch: str | None,
    default: bool,  # noqa: FBT001 - a parameter of the test
    expected: bool,  # noqa: FBT001 - the same
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
) -> None:
    if switch is not None:
        monkeypatch.setenv("PRAISONAI_CHECKPOINTS", switch)
    made = SessionCheckpointManager.from_config(str(project), config, default=default)
    assert made.enabled is expected


def test_one_that_is_not_enabled_does_nothing(project: Path, storage: Path) -> None:
    made = manager(project, storage, auto=False)
    assert made.checkpoint_turn("turn") is None
    assert made.revert() is None
    assert made.diff() is None
    assert made.dropped_message_count() is None
    assert made.turns == []
    assert "Workspace checkpointing is disabled." in made.render_diff(None)
    assert not storage.exists()


def test_turns_are_taken_back_one_by_one_with_the_conversation(project: Path, storage: Path) -> None:
    talk = Conversation("u0", "a0")
    made = manager(project, storage, talk)
    (project / "file").write_text("0")
    for number in (1, 2):
        assert made.checkpoint_turn(f"edit {number}")
        talk.messages += [f"u{number}", f"a{number}"]
        (project / "file").write_text(str(number))
    assert [(one.turn, one.message, one.message_count) for one in made.turns] == [
        (1, "turn 1: edit 1", 2),
        (2, "turn 2: edit 2", 4),
    ]
    assert made.turns[0].short_id == made.turns[0].checkpoint_id[:8]
    assert (made.dropped_message_count(1), made.dropped_message_count(2)) == (2, 4)
    for number in (1, 0):
        assert made.revert(1) is not None
        assert (project / "file").read_text() == str(number)
        assert len(talk.messages) == 2 + 2 * number
    assert made.revert(1) is None


def test_several_turns_at_once_and_no_more_than_there_are(project: Path, storage: Path) -> None:
    made = manager(project, storage)
    (project / "file").write_text("0")
    for number in (1, 2, 3):
        made.checkpoint_turn("turn")
        (project / "file").write_text(str(number))
    assert made.revert(4) is None
    assert (made.revert(2) or made.turns[0]).turn == 2
    assert (project / "file").read_text() == "1"
    assert [one.turn for one in made.turns] == [1]


def test_a_conversation_that_was_empty_is_cleared_where_that_is_possible(
    project: Path, storage: Path
) -> None:
    for talk, left in ((Clearable(), []), (Conversation(), ["u1", "a1"])):
        made = manager(project, storage, talk)
        made.checkpoint_turn("first")
        talk.messages += ["u1", "a1"]
        (project / "file").write_text("1")
        assert made.revert() is not None
        assert talk.messages == left


def test_a_store_that_fails_keeps_no_turn_from_being_taken_back(project: Path, storage: Path) -> None:
    made = manager(project, storage, Broken())
    assert made.checkpoint_turn("turn")
    (project / "file").write_text("1")
    assert made.dropped_message_count() is None
    assert made.revert() is not None
    assert not (project / "file").exists()


def test_differences_of_the_session_of_the_turn_and_of_one_file(
    project: Path, storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = manager(project, storage)
    assert made.diff() is None
    made.checkpoint_turn("start")
    (project / "a.py").write_text("a\n")
    made.checkpoint_turn("more")
    (project / "b.py").write_text("b\nb\n")
    whole = not_none(made.diff())
    assert [one.path for one in whole.files] == ["a.py", "b.py"]
    assert [one.path for one in (made.diff(turn_only=True) or whole).files] == ["b.py"]
    assert [one.path for one in (made.diff(path=" a.py ") or whole).files] == ["a.py"]
    assert made.render_diff(whole) == (
        "Changes this session:\n\n     added  a.py  (+1/-0)\n     added  b.py  (+2/-0)\n\n"
        "  +3 / -0 across 2 file(s)"
    )
    assert made.render_diff(CheckpointDiff("a", None), "turn") == "No file changes this turn."
    made.preview(1)
    assert "b.py" in capsys.readouterr().out


def test_a_preview_prints_and_returns_nothing_and_claims_nothing_it_cannot_see(
    project: Path, storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in the original, its caller goes on to ask whether to revert."""
    talk = Conversation("u0")
    made = manager(project, storage, talk)
    made.checkpoint_turn("turn")
    (project / "a.py").write_text("a\n")
    talk.messages.append("u1")
    preview: Any = made.preview
    assert preview(1) is preview(9) is None
    assert capsys.readouterr().out == (
        "Changes this session:\n\n     added  a.py  (+1/-0)\n\n  +1 / -0 across 1 file(s)\n"
        "This will also drop 1 conversation message(s) to keep history in sync with the files.\n"
    )
    shutil.rmtree(storage)
    assert preview(1) is None
    assert capsys.readouterr().out.startswith("This will also drop 1")


async def test_a_session_can_be_kept_from_within_an_event_loop(project: Path, storage: Path) -> None:
    made = manager(project, storage)
    assert made.checkpoint_turn("turn")
    (project / "file").write_text("1")
    assert made.revert()
    assert not (project / "file").exists()


def test_a_folder_that_cannot_be_kept_breaks_no_turn(storage: Path) -> None:
    made = SessionCheckpointManager("/tmp", enabled=True, storage_dir=str(storage))
    assert made.checkpoint_turn("turn") is None
    assert made.turns == []
    assert made.revert() is None
