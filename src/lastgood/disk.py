"""What is said of a full disk: which one it is, what it has no room for, and what makes some."""

from __future__ import annotations

import errno
import os

from lastgood.errors import FULL, NoRoom
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    Place = str | bytes

PRUNE_HINT = "let go of checkpoints: lastgood prune --now --keep N"
_ELSEWHERE = "keep the store on another disk: LASTGOOD_STORE"
# What the least change of a store takes: a database's log and the index of that, a small pack.
LEAST_BYTES = 256 << 10
LEAST_FILES = 12
# Where a file system does not count its files.
_NO_LIMIT = 1 << 62


def no_room(error: OSError, *, doing: str, place: Place, hint: str | None = None) -> NoRoom:
    """Return what is said where something failed because the disk of a place is full.

    ``hint`` is what makes room by our own means, or says what to do when there is some. None is for a
    place in a store: it says what a prune can do there.
    """
    shown = printable(to_text(place) if isinstance(place, bytes) else place)
    if hint is None:
        hint = PRUNE_HINT if _has_packs(os.fsencode(place)) else _ELSEWHERE
    disk = f"the disk of {shown}" if shown else "the disk"
    lack, look = _lack(error, place)
    return NoRoom(
        f"{lack.format(disk)}: {doing} failed",
        hint=f"{hint}\nor make room on that disk yourself" + (f": {look} {shown}" if shown else ""),
        details={"errno": errno.errorcode.get(error.errno or 0, str(error.errno)), "path": shown},
    )


def _has_packs(place: bytes) -> bool:
    """Tell whether the store of a place has anything that a prune could free; also where nobody can tell."""
    while place and place != os.path.dirname(place):
        try:
            return any(name.endswith(b".pack") for name in os.listdir(place + b"/objects.git/objects/pack"))
        except FileNotFoundError:
            if os.path.exists(place + b"/objects.git"):
                return False
            place = os.path.dirname(place)
        except OSError:
            return True
    return not place


def _lack(error: OSError, place: Place) -> tuple[str, str]:
    """Return what is said of a disk, and the command that shows it."""
    if error.errno == errno.EDQUOT:
        return "your quota on {} is used up", "quota -s; df -h"
    if free(place)[1] == 0:
        return "{} is full (no inode is left for another file)", "df -i"
    return "{} is full (no space left)", "df -h"


def free(place: Place) -> tuple[int, int]:
    """Return how many bytes are free on the disk of a place, and how many files more it can have."""
    while place and not os.path.lexists(place):
        place = os.path.dirname(place)
    try:
        state = os.statvfs(place or b".")
    except OSError:
        return 0, 0
    return state.f_bavail * state.f_frsize, state.f_favail if state.f_files else _NO_LIMIT


def shortage(folder: Place, *, size: int = LEAST_BYTES) -> OSError | None:
    """Try whether a file of so many bytes can be made; return the error if the disk is too full for it."""
    bytes_free, files_free = free(folder)
    if bytes_free < size or files_free < LEAST_FILES:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        # Without a name: nothing of it is left if this process is killed.
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error if error.errno in FULL else None
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        return error if error.errno in FULL else None
    finally:
        os.close(descriptor)
    return None
