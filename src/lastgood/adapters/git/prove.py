"""Proves stored objects by their ids."""

from __future__ import annotations

from lastgood.adapters.git.objects import KIND_NAMES
from lastgood.errors import CROWDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.git.objects import Hasher
    from lastgood.adapters.git.pack_read import PackFile


def prove_object(pack: PackFile, offset: int, *, oid: bytes, hasher: Hasher) -> str:
    """Return what is wrong with an object, empty when nothing is; in bounded memory but for deltas.

    OSError where nothing can be opened: that is no fault of the object.
    """
    try:
        found = object_at(pack, offset, hasher=hasher)
    except OSError as error:
        if error.errno in CROWDED:
            raise
        return str(error)
    except ValueError as error:
        return str(error)
    return "" if found == oid else "its bytes are not what they were"


def object_at(pack: PackFile, offset: int, *, hasher: Hasher) -> bytes:
    """Return the id that an entry's bytes give, in bounded memory but for deltas; OSError, ValueError."""
    streamed = pack.stream(offset)
    if streamed is None:
        return hasher.object_id(*pack.read(offset))
    kind, size, content = streamed
    running = hasher.begin(b"%b %d\0" % (KIND_NAMES[kind], size), size=size)
    for piece in content:
        running.update(piece)
    return running.digest()
