"""Renames that overwrite nothing (rule T12b): two names exchanged at once, or a free one taken.

Linux has both since 3.15 as renameat2(2), most of its file systems too. Where one is missing, callers of
`exchange` go another way, and a free name is taken by a second link.

A path is set aside by moving it into a directory ``.lastgood-TOKEN-N.aside`` beside it, where it
keeps its name: so an interrupted restore can be cleared by looking at nothing but the directory.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from _blake2 import blake2b

from lastgood.ids import is_operation_id
from lastgood.paths import join, parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.directories import Directories

    # Two directories with a name each, and flags; returns the error's number, 0 if it went well.
    Rename = Callable[[int, bytes, int, bytes, int], int]


# From the kernel's include/uapi/linux/fs.h.
_ONLY_FREE = 1
_EXCHANGE = 2
# The number of the call where the C library has no name for it (musl, old glibc).
_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276}
# What a kernel, a file system or a sandbox says that does not know the call, or one of its flags.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})
# What a file system says that has no links, and a kernel that lets nobody link to the files of others.
_UNLINKED = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_renames: list[Rename | None] = []


def exchange(one: bytes, other: bytes, directory: int) -> bool:
    """Exchange what two names in a directory stand for, at once; False where that cannot be done."""
    return _rename(directory, one, directory, other, flags=_EXCHANGE)


def take(name: bytes, directory: int, *, to: bytes, target: int) -> None:
    """Move a name to another one, in another directory perhaps; FileExistsError if that is taken.

    Where the file system can neither do so nor link, a file that comes in the very moment of the move
    is not noticed; a directory takes the place of nothing but an empty one.
    """
    if _rename(directory, name, target, to, flags=_ONLY_FREE):
        return
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        try:
            os.link(name, to, src_dir_fd=directory, dst_dir_fd=target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _UNLINKED:
                raise
        else:
            os.unlink(name, dir_fd=directory)
            return
    if is_there(to, target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(name, to, src_dir_fd=directory, dst_dir_fd=target)


def is_there(name: bytes, directory: int) -> bool:
    """Tell whether a name stands for anything."""
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _rename(directory: int, name: bytes, target: int, to: bytes, *, flags: int) -> bool:
    if not _renames:
        _renames.append(of_system())
    rename = _renames[0]
    if rename is None:
        return False
    sys.audit("os.rename", name, to, directory, target)
    number = rename(directory, name, target, to, flags)
    if number in _UNKNOWN:
        return False
    if number:
        raise OSError(number, os.strerror(number))
    return True


def of_system() -> Rename | None:
    """Return the system's call, None if it has none."""
    try:
        import ctypes
    except ImportError:  # Python was built without
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None
    call = getattr(library, "renameat2", None)
    first: tuple[int, ...] = ()
    if call is None:
        known = _NUMBERS.get(os.uname().machine) if sys.platform == "linux" else None
        if known is None or ctypes.sizeof(ctypes.c_void_p) != 8:
            return None
        call, first = library.syscall, (known,)
    types = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.argtypes = (*(ctypes.c_long for _ in first), *types)

    def rename(directory: int, name: bytes, target: int, to: bytes, flags: int) -> int:
        while call(*first, directory, name, target, to, flags):
            number = ctypes.get_errno()
            if number != errno.EINTR:
                return number
        return 0

    return rename


# --- What stood in the way of another kind: out of the way at once, gone last (rule T5) ---

# What a path held before, or is about to hold: see `displaced`.
OLD = b".old"
SUFFIX = b".aside"
_NUMBER_BYTES = 6
_PRIVATE_FOLDER = 0o700
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
    os.mkdir(temporary + SUFFIX, _PRIVATE_FOLDER, dir_fd=directory)
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
