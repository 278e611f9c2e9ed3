"""Decides which entries of a directory are captured (rules S3 to S7), before any is read."""

from __future__ import annotations

import os
from marshal import dumps, loads

from lastgood.errors import Damaged
from lastgood.files import DIGEST_BYTES, digest
from lastgood.ignore import (
    GITIGNORE,
    LASTGOODIGNORE,
    Includes,
    TreeRules,
    Unreadable,
    pattern_rules,
    workspace_rules,
)
from lastgood.ignore import UNREADABLE as UNREADABLE_TEXT
from lastgood.model.checkpoint import GitState, IgnoreState, NestedRepository
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.paths import DEEPEST, LONGEST_PATH, Covering, is_git_alias, join, unknown, ways, within
from lastgood.project_git import IGNORE_FILE_LIMIT, find, nested_head, outer_rules, read_file, state
from lastgood.scanner import (
    ABOVE,
    BELOW,
    BUDGET,
    BURIED,
    CAPTURED,
    DEPENDENT,
    DOUBTFUL,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_LINK,
    FORMAT_MASK,
    HIDDEN,
    IGNORED,
    MODE,
    NAME,
    NESTED,
    OID,
    RACY,
    SIZE,
    STATE,
    TOKEN,
    TOO_LARGE,
    UNREADABLE,
    UNSTABLE,
    UNSUPPORTED,
    VANISHED,
    evidence,
)
from lastgood.scanner.cache import Blocks, pack
from lastgood.scanner.read import Reading, descend, names_of, state_of
from lastgood.settings import BUILT_IN_INCLUDES, HAND_WRITTEN_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Final

    from lastgood.engine import ObjectReader
    from lastgood.ignore import Rules, Tables, Text
    from lastgood.project_git import Repository
    from lastgood.project_git.index import Index
    from lastgood.scanner import Evidence, Record, Row
    from lastgood.scanner.beside import Came, ReadBeside
    from lastgood.scanner.cache import Packed
    from lastgood.scanner.read import FileReader, Listing
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


_PLAIN = Selection(CAPTURED)
_HIDDEN = Selection(HIDDEN)
_UNSUPPORTED = Selection(UNSUPPORTED)
_IGNORED = Selection(IGNORED, ignored=True)
# What would be captured if it were smaller: its size is remembered, so that it is judged again.
_TOO_LONG = Selection(IGNORED, ignored=True)


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
            return _TOO_LONG
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
                return _PLAIN
            if self._rules is None:
                self._rules = self._selector.rules.at(self._path).among(self._names)
            if not self._rules.ignored(name, directory=directory):
                return _PLAIN
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


# --- Looks at one directory whose signature is not the known one: judges its entries and reads new ones ---

# Beyond so many rows of such directories, those that come are folded until their records are made.
_UNFOLDED_ROWS = 50_000
# Most directories have neither: an empty one of its own for each would take 300 bytes.
_NO_TEXTS: Final[Mapping[bytes, Text]] = {}
_NONE_BURIED: Final[frozenset[bytes]] = frozenset()


class Node:
    """A directory that was looked at: what its record is going to be made of.

    ``rows`` are sorted by name. ``below`` are the subdirectories to enter, ``buried`` those of them
    that are ignored and entered all the same. ``texts`` are its ignore files by name, as they were when its
    rules were read anew. ``waiting`` are files that another process reads,
    ``unsettled`` tells that some have to be read again.
    """

    __slots__ = (
        "_packed",
        "above",
        "before",
        "below",
        "buried",
        "flags",
        "names",
        "path",
        "private",
        "rows",
        "seen",
        "signature",
        "texts",
        "token",
        "unsettled",
        "waiting",
    )

    def __init__(self, path: bytes, *, above: bytes, listing: Listing) -> None:
        self.path: bytes = path
        self.above: bytes = above
        self.signature: bytes = listing.signature
        self.names: bytes = listing.names if listing.seen else b""
        self.seen: Evidence | tuple[()] = listing.seen
        self.token: bytes = above
        self.flags: int = 0
        self.rows: list[Row] = []
        self.below: list[bytes] = []
        self.texts: Mapping[bytes, Text] = _NO_TEXTS
        self.buried: set[bytes] | frozenset[bytes] = _NONE_BURIED
        self.private: list[bytes] = []
        self.waiting: int = 0
        self.unsettled: bool = False
        self.before: Mapping[int, Row] | None = None
        self._packed: Packed = b""

    def bury(self, name: bytes) -> None:
        """Take note of a subdirectory that is ignored, and entered all the same."""
        if isinstance(self.buried, frozenset):
            self.buried = set()
        self.buried.add(name)

    def fold(self, blocks: Blocks) -> None:
        """Keep the rows as the cache has them, in a quarter of the memory, until they are taken."""
        self._packed = blocks.hold(pack(self.rows))
        self.rows, self.before = [], None

    def take_rows(self) -> tuple[list[Row], Packed]:
        """Return the rows, and how the cache has them if they were kept so; they are forgotten."""
        rows, packed = self.rows, self._packed
        if packed:
            rows = loads(memoryview(packed)[DIGEST_BYTES:])  # noqa: S302 - our own bytes
        self.rows, self._packed = [], b""
        return rows, packed


class Unsettled:
    """An entry that was read so soon after a change that it has to be read again.

    ``folder`` is a descriptor of the directory in which it was read, -1 where none was kept open.
    """

    __slots__ = ("folder", "forced", "mark", "node", "place", "stat", "tries")

    def __init__(self, node: Node, place: int, *, reading: Reading, forced: bool, folder: int) -> None:
        assert reading.stat is not None
        node.unsettled = True
        self.folder: int = folder
        self.node: Node = node
        self.place: int = place
        self.stat: Evidence = reading.stat
        self.mark: bytes = reading.mark
        self.forced: bool = forced
        self.tries: int = 1


# From here on another process reads the files that follow (`beside.py`). Each counts as so many bytes more.
_BESIDE_BYTES = 4 << 20
_BYTES_A_FILE = 8 << 10
# Larger files are read here: the memory that both share has no room for them.
_LARGEST_BESIDE = 1 << 20

# So many directories stay open in which something has to be read still, or again: only that can tell whether
# they were moved or deleted meanwhile. Only as long as many more could be opened beside them.
_KEPT_OPEN = 64
_TO_SPARE = 128


class Examiner:
    """Turns listings into nodes. ``late`` tells whether the time budget is used up."""

    def __init__(
        self,
        selector: Selector,
        *,
        reader: FileReader,
        cap: int,
        late: Callable[[], bool],
        gone: set[bytes],
    ) -> None:
        self._selector = selector
        self._reader = reader
        self._beside: ReadBeside | None = None
        self._alone = 0  # the bytes that were read before another process is asked
        self._cap = cap
        self._late = late
        self._gone = gone  # object ids in the cache that the engine does not have
        self._fresh = selector.forced.fresh
        self.unsettled: list[Unsettled] = []
        self._folders: dict[bytes, int] = {}
        self._rows = 0
        self._blocks = Blocks()
        self.texts: dict[bytes, tuple[Text, Text]] = {}
        self.unreadable_rules: bool = False

    def examine(
        self,
        path: bytes,
        listing: Listing,
        *,
        above: bytes,
        record: Record | None,
        old: Mapping[bytes, Row],
        same_rules: bool,
        same_index: bool,
        held_by_old: bool,
    ) -> Node:
        """Return the node of a directory.

        ``old`` are its rows by name as of the last scan; ``same_rules`` and ``same_index`` say that the rules
        above and the index would decide as then, ``held_by_old`` that the previous tree was that scan's.
        """
        node = Node(path, above=above, listing=listing)
        found = sorted(zip(names_of(listing.names), listing.stats, strict=True))
        node.token, same_rules = self._rules(
            node, dict(found), listing, record=record, old=old, same=same_rules
        )
        same = same_rules and same_index and held_by_old
        held = {name for name, row in old.items() if row[STATE] <= RACY} if held_by_old else None
        selector = self._selector.directory(
            path, token=node.token, old=old, same=same, held=held, names=listing.names
        )
        settled = self._settled(record, old) if same_rules and not self._fresh.touches(path) else {}
        where = listing.descriptor
        lost = sorted(listing.lost, reverse=True)
        for name, stat in found:
            while lost and lost[-1] < name:  # in its place: rows are completed by where they stand
                node.rows.append(_lost(lost.pop()))
            before = settled.get(name)
            if before is not None and before[1:6] == stat:
                node.rows.append(before)
                continue
            if before is not None and not isinstance(stat, int) and _is_same_form(before, stat):
                row = self._file(
                    node, len(node.rows), name, stat, verdict=_PLAIN, old=before, descriptor=where
                )
            else:
                row = self._row(node, name, stat, selector=selector, old=old.get(name), descriptor=where)
            if row is not None:
                node.rows.append(row)
        node.rows += [_lost(name) for name in reversed(lost)]
        self._end(node)
        return node

    def revise(
        self,
        path: bytes,
        listing: Listing,
        *,
        record: Record,
        rows: list[Row],
        changed: Mapping[bytes, Evidence | int],
    ) -> Node | None:
        """Return the node of a directory of whose entries some ``changed``, by name, and no other.

        Its ``rows`` are completed: they and its record say all of the others, which no rule ignores. None
        where something has to be decided of those that changed.
        """
        found: list[tuple[int, bytes, Evidence]] = []
        for name, stat in changed.items():
            place, row = found_row(rows, name)
            if row is None or isinstance(stat, int) or name in IGNORE_FILES:
                return None
            if row[STATE] != CAPTURED or not _is_same_form(row, stat):
                return None
            found.append((place, name, stat))
        node = Node(path, above=record[ABOVE], listing=listing)
        node.token, node.flags = record[TOKEN], record[FLAGS]
        node.rows, node.below = rows, [*record[BELOW]]
        node.before = {place: rows[place] for place, _, _ in found}
        for place, name, stat in found:
            made = self._file(
                node,
                place,
                name,
                stat,
                verdict=_PLAIN,
                old=rows[place],
                descriptor=listing.descriptor,
            )
            # It keeps its place, as others are completed by theirs.
            rows[place] = (name, *stat, b"", VANISHED) if made is None else made
        self._end(node)
        return node

    def _end(self, node: Node) -> None:
        self._rows += len(node.rows)
        if self._beside is not None:
            self._beside.end(node)
            self._take_in(self._beside.came())
        self._fold(node)
        self._reader.writer.publish_part()

    def finish(self) -> None:
        """Wait for what another process reads."""
        beside, self._beside = self._beside, None
        if beside is not None:
            self._take_in(beside.came(wait=True))

    def _fold(self, node: Node) -> None:
        if self._rows > _UNFOLDED_ROWS and node.rows and not node.waiting and not node.unsettled:
            node.fold(self._blocks)

    def _take_in(self, came: Iterable[Came]) -> None:
        """Complete the rows of files that were read beside; those that were not are read now."""
        for node, places, oids in came:
            rows = node.rows
            left: list[int] = []
            for place, oid in zip(places, oids, strict=True):
                if oid:
                    name, mode, size, mtime, ctime, inode, _, _ = rows[place]
                    rows[place] = (name, mode, size, mtime, ctime, inode, oid, CAPTURED)
                else:
                    left.append(place)
            if left:
                self._read_again(node, left)
            node.waiting -= len(places)
            if not node.waiting and not node.unsettled and node.path in self._folders:
                os.close(self._folders.pop(node.path))
            self._fold(node)

    def _read_again(self, node: Node, places: Iterable[int]) -> None:
        try:
            descriptor = descend(self._reader.root, node.path)
        except OSError as error:
            state_of(error)
            descriptor = -1
        try:
            for place in places:
                name, *stat = node.rows[place][:OID]
                seen = (stat[0], stat[1], stat[2], stat[3], stat[4])
                if descriptor < 0:  # it was moved or deleted: whether anything can be read, settling tells
                    reading = Reading(RACY, seen)
                    folder = self._folders.get(node.path, -1)
                    self.unsettled.append(
                        Unsettled(node, place, reading=reading, forced=False, folder=folder)
                    )
                    continue
                row = self._read(node, place, name, seen, forced=False, descriptor=descriptor)
                node.rows[place] = (name, *seen, b"", VANISHED) if row is None else row
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _settled(self, record: Record | None, old: Mapping[bytes, Row]) -> Mapping[bytes, Row]:
        """Return the rows that need no verdict, changed or not, where the rules are those of the last scan.

        Where none is ignored, and none was forced, no captured one is captured for a reason of its own: what
        the index and the previous tree hold has no say.
        """
        if record is None or record[FLAGS] & (DEPENDENT | DOUBTFUL) or self._gone:
            return {}
        return {name: row for name, row in old.items() if row[STATE] == CAPTURED}

    def _row(
        self,
        node: Node,
        name: bytes,
        stat: Evidence | int,
        *,
        selector: DirectorySelector,
        old: Row | None,
        descriptor: int,
    ) -> Row | None:
        mode = stat if isinstance(stat, int) else stat[0]
        verdict = selector.verdict(name, mode, size=0 if isinstance(stat, int) else stat[1])
        if verdict.ignored:
            node.flags |= DEPENDENT
        if verdict.state == HIDDEN and name == DOT_GIT:
            node.flags |= NESTED
        if verdict.state != CAPTURED:
            sized = verdict is _TOO_LONG or verdict.state not in {HIDDEN, IGNORED}
            size = stat[1] if sized and not isinstance(stat, int) else 0
            return (name, mode, size, 0, 0, 0, b"", verdict.state)
        if isinstance(stat, int):
            node.below.append(name)
            if verdict.buried and node.token != BURIED:
                node.bury(name)
                node.flags |= DOUBTFUL
            bare = verdict.buried and verdict.bare
            return (name, mode, int(bare), 0, 0, 0, b"", CAPTURED)
        row = self._file(node, len(node.rows), name, stat, verdict=verdict, old=old, descriptor=descriptor)
        if row is not None:
            oversized = verdict.forced and row[SIZE] > self._cap
            if verdict.private or oversized:
                node.private.append(name)
            if oversized:
                node.flags |= DOUBTFUL
        return row

    def _file(
        self,
        node: Node,
        place: int,
        name: bytes,
        stat: Evidence,
        *,
        verdict: Selection,
        old: Row | None,
        descriptor: int,
    ) -> Row | None:
        if stat[0] & FORMAT_MASK == FORMAT_FILE and stat[1] > self._cap and not verdict.forced:
            return (name, *stat, b"", TOO_LARGE)
        known = old is not None and old[1:6] == stat and old[STATE] == CAPTURED
        if old is not None and known and old[OID] not in self._gone and not self._is_fresh(node.path, name):
            return old
        if self._late():
            return (name, *stat, b"", BUDGET)
        if stat[0] & FORMAT_MASK == FORMAT_FILE and not verdict.forced:
            if self._beside is not None and stat[1] <= _LARGEST_BESIDE:
                self._kept_open(node.path, descriptor)
                self._beside.add(place, name, stat)
                return (name, *stat, b"", UNSTABLE)
            if self._alone >= 0:
                self._count(stat[1])
        return self._read(node, place, name, stat, forced=verdict.forced, descriptor=descriptor)

    def _count(self, size: int) -> None:
        self._alone += size + _BYTES_A_FILE
        if self._alone >= _BESIDE_BYTES:
            from lastgood.scanner.beside import ReadBeside

            self._alone = -1
            beside = ReadBeside(self._reader)
            self._beside = beside if beside.begin() else None

    def _is_fresh(self, directory: bytes, name: bytes) -> bool:
        return self._fresh.any and self._fresh.covers(join(directory, name))

    def _read(
        self, node: Node, place: int, name: bytes, stat: Evidence, *, forced: bool, descriptor: int
    ) -> Row | None:
        reading = self._reader.read(name, stat, directory=descriptor, forced=forced)
        if reading.stat is None:
            return None
        state, oid = reading.state, None
        if state == CAPTURED:
            oid = self._reader.store(reading, name, directory=descriptor)
            state = RACY if oid is None else CAPTURED
        if state == RACY:
            folder = self._kept_open(node.path, descriptor)
            self.unsettled.append(Unsettled(node, place, reading=reading, forced=forced, folder=folder))
        return (name, *reading.stat, oid or b"", state)

    def _kept_open(self, path: bytes, descriptor: int) -> int:
        if path not in self._folders:
            if len(self._folders) >= _KEPT_OPEN:
                return -1
            try:
                kept = os.dup(descriptor)
            except OSError:  # too many are open
                return -1
            if 0 < os.sysconf("SC_OPEN_MAX") < kept + _TO_SPARE:
                os.close(kept)
                return -1
            self._folders[path] = kept
        return self._folders[path]

    def close(self) -> None:
        """Close the directories that were kept open."""
        while self._folders:
            os.close(self._folders.popitem()[1])

    def _rules(
        self,
        node: Node,
        found: Mapping[bytes, Evidence | int],
        listing: Listing,
        *,
        record: Record | None,
        old: Mapping[bytes, Row],
        same: bool,
    ) -> tuple[bytes, bool]:
        """Return the token of the rules inside, and whether they are those of the last scan."""
        if node.above == BURIED:
            return BURIED, same
        if same and record is not None and not record[FLAGS] & DOUBTFUL and _same_ignore_files(found, old):
            return record[TOKEN], True
        texts = (
            self._text(GITIGNORE, found, listing.descriptor),
            self._text(LASTGOODIGNORE, found, listing.descriptor),
        )
        if texts != (None, None):
            self.texts[node.path] = texts
        if GITIGNORE in found or LASTGOODIGNORE in found:
            node.texts = {GITIGNORE: texts[0], LASTGOODIGNORE: texts[1]}
        rules = self._selector.rules.enter(node.path, texts)
        if not rules.readable:
            self.unreadable_rules = True
            node.flags |= DOUBTFUL
        return rules.fingerprint, same and record is not None and record[TOKEN] == rules.fingerprint

    def _text(self, name: bytes, found: Mapping[bytes, Evidence | int], descriptor: int) -> Text:
        """Return what an ignore file says; a link or directory of that name is none, as in git."""
        stat = found.get(name)
        if stat is None or isinstance(stat, int) or stat[0] & FORMAT_MASK != FORMAT_FILE:
            return None
        reading = self._reader.read(name, stat, directory=descriptor)
        if reading.stat is None:
            return None
        return UNREADABLE_TEXT if reading.content is None else reading.content


def found_row(rows: Sequence[Row], name: bytes) -> tuple[int, Row | None]:
    """Return where a name belongs among sorted rows of a directory, and the row that has it."""
    place, end = 0, len(rows)
    while place < end:  # by hand: to load `bisect` takes longer
        middle = (place + end) // 2
        if rows[middle][NAME] < name:
            place = middle + 1
        else:
            end = middle
    row = rows[place] if place < len(rows) else None
    return place, row if row is not None and row[NAME] == name else None


def _lost(name: bytes) -> Row:
    """Return the row of an entry that could not be asked."""
    return (name, FORMAT_FILE, 0, 0, 0, 0, b"", UNREADABLE)


def _is_same_form(before: Row, stat: Evidence) -> bool:
    """Tell whether what was a file, or a link, is one still."""
    return before[MODE] & FORMAT_MASK == stat[0] & FORMAT_MASK


def _same_ignore_files(found: Mapping[bytes, Evidence | int], old: Mapping[bytes, Row]) -> bool:
    """Tell whether a directory's ignore files are those that were captured last time."""
    for name in IGNORE_FILES:
        stat, row = found.get(name), old.get(name)
        if (stat is None) != (row is None):
            return False
        if row is not None and (row[1:6] != stat or row[STATE] != CAPTURED):
            return False
    return True
