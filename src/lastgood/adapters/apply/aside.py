"""What stood in the way of another kind: out of the way at once, gone last (rule T5).

A path is set aside by moving it into a directory ``.lastgood-TOKEN-N.aside`` beside it, where it
keeps its name: so an interrupted restore can be cleared by looking at nothing but the directory.
"""

from __future__ import annotations

import errno
import os
import stat

from lastgood.adapters.apply.places import is_nowhere
from lastgood.ids import is_operation_id
from lastgood.names import join, parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.apply.places import Directories

_SUFFIX = b".aside"
_PRIVATE = 0o700
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def temporary_name(token: str, number: int) -> bytes:
    """Return the name of the file that is written beside the target of a step."""
    return b"%b%d" % (_prefix(token), number)


def is_temporary(name: bytes) -> bool:
    """Tell whether a name is one that an operation gives to something temporary."""
    parts = name.removesuffix(_SUFFIX).decode("latin-1").split("-")
    return len(parts) == 3 and parts[0] == ".lastgood" and is_operation_id(parts[1]) and parts[2].isdigit()


def token_of(name: bytes) -> str:
    """Return the operation in a temporary name."""
    return name.split(b"-")[1].decode()


def set_aside(directories: Directories, path: bytes, temporary: bytes) -> bytes:
    """Move a path out of the way and return where it is."""
    above, name = parent(path), _name(path)
    wrapper = join(above, temporary + _SUFFIX)
    directory = directories.open_to_change(above)
    os.mkdir(temporary + _SUFFIX, _PRIVATE, dir_fd=directory)
    inside = directories.open(wrapper)
    try:
        os.rename(name, name, src_dir_fd=directory, dst_dir_fd=inside)
    except OSError:
        _remove_directory(directories, wrapper)
        raise
    directories.moved(path, join(wrapper, name))
    return join(wrapper, name)


def put_back(directories: Directories, path: bytes, aside: bytes) -> None:
    """Undo `set_aside`; the path is free."""
    directory = directories.open_to_change(parent(path))
    wrapper = parent(aside)
    inside = directories.open(wrapper)
    name = _name(path)
    os.rename(name, name, src_dir_fd=inside, dst_dir_fd=directory)
    directories.moved(aside, path)
    _remove_directory(directories, wrapper)


def discard(directories: Directories, aside: bytes) -> bool:
    """Delete what was set aside, a directory only if it is empty, and tell whether it is gone."""
    directory = directories.open(parent(aside))
    found = os.stat(_name(aside), dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(_name(aside), dir_fd=directory)
    elif not _remove_directory(directories, aside):
        return False
    return _remove_directory(directories, parent(aside))


def clear(directories: Directories, path: bytes, token: str) -> None:
    """Settle everything temporary that an interrupted apply left in one directory."""
    prefix = _prefix(token)
    for name in directories.names(path):
        if not name.startswith(prefix):
            continue
        if name.endswith(_SUFFIX):
            _settle(directories, join(path, name))
        else:
            os.unlink(name, dir_fd=directories.open_to_change(path))


def _settle(directories: Directories, wrapper: bytes) -> None:
    above = parent(wrapper)
    # Moving into it was the last change of the wrapper.
    since = os.fstat(directories.open(wrapper)).st_mtime_ns
    for name in directories.names(wrapper):
        directory = directories.open_to_change(above)
        if _is_free(name, directory):
            put_back(directories, join(above, name), join(wrapper, name))
            return
        _purge(directories, join(wrapper, name), since)
    _remove_directory(directories, wrapper)


def _purge(directories: Directories, path: bytes, since: int) -> None:
    """Delete what was proven to be as the guard holds it when it was set aside, and nothing later."""
    directory = directories.open_to_change(parent(path))
    if not stat.S_ISDIR(os.stat(_name(path), dir_fd=directory, follow_symlinks=False).st_mode):
        os.unlink(_name(path), dir_fd=directory)
        return
    order = [path]
    for place in order:  # grows
        for name in directories.names(place):
            directory = directories.open_to_change(place)
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                order.append(join(place, name))
            elif found.st_ctime_ns <= since:
                os.unlink(name, dir_fd=directory)
    for place in reversed(order):
        _remove_directory(directories, place)


def _is_free(name: bytes, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        return is_nowhere(error)
    return False


def _remove_directory(directories: Directories, path: bytes) -> bool:
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


def _prefix(token: str) -> bytes:
    return b".lastgood-%b-" % token.encode()
