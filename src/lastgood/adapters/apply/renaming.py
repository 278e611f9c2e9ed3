"""Renames that overwrite nothing (rule T12b): two names exchanged at once, or a free one taken.

Linux has both since 3.15 as renameat2(2), most of its file systems too. Where one is missing, callers of
`exchange` go another way, and a free name is taken by a second link.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
