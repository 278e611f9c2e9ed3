"""Where HEAD stands and what the index holds; whether both can be put back, and how.

No branch is moved, nothing is run. A lock is made whole beside its place and linked there, so that a
lock left by a killed process of ours is known for what it is: the same file under both names.
"""

from __future__ import annotations

import os
import stat

from lastgood import project_git
from lastgood.errors import Conflict, Damaged, Storage, Unsafe, Unsupported, count
from lastgood.files import sync_directory, write_whole
from lastgood.host import FoundGitPosition, GitPosition, RealignedGit
from lastgood.paths import printable, to_bytes, to_text
from lastgood.project_git import operation, read_known
from lastgood.project_git.entries import (
    GITLINK,
    INTENDED,
    STAGE,
    Entries,
    flags_of,
    mode_of,
    oid_of,
    read_entries,
)
from lastgood.project_git.index import IndexDamage, blob_id
from lastgood.project_git.status import read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from lastgood.project_git import Repository
    from lastgood.project_git.query import Asker


# --- Puts HEAD and index back, as git would: by lock files that become the new ones (rule T9) ---

HEAD = b"HEAD"
INDEX = b"index"
REF = b"ref"
KEPT = b"refs/lastgood/kept/"
_NOBODY = "0" * 40
_KEPT_DIGITS = 16
_WRITER = "lastgood <lastgood@localhost>"
_TAIL_BYTES = 4096
# How often it is tried to take away what lies beside HEAD and index: a lock that stays stops every git.
_TRIES = 2


class Held(Exception):
    """Another program holds a lock; never leaves the adapter."""


class Realignment:
    """Holds the locks of HEAD and index: while entered, no git changes either."""

    def __init__(self, found: Repository, *, head: bytes, index: bytes) -> None:
        self._found = found
        self._new = {HEAD: head, INDEX: index}

    def __enter__(self) -> Self:
        try:
            for name, content in self._new.items():
                clear(self._found, name)
                self._take(name, content)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._release()

    def put_head(self, *, old: str | None, new: str | None, message: str, at: int) -> str | None:
        """Move HEAD, and return the ref under which the old commit is kept. ``at`` is in seconds."""
        kept = None if old is None else _keep(self._found, old)
        if new is not None:
            _log(self._found, f"{old or _NOBODY} {new} {_WRITER} {at} +0000\t{message}\n".encode())
        self._put(HEAD)
        return kept

    def put_index(self) -> None:
        """Replace the index."""
        self._put(INDEX)

    def _put(self, name: bytes) -> None:
        os.rename(_lock(self._found, name), self._found.git_dir + b"/" + name)
        sync_directory(self._found.git_dir)

    def _take(self, name: bytes, content: bytes) -> None:
        beside, place = _beside(self._found, name), self._found.git_dir + b"/" + name
        _write(beside, content, mode=_mode_like(place))
        try:
            os.link(beside, _lock(self._found, name), follow_symlinks=False)
        except FileExistsError as error:
            raise Held from error

    def _release(self) -> None:
        """Let go of the locks, and of what lies beside; what stays (`left_behind`) fails nothing."""
        for name in self._new:
            for _ in range(_TRIES):
                try:
                    clear(self._found, name)
                except OSError:
                    continue
                break


def left_behind(found: Repository) -> list[str]:
    """Return the paths of what could not be taken away after HEAD and index were put back, locks first."""
    left = []
    for name in (HEAD, INDEX):
        beside, lock = _beside(found, name), _lock(found, name)
        try:
            mine = _identity(beside)
            if mine is not None:
                left += [lock, beside] if _identity(lock) == mine else [beside]
        except OSError:
            continue  # a disk that says nothing of them has failed the rest as well
    return [printable(to_text(path)) for path in left]


def clear(found: Repository, name: bytes) -> None:
    """Take away what a killed process of ours left: its lock, told by being the same file, then the file."""
    beside, lock = _beside(found, name), _lock(found, name)
    mine = _identity(beside)
    if mine is None:
        return
    if _identity(lock) == mine:
        os.unlink(lock)
    os.unlink(beside)


def locked(found: Repository) -> str | None:
    """Return the name of a lock that another program holds, None if there is none."""
    for name in (INDEX, HEAD):
        seen = _identity(_lock(found, name))
        if seen is not None and seen != _identity(_beside(found, name)):
            return to_text(name) + ".lock"
    return None


def refuse_foreign(found: Repository, *, root: bytes) -> None:
    """Refuse a repository of which it is not certain that it is this workspace's own."""
    if found.prefix:
        raise Unsafe(
            f"the workspace is only a part of the repository in {printable(to_text(found.top))}",
            hint="HEAD and index belong to all of it: open that folder as the workspace, or leave out --git",
        )
    if found.digest_size != 20:
        raise Unsupported("the project's repository uses SHA-256", hint="restore without --git")
    if project_git.keeps_tables(found):
        raise Unsupported("the project keeps its refs in a reftable", hint="restore without --git")
    dot_git = root.rstrip(b"/") + b"/.git"
    seen = os.lstat(dot_git)
    if stat.S_ISLNK(seen.st_mode) or not (stat.S_ISDIR(seen.st_mode) or _points_back(found, dot_git)):
        raise Unsafe(
            "the project's .git leads elsewhere, to a repository that does not name this folder as its own",
            hint="restore without --git, and move HEAD there with git itself",
        )
    links = (HEAD, INDEX, b"refs", b"logs", b"logs/HEAD")
    linked = [name for name in links if os.path.islink(found.git_dir + b"/" + name)]
    if linked:
        raise Unsupported(
            f"{to_text(linked[0])} of the project's repository is a link", hint="restore without --git"
        )


def refuse_locked(found: Repository) -> None:
    """Refuse while another program changes the repository, or seems to."""
    lock = locked(found)
    if lock is not None:
        place = printable(to_text(found.git_dir))
        raise Conflict(
            f"git is at work in the project, or left a lock behind: {place}/{lock}",
            hint="wait for it; if no git runs there, delete that file",
            details={"lock": f"{place}/{lock}"},
        )


def _points_back(found: Repository, dot_git: bytes) -> bool:
    """Tell whether the repository that a ``.git`` file names knows that file, or its folder."""
    said = read_known(found.git_dir + b"/gitdir", limit=8192)
    if said is not None:
        place = os.path.join(found.git_dir, said.rstrip(b"\r\n"))
        return os.path.realpath(place) == os.path.realpath(dot_git)
    worktree = read_settings(found).worktree
    return worktree is not None and os.path.realpath(worktree) == os.path.realpath(os.path.dirname(dot_git))


def _keep(found: Repository, commit: str) -> str:
    """Name a commit by a ref of ours, so that git frees nothing of it."""
    name = KEPT + commit[:_KEPT_DIGITS].encode()
    directory = found.common_dir
    for part in name.split(b"/")[:-1]:
        directory += b"/" + part
        try:
            os.mkdir(directory)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(directory).st_mode):
                raise
    if project_git.commit_of(found, name) == commit:
        return to_text(name)
    beside = _beside(found, REF)
    _drop(beside)
    _write(beside, commit.encode() + b"\n", mode=0o644)
    os.rename(beside, found.common_dir + b"/" + name)
    sync_directory(directory)
    sync_directory(os.path.dirname(directory))
    return to_text(name)


def _log(found: Repository, line: bytes) -> None:
    """Add a line to HEAD's log if there is one, unless a killed process of ours has added it already."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(found.git_dir + b"/logs/HEAD", flags)
    except OSError:
        return
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            return
        tail = os.pread(descriptor, _TAIL_BYTES, max(0, seen.st_size - _TAIL_BYTES))
        last = tail.rstrip(b"\n").rpartition(b"\n")[2] + b"\n"
        if _without_time(last) == _without_time(line):
            return
        if tail and not tail.endswith(b"\n"):
            line = b"\n" + line
        write_whole(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _without_time(line: bytes) -> tuple[bytes, bytes]:
    who, _, what = line.partition(b"\t")
    return who.partition(b"> ")[0], what


def _write(path: bytes, content: bytes, *, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, mode)
        write_whole(descriptor, content)
        os.fsync(descriptor)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def _mode_like(path: bytes) -> int:
    """Return the permissions of what is replaced, so that a shared repository stays one."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except FileNotFoundError:
        return 0o644


def _identity(path: bytes) -> tuple[int, int] | None:
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return None
    return seen.st_dev, seen.st_ino


def _drop(path: bytes) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _lock(found: Repository, name: bytes) -> bytes:
    return found.git_dir + b"/" + name + b".lock"


def _beside(found: Repository, name: bytes) -> bytes:
    return found.git_dir + b"/lastgood-" + name + b".new"


# --- Where HEAD stands and what the index holds; whether both can be put back, and how ---

_SHOWN = 5
_PATIENCE_SECONDS = 60.0


def found_position(root: bytes) -> FoundGitPosition | None:
    """Return how the workspace's own repository stands; None if there is none."""
    found = project_git.find(root)
    return None if found is None else _find_position(found, root=root)


def attachable(root: bytes, position: GitPosition) -> bool:
    """Tell whether HEAD could stand on the branch: it still points at the commit, or is still unborn."""
    found = project_git.find(root)
    return found is not None and _attachable(found, position)


def is_taken(root: bytes, branch: str) -> bool:
    """Tell whether another worktree stands on a branch, by its whole name."""
    found = project_git.find(root)
    return found is not None and _is_elsewhere(found, to_bytes(branch))


def refuse(root: bytes, wanted: GitPosition, content: bytes, *, asker: Asker) -> None:
    """Raise what speaks against bringing a position about."""
    found = _own(root)
    begun = operation(found)
    if begun is not None:
        raise Unsafe(
            f"a {begun} is under way in the project: HEAD and index are part of it",
            hint=f"end it first: git {begun} --abort"
            if begun != "bisect"
            else "end it first: git bisect reset",
            details={"operation": begun},
        )
    if read_settings(found).bare:
        raise Unsafe("the project's repository is a bare one", hint="restore without --git")
    refuse_locked(found)
    if wanted.commit is None and not _attachable(found, wanted):
        raise Conflict(
            f"{printable(wanted.branch or 'the branch')} has commits by now",
            hint="HEAD cannot stand before its first commit: restore without --git",
        )
    _refuse_missing(found, wanted, content, asker=asker)


def realign(
    root: bytes, *, known: GitPosition, wanted: GitPosition, content: bytes, words: str, at: int
) -> RealignedGit:
    """Bring a position about, from the known one or from half-way between them.

    Raises `Conflict` if something else is found, or a lock is held; `Storage` if the disk fails.
    """
    found = _own(root)
    try:
        for name in (INDEX, HEAD, REF):
            clear(found, name)
        if project_git.head(found)[0] == wanted.commit and _stands(found, root, wanted):
            return _realigned(found, content, kept=None)
        with Realignment(found, head=_text(found, wanted), index=content) as locks:
            now = _find_position(found, root=root).position
            if now.commit not in {known.commit, wanted.commit} or now.index not in {
                known.index,
                wanted.index,
            }:
                raise Conflict("HEAD or index changed since", hint="look again: git status")
            kept = None
            if _head(found) != _text(found, wanted):
                kept = locks.put_head(old=now.commit, new=wanted.commit, message=words, at=at)
            if now.index != wanted.index:
                locks.put_index()
        return _realigned(found, content, kept=kept)
    except Held:
        refuse_locked(found)
        raise Conflict("git is at work in the project", hint="try again") from None
    except OSError as error:
        left = left_behind(found)
        raise Storage(
            f"the project's git could not be written: {error.strerror}"
            + (f"; delete what stayed there: {', '.join(left)}" if left else ""),
            hint="fix the disk or its permissions, then restore with --git again",
        ) from error


def _own(root: bytes) -> Repository:
    found = project_git.find(root)
    if found is None:
        raise Unsafe("the workspace has no repository now", hint="restore without --git")
    try:
        refuse_foreign(found, root=root)
    except OSError as error:
        raise Unsafe(
            f"the project's repository cannot be looked at: {error.strerror}", hint="restore without --git"
        ) from error
    return found


def _find_position(found: Repository, *, root: bytes) -> FoundGitPosition:
    refuse_foreign(found, root=root)
    try:
        entries = read_entries(found)
        content = entries.canonical()
    except IndexDamage as damage:
        raise Unsafe(
            f"the project's index cannot be read: {damage}",
            hint="rebuild it: git reset, or git read-tree HEAD",
        ) from damage
    commit, ref = project_git.head(found)
    branch = None if ref is None else to_text(ref)
    position = GitPosition(branch=branch, commit=commit, index=blob_id(content).hex())
    return FoundGitPosition(position=position, conflicts=_conflicts(entries))


def _stands(found: Repository, root: bytes, wanted: GitPosition) -> bool:
    """Tell whether everything is as wanted already."""
    return (
        _head(found) == _text(found, wanted)
        and _find_position(found, root=root).position.index == wanted.index
    )


def _head(found: Repository) -> bytes:
    return read_known(found.git_dir + b"/HEAD", limit=8192) or b""


def _text(found: Repository, wanted: GitPosition) -> bytes:
    """Return what HEAD has to say: the branch if it is where it was, else the commit itself."""
    if _attachable(found, wanted):
        assert wanted.branch is not None
        return b"ref: " + to_bytes(wanted.branch) + b"\n"
    if wanted.commit is None:
        raise Conflict("the branch has commits by now", hint="restore without --git")
    return wanted.commit.encode() + b"\n"


def _attachable(found: Repository, position: GitPosition) -> bool:
    if position.branch is None:
        return False
    ref = to_bytes(position.branch)
    if project_git.target_of(b"ref: " + ref) != ref or not _sound(ref) or _is_elsewhere(found, ref):
        return False
    if position.commit is None:
        return not project_git.exists(found, ref)
    return project_git.commit_of(found, ref) == position.commit


def _sound(ref: bytes) -> bool:
    """Tell whether git would take a name of a branch (git-check-ref-format(1)), whatever was recorded."""
    bad = (b"..", b"@{", b"//", b"/.", b".lock/", b"\\", b"~", b"^", b":", b"?", b"*", b"[", b" ", b"\x7f")
    plain = not any(part in ref for part in bad) and min(ref) > 0x20
    return plain and ref.startswith(b"refs/heads/") and not ref.endswith((b".lock", b".", b"/"))


def _is_elsewhere(found: Repository, ref: bytes) -> bool:
    """Tell whether another worktree stands on a branch: git lets only one do so."""
    folder = found.common_dir + b"/worktrees"
    try:
        others = [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        others = []
    for place in (found.common_dir, *others):
        if os.path.realpath(place) == os.path.realpath(found.git_dir):
            continue
        text = read_known(place + b"/HEAD", limit=8192) or b""
        if text.rstrip(b"\n") == b"ref: " + ref:
            return place != found.common_dir or not read_settings(found).bare
    return False


def _refuse_missing(found: Repository, wanted: GitPosition, content: bytes, *, asker: Asker) -> None:
    """Refuse if git could not find all that HEAD and index are going to name."""
    names: dict[bytes, bytes] = {}
    for path, place in Entries(content, repository=found).rows:
        if mode_of(place) != GITLINK and not flags_of(place) & INTENDED:
            names.setdefault(oid_of(place).hex().encode(), path)
    questions = [*names]
    if wanted.commit is not None:
        questions += [wanted.commit.encode(), wanted.commit.encode() + b"^{tree}"]
    if not questions:
        return
    if asker.program is None:
        raise Unsupported(
            "without git nobody can tell whether the commit is still there",
            hint="install git, or leave out --git",
        )
    given = b"".join(question + b"\n" for question in questions)
    said = asker.ask(
        found, [b"cat-file", b"--batch-check", b"--buffer"], given=given, patience=_PATIENCE_SECONDS
    )
    lines = (said or b"").splitlines()
    if len(lines) != len(questions):
        raise Damaged("git cannot read the project's objects", hint="see what is wrong: git fsck")
    lost = [question for question, line in zip(questions, lines, strict=True) if line.endswith(b" missing")]
    if lost:
        told = [to_text(names.get(question, b"commit " + question)) for question in lost]
        raise Unsafe(
            f"the project's repository has lost {count(len(lost), 'object')}: {_some(told)}",
            hint="fetch them again, or restore the files alone: leave out --git",
            details={"missing": told},
        )


def _realigned(found: Repository, content: bytes, *, kept: str | None) -> RealignedGit:
    text = _head(found).rstrip(b"\n")
    conflicts = _conflicts(Entries(content, repository=found))
    left = tuple(left_behind(found))
    return RealignedGit(head=to_text(text), kept=kept, conflicts=conflicts, left=left)


def _conflicts(entries: Entries) -> tuple[bytes, ...]:
    return tuple(sorted({path for path, place in entries.rows if flags_of(place) & STAGE}))


def _some(names: list[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
