"""Makes a store that lost its mark of format or its catalogue one that can be opened again."""

from __future__ import annotations

import os

from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.rebuild import mend_number, restore_from_backup
from lastgood.errors import Damaged, Unsupported
from lastgood.locks import FlockLocks
from lastgood.paths import to_text
from lastgood.store import check_owner, format_fault, make_private, mend_format, read_format
from lastgood.workspace.arguments import no_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.host import Clock

# How long others may hold the store before a repair gives up, in seconds.
_WAIT = 30.0
_SIGNS = (b"/format", b"/catalogue.sqlite3", b"/objects.git")


def repair_opening(directory: bytes, *, clock: Clock) -> tuple[str, ...]:
    """Mend what keeps a store from being opened, and say what was done.

    The objects themselves are not looked at: that is `verify`. Raises `NotFound` where no store is.
    """
    check_owner(directory)
    if not any(os.path.lexists(directory + name) for name in _SIGNS):
        raise no_store(directory)
    wrong = _is_mark_wrong(directory)
    for folder in (b"/locks", b"/workspaces", b"/tmp"):
        make_private(directory + folder)
    locks, catalogue = FlockLocks(directory), to_text(directory) + "/catalogue.sqlite3"
    if not wrong:
        with locks.share_store(wait=_WAIT):  # nothing has to be kept out where nothing is wrong
            if _is_whole(catalogue, clock=clock):
                return ()
    with locks.hold_store(wait=_WAIT):
        done = _catalogue(catalogue, clock=clock)
        if not wrong:
            return done
        # Only now: a newer catalogue is refused, and nothing of its store is written to.
        mend_format(directory)
        return ("the store's mark of format was written anew", *done)


def _is_mark_wrong(directory: bytes) -> bool:
    try:
        return not read_format(directory) or format_fault(directory) is not None
    except Damaged:
        return True


def _catalogue(path: str, *, clock: Clock) -> tuple[str, ...]:
    done = mend_number(path) if os.path.lexists(path) else ()
    try:
        if _stands(path, clock=clock):
            return done
    except Unsupported as error:
        raise Unsupported(
            f"{error.message}; what it holds does not prove that its version is damaged",
            hint="use the newer lastgood for this store",
            details=error.details,
        ) from error
    return (*done, *restore_from_backup(path, generation=clock.random().hex(), at=clock.now()))


def _is_whole(path: str, *, clock: Clock) -> bool:
    """Tell whether a catalogue needs no mending; False too where that cannot be told."""
    try:
        return _stands(path, clock=clock)
    except Unsupported:
        return False


def _stands(path: str, *, clock: Clock) -> bool:
    """Tell whether a catalogue is sound and no older one; `Unsupported`."""
    if not os.path.lexists(path):
        return False
    try:
        catalogue = SqliteCatalogue.open(path, clock=clock, create=False)
    except Damaged:
        return False
    try:
        return catalogue.fault() is None and not catalogue.is_older()
    except Damaged:
        return False
    finally:
        catalogue.close()
