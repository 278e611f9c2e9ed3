"""Calls of the C library that answer into memory of the caller's, without making an object of it.

They keep the interpreter: to get it back from a busy thread takes longer than many of them. So they are made
only where no network has to answer. By what `ctypes` is made of: that takes 3 ms to import, and this a tenth.
"""

from __future__ import annotations

from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_PYTHONAPI, CFuncPtr, _SimpleCData, byref, dlopen, dlsym

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class _Int(_SimpleCData):  # type: ignore[type-arg]  # at run time it has no arguments
    _type_ = "i"


class _Byte(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class _Call(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_PYTHONAPI
    _restype_ = _Int


_known: dict[str, Callable[..., int]] = {}


def look_up(name: str) -> Callable[..., int]:
    """Return a function of this process's library; OSError if there is none of this name.

    It is called with whole numbers, bytes and pointers, and returns a whole number.
    """
    if name not in _known:
        whole = dlopen(None, 0)  # type: ignore[arg-type]  # what is loaded already
        _known[name] = _Call(dlsym(whole, name))
    return _known[name]


def pointers(memory: bytearray, *, apart: int) -> Sequence[object]:
    """Return pointers into some memory, each so many bytes after the one before."""
    whole = (_Byte * len(memory)).from_buffer(memory)
    return [byref(whole, start) for start in range(0, len(memory), apart)]
