"""Finds what commits need: every object below them, each with the end of its path."""

from __future__ import annotations

from lastgood.adapters.git.commits import commit_tree
from lastgood.adapters.git.objects import COMMIT
from lastgood.adapters.git.similar import name_below
from lastgood.adapters.git.trees import SUBTREE
from lastgood.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from lastgood.adapters.git.pack_read import PackFile
    from lastgood.adapters.git.reader import GitReader


def reachable(reader: GitReader, commits: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return every object that commits reach, with a name; `Damaged` if one cannot be told."""
    names: dict[bytes, bytes] = {}
    reach(reader, commits, names)
    return names


def reach(reader: GitReader, commits: Iterable[bytes], names: dict[bytes, bytes]) -> None:
    """Add every object that commits reach; what is below a tree that has a name has one too."""
    for commit in commits:
        waiting = _top(reader, commit, names)
        while waiting:
            waiting += _below(reader, waiting.pop(), names)


def reach_further(reader: GitReader, commits: Iterable[bytes], names: dict[bytes, bytes]) -> None:
    """Add what damaged commits still reach, as far as it is stored.

    `Damaged` if something is there and cannot be read: what lies below it may be sound.
    """
    for commit in commits:
        if reader.missing((commit,)):
            continue
        found: dict[bytes, bytes] = {}
        waiting = _top(reader, commit, found)
        while waiting:
            tree = waiting.pop()
            if not reader.missing((tree,)):
                waiting += _below(reader, tree, found)
        lost = reader.missing(found)
        for oid, name in found.items():
            if oid not in lost:
                names.setdefault(oid, name)


def _top(reader: GitReader, commit: bytes, names: dict[bytes, bytes]) -> list[bytes]:
    content = reader.read_object(commit, kind=COMMIT)
    names[commit] = b""
    try:
        tree = commit_tree(content)
    except ValueError as error:
        raise Damaged(f"commit {commit.hex()}: {error}", hint="run `lastgood verify`") from error
    names.setdefault(tree, b"")
    return [tree]


def _below(reader: GitReader, tree: bytes, names: dict[bytes, bytes]) -> list[bytes]:
    """Name what a tree holds, and return those of its subtrees that had no name yet."""
    fresh = []
    for mode, name, oid in reader.tree_rows(tree):
        if mode == SUBTREE and oid not in names:
            fresh.append(oid)
        names.setdefault(oid, name_below(names[tree], name))
    return fresh


def checkpoint_commits(reader: GitReader, besides: Collection[bytes] = ()) -> Iterator[bytes]:
    """Yield every checkpoint commit that can be read, once, but for those that are known."""
    seen = set(besides)
    for pack in list(reader.stored.all()):
        try:
            reader.stored.opened(pack)
            found = [
                oid for oid, _, offset in pack.index.entries() if oid not in seen and _is_commit(pack, offset)
            ]
        except (OSError, ValueError):
            continue
        for oid in found:
            if oid not in seen and _is_checkpoint(reader, oid):
                seen.add(oid)
                yield oid


def _is_commit(pack: PackFile, offset: int) -> bool:
    try:
        return pack.kind(offset) == COMMIT
    except (OSError, ValueError):
        return False


def _is_checkpoint(reader: GitReader, oid: bytes) -> bool:
    try:
        commit_tree(reader.read_object(oid, kind=COMMIT))
    except (Damaged, ValueError):
        return False
    return True
