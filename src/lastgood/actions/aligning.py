"""What a checkpoint keeps of the project's git: the paths that its status shows, and the index."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.model.checkpoint import GitState
    from lastgood.model.tree import Change
    from lastgood.ports.context import Context
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.host import Alignment
    from lastgood.ports.workspace import Scan

INDEX = "index"


def alignment(
    context: Context,
    scan: Scan,
    *,
    writer: ObjectWriter,
    since: str | None,
    changes: Sequence[Change] | None,
) -> Alignment | None:
    """Return how HEAD, index and files stand; None where there is no repository.

    ``changes`` are those since the checkpoint ``since``; None if they are not known.
    """
    if scan.result.git is None:
        return None
    known = since if changes is not None else None
    return context.project.alignment(
        context.root, scan=scan, writer=writer, since=known, changes=changes or ()
    )


def held(aligned: Alignment | None) -> Mapping[str, bytes]:
    """Return the blobs that a checkpoint holds of it, by name."""
    if aligned is None or aligned.index is None:
        return {}
    return {INDEX: aligned.index}


def git_state(git: GitState | None, aligned: Alignment | None) -> GitState | None:
    """Return the whole state of the project's git."""
    return git if git is None or aligned is None else git.replace(dirty=aligned.dirty)
