"""Which files need not be hashed because the project's index knows their object already.

An answer is given only where the file on disk is byte for byte the object: the stat data are those
the index holds, and nothing could have converted the content on its way (gitattributes(5)).
Whatever cannot be judged here means no reuse.
"""

from __future__ import annotations

import os

from lastgood.adapters.project.files import read_file
from lastgood.adapters.project.index import attributes_above
from lastgood.names import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.adapters.project.index import Index
    from lastgood.adapters.project.repository import Repository
    from lastgood.rules.ignore import Text

_TEXT_LIMIT = 1 << 20
# Keys and attributes cannot be spelled otherwise, so that a search finds what a parser would.
# A file that another one includes, or the place of an attributes file, is not followed.
_SETTINGS = (b"include", b"autocrlf", b"attributesfile")
_CONVERSIONS = (b"text", b"eol", b"crlf", b"ident", b"filter", b"working-tree-encoding")
# Assume-valid, stages, skip-worktree and intent-to-add (the extended flags above the others).
_UNSOUND = 0x8000 | 0x3000 | (0x4000 | 0x2000) << 16
_SHORT = 0xFFFFFFFF


class Reuse:
    """The objects of the project's index that files of the workspace still equal.

    ``objects`` is the object directory that holds them. That an object is as long as its file is
    left to the caller to check, once it has the object: it shows a conversion that was in force
    when the file was added and is not any more.
    """

    __slots__ = ("_clean", "_index", "_top", "objects")

    def __init__(self, repository: Repository, index: Index) -> None:
        self.objects = repository.objects
        self._index = index
        self._top = os.path.join(repository.top, repository.prefix)
        self._clean: dict[bytes, bool] = {}

    def oid(self, path: bytes, facts: os.stat_result) -> bytes | None:
        """Return the blob id of a regular file, given its ``lstat``; None if it has to be hashed."""
        known = self._index.fact(path)
        if known is None:
            return None
        mtime_ns, ctime_ns, inode, size, mode, oid, flags = known
        if flags & _UNSOUND or mode >> 12 != 0o10 or mtime_ns >= self._index.written_ns:
            return None
        if size != facts.st_size or not size or inode != facts.st_ino & _SHORT:
            return None
        if mtime_ns != facts.st_mtime_ns or ctime_ns != facts.st_ctime_ns:
            return None
        return oid if self._converts_nothing(path.rpartition(b"/")[0]) else None

    def _converts_nothing(self, directory: bytes) -> bool:
        known = self._clean.get(directory)
        if known is not None:
            return known
        clean = True
        for each in (b"", *ancestors(directory), directory):
            if each not in self._clean:
                self._clean[each] = clean and self._has_clean_attributes(each)
            clean = self._clean[each]
        return clean

    def _has_clean_attributes(self, directory: bytes) -> bool:
        path = os.path.join(directory, b".gitattributes")
        text = read_file(os.path.join(self._top, path), limit=_TEXT_LIMIT, follow=False)
        if text is None:  # git takes the one in the index when the file is gone
            return path not in self._index.places
        return _free_of(text, _CONVERSIONS)


def reuse(
    repository: Repository,
    index: Index,
    *,
    settings: Iterable[bytes],
    attributes: Iterable[bytes],
) -> Reuse | None:
    """Return the objects that may be taken from the project; None if there may be a conversion.

    ``settings`` are the paths of the system's and the user's git configuration, ``attributes`` those
    of their attributes files, whether they exist or not; the repository's own are known.
    """
    if repository.digest_size != 20 or not index.whole or not index.places:
        return None
    own = (repository.common_dir + b"/config", repository.git_dir + b"/config.worktree")
    if not all(_clean_file(path, _SETTINGS) for path in (*own, *settings)):
        return None
    above = [os.path.join(repository.top, path) for path in attributes_above(repository.prefix)]
    if not all(os.path.lexists(os.path.join(repository.top, path)) for path in index.attributes_above):
        return None  # git takes the one in the index when the file is gone
    shared = (repository.common_dir + b"/info/attributes", *above)
    if not all(_clean_file(path, _CONVERSIONS) for path in (*shared, *attributes)):
        return None
    return Reuse(repository, index)


def _clean_file(path: bytes, words: Sequence[bytes]) -> bool:
    return _free_of(read_file(path, limit=_TEXT_LIMIT), words)


def _free_of(text: Text, words: Sequence[bytes]) -> bool:
    if text is None:
        return True
    return isinstance(text, bytes) and not any(word in text.lower() for word in words)
