"""Decides which entries of a directory are captured (rules S3 to S7), before any is read."""

from __future__ import annotations

from lastgood.adapters.scan.form import (
    BURIED,
    CAPTURED,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_LINK,
    FORMAT_MASK,
    HIDDEN,
    IGNORED,
    MODE,
    SIZE,
    STATE,
    UNSUPPORTED,
)
from lastgood.names import join
from lastgood.rules.hostile import DEEPEST, LONGEST_PATH, is_git_alias
from lastgood.rules.ignore import GITIGNORE, LASTGOODIGNORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from lastgood.adapters.scan.form import Row
    from lastgood.adapters.scan.project import IndexPaths
    from lastgood.adapters.scan.rulebook import RuleBook
    from lastgood.adapters.scan.sticky import Forced, Previous
    from lastgood.rules.ignore import Includes

DOT_GIT = b".git"
IGNORE_FILES = frozenset({GITIGNORE, LASTGOODIGNORE})
_CAPTURABLE = frozenset({FORMAT_DIRECTORY, FORMAT_FILE, FORMAT_LINK})


class Verdict:
    """What is to become of one entry.

    ``ignored`` tells that rules ignore it. ``buried`` says of a directory that only some of what is
    in it is captured, ``bare`` that it is not captured itself unless something in it is.
    """

    __slots__ = ("bare", "buried", "forced", "ignored", "private", "state")

    def __init__(
        self, state: int, *, ignored: bool = False, buried: bool = False, bare: bool = False
    ) -> None:
        self.state = state
        self.ignored = ignored
        self.buried = buried
        self.bare = bare
        self.forced = False
        self.private = False


_PLAIN = Verdict(CAPTURED)
_HIDDEN = Verdict(HIDDEN)
_UNSUPPORTED = Verdict(UNSUPPORTED)
_IGNORED = Verdict(IGNORED, ignored=True)


class Judge:
    """Knows everything that has a say in what is captured.

    ``is_ours`` tells of a name whether a restore left it; None where none did.
    """

    def __init__(
        self,
        *,
        rules: RuleBook,
        includes: Includes,
        forced: Forced,
        index: IndexPaths,
        previous: Previous,
        store: bytes | None,
        is_ours: Callable[[bytes], bool] | None = None,
    ) -> None:
        self.is_ours = is_ours
        self.rules = rules
        self.forced = forced
        self.previous = previous
        self._includes = includes
        self._index = index
        self._store = store

    def directory(
        self,
        path: bytes,
        *,
        token: bytes,
        old: Mapping[bytes, Row],
        same: bool,
        held: Collection[bytes] | None,
    ) -> DirectoryJudge:
        """Return the judge of one directory's entries.

        ``same`` says that nothing which decides has changed since the ``old`` rows; ``held`` are the
        names that the previous tree captured here, None to look them up.
        """
        return DirectoryJudge(self, path, token=token, old=old if same else {}, held=held)

    def spare(self, path: bytes, *, directory: bool, held: bool) -> Verdict:
        """Judge an ignored entry by the reasons to capture it all the same."""
        forced = self.forced.covers(path)
        indexed = self._index.holds_below(path) if directory else self._index.holds(path)
        kept = forced or held or self._includes.matches(path, directory=directory)
        unsure = not indexed and self._index.may_hold(path, directory=directory)
        if directory:
            leads = self.forced.leads_on(path) or self._includes.may_match_below(path)
            opened = kept or indexed or unsure or leads
            if not opened:
                return _IGNORED
            return Verdict(CAPTURED, ignored=True, buried=True, bare=not kept)
        if not kept and not indexed and not unsure:
            return _IGNORED
        verdict = Verdict(CAPTURED, ignored=True)
        verdict.forced = forced
        verdict.private = not indexed
        return verdict

    def is_store(self, path: bytes) -> bool:
        """Tell whether a path is the store itself."""
        return path == self._store


class DirectoryJudge:
    """Judges the entries of one directory."""

    def __init__(
        self,
        judge: Judge,
        path: bytes,
        *,
        token: bytes,
        old: Mapping[bytes, Row],
        held: Collection[bytes] | None,
    ) -> None:
        self._judge = judge
        self._is_ours = judge.is_ours
        self._path = path
        self._buried = token == BURIED
        self._deepest = path.count(b"/") + 1 >= DEEPEST
        self._old = old
        self._held = held

    def verdict(self, name: bytes, mode: int) -> Verdict:
        """Judge one entry."""
        form = mode & FORMAT_MASK
        path = join(self._path, name)
        if name == DOT_GIT or self._judge.is_store(path):
            return _HIDDEN
        if self._is_ours is not None and self._is_ours(name):
            return _HIDDEN
        directory = form == FORMAT_DIRECTORY
        verdict = self._ignoring(name, path, directory=directory)
        if verdict.state != CAPTURED:
            return verdict
        if form not in _CAPTURABLE or is_git_alias(name):
            return _UNSUPPORTED
        if len(path) > LONGEST_PATH or (directory and self._deepest):
            return _UNSUPPORTED  # nothing could write it out again as a whole
        if not verdict.ignored and self._judge.forced.covers(path):
            verdict = Verdict(CAPTURED)
            verdict.forced = True
        return verdict

    def _ignoring(self, name: bytes, path: bytes, *, directory: bool) -> Verdict:
        old = self._old.get(name)
        if (
            old is not None
            and old[STATE] == IGNORED
            and not old[SIZE]
            and ((old[MODE] & FORMAT_MASK == FORMAT_DIRECTORY) == directory)
        ):
            return _IGNORED
        if not self._buried:
            if name in IGNORE_FILES and not directory:
                return _PLAIN
            if not self._judge.rules.at(self._path).ignored(name, directory=directory):
                return _PLAIN
        return self._judge.spare(path, directory=directory, held=name in self._names_held())

    def _names_held(self) -> Collection[bytes]:
        if self._held is None:
            self._held = self._judge.previous.names(self._path)
        return self._held
