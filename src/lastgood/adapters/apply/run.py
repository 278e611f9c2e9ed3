"""One application of a plan: directories, writes, modes, deletions, and last what was set aside."""

from __future__ import annotations

import errno
import os
import stat

from lastgood.adapters.apply import aside
from lastgood.adapters.apply.places import change_mode, is_nowhere
from lastgood.adapters.apply.site import Site
from lastgood.adapters.apply.writing import CHUNK, Chunk
from lastgood.errors import Damaged, Storage
from lastgood.model.plan import Outcome
from lastgood.model.tree import DIRECTORY
from lastgood.names import ancestors, parent, printable, to_text
from lastgood.rules.evidence import PERMISSION_BITS, SPECIAL_BITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lastgood.adapters.apply.flush import Flush
    from lastgood.adapters.apply.places import Directories
    from lastgood.model.plan import Action, Result, Step
    from lastgood.ports.engine import ObjectReader
    from lastgood.ports.workspace import Stamp

    Numbered = tuple[int, Step]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST})
_NEW_DIRECTORY = 0o700
_DONE: dict[Action, Result] = {
    "mkdir": "restored",
    "write": "restored",
    "chmod": "restored",
    "delete": "removed",
    "rmdir": "removed",
    "keep": "kept",
    "skip": "skipped",
}


class Run:
    """Carries out steps once; what fails for one path leaves the others alone."""

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        directories: Directories,
        token: str,
        objects: ObjectReader,
        stamp: Callable[[bytes], Stamp | None],
        flush: Flush,
    ) -> None:
        self._flush = flush
        self._steps = steps
        self._directories = directories
        self._site = Site(directories, token=token, stamp=stamp)
        removals = {step.path: step for step in steps if step.action in {"delete", "rmdir"}}
        self._chunk = Chunk(self._site, objects, removals=removals)
        # By number of the step; a step without a remark went well.
        self._remarks: dict[int, tuple[Result, str]] = {}
        # Permissions that directories get in the end, when nothing has to be written into them any more.
        self._modes: dict[bytes, tuple[int, int]] = {}
        # Directories that changed since they were last carried through to the disk.
        self._changed: set[bytes] = set()
        # Directories that had to make room for a file, and could not.
        self._standing: set[bytes] = set()

    def outcomes(self) -> Sequence[Outcome]:
        """Do it all and return what became of each step; `Storage` when the disk is full or fails."""
        try:
            self._phases()
        finally:
            self._chunk.drop_all()
            self._settle_modes()
        self._sync(self._changed)
        return tuple(self._outcome(number, step) for number, step in enumerate(self._steps))

    def _phases(self) -> None:
        self._each(self._of("mkdir"), self._make)
        linked = [numbered for numbered in self._of("chmod") if self._has_links(numbered[1])]
        writes = [*self._of("write"), *linked]
        for start in range(0, len(writes), CHUNK):
            self._write(writes[start : start + CHUNK])
        rewritten = {number for number, _ in linked}
        self._each((one for one in self._of("chmod") if one[0] not in rewritten), self._change_mode)
        self._each(self._of("delete"), self._delete)
        self._each(self._of("rmdir"), self._remove_directory)
        self._each(self._of("mkdir", "write"), self._discard_aside)

    def _of(self, *actions: Action) -> list[Numbered]:
        return [(number, step) for number, step in enumerate(self._steps) if step.action in actions]

    def _each(self, numbered: Iterable[Numbered], act: Callable[[int, Step], None]) -> list[Numbered]:
        """Do something for steps that went well so far, and return those that still do."""
        good = []
        for number, step in numbered:
            if number not in self._remarks and self._attempt(number, step, act):
                good.append((number, step))
        return good

    def _attempt(self, number: int, step: Step, act: Callable[[int, Step], None]) -> bool:
        try:
            act(number, step)
        except OSError as error:
            if error.errno in _FULL:
                raise Storage(
                    f"the workspace's disk is full: {error.strerror}",
                    hint="free space, then finish the restore: lastgood recover",
                    details={"path": to_text(step.path)},
                ) from error
            self._remarks[number] = ("failed", _reason(error))
        except Damaged as error:
            self._remarks[number] = ("failed", error.message)
        return number not in self._remarks

    def _make(self, number: int, step: Step) -> None:
        assert step.want is not None
        directory, name = self._site.place(step.path)
        # One that is there already was made by the restore that is being finished.
        if step.have is not None or not _is_directory(name, directory):
            self._site.expect(step, directory, name)
            if step.have is not None:
                self._site.set_aside(step, number)
                directory, name = self._site.place(step.path)
            self._make_new(step, name, directory)
        self._changed.add(parent(step.path))
        self._modes[step.path] = (number, step.want.mode)

    def _make_new(self, step: Step, name: bytes, directory: int) -> None:
        try:
            os.mkdir(name, _NEW_DIRECTORY, dir_fd=directory)
        except OSError:
            if step.have is not None:
                self._site.put_back(step.path)
            raise

    def _write(self, numbered: list[Numbered]) -> None:
        chunk = self._chunk
        written = self._each(numbered, chunk.write)
        chunk.flush(self._flush)
        renamed = self._each(self._each(written, chunk.check), chunk.rename)
        for number, step in numbered:
            if number in self._remarks:
                chunk.drop(number)
                if step.have is not None and step.have.kind == DIRECTORY:
                    self._standing.add(step.path)
        self._sync({parent(step.path) for _, step in renamed})

    def _has_links(self, step: Step) -> bool:
        """Tell whether a file's other names, outside perhaps, would share new permissions."""
        if step.want is None or step.want.kind == DIRECTORY:
            return False
        try:
            directory, name = self._site.place(step.path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_nlink > 1
        except OSError:
            return False  # the attempt itself will tell

    def _change_mode(self, number: int, step: Step) -> None:
        assert step.want is not None
        mode = step.want.mode & PERMISSION_BITS
        directory, name = self._site.place(step.path)
        self._site.expect(step, directory, name)
        if step.want.kind == DIRECTORY:
            self._modes[step.path] = (number, mode)
        else:
            change_mode(name, directory, lambda _mode: mode)
            self._changed.add(parent(step.path))

    def _delete(self, number: int, step: Step) -> None:
        if self._stands(number, step):
            return
        try:
            directory, name = self._site.place(step.path)
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return  # somebody else was faster
        self._site.expect(step, directory, name)
        os.unlink(name, dir_fd=directory)
        self._changed.add(parent(step.path))

    def _remove_directory(self, number: int, step: Step) -> None:
        if self._stands(number, step):
            return
        now = self._site.located(step.path)
        self._directories.forget(now)
        try:
            directory, name = self._site.place(step.path)
            os.rmdir(name, dir_fd=directory)
        except FileNotFoundError:
            return  # somebody else was faster
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
            self._remarks[number] = ("kept", "not empty")
            return
        self._directories.unlocked.pop(now, None)
        self._changed.add(parent(step.path))

    def _stands(self, number: int, step: Step) -> bool:
        """Leave alone what is in a directory that did not have to make room after all."""
        if not self._standing:
            return False
        for above in ancestors(step.path):
            if above in self._standing:
                shown = printable(to_text(above))
                self._remarks[number] = ("skipped", f"{shown} could not be written in its place")
                return True
        return False

    def _discard_aside(self, number: int, step: Step) -> None:
        where = self._site.moved.pop(step.path, None)
        if where is None:
            return
        self._changed.add(parent(step.path))
        if not aside.discard(self._directories, where):
            shown = printable(to_text(where))
            self._remarks[number] = ("failed", f"what was in its way changed, and is left in {shown}")

    def _settle_modes(self) -> None:
        """Give directories their permissions, deep first; those widened to work in them get them back."""
        for path in sorted({*self._modes, *self._directories.unlocked}, reverse=True):
            number, mode = self._modes.get(path, (None, self._directories.unlocked.get(path, 0)))
            try:
                self._directories.set_mode(path, _keeping_special(mode))
            except OSError as error:
                if number is not None:
                    self._remarks.setdefault(number, ("failed", _reason(error)))
            self._changed.add(path)

    def _sync(self, paths: Iterable[bytes]) -> None:
        """Carry the names and permissions in directories through to the disk."""
        ordered = sorted(paths)
        for start in range(0, len(ordered), CHUNK):
            opened = {}
            try:
                for path in ordered[start : start + CHUNK]:
                    descriptor = self._open_to_sync(path)
                    if descriptor is not None:
                        opened[descriptor] = path
                for descriptor, error in self._flush(list(opened)).items():
                    raise _unsynced(opened[descriptor], error) from error
            finally:
                for descriptor in opened:
                    os.close(descriptor)

    def _open_to_sync(self, path: bytes) -> int | None:
        """Open a directory, None if it went, or if even its owner may not read it."""
        try:
            return self._directories.open_again(path)
        except PermissionError:
            return None
        except OSError as error:
            if is_nowhere(error):
                return None
            raise _unsynced(path, error) from error

    def _outcome(self, number: int, step: Step) -> Outcome:
        result, reason = self._remarks.get(number, (_DONE[step.action], step.reason))
        return Outcome(path=step.path, action=step.action, result=result, reason=reason)


def _unsynced(path: bytes, error: OSError) -> Storage:
    return Storage(
        f"the workspace's disk does not take it: {error.strerror}",
        hint="look at the disk, then finish the restore: lastgood recover",
        details={"path": to_text(path)},
    )


def _keeping_special(wanted: int) -> Callable[[int], int]:
    """Return a change to permission bits alone: a directory keeps its setgid bit, and gains none."""
    return lambda mode: wanted & PERMISSION_BITS | mode & SPECIAL_BITS


def _is_directory(name: bytes, directory: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _reason(error: OSError) -> str:
    if is_nowhere(error):
        return "its directory is not there any more"
    return (error.strerror or str(error)).lower()
