"""What only the guide of `praisonaiagents.checkpoints` shows, and what its programs may get wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import Usage
from lastgood.integrations.praisonai import (
    ChangedFiles,
    Checkpoint,
    CheckpointConfig,
    CheckpointService,
)
from tools.listening import Heard

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_a_configuration_of_the_guide_names_no_workspace_and_is_handed_over(project: Path) -> None:
    config = CheckpointConfig(auto_checkpoint=False, max_checkpoints=50, exclude_patterns=["*.tmp"])
    service = CheckpointService(workspace_dir=str(project), config=config)
    assert service.workspace_dir == str(project)
    assert service.config.root == str(project)
    assert (service.config.auto_checkpoint, service.config.max_checkpoints) == (False, 50)
    assert service.config.exclude_patterns == ["*.tmp"]
    assert CheckpointService(str(project), "elsewhere", config=config).storage_dir == "elsewhere"
    assert CheckpointService(str(project), config=config, exclude_patterns=["x"]).config.exclude_patterns == [
        "x"
    ]


def test_a_checkpoint_of_the_guide_has_no_short_id() -> None:
    files = ChangedFiles(["a", "b"])
    made = Checkpoint(id="abc1234567", message="by hand", timestamp=NOW, files_changed=files)
    assert (made.short_id, made.files_changed) == ("abc12345", ["a", "b"])


@pytest.mark.parametrize("patterns", ["*.log", b"*.log", 5, [None]])
def test_one_text_in_place_of_patterns_is_refused_lest_its_star_leave_everything_out(
    patterns: Any, project: Path
) -> None:
    with pytest.raises(Usage, match="exclude_patterns"):
        CheckpointService(str(project), exclude_patterns=patterns)
    with pytest.raises(Usage, match="exclude_patterns"):
        CheckpointConfig(str(project), exclude_patterns=patterns)


def test_a_checkpoint_that_is_deleted_is_told_of(
    service: CheckpointService, project: Path, heard: Heard
) -> None:
    async def main() -> None:
        await service.initialize()
        (project / "a").write_text("1")
        made = await service.save("to be deleted")
        assert await service.delete(made) is True
        assert await service.delete(made) is False

    asyncio.run(main())
    assert heard.names == ["initialized", "checkpoint_created", "checkpoint_deleted"]
    assert dict(heard.events)["checkpoint_deleted"].message == "to be deleted"


def test_odd_numbers_are_answered_by_results(service: CheckpointService) -> None:
    async def main() -> None:
        await service.initialize()
        far = await service.rewind(10**30)
        assert far.error is not None
        assert far.error.startswith("Cannot rewind 1000000")
        assert (await service.save("x", step=True)).error == "step must be a non-negative integer"
        odd = await service.save("x", messages=5)  # type: ignore[arg-type]
        assert odd.error == "the messages are no list (give a list of dicts)"

    asyncio.run(main())
