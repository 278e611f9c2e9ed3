"""Where a workspace's repository lies (gitrepository-layout(5))."""

from __future__ import annotations

import os
import stat
from _struct import Struct

from lastgood.ignore import GITIGNORE, UNREADABLE, Unreadable, relative, workspace_rules
from lastgood.model.checkpoint import GitState, IgnoreState
from lastgood.paths import to_text
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.ignore import Text
    from lastgood.model.checkpoint import Operation


# --- Reading files that may be hostile: links to devices, pipes, folders, far too large ones ---

_ABSENT = (FileNotFoundError, NotADirectoryError)
_CHUNK = 1 << 20


def open_file(path: bytes, *, follow: bool = True) -> int | Unreadable | None:
    """Open a regular file for reading; None if there is none, `UNREADABLE` if it cannot be known."""
    try:
        # Asked first, because merely opening a device can have effects.
        if not stat.S_ISREG(os.stat(path, follow_symlinks=follow).st_mode):
            return UNREADABLE
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except _ABSENT:
        return None
    except (OSError, ValueError):
        return UNREADABLE


def read_file(path: bytes, *, limit: int, follow: bool = True) -> Text:
    """Return what a file holds; None if there is none, `UNREADABLE` if it cannot be known.

    Whatever is no regular file, or larger than ``limit`` bytes, is unreadable; never waits on a pipe.
    """
    descriptor = open_file(path, follow=follow)
    if not isinstance(descriptor, int):
        return descriptor
    try:
        return read_descriptor(descriptor, limit=limit)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, *, limit: int) -> Text:
    """Return what an open file holds, `UNREADABLE` if it is no regular file or too large."""
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
            return UNREADABLE
        chunks = []
        size = 0
        while chunk := os.read(descriptor, max(_CHUNK, facts.st_size + 1)):
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                return UNREADABLE
    except OSError:
        return UNREADABLE
    return b"".join(chunks)


def read_known(path: bytes, *, limit: int) -> bytes | None:
    """Return what a file holds, None if that cannot be known."""
    text = read_file(path, limit=limit)
    return text if isinstance(text, bytes) else None


def kind_of(path: bytes) -> int:
    """Return the file type bits of what a path leads to, 0 if nothing."""
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return 0


# --- Where a workspace's repository lies (gitrepository-layout(5)) ---

_GITFILE_LIMIT = 8192
CONFIG_LIMIT = 1 << 20


class Repository(Value):
    """A repository that a directory belongs to; all paths are absolute.

    ``git_dir`` is the worktree's own, ``common_dir`` what its worktrees share. ``top`` is the
    directory that holds ``.git``, ``prefix`` the way from there to the workspace (``b""`` if equal).
    ``digest_size`` is that of an object id in bytes: 20, or 32 with SHA-256.
    """

    git_dir: bytes
    common_dir: bytes
    top: bytes
    prefix: bytes
    digest_size: int = 20

    @property
    def objects(self) -> bytes:
        """The object directory."""
        return self.common_dir + b"/objects"


def find(root: bytes) -> Repository | None:
    """Return the repository of a workspace, given its real path; None if it belongs to none.

    Above the workspace, directories of other file systems and repositories of other users do not
    count: what anyone can write there must not decide what is captured.
    """
    here = root.rstrip(b"/") or b"/"
    try:
        ours = os.stat(here)
    except OSError:
        return None
    top = here
    while True:
        found = at(top, root=here)
        if found is not None:
            return found if top == here or _owned(top, ours) else None
        above = os.path.dirname(top)
        try:
            crossed = above == top or os.stat(above).st_dev != ours.st_dev
        except OSError:
            return None
        if crossed:
            return None
        top = above


def at(top: bytes, *, root: bytes) -> Repository | None:
    """Return the repository whose ``.git`` lies in one directory."""
    dot_git = top.rstrip(b"/") + b"/.git"
    kind = kind_of(dot_git)
    git_dir = dot_git if kind == stat.S_IFDIR else _follow(dot_git, top) if kind == stat.S_IFREG else None
    if git_dir is None:
        return None
    common_dir = _common(git_dir)
    if common_dir is None or not os.path.lexists(git_dir + b"/HEAD"):
        return None
    if kind_of(common_dir + b"/objects") != stat.S_IFDIR:
        return None
    return Repository(
        git_dir=git_dir,
        common_dir=common_dir,
        top=top,
        prefix=root[len(top) :].strip(b"/"),
        digest_size=_digest_size(common_dir),
    )


def _owned(top: bytes, ours: os.stat_result) -> bool:
    try:
        owner = os.lstat(os.path.join(top, b".git")).st_uid
    except OSError:
        return False
    return owner in {ours.st_uid, os.geteuid()}


def _follow(gitfile: bytes, top: bytes) -> bytes | None:
    """Return the directory that a ``.git`` file names; such files do not chain."""
    text = read_known(gitfile, limit=_GITFILE_LIMIT)
    if text is None or not text.startswith(b"gitdir: "):
        return None
    return _directory(text[8:].rstrip(b"\r\n"), top)


def _common(git_dir: bytes) -> bytes | None:
    path = git_dir + b"/commondir"
    if not os.path.lexists(path):
        return git_dir
    text = read_known(path, limit=_GITFILE_LIMIT)
    return None if text is None else _directory(text.rstrip(b"\r\n"), git_dir)


def _directory(path: bytes, base: bytes) -> bytes | None:
    if not path or b"\0" in path:
        return None
    whole = os.path.join(base, path)
    return os.path.normpath(whole) if kind_of(whole) == stat.S_IFDIR else None


def _digest_size(common_dir: bytes) -> int:
    # A key cannot be spelled otherwise, so that a search finds what a parser would.
    text = (read_known(common_dir + b"/config", limit=CONFIG_LIMIT) or b"").lower()
    return 32 if b"sha256" in text.partition(b"objectformat")[2].partition(b"\n")[0] else 20


# --- What HEAD stands for, read from loose and packed refs (git-pack-refs(1)) ---

_REF_LIMIT = 8192
_PACKED_LIMIT = 256 << 20
_MOST_HOPS = 5
_HEX = frozenset(b"0123456789abcdef")
# What each worktree has for itself.
_OWN = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")


def keeps_tables(repository: Repository) -> bool:
    """Tell whether refs are kept in a reftable, which is not read here."""
    return kind_of(repository.common_dir + b"/reftable") == stat.S_IFDIR


def head(repository: Repository) -> tuple[str | None, bytes | None]:
    """Return the commit of HEAD in hex, and the ref it names; None for what there is not.

    Both are None where refs are kept in a reftable.
    """
    if keeps_tables(repository):
        return None, None
    return _followed(repository, _read_head(repository.git_dir + b"/HEAD"))


def commit_of(repository: Repository, ref: bytes) -> str | None:
    """Return the commit that a ref stands for, None if there is none."""
    return _followed(repository, _read_ref(repository, ref))[0]


def exists(repository: Repository, ref: bytes) -> bool:
    """Tell whether there is a ref of this name, sound or not."""
    return bool(_read_ref(repository, ref))


def _followed(repository: Repository, text: bytes) -> tuple[str | None, bytes | None]:
    ref = first = target_of(text)
    for _ in range(_MOST_HOPS):
        if ref is None:
            return _commit(text, repository), first
        text = _read_ref(repository, ref)
        ref = target_of(text)
    return None, first


def _read_head(path: bytes) -> bytes:
    # Very old repositories have a symbolic link here.
    try:
        target = os.readlink(path)
    except OSError:
        return read_known(path, limit=_REF_LIMIT) or b""
    return b"ref: " + target if target.startswith(b"refs/") else b""


def target_of(text: bytes) -> bytes | None:
    """Return the ref that the text of a symbolic one names; None if it is no sound name."""
    if not text.startswith(b"ref:"):
        return None
    ref = text[4:].strip()
    parts = ref.split(b"/")
    sound = parts[0] == b"refs" and len(parts) > 1 and not {b"", b".", b".."}.intersection(parts)
    return ref if sound and b"\0" not in ref and b"\n" not in ref else None


def _commit(text: bytes, repository: Repository) -> str | None:
    oid = text.split(b"\n", 1)[0].strip().lower()
    if len(oid) != 2 * repository.digest_size or not _HEX.issuperset(oid):
        return None
    return oid.decode("ascii")


def _read_ref(repository: Repository, ref: bytes) -> bytes:
    directory = repository.git_dir if ref.startswith(_OWN) else repository.common_dir
    loose = read_known(directory + b"/" + ref, limit=_REF_LIMIT)
    if loose is not None:
        return loose
    packed = b"\n" + (read_known(repository.common_dir + b"/packed-refs", limit=_PACKED_LIMIT) or b"")
    at = packed.find(b" " + ref + b"\n")
    return b"" if at < 0 else packed[packed.rfind(b"\n", 0, at) + 1 : at]


# --- What the project's repository says at this moment, as a checkpoint records it ---

IGNORE_FILE_LIMIT = 16 << 20
_HEADS = b"refs/heads/"
# In this order: a rebase leaves marks of the others while it runs.
_MARKS: tuple[tuple[bytes, Operation], ...] = (
    (b"rebase-merge", "rebase"),
    (b"rebase-apply", "rebase"),
    (b"MERGE_HEAD", "merge"),
    (b"CHERRY_PICK_HEAD", "cherry-pick"),
    (b"REVERT_HEAD", "revert"),
)


def state(found: Repository) -> GitState:
    """Return HEAD, branch and operation under way; ``dirty`` and ``nested`` are left to the scanner."""
    commit, ref = head(found)
    branch = to_text(ref[len(_HEADS) :]) if ref is not None and ref.startswith(_HEADS) else None
    return GitState(head=commit, branch=branch, operation=operation(found))


def operation(found: Repository) -> Operation | None:
    """Return what a person or tool has begun in the repository and not ended."""
    for mark, begun in _MARKS:
        if os.path.lexists(found.git_dir + b"/" + mark):
            return begun
    todo = read_known(found.git_dir + b"/sequencer/todo", limit=IGNORE_FILE_LIMIT)
    if todo is not None:  # between two commits of a series
        return "revert" if todo.startswith(b"revert") else "cherry-pick"
    return "bisect" if os.path.lexists(found.git_dir + b"/BISECT_LOG") else None


def nested_head(directory: bytes) -> str | None:
    """Return the commit of the repository whose ``.git`` lies in a directory (rule S4)."""
    found = at(directory, root=directory)
    return None if found is None else head(found)[0]


def outer_rules(found: Repository) -> Text:
    """Return the ignore rules that lie outside the workspace's files, as one text relative to it.

    These are ``info/exclude`` and, where the workspace is a folder within the repository, the
    ``.gitignore`` files above it. If those ignore the workspace itself, it is no part of the project
    (a home directory under version control, say), and they do not count.
    """
    exclude = read_file(found.common_dir + b"/info/exclude", limit=IGNORE_FILE_LIMIT)
    if not found.prefix or isinstance(exclude, Unreadable):
        return exclude
    return _rules_above(found, exclude or b"")


def _rules_above(found: Repository, exclude: bytes) -> Text:
    names = found.prefix.split(b"/")
    top_text = _gitignore(found.top)
    if isinstance(top_text, Unreadable):
        return top_text
    rules = workspace_rules(IgnoreState(info_exclude=exclude), top_text)
    texts = [relative(exclude, names), relative(top_text or b"", names)]
    directory = found.top.rstrip(b"/")
    for depth, name in enumerate(names, start=1):
        if rules.ignored(name, directory=True):
            return b""
        if depth == len(names):
            break
        directory += b"/" + name
        text = _gitignore(directory)
        if isinstance(text, Unreadable):
            return text
        rules = rules.child(name, text)
        texts.append(relative(text or b"", names[depth:]))
    return b"".join(texts)


def _gitignore(directory: bytes) -> Text:
    path = directory + b"/" + GITIGNORE
    # As in git, an ignore file that is a link is none.
    return None if os.path.islink(path) else read_file(path, limit=IGNORE_FILE_LIMIT, follow=False)


# --- The project's index: which paths it tracks, and what it knows of them (gitformat-index(5)) ---

_INDEX_FILE_LIMIT = 1 << 30
HEADER = Struct(">4sII")
# Extensions: an index that builds on another, one with sparse directories, the trees of directories.
SPLIT = b"link"
SPARSE = b"sdir"
TREES = b"TREE"
_TOLD = frozenset({SPLIT, SPARSE, TREES})
# From here on OpenSSL's SHA-1, eight times as fast, is worth its import: an index is hashed three times.
_MUCH = 1 << 19
_LENGTH = Struct(">I")
_STAT_BYTES = 40
# Of the two bytes that matter of a mode, the first; its upper half is 8 for a file. Of the first extended
# byte the bit for what is not to be in the worktree.
_MODE_AT = 26
_PLAIN_FILE = 0o10
_SKIPPED = 0x40


class UnknownIndex:
    """Stands for an index that exists and cannot be understood: any path may be a tracked one."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class IndexDamage(Exception):
    """An index cannot be understood; never leaves the adapter."""


class Index:
    """What one reading of an index found; entries outside the workspace are left out.

    ``places`` are the offsets of the entries by path. ``whole`` is False for a split index: its
    paths then are more than are tracked now, and prove nothing.
    """

    __slots__ = (
        "_content",
        "_digest_size",
        "_directories",
        "_tracked",
        "places",
        "whole",
    )

    def __init__(
        self,
        content: bytes,
        places: dict[bytes, int],
        *,
        repository: Repository,
        whole: bool,
    ) -> None:
        self._content = content
        self._digest_size = repository.digest_size
        self._tracked: frozenset[bytes] | None = None
        self._directories: frozenset[bytes] | None = None
        self.places = _below(places, repository.prefix)
        self.whole = whole

    @property
    def tracked(self) -> frozenset[bytes]:
        """The tracked paths, relative to the workspace; a submodule's is that of its directory."""
        if self._tracked is None:
            self._tracked = frozenset(self.places)
        return self._tracked

    @property
    def tracked_directories(self) -> frozenset[bytes]:
        """The directories above tracked paths, without the workspace itself."""
        if self._directories is None:
            found: set[bytes] = set()
            for path in self.places:
                above = path.rpartition(b"/")[0]
                while above and above not in found:
                    found.add(above)
                    above = above.rpartition(b"/")[0]
            self._directories = frozenset(found)
        return self._directories

    def blobs(self) -> set[bytes]:
        """Return the objects of the files that are to be there; none where the index is not whole."""
        if not self.whole:
            return set()
        content, size = self._content, self._digest_size
        found: set[bytes] = set()
        for at in self.places.values():
            end = at + _STAT_BYTES + size
            if content[at + _MODE_AT] >> 4 != _PLAIN_FILE:
                continue
            if content[end] & 0x40 and content[end + 2] & _SKIPPED:
                continue
            found.add(content[at + _STAT_BYTES : end])
        return found


def read_index(repository: Repository) -> Index | UnknownIndex:
    """Return the index of a worktree; one without entries if there is none."""
    try:
        content, _ = index_file(repository)
        return _parse(content, repository) if content else Index(b"", {}, repository=repository, whole=True)
    except IndexDamage as damage:
        return UnknownIndex(str(damage))


def index_file(repository: Repository) -> tuple[bytes, int]:
    """Return one version of an index, and its mtime in nanoseconds; empty if there is none; `IndexDamage`."""
    descriptor = open_file(repository.git_dir + b"/index")
    if descriptor is None:
        return b"", 0
    if isinstance(descriptor, Unreadable):
        raise IndexDamage("the index cannot be opened")
    try:
        modified = os.fstat(descriptor).st_mtime_ns
        content = read_descriptor(descriptor, limit=_INDEX_FILE_LIMIT)
    except OSError as error:
        raise IndexDamage("the index cannot be read") from error
    finally:
        os.close(descriptor)
    if isinstance(content, Unreadable) or not content:
        raise IndexDamage("the index is empty, or cannot be read")
    return content, modified


def _parse(content: bytes, repository: Repository) -> Index:
    places, extensions = _places(content, digest_size=repository.digest_size)
    shared = extensions.get(SPLIT)
    if shared is not None:
        _add_shared(places, shared[: repository.digest_size], repository=repository)
    return Index(content, places, repository=repository, whole=shared is None)


def _add_shared(places: dict[bytes, int], oid: bytes, *, repository: Repository) -> None:
    """Add the names of the index that a split one builds on, the deleted ones among them."""
    places.pop(b"", None)  # an entry that only replaces one of the other index has no name here
    if not any(oid):
        return
    content = read_shared(repository, oid)
    for name in _places(content, digest_size=repository.digest_size)[0]:
        places.setdefault(name, 0)


def read_shared(repository: Repository, oid: bytes) -> bytes:
    """Return the index that a split one builds on, by the digest that it names."""
    path = repository.git_dir + b"/sharedindex." + oid.hex().encode("ascii")
    content = read_file(path, limit=_INDEX_FILE_LIMIT)
    if content is None or isinstance(content, Unreadable):
        raise IndexDamage("the shared index cannot be read")
    return content


def _below(places: dict[bytes, int], prefix: bytes) -> dict[bytes, int]:
    if not prefix:
        return places
    start = prefix + b"/"
    cut = len(start)
    return {path[cut:]: at for path, at in places.items() if path.startswith(start)}


def _places(content: bytes, *, digest_size: int) -> tuple[dict[bytes, int], dict[bytes, bytes]]:
    """Return where the entry of each path begins, and the extensions that have to be understood."""
    entries, extensions = entries_of(content, digest_size=digest_size)
    places = dict(entries)
    if SPARSE in extensions:  # a sparse directory stands for all below it
        places = {path.rstrip(b"/"): at for path, at in places.items()}
    return places, extensions


def entries_of(content: bytes, *, digest_size: int) -> tuple[list[tuple[bytes, int]], dict[bytes, bytes]]:
    """Return path and place of every entry in git's order, and the extensions; `IndexDamage`."""
    _prove(content, digest_size=digest_size)
    try:
        mark, version, count = HEADER.unpack_from(content, 0)
        if mark != b"DIRC" or version not in {2, 3, 4}:
            raise IndexDamage(f"the index is of an unknown version: {version}")
        walk = _walk_compressed if version == 4 else _walk
        entries = list(walk(content, count=count, digest_size=digest_size))
        extensions = _extensions(content, entries.pop()[1], limit=len(content) - digest_size)
    except (IndexError, ValueError) as failure:
        raise IndexDamage("the index ends too early") from failure
    return entries, extensions


def _walk(content: bytes, *, count: int, digest_size: int) -> Iterator[tuple[bytes, int]]:
    """Yield the path and place of each entry, at last the end under a name that no path can have."""
    at = 12
    fixed = _STAT_BYTES + digest_size + 2
    for _ in range(count):
        flags = at + fixed - 2
        high = content[flags]
        start = at + fixed + (2 if high & 0x40 else 0)
        length = (high & 0x0F) << 8 | content[flags + 1]
        end = start + length if length < 0xFFF else content.index(b"\0", start + length)
        yield content[start:end], at
        at += (end - at + 8) & ~7
    yield b"\0", at


def _walk_compressed(content: bytes, *, count: int, digest_size: int) -> Iterator[tuple[bytes, int]]:
    at = 12
    fixed = _STAT_BYTES + digest_size + 2
    path = b""
    for _ in range(count):
        place = at
        at += fixed + (2 if content[at + fixed - 2] & 0x40 else 0)
        byte = content[at]
        at += 1
        dropped = byte & 0x7F
        while byte & 0x80:
            byte = content[at]
            at += 1
            dropped = (dropped + 1) << 7 | byte & 0x7F
        if dropped > len(path):
            raise IndexDamage("a name of the index drops more than there is")
        end = content.index(b"\0", at)
        path = path[: len(path) - dropped] + content[at:end]
        at = end + 1
        yield path, place
    yield b"\0", at


def _extensions(content: bytes, at: int, *, limit: int) -> dict[bytes, bytes]:
    found = {}
    while at < limit:
        if at + 8 > limit:
            raise IndexDamage("the index does not end where it should")
        mark = content[at : at + 4]
        size = _LENGTH.unpack_from(content, at + 4)[0]
        if not mark[:1].isupper() and mark not in {SPLIT, SPARSE}:
            raise IndexDamage(f"the index needs an unknown extension: {mark!r}")
        if mark in _TOLD:
            found[mark] = content[at + 8 : at + 8 + size]
        at += 8 + size
    if at != limit:
        raise IndexDamage("the index does not end where it should")
    return found


def _prove(content: bytes, *, digest_size: int) -> None:
    """Check the digest at the end; one of zeros was left out on purpose (``index.skipHash``)."""
    if len(content) < 12 + digest_size:
        raise IndexDamage("the index ends too early")
    written = content[-digest_size:]
    if any(written) and digest_of([memoryview(content)[:-digest_size]], size=digest_size) != written:
        raise IndexDamage("the index does not have the digest that it names")


def digest_of(pieces: Sequence[bytes | bytearray | memoryview], *, size: int = 20) -> bytes:
    """Return the digest of some pieces together: SHA-1, or SHA-256 if it is to have 32 bytes."""
    if size == 20 and sum(map(len, pieces)) < _MUCH:
        from _sha1 import sha1

        running = sha1(usedforsecurity=False)
    else:
        import hashlib

        running = hashlib.new("sha1" if size == 20 else "sha256", usedforsecurity=False)
    for piece in pieces:
        running.update(piece)
    digest: bytes = running.digest()
    return digest


def blob_id(content: bytes) -> bytes:
    """Return the id that git gives a file of some content."""
    return digest_of([b"blob %d\0" % len(content), content])
