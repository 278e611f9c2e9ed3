"""Names that must not be written, and trees made to do harm (rule T12)."""

from __future__ import annotations

from lastgood.errors import Damaged, Unsafe
from lastgood.model.tree import DIRECTORY, LINK
from lastgood.paths import LONGEST_PATH, is_git_alias, join, parent, printable, to_text, unknown
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    from lastgood.model.operation import Step
    from lastgood.model.tree import Entry, Tree, TreeId
else:
    Protocol = object

LONGEST_NAME = 255
# The end of a target is marked in what the kernel takes, and counts.
LONGEST_TARGET = LONGEST_PATH - 1
# More entries than this count as made to overwhelm where most of them are the same few over again.
MOST_ENTRIES = 1_000_000
_REPEATED = 32
_SHOWN = 10
_SHOWN_WIDTH = 200
# A name of these alone is no path, and has no character by which it could stand for another name.
_ORDINARY = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"
_ORDINARY_PATH = _ORDINARY + b"/"


class NameRules(Value):
    """What the file system that is to hold a tree can bear; ``folds`` where ``A`` and ``a`` are one."""

    longest_name: int = LONGEST_NAME
    longest_path: int = LONGEST_PATH
    most_entries: int = MOST_ENTRIES
    folds: bool = False


class TreeFault(Value):
    """A path that must not be written, and why."""

    path: bytes
    reason: str


class Blobs(Protocol):
    """Reads what links point to."""

    def read_blob(self, oid: bytes) -> bytes:
        """Return a blob whole."""

    def blob_size(self, oid: bytes) -> int:
        """Return the size of a blob in bytes."""


def is_no_name(name: bytes) -> bool:
    """Tell whether no directory of any file system can hold a name."""
    return name in {b"", b".", b".."} or b"/" in name or b"\0" in name


def name_fault(name: bytes, *, rules: NameRules | None = None) -> str | None:
    """Return why an entry's name must not be written, or None when it may be.

    Names that only Windows reserves, backslashes and control characters are ordinary here.
    """
    longest = LONGEST_NAME if rules is None else rules.longest_name
    # Most names pass by this look: what ``.git`` may be called begins with a dot, or has another character.
    if len(name) <= longest and not name.translate(None, _ORDINARY) and name[:1] not in {b"", b"."}:
        return None
    if is_no_name(name):
        return "contains a separator" if b"/" in name or b"\0" in name else "is no name"
    if len(name) > longest:
        return "is too long a name"
    if is_git_alias(name):
        return "is .git or an alias of it"
    return None


def path_fault(path: bytes) -> str | None:
    """Return why a whole path must not be touched, or None when it may be."""
    if len(path) > LONGEST_PATH:
        return "is too long a path"
    for name in path.split(b"/"):
        fault = name_fault(name)
        if fault is not None:
            return fault
    return None


def _is_ordinary(path: bytes) -> bool:
    """Tell whether a look at a whole path shows that each of its names may be written: so it is of most."""
    return (
        len(path) <= LONGEST_NAME
        and not path.translate(None, _ORDINARY_PATH)
        and path[:1] not in {b"", b"/", b"."}
        and path[-1:] != b"/"
        and b"/." not in path
        and b"//" not in path
    )


def path_faults(paths: Iterable[bytes]) -> Iterator[TreeFault]:
    """Yield those of many paths that must not be touched; each directory above them is judged once."""
    known: dict[bytes, str | None] = {b"": None}
    for path in paths:
        if _is_ordinary(path):
            continue
        if not path or path.startswith(b"/") or len(path) > LONGEST_PATH:
            reason = path_fault(path)
        else:
            for each in unknown(path, known):
                above, _, name = each.rpartition(b"/")
                known[each] = known[above] or name_fault(name)
            reason = known[path]
        if reason is not None:
            yield TreeFault(path=path, reason=reason)


def target_fault(target: bytes) -> str | None:
    """Return why no link can lead to a target, or None when one can."""
    if not target:
        return "is a link to nothing at all"
    if b"\0" in target:
        return "is a link to what no path can be: it has a NUL byte"
    return "is a link with too long a target" if len(target) > LONGEST_TARGET else None


def link_fault(oid: bytes, blobs: Blobs) -> str | None:
    """Return why the blob of a link's target cannot be one; `Damaged` if it cannot be read."""
    # What was made to overwhelm is not even read.
    if blobs.blob_size(oid) > LONGEST_TARGET:
        return "is a link with too long a target"
    return target_fault(blobs.read_blob(oid))


def link_faults(steps: Iterable[Step], blobs: Blobs) -> Iterator[TreeFault]:
    """Yield the links among what steps write that no file system can hold.

    One whose target cannot be read is none of them: that is damage, which is told where it is written.
    """
    for step in steps:
        if step.action != "write" or step.want is None or step.want.kind != LINK:
            continue
        try:
            fault = link_fault(step.want.oid, blobs)
        except Damaged:
            continue
        if fault is not None:
            yield TreeFault(path=step.path, reason=fault)


def faults(tree: Tree, *, rules: NameRules | None = None) -> Iterator[TreeFault]:
    """Yield what is wrong with a tree; every distinct directory is read once, however often it occurs."""
    inspection = Inspection(tree.directory, rules=rules)
    inspection.subtree(b"", tree.root)
    yield from inspection.faults


def refuse_faults(tree: Tree) -> None:
    """Raise `Unsafe` naming the paths if anything is wrong with a tree."""
    refuse(tuple(faults(tree)))


def refuse(found: Sequence[TreeFault]) -> None:
    """Raise `Unsafe` naming the paths if there are faults."""
    if not found:
        return
    shown = "; ".join(f"{_shown(fault.path) or '(the whole)'} {fault.reason}" for fault in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise Unsafe(
        f"the checkpoint must not be written out: {shown}{more}",
        hint="restore single paths that are sound: lastgood restore ID -- PATH",
        details={"paths": [to_text(fault.path) for fault in found]},
    )


class Inspection:
    """Looks through directories for faults; stops early where a tree is made to overwhelm."""

    def __init__(
        self, read: Callable[[bytes, TreeId], Sequence[Entry]], *, rules: NameRules | None = None
    ) -> None:
        self._read = read
        self._rules = NameRules() if rules is None else rules
        # By identity: how many entries a directory holds in all, and the length of its longest path.
        self._measures: dict[TreeId, tuple[int, int]] = {}
        self._entries = 0
        self._distinct = 0
        self._inspected: set[bytes] = set()
        self.faults: list[TreeFault] = []

    def listing(self, path: bytes, entries: Sequence[Entry]) -> None:
        """Look at the entries of one directory, not below them."""
        seen: set[bytes] = set()
        rules = self._rules
        for entry in entries:
            name = entry.name
            fault = name_fault(name, rules=rules)
            key = _folded(name) if rules.folds else name
            if fault is None and key in seen:
                fault = "occurs twice in its directory"
            seen.add(key)
            if fault is not None:
                self.faults.append(TreeFault(path=join(path, name), reason=fault))

    def subtree(self, path: bytes, tree: TreeId) -> None:
        """Look at a directory and everything below it, unless that was done for the one above it."""
        inside = parent(path) in self._inspected
        self._inspected.add(path)
        if inside:
            return
        entries, longest = self._measure(path, tree)
        self._entries += entries
        if self._entries > max(self._rules.most_entries, _REPEATED * self._distinct):
            reason = f"holds more than {self._rules.most_entries} entries"
            self.faults.append(TreeFault(path=path, reason=reason))
        if (len(path) + 1 if path else 0) + longest > self._rules.longest_path:
            self.faults.append(TreeFault(path=path, reason="holds too long a path"))

    def _measure(self, path: bytes, tree: TreeId) -> tuple[int, int]:
        measures = self._measures
        waiting: list[tuple[bytes, TreeId, Sequence[Entry] | None]] = [(path, tree, None)]
        while waiting:
            at, identity, entries = waiting.pop()
            if identity in measures:
                continue
            if entries is None:
                entries = self._read(at, identity)
                self._distinct += len(entries)
                self.listing(at, entries)
                inner = [(join(at, child.name), child.tree_id, None) for child in _directories(entries)]
                # Beyond any path length nothing below matters; a tree cannot contain itself.
                if inner and len(at) <= self._rules.longest_path:
                    waiting.append((at, identity, entries))
                    waiting.extend(inner)
                    continue
            measures[identity] = self._sum(entries)
        return measures[tree]

    def _sum(self, entries: Sequence[Entry]) -> tuple[int, int]:
        total, longest = len(entries), 0
        for entry in entries:
            length = len(entry.name)
            if entry.kind == DIRECTORY:
                inside, below = self._measures.get(entry.tree_id, (0, 0))
                total += inside
                length += 1 + below
            longest = max(longest, length)
        return total, longest


def _shown(path: bytes) -> str:
    text = printable(to_text(path))
    return text if len(text) <= _SHOWN_WIDTH else "…" + text[-_SHOWN_WIDTH:]


def _directories(entries: Sequence[Entry]) -> Iterator[Entry]:
    return (entry for entry in entries if entry.kind == DIRECTORY)


def _folded(name: bytes) -> bytes:
    # Costs a millisecond to import, and is asked only of file systems that fold.
    from unicodedata import normalize

    return normalize("NFD", to_text(name).casefold()).encode("utf-8", "surrogateescape")
