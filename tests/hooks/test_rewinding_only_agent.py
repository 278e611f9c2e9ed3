"""Taking back an agent's last turns by their number, and keeping what everybody else changed (T15, T17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood.errors import NotFound
from lastgood.workspace import Workspace
from tools.telling import Host

TEXT = "".join(f"line {number}\n" for number in range(1, 21))


class Hands:
    """An agent's host and a person at one file, each with lines of their own."""

    def __init__(self, workspace: Workspace, project: Path) -> None:
        self.workspace, self.project = workspace, project
        self.write("file", TEXT)
        workspace.save("begin")
        self.host = self.starts("one")

    def starts(self, name: str) -> Host:
        host = Host(self.workspace, self.project, name=name)
        host.tells("session-start", text="startup")
        return host

    def write(self, name: str, text: str) -> None:
        (self.project / name).write_text(text)

    def changes(self, line: int, by: str) -> None:
        self.write("file", self.text().replace(f"line {line}\n", f"by {by} {line}\n"))

    def turn(self, line: int, *, host: Host | None = None) -> None:
        host = host or self.host
        host.asked(f"prompt {line}")
        self.changes(line, host.name)
        host.tells("turn-end")

    def text(self) -> str:
        return (self.project / "file").read_text()

    def changed(self) -> list[str]:
        return [line for line in self.text().splitlines() if line.startswith("by")]


@pytest.fixture
def hands(workspace: Workspace, project: Path) -> Hands:
    return Hands(workspace, project)


def test_as_many_turns_go_as_are_asked_for_and_what_is_a_persons_stays(hands: Hands) -> None:
    """T17: in one file, what is not saved yet included."""
    hands.turn(2)
    hands.turn(5)
    hands.changes(8, "me")
    hands.turn(11)
    hands.changes(14, "me")

    hands.workspace.rewind(2, only_agent=True)
    assert hands.changed() == ["by one 2", "by me 8", "by me 14"]
    hands.workspace.undo()
    hands.workspace.rewind(1, only_agent=True)
    assert hands.changed() == ["by one 2", "by one 5", "by me 8", "by me 14"]


def test_the_last_turns_may_be_of_several_sessions(hands: Hands) -> None:
    """T17: whatever session they were in, they are counted along the history."""
    hands.turn(2)
    other = hands.starts("other")
    hands.turn(5, host=other)
    hands.turn(8)

    hands.workspace.rewind(2, only_agent=True)
    assert hands.changed() == ["by one 2"]


def test_what_a_turn_under_way_changed_is_the_last_that_is_taken_back(hands: Hands) -> None:
    """T15: in a session of its own too; one that changed nothing does not count."""
    hands.turn(2)
    other = hands.starts("other")
    other.asked("and now?")
    assert hands.workspace.preview_rewind(1).under_way == ()
    hands.changes(5, "other")

    (turn,) = hands.workspace.preview_rewind(1).under_way
    assert turn.name == "and now?"
    hands.workspace.rewind(1, only_agent=True)
    assert hands.changed() == ["by one 2"]
    assert hands.workspace.preview_rewind(1).under_way == ()
    hands.workspace.undo()
    hands.workspace.rewind(2, only_agent=True)
    assert hands.changed() == []


def test_a_rewind_past_a_turn_under_way_goes_to_before_it(hands: Hands) -> None:
    """T15: not to before the last turn that ended."""
    hands.turn(2)
    hands.host.asked("wreck it")
    hands.changes(5, "one")

    hands.workspace.rewind()
    assert hands.changed() == ["by one 2"]


def test_what_a_rewind_takes_along_is_named_path_by_path(hands: Hands) -> None:
    """T15: what was saved between turns, what was saved in the middle of one, and what was not saved."""
    hands.turn(2)
    hands.write("between", "mine\n")
    hands.host.asked("go on")
    hands.write("amid", "mine\n")
    within = hands.workspace.save("my own").checkpoint
    hands.write("agents", "new\n")
    hands.host.tells("turn-end")
    hands.write("unsaved", "mine\n")

    extent = hands.workspace.preview_rewind(2)
    found = {
        (one.path.decode(), one.checkpoint and one.checkpoint.message)
        for one in hands.workspace.changed_beside(extent)
    }
    assert {("between", "before: go on"), ("amid", "my own"), ("unsaved", None)} <= found
    assert within.id not in {one.id for one in extent.saves}
    assert "file" not in {path for path, _ in found}


def test_a_file_that_is_too_large_by_now_is_named_as_well(hands: Hands) -> None:
    """T15, S7: a rewind takes its place, although no checkpoint would hold it."""
    hands.write("mine", "one\n")
    hands.workspace.save("mine")
    hands.turn(2)
    with (hands.project / "mine").open("a") as file:
        file.truncate(33 << 20)
    extent = hands.workspace.preview_rewind(1)
    assert [one.path for one in hands.workspace.changed_beside(extent)] == [b"mine"]


def test_a_private_file_that_stays_is_not_said_to_go(hands: Hands) -> None:
    """T15, S5: one that is missing comes back, which is said."""
    hands.write(".gitignore", ".env\n")
    hands.write(".env", "one\n")
    hands.workspace.save("with a private file")
    hands.turn(2)
    hands.write(".env", "two\n")
    extent = hands.workspace.preview_rewind(1)
    assert hands.workspace.changed_beside(extent) == ()
    (hands.project / ".env").unlink()
    assert [one.path for one in hands.workspace.changed_beside(extent)] == [b".env"]


def test_where_no_turn_is_known_nothing_is_taken_for_an_agents(workspace: Workspace, project: Path) -> None:
    for number in range(2):
        (project / "file").write_text(str(number))
        workspace.save(str(number))
    with pytest.raises(NotFound, match="agent"):
        workspace.rewind(1, only_agent=True)
    assert (project / "file").read_text() == "1"


def test_several_rewinds_are_looked_at_at_once(hands: Hands) -> None:
    hands.turn(2)
    hands.turn(5)
    every = hands.workspace.preview_rewinds()
    assert every == tuple(hands.workspace.preview_rewind(one) for one in (1, 2))
    assert hands.workspace.preview_rewinds(1) == every[:1]
