"""Settings that a program gives are looked at when it gives them, not when something ends on them unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import Usage
from lastgood.settings import AutoSettings, CaptureSettings, LimitSettings, Rungs, Settings

WRONG: dict[str, Any] = {
    "settings is dict": {"limits": {}},
    "settings.limits is dict": Settings(limits={"max_store_size": 1}),  # type: ignore[arg-type]
    "max_store_size is float": Settings(limits=LimitSettings(max_store_size=5e9)),  # type: ignore[arg-type]
    "max_store_size is -1": Settings(limits=LimitSettings(max_store_size=-1)),
    "max_checkpoints is str": Settings(limits=LimitSettings(max_checkpoints="500")),  # type: ignore[arg-type]
    "max_checkpoints is bool": Settings(limits=LimitSettings(max_checkpoints=True)),
    "max_file_size is NoneType": Settings(capture=CaptureSettings(max_file_size=None)),  # type: ignore[arg-type]
    "exclude is no sequence of texts": Settings(capture=CaptureSettings(exclude="*.bin")),  # type: ignore[arg-type]
    "auto.enabled is str": Settings(auto=AutoSettings(enabled="no")),  # type: ignore[arg-type]
    "'sure' is no durability": Settings(durability="sure"),  # type: ignore[arg-type]
    "retention is no mapping": Settings(retention=[]),  # type: ignore[arg-type]
    r"retention\['turn'\] is int": Settings(retention={"turn": 5}),  # type: ignore[dict-item]
    r"retention\['turn'\].last is float": Settings(retention={"turn": Rungs(last=1.5)}),  # type: ignore[arg-type]
    "session_expires_after is str": Settings(session_expires_after="1h"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("said", "settings"), WRONG.items(), ids=WRONG)
def test_a_value_of_a_wrong_type_is_refused_at_the_door(
    project: Path, store: Path, said: str, settings: Any
) -> None:
    """K2: maintenance, which nobody watches, would have ended on it without a word."""
    with pytest.raises(Usage, match=said):
        lastgood.open(project, store=store, settings=settings)
    assert not store.exists()


def test_settings_of_the_right_types_are_taken(project: Path, store: Path) -> None:
    settings = Settings(
        limits=LimitSettings(max_store_size=1 << 70, max_checkpoints=0),
        retention={"turn": Rungs(last=1)},
        session_expires_after=float("inf"),
    )
    with lastgood.open(project, store=store, settings=settings, maintenance="off") as workspace:
        assert workspace.settings is settings
