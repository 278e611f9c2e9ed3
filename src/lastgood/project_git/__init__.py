"""Where a workspace's repository lies (gitrepository-layout(5))."""

from __future__ import annotations

import os
import stat

from lastgood.files import path_exists
from lastgood.ignore import GITIGNORE, UNREADABLE, Unreadable, relative, workspace_rules
from lastgood.model.checkpoint import GitState, IgnoreState
from lastgood.paths import to_text
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.ignore import Text
    from lastgood.literals import GitOperation as Operation


# --- Reading files that may be hostile: links to devices, pipes, folders, far too large ones ---

_ABSENT = (FileNotFoundError, NotADirectoryError)
# What comes after as much as a file is said to have: mostly nothing, for which no large room is made.
_CHUNK = 1 << 16


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
        size, most = 0, facts.st_size + 1
        while chunk := os.read(descriptor, most):
            chunks.append(chunk)
            size, most = size + len(chunk), _CHUNK
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
    # Without its last slash, so that a name can follow: of the root directory nothing is left.
    stem = here.rstrip(b"/")
    while True:
        found = at(stem or b"/", root=here) if path_exists(stem + b"/.git") else None
        if found is not None:
            return found if found.top == here or _owned(found.top, ours) else None
        if not stem:
            return None
        stem = stem.rpartition(b"/")[0]
        try:
            crossed = os.stat(stem or b"/").st_dev != ours.st_dev
        except OSError:
            return None
        if crossed:
            return None


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
    top_text = gitignore(found.top)
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
        text = gitignore(directory)
        if isinstance(text, Unreadable):
            return text
        rules = rules.child(name, text)
        texts.append(relative(text or b"", names[depth:]))
    return b"".join(texts)


def gitignore(directory: bytes) -> Text:
    """Return the ``.gitignore`` of a directory; as in git, one that is a link or a folder is none."""
    path = directory.rstrip(b"/") + b"/" + GITIGNORE
    text = read_file(path, limit=IGNORE_FILE_LIMIT, follow=False)
    if isinstance(text, Unreadable) and (os.path.islink(path) or os.path.isdir(path)):
        return None
    return text
