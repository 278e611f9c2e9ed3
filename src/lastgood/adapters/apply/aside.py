"""What stood in the way of another kind: out of the way at once, gone last (rule T5).

A path is set aside by moving it into a directory ``.lastgood-TOKEN-N.aside`` beside it, where it
keeps its name: so an interrupted restore can be cleared by looking at nothing but the directory.
"""

from __future__ import annotations

import errno
import os
from _blake2 import blake2b

from lastgood.adapters.apply.renaming import take
from lastgood.ids import is_operation_id
from lastgood.names import join, parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.apply.places import Directories

# What a path held before, or is about to hold: see `displaced`.
OLD = b".old"
SUFFIX = b".aside"
_NUMBER_BYTES = 6
_PRIVATE = 0o700
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def temporary_name(token: str, path: bytes) -> bytes:
    """Return the name of what is written beside a path: the same whoever asks, and whenever."""
    return b"%b%d" % (prefix(token), number_of(path))


def number_of(path: bytes) -> int:
    """Return the number of a path in temporary names."""
    return int.from_bytes(blake2b(path, digest_size=_NUMBER_BYTES).digest(), "big")


def is_temporary(name: bytes) -> bool:
    """Tell whether a name is one that an operation gives to something temporary."""
    parts = name.removesuffix(SUFFIX).removesuffix(OLD).decode("latin-1").split("-")
    return len(parts) == 3 and parts[0] == ".lastgood" and is_operation_id(parts[1]) and parts[2].isdigit()


def is_of(name: bytes, token: str) -> bool:
    """Tell whether a name is one that an operation gives: a person's copy beside it has another."""
    number = name.removesuffix(SUFFIX).removesuffix(OLD).removeprefix(prefix(token))
    return name.startswith(prefix(token)) and number.isdigit()


def number_in(name: bytes) -> int:
    """Return the number in a temporary name, -1 if it is none of ours."""
    number = name.removesuffix(SUFFIX).removesuffix(OLD).rpartition(b"-")[2]
    return int(number) if number.isdigit() else -1


def token_of(name: bytes) -> str:
    """Return the operation in a temporary name."""
    return name.split(b"-")[1].decode()


def set_aside(directories: Directories, path: bytes, temporary: bytes) -> bytes:
    """Move a path out of the way and return where it is."""
    above, name = parent(path), _name(path)
    wrapper = join(above, temporary + SUFFIX)
    directory = directories.open_to_change(above)
    os.mkdir(temporary + SUFFIX, _PRIVATE, dir_fd=directory)
    inside = directories.open(wrapper)
    try:
        os.rename(name, name, src_dir_fd=directory, dst_dir_fd=inside)
    except OSError:
        remove_directory(directories, wrapper)
        raise
    directories.moved(path, join(wrapper, name))
    return join(wrapper, name)


def put_back(directories: Directories, path: bytes, aside: bytes) -> bool:
    """Undo `set_aside`; False if somebody has made something in its place meanwhile."""
    directory = directories.open_to_change(parent(path))
    wrapper = parent(aside)
    inside = directories.open(wrapper)
    name = _name(path)
    try:
        take(name, inside, to=name, target=directory)
    except FileExistsError:
        return False
    directories.moved(aside, path)
    remove_directory(directories, wrapper)
    return True


def remove_directory(directories: Directories, path: bytes) -> bool:
    """Remove a directory; False if it is not empty."""
    directories.forget(path)
    try:
        os.rmdir(_name(path), dir_fd=directories.open_to_change(parent(path)))
    except OSError as error:
        if error.errno in _OCCUPIED:
            return False
        raise
    directories.unlocked.pop(path, None)
    return True


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def prefix(token: str) -> bytes:
    """Return how the temporary names of an operation begin."""
    return b".lastgood-%b-" % token.encode()
