"""Who and where: the machine, a workspace's key in the store, and whose the store is (S18, S19)."""

from __future__ import annotations

import errno
import os
import stat
from _sha1 import sha1

from lastgood.adapters.files import PRIVATE_DIRECTORY, make_directories
from lastgood.errors import Storage, Unsafe
from lastgood.names import printable, to_text

KEY_DIGITS = 20
# The random id of a store; another length than a digest's, so that the two can be told apart.
STORE_DIGITS = 16
_MACHINE_FILE = b"/etc/machine-id"
_HEX = frozenset(b"0123456789abcdef")


def system_machine(*, file: bytes = _MACHINE_FILE) -> str | None:
    """Return what tells this machine from others by its operating system's id, None if it has none.

    It is a digest of the id, which machine-id(5) asks to keep to oneself. OSError if there is one that
    cannot be read.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        text = os.read(descriptor, 64).strip()
    finally:
        os.close(descriptor)
    if len(text) != 32 or not _HEX.issuperset(text):
        return None
    return _digest(b"lastgood machine\0" + text)


def store_machine(path: bytes) -> str:
    """Return what stands for a store's own id where nothing tells that any more: the same each time."""
    return _digest(b"lastgood store\0" + os.path.realpath(path))[:STORE_DIGITS]


def workspace_key(machine: str, realpath: bytes) -> str:
    """Return the key of a workspace: the same for the same place, whatever way leads there."""
    return _digest(machine.encode("utf-8", "surrogateescape") + b"\0" + realpath)


def _digest(content: bytes) -> str:
    return str(sha1(content).hexdigest())[:KEY_DIGITS]


def check_owner(path: bytes) -> None:
    """Refuse a store that another user owns, planted, or could replace (`Unsafe`); absent is fine."""
    try:
        link = os.lstat(path)
        found = os.stat(path)
    except FileNotFoundError:
        if os.path.lexists(path):
            raise _unsafe(path, "is a link to nothing") from None
        _check_parent(path, _nearest(os.path.dirname(os.path.abspath(path))))
        return
    except OSError as error:
        raise _unreachable(path, error) from error
    if not stat.S_ISDIR(found.st_mode):
        raise _unsafe(path, "is not a directory")
    me = os.geteuid()
    if found.st_uid != me:
        raise _unsafe(path, f"belongs to another user (uid {found.st_uid})")
    # Root could read the store anyway, and its links are how administrators move home directories.
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in {me, 0}:
        raise _unsafe(path, f"is a link that another user made (uid {link.st_uid})")
    for place in {path, os.path.realpath(path)}:
        _check_parent(path, os.path.dirname(os.path.abspath(place)))


def _nearest(folder: bytes) -> bytes:
    """Return the folder, or the first one above it that exists."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def _check_parent(path: bytes, folder: bytes) -> None:
    try:
        mode = os.stat(folder).st_mode
    except OSError as error:
        raise _unreachable(path, error) from error
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise _unsafe(path, "lies in a folder that everybody may write to")


def make_private(path: bytes) -> None:
    """Make a directory (and those above it) of mode 0700 whatever the umask; tighten a lax one of ours."""
    try:
        make_directories(path)
        found = os.stat(path)
        if stat.S_IMODE(found.st_mode) & 0o077 and found.st_uid == os.geteuid():
            os.chmod(path, PRIVATE_DIRECTORY)
    except OSError as error:
        raise _unreachable(path, error) from error


def close_to_others(path: bytes) -> bool:
    """Take from others what they may do in a directory of ours, and tell whether there was anything.

    One that cannot be changed (a medium for reading only) stays as it is.
    """
    if not stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        return False
    try:  # noqa: SIM105 - contextlib costs start-up time
        os.chmod(path, PRIVATE_DIRECTORY)
    except OSError:
        pass
    return True


def lax_places(store: bytes) -> list[bytes]:
    """Return what in the top of a store others may look into, or belongs to somebody else (rule S18)."""
    found = []
    for path in (store, *(entry.path for entry in os.scandir(store))):
        status = os.lstat(path)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            found.append(path)
    return sorted(found)


def foreign_ways(store: bytes) -> list[tuple[bytes, str]]:
    """Return the folders above a store by which others could take it away, and whose they are (rule S18).

    Nobody else can look into it for that, nor put one of theirs in its place.
    """
    found: dict[bytes, str] = {}
    for place in (os.path.abspath(store), os.path.realpath(store)):
        folder = os.path.dirname(place)
        while folder not in found:
            status = os.stat(folder)
            if status.st_uid not in {0, os.geteuid()}:
                found[folder] = f"belongs to another user (uid {status.st_uid})"
            elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
                found[folder] = "is one that everybody may write to"
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
    return sorted(found.items())


def _unsafe(path: bytes, why: str) -> Unsafe:
    return Unsafe(
        f"the store {printable(to_text(path))} {why}",
        hint="name another store with --store or LASTGOOD_STORE",
    )


def _unreachable(path: bytes, error: OSError) -> Storage:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        from lastgood.adapters.room import no_room

        return no_room(error, doing="making a folder of the store", place=path)
    return Storage(
        f"the store {printable(to_text(path))} cannot be used: {error.strerror}",
        hint="check its permissions and its disk, or name another store with --store",
    )
