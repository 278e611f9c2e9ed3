"""Trees for tests: nested dictionaries, stored by content in memory, and read back from real folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha1

from lastgood.errors import Damaged
from lastgood.host import Stamp
from lastgood.model.operation import Outcome, Step
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry, StoredTree, TreeId
from lastgood.paths import join
from lastgood.restore.apply import DescriptorApplier
from lastgood.restore.plan import DeletionEvidence, plan

# A file is (mode, content), a link its target as text, a directory (mode, names).
Node = tuple[int, bytes] | str | tuple[int, "Names"]
Names = dict[bytes, "Node"]


def folder(names: Names, mode: int = 0o755) -> Node:
    """Return a directory; spelt as a function, type checkers understand nested ones."""
    return (mode, names)


class Forest:
    """An object store in a dictionary: enough of an engine for restoring."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.trees: dict[bytes, tuple[Entry, ...]] = {}

    def blob(self, content: bytes) -> bytes:
        oid = sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()
        self.blobs[oid] = content
        return oid

    def plant_entries(self, entries: Iterable[Entry]) -> TreeId:
        """Store a directory as it is given, however hostile."""
        kept = tuple(entries)
        oid = sha1(b"tree" + repr(kept).encode(), usedforsecurity=False).digest()
        self.trees[oid] = kept
        return TreeId(tree=oid)

    def plant(self, names: Names) -> TreeId:
        return self.plant_entries(self.entry(name, names[name]) for name in sorted(names))

    def entry(self, name: bytes, node: Node) -> Entry:
        if isinstance(node, str):
            return Entry(name=name, kind=LINK, mode=0, oid=self.blob(os.fsencode(node)))
        mode, content = node
        if isinstance(content, bytes):
            return Entry(name=name, kind=FILE, mode=mode, oid=self.blob(content))
        return Entry(name=name, kind=DIRECTORY, mode=mode, oid=self.plant(content).tree)

    def read_blob(self, oid: bytes) -> bytes:
        if oid not in self.blobs:
            raise Damaged("a blob is missing")
        return self.blobs[oid]

    def pieces(self, oid: bytes) -> Iterator[bytes]:
        yield self.read_blob(oid)

    def copy_blob(self, oid: bytes, descriptor: int) -> int:
        content = self.read_blob(oid)
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        return len(content)

    def blob_size(self, oid: bytes) -> int:
        return len(self.read_blob(oid))

    def directory(self, tree: TreeId) -> Sequence[Entry]:
        return self.trees[tree.tree]

    def missing(self, oids: Iterable[bytes]) -> set[bytes]:
        return {oid for oid in oids if oid not in self.blobs}


class Ground:
    """A present view over a stored tree, with what the scan left out beside it."""

    def __init__(
        self,
        forest: Forest,
        root: TreeId,
        *,
        left_out: dict[bytes, Sequence[bytes]] | None = None,
        ignored: Callable[[bytes], bool | None] = lambda _path: False,
    ) -> None:
        self._listings: dict[bytes, Sequence[Entry]] = {}
        self._left_out = left_out or {}
        self._ignored = ignored
        waiting = [(b"", root)]
        while waiting:
            path, tree = waiting.pop()
            entries = forest.directory(tree)
            self._listings[path] = entries
            waiting += [(join(path, e.name), e.tree_id) for e in entries if e.kind == DIRECTORY]

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        return self._listings.get(path)

    def left_out(self, path: bytes) -> Sequence[bytes]:
        return self._left_out.get(path, ())

    def ignored(self, path: bytes, *, directory: bool) -> bool | None:  # noqa: ARG002 - the protocol's
        return self._ignored(path)

    def entry(self, path: bytes) -> Entry | None:
        above, _, name = path.rpartition(b"/")
        return next((e for e in self._listings.get(above, ()) if e.name == name), None)


def snapshot(
    forest: Forest, root: bytes, *, ignored: Callable[[bytes], bool] = lambda _path: False
) -> Ground:
    """Scan a folder: names that are ignored, and any ``.git``, are left out."""
    left_out: dict[bytes, Sequence[bytes]] = {}

    def listing(path: bytes) -> TreeId:
        entries = []
        for name in sorted(os.listdir(os.path.join(root, path))):
            inside = join(path, name)
            if name == b".git" or ignored(inside):
                left_out[path] = [*left_out.get(path, ()), name]
                continue
            entries.append(entry(inside, name))
        return forest.plant_entries(entries)

    def entry(path: bytes, name: bytes) -> Entry:
        real = os.path.join(root, path)
        found = os.lstat(real)
        if stat.S_ISLNK(found.st_mode):
            return Entry(name=name, kind=LINK, mode=0, oid=forest.blob(os.readlink(real)))
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISDIR(found.st_mode):
            return Entry(name=name, kind=DIRECTORY, mode=mode, oid=listing(path).tree)
        with open(real, "rb") as file:
            return Entry(name=name, kind=FILE, mode=mode, oid=forest.blob(file.read()))

    return Ground(forest, listing(b""), left_out=left_out, ignored=ignored)


def stamps(root: bytes) -> Callable[[bytes], Stamp | None]:
    """Remember the evidence for everything in a folder as it is now."""
    seen: dict[bytes, Stamp] = {}
    for above, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(above, name)
            found = os.lstat(path)
            seen[path[len(root) + 1 :]] = Stamp(
                size=found.st_size, mtime_ns=found.st_mtime_ns, ctime_ns=found.st_ctime_ns, inode=found.st_ino
            )
    return seen.get


def write_out(root: bytes, names: Names) -> None:
    """Write nested dictionaries into a folder that exists."""
    for name, node in names.items():
        path = os.path.join(root, name)
        if isinstance(node, str):
            os.symlink(os.fsencode(node), path)
            continue
        mode, content = node
        if isinstance(content, bytes):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(descriptor, content)
            os.close(descriptor)
        else:
            os.mkdir(path)
            write_out(path, content)
        os.chmod(path, mode)


def read_in(root: bytes, *, without: frozenset[bytes] = frozenset()) -> Names:
    """Read a folder into nested dictionaries."""
    names: Names = {}
    for name in os.listdir(root):
        path = os.path.join(root, name)
        found = os.lstat(path)
        if name in without:
            continue
        if stat.S_ISLNK(found.st_mode):
            names[name] = os.fsdecode(os.readlink(path))
        elif stat.S_ISDIR(found.st_mode):
            names[name] = (stat.S_IMODE(found.st_mode), read_in(path, without=without))
        else:
            with open(path, "rb") as file:
                names[name] = (stat.S_IMODE(found.st_mode), file.read())
    return names


TOKEN = "op_0123456789abcdef"


class Field:
    """One folder with its applier and store."""

    def __init__(self, root: bytes, *, kept: bytes | None = None) -> None:
        self.root = root
        self.forest = Forest()
        self.kept = kept or root + b"-kept"
        self.applier = DescriptorApplier(root, kept=self.kept)

    def lay(self, names: Names) -> None:
        write_out(self.root, names)

    def now(self) -> Names:
        return read_in(self.root)

    def plan(
        self,
        target: Names,
        *,
        ignored: Callable[[bytes], bool] = lambda _path: False,
        paths: Iterable[bytes] = (),
        discard: bool = False,
    ) -> tuple[Step, ...]:
        present = snapshot(self.forest, self.root, ignored=ignored)

        def ignored_then(path: bytes, *, directory: bool) -> bool:
            return ignored(path)

        evidence = DeletionEvidence(ignored_then=ignored_then, look=self.applier.present)
        tree = StoredTree(self.forest.plant(target), self.forest.directory)
        return plan(tree, present, evidence=evidence, paths=paths, discard=discard)

    def apply(self, steps: Sequence[Step]) -> Sequence[Outcome]:
        ends = [end for step in steps for end in (step.have, step.want) if end is not None and end.oid]
        contents = {end.oid: self.forest.read_blob(end.oid) for end in ends if end.kind == FILE}
        applied = self.applier.apply(
            steps, token=TOKEN, objects=self.forest, stamp=stamps(self.root), contents=contents
        )
        applied.wait()
        applied.end()
        return applied.outcomes

    def restore(
        self, target: Names, *, ignored: Callable[[bytes], bool] = lambda _path: False
    ) -> list[Outcome]:
        """Plan and apply, and return what did not go well."""
        outcomes = self.apply(self.plan(target, ignored=ignored))
        return [one for one in outcomes if one.result in {"failed", "skipped"}]

    def at(self, path: bytes) -> bytes:
        return os.path.join(self.root, path)
