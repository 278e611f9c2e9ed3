"""Words of the wrong kind get the answer that the surface promises, and nothing is lost by them (K2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import LastgoodError, Usage
from lastgood.integrations.praisonai import (
    CheckpointConfig,
    CheckpointDiff,
    CheckpointEvent,
    CheckpointService,
    SessionCheckpointManager,
)
from tools.odd import NO_NUMBERS, NO_PATHS, NO_TEXTS, TEXTS


@pytest.fixture
def kept(service: CheckpointService, project: Path) -> CheckpointService:
    """Return a service with checkpoints of the steps 0 to 8."""

    async def main() -> None:
        assert await service.initialize()
        for step in range(9):
            (project / "file").write_text(str(step))
            assert (await service.save("step", step=step)).success

    asyncio.run(main())
    return service


def test_nothing_but_the_start_of_an_id_names_a_checkpoint(kept: CheckpointService, project: Path) -> None:
    async def main() -> None:
        before = await kept.list()
        for word in [*NO_TEXTS, *TEXTS]:
            if word not in (None, ""):
                assert (await kept.diff(word)).error, word
                assert (await kept.diff(None, word)).error, word
            assert await kept.get(word) is None, word
            assert await kept.get_checkpoint(word) is None, word
            assert await kept.conversation(word) == [], word
            assert await kept.delete(word) is False, word
            result = await kept.restore(word)
            assert (result.success, result.checkpoint) == (False, None), word
            assert result.error, word
        assert await kept.list() == before

    asyncio.run(main())
    assert (project / "file").read_text() == "8"


def test_nothing_but_a_number_names_a_step_or_counts_them(kept: CheckpointService, project: Path) -> None:
    async def main() -> None:
        before = await kept.list()
        for word in [*NO_NUMBERS, -1, 10**30]:
            assert await kept.get_checkpoint_by_step(word) is None, word
            assert not (await kept.restore(step=word)).success, word
            assert not (await kept.rewind(word)).success, word
            if word not in (None, 10**30):
                failed = await kept.save("x", True, step=word)
                assert failed.error == "step must be a non-negative integer", word
            if word not in (None, -1, 10**30):
                assert await kept.list(word) == await kept.list_checkpoints(word) == [], word
        assert await kept.list() == before

    asyncio.run(main())
    assert (project / "file").read_text() == "8"


def test_a_message_is_any_text_and_nothing_else(kept: CheckpointService) -> None:
    async def main() -> None:
        for word in NO_TEXTS:
            result = await kept.save(word, allow_empty=True)
            assert result.error == "message must be a string", word
            if not isinstance(word, (list, tuple, type(None))):
                assert (await kept.save("x", allow_empty=True, messages=word)).error, word
        for word in TEXTS:
            assert (await kept.save(word, allow_empty=True)).success, word
        long = await kept.save("x" * 100_000, allow_empty=True, step=3)
        assert long.checkpoint is not None
        assert long.checkpoint.message.startswith("[step-3] xxx")
        assert long.checkpoint.message.endswith("x…")

    asyncio.run(main())


@pytest.mark.parametrize("parameter", ["max_checkpoints", "max_file_size"])
def test_a_bound_that_is_no_whole_number_is_refused(project: Path, storage: Path, parameter: str) -> None:
    for word in NO_NUMBERS:
        with pytest.raises(Usage, match=f"{parameter} is "):
            CheckpointService(str(project), str(storage), **{parameter: word})
        with pytest.raises(Usage, match=f"{parameter} is "):
            CheckpointConfig(str(project), **{parameter: word})


@pytest.mark.parametrize("most", [0, -1, 10**30])
def test_no_bound_and_an_absurd_one_let_nothing_go(project: Path, storage: Path, most: int) -> None:
    """K2: a number that means no limit elsewhere does not delete all but one."""
    service = CheckpointService(str(project), str(storage), max_checkpoints=most, max_file_size=most)

    async def main() -> None:
        assert await service.initialize()
        for number in range(21):  # once the store is tidied
            (project / "file").write_text(str(number))
            assert (await service.save("one")).success
        assert len(await service.list()) == 22
        assert await service.initialize()
        assert (await service.save("one more", allow_empty=True)).success

    asyncio.run(main())


def test_a_place_that_is_no_path_is_refused(project: Path, storage: Path) -> None:
    for word in [*NO_PATHS, "\0", "\ud8ff"]:
        with pytest.raises(LastgoodError):
            CheckpointService(word, str(storage))
        with pytest.raises(LastgoodError):
            CheckpointService(str(project), word)
    with pytest.raises(LastgoodError):
        CheckpointService(None, str(storage))  # type: ignore[arg-type]
    for word in [*NO_PATHS, b"", "x", "\0"]:
        with pytest.raises(Usage, match="the config is"):
            CheckpointService(str(project), config=word)


def test_a_place_may_be_given_as_bytes(project: Path, storage: Path) -> None:
    odd: Any = [bytes(project), bytes(storage)]
    service = CheckpointService(*odd)
    assert asyncio.run(service.initialize())
    assert service.store == CheckpointService(str(project), str(storage)).store


def test_an_empty_name_does_not_mean_the_current_folder(
    project: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    here = CheckpointService(".", str(storage))
    nowhere = CheckpointService("", str(storage))

    async def main() -> None:
        assert await here.initialize()
        assert not await nowhere.initialize()
        assert not (await nowhere.save("x")).success
        assert not await nowhere.delete_all()
        assert len(await here.list()) == 1

    asyncio.run(main())


def test_what_cannot_be_called_is_no_handler(service: CheckpointService) -> None:
    for word in [*NO_TEXTS, "x"]:
        if not callable(word):
            with pytest.raises(Usage, match="the handler is"):
                service.on(CheckpointEvent.ERROR, word)


def test_a_tool_is_never_kept_from_running(kept: CheckpointService, project: Path) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError

    class Call:
        def __init__(self, name: object) -> None:
            self.tool_name = name

    odd = [None, Unspeakable(), Call(Unspeakable()), *map(Call, [*TEXTS, 7, b"7"])]
    for number, word in enumerate(odd):
        (project / "file").write_text(f"changed {number}")
        kept.before_tool(word)
    assert len(asyncio.run(kept.list())) == 10 + len(odd)


@pytest.fixture
def turned(project: Path, storage: Path) -> SessionCheckpointManager:
    """Return a session of three turns."""
    made = SessionCheckpointManager(str(project), enabled=True, storage_dir=str(storage))
    for number in range(3):
        assert made.checkpoint_turn("turn")
        (project / "file").write_text(str(number))
    return made


def test_nothing_but_a_number_takes_turns_back(
    turned: SessionCheckpointManager, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in NO_NUMBERS:
        assert turned.revert(word) is None, word
        assert turned.dropped_message_count(word) is None, word
        turned.preview(word)
    assert (len(turned.turns), (project / "file").read_text()) == (3, "2")
    assert capsys.readouterr().out == ""


def test_a_turn_is_kept_whatever_was_said_in_it(turned: SessionCheckpointManager) -> None:
    odd: list[Any] = [None, 7, b"7", ["a"], object(), *TEXTS]
    for word in odd:
        assert turned.checkpoint_turn(word), word
    assert len(turned.turns) == 3 + len(odd)


def test_differences_of_odd_paths_and_of_what_is_none(turned: SessionCheckpointManager) -> None:
    for word in NO_TEXTS[1:]:
        assert turned.diff(path=word) is None, word
    for word in [*NO_TEXTS[1:], *TEXTS]:
        assert turned.render_diff(word) == "No file changes this session.", word
    for word in TEXTS[1:]:
        assert (turned.diff(path=word) or CheckpointDiff("", "", [])).files == [], word


class Telling:
    """A conversation that answers anything."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def get_messages(self, _session_id: str) -> object:
        return self.answer


def test_odd_places_and_odd_conversations_break_no_turn(project: Path, storage: Path) -> None:
    for word in [*NO_PATHS, "\0", ""]:
        lost = SessionCheckpointManager(word, enabled=True, storage_dir=str(storage))
        assert lost.checkpoint_turn("turn") is None
        if word != "":
            lost = SessionCheckpointManager(str(project), enabled=True, storage_dir=word)
            assert lost.checkpoint_turn("turn") is None
            assert lost.revert() is None
    odd: list[Any] = [7, float("nan"), b"7", {"a": 1}, object()]
    for word in odd:
        for talk in (word, Telling(word)):
            made = SessionCheckpointManager(str(project), True, False, str(storage), talk, "session")
            assert made.checkpoint_turn("turn")
            assert made.revert()


def test_a_configuration_of_another_kind_is_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRAISONAI_CHECKPOINTS", raising=False)
    for word in [*NO_TEXTS, *TEXTS]:
        assert SessionCheckpointManager.from_config(str(project), word).enabled is False
        assert SessionCheckpointManager.from_config(str(project), {"checkpoints": word}).enabled is False
