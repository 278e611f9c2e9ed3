"""Which entries of an index are not those of HEAD's tree."""

from __future__ import annotations

import zlib

from lastgood.adapters.project.files import read_known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.project.asking import Asker
    from lastgood.adapters.project.entries import Entries
    from lastgood.adapters.project.repository import Repository

_LIMIT = 1 << 20
_PATIENCE_SECONDS = 5.0  # a save does not wait longer for a list
_QUESTION = (b"diff-index", b"--cached", b"--name-only", b"--no-renames", b"--ita-invisible-in-index", b"-z")
_HEX = 40


class Unknown(Exception):
    """It cannot be told without running what the project configured; never leaves the adapter."""


def staged(found: Repository, commit: str | None, *, entries: Entries, asker: Asker) -> set[bytes]:
    """Return the paths, as the index calls them, at which it differs from a commit; `Unknown`.

    Where the index itself says that it is the commit's tree, nothing has to be asked.
    """
    if commit is None:
        return {path for path, _ in entries.rows}
    tree = entries.trees.get(b"")
    if tree is not None and tree == _tree_of(found, commit):
        return set()
    said = asker.ask(
        found, [*_QUESTION, commit.encode(), b"--"], index=entries.whole, patience=_PATIENCE_SECONDS
    )
    if said is None:
        raise Unknown
    return {path for path in said.split(b"\0") if path}


def _tree_of(found: Repository, commit: str) -> bytes | None:
    """Return the tree of a commit that lies in a file of its own, as fresh ones do; None otherwise."""
    path = found.objects + b"/" + commit[:2].encode() + b"/" + commit[2:].encode()
    packed = read_known(path, limit=_LIMIT)
    if packed is None:
        return None
    try:
        text = zlib.decompressobj().decompress(packed, 200)
    except zlib.error:
        return None
    head, _, body = text.partition(b"\0")
    if not head.startswith(b"commit ") or not body.startswith(b"tree "):
        return None
    try:
        return bytes.fromhex(body[5 : 5 + _HEX].decode("ascii"))
    except ValueError:
        return None
