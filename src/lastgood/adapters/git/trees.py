"""Git's tree objects, and the parallel trees that hold the permissions which git's cannot.

For each directory that has a permission other than the defaults, in its own entries or below, there
is a modes tree: the blob ``modes`` holds a line ``OCTAL SP NAME NUL`` for each of its own entries
that is not default (all twelve bits, sorted by name), and a tree ``d.NAME`` stands for each
subdirectory that has a modes tree itself.
"""

from __future__ import annotations

from lastgood.errors import Invalid
from lastgood.model.tree import (
    DEFAULT_DIRECTORY_MODE,
    DEFAULT_EXECUTABLE_MODE,
    DEFAULT_FILE_MODE,
    DIRECTORY,
    FILE,
    LINK,
    Entry,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    # (mode as git writes it, name, object id)
    Row = tuple[bytes, bytes, bytes]

PLAIN = b"100644"
EXECUTABLE = b"100755"
SYMLINK = b"120000"
SUBTREE = b"40000"

TABLE_NAME = b"modes"
BELOW_PREFIX = b"d."

_DEFAULTS = {
    PLAIN: DEFAULT_FILE_MODE,
    EXECUTABLE: DEFAULT_EXECUTABLE_MODE,
    SUBTREE: DEFAULT_DIRECTORY_MODE,
    SYMLINK: 0,
}
_FORMS = {
    PLAIN: (FILE, DEFAULT_FILE_MODE),
    EXECUTABLE: (FILE, DEFAULT_EXECUTABLE_MODE),
    SUBTREE: (DIRECTORY, DEFAULT_DIRECTORY_MODE),
    SYMLINK: (LINK, 0),
}


def encode_tree(rows: Iterable[Row]) -> bytes:
    """Return a tree object; names are sorted as git does, directories as if they ended in a slash."""
    keyed = [
        (name + b"/" if mode == SUBTREE else name, b"%b %b\0%b" % (mode, name, oid))
        for mode, name, oid in rows
    ]
    keyed.sort()
    return b"".join([row for _, row in keyed])


def decode_tree(content: bytes) -> list[Row]:
    """Return the rows of a tree object; ValueError when it is none."""
    rows: list[Row] = []
    at, end = 0, len(content)
    while at < end:
        nul = content.index(b"\0", at)
        mode, _, name = content[at:nul].partition(b" ")
        at = nul + 21
        rows.append((mode, name, content[nul + 1 : at]))
    if at > end:
        raise ValueError("a row is cut short")
    return rows


def split_entries(entries: Iterable[Entry]) -> tuple[list[Row], bytes, list[Row]]:
    """Return what git can hold of a directory, the table of the other permissions, and the rows below.

    Raises `Invalid` for a name that no directory can contain, and for a name given twice.
    """
    rows: list[Row] = []
    table: list[bytes] = []
    below: list[Row] = []
    seen: set[bytes] = set()
    for entry in sorted(entries, key=_name):
        name, kind, mode = entry.name, entry.kind, entry.mode
        if kind == FILE:
            git_mode = EXECUTABLE if mode & 0o100 else PLAIN
        else:
            git_mode = SUBTREE if kind == DIRECTORY else SYMLINK
        if mode != _DEFAULTS[git_mode] and kind != LINK:
            table.append(b"%o %b\0" % (mode, name))
        if entry.modes:
            below.append((SUBTREE, BELOW_PREFIX + name, entry.modes))
        rows.append((git_mode, name, entry.oid))
        if name in seen or not name or b"/" in name or b"\0" in name or name in {b".", b".."}:
            raise Invalid(
                f"a directory cannot hold the name {name!r}" + (" twice" if name in seen else ""),
                hint="this is a fault of the caller: names are single path components",
            )
        seen.add(name)
    return rows, b"".join(table), below


def join_entries(rows: Sequence[Row], table: bytes, below: Sequence[Row]) -> tuple[Entry, ...]:
    """Return the entries of a directory sorted by name, undoing `split_entries`; ValueError if malformed."""
    modes = _decode_table(table)
    subtrees = {name[len(BELOW_PREFIX) :]: oid for _, name, oid in below}
    entries = []
    for git_mode, name, oid in sorted(rows, key=_row_name):
        if git_mode not in _FORMS:
            raise ValueError(f"the mode {git_mode!r} is not one of ours")
        kind, mode = _FORMS[git_mode]
        if modes or subtrees:  # few directories have any
            mode, below_it = modes.get(name, mode), subtrees.get(name, b"")
            entries.append(Entry(name=name, kind=kind, mode=mode, oid=oid, modes=below_it))
        else:
            entries.append(Entry(name=name, kind=kind, mode=mode, oid=oid))
    return tuple(entries)


def _decode_table(table: bytes) -> dict[bytes, int]:
    modes: dict[bytes, int] = {}
    for line in table.split(b"\0")[:-1]:
        octal, _, name = line.partition(b" ")
        modes[name] = int(octal, 8) & 0o7777
    return modes


def _name(entry: Entry) -> bytes:
    return entry.name


def _row_name(row: Row) -> bytes:
    return row[1]
