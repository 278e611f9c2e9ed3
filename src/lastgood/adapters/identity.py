"""Who and where: the machine, a workspace's key in the store, and whose the store is (S18, S19)."""

from __future__ import annotations

import os
import stat
from _sha1 import sha1

from lastgood.adapters.files import PRIVATE_DIRECTORY, make_directories
from lastgood.errors import Storage, Unsafe
from lastgood.names import printable, to_text

KEY_DIGITS = 20
_MACHINE_FILE = b"/etc/machine-id"
_HEX = frozenset(b"0123456789abcdef")


def machine_id(stored: str, *, file: bytes = _MACHINE_FILE) -> str:
    """Return what tells this machine from others.

    It is a digest of the operating system's id (which machine-id(5) asks to keep to oneself), or
    ``stored``, the store's own random id, where there is none.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return stored
    try:
        text = os.read(descriptor, 64).strip()
    except OSError:
        return stored
    finally:
        os.close(descriptor)
    if len(text) != 32 or not _HEX.issuperset(text):
        return stored
    return _digest(b"lastgood machine\0" + text)


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


def _unsafe(path: bytes, why: str) -> Unsafe:
    return Unsafe(
        f"the store {printable(to_text(path))} {why}",
        hint="name another store with --store or LASTGOOD_STORE",
    )


def _unreachable(path: bytes, error: OSError) -> Storage:
    return Storage(
        f"the store {printable(to_text(path))} cannot be used: {error.strerror}",
        hint="check its permissions and its disk, or name another store with --store",
    )
