"""Whoever uses lastgood from Python, and checks types strictly, sees full types."""

from __future__ import annotations

from pathlib import Path

from typed.checking import faults

HERE = Path(__file__).parent


def test_a_program_without_mistakes_has_none() -> None:
    assert faults(HERE / "users_program.py") == {}


def test_every_mistake_is_found(tmp_path: Path) -> None:
    text = (HERE / "mistakes.txt").read_text()
    (tmp_path / "mistakes.py").write_text(text)
    planted = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# wrong")}
    assert set(faults(tmp_path / "mistakes.py")) == planted
