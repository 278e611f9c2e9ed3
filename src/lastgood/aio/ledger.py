"""A ledger, awaited."""

from __future__ import annotations

from functools import partial

from lastgood.aio.awaited import Face
from lastgood.ports.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.aio.bridge import Result
    from lastgood.ports.ledger import LedgerReader, LedgerWriter


class AsyncLedger(Face[Ledger]):
    """One space of a workspace's ledger, for programs with an event loop."""

    async def look(self, work: Callable[[LedgerReader], Result]) -> Result:
        """Ask something of one moment; ``work`` is called in another thread."""
        return await self._call(partial(self._inner.look, work))

    async def change(self, work: Callable[[LedgerWriter], Result]) -> Result:
        """Change something in one transaction, durable on return; nothing is changed if it raises.

        ``work`` is called in another thread.
        """
        return await self._call(partial(self._inner.change, work), whole=True)

    async def accept(self) -> None:
        """Declare the present state to be genuine: for a store that its owner put back or moved here.

        What is lost stays lost: entries whose values are not whole are dropped.
        """
        await self._call(self._inner.accept, whole=True)
