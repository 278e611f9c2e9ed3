"""What HEAD stands for, read from loose and packed refs (git-pack-refs(1))."""

from __future__ import annotations

import os
import stat

from lastgood.adapters.project.files import kind_of, read_known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.project.repository import Repository

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


def target_of(text: bytes) -> bytes | None:
    """Return the ref that the text of a symbolic one names; None if it is no sound name."""
    return _target(text)


def _followed(repository: Repository, text: bytes) -> tuple[str | None, bytes | None]:
    ref = first = _target(text)
    for _ in range(_MOST_HOPS):
        if ref is None:
            return _commit(text, repository), first
        text = _read_ref(repository, ref)
        ref = _target(text)
    return None, first


def _read_head(path: bytes) -> bytes:
    # Very old repositories have a symbolic link here.
    try:
        target = os.readlink(path)
    except OSError:
        return read_known(path, limit=_REF_LIMIT) or b""
    return b"ref: " + target if target.startswith(b"refs/") else b""


def _target(text: bytes) -> bytes | None:
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
