"""The folder ``objects.git``: a bare repository that git can read and that git's own cleaning spares.

Format 1 with ``extensions.preciousObjects`` makes ``gc``, ``prune`` and ``repack -d`` refuse to
delete anything (invariant 9). The ``fsck`` lines silence only what judges the contents and names
of files: they are the user's business. None is newer than git 2.30, because an unknown one is fatal;
so a git from 2.39 on may still complain of what a project has under the name ``.gitattributes``.

One empty file a pack in ``objects.git/doubted``: a mark costs a writer one look at a folder that is
seldom there. A damaged pack is doubted until a repair, a copied one until maintenance has proven it.

A writer holds its file shared, a collector must get it alone. A writer that locked a file looks
whether a collector was quicker, and then takes another name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from lastgood.errors import FULL, Storage
from lastgood.files import unlink_quietly, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


# --- The few file operations that durability rests on, with failures told as `Storage` ---

COPY_BYTES = 1 << 20
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_HINTS = {
    errno.EROFS: "the store's file system is read-only: mount it writable",
    errno.EIO: "the disk reports errors: copy the store elsewhere and replace the disk",
    errno.EFBIG: "raise the limit on file sizes (`ulimit -f`)",
}


def storage(error: OSError, *, doing: str, at: bytes = b"") -> Storage:
    """Return the `Storage` that says what a system call could not do, ``at`` a place on that disk."""
    if error.errno in FULL:
        from lastgood.disk import no_room  # lazily: a disk is seldom full

        return no_room(error, doing=doing, place=at)
    reason = error.strerror or str(error)
    code = error.errno or 0
    return Storage(
        f"{doing} failed: {reason}",
        hint=_HINTS.get(code, "look at the store's disk and permissions, then try again"),
        details={"errno": errno.errorcode.get(code, str(code))},
    )


def pieces(descriptor: int, *, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file from ``start`` to ``end``, fewer when it is shorter."""
    while start < end:
        piece = os.pread(descriptor, min(COPY_BYTES, end - start), start)
        if not piece:
            return
        yield piece
        start += len(piece)


def sync(descriptor: int) -> None:
    """Make a file's bytes durable; after a failure nothing may be believed of them."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)


def sync_directory(path: bytes) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


# --- Temporary files that prove whether their writer lives: each is held by ``flock`` while written ---

PREFIX = b"engine-"
_RANDOM_BYTES = 8
_FOLDER = b".folder"
# A pack between two processes: nobody holds it for a moment, so its age counts too.
HANDED_SUFFIX = b".handed"

_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


def fresh_path(folder: bytes, suffix: bytes, *, prefix: bytes = PREFIX) -> bytes:
    """Return a path that nobody else chooses."""
    return folder + b"/" + prefix + os.urandom(_RANDOM_BYTES).hex().encode() + suffix


def _is_fresh(name: bytes, suffix: bytes, *, prefix: bytes) -> bool:
    """Tell whether a name is one that `fresh_path` gives."""
    digits = name.removeprefix(prefix).removesuffix(suffix)
    whole = prefix + digits + suffix == name
    return whole and len(digits) == 2 * _RANDOM_BYTES and not digits.strip(b"0123456789abcdef")


class TemporaryFile:
    """One file being written, locked as long as it is open."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: bytes, descriptor: int) -> None:
        self.path: bytes = path
        self.descriptor: int = descriptor

    @classmethod
    def create(cls, folder: bytes, suffix: bytes) -> TemporaryFile:
        """Create and lock a file under a name of its own; OSError when that cannot be."""
        while True:
            path = fresh_path(folder, suffix)
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, FILE_MODE)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_nlink:
                return cls(path, descriptor)
            os.close(descriptor)

    @classmethod
    def take_over(cls, path: bytes) -> TemporaryFile:
        """Lock a file that another process handed over."""
        descriptor = os.open(path, _FLAGS)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        taken = cls(path, descriptor)
        if os.fstat(descriptor).st_nlink:
            return taken
        taken.close()
        raise _collected()

    def rename(self, path: bytes) -> None:
        """Give the file another temporary name."""
        os.rename(self.path, path)
        self.path = path

    def place(self, path: bytes) -> None:
        """Give the file the name at which others find it: they may rely on it from then on, so it stays.

        Also if a signal's exception strikes as soon as it has the name.
        """
        os.rename(self.path, path)
        self.path = b""

    def find(self, folder: bytes) -> None:
        """Find out what the file is called by now, in the folder where it was created; `Storage`."""
        number = os.fstat(self.descriptor).st_ino
        with os.scandir(folder) as entries:
            path = next((entry.path for entry in entries if entry.inode() == number), b"")
        if not path:
            raise _collected()
        self.path = path

    def close(self) -> None:
        """Close the file, which frees its lock."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def discard(self) -> None:
        """Close the file, and delete it unless it has its place."""
        if self.descriptor >= 0:
            if self.path:
                unlink_quietly(self.path)
            self.close()


def _collected() -> Storage:
    return Storage("a pack was collected between the process that began it and this one", hint="save again")


class TemporaryFolder:
    """A folder for another program's files, locked as long as it is open."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, folder: bytes, *, prefix: bytes = PREFIX) -> None:
        """Create and lock a folder under a name of its own; OSError when that cannot be."""
        while True:
            self.path: bytes = fresh_path(folder, _FOLDER, prefix=prefix)
            os.mkdir(self.path, DIRECTORY_MODE)
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            if os.path.lexists(self.path):
                return
            os.close(self._descriptor)

    def adopt(self, name: bytes) -> TemporaryFile:
        """Open a file that the other program wrote, and make it private."""
        path = self.path + b"/" + name
        os.chmod(path, FILE_MODE)
        return TemporaryFile(path, os.open(path, _FLAGS))

    def discard(self) -> None:
        """Delete the folder with all that is in it; what cannot be deleted is collected later."""
        from lastgood.directories import remove_tree

        try:
            remove_tree(self.path)
        except OSError:
            return
        finally:
            os.close(self._descriptor)


# --- The folder ``objects.git``: a bare repository that git can read and that git's own cleaning spares ---

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
        self.root: bytes = root
        self.packs: bytes = root + b"/objects/pack"
        self.damaged: bytes = root + b"/damaged"
        self.doubted: bytes = root + b"/doubted"
        self.unsynced: bytes = root + b"/unsynced"
        self.temporary: bytes = temporary


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
            replace_top_file(layout, name, content)
    except OSError as error:
        raise storage(error, doing="creating the object store", at=layout.root) from error


def replace_top_file(layout: Layout, name: bytes, content: bytes) -> None:
    """Replace a file of the repository's top folder durably; OSError."""
    file = TemporaryFile.create(layout.temporary, b".file")
    try:
        write_whole(file.descriptor, content)
        sync(file.descriptor)
        file.place(layout.root + b"/" + name)
        sync_directory(layout.root)
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


# --- Remembers which packs no new checkpoint may rely on: those found damaged, and copies not proven yet
# ---


def suspect_packs(layout: Layout) -> frozenset[bytes]:
    """Return the names of the packs that are doubted."""
    try:
        return frozenset(os.listdir(layout.doubted))
    except OSError:
        return frozenset()


def set_suspects(layout: Layout, packs: Iterable[bytes]) -> None:
    """Mark exactly these packs. On a disk that takes no mark the proof itself has still been told."""
    wanted = frozenset(packs)
    marked = suspect_packs(layout)
    for name in marked - wanted:
        clear_suspect(layout, name)
    try:
        if wanted and not marked:
            os.makedirs(layout.doubted, DIRECTORY_MODE, exist_ok=True)
        for name in wanted - marked:
            _mark(layout, name)
    except OSError:
        return


def add_suspects(layout: Layout, packs: Iterable[bytes], *, proven: Collection[bytes]) -> None:
    """Mark more packs, and trust those proven; as `doubt`, but what was not looked at stays as it is."""
    for name in suspect_packs(layout).intersection(proven):
        clear_suspect(layout, name)
    try:
        for name in packs:
            add_suspect(layout, name, durable=False)
    except OSError:
        return


def add_suspect(layout: Layout, name: bytes, *, durable: bool) -> None:
    """Mark one more pack, before it is published; OSError, and then it must not be."""
    os.makedirs(layout.doubted, DIRECTORY_MODE, exist_ok=True)
    _mark(layout, name)
    if durable:
        sync_directory(layout.doubted)
        sync_directory(layout.root)


def clear_suspect(layout: Layout, name: bytes) -> None:
    """Take the mark of a pack away."""
    unlink_quietly(layout.doubted + b"/" + name)


def _mark(layout: Layout, name: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    os.close(os.open(layout.doubted + b"/" + name, flags, FILE_MODE))


# --- Deletes temporary files that nobody writes any more: whoever gets a file's lock alone, proves it ---

# A pack on its way to another process is given this long, in seconds.
_HANDED_SECONDS = 3600


def collect(folder: bytes) -> int:
    """Delete the left-overs in a folder and return their bytes; `Storage`."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(PREFIX)]
        return sum(_collect(folder + b"/" + name) for name in names)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise storage(error, doing="collecting left-over files", at=folder) from error


def collect_folders(folder: bytes, *, prefix: bytes) -> None:
    """Delete what killed owners of a `TemporaryFolder` left in somebody's folder.

    Only what is ours for certain: of a name that nobody else gives, with nothing but names of ours in it.
    """
    try:
        for name in os.listdir(folder):
            path = folder + b"/" + name
            if _is_fresh(name, _FOLDER, prefix=prefix) and all(map(_is_ours, os.listdir(path))):
                _collect(path)
    except OSError:
        return  # the next one tries again


def _is_ours(name: bytes) -> bool:
    return name.startswith(PREFIX)


def _collect(path: bytes) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _delete(path, os.fstat(descriptor))
    except (BlockingIOError, FileNotFoundError):
        return 0
    finally:
        os.close(descriptor)


def _delete(path: bytes, found: os.stat_result) -> int:
    if path.endswith(HANDED_SUFFIX) and time.time() - found.st_mtime < _HANDED_SECONDS:
        return 0
    if os.path.isdir(path):
        from lastgood.directories import remove_tree

        return remove_tree(path)
    os.unlink(path)
    return found.st_size
