"""show: what a checkpoint holds."""

from __future__ import annotations

from lastgood.errors import NotFound
from lastgood.model.report import ListedEntry
from lastgood.model.tree import DIRECTORY
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.ports.context import Context
    from lastgood.view import View


def entries(context: Context, view: View, checkpoint: Checkpoint) -> tuple[ListedEntry, ...]:
    """Return every path of a checkpoint, sorted by bytes; directories have the size 0."""
    with context.locks.share_store(wait=context.wait):
        found = [
            ListedEntry(
                path=path,
                mode=entry.mode,
                kind=entry.kind,
                size=0 if entry.kind == DIRECTORY else context.engine.blob_size(entry.oid),
                oid=entry.oid.hex(),
            )
            for path, entry in view.tree(checkpoint).walk()
        ]
    return tuple(sorted(found, key=lambda entry: entry.path))


def content(context: Context, view: View, checkpoint: Checkpoint, *, path: bytes) -> bytes:
    """Return the content of one file, or the target of a link."""
    with context.locks.share_store(wait=context.wait):
        entry = view.tree(checkpoint).entry(path)
        if entry is None or entry.kind == DIRECTORY:
            raise NotFound(
                f"{checkpoint.short_id} holds no file '{printable(to_text(path))}'",
                hint=f"see what it holds: lastgood show {checkpoint.short_id} --files",
            )
        return context.engine.read_blob(entry.oid)
