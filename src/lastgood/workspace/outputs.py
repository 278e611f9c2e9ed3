"""Where the outputs of runs are kept, and when they go."""

from __future__ import annotations

import os

from lastgood.ports.catalogue import Query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.ports.context import Context

# The folder, beside a workspace's scan cache, in which runs keep what their tasks wrote.
RUNS = b"runs"


def outputs_of(store: bytes, key: str, session: str) -> bytes:
    """Return the folder in which a run keeps what its tasks wrote."""
    return os.path.join(store, b"workspaces", key.encode(), RUNS, session.encode())


def clear_outputs(context: Context) -> int:
    """Remove the outputs of sessions that have ended and have no checkpoint left; say of how many."""
    gone = 0
    for session, folder in _folders(context.store):
        found = context.work.session(session)
        if found is not None and found.state != "ended":
            continue
        if not context.catalogue.find(Query(session=session, deleted=True, limit=1)):
            gone += _remove(folder)
    return gone


def _folders(store: bytes) -> Iterator[tuple[str, bytes]]:
    place = os.path.join(store, b"workspaces")
    for key in _names(place):
        runs = os.path.join(place, key, RUNS)
        yield from ((os.fsdecode(name), os.path.join(runs, name)) for name in _names(runs))


def _names(folder: bytes) -> list[bytes]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(folder: bytes) -> bool:
    """Remove a folder of outputs; tell whether it is gone."""
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        return False  # the next maintenance tries again
    return True
