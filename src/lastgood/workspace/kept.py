"""What restores found in use and keep in the store: people's edits, which only they can judge (T12b)."""

from __future__ import annotations

import os

from lastgood.adapters.disk_usage import count_files
from lastgood.model.report import HealthNote
from lastgood.names import printable, to_text
from lastgood.workspace.journals import KEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def kept_edits(store: bytes, keys: Iterable[str]) -> tuple[HealthNote, ...]:
    """Return what there is to say of what is kept of some workspaces: how much, and where."""
    notes = []
    for key in keys:
        folder = store + b"/workspaces/" + key.encode() + KEPT
        number, size = count_files(folder) if os.path.lexists(folder) else (0, 0)
        if number:
            files = "1 file" if number == 1 else f"{number:,} files"
            notes.append(
                HealthNote(
                    code="kept-edits",
                    message=f"{files} ({size:,} bytes) that somebody was writing to when a restore came"
                    f" lie in {_shown(folder)}",
                    hint="take from there what you want, then delete it: lastgood never does",
                )
            )
    return tuple(notes)


def _shown(path: bytes) -> str:
    return printable(to_text(path))
