"""What a checkpoint keeps of the project's git beside HEAD: the paths it would show, and its index.

What was found last is remembered in the workspace's cache folder: as long as HEAD, index, settings
and rules are the same, only what changed in the files since the checkpoint before is looked at.
"""

from __future__ import annotations

import fcntl
import os
from marshal import dumps, loads

from lastgood.adapters.files import write_whole
from lastgood.adapters.project import repository
from lastgood.adapters.project.entries import read_entries
from lastgood.adapters.project.index import IndexDamage
from lastgood.adapters.project.staging import Unknown, staged
from lastgood.adapters.project.worktree import Scene, Walk, Worktree, shows
from lastgood.adapters.proven import digest, proven, read_proven
from lastgood.names import join
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.adapters.project.asking import Asker
    from lastgood.adapters.project.entries import Entries
    from lastgood.adapters.project.repository import Repository
    from lastgood.model.checkpoint import GitState
    from lastgood.model.tree import Change
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.workspace import Scan

# A larger index than this is not kept: it is that of half a million files.
INDEX_LIMIT = 64 << 20
# More paths than this are not listed: every checkpoint's manifest would carry them.
DIRTY_LIMIT = 10_000
_FORMAT = b"lastgood git state 1\n"
_NAME = b"/git.state"
_SAYING = frozenset({b".gitignore", b".gitattributes", b".gitmodules"})


class Memory(Value):
    """What was found for one checkpoint. ``mark`` stands for all that it depends on besides files and index.

    ``seen`` stands for what stat said of the index, ``plain`` tells how its entries can be found.
    ``changed`` are the paths at which files and index differed, None if unknown; ``staged`` those at
    which index and HEAD did, ``gaps`` the paths that could not be read, ``index`` the blob's id.
    """

    checkpoint: str
    mark: bytes
    seen: bytes
    changed: tuple[bytes, ...] | None
    staged: tuple[bytes, ...]
    gaps: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    index: bytes
    plain: bool


class Alignment:
    """The state of one moment: ``dirty`` is None if unknown, ``index`` the blob of the index, if kept.

    ``too_large`` is the size of an index that is over the limit.
    """

    def __init__(
        self, folder: bytes, memory: Memory, *, dirty: tuple[bytes, ...] | None, too_large: int | None
    ) -> None:
        self._folder = folder
        self._memory = memory
        self.dirty = dirty
        self.index = memory.index or None
        self.too_large = too_large

    def keep(self, checkpoint: str) -> None:
        """Remember this as what the checkpoint holds; a convenience, so that no failure counts."""
        body = dumps([*self._memory.replace(checkpoint=checkpoint).as_dict().values()])
        temporary = self._folder + _NAME + b".new"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(temporary, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one writer is enough
                os.ftruncate(descriptor, 0)
                write_whole(descriptor, proven(_FORMAT, body))
                os.rename(temporary, self._folder + _NAME)
            finally:
                os.close(descriptor)
        except OSError:
            return


class Aligner:
    """Finds out the alignment of one scan."""

    def __init__(
        self,
        root: bytes,
        scan: Scan,
        *,
        folder: bytes,
        asker: Asker,
        writer: ObjectWriter,
        limit: int = INDEX_LIMIT,
    ) -> None:
        self._limit = limit
        self._too_large: int | None = None
        self._entries: Entries | None = None
        self._blob = b""
        self._root = root
        self._scan = scan
        self._folder = folder
        self._asker = asker
        self._writer = writer

    def run(self, git: GitState, *, since: str | None, changes: Sequence[Change]) -> Alignment | None:
        """Return the alignment; None if the workspace belongs to no repository.

        ``changes`` are those of the files since the checkpoint named ``since``.
        """
        found = repository.find(self._root)
        if found is None:
            return None
        mark, seen = self._mark(found, git), digest(dumps(_seen(found.git_dir + b"/index"), 2))
        known = _load(self._folder)
        memory: Memory | None = None
        if (
            known is not None
            and (known.mark, known.checkpoint) == (mark, since)
            and known.changed is not None
        ):
            memory = self._go_on(found, known, changes, seen=seen)
        if memory is None:
            memory = self._anew(found, git)
        memory = memory.replace(
            mark=mark,
            seen=seen,
            gaps=tuple(gap.path for gap in self._scan.result.gaps),
            nested=tuple(one.path for one in git.nested),
        )
        dirty = None
        if memory.changed is not None:
            paths = {*memory.changed, *memory.staged}
            dirty = tuple(sorted(paths)) if len(paths) <= DIRTY_LIMIT else None
        return Alignment(self._folder, memory, dirty=dirty, too_large=self._too_large)

    def _go_on(
        self, found: Repository, known: Memory, changes: Sequence[Change], *, seen: bytes
    ) -> Memory | None:
        """Look only at what changed in the files since; None if the index holds something else by now."""
        entries: Entries | None = None
        if known.seen != seen or not known.index or self._writer.lacks([known.index]):
            entries = self._read(found)
            if not self._blob or self._blob != known.index:
                return None  # if it is the same, git only learned what stat says by now
        if not _is_simple(changes, known.nested):
            return known.replace(changed=self._changed(found, entries or self._read(found)))
        if not changes and not known.gaps and not self._scan.result.gaps:
            return known
        try:
            if entries is None:
                entries = read_entries(found, plain=known.plain)
            if not known.plain:
                return known.replace(changed=self._changed(found, entries))
            return known.replace(changed=self._changed_since(found, known, changes, entries=entries))
        except (Unknown, IndexDamage):
            return known.replace(changed=None)

    def _changed_since(
        self, found: Repository, known: Memory, changes: Sequence[Change], *, entries: Entries
    ) -> tuple[bytes, ...]:
        gaps = [gap.path for gap in self._scan.result.gaps]
        scene = Scene(self._root, self._scan, asker=self._asker)
        worktree = Worktree(found, scene=scene, entries=entries)
        now = {change.path: change.after for change in changes}
        unread = {path for path in (*gaps, *known.gaps) if now.get(path) is None}
        left = {path for path in known.changed or () if path not in now and path not in unread}
        for path, entry in now.items():
            if path not in unread and worktree.differs(path, entry, worktree.place(path)):
                left.add(path)
        for path in unread:
            place = worktree.place(path)
            if shows(scene, path) if place is None else worktree.differs(path, None, place):
                left.add(path)
        return tuple(left)

    def _anew(self, found: Repository, git: GitState) -> Memory:
        entries = self._read(found)
        changed = self._changed(found, entries)
        held: set[bytes] = set()
        if changed is not None and entries is not None:
            try:
                held = self._staged(found, git, entries)
            except (Unknown, IndexDamage):
                changed = None
        return Memory(
            checkpoint="",
            mark=b"",
            seen=b"",
            changed=changed,
            staged=tuple(held),
            gaps=(),
            nested=(),
            index=self._blob,
            plain=entries is not None and entries.plain,
        )

    def _staged(self, found: Repository, git: GitState, entries: Entries) -> set[bytes]:
        paths = staged(found, git.head, entries=entries, asker=self._asker)
        if not found.prefix:
            return {path.rstrip(b"/") for path in paths}
        start = found.prefix + b"/"
        return {path[len(start) :] for path in paths if path.startswith(start)}

    def _changed(self, found: Repository, entries: Entries | None) -> tuple[bytes, ...] | None:
        if entries is None:
            return None
        try:
            scene = Scene(self._root, self._scan, asker=self._asker)
            worktree = Worktree(found, scene=scene, entries=entries)
            return tuple(Walk(worktree, scene).run(b""))
        except (Unknown, IndexDamage):
            return None

    def _read(self, found: Repository) -> Entries | None:
        """Read the index, once, and hand it to the writer unless it is too large; None if it is damaged."""
        if self._entries is None:
            self._entries = _entries(found)
            content = b"" if self._entries is None else self._entries.canonical()
            if len(content) > self._limit:
                self._too_large = len(content)
            elif content:
                self._blob = self._writer.blob(content)
        return self._entries

    def _mark(self, found: Repository, git: GitState) -> bytes:
        """Return what changes whenever something else than the workspace's files has a say."""
        ignore = self._scan.result.ignore
        seen = [_evidence(found)]
        for one in git.nested:
            place = self._nested(one.path)
            if place is not None:
                seen.append([*_evidence(place), _seen(place.git_dir + b"/index")])
        heads = [(one.path, one.head) for one in git.nested]
        return digest(dumps((git.head, heads, seen, ignore.info_exclude, ignore.global_exclude), 2))

    def _nested(self, path: bytes) -> Repository | None:
        directory = join(self._root, path)
        return repository.at(directory, root=directory)


def _entries(found: Repository) -> Entries | None:
    """Return the index's entries, None if they cannot be understood."""
    if found.digest_size != 20:
        return None
    try:
        entries = read_entries(found)
        assert entries.rows is not None
    except IndexDamage:
        return None
    return entries


def _is_simple(changes: Sequence[Change], nested: tuple[bytes, ...]) -> bool:
    """Tell whether each change has a say about its own path only."""
    inside = tuple(path + b"/" for path in nested)
    return not any(
        change.path.rpartition(b"/")[2] in _SAYING or (change.path + b"/").startswith(inside)
        for change in changes
    )


def _evidence(found: Repository) -> list[tuple[object, ...]]:
    """Return what stat says of the files that decide about a worktree's status, but for its index."""
    places = (
        found.common_dir + b"/config",
        found.git_dir + b"/config.worktree",
        found.common_dir + b"/info/attributes",
    )
    return [(found.git_dir, found.prefix, found.digest_size), *(_seen(place) for place in places)]


def _seen(place: bytes) -> tuple[int, ...]:
    try:
        said = os.stat(place)
    except OSError:
        return ()
    return (said.st_mode, said.st_size, said.st_mtime_ns, said.st_ctime_ns, said.st_ino)


def _load(folder: bytes) -> Memory | None:
    body = read_proven(folder + _NAME, form=_FORMAT)
    if body is None:
        return None
    found = loads(body)  # noqa: S302 - our own file, proven by its checksum
    names = ("checkpoint", "mark", "seen", "changed", "staged", "gaps", "nested", "index", "plain")
    return Memory(**dict(zip(names, found, strict=True))) if len(found) == len(names) else None
