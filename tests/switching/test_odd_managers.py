"""Words of the wrong kind are errors of ours for the manager and the recoverer, and undo nothing (K2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import LastgoodError, Usage
from lastgood.integrations.checkpoint_manager import (
    CheckpointManager,
    ErrorRecoverer,
    handle_error,
    with_recovery,
)
from tools.odd import NO_NUMBERS, NO_PATHS, NO_TEXTS, OTHER_NUMBERS, OTHERS, TEXTS

NO_FLAGS: list[Any] = [None, 0, 1, float("nan"), *TEXTS[:4], *OTHERS]
NO_FUNCTIONS: list[Any] = [one for one in [*NO_TEXTS, *TEXTS] if one is not None and not callable(one)]
BROKEN = TimeoutError("slow")


@pytest.fixture
def manager(project: Path, store: Path) -> CheckpointManager:
    """Return a manager with two checkpoints, of a project that changed since."""
    made = CheckpointManager(project, store=store)

    async def main() -> None:
        for name in ("one", "two"):
            (project / "file").write_text(name)
            await made.create_checkpoint(name)

    asyncio.run(main())
    (project / "file").write_text("three")
    return made


def calls(manager: CheckpointManager) -> list[Callable[[Any], Coroutine[object, object, object]]]:
    return [
        manager.rollback,
        manager.restore_checkpoint,
        manager.get_checkpoint,
        manager.validate_checkpoint,
        manager.delete_checkpoint,
        lambda name: manager.read(name, "file"),
        lambda path: manager.read("one", path),
    ]


def test_nothing_but_a_name_or_an_id_names_a_checkpoint(manager: CheckpointManager, project: Path) -> None:
    """None is not the newest one: a program that lost its id deletes nothing."""

    async def main() -> None:
        before = await manager.list_checkpoints()
        for call in calls(manager):
            for word in [*NO_TEXTS, *TEXTS]:
                with pytest.raises(LastgoodError):
                    await call(word)
        for word in [*NO_TEXTS[1:], *TEXTS]:
            with pytest.raises(Usage):
                await manager.list_checkpoints(word)
        assert await manager.list_checkpoints() == before

    asyncio.run(main())
    assert (project / "file").read_text() == "three"


def test_what_counts_as_true_is_no_wish(manager: CheckpointManager, project: Path) -> None:
    """T17: HEAD is moved, and work overwritten, by True alone."""

    async def main() -> None:
        for word in NO_FLAGS:
            for call in (
                lambda: manager.rollback("one", git=word),  # noqa: B023 - called at once
                lambda: manager.rollback_to_latest(git=word),  # noqa: B023 - the same
                lambda: manager.restore_checkpoint("one", git=word),  # noqa: B023 - the same
                lambda: manager.undo(force=word),  # noqa: B023 - the same
                lambda: manager.undo(merge=word),  # noqa: B023 - the same
            ):
                with pytest.raises(Usage):
                    await call()

    asyncio.run(main())
    assert (project / "file").read_text() == "three"


def test_a_place_that_is_no_path_is_no_project_and_no_store(project: Path, store: Path) -> None:
    for word in [None, *NO_PATHS, b"", "", "\0", "\ud8ff"]:
        with pytest.raises(LastgoodError):
            CheckpointManager(word, store=store)
        with pytest.raises(LastgoodError):
            ErrorRecoverer(word, store=store)
        with pytest.raises(LastgoodError):
            with_recovery(project_dir=word, store=store)
        with pytest.raises(LastgoodError):
            asyncio.run(handle_error(BROKEN, project_dir=word, store=store))
        if word is not None:
            for parameter in ("store", "feature_list", "progress_file"):
                with pytest.raises(LastgoodError):
                    CheckpointManager(project, **{parameter: word})


@pytest.mark.parametrize("parameter", ["name", "description", "type", "context", "messages"])
def test_odd_words_about_a_checkpoint_make_none(manager: CheckpointManager, parameter: str) -> None:
    async def main() -> None:
        before = await manager.list_checkpoints()
        fine: dict[str, list[Any]] = {"name": [None], "description": [None], "context": [None, {}, {"a": 1}]}
        fine["messages"] = [None, [], ()]
        for word in NO_TEXTS:
            if not any(type(word) is type(one) and word == one for one in fine.get(parameter, [])):
                with pytest.raises(LastgoodError):
                    await manager.create_checkpoint(**{parameter: word})
        assert await manager.list_checkpoints() == before

    asyncio.run(main())


@pytest.mark.parametrize(
    ("parameter", "odd"),
    [
        ("retries", [*NO_NUMBERS, -1]),
        ("delay", [None, float("nan"), -1, True, *TEXTS, *OTHERS]),
        ("longest", [None, float("nan"), -1, True, *TEXTS, *OTHERS]),
        ("orders", [*OTHER_NUMBERS, *TEXTS, {"a": 1}, {"logic": "again"}, {"logic": 7}, 7]),
        ("fix", NO_FUNCTIONS),
    ],
)
def test_a_recoverer_is_made_of_what_it_can_use(
    project: Path, store: Path, parameter: str, odd: list[Any]
) -> None:
    for word in odd:
        with pytest.raises(Usage):
            ErrorRecoverer(project, store=store, **{parameter: word})


def test_a_slip_in_what_is_asked_for_ends_in_no_rollback(
    manager: CheckpointManager, project: Path, store: Path
) -> None:
    """T4: nothing is taken back for a wrong word."""
    assert manager.project_dir == str(project)
    recoverer = ErrorRecoverer(project, store=store, retries=0, delay=0)
    contexts: list[Any] = [
        *OTHER_NUMBERS,
        *[one for one in OTHERS if not hasattr(one, "__dict__") and not isinstance(one, dict)],
        object,
        print,
        *({"operation": word} for word in NO_FUNCTIONS),
        *({"fix": word} for word in NO_FUNCTIONS),
        *({"checkpoint": word} for word in NO_TEXTS if word is not None),
        *({"strategy": word} for word in [*NO_TEXTS[1:], *TEXTS] if word not in ([], ())),
    ]
    for context in contexts:
        with pytest.raises(Usage):
            recoverer.recover_now(ValueError("broken"), context)
        with pytest.raises(Usage):
            asyncio.run(recoverer.handle_error(ValueError("broken"), context))
    for error in [*NO_TEXTS, *TEXTS, KeyboardInterrupt(), ValueError]:
        with pytest.raises(Usage):
            recoverer.recover_now(error)
    for word in NO_FUNCTIONS:
        with pytest.raises(Usage):
            recoverer.with_recovery(word)
        with pytest.raises(Usage):
            recoverer.with_recovery(fix=word)
        if word not in ([], ()):
            with pytest.raises(Usage):
                recoverer.with_recovery(strategy=word)
    assert (project / "file").read_text() == "three"


def test_many_retries_do_not_overflow(project: Path, store: Path) -> None:
    recoverer = ErrorRecoverer(project, store=store, retries=1_100, delay=0, longest=float("inf"))
    tried = []

    def again() -> str:
        tried.append(1)
        if len(tried) < 1_090:
            raise BROKEN
        return "done"

    result = recoverer.recover_now(BROKEN, {"operation": again, "strategy": "backoff"})
    assert (result.recovered, result.value) == (True, "done")
