"""The order of undo and redo (rule T8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastgood.model.operation import Operation
from lastgood.undo import to_redo, to_undo

if TYPE_CHECKING:
    from lastgood.literals import OperationType


class _Log:
    """Operations as the catalogue keeps them, newest first."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def do(self, id: str, kind: OperationType = "restore", of: str | None = None) -> None:
        if of is not None:
            self.operations = [
                one.replace(undone=kind == "undo") if one.id == of else one for one in self.operations
            ]
        self.operations.insert(0, Operation(id=id, workspace_key="w", type=kind, at=0, of=of))

    def find(self, id: str) -> Operation | None:
        """Return one operation."""
        return next((one for one in self.operations if one.id == id), None)

    def next(self) -> tuple[str | None, str | None]:
        """Return what undo and redo would act on."""
        back, on = to_undo(self.operations), to_redo(self.operations, find=self.find)
        return None if back is None else back.id, None if on is None else on.id


def test_undo_and_redo_go_back_and_forth_in_order() -> None:
    log = _Log()
    log.do("one")
    log.do("two")
    assert log.next() == ("two", None)
    log.do("u2", "undo", of="two")
    assert log.next() == ("one", "two")
    log.do("u1", "undo", of="one")
    assert log.next() == (None, "one")
    log.do("r1", "redo", of="one")
    assert log.next() == ("one", "two")
    log.do("r2", "redo", of="two")
    assert log.next() == ("two", None)


def test_a_new_operation_ends_the_line_of_those_undone_before_it() -> None:
    log = _Log()
    log.do("deleted", "delete")
    log.do("u1", "undo", of="deleted")
    log.do("restored")
    assert log.next() == ("restored", None)
    log.do("u2", "undo", of="restored")
    assert log.next() == (None, "restored")


def test_what_came_before_the_newest_operation_is_not_asked_for_by_a_redo() -> None:
    log = _Log()
    log.do("old")
    log.do("new")
    log.do("u1", "undo", of="new")
    log.do("u2", "undo", of="old")
    asked = iter(log.operations)
    on = to_redo(asked, find=log.find)
    assert on is not None
    assert on.id == "old"
    assert [one.id for one in asked] == ["old"]
