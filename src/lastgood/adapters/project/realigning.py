"""Puts HEAD and index back, as git would: by lock files that become the new ones (rule T9).

No branch is moved, nothing is run. A lock is made whole beside its place and linked there, so that a
lock left by a killed process of ours is known for what it is: the same file under both names.
"""

from __future__ import annotations

import os
import stat

from lastgood.adapters.files import sync_directory, write_whole
from lastgood.adapters.project import refs
from lastgood.errors import Conflict, Unsafe, Unsupported
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from lastgood.adapters.project.repository import Repository

HEAD = b"HEAD"
INDEX = b"index"
REF = b"ref"
KEPT = b"refs/lastgood/kept/"
_NOBODY = "0" * 40
_KEPT_DIGITS = 16
_WRITER = "lastgood <lastgood@localhost>"
_TAIL_BYTES = 4096


class Held(Exception):
    """Another program holds a lock; never leaves the adapter."""


class Realigning:
    """Holds the locks of HEAD and index: while entered, no git changes either."""

    def __init__(self, found: Repository, *, head: bytes, index: bytes) -> None:
        self._found = found
        self._new = {HEAD: head, INDEX: index}
        self._taken: list[bytes] = []

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
        self._taken.remove(name)
        os.unlink(_beside(self._found, name))

    def _take(self, name: bytes, content: bytes) -> None:
        beside, place = _beside(self._found, name), self._found.git_dir + b"/" + name
        _write(beside, content, mode=_mode_like(place))
        try:
            os.link(beside, _lock(self._found, name), follow_symlinks=False)
        except FileExistsError as error:
            os.unlink(beside)
            raise Held from error
        self._taken.append(name)

    def _release(self) -> None:
        for name in self._taken:
            clear(self._found, name)
        self._taken = []


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
    if refs.keeps_tables(found):
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
    from lastgood.adapters.project.files import read_known
    from lastgood.adapters.project.settings import read_settings

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
    if refs.commit_of(found, name) == commit:
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
