"""Which files of a worktree differ from its index, told from a scan; nothing is read that it has read."""

from __future__ import annotations

import os
import stat
from _sha1 import sha1

from lastgood.adapters.project import refs, repository
from lastgood.adapters.project.entries import (
    ASSUMED,
    GITLINK,
    INTENDED,
    LINK_MODE,
    SKIPPED,
    SPARSE_DIRECTORY,
    STAGE,
    flags_of,
    mode_of,
    oid_of,
    read_entries,
    stats_of,
)
from lastgood.adapters.project.files import read_known
from lastgood.adapters.project.settings import read_settings
from lastgood.adapters.project.staging import Unknown, staged
from lastgood.model.tree import DIRECTORY, LINK
from lastgood.names import join
from lastgood.rules.ignore import GITIGNORE, TreeRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.adapters.project.asking import Asker
    from lastgood.adapters.project.conversion import Conversions
    from lastgood.adapters.project.entries import Entries, Place
    from lastgood.adapters.project.repository import Repository
    from lastgood.adapters.project.settings import GitSettings
    from lastgood.model.tree import Entry, Gap
    from lastgood.ports.workspace import Scan
    from lastgood.rules.ignore import Text

_TEXT_LIMIT = 64 << 20
_RULES_LIMIT = 16 << 20
_NARROW = 0xFFFFFFFF  # what an index keeps of sizes, inodes and seconds
_SECOND = 1_000_000_000
_EXECUTABLE = 0o100


class Scene:
    """What was scanned: the files, those that are no part of it, and where repositories are nested."""

    def __init__(self, root: bytes, scan: Scan, *, asker: Asker) -> None:
        result = scan.result
        if result.partial or not result.ignore.readable:
            raise Unknown
        self.root = root
        self.scan = scan
        self.asker = asker
        self.gaps: Mapping[bytes, Gap] = {gap.path: gap for gap in result.gaps}
        nested = () if result.git is None else result.git.nested
        self.nested = frozenset(one.path for one in nested)
        # Of the rules only git's own count here: what only we leave out is no file of the scan anyway.
        self._rules = TreeRules(result.ignore.replace(excludes=(), includes=()), self._texts)

    def ignored(self, path: bytes, *, directory: bool = False) -> bool:
        """Tell whether git ignores an untracked path."""
        return self._rules.ignored(path, directory=directory) is not False

    def within_gap(self, path: bytes) -> bool:
        """Tell whether a path lies at or below one that the scan could not read."""
        while path:
            if path in self.gaps:
                return True
            path = path.rpartition(b"/")[0]
        return b"" in self.gaps

    def _texts(self, directory: bytes) -> tuple[Text, Text]:
        from lastgood.adapters.project.files import read_file

        path = join(join(self.root, directory) if directory else self.root, GITIGNORE)
        return read_file(path, limit=_RULES_LIMIT, follow=False), None


class Worktree:
    """One worktree beside its index. ``below`` is its place in the workspace (a submodule's).

    Paths are relative to the workspace throughout.
    """

    def __init__(self, found: Repository, *, scene: Scene, entries: Entries, below: bytes = b"") -> None:
        self.settings: GitSettings = read_settings(found)
        elsewhere = self.settings.worktree not in {None, found.top}
        if found.digest_size != 20 or not self.settings.clear or self.settings.bare or elsewhere:
            raise Unknown
        self._found = found
        self._scene = scene
        self._entries = entries
        self._below = below
        self._conversions_known: Conversions | None = None

    @property
    def _conversions(self) -> Conversions:
        if self._conversions_known is None:
            from lastgood.adapters.project.conversion import Conversions

            self._conversions_known = Conversions(self._found, line_ends=self.settings.line_ends)
        return self._conversions_known

    @property
    def rows(self) -> Sequence[tuple[bytes, Place]]:
        """The index's entries, by its own paths."""
        return self._entries.rows

    @property
    def trees(self) -> Mapping[bytes, bytes]:
        """The trees that the index knows, by its own paths."""
        return self._entries.trees

    def place(self, path: bytes) -> Place | None:
        """Return the index's entry of a path."""
        return self._entries.place(self.inner(path))

    def inner(self, path: bytes) -> bytes:
        """Return what the index calls a path of the workspace."""
        if self._below:
            return path[len(self._below) + 1 :]
        return join(self._found.prefix, path) if path else self._found.prefix

    def outer(self, path: bytes) -> bytes | None:
        """Return what the workspace calls a path of the index; None if it lies outside."""
        path = path.rstrip(b"/")
        if self._below:
            return join(self._below, path)
        prefix = self._found.prefix
        if not prefix:
            return path
        return path[len(prefix) + 1 :] if path.startswith(prefix + b"/") else None

    def differs(self, path: bytes, entry: Entry | None, place: Place | None) -> bool:
        """Tell whether git would show a path, as far as index and files are concerned; `Unknown`."""
        if place is None:
            untracked = entry is not None and entry.kind != DIRECTORY
            return untracked and not self._scene.ignored(path)
        flags, mode = flags_of(place), mode_of(place)
        if flags & (STAGE | INTENDED):
            return True
        if flags & ASSUMED or (flags & SKIPPED and (entry is None or not self.settings.sparse)):
            return False
        if entry is None:
            return self._differs_unread(path, place) if self._scene.within_gap(path) else True
        if mode == GITLINK:
            return entry.kind != DIRECTORY or self._submodule_differs(path, place)
        return self._file_differs(path, entry, place)

    def _file_differs(self, path: bytes, entry: Entry, place: Place) -> bool:
        mode = mode_of(place)
        if entry.kind == DIRECTORY or (entry.kind == LINK) != (mode == LINK_MODE):
            return True
        executable = entry.kind != LINK and bool(entry.mode & _EXECUTABLE)
        if self.settings.modes and executable != (mode == 0o100755):
            return True
        return entry.oid != oid_of(place) and not self._only_converted(path, entry, place)

    def _only_converted(self, path: bytes, entry: Entry, place: Place) -> bool:
        """Tell whether a file with other bytes than the index names counts as the same for git."""
        if entry.kind == LINK:
            return False
        inner = self.inner(path)
        programs = self._conversions.programs(inner)
        if not programs and not self._conversions.line_ends(inner):
            return False
        if self._is_stamped(path, place):
            return True
        if programs:
            raise Unknown
        text = read_known(join(self._scene.root, path), limit=_TEXT_LIMIT)
        if text is None or _blob(text) != entry.oid or b"\r" in text:
            raise Unknown
        return False

    def _is_stamped(self, path: bytes, place: Place) -> bool:
        """Tell whether the index's stat data prove that git has seen the file as it is."""
        stamp = self._scene.scan.stamp(path)
        if stamp is None:
            return False
        seen = (stamp.ctime_ns, stamp.mtime_ns, stamp.inode, stamp.size)
        return self._fits(seen, place)

    def _fits(self, seen: tuple[int, int, int, int], place: Place) -> bool:
        ctime, ctime_ns, mtime, mtime_ns, _, inode, _, _, _, size = stats_of(place)
        racy = mtime * _SECOND + mtime_ns >= self._entries.mtime
        known = (ctime, ctime_ns, mtime, mtime_ns, inode, size)
        now = (*divmod(seen[0], _SECOND), *divmod(seen[1], _SECOND), seen[2], seen[3])
        return not racy and known == tuple(number & _NARROW for number in now)

    def _differs_unread(self, path: bytes, place: Place) -> bool:
        try:
            seen = os.lstat(join(self._scene.root, path))
        except FileNotFoundError:
            return True
        except OSError as error:
            raise Unknown from error
        if stat.S_IFMT(seen.st_mode) != stat.S_IFMT(mode_of(place)):
            return True
        if self._fits((seen.st_ctime_ns, seen.st_mtime_ns, seen.st_ino, seen.st_size), place):
            return False
        size = stats_of(place)[-1]
        if not size or size == seen.st_size & _NARROW or self._conversions.programs(self.inner(path)):
            raise Unknown
        return True

    def _submodule_differs(self, path: bytes, place: Place) -> bool:
        """Tell whether a submodule has another HEAD, or shows something itself."""
        directory = join(self._scene.root, path)
        found = repository.at(directory, root=directory)
        if found is None:
            return False
        modules = read_known(self._found.top + b"/.gitmodules", limit=_RULES_LIMIT) or b""
        if b"ignore" in modules:
            raise Unknown
        commit = refs.head(found)[0]
        if commit is None or bytes.fromhex(commit) != oid_of(place):
            return commit is not None
        entries = read_entries(found)
        inside = Worktree(found, scene=self._scene, entries=entries, below=path)
        return bool(
            staged(found, commit, entries=entries, asker=self._scene.asker)
            or Walk(inside, self._scene).run(path)
        )


class Walk:
    """Compares a whole worktree, passing over the directories that the index knows to be equal."""

    def __init__(self, worktree: Worktree, scene: Scene) -> None:
        self._worktree = worktree
        self._scene = scene
        self._sorted = False
        self._rows: dict[bytes, dict[bytes, Place]] = {}
        self._below: dict[bytes, set[bytes]] = {}
        self._dirty: set[bytes] = set()

    def run(self, top: bytes) -> set[bytes]:
        """Return what git would show at and below a directory, but for what is only staged."""
        tree = self._scene.scan.result.tree.tree if not top else b""
        stack: list[tuple[bytes, bytes]] = [(top, tree)]
        while stack:
            path, oid = stack.pop()
            if self._is_equal(path, oid):
                continue
            if not self._sorted:
                self._sort()
            stack += self._directory(path)
        for path in self._scene.gaps:
            if self._belongs(path, top):
                self._gap(path)
        return self._dirty

    def _sort(self) -> None:
        """Group the index's entries by directory, once one is asked for: most often all are equal."""
        self._sorted = True
        worktree, rows, below = self._worktree, self._rows, self._below
        outer = worktree.outer
        same = worktree.inner(b"") == b"" and worktree.outer(b"") == b""
        for inner, place in worktree.rows:
            path = inner.rstrip(b"/") if same else outer(inner)
            if path is None:
                continue
            above, _, name = path.rpartition(b"/")
            here = rows.get(above)
            if here is None:
                here = rows[above] = {}
                self._open(above, below)
            here.setdefault(name, place)

    def _open(self, directory: bytes, below: dict[bytes, set[bytes]]) -> None:
        while directory:
            above, _, name = directory.rpartition(b"/")
            known = below.setdefault(above, set())
            if name in known:
                return
            known.add(name)
            directory = above

    def _is_equal(self, path: bytes, oid: bytes) -> bool:
        if not oid or self._worktree.trees.get(self._worktree.inner(path)) != oid:
            return False
        inside = path + b"/" if path else b""
        return not any(gap.startswith(inside) for gap in self._scene.gaps)

    def _directory(self, path: bytes) -> list[tuple[bytes, bytes]]:
        """Compare one directory, and return those below it that have to be compared."""
        worktree, dirty = self._worktree, self._dirty
        rows = dict(self._rows.get(path, ()))
        tracked = set(self._below.get(path, ()))
        further: list[tuple[bytes, bytes]] = []
        for entry in self._scene.scan.directory(path) or ():
            full = join(path, entry.name)
            place = rows.pop(entry.name, None)
            if place is not None and mode_of(place) == SPARSE_DIRECTORY:
                raise Unknown  # git would open such a directory as soon as there is something in it
            if worktree.differs(full, entry, place):
                dirty.add(full)
            if entry.kind != DIRECTORY:
                continue
            if place is not None and mode_of(place) == GITLINK:
                tracked.discard(entry.name)
            elif entry.name not in tracked and self._is_nested(full):
                if not self._scene.ignored(full, directory=True):
                    dirty.add(full)
            else:
                tracked.discard(entry.name)
                further.append((full, entry.oid))
        for name, place in rows.items():
            if mode_of(place) != SPARSE_DIRECTORY and worktree.differs(join(path, name), None, place):
                dirty.add(join(path, name))
        return further + [(join(path, name), b"") for name in tracked]

    def _is_nested(self, path: bytes) -> bool:
        if path not in self._scene.nested:
            return False
        directory = join(self._scene.root, path)
        return repository.at(directory, root=directory) is not None

    def _belongs(self, path: bytes, top: bytes) -> bool:
        """Tell whether a path lies in this worktree and not in one nested in it."""
        if top and not path.startswith(top + b"/"):
            return False
        above = path.rpartition(b"/")[0]
        while above and above != top:
            if above in self._scene.nested:
                return False
            above = above.rpartition(b"/")[0]
        return True

    def _gap(self, path: bytes) -> None:
        if self._worktree.place(path) is None and shows(self._scene, path):
            self._dirty.add(path)


def shows(scene: Scene, path: bytes) -> bool:
    """Tell whether git lists an untracked path that the scan could not read."""
    try:
        mode = os.lstat(join(scene.root, path)).st_mode
    except OSError:
        return False
    return (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) and not scene.ignored(path)


def _blob(content: bytes) -> bytes:
    digest: bytes = sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()
    return digest
