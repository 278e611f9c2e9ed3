"""What a checkpoint keeps of the project's git: the paths that its status shows, and the index."""

from __future__ import annotations

from lastgood.errors import Unsafe, Unsupported
from lastgood.model.report import HealthNote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.model.checkpoint import Checkpoint, GitState
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


def remarks(aligned: Alignment | None) -> tuple[HealthNote, ...]:
    """Return what is to be said about what a checkpoint does not hold of it."""
    if aligned is None or aligned.too_large is None:
        return ()
    size = aligned.too_large >> 20
    return (
        HealthNote(
            code="index-too-large",
            message=f"the project's index is not held: it has {size} MiB",
            hint="restore without --git",
        ),
    )


def is_aligned(context: Context, checkpoint: Checkpoint) -> bool:
    """Tell whether a checkpoint holds HEAD and index as they are now, where they can be put back at all."""
    git = checkpoint.manifest.git
    if git is None:
        return True
    try:
        posture = context.project.posture(context.root)
    except (Unsafe, Unsupported):
        return True
    if posture is None:
        return True
    now = posture.stance
    named = None if git.branch is None else f"refs/heads/{git.branch}"
    return (git.head, named, checkpoint.manifest.state.get(INDEX)) == (now.commit, now.branch, now.index)
