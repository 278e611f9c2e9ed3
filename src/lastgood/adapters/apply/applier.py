"""The only hand that changes a workspace's files."""

from __future__ import annotations

import os

from lastgood.adapters.apply.aside import clear, is_temporary, token_of
from lastgood.adapters.apply.flush import flush, leave
from lastgood.adapters.apply.places import Directories, is_nowhere, open_parent, open_root
from lastgood.adapters.apply.reading import content_at, entry_at
from lastgood.adapters.apply.run import Run
from lastgood.errors import Storage, Unsafe
from lastgood.model.plan import Step
from lastgood.model.tree import DIRECTORY, FILE, Entry
from lastgood.names import join, printable, to_text
from lastgood.rules.compare import StoredTree
from lastgood.rules.hostile import TreeFault, path_fault, refuse, refuse_faults
from lastgood.rules.planner import action_between
from lastgood.rules.restore import in_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lastgood.adapters.apply.flush import Flush
    from lastgood.model.plan import Action, Outcome
    from lastgood.model.settings import Durability
    from lastgood.model.tree import TreeId
    from lastgood.ports.engine import ObjectReader
    from lastgood.ports.workspace import Stamp

_UNTOUCHED: frozenset[Action] = frozenset({"keep", "skip"})
_NEW_ROOT_MODE = 0o700
# Stands for an operation's id in temporary names where nothing can be interrupted and recovered.
_NEW = "new"


class DescriptorApplier:
    """Changes the workspace at ``root`` (a real path) through descriptors of its directories."""

    def __init__(self, root: bytes) -> None:
        self._root = root

    def present(self, path: bytes) -> Entry | None:
        """Return what a path holds now, hashed anew; None if nothing (or no directory above it).

        ``oid`` is empty for a directory, and for what cannot be read as a whole.
        """
        name = path.rpartition(b"/")[2]
        try:
            directory = self._parent(path)
        except OSError as error:
            return None if is_nowhere(error) else Entry(name=name, kind=FILE, mode=0, oid=b"")
        try:
            # The root is looked at through itself.
            found = entry_at(name or b".", directory)
        finally:
            os.close(directory)
        return found.replace(name=b"") if found is not None and not name else found

    def read(self, path: bytes, entry: Entry) -> bytes | None:
        """Return the content of a file, or the target of a link; None if it is not this entry's any more."""
        try:
            directory = self._parent(path)
        except OSError:
            return None
        try:
            return content_at(path.rpartition(b"/")[2], directory, entry)
        finally:
            os.close(directory)

    def apply(
        self,
        steps: Sequence[Step],
        *,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
    ) -> Sequence[Outcome]:
        """Carry out steps in the safe order and return one outcome a path, in the order of the steps.

        Raises `Unsafe` before the first write if a path must not be touched.
        """
        return self._run(steps, token=token, objects=objects, stamp=stamp, flush=flush)

    def write_tree(
        self, tree: TreeId, *, objects: ObjectReader, durability: Durability = "full"
    ) -> Sequence[Outcome]:
        """Write a whole tree into the root, which has to be empty, or is made.

        With ``durability`` "fast" nothing is carried through to the disk: for a copy that goes again.
        """
        whole = StoredTree(tree, objects.directory)
        refuse_faults(whole)
        self._make_root()
        carry = flush if durability == "full" else leave
        steps = in_order(_all_of(whole))
        return self._run(steps, token=_NEW, objects=objects, stamp=_no_stamp, flush=carry)

    def clear_temporaries(self, token: str, directories: Sequence[bytes]) -> None:
        """Delete the temporary files of an interrupted apply in some directories.

        What had been set aside goes back if its path is free, and is deleted if not: the guard
        holds it. What came into it since is left under its temporary name.
        """
        with Directories(self._root) as opened:
            for path in directories:
                try:
                    clear(opened, path, token)
                except OSError as error:
                    if not is_nowhere(error):
                        raise _trouble(path, error) from error

    def left_over(self) -> Mapping[str, Sequence[bytes]]:
        """Return, by the token of each restore, the directories that hold temporary files of its."""
        found: dict[str, list[bytes]] = {}
        for place, folders, files in os.walk(self._root):
            names = (*folders, *files)
            # What was set aside is settled as a whole, and a repository is none of ours.
            folders[:] = [name for name in folders if name != b".git" and not is_temporary(name)]
            for token in sorted({token_of(name) for name in names if is_temporary(name)}):
                found.setdefault(token, []).append(place[len(self._root) :].lstrip(b"/"))
        return found

    def _run(
        self,
        steps: Sequence[Step],
        *,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
        flush: Flush,
    ) -> Sequence[Outcome]:
        refuse(tuple(_faults(steps)))
        with Directories(self._root) as directories:
            return Run(
                steps, directories=directories, token=token, objects=objects, stamp=stamp, flush=flush
            ).outcomes()

    def _parent(self, path: bytes) -> int:
        """Open the directory that holds a path; the caller closes it."""
        if b"\0" in path or (path and not {b"", b".", b".."}.isdisjoint(path.split(b"/"))):
            raise Unsafe(
                f"{printable(to_text(path))} is no path inside the workspace", hint="name a path in it"
            )
        root = open_root(self._root)
        try:
            return open_parent(root, path)
        finally:
            os.close(root)

    def _make_root(self) -> None:
        try:
            os.mkdir(self._root, _NEW_ROOT_MODE)
        except FileExistsError:
            if os.listdir(self._root):
                raise Unsafe(
                    f"{printable(to_text(self._root))} is not empty", hint="name a new or empty folder"
                ) from None
        except OSError as error:
            raise _trouble(self._root, error) from error


def _all_of(tree: StoredTree) -> Iterator[Step]:
    waiting = [(b"", tree.root)]
    while waiting:
        above, identity = waiting.pop()
        for entry in tree.directory(above, identity):
            path = join(above, entry.name)
            if entry.kind == DIRECTORY:
                waiting.append((path, entry.tree_id))
            yield Step(path=path, action=action_between(entry, None), want=entry)


def _faults(steps: Sequence[Step]) -> Iterator[TreeFault]:
    for step in steps:
        reason = path_fault(step.path) if step.action not in _UNTOUCHED else None
        if reason is not None:
            yield TreeFault(path=step.path, reason=reason)


def _no_stamp(_path: bytes) -> None:
    return None


def _trouble(path: bytes, error: OSError) -> Storage:
    return Storage(
        f"{printable(to_text(path))} cannot be changed: {error.strerror}", hint="look at its permissions"
    )
