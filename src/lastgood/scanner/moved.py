"""Whether a folder that a scan did not find where it was is deleted, or lies where the scan has been."""

from __future__ import annotations

import os

from lastgood.paths import join
from lastgood.scanner.read import descend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

# A file system counts time in steps of its own, or by the clock of another machine (nanoseconds).
_SLACK = 2_000_000_000


def moved_folders(
    root: int, gone: Mapping[bytes, int | None], *, visited: Collection[bytes], began: int
) -> Sequence[bytes]:
    """Return those that are gone and lie by now in a directory that was visited before they came there.

    ``gone`` has the inode of each, None where nobody knows it: any that came is taken for that one.
    """
    inodes = frozenset(inode for inode in gone.values() if inode is not None)
    came = dict(_came(root, visited=frozenset(visited), inodes=inodes, since=began - _SLACK))
    is_new = any(came.values())
    return [path for path, inode in gone.items() if (is_new if inode is None else inode in came)]


def has_come(root: int, gone: Mapping[bytes, int | None], *, visited: Collection[bytes], began: int) -> bool:
    """Tell whether one that is not where it was recorded came to a directory that was visited before that.

    That is known only of one that was not visited itself. ``gone`` as above.
    """
    came = dict(_came(root, visited=frozenset(visited), inodes=frozenset(), since=began - _SLACK))
    return any(any(came.values()) if inode is None else inode in came for inode in gone.values())


def _came(
    root: int, *, visited: frozenset[bytes], inodes: frozenset[int], since: int
) -> Iterator[tuple[int, bool]]:
    """Yield the inodes of directories that were not visited, and whether they changed lately, as by a move.

    They lie in visited ones that changed since a moment; those that are ignored are among them. So is one of
    the ``inodes``, whatever was visited under its name.
    """
    for path in visited:
        try:
            seen = os.stat(path or b".", dir_fd=root, follow_symlinks=False)
            if seen.st_mtime_ns < since:
                continue
            directory = descend(root, path)
        except OSError:
            continue
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False) and (
                        entry.inode() in inodes or join(path, os.fsencode(entry.name)) not in visited
                    ):
                        found = entry.stat(follow_symlinks=False)
                        yield found.st_ino, found.st_ctime_ns >= since
        except OSError:
            continue
        finally:
            os.close(directory)
