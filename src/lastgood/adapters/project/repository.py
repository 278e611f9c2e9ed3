"""Where a workspace's repository lies (gitrepository-layout(5))."""

from __future__ import annotations

import os
import stat

from lastgood.adapters.project.files import kind_of, read_known
from lastgood.value import Value

_GITFILE_LIMIT = 8192
_CONFIG_LIMIT = 1 << 20


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
    text = (read_known(common_dir + b"/config", limit=_CONFIG_LIMIT) or b"").lower()
    return 32 if b"sha256" in text.partition(b"objectformat")[2].partition(b"\n")[0] else 20
