"""A call of a drop-in that is given up has not started, or is over when its caller hears of it."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from lastgood.integrations.checkpoint_manager import CheckpointManager
from lastgood.integrations.praisonai import CheckpointService
from tools.event_loops import Loop

FILES = 40
ROUNDS = 8


def write(project: Path, text: str) -> None:
    for number in range(FILES):
        (project / f"file{number}").write_text(text)


def texts(project: Path) -> set[str]:
    return {(project / f"file{number}").read_text() for number in range(FILES)}


@pytest.mark.chance("how far a restore is when it is cancelled")
@pytest.mark.parametrize("name", ["asyncio", "trio"])
def test_a_restore_that_is_given_up(project: Path, storage: Path, name: str) -> None:
    loop, chance = Loop(name), random.Random(3)
    service = CheckpointService(str(project), str(storage))

    async def main() -> None:
        write(project, "before")
        assert await service.initialize()
        saved = await service.save("before")
        for number in range(ROUNDS):
            write(project, f"changed {number}")
            await loop.within(chance.random() * 0.08, partial(service.restore, saved))
            assert not service.timeline._lock.locked()
            assert len(texts(project)) == 1
        assert (await service.restore(saved)).success

    loop.run(main)
    assert texts(project) == {"before"}


@pytest.mark.chance("how far a rollback is when it is cancelled")
@pytest.mark.parametrize("name", ["asyncio", "trio"])
def test_a_rollback_that_is_given_up(project: Path, store: Path, name: str) -> None:
    loop, chance = Loop(name), random.Random(5)
    manager = CheckpointManager(project, store=store)

    async def main() -> None:
        write(project, "before")
        made = await manager.create_checkpoint("before")
        for number in range(ROUNDS):
            write(project, f"changed {number}")
            await loop.within(chance.random() * 0.08, partial(manager.rollback, made.id))
            assert not manager.keeper._lock.locked()
            assert len(texts(project)) == 1
        assert (await manager.rollback(made.id)).success

    loop.run(main)
    assert texts(project) == {"before"}
