"""What others could do with a store (rule S18): look into it, or take it away."""

from __future__ import annotations

import os

from lastgood.disk_usage import count_files
from lastgood.errors import count
from lastgood.model.checkpoint import HealthNote
from lastgood.paths import printable, to_text, within
from lastgood.store import foreign_ways, lax_places
from lastgood.workspace.arguments import KEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_SHOWN = 3


def exposures(store: bytes) -> tuple[HealthNote, ...]:
    """Return what there is to say; nothing where it cannot be looked at, which others tell."""
    try:
        lax, ways = lax_places(store), foreign_ways(store)
    except OSError:
        return ()
    notes = []
    if lax:
        more = f" and {len(lax) - _SHOWN} more" if len(lax) > _SHOWN else ""
        notes.append(
            HealthNote(
                code="privacy",
                message=f"others may look into {', '.join(map(_shown, lax[:_SHOWN]))}{more}",
                hint=f"chmod -R go= {_shown(store)}",
            )
        )
    notes += [
        HealthNote(
            code="store-below-others",
            message=f"the store lies below {_shown(folder)}, which {whose}, and could be taken away there",
            hint="keep it below folders of your own: LASTGOOD_STORE",
        )
        for folder, whose in ways
    ]
    return tuple(notes)


def misplaced(store: bytes, root: bytes) -> tuple[HealthNote, ...]:
    """Return what is said of a store that lies inside the workspace, as earlier versions made them."""
    if not within(store, root):
        return ()
    return (
        HealthNote(
            code="store-inside",
            message=f"the store {_shown(store)} lies inside the workspace: whoever deletes that deletes both",
            hint="move it to a place outside, then name that: --store DIR, or LASTGOOD_STORE",
        ),
    )


def closed(store: bytes) -> HealthNote:
    """Return what is said when others could look into a store until it was opened."""
    left = lax_places(store)
    if store in left:
        return exposures(store)[0]
    return HealthNote(
        code="store-was-open",
        message=f"others could look into the store {_shown(store)}; it is closed to them now",
        hint="whoever opened it to them may do so again: it holds your files",
    )


def _shown(path: bytes) -> str:
    return printable(to_text(path))


# --- What restores found in use and keep in the store: people's edits, which only they can judge (T12b) ---


def kept_edits(store: bytes, keys: Iterable[str]) -> tuple[HealthNote, ...]:
    """Return what there is to say of what is kept of some workspaces: how much, and where."""
    notes = []
    for key in keys:
        folder = store + b"/workspaces/" + key.encode() + KEPT
        number, size = count_files(folder) if os.path.lexists(folder) else (0, 0)
        if number:
            notes.append(
                HealthNote(
                    code="kept-edits",
                    message=f"{_shown(folder)} holds {count(number, 'file')} ({size:,} bytes) that somebody"
                    " was writing to when a restore came",
                    hint="take from there what you want, then delete it: lastgood never does",
                )
            )
    return tuple(notes)
