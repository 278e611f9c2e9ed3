"""What was found last of the project's git, kept in the workspace's cache folder."""

from __future__ import annotations

import fcntl
import os
from marshal import dumps, loads

from lastgood.files import digest, proof, read_proven, write_pieces
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.project_git import Repository

_FORMAT = b"lastgood git state 1\n"
_NAME = b"/git.state"


class RememberedStatus(Value):
    """What was found for one checkpoint. ``mark`` stands for all that it depends on besides files and index.

    ``seen`` stands for what stat said of the index, ``plain`` tells how its entries can be found.
    ``changed`` are the paths at which files and index differed, None if unknown; ``staged`` those at
    which index and HEAD did, ``gaps`` the paths that could not be read, ``index`` the blob's id.
    """

    checkpoint: str
    mark: bytes
    seen: bytes
    changed: tuple[bytes, ...] | None
    staged: tuple[bytes, ...]
    gaps: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    index: bytes
    plain: bool


def index_seen(found: Repository) -> bytes:
    """Return what stands for what stat says of an index: another one whenever git has written it."""
    return digest(dumps(seen(found.git_dir + b"/index"), 2))


def seen(place: bytes) -> tuple[int, ...]:
    """Return what stat says of a file."""
    try:
        said = os.stat(place)
    except OSError:
        return ()
    return (said.st_mode, said.st_size, said.st_mtime_ns, said.st_ctime_ns, said.st_ino)


def remember(folder: bytes, status: RememberedStatus) -> None:
    """Write down what was found; a convenience, so that no failure counts."""
    body = dumps([*status.as_dict().values()])
    temporary = folder + _NAME + b".new"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one writer is enough
            os.ftruncate(descriptor, 0)
            write_pieces(descriptor, [proof(_FORMAT, body), body])
            os.rename(temporary, folder + _NAME)
        finally:
            os.close(descriptor)
    except OSError:
        return


def recall(folder: bytes) -> RememberedStatus | None:
    """Return what was found last; None in any doubt."""
    body = read_proven(folder + _NAME, form=_FORMAT)
    if body is None:
        return None
    found = loads(body)  # noqa: S302 - our own file, proven by its checksum
    names = ("checkpoint", "mark", "seen", "changed", "staged", "gaps", "nested", "index", "plain")
    return RememberedStatus(**dict(zip(names, found, strict=True))) if len(found) == len(names) else None
