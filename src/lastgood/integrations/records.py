"""What a framework keeps by us: records in a ledger of a workspace, and its files of the same moments."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from lastgood import Workspace
from lastgood.aio.calls import Calls
from lastgood.errors import Usage
from lastgood.workspace.arguments import expect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.ledger import LedgerReader, LedgerWriter
    from lastgood.model.checkpoint import Kind
    from lastgood.model.report import RestoreReport

Result = TypeVar("Result")


class Records:
    """One space of a workspace's ledger, with the means to keep the files beside it, and to await both.

    With ``files`` these are kept, in checkpoints of a ``kind``. `Usage` for what is no workspace.
    """

    def __init__(self, workspace: Workspace, *, space: str, kind: Kind, files: bool) -> None:
        if not isinstance(workspace, Workspace):
            raise Usage(
                f"the workspace is {type(workspace).__name__}, not Workspace",
                hint="open it by lastgood.open(path), also in a program with an event loop",
            )
        expect(kind, str, what="the kind")
        expect(files, bool, what="files")
        self.workspace = workspace
        self.files = files
        self._kind: Kind = kind
        self.ledger = workspace.ledger(space)
        self.whole = Calls().whole

    async def looked(self, work: Callable[[LedgerReader], Result]) -> Result:
        """Await a question."""
        return await self.whole(partial(self.ledger.look, work))

    async def changed(self, work: Callable[[LedgerWriter], Result]) -> Result:
        """Await a change."""
        return await self.whole(partial(self.ledger.change, work))

    def keep_files(self, message: str, notes: Mapping[str, str]) -> str:
        """Keep the workspace's files, and return the checkpoint that holds them."""
        return self.workspace.save(message, kind=self._kind, metadata=notes).checkpoint.id

    def restore_files(self, files: str, options: Mapping[str, Any]) -> RestoreReport:
        """Bring the files of a checkpoint back; ``options`` are those of `Workspace.restore`."""
        return self.workspace.restore(files, only=("files",), **options)
