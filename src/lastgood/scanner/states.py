"""What stat(2) says of the entries of a directory, as rows of numbers.

A scan that finds everything as it was does nearly nothing but ask, and to make an object of each answer
takes most of that time. So a library in C, `states.c`, asks for all that is in a directory, or in many, and
writes the rows; objects are made of what differs. It is compiled where lastgood is installed or comes with
it; without it `os.stat` asks, and what it says is packed alike.
"""

from __future__ import annotations

import os
from _struct import Struct

from lastgood.scanner import FORMAT_DIRECTORY, FORMAT_MASK, evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Final

    from lastgood.scanner import Evidence, Seen

# A second in nanoseconds.
_SECOND: Final = 1_000_000_000


# --- As they are kept: a row of numbers for each entry ---

# Inode, size, seconds and nanoseconds of both times, mode.
_ROW: Final = Struct("=QQqIqIH")
_ENTRY_BYTES: Final = _ROW.size


def packed(stats: Iterable[Evidence | int]) -> bytes:
    """Return what was said of some entries, the mode alone of a directory, as it is compared."""
    return b"".join([_packed_one(*((one, 0, 0, 0, 0) if isinstance(one, int) else one)) for one in stats])


def unpacked(states: bytes) -> list[Evidence | int]:
    """Return what was said of some entries."""
    return [
        mode
        if mode & FORMAT_MASK == FORMAT_DIRECTORY
        else (mode, size, mtime * _SECOND + mtime_part, ctime * _SECOND + ctime_part, inode)
        for inode, size, ctime, ctime_part, mtime, mtime_part, mode in _ROW.iter_unpack(states)
    ]


def changed(before: bytes, now: bytes) -> dict[int, Evidence | int]:
    """Return what is said now of the entries of which it is something else, by their places.

    There are as many of them as before.
    """
    return {
        at // _ENTRY_BYTES: unpacked(row)[0]
        for at in range(0, len(now), _ENTRY_BYTES)
        if (row := now[at : at + _ENTRY_BYTES]) != before[at : at + _ENTRY_BYTES]
    }


def one_of(states: bytes, place: int) -> Evidence | int:
    """Return what was said of the entry at a place."""
    at = place * _ENTRY_BYTES
    return unpacked(states[at : at + _ENTRY_BYTES])[0]


def patched(states: bytes, told: Mapping[int, Evidence]) -> bytes:
    """Return what was said of some entries, with something else of those at some places."""
    made = bytearray(states)
    for place, stat in told.items():
        at = place * _ENTRY_BYTES
        made[at : at + _ENTRY_BYTES] = _packed_one(*stat)
    return bytes(made)


def _packed_one(mode: int, size: int, mtime: int, ctime: int, inode: int) -> bytes:
    return _ROW.pack(inode, size, *divmod(ctime, _SECOND), *divmod(mtime, _SECOND), mode)


# --- Asks ---


def ask(descriptor: int, names: Sequence[bytes]) -> list[Evidence | int]:
    """Ask for each entry of an open directory; OSError if that is refused for one."""
    stat = os.stat
    return [
        evidence(seen)
        if (seen := stat(name, dir_fd=descriptor, follow_symlinks=False)).st_mode & FORMAT_MASK
        != FORMAT_DIRECTORY
        else seen.st_mode
        for name in names
    ]


# The library, which lies where this does. The number is that of its form, and has Python take it for no
# module.
_LIBRARY: Final = os.path.join(os.path.dirname(__file__), "libstates.so.2")
# What is asked of many folders: their device, how many there are, the flags that are in doubt, how many may
# be otherwise. What is known of one: how many it lies in, its flags, the bytes of its name, of the names in
# it and of what was said of these, and whether its own state proves the names, with that.
_QUESTION: Final = Struct("=Q4I")
_FOLDER: Final = Struct("=6I5Q")
# What is found: a folder's number, the bytes that are said of what is in it, its descriptor, and where in the
# answers they are.
_FINDING: Final = Struct("=IIiI")
MOST_FOUND: Final = 64
# What answers have room for at first, of so many entries.
_FIRST_ENTRIES: Final = 64
# So many entries are asked for in one call: meanwhile nothing else runs, and no Ctrl-C is heard.
_MOST_AT_ONCE: Final = 4_096
_NOT_TOLD: Final = (1 << 32) - 1
# A flag that no record has: what was said of what is in the folder is not known.
_UNKNOWN: Final = 1 << 31
_UNPROVEN: Final = (0, 0, 0, 0, 0)
# Times in nanoseconds before 1677 and after 2262 need more bits than are compared.
_COMPARED_BITS: Final = (1 << 64) - 1


class Sheet:
    """Memory for some answers, to be used by one scan at a time, and the library that fills it.

    ``has_links`` tells whether anything but a directory had several when a directory was last asked for.
    """

    def __init__(self) -> None:
        from lastgood.scanner.libc import look_up, pointer

        self._states: Callable[..., int] = look_up("lastgood_states", library=_LIBRARY)
        self._changed: Callable[..., int] = look_up("lastgood_changed", library=_LIBRARY)
        self._point = pointer
        self._found = bytearray(MOST_FOUND * _FINDING.size)
        self._to_found = pointer(self._found)
        self._make_room(_FIRST_ENTRIES * _ENTRY_BYTES)
        self.has_links: bool = False

    def _make_room(self, size: int) -> None:
        memory = bytearray(size)
        self.size: int = size
        self._answers, self._to_answers = memoryview(memory), self._point(memory)

    def ask(self, descriptor: int, names: bytes) -> bytes | None:
        """Return what is said of each of some names in an open directory; None if one could not be asked."""
        many = names.count(b"\0") + 1 if names else 0
        if many <= _MOST_AT_ONCE:
            return self._ask(descriptor, names, many)
        each, has_links, told = names.split(b"\0"), False, list[bytes]()
        for start in range(0, many, _MOST_AT_ONCE):
            some = each[start : start + _MOST_AT_ONCE]
            said = self._ask(descriptor, b"\0".join(some), len(some))
            if said is None:
                return None
            has_links |= self.has_links
            told.append(said)
        self.has_links = has_links
        return b"".join(told)

    def _ask(self, descriptor: int, names: bytes, many: int) -> bytes | None:
        size = many * _ENTRY_BYTES
        if size > len(self._answers):
            self._make_room(size)
        said = self._states(descriptor, names, many, self._to_answers)
        self.has_links = said > 0
        return None if said < 0 else self._answers[:size].tobytes()

    def changed(
        self, root: int, folders: bytes, *, count: int, device: int, doubt: int, most: int
    ) -> list[tuple[int, int, bytes | None]] | None:
        """Return which of so many ``folders``, as `known_folder` makes them, are not as they were.

        Each comes with its number, its descriptor, for it is left open, and what is said of what is in it;
        None where its names are not proven. Those with a flag of some that are in ``doubt`` are among them.
        None for all if one cannot be opened, or more than the ``most`` are found.
        """
        if len(folders) > len(self._answers):  # they hold as much as can be said of them, and more
            self._make_room(len(folders))
        question = _QUESTION.pack(device, count, doubt | _UNKNOWN, min(most, MOST_FOUND), 0)
        many = self._changed(root, question, folders, self._to_answers, self._to_found)
        if many < 0:
            return None
        found: list[tuple[int, int, bytes | None]] = []
        for at in range(0, many * _FINDING.size, _FINDING.size):
            number, told, descriptor, place = _FINDING.unpack_from(self._found, at)
            states = None if told == _NOT_TOLD else self._answers[place : place + told].tobytes()
            found.append((number, descriptor, states))
        return found


def known_folder(
    depth: int, flags: int, name: bytes, names: bytes, *, seen: Seen, states: bytes | None
) -> bytes:
    """Return what is known of a folder, as `Sheet.changed` is asked whether that is so still."""
    if states is None:
        flags, states = flags | _UNKNOWN, bytes(_ENTRY_BYTES * (names.count(b"\0") + 1 if names else 0))
    mode, size, mtime, ctime, inode = seen or _UNPROVEN
    mtime, ctime = mtime & _COMPARED_BITS, ctime & _COMPARED_BITS
    head = _FOLDER.pack(
        depth, flags, len(name), len(names) + 1, len(states), bool(seen), mode, size, mtime, ctime, inode
    )
    return b"".join((head, name, b"\0", names, b"\0", states))


# Those that no scan uses: to make one takes as long as to ask for a directory.
_spare: list[Sheet] = []
_LARGEST_KEPT: Final = 1 << 20


def sheet() -> Sheet | None:
    """Return a sheet for one scan, to be laid aside after it; None without the library."""
    try:
        return _spare.pop()
    except IndexError:
        pass
    try:
        return Sheet()
    except (ImportError, OSError):  # a Python without `_ctypes`, no library, or another one's
        return None


def lay_aside(used: Sheet) -> None:
    """Keep a sheet for another scan, unless it is large."""
    if used.size <= _LARGEST_KEPT:
        _spare.append(used)
