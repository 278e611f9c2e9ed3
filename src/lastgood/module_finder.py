"""Finds the modules of this package where a command loads dozens of them, in half the time that Python takes.

Python's finder works for any folder and any kind of module: it asks for the folder's times, tries the
suffixes of five kinds, and asks for the source twice. Of this package it is known that a module is a source,
beside which Python has laid its compiled form. That is opened at once, and counts, as ever, only if it is of
this Python and of the source as it lies there, by its time and size. Whatever is otherwise (not compiled, an
older form, one proven by a digest, a package in an archive) is left to Python's own finder.
"""

from __future__ import annotations

import posix
import sys
from _frozen_importlib import BuiltinImporter, ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]  # it is there since Python 3.2
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

_PACKAGE = __name__.rpartition(".")[0] + "."
_COMPILED = f".{sys.implementation.cache_tag}.pyc"
# Of one that is proven by the time and the size of its source, which follow.
_BEGINNING = MAGIC_NUMBER + bytes(4)
_HEADER = 16
_MOST = 0xFFFFFFFF


class _Loader(SourceFileLoader):
    """Loads a module by what its finder has read of its compiled form."""

    def __init__(self, name: str, path: str, *, content: bytes) -> None:
        super().__init__(name, path)
        self._content: bytes | None = content

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module."""
        content, self._content = self._content, None
        if content is None:  # asked again
            return super().get_code(fullname)
        code: CodeType = loads(memoryview(content)[_HEADER:])  # noqa: S302 - as Python's own loader does
        _fix_co_filename(code, self.path)
        return code


class ModuleFinder:
    """What Python asks for modules (`sys.meta_path`)."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        """Return where a module of this package is; None if that is for others to find."""
        if path is None or len(path) != 1 or not name.startswith(_PACKAGE):
            return None
        folder, tail = path[0], name.rpartition(".")[2]
        return _found(name, folder, tail) or _found(name, f"{folder}/{tail}", "__init__")


def install() -> None:
    """Have modules of this package be found so from now on, where Python lays compiled ones beside them."""
    if sys.flags.optimize or sys.pycache_prefix or BuiltinImporter not in sys.meta_path:
        return
    # Before Python's own, after those that somebody else has put first.
    sys.meta_path.insert(sys.meta_path.index(BuiltinImporter), ModuleFinder)


def _found(name: str, folder: str, tail: str) -> ModuleSpec | None:
    compiled, source = f"{folder}/__pycache__/{tail}{_COMPILED}", f"{folder}/{tail}.py"
    try:
        content = _read(compiled)
        if content is None:
            return None
        state = posix.stat(source)
    except (OSError, ValueError):
        return None
    proof = b"%b%b" % (
        (int(state.st_mtime) & _MOST).to_bytes(4, "little"),
        (state.st_size & _MOST).to_bytes(4, "little"),
    )
    if content[:_HEADER] != _BEGINNING + proof:
        return None
    spec = ModuleSpec(name, _Loader(name, source, content=content), origin=source)
    spec.has_location = True
    spec.cached = compiled
    if tail == "__init__":
        spec.submodule_search_locations = [folder]
    return spec


def _read(path: str) -> bytes | None:
    """Return what a file holds, None if not all of it came; OSError."""
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        size = posix.fstat(descriptor).st_size
        content = posix.read(descriptor, size)
    finally:
        posix.close(descriptor)
    return content if len(content) == size else None
