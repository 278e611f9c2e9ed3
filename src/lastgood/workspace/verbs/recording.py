"""What programs keep in the store beside checkpoints."""

from __future__ import annotations

from lastgood.errors import Invalid
from lastgood.workspace.arguments import expect
from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.ports.ledger import Ledger


class Records(Door):
    """Verbs about ledgers."""

    def ledger(self, space: str) -> Ledger:
        """Return one space of this workspace's ledger: books of entries for a program of yours.

        What it keeps is private to the store, shared between processes, and proven when it is read:
        whoever alters it without this user's key is found out (`Damaged`).
        """
        expect(space, str, what="the space")
        if not space or not space.isprintable():
            raise Invalid(f"{space!r} cannot name a space", hint="name it after your program")
        self._commons.upkeep.before_ledger(self._context)
        return self._context.ledgers.space(space, workspace=self._context.key)
