"""The store's folder: its mark of format, its layout, and how it comes into being."""

from __future__ import annotations

import os
import stat
from _sha1 import sha1

from lastgood.errors import FULL, Damaged, LastgoodError, Storage, Unsafe, Unsupported
from lastgood.files import PRIVATE_DIRECTORY, make_directories, read_whole, replace_durably, sync_directory
from lastgood.model.canonical import Fields, dumps, loads
from lastgood.paths import printable, quoted, to_text

# --- Who and where: the machine, a workspace's key in the store, and whose the store is (S18, S19) ---

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
    link = None
    try:
        link = os.lstat(path)
        found = os.stat(path)
    except FileNotFoundError:
        # It is not looked at once more: another process may just be making it.
        if link is not None and stat.S_ISLNK(link.st_mode):
            raise _unsafe(path, "is a link to nothing") from None
        _check_parent(path, _nearest(os.path.dirname(os.path.abspath(path))))
        return
    except OSError as error:
        raise _failed(path, error, doing="making a folder of the store") from error
    if not stat.S_ISDIR(found.st_mode):
        raise _unsafe(path, "is not a directory")
    me = os.geteuid()
    if found.st_uid != me:
        raise _unsafe(path, f"belongs to another user (uid {found.st_uid})", more=_way_to_own(path, me))
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
        raise _failed(path, error, doing="making a folder of the store") from error
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
        raise _failed(path, error, doing="making a folder of the store") from error


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


def _unsafe(path: bytes, why: str, *, more: str = "") -> Unsafe:
    return Unsafe(
        f"the store {_shown(path)} {why}",
        hint=f"name another store with --store or LASTGOOD_STORE{more}",
    )


def _way_to_own(path: bytes, user: int) -> str:
    """Return what to do about a store that another user owns; root is mostly there by mistake."""
    if user == 0:
        return "\nif it is meant, do this as that user, without sudo"
    return f"\nif it is yours, copied here or made by sudo: sudo chown -R {user} {quoted(path)}"


# --- The store's folder: its mark of format, its layout, and how it comes into being ---

FORMAT = 1
_CURRENT = dumps({"engine": "git", "format": FORMAT}) + b"\n"
_FOLDERS = (b"locks", b"workspaces")
# What an interrupted creation may have left: it is taken up where it ended.
_BEGINNINGS = {*_FOLDERS, b"README", b"machine", b"README.new", b"machine.new", b"format.new"}
_FACTS = {b"catalogue.sqlite3", b"objects.git"}
_README = b"""\
This folder is a store of lastgood: checkpoints of your working folders, so that
work can be taken back to its last good point. It lies outside those folders, so
that deleting a project does not delete its safety net.

  format               the version of this layout
  catalogue.sqlite3    which checkpoints exist, and what is known about them
  objects.git          their files, as a bare git repository
  ledger.sqlite3       what agent frameworks keep here, if any do
  workspaces           caches, the journal of a restore that is running, and in
                       "kept" what a program was still writing to when one came
  locks                held while lastgood works
  reserve              empty room, given up when the disk is full
  machine              a random id, for machines that have none of their own
  damaged              what a repair set aside, if there was one

Look around with `lastgood list --all-workspaces`; prove it with `lastgood verify`.
Please change nothing here by hand, and copy it only while no lastgood is running.
"""


def ensure_store(path: bytes, *, random: bytes) -> bool:
    """Make a store, or check that the one that is there can be used; tell whether others could look into it.

    The mark of format is written last: a folder without it is no store yet, and whoever comes next
    completes it. Raises `Unsafe` (another's folder), `Unsupported`, `Damaged`, `Storage`.
    """
    check_owner(path)
    if read_format(path):
        return close_to_others(path)
    _refuse_stranger(path)
    make_private(path)
    check_owner(path)
    try:
        from lastgood.locks import FolderTurn  # lazily: a store is made once

        with FolderTurn(path, what=f"the store {_shown(path)}, which is being made,"):
            if not read_format(path):
                _create(path, random=random)
    except OSError as error:
        raise _failed(path, error) from error
    return False


def is_current(path: bytes) -> bool:
    """Tell whether a store is of the format that this version makes; OSError."""
    return read_whole(path + b"/format") == _CURRENT


def is_absent(path: bytes) -> bool:
    """Tell whether no store is there, nor anything that speaks against making one; `Unsafe`."""
    if os.path.lexists(path + b"/format"):
        return False
    check_owner(path)
    try:
        return _BEGINNINGS.issuperset(os.listdir(path))
    except FileNotFoundError:
        return True
    except OSError:  # whoever opens it says why
        return False


def read_format(path: bytes) -> bool:
    """Tell whether a store is there; `Unsupported` if a newer lastgood made it, `Damaged` if garbled.

    Where the mark is lost, garbled, or another in one bit, the catalogue says the same: a newer format
    comes with a newer one.
    """
    try:
        content = read_whole(path + b"/format")
    except NotADirectoryError:
        return False
    except OSError as error:
        raise _failed(path, error) from error
    if content == _CURRENT:
        return True
    if content is None:
        return os.path.lexists(path + b"/catalogue.sqlite3") and _is_vouched_for(path)
    try:
        _judge(path, content)  # reading JSON costs a save 6 ms
    except Damaged:
        if not _is_vouched_for(path):
            raise
    except Unsupported:
        if not _is_near(content) or not _is_vouched_for(path):
            raise
    return True


def format_fault(path: bytes) -> str | None:
    """Return what is wrong with the mark of format of a store that can be opened, None if nothing is."""
    try:
        content = read_whole(path + b"/format")
        if content is not None:
            _judge(path, content)
    except (Damaged, Unsupported):
        return "it is not as it was written"
    except OSError as error:
        return error.strerror or "it cannot be read"
    return "it is missing" if content is None else None


def _is_near(content: bytes) -> bool:
    """Tell whether a mark is as it is written today but for one bit."""
    return (
        len(content) == len(_CURRENT)
        and sum((a ^ b).bit_count() for a, b in zip(content, _CURRENT, strict=True)) == 1
    )


def _is_vouched_for(path: bytes) -> bool:
    from lastgood.catalogue.database import is_of_today  # lazily: only damage needs it

    return is_of_today(to_text(path) + "/catalogue.sqlite3")


def _judge(path: bytes, content: bytes) -> None:
    try:
        fields = Fields(loads(content, what="the store's format"), what="the store's format")
        found = fields.number("format")
    except LastgoodError as error:
        raise Damaged(
            f"the file {_shown(path)}/format is damaged ({error.message})",
            hint="run: lastgood verify --repair",
        ) from error
    if found > FORMAT:
        raise Unsupported(
            f"the store {_shown(path)} has format {found}; this lastgood reads up to {FORMAT}",
            hint="use the newer lastgood for this store",
            details={"found": found, "supported": FORMAT},
        )
    if found < 1 or fields.text("engine") != "git":
        raise Unsupported(
            f"the store {_shown(path)} is of a kind that this lastgood does not know",
            hint="use the lastgood that made it, or name another store",
        )


def mend_format(path: bytes) -> None:
    """Write the mark of format anew (for `verify --repair`; the store has been looked at)."""
    _mend(path, b"format", _CURRENT)


def stored_machine(path: bytes) -> str | None:
    """Return the store's own random id, None if it is lost or garbled."""
    try:
        content = read_whole(path + b"/machine")
    except OSError as error:
        raise _failed(path, error) from error
    found = b"" if content is None else content.removesuffix(b"\n")
    return to_text(found) if len(found) == STORE_DIGITS and _HEX.issuperset(found) else None


def mend_machine(path: bytes, machine: str) -> None:
    """Write the store's own id anew."""
    _mend(path, b"machine", machine.encode("ascii") + b"\n")


def _mend(path: bytes, name: bytes, content: bytes) -> None:
    try:
        _put(path, name, content)
    except OSError as error:
        raise _failed(path, error) from error


def _refuse_stranger(path: bytes) -> None:
    """Refuse a folder of somebody else's things before its permissions are touched."""
    try:
        found = set(os.listdir(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failed(path, error) from error
    # One that is being made just now is judged when it is this process's turn.
    if not found & {*_FACTS, b"format"} and found - _BEGINNINGS:
        raise _stranger(path)


def _stranger(path: bytes) -> Unsafe:
    return Unsafe(
        f"{_shown(path)} is not empty and no store of lastgood", hint="name an empty or new folder as store"
    )


def _create(path: bytes, *, random: bytes) -> None:
    found = set(os.listdir(path))
    if found & _FACTS:
        raise Damaged(
            f"the store {_shown(path)} has lost its file 'format'", hint="run: lastgood verify --repair"
        )
    if found - _BEGINNINGS:
        raise _stranger(path)
    for name in _FOLDERS:
        make_private(path + b"/" + name)
    for name, content in ((b"README", _README), (b"machine", random.hex().encode("ascii") + b"\n")):
        _put(path, name, content)
    _put(path, b"format", _CURRENT)
    sync_directory(os.path.dirname(os.path.realpath(path)))


def _put(path: bytes, name: bytes, content: bytes) -> None:
    file = path + b"/" + name
    replace_durably(file, content, temporary=file + b".new")


def _shown(path: bytes) -> str:
    return printable(to_text(path))


def _failed(path: bytes, error: OSError, *, doing: str = "writing to the store") -> Storage:
    if error.errno in FULL:
        from lastgood.disk import no_room

        return no_room(error, doing=doing, place=path)
    return Storage(
        f"the store {_shown(path)} cannot be used: {error.strerror}",
        hint="check its permissions and its disk, or name another store with --store",
    )
