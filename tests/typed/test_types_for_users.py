"""Whoever uses lastgood from Python, and checks types strictly, sees full types."""

from __future__ import annotations

from pathlib import Path

import pytest

import lastgood
from typed.checking import faults

HERE = Path(__file__).parent


def test_a_program_without_mistakes_has_none() -> None:
    assert faults(HERE / "users_program.py") == {}


def test_every_mistake_is_found(tmp_path: Path) -> None:
    text = (HERE / "mistakes.txt").read_text()
    (tmp_path / "mistakes.py").write_text(text)
    planted = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# wrong")}
    assert set(faults(tmp_path / "mistakes.py")) == planted


@pytest.mark.parametrize(
    "cls", [lastgood.AsyncWorkspace, lastgood.AsyncSession, lastgood.AsyncLedger, lastgood.CheckpointManager]
)
def test_the_type_of_an_awaited_verb_is_declared(cls: type) -> None:
    """Else each type checker may infer another, and `pyright --verifytypes` counts the class as unknown."""
    awaited = {name for name, one in vars(cls).items() if hasattr(one, "__wrapped__")}
    assert awaited - {"checkpoint"} <= set(cls.__annotations__)
