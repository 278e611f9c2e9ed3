"""The command, in a project and a store of the test."""

from __future__ import annotations

import pytest

from tools.command import Command


@pytest.fixture
def kept(lastgood: Command) -> Command:
    """Return the command in a project with two checkpoints, named `one` and `two`."""
    (lastgood.project / "a.txt").write_text("first\n", encoding="utf-8")
    (lastgood.project / "src").mkdir()
    (lastgood.project / "src" / "b.py").write_text("print(1)\n", encoding="utf-8")
    lastgood("save", "the first", "--name", "one")
    (lastgood.project / "a.txt").write_text("second\n", encoding="utf-8")
    (lastgood.project / "new.txt").write_text("new\n", encoding="utf-8")
    lastgood("save", "the second", "--name", "two")
    return lastgood
