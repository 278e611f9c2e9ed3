"""What stat(2) says of the entries of a directory, as columns of numbers.

A scan that finds everything as it was does nearly nothing but ask, and to make an object of each answer
takes half of that time. So statx(2) writes the answers one after another into one sheet of memory. Its bytes
are compared with those of the last look, and copied column by column where they are others; objects are made
of what differs.
"""

from __future__ import annotations

import os
import sys
from _struct import Struct, pack, pack_into, unpack_from
from itertools import repeat

from lastgood.scanner import FORMAT_DIRECTORY, FORMAT_MASK, evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from lastgood.scanner import Evidence

# So many answers are taken in at a time.
_ROWS: Final = 64

# struct statx of <linux/stat.h>, the same for every processor: where in it the columns lie. What counts of an
# entry is in its first half. So each answer begins where the second half of the one before does, and is
# written over that: only of the last one it stays, which tells device and mount.
_ANSWER_BYTES: Final = 256
_ROW_BYTES: Final = 128
_EIGHTS, _FOURS, _TWOS = _ROW_BYTES // 8, _ROW_BYTES // 4, _ROW_BYTES // 2
_LINKS, _MODE, _INODE, _SIZE, _CTIME, _CTIME_NS, _MTIME, _MTIME_NS = 16, 28, 32, 40, 96, 104, 112, 120
_SECOND: Final = 1_000_000_000
# AT_SYMLINK_NOFOLLOW and AT_NO_AUTOMOUNT, STATX_BASIC_STATS: what `os.lstat` asks.
_FLAGS: Final = 0x100 | 0x800
_MASK: Final = 0x7FF
# AT_EMPTY_PATH too: no name stands for the open directory itself, which is the last one asked beside so many.
# For each number of them how they are asked: with that the kernel looks at a name twice.
_ITSELF: Final = _FLAGS | 0x1000
HOW_ASKED: Final = [[*repeat(_FLAGS, many - 1), _ITSELF] for many in range(_ROWS + 1)]
ASKED: Final = _MASK
MOST_ASKED: Final = _ROWS
# What an answer says of that: mode, inode, size, both times with their parts of a second, and its device.
_OF_ITSELF: Final = Struct("=28xH2xQQ48xqI4xqI12xII")

# Of a mode the byte with the format, and for each such byte 1 if it is a directory's.
_FORMAT_BYTE: Final = 1 if sys.byteorder == "little" else 0
_IS_DIRECTORY: Final = bytes(byte & 0xF0 == FORMAT_DIRECTORY >> 8 for byte in range(256))
# What is said of a directory beside its mode changes with what is in it.
_END: Final = _MTIME_NS + 4
_NOTHING: Final = bytes(_END - _INODE)
_ONE_LINK: Final = pack("=I", 1)


# --- As they are kept: blocks of so many entries, in each the columns one after another ---

# Inodes, sizes, seconds and nanoseconds of both times, modes.
_ENTRY_BYTES: Final = 42


def packed(stats: Sequence[Evidence | int]) -> bytes:
    """Return what was said of some entries, the mode alone of a directory, as it is compared."""
    blocks = []
    for start in range(0, len(stats), _ROWS):
        rows = [(one, 0, 0, 0, 0) if isinstance(one, int) else one for one in stats[start : start + _ROWS]]
        modes, sizes, mtimes, ctimes, inodes = zip(*rows, strict=True)
        many = len(rows)
        blocks += [pack(f"={many}Q", *inodes), pack(f"={many}Q", *sizes)]
        for times in (ctimes, mtimes):
            seconds, parts = zip(*map(divmod, times, repeat(_SECOND)), strict=True)
            blocks += [pack(f"={many}q", *seconds), pack(f"={many}I", *parts)]
        blocks.append(pack(f"={many}H", *modes))
    return b"".join(blocks)


def unpacked(states: bytes) -> list[Evidence | int]:
    """Return what was said of some entries."""
    found: list[Evidence | int] = []
    start = 0
    while start < len(states):
        many = min(_ROWS, (len(states) - start) // _ENTRY_BYTES)
        numbers = Struct(f"={many}Q{many}Q{many}q{many}I{many}q{many}I{many}H").unpack_from(states, start)
        inodes, sizes, ctimes, ctime_ns, mtimes, mtime_ns, modes = (
            numbers[place : place + many] for place in range(0, 7 * many, many)
        )
        found += [
            mode
            if mode & FORMAT_MASK == FORMAT_DIRECTORY
            else (mode, size, mtime * _SECOND + mtime_part, ctime * _SECOND + ctime_part, inode)
            for mode, size, mtime, mtime_part, ctime, ctime_part, inode in zip(
                modes, sizes, mtimes, mtime_ns, ctimes, ctime_ns, inodes, strict=True
            )
        ]
        start += many * _ENTRY_BYTES
    return found


# How wide an answer is in each column.
_WIDTHS: Final = (8, 8, 8, 4, 8, 4, 2)
_FORMS: Final = ("=Q", "=Q", "=q", "=I", "=q", "=I", "=H")


def changed(before: bytes, now: bytes) -> list[int]:
    """Return the places of the entries of which something else is said now, of as many as before."""
    found: set[int] = set()
    for start, many in _blocks(now):
        at = start * _ENTRY_BYTES
        for width in _WIDTHS:
            end = at + many * width
            if before[at:end] != now[at:end]:
                found.update(_differing(before[at:end], now[at:end], width=width, first=start))
            at = end
    return sorted(found)


def modes_of(states: bytes) -> tuple[int, ...]:
    """Return the modes of some entries, of as many as one block has at most."""
    many = len(states) // _ENTRY_BYTES
    return unpack_from(f"={many}H", states, len(states) - 2 * many)


def _differing(one: bytes, other: bytes, *, width: int, first: int) -> Iterator[int]:
    """Yield where two columns differ, counted from the ``first`` entry of a block."""
    # A bit is set where they do: the lowest tells the first entry.
    bits = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    while bits:
        place = ((bits & -bits).bit_length() - 1) // (8 * width)
        yield first + place
        above = 8 * width * (place + 1)
        bits = bits >> above << above


def _blocks(states: bytes) -> Iterator[tuple[int, int]]:
    """Yield the place of the first entry of each block, and how many are in it."""
    count = len(states) // _ENTRY_BYTES
    return ((start, min(_ROWS, count - start)) for start in range(0, count, _ROWS))


def one_of(states: bytes, place: int) -> Evidence | int:
    """Return what was said of the entry at a place."""
    start = place - place % _ROWS
    many, place = min(_ROWS, len(states) // _ENTRY_BYTES - start), place % _ROWS
    at = start * _ENTRY_BYTES
    found: list[int] = []
    for width, form in zip(_WIDTHS, _FORMS, strict=True):
        found.append(unpack_from(form, states, at + width * place)[0])
        at += many * width
    inode, size, ctime, ctime_part, mtime, mtime_part, mode = found
    if mode & FORMAT_MASK == FORMAT_DIRECTORY:
        return mode
    return mode, size, mtime * _SECOND + mtime_part, ctime * _SECOND + ctime_part, inode


def patched(states: bytes, told: Mapping[int, Evidence]) -> bytes:
    """Return what was said of some entries, with something else of those at some places."""
    made = bytearray(states)
    for place, (mode, size, mtime, ctime, inode) in told.items():
        start = place - place % _ROWS
        many, at = min(_ROWS, len(states) // _ENTRY_BYTES - start), start * _ENTRY_BYTES
        numbers = (inode, size, *divmod(ctime, _SECOND), *divmod(mtime, _SECOND), mode)
        for number, width, form in zip(numbers, _WIDTHS, _FORMS, strict=True):
            pack_into(form, made, at + width * (place - start), number)
            at += many * width
    return bytes(made)


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


class Sheet:
    """Memory for some answers, to be used by one scan at a time, and the calls that fill it.

    Where links count, ``has_links`` tells whether anything but a directory had several when last asked.
    """

    def __init__(self) -> None:
        from lastgood.scanner.libc import look_up, pointers

        self.call: Callable[..., int] = look_up("statx")
        self._statfs: Callable[..., int] = look_up("fstatfs")
        # The entries of a directory, itself, and the whole of the last answer.
        self.memory: bytearray = bytearray(_ROWS * _ROW_BYTES + _ANSWER_BYTES)
        self.rows: Sequence[object] = pointers(self.memory, apart=_ROW_BYTES)
        memory = memoryview(self.memory)
        self._eights, self._fours, self._twos = memory.cast("Q"), memory.cast("I"), memory.cast("H")
        self.counts_links: bool = False
        self.has_links: bool = False

    def ask(self, descriptor: int, names: Sequence[bytes]) -> bytes | None:
        """Return what is said of each entry of an open directory; None if one could not be asked."""
        self.has_links = False
        if len(names) <= _ROWS:  # as hardly any directory has more
            return self._asked(descriptor, names)
        blocks = []
        for start in range(0, len(names), _ROWS):
            block = self._asked(descriptor, names[start : start + _ROWS])
            if block is None:
                return None
            blocks.append(block)
        return b"".join(blocks)

    def _asked(self, descriptor: int, names: Sequence[bytes]) -> bytes | None:
        if any(map(self.call, repeat(descriptor), names, repeat(_FLAGS), repeat(_MASK), self.rows)):
            return None
        return self.columns(len(names))

    def file_system(self, descriptor: int) -> int | None:
        """Return the number of an open file's file system, by statfs(2); None if that is refused."""
        return None if self._statfs(descriptor, self.rows[0]) else unpack_from("@l", self.memory)[0]

    def answers(self, many: int) -> bytes:
        """Return the first so many answers as they came, the last of them whole."""
        return bytes(self.memory[: (many - 1) * _ROW_BYTES + _ANSWER_BYTES])

    def itself(self, place: int) -> tuple[Evidence, int]:
        """Return what the last answer says of a directory, and its device."""
        mode, inode, size, *times, major, minor = _OF_ITSELF.unpack_from(self.memory, place * _ROW_BYTES)
        ctime, ctime_part, mtime, mtime_part = times
        seen = (mode, size, mtime * _SECOND + mtime_part, ctime * _SECOND + ctime_part, inode)
        return seen, os.makedev(major, minor)

    def columns(self, many: int) -> bytes:
        """Return what was said of the first so many, as it is compared; their answers are gone then."""
        modes = self._twos[_MODE // 2 : many * _TWOS : _TWOS].tobytes()
        directories = modes[_FORMAT_BYTE::2].translate(_IS_DIRECTORY)
        place = directories.find(1)
        while place >= 0:
            start = place * _ROW_BYTES
            self.memory[start + _INODE : start + _END] = _NOTHING
            self.memory[start + _LINKS : start + _LINKS + len(_ONE_LINK)] = _ONE_LINK
            place = directories.find(1, place + 1)
        eights, fours = self._eights, self._fours
        if self.counts_links:
            self.has_links |= fours[_LINKS // 4 : many * _FOURS : _FOURS].tobytes() != _ONE_LINK * many
        return b"".join(
            (
                eights[_INODE // 8 : many * _EIGHTS : _EIGHTS].tobytes(),
                eights[_SIZE // 8 : many * _EIGHTS : _EIGHTS].tobytes(),
                eights[_CTIME // 8 : many * _EIGHTS : _EIGHTS].tobytes(),
                fours[_CTIME_NS // 4 : many * _FOURS : _FOURS].tobytes(),
                eights[_MTIME // 8 : many * _EIGHTS : _EIGHTS].tobytes(),
                fours[_MTIME_NS // 4 : many * _FOURS : _FOURS].tobytes(),
                modes,
            )
        )


def chosen(answers: bytes, places: Sequence[int] | None) -> bytes:
    """Return what the answers would be if only those at some places had been asked, the last among them."""
    if places is None:
        return answers
    rows = [answers[place * _ROW_BYTES : (place + 1) * _ROW_BYTES] for place in places]
    return b"".join([*rows, answers[-(_ANSWER_BYTES - _ROW_BYTES) :]])


# Those that no scan uses: to make one takes as long as to ask for a directory.
_spare: list[Sheet] = []


def sheet(*, links: bool = False) -> Sheet | None:
    """Return a sheet for one scan, to be laid aside after it; None where no call can fill it."""
    try:
        found: Sheet | None = _spare.pop()
    except IndexError:
        found = _made()
    if found is not None:
        found.counts_links = found.has_links = links
    return found


def _made() -> Sheet | None:
    try:
        return Sheet()
    except (ImportError, OSError):  # a Python without `_ctypes`, a library without the call
        return None


def lay_aside(used: Sheet) -> None:
    """Keep a sheet for another scan."""
    _spare.append(used)
