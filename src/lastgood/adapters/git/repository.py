"""The folder ``objects.git``: a bare repository that git can read and that git's own cleaning spares.

Format 1 with ``extensions.preciousObjects`` makes ``gc``, ``prune`` and ``repack -d`` refuse to
delete anything (invariant 9). The ``fsck`` lines silence only what judges the contents and names
of files: they are the user's business. None is newer than git 2.30, because an unknown one is fatal;
so a git from 2.39 on may still complain of what a project has under the name ``.gitattributes``.
"""

from __future__ import annotations

import os

from lastgood.adapters.git.files import (
    DIRECTORY_MODE,
    storage,
    sync,
    sync_directory,
    write_all,
)
from lastgood.adapters.git.temporary import TemporaryFile

_IGNORED = (
    "hasDotgit",
    "gitmodulesBlob",
    "gitmodulesLarge",
    "gitmodulesMissing",
    "gitmodulesName",
    "gitmodulesParse",
    "gitmodulesPath",
    "gitmodulesSymlink",
    "gitmodulesUpdate",
    "gitmodulesUrl",
)

CONFIG = (
    "[core]\n"
    "\trepositoryformatversion = 1\n"
    "\tfilemode = true\n"
    "\tbare = true\n"
    "\tbigFileThreshold = 32m\n"
    "[extensions]\n"
    "\tpreciousObjects = true\n"
    "[gc]\n"
    "\tauto = 0\n"
    "\tpruneExpire = never\n"
    "\twriteCommitGraph = false\n"
    "[maintenance]\n"
    "\tauto = false\n"
    "[fsck]\n" + "".join(f"\t{name} = ignore\n" for name in _IGNORED)
).encode()
HEAD = b"ref: refs/heads/main\n"

_FOLDERS = (b"objects", b"objects/info", b"objects/pack", b"refs", b"refs/heads", b"refs/tags")


class Layout:
    """Where things lie in the repository, and where its temporary files go."""

    __slots__ = ("damaged", "doubted", "packs", "root", "temporary", "unsynced")

    def __init__(self, root: bytes, *, temporary: bytes) -> None:
        self.root = root
        self.packs = root + b"/objects/pack"
        self.damaged = root + b"/damaged"
        self.doubted = root + b"/doubted"
        self.unsynced = root + b"/unsynced"
        self.temporary = temporary


def create(layout: Layout) -> None:
    """Create the repository durably, or complete one that was half created; `Storage`.

    The configuration comes last: where it is, all folders have been synced.
    """
    try:
        ensure_folder(layout.temporary)
        ensure_folder(layout.root)
        made = [ensure_folder(layout.root + b"/" + name) for name in _FOLDERS]
        missing = [
            (name, content)
            for name, content in ((b"HEAD", HEAD), (b"config", CONFIG))
            if not os.path.lexists(layout.root + b"/" + name)
        ]
        if missing or any(made):
            sync_directory(layout.root + b"/objects")
            sync_directory(layout.root + b"/refs")
            sync_directory(layout.root)
        for name, content in missing:
            write_whole(layout, name, content)
    except OSError as error:
        raise storage(error, doing="creating the object store", at=layout.root) from error


def write_whole(layout: Layout, name: bytes, content: bytes) -> None:
    """Replace a file of the repository's top folder durably; OSError."""
    file = TemporaryFile.create(layout.temporary, b".file")
    try:
        write_all(file.descriptor, content)
        sync(file.descriptor)
        file.rename(layout.root + b"/" + name)
        sync_directory(layout.root)
        file.close()
    finally:
        file.discard()


def ensure_folder(path: bytes) -> bool:
    """Create a private folder unless there is one, and tell whether there was none; OSError."""
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except OSError:
        if not os.path.isdir(path):
            raise
        return False
    return True
