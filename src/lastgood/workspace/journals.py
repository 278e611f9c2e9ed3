"""The restore journals of all workspaces of a store."""

from __future__ import annotations

import os

from lastgood.errors import Storage
from lastgood.names import printable, to_text

JOURNAL = b"restore.journal"
# Beside it: what came out of a path while somebody had it open for writing (rule T12b).
KEPT = b"/kept"


def interrupted_workspaces(store: bytes) -> frozenset[str]:
    """Return the keys of the workspaces where a restore waits to be finished, readable or not."""
    folder = store + b"/workspaces"
    try:
        keys = os.listdir(folder)
        return frozenset(to_text(key) for key in keys if os.path.lexists(b"/".join((folder, key, JOURNAL))))
    except OSError as error:
        raise Storage(
            f"{printable(to_text(folder))} cannot be read: {error.strerror}", hint="look at its permissions"
        ) from error
