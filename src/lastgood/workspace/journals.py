"""The restore journals of all workspaces of a store."""

from __future__ import annotations

import os

from lastgood.errors import Storage
from lastgood.names import printable, to_text

JOURNAL = b"restore.journal"


def is_interrupted_anywhere(store: bytes) -> bool:
    """Tell whether a restore of any workspace waits to be finished, its journal readable or not."""
    folder = store + b"/workspaces"
    try:
        return any(os.path.lexists(b"/".join((folder, key, JOURNAL))) for key in os.listdir(folder))
    except OSError as error:
        raise Storage(
            f"{printable(to_text(folder))} cannot be read: {error.strerror}", hint="look at its permissions"
        ) from error
