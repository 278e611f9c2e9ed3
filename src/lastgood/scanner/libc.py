"""Calls of libraries in C that answer into memory of the caller's, without making an object of it.

They keep the interpreter: to get it back from a busy thread takes longer than many of them. So they are made
only where no network has to answer. By what `ctypes` is made of: that takes 3 ms to import, and this a tenth.
"""

from __future__ import annotations

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
    """Return a function of a library, or of what is loaded already; OSError if there is none of this name.

    It is called with whole numbers of up to 32 bits, bytes and pointers, and returns a whole number.
    """
    if name not in _known:
        whole = dlopen(library, 0)  # type: ignore[arg-type]  # None: what is loaded already
        _known[name] = _Call(dlsym(whole, name))
    return _known[name]


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
