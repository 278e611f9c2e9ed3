"""Decides which entries of a directory are captured (rules S3 to S7), before any is read."""

from __future__ import annotations

import os
from marshal import dumps

from lastgood.errors import Damaged
from lastgood.files import digest
from lastgood.ignore import (
    GITIGNORE,
    LASTGOODIGNORE,
    Includes,
    TreeRules,
    Unreadable,
    pattern_rules,
    workspace_rules,
)
from lastgood.model.checkpoint import GitState, IgnoreState, NestedRepository
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.paths import DEEPEST, LONGEST_PATH, Covering, is_git_alias, join, unknown, ways, within
from lastgood.project_git import IGNORE_FILE_LIMIT, find, nested_head, outer_rules, read_file, state
from lastgood.scanner import (
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
    evidence,
)
from lastgood.settings import BUILT_IN_INCLUDES, HAND_WRITTEN_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lastgood.engine import ObjectReader
    from lastgood.ignore import Rules, Tables, Text
    from lastgood.project_git import Repository
    from lastgood.project_git.index import Index
    from lastgood.scanner import Row
    from lastgood.settings import CaptureSettings


DOT_GIT = b".git"
IGNORE_FILES = frozenset({GITIGNORE, LASTGOODIGNORE})
_CAPTURABLE = frozenset({FORMAT_DIRECTORY, FORMAT_FILE, FORMAT_LINK})


class Selection:
    """What is to become of one entry.

    ``ignored`` tells that rules ignore it. ``buried`` says of a directory that only some of what is
    in it is captured, ``bare`` that it is not captured itself unless something in it is.
    """

    __slots__ = ("bare", "buried", "forced", "ignored", "private", "state")

    def __init__(
        self, state: int, *, ignored: bool = False, buried: bool = False, bare: bool = False
    ) -> None:
        self.state: int = state
        self.ignored: bool = ignored
        self.buried: bool = buried
        self.bare: bool = bare
        self.forced: bool = False
        self.private: bool = False


PLAIN = Selection(CAPTURED)
_HIDDEN = Selection(HIDDEN)
_UNSUPPORTED = Selection(UNSUPPORTED)
_IGNORED = Selection(IGNORED, ignored=True)
# What would be captured if it were smaller: its size is remembered, so that it is judged again.
TOO_LONG = Selection(IGNORED, ignored=True)


class Selector:
    """Knows everything that has a say in what is captured.

    ``is_ours`` tells of a name whether a restore left it; None where none did.
    """

    def __init__(
        self,
        *,
        rules: RuleBook,
        includes: Includes,
        hand_written: HandWritten,
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
        self._hand_written = hand_written
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
        names: bytes,
    ) -> DirectorySelector:
        """Return the selector for one directory's entries, whose ``names`` are joined by NUL.

        ``same`` says that nothing which decides has changed since the ``old`` rows; ``held`` are the
        names that the previous tree captured here, None to look them up.
        """
        return DirectorySelector(self, path, token=token, old=old if same else {}, held=held, names=names)

    def spare_file(self, path: bytes, *, size: int, held: bool) -> Selection:
        """Select an ignored file, in a directory that is not, by the reasons to capture it all the same."""
        wanted = self._hand_written.wants(path.rpartition(b"/")[2])
        verdict = self.spare(path, directory=False, held=held and wanted is not False)
        if verdict.state == CAPTURED or not wanted or self.rules.ours_ignore(path):
            return verdict
        if size > HAND_WRITTEN_BYTES:
            return TOO_LONG
        verdict = Selection(CAPTURED, ignored=True)
        verdict.private = True
        return verdict

    def spare(self, path: bytes, *, directory: bool, held: bool) -> Selection:
        """Select an ignored entry by the reasons to capture it all the same."""
        forced = self.forced.covers(path)
        indexed = self._index.holds_below(path) if directory else self._index.holds(path)
        kept = forced or held or self._includes.matches(path, directory=directory)
        unsure = not indexed and self._index.may_hold(path, directory=directory)
        if directory:
            leads = self.forced.leads_on(path) or self._includes.may_match_below(path)
            opened = kept or indexed or unsure or leads
            if not opened:
                return _IGNORED
            return Selection(CAPTURED, ignored=True, buried=True, bare=not kept)
        if not kept and not indexed and not unsure:
            return _IGNORED
        verdict = Selection(CAPTURED, ignored=True)
        verdict.forced = forced
        verdict.private = not indexed
        return verdict

    def is_store(self, path: bytes) -> bool:
        """Tell whether a path is the store itself."""
        return path == self._store


class DirectorySelector:
    """Judges the entries of one directory."""

    def __init__(
        self,
        selector: Selector,
        path: bytes,
        *,
        token: bytes,
        old: Mapping[bytes, Row],
        held: Collection[bytes] | None,
        names: bytes,
    ) -> None:
        self._names = names
        self._rules: Tables | None = None
        self._selector = selector
        self._is_ours = selector.is_ours
        self._path = path
        self._buried = token == BURIED
        self._deepest = path.count(b"/") + 1 >= DEEPEST
        self._old = old
        self._held = held

    def verdict(self, name: bytes, mode: int, *, size: int) -> Selection:
        """Select one entry."""
        form = mode & FORMAT_MASK
        path = join(self._path, name)
        if name == DOT_GIT or self._selector.is_store(path):
            return _HIDDEN
        if self._is_ours is not None and self._is_ours(name):
            return _HIDDEN
        directory = form == FORMAT_DIRECTORY
        verdict = self._ignoring(name, path, form=form, size=size)
        if verdict.state != CAPTURED:
            return verdict
        if form not in _CAPTURABLE or is_git_alias(name):
            return _UNSUPPORTED
        if len(path) > LONGEST_PATH or (directory and self._deepest):
            return _UNSUPPORTED  # nothing could write it out again as a whole
        if not verdict.ignored and self._selector.forced.covers(path):
            verdict = Selection(CAPTURED)
            verdict.forced = True
        return verdict

    def _ignoring(self, name: bytes, path: bytes, *, form: int, size: int) -> Selection:
        old = self._old.get(name)
        directory = form == FORMAT_DIRECTORY
        if (
            old is not None
            and old[STATE] == IGNORED
            and not old[SIZE]
            and ((old[MODE] & FORMAT_MASK == FORMAT_DIRECTORY) == directory)
        ):
            return _IGNORED
        if not self._buried:
            if name in IGNORE_FILES and not directory:
                return PLAIN
            if self._rules is None:
                self._rules = self._selector.rules.at(self._path).among(self._names)
            if not self._rules.ignored(name, directory=directory):
                return PLAIN
        held = name in self._names_held()
        if self._buried or form not in {FORMAT_FILE, FORMAT_LINK}:
            return self._selector.spare(path, directory=directory, held=held)
        return self._selector.spare_file(path, size=size, held=held)

    def _names_held(self) -> Collection[bytes]:
        if self._held is None:
            self._held = self._selector.previous.names(self._path)
        return self._held


# --- The ignore rules in force, directory by directory, worked out only where they are asked for ---


class RuleBook:
    """The rules of every directory that is not ignored. ``texts`` returns a directory's ignore files."""

    def __init__(self, state: IgnoreState, *, texts: Callable[[bytes], tuple[Text, Text]]) -> None:
        self._state = state
        self._texts = texts
        self._known: dict[bytes, Rules] = {}
        self._lastgoodignores: dict[bytes, Text] = {}
        self._ours: TreeRules | None = None

    def ours_ignore(self, path: bytes) -> bool:
        """Tell whether a file is ignored by rules that are not git's: ours, or configured ones (rule S5)."""
        if self._ours is None:
            ours = self._state.replace(info_exclude=b"", global_exclude=b"")
            self._ours = TreeRules(ours, self._our_texts)
        return self._ours.ignored(path, directory=False) is True

    def _our_texts(self, path: bytes) -> tuple[Text, Text]:
        if path in self._known:
            return None, self._lastgoodignores.get(path)
        return None, self._texts(path)[1]

    def at(self, path: bytes) -> Rules:
        """Return the rules in force in a directory."""
        known = self._known.get(path)
        if known is not None:
            return known
        if b"" not in self._known:
            self.enter(b"", self._texts(b""))
        # The way down may be longer than the interpreter's stack is deep.
        for each in unknown(path, self._known):
            self.enter(each, self._texts(each))
        return self._known[path]

    def enter(self, path: bytes, texts: tuple[Text, Text]) -> Rules:
        """Return the rules in force in a directory, given what its ignore files say."""
        gitignore, lastgoodignore = texts
        if lastgoodignore is not None:
            self._lastgoodignores[path] = lastgoodignore
        if path:
            above, _, name = path.rpartition(b"/")
            known = self._known.get(above)
            rules = (self.at(above) if known is None else known).child(
                name, gitignore, lastgoodignore=lastgoodignore
            )
        else:
            rules = workspace_rules(self._state, gitignore, lastgoodignore=lastgoodignore)
        self._known[path] = rules
        return rules


# --- What stays captured although it is ignored: by hand, the previous checkpoint, the index, or by force ---


class HandWritten:
    """What people write by hand and git ignores (rule S5); ``switched_on`` are the names that count."""

    def __init__(self, switched_on: tuple[str, ...]) -> None:
        self._off = tuple(one for one in BUILT_IN_INCLUDES if one not in switched_on)
        self._on = switched_on
        self._rules: tuple[Rules, Rules] | None = None

    def wants(self, name: bytes) -> bool | None:
        """Tell whether such a file is to be captured, False if that is switched off; None of other files."""
        if self._rules is None:
            self._rules = pattern_rules(self._on), pattern_rules(self._off)
        wanted, unwanted = self._rules
        if wanted.ignored(name, directory=False):
            return True
        return False if unwanted.ignored(name, directory=False) else None


_NOTHING: Mapping[bytes, TreeId | None] = {}


class Previous:
    """The tree of the previous checkpoint, read directory by directory as far as it is asked for."""

    def __init__(self, tree: TreeId | None, *, objects: ObjectReader) -> None:
        self._objects = objects
        self._tree = tree
        self._known: dict[bytes, Mapping[bytes, TreeId | None]] = {}

    def tree(self, path: bytes) -> TreeId | None:
        """Return what the directory was, None if it was not captured."""
        if not path:
            return self._tree
        above, _, name = path.rpartition(b"/")
        return self.names(above).get(name)

    def names(self, path: bytes) -> Mapping[bytes, TreeId | None]:
        """Return the names captured in a directory, those of directories with their identity."""
        known = self._known
        if path not in known:
            if b"" not in known:
                known[b""] = self._load(self._tree)
            # The way down may be longer than the interpreter's stack is deep.
            for each in unknown(path, known):
                above, _, name = each.rpartition(b"/")
                known[each] = self._load(known[above].get(name))
        return known[path]

    def _load(self, tree: TreeId | None) -> Mapping[bytes, TreeId | None]:
        if tree is None:
            return _NOTHING
        try:
            entries = self._objects.directory(tree)
        except Damaged:  # a checkpoint that cannot be read holds nothing; `verify` will say so
            return _NOTHING
        return {entry.name: entry.tree_id if entry.kind == DIRECTORY else None for entry in entries}


class Forced:
    """The paths to capture whatever the rules say, and the way to them.

    ``fresh`` are those, and others, to be read whatever is known of them.
    """

    def __init__(self, paths: Iterable[bytes], *, fresh: Iterable[bytes] = ()) -> None:
        self._paths = frozenset(paths)
        # Whether anything is forced.
        self.any: bool = bool(self._paths)
        others = frozenset(fresh) - self._paths
        self.fresh: Forced = Forced(self._paths | others) if others else self
        self._ways = frozenset((b"", *ways(self._paths))) if self._paths else frozenset()
        self._covering = Covering(dict.fromkeys(self._paths, "forced"))

    def covers(self, path: bytes) -> bool:
        """Tell whether a path is forced, or lies in a directory that is."""
        return bool(self._paths) and self._covering.of(path) is not None

    def leads_on(self, path: bytes) -> bool:
        """Tell whether something below a directory is forced."""
        return path in self._ways

    def touches(self, path: bytes) -> bool:
        """Tell whether a directory, or something in or below it, is forced."""
        return bool(self._paths) and (path in self._ways or self.covers(path))


def relative(path: bytes, root: bytes) -> bytes | None:
    """Return where a path lies in a workspace, None if outside (or the workspace itself)."""
    top = root if root != b"/" else b""
    if path == root or not within(path, top or b""):
        return None
    return path[len(top) + 1 :]


# --- What the project's repository has to say about a scan; read as files, never run ---

# Below this many objects, hashing and compressing is quicker than asking git for them.
_WORTH_IMPORTING = 256
_DIGEST_SIZE = 20  # of an object id that our engine could take over


class IndexPaths:
    """The paths that the project's index holds; it is read only when somebody asks.

    ``excludes`` are the patterns that leave a path out whatever the project itself ignores.
    """

    def __init__(self, found: Repository | None, *, excludes: Sequence[str] = ()) -> None:
        self._repository = found
        self._index: Index | None = None
        self._known = found is None
        self._excludes = excludes
        self._excluded: Includes | None = None

    @property
    def index(self) -> Index | None:
        """The index, None if there is none or it cannot be understood."""
        if not self._known and self._repository is not None:
            from lastgood.project_git.index import Index, read_index

            read = read_index(self._repository)
            if isinstance(read, Index):
                self._index = read
            else:
                self._excluded = Includes(self._excludes)
            self._known = True
        return self._index

    def holds(self, path: bytes) -> bool:
        """Tell whether a path is tracked."""
        index = self.index
        return index is not None and path in index.places

    def holds_below(self, path: bytes) -> bool:
        """Tell whether a directory holds tracked paths, or is a submodule."""
        index = self.index
        return index is not None and (path in index.tracked_directories or path in index.places)

    def may_hold(self, path: bytes, *, directory: bool) -> bool:
        """Tell whether a path may be tracked because nobody can tell: the index cannot be understood."""
        if self.index is not None or self._excluded is None:
            return False
        return not self._excluded.matches(path, directory=directory)


class Project:
    """The repository of a workspace, if it has one."""

    def __init__(self, root: bytes, *, settings: CaptureSettings) -> None:
        self._root = root
        self._found = find(root)
        self.index: IndexPaths = IndexPaths(self._found, excludes=(*settings.built_in, *settings.exclude))

    @property
    def signature(self) -> bytes:
        """What changes whenever the index does; b"" without a repository."""
        if self._found is None:
            return b""
        path = self._found.git_dir + b"/index"
        try:
            seen = evidence(os.stat(path))
        except OSError:
            return digest(path)
        return digest(dumps((path, seen), 2))

    @property
    def objects(self) -> bytes:
        """The repository's object directory; b"" if there is none to copy from."""
        if self._found is None or self._found.digest_size != _DIGEST_SIZE:
            return b""
        return self._found.objects

    def outer_texts(self, settings: CaptureSettings) -> tuple[Text, Text]:
        """Return the ignore files outside the workspace: the repository's own, and the user's."""
        outer: Text = None if self._found is None else outer_rules(self._found)
        if settings.global_excludes is None:
            return outer, None
        return outer, read_file(os.fsencode(settings.global_excludes), limit=IGNORE_FILE_LIMIT)

    def state(self, nested: Collection[bytes]) -> GitState | None:
        """Return what the repository says now, with the HEADs of nested repositories (rule S4)."""
        if self._found is None and not nested:
            return None
        heads = tuple(
            NestedRepository(path=path, head=nested_head(join(self._root, path))) for path in sorted(nested)
        )
        if self._found is not None:
            return state(self._found).replace(nested=heads)
        return GitState(head=None, branch=None, nested=heads) if heads else None

    def named_objects(self) -> set[bytes]:
        """Return the objects that files of the workspace may equal, if there are many."""
        index = self.index.index
        if index is None or not self.objects or len(index.places) < _WORTH_IMPORTING:
            return set()
        found = index.blobs()
        return found if len(found) >= _WORTH_IMPORTING else set()


def ignore_state(settings: CaptureSettings, texts: tuple[Text, Text]) -> IgnoreState:
    """Return the rules that are not files of the workspace: those of settings, and of two such texts."""
    outer, everywhere = texts
    return IgnoreState(
        excludes=(*settings.built_in, *settings.exclude),
        includes=settings.include,
        built_in_off=tuple(one for one in BUILT_IN_INCLUDES if one not in settings.built_in_includes),
        info_exclude=outer if isinstance(outer, bytes) else b"",
        global_exclude=everywhere if isinstance(everywhere, bytes) else b"",
        readable=not isinstance(outer, Unreadable) and not isinstance(everywhere, Unreadable),
    )
