"""Calls of libraries in C that answer into memory of the caller's, without making an object of it.

They keep the interpreter: to get it back from a busy thread takes longer than many of them. So they are made
only where no network has to answer. By what `ctypes` is made of: that takes 3 ms to import, and this a tenth.
"""

from __future__ import annotations

import os
from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_PYTHONAPI, CFuncPtr, _SimpleCData, byref, dlopen, dlsym
from _struct import unpack_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

# AT_EMPTY_PATH, STATX_MNT_ID_UNIQUE, and where in struct statx the number of the mount lies.
_ITSELF: Final = 0x1000
_UNIQUE_MOUNT: Final = 0x4000
_MOUNT: Final = 144
# As much as struct statx has, and more than struct statfs on any processor.
_ANSWER_BYTES: Final = 256


class _Int(_SimpleCData):  # type: ignore[type-arg]  # at run time it has no arguments
    _type_ = "i"


class _Byte(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class _Call(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_PYTHONAPI
    _restype_ = _Int


_known: dict[str, Callable[..., int]] = {}


def look_up(name: str, *, library: str | None = None) -> Callable[..., int]:
    """Return a function of a library, or of what is loaded already.

    It is called with whole numbers of up to 32 bits, bytes and pointers, and returns a whole number. OSError
    if there is none of this name, and if the library is none for this machine or its end is missing.
    """
    if name not in _known:
        if library is not None:
            _refuse_cut_off(library)
        opened = dlopen(library, 0)  # type: ignore[arg-type]  # None: what is loaded already
        _known[name] = _Call(dlsym(opened, name))
    return _known[name]


# What a library begins with. By its mark for addresses of 64 bits, or of 32: how it is told in that where the
# last table begins, how large a row of it is and how many there are, and where that lies.
_HEAD_BYTES: Final = 64
_LAST_TABLE: Final = {2: ("=Q10xHH", 40), 1: ("=I10xHH", 32)}


def _refuse_cut_off(library: str) -> None:
    """Raise OSError if the end of a library is missing: of that glibc's loader would die, by SIGBUS."""
    with open(library, "rb", 0) as file:
        head, size = file.read(_HEAD_BYTES), os.fstat(file.fileno()).st_size
    form = _LAST_TABLE.get(head[4]) if len(head) == _HEAD_BYTES else None
    if form is None:
        return  # which the loader says
    start, row, rows = unpack_from(form[0], head, form[1])
    if start + row * rows > size:
        raise OSError(f"{library}: its end is missing")


def pointer(memory: bytearray) -> object:
    """Return a pointer to some memory, which keeps its length as long as that is there."""
    return byref((_Byte * len(memory)).from_buffer(memory))


def file_system_number(descriptor: int) -> int | None:
    """Return the number of an open file's file system, by statfs(2); None if that is refused."""
    told = bytearray(_ANSWER_BYTES)
    refused = look_up("fstatfs")(descriptor, pointer(told))
    return None if refused else unpack_from("@l", told)[0]


def mount_number(directory: int) -> int | None:
    """Return the number of the mount of an open directory; None where the kernel has none that stays."""
    told = bytearray(_ANSWER_BYTES)
    if look_up("statx")(directory, b"", _ITSELF, _UNIQUE_MOUNT, pointer(told)):
        return None
    mask, number = unpack_from("=I", told)[0], unpack_from("=Q", told, _MOUNT)[0]
    return number if mask & _UNIQUE_MOUNT else None
