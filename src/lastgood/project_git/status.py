"""What a checkpoint keeps of the project's git beside HEAD: the paths it would show, and its index.

What was found last is remembered in the workspace's cache folder: as long as HEAD, index, settings
and rules are the same, only what changed in the files since the checkpoint before is looked at.
"""

from __future__ import annotations

import os
import stat
from marshal import dumps

from lastgood import project_git
from lastgood.files import digest
from lastgood.ignore import TreeRules, Unreadable
from lastgood.model.checkpoint import IgnoreState
from lastgood.model.tree import DIRECTORY, LINK
from lastgood.paths import join
from lastgood.project_git import CONFIG_LIMIT, IGNORE_FILE_LIMIT, read_file, read_known
from lastgood.project_git.entries import (
    ASSUMED,
    GITLINK,
    INTENDED,
    LINK_MODE,
    SKIPPED,
    SPARSE_DIRECTORY,
    STAGE,
    Unknown,
    flags_of,
    mode_of,
    oid_of,
    read_entries,
    staged,
    stats_of,
)
from lastgood.project_git.index import IndexDamage, blob_id
from lastgood.project_git.remembered import RememberedStatus, index_seen, recall, remember
from lastgood.project_git.remembered import seen as seen_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lastgood.engine import ObjectWriter
    from lastgood.ignore import Text
    from lastgood.model.checkpoint import GitState
    from lastgood.model.tree import Change, Entry, Gap
    from lastgood.project_git import Repository
    from lastgood.project_git.entries import Entries, Place
    from lastgood.project_git.query import Asker
    from lastgood.worktree import Scan


# --- The few settings of a repository that decide what its status is; read, never obeyed otherwise ---

_TRUE = frozenset({b"true", b"yes", b"on", b"1"})
_FALSE = frozenset({b"false", b"no", b"off", b"0", b""})
# Settings that this reading does not follow; with them the status cannot be told from here.
_BEYOND = frozenset(
    {b"core.excludesfile", b"core.attributesfile", b"diff.ignoresubmodules", b"core.precomposeunicode"}
)
_UNUSUAL = {b"core.symlinks": False, b"core.ignorecase": True, b"core.bare": True}


class GitSettings(Value):
    """What counts. ``clear`` is False if something else has a say that is not known here.

    ``bare`` is what the repository says of itself; ``worktree`` is where it says its files are.
    """

    modes: bool = True
    line_ends: bool = False
    sparse: bool = False
    bare: bool = False
    worktree: bytes | None = None
    clear: bool = True


def read_settings(found: Repository) -> GitSettings:
    """Return the settings of a worktree."""
    text = read_known(found.common_dir + b"/config", limit=CONFIG_LIMIT) or b""
    pairs = dict(_pairs(text))
    if pairs.get(b"extensions.worktreeconfig", b"").lower() in _TRUE:
        pairs |= dict(_pairs(read_known(found.git_dir + b"/config.worktree", limit=CONFIG_LIMIT) or b""))
    return GitSettings(
        modes=pairs.get(b"core.filemode", b"true").lower() not in _FALSE,
        line_ends=pairs.get(b"core.autocrlf", b"false").lower() not in _FALSE,
        sparse=pairs.get(b"core.sparsecheckout", b"false").lower() not in _FALSE,
        bare=pairs.get(b"core.bare", b"false").lower() not in _FALSE,
        worktree=_place(pairs.get(b"core.worktree"), found),
        clear=not any(_beyond(key, value) for key, value in pairs.items()),
    )


def _beyond(key: bytes, value: bytes) -> bool:
    said = value.lower() not in _FALSE
    if key in _UNUSUAL:
        return said == _UNUSUAL[key]
    if key in _BEYOND:
        return key != b"core.precomposeunicode" or said
    odd = key == b"\0" or key.startswith((b"include.", b"includeif."))
    return odd or (key.startswith(b"submodule.") and key.endswith(b".ignore"))


def _place(path: bytes | None, found: Repository) -> bytes | None:
    return None if path is None else os.path.normpath(os.path.join(found.git_dir, path))


def _pairs(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the settings of a configuration file in order; what is not understood under a NUL."""
    section = b""
    for whole in _lines(text):
        line = whole
        if line.startswith(b"["):
            section, closed, line = _head(line)
            if not closed:
                yield b"\0", line
        if not line or line[:1] in b"#;":
            continue
        key, equals, value = line.partition(b"=")
        name = key.strip().lower()
        if b" " in name or b"#" in name or b";" in name:
            yield b"\0", line
            continue
        yield section + b"." + name, _value(value) if equals else b"true"


def _lines(text: bytes) -> Iterator[bytes]:
    whole = text.replace(b"\r\n", b"\n").replace(b"\\\n", b"").removeprefix(b"\xef\xbb\xbf")
    for line in whole.split(b"\n"):
        yield line.strip()


def _head(line: bytes) -> tuple[bytes, bool, bytes]:
    """Return the section that a line opens, whether it is understood, and the rest of the line."""
    name, quote, rest = line[1:].partition(b'"')
    if not quote or b"]" in name:
        name, closed, rest = line[1:].partition(b"]")
        return name.strip().lower(), bool(closed), rest.strip()
    below, closed, rest = rest.rpartition(b'"]')
    return name.strip().lower() + b"." + below, bool(closed), rest.strip()


def _value(text: bytes) -> bytes:
    """Return a value without quotes, escapes and comment."""
    out = bytearray()
    quoted = escaped = False
    for byte in text.strip():
        if escaped:
            out.append({0x6E: 0x0A, 0x74: 0x09, 0x62: 0x08}.get(byte, byte))
            escaped = False
        elif byte == 0x5C:
            escaped = True
        elif byte == 0x22:
            quoted = not quoted
        elif byte in b"#;" and not quoted:
            break
        else:
            out.append(byte)
    return bytes(out).rstrip() if not quoted else bytes(out)


# --- Which files of a worktree differ from its index, told from a scan ---

_TEXT_LIMIT = 64 << 20
_NARROW = 0xFFFFFFFF  # what an index keeps of sizes, inodes and seconds
_SECOND = 1_000_000_000
_EXECUTABLE = 0o100


class ScannedWorkspace:
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
        self.nested: frozenset[bytes] = frozenset(one.path for one in nested)
        # Of the rules only git's own count here: what only we leave out is no file of the scan anyway.
        self._rules = TreeRules(result.ignore.replace(excludes=(), includes=()), self._texts)

    def ignored(self, path: bytes, *, directory: bool = False) -> bool:
        """Tell whether git ignores an untracked path."""
        return self._rules.ignored(path, directory=directory) is not False

    def not_ignored(self, directory: bytes, names: Sequence[bytes]) -> list[bytes]:
        """Return which untracked files of a directory git does not ignore."""
        return self._rules.not_ignored(directory, names) if names else []

    def within_gap(self, path: bytes) -> bool:
        """Tell whether a path lies at or below one that the scan could not read."""
        while path:
            if path in self.gaps:
                return True
            path = path.rpartition(b"/")[0]
        return b"" in self.gaps

    def _texts(self, directory: bytes) -> tuple[Text, Text]:
        return project_git.gitignore(join(self.root, directory) if directory else self.root), None


class Worktree:
    """One worktree beside its index. ``below`` is its place in the workspace (a submodule's).

    Paths are relative to the workspace throughout.
    """

    def __init__(
        self, found: Repository, *, files: ScannedWorkspace, entries: Entries, below: bytes = b""
    ) -> None:
        self.settings: GitSettings = read_settings(found)
        elsewhere = self.settings.worktree not in {None, found.top}
        if found.digest_size != 20 or not self.settings.clear or self.settings.bare or elsewhere:
            raise Unknown
        self._found = found
        self._files = files
        self._entries = entries
        self._below = below
        self._conversions_known: Conversions | None = None

    @property
    def _conversions(self) -> Conversions:
        if self._conversions_known is None:
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
            return untracked and not self._files.ignored(path)
        flags, mode = flags_of(place), mode_of(place)
        if flags & (STAGE | INTENDED):
            return True
        if flags & ASSUMED or (flags & SKIPPED and (entry is None or not self.settings.sparse)):
            return False
        if entry is None:
            return self._differs_unread(path, place) if self._files.within_gap(path) else True
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
        text = read_known(join(self._files.root, path), limit=_TEXT_LIMIT)
        if text is None or blob_id(text) != entry.oid or b"\r" in text:
            raise Unknown
        return False

    def _is_stamped(self, path: bytes, place: Place) -> bool:
        """Tell whether the index's stat data prove that git has seen the file as it is."""
        stamp = self._files.scan.stamp(path)
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
            seen = os.lstat(join(self._files.root, path))
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
        directory = join(self._files.root, path)
        found = project_git.at(directory, root=directory)
        if found is None:
            return False
        modules = read_known(self._found.top + b"/.gitmodules", limit=IGNORE_FILE_LIMIT) or b""
        if b"ignore" in modules:
            raise Unknown
        commit = project_git.head(found)[0]
        if commit is None or bytes.fromhex(commit) != oid_of(place):
            return commit is not None
        entries = read_entries(found)
        inside = Worktree(found, files=self._files, entries=entries, below=path)
        return bool(
            staged(found, commit, entries=entries, asker=self._files.asker)
            or Walk(inside, self._files).run(path)
        )


class Walk:
    """Compares a whole worktree, passing over the directories that the index knows to be equal."""

    def __init__(self, worktree: Worktree, files: ScannedWorkspace) -> None:
        self._worktree = worktree
        self._files = files
        self._sorted = False
        self._rows: dict[bytes, dict[bytes, Place]] = {}
        self._below: dict[bytes, set[bytes]] = {}
        self._dirty: set[bytes] = set()

    def run(self, top: bytes) -> set[bytes]:
        """Return what git would show at and below a directory, but for what is only staged."""
        tree = self._files.scan.result.tree.tree if not top else b""
        stack: list[tuple[bytes, bytes]] = [(top, tree)]
        while stack:
            path, oid = stack.pop()
            if self._is_equal(path, oid):
                continue
            if not self._sorted:
                self._sort()
            stack += self._directory(path)
        for path in self._files.gaps:
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
        return not any(gap.startswith(inside) for gap in self._files.gaps)

    def _directory(self, path: bytes) -> list[tuple[bytes, bytes]]:
        """Compare one directory, and return those below it that have to be compared."""
        worktree, dirty = self._worktree, self._dirty
        rows = dict(self._rows.get(path, ()))
        tracked = set(self._below.get(path, ()))
        further: list[tuple[bytes, bytes]] = []
        entries = self._files.scan.directory(path) or ()
        untracked = [one.name for one in entries if one.kind != DIRECTORY and one.name not in rows]
        dirty.update(join(path, name) for name in self._files.not_ignored(path, untracked))
        for entry in entries:
            full = join(path, entry.name)
            place = rows.pop(entry.name, None)
            if place is not None and mode_of(place) == SPARSE_DIRECTORY:
                raise Unknown  # git would open such a directory as soon as there is something in it
            if place is not None and worktree.differs(full, entry, place):
                dirty.add(full)
            if entry.kind != DIRECTORY:
                continue
            if place is not None and mode_of(place) == GITLINK:
                tracked.discard(entry.name)
            elif entry.name not in tracked and self._is_nested(full):
                if not self._files.ignored(full, directory=True):
                    dirty.add(full)
            else:
                tracked.discard(entry.name)
                further.append((full, entry.oid))
        for name, place in rows.items():
            if mode_of(place) != SPARSE_DIRECTORY and worktree.differs(join(path, name), None, place):
                dirty.add(join(path, name))
        return further + [(join(path, name), b"") for name in tracked]

    def _is_nested(self, path: bytes) -> bool:
        if path not in self._files.nested:
            return False
        directory = join(self._files.root, path)
        return project_git.at(directory, root=directory) is not None

    def _belongs(self, path: bytes, top: bytes) -> bool:
        """Tell whether a path lies in this worktree and not in one nested in it."""
        if top and not path.startswith(top + b"/"):
            return False
        above = path.rpartition(b"/")[0]
        while above and above != top:
            if above in self._files.nested:
                return False
            above = above.rpartition(b"/")[0]
        return True

    def _gap(self, path: bytes) -> None:
        if self._worktree.place(path) is None and shows(self._files, path):
            self._dirty.add(path)


def shows(files: ScannedWorkspace, path: bytes) -> bool:
    """Tell whether git lists an untracked path that the scan could not read."""
    try:
        mode = os.lstat(join(files.root, path)).st_mode
    except OSError:
        return False
    return (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) and not files.ignored(path)


# --- What a checkpoint keeps of the project's git beside HEAD: the paths it would show, and its index ---

# A larger index than this is not kept: it is that of half a million files.
INDEX_LIMIT = 64 << 20
# More paths than this are not listed: every checkpoint's manifest would carry them.
DIRTY_LIMIT = 10_000
_SAYING = frozenset({b".gitignore", b".gitattributes", b".gitmodules"})


class GitSnapshot:
    """The state of one moment: ``dirty`` is None if unknown, ``index`` the blob of the index, if kept.

    ``too_large`` is the size of an index that is over the limit.
    """

    def __init__(
        self,
        folder: bytes,
        memory: RememberedStatus,
        *,
        dirty: tuple[bytes, ...] | None,
        too_large: int | None,
    ) -> None:
        self._folder = folder
        self._memory = memory
        self.dirty = dirty
        self.index: bytes | None = memory.index or None
        self.too_large = too_large

    def keep(self, checkpoint: str) -> None:
        """Remember this as what the checkpoint holds; a convenience, so that no failure counts."""
        remember(self._folder, self._memory.replace(checkpoint=checkpoint))


class GitSnapshots:
    """Finds out how the repository stood at one scan."""

    def __init__(
        self,
        root: bytes,
        scan: Scan,
        *,
        folder: bytes,
        asker: Asker,
        writer: ObjectWriter,
    ) -> None:
        self._too_large: int | None = None
        self._entries: Entries | None = None
        self._blob = b""
        self._root = root
        self._scan = scan
        self._folder = folder
        self._asker = asker
        self._writer = writer

    def run(self, git: GitState, *, since: str | None, changes: Sequence[Change]) -> GitSnapshot | None:
        """Return the state of the moment; None if the workspace belongs to no repository.

        ``changes`` are those of the files since the checkpoint named ``since``.
        """
        found = project_git.find(self._root)
        if found is None:
            return None
        mark, seen = self._mark(found, git), index_seen(found)
        known = recall(self._folder)
        memory: RememberedStatus | None = None
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
        return GitSnapshot(self._folder, memory, dirty=dirty, too_large=self._too_large)

    def _go_on(
        self, found: Repository, known: RememberedStatus, changes: Sequence[Change], *, seen: bytes
    ) -> RememberedStatus | None:
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
        self, found: Repository, known: RememberedStatus, changes: Sequence[Change], *, entries: Entries
    ) -> tuple[bytes, ...]:
        gaps = [gap.path for gap in self._scan.result.gaps]
        files = ScannedWorkspace(self._root, self._scan, asker=self._asker)
        worktree = Worktree(found, files=files, entries=entries)
        now = {change.path: change.after for change in changes}
        unread = {path for path in (*gaps, *known.gaps) if now.get(path) is None}
        left = {path for path in known.changed or () if path not in now and path not in unread}
        for path, entry in now.items():
            if path not in unread and worktree.differs(path, entry, worktree.place(path)):
                left.add(path)
        for path in unread:
            place = worktree.place(path)
            if shows(files, path) if place is None else worktree.differs(path, None, place):
                left.add(path)
        return tuple(left)

    def _anew(self, found: Repository, git: GitState) -> RememberedStatus:
        entries = self._read(found)
        changed = self._changed(found, entries)
        held: set[bytes] = set()
        if changed is not None and entries is not None:
            try:
                held = self._staged(found, git, entries)
            except (Unknown, IndexDamage):
                changed = None
        return RememberedStatus(
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
            files = ScannedWorkspace(self._root, self._scan, asker=self._asker)
            worktree = Worktree(found, files=files, entries=entries)
            return tuple(Walk(worktree, files).run(b""))
        except (Unknown, IndexDamage):
            return None

    def _read(self, found: Repository) -> Entries | None:
        """Read the index, once, and hand it to the writer unless it is too large; None if it is damaged."""
        if self._entries is None:
            self._entries = _entries(found)
            content = b"" if self._entries is None else self._entries.canonical()
            if len(content) > INDEX_LIMIT:
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
                seen.append([*_evidence(place), seen_of(place.git_dir + b"/index")])
        heads = [(one.path, one.head) for one in git.nested]
        return digest(dumps((git.head, heads, seen, ignore.info_exclude, ignore.global_exclude), 2))

    def _nested(self, path: bytes) -> Repository | None:
        directory = join(self._root, path)
        return project_git.at(directory, root=directory)


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
    return [(found.git_dir, found.prefix, found.digest_size), *(seen_of(place) for place in places)]


# --- Which files git would convert before it compares them: told from attributes, nothing is converted ---

_ATTRIBUTES = b"/.gitattributes"
_PROGRAMS = frozenset({b"filter", b"ident", b"working-tree-encoding"})
_LINE_ENDS = frozenset({b"text", b"eol", b"crlf"})
_MACRO = b"[attr]"


class Conversions:
    """What the attributes of a worktree may do to its files.

    Attribute patterns are read as ignore patterns, which fit at least as much: in doubt a file counts
    as one that is converted.
    """

    def __init__(self, found: Repository, *, line_ends: bool) -> None:
        self._found = found
        self._all_line_ends = line_ends
        self._rules = {kind: self._rules_of(kind) for kind in (_PROGRAMS, _LINE_ENDS)}

    def programs(self, path: bytes) -> bool:
        """Tell whether something would have to run on a file, given by its path in the worktree."""
        return self._rules[_PROGRAMS].ignored(path, directory=False) is not False

    def line_ends(self, path: bytes) -> bool:
        """Tell whether a file's line ends may be converted."""
        return self._all_line_ends or self._rules[_LINE_ENDS].ignored(path, directory=False) is not False

    def _rules_of(self, kind: frozenset[bytes]) -> TreeRules:
        outer = _chosen(
            read_file(self._found.common_dir + b"/info/attributes", limit=IGNORE_FILE_LIMIT), kind
        )
        state = IgnoreState(
            excludes=(),
            includes=(),
            info_exclude=b"*" if isinstance(outer, Unreadable) else outer or b"",
            global_exclude=b"",
            readable=True,
        )

        def texts(directory: bytes) -> tuple[Text, Text]:
            path = os.path.join(self._found.top, directory) if directory else self._found.top
            return _chosen(read_file(path + _ATTRIBUTES, limit=IGNORE_FILE_LIMIT, follow=False), kind), None

        return TreeRules(state, texts)


def _chosen(text: Text, kind: Iterable[bytes]) -> Text:
    """Return the patterns of an attributes file that give attributes of a kind, one a line."""
    if text is None or isinstance(text, Unreadable):
        return text
    lines = (line.strip() for line in text.split(b"\n"))
    patterns = [_pattern(line) for line in lines if line and line[:1] != b"#" and _gives(line, kind)]
    return b"\n".join(patterns) + b"\n" if patterns else b""


def _gives(line: bytes, kind: Iterable[bytes]) -> bool:
    if line.startswith((b'"', _MACRO)):
        return any(word in line for word in kind)
    return any(word.partition(b"=")[0] in kind for word in line.split()[1:])


def _pattern(line: bytes) -> bytes:
    # Macros can be given to any file, and quoted patterns are rare enough to fit them all.
    return b"*" if line.startswith((b'"', _MACRO, b"!")) else line.split()[0]
