"""What a framework keeps by us: records in a ledger of a workspace, and its files of the same moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, TypeVar

from lastgood import AsyncWorkspace, Workspace
from lastgood.aio.calls import Calls
from lastgood.errors import Usage
from lastgood.ledger import Ledger, LedgerReader, LedgerWriter
from lastgood.literals import Kind
from lastgood.model.report import RestoreReport
from lastgood.workspace.arguments import PathLike, expect


class Spoken(TypedDict, total=False):
    """A conversation that belongs to files, as `Workspace.save` takes it."""

    messages: Sequence[Mapping[str, object]]
    transcript: PathLike
    conversation_alone: bool


Result = TypeVar("Result")


class Records:
    """One space of a workspace's ledger, with the means to keep the files beside it, and to await both.

    With ``files`` these are kept, in checkpoints of a ``kind``. `Usage` for what is no workspace. With an
    asynchronous one what is awaited goes by its loop, and it is closed when nothing of that is under way.
    """

    def __init__(self, workspace: Workspace | AsyncWorkspace, *, space: str, kind: Kind, files: bool) -> None:
        if not isinstance(workspace, Workspace | AsyncWorkspace):
            raise Usage(
                f"the workspace is {type(workspace).__name__}, neither Workspace nor AsyncWorkspace",
                hint="open it by lastgood.open(path), or lastgood.open_async(path)",
            )
        expect(kind, str, what="the kind")
        expect(files, bool, what="files")
        self.workspace = workspace
        self.files = files
        self._kind: Kind = kind
        self._face = workspace if isinstance(workspace, AsyncWorkspace) else None
        # All that an asynchronous workspace does is done by this one.
        self._verbs = workspace if isinstance(workspace, Workspace) else workspace._inner  # noqa: SLF001
        self._calls = Calls()
        self.ledger: Ledger = self._verbs.ledger(space)

    async def whole(self, work: Callable[[], Result]) -> Result:
        """Await work that goes to its end once it has started; cancelled before that, it never does."""
        if self._face is None:
            return await self._calls.whole(work)
        return await self._face._call(work, whole=True)  # noqa: SLF001 - as its own verbs are awaited

    async def looked(self, work: Callable[[LedgerReader], Result]) -> Result:
        """Await a question."""
        return await self.whole(partial(self.ledger.look, work))

    async def changed(self, work: Callable[[LedgerWriter], Result]) -> Result:
        """Await a change."""
        return await self.whole(partial(self.ledger.change, work))

    def keep_files(self, message: str, notes: Mapping[str, str], spoken: Spoken | None = None) -> str:
        """Keep the workspace's files, and what was said; return the checkpoint that holds them."""
        report = self._verbs.save(message, kind=self._kind, metadata=notes, **(spoken or {}))
        return report.checkpoint.id

    def restore_files(self, files: str, options: Mapping[str, Any]) -> RestoreReport:
        """Bring the files of a checkpoint back; ``options`` are those of `Workspace.restore`."""
        return self._verbs.restore(files, only=("files",), **options)
