"""Which names are ignored: the rules in force in one directory, and those of its subdirectories.

The rules are exactly git's (gitignore(5)); names are bytes and case counts. From weak to strong:
the built-in excludes, the global excludes file, the repository's ``info/exclude``, the configured
excludes, then from the workspace down to the directory its ``.gitignore`` and after it its
``.lastgoodignore``. What lies below an ignored directory is ignored; the caller does not descend.
``.git`` is no matter of these rules: it is never captured, whatever they say.
"""

from __future__ import annotations

from _sha1 import sha1

from lastgood.ignore_pattern import (
    ANY,
    DEEP,
    SLASH,
    STAR,
    Exact,
    Pieces,
    Prefix,
    Suffix,
    parse,
    read_lines,
    shapes,
)
from lastgood.paths import parent, to_bytes, unknown
from lastgood.settings import BUILT_IN_EXCLUDES, BUILT_IN_INCLUDES, CACHES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final, TypeAlias

    from lastgood.ignore_pattern import Element, Pattern, Route, Segment, Shape
    from lastgood.model.checkpoint import IgnoreState

    # The bytes of an ignore file, None if there is none (a link counts as none, as it does in git).
    Text: TypeAlias = "bytes | Unreadable | None"


# --- Ignore rules made ready for the names of one directory: look-ups first, searches last ---


class RouteStep:
    """A place in a route: what the next name has to be, and where that leads.

    ``rank`` orders rules, later ones higher; its lowest bit tells that the rule ignores.
    """

    __slots__ = ("directories_only", "following", "rank", "segment")

    def __init__(self, *, rank: int, directories_only: bool, segment: Segment) -> None:
        self.rank: int = rank
        self.directories_only: bool = directories_only
        self.segment: Segment = segment
        self.following: tuple[RouteStep, ...] = ()

    @property
    def last(self) -> bool:
        """Whether a name that fits here is matched by the whole pattern."""
        return not self.following

    def after(self, name: bytes) -> tuple[RouteStep, ...]:
        """Return the steps that are open in a directory of this name."""
        if self.segment is None or any(shape.matches(name) for shape in self.segment):
            return self.following
        return ()


def first_steps(pattern: Pattern, *, rank: int) -> list[RouteStep]:
    """Return the steps of an anchored pattern that are open in its own directory."""
    opened: list[RouteStep] = []
    for route in pattern.routes:
        opened.extend(_chain(route, rank=rank, directories_only=pattern.directories_only))
    return opened


def _chain(route: Route, *, rank: int, directories_only: bool) -> tuple[RouteStep, ...]:
    opened: tuple[RouteStep, ...] = ()
    for segment in reversed(route):
        step = RouteStep(rank=rank, directories_only=directories_only, segment=segment)
        if segment is None:  # any number of names: stay here, or be where the rest begins
            opened = (step, *opened)
            step.following = opened
        else:
            step.following = opened
            opened = (step,)
    return opened


class Table:
    """What a name of one sort (directories, or the rest) meets; never changed once in use."""

    __slots__ = ("_exact", "_others", "_prefixes", "_suffixes", "_with_prefix", "_with_suffix")

    def __init__(self) -> None:
        self._exact: dict[bytes, int] = {}
        self._with_suffix: dict[bytes, int] = {}
        self._with_prefix: dict[bytes, int] = {}
        self._others: tuple[tuple[int, Shape], ...] = ()
        self._suffixes: tuple[bytes, ...] = ()
        self._prefixes: tuple[bytes, ...] = ()

    def rank(self, name: bytes) -> int:
        """Return the rank of the last rule that a name fits, 0 if it fits none."""
        rank = self._exact.get(name, 0)
        if self._suffixes and name.endswith(self._suffixes):
            for suffix, found in self._with_suffix.items():
                if found > rank and name.endswith(suffix):
                    rank = found
        if self._prefixes and name.startswith(self._prefixes):
            for prefix, found in self._with_prefix.items():
                if found > rank and name.startswith(prefix):
                    rank = found
        for found, shape in self._others:
            if found <= rank:
                break
            if shape.matches(name):
                return found
        return rank

    def among(self, names: bytes) -> Table:
        """Return a table without what none of some names, joined by NUL, can meet."""
        others = tuple(one for one in self._others if type(one[1]) is not Pieces or one[1].rarest in names)
        if len(others) == len(self._others):
            return self
        table = Table()
        table._exact, table._others = self._exact, others
        table._with_suffix, table._suffixes = self._with_suffix, self._suffixes
        table._with_prefix, table._prefixes = self._with_prefix, self._prefixes
        return table

    def extended(self, additions: Sequence[tuple[int, Shape]]) -> Table:
        """Return a table with more shapes, each with its rank, in ascending order of rank."""
        if not additions:
            return self
        table = Table()
        table._exact = self._exact.copy()
        table._with_suffix = self._with_suffix.copy()
        table._with_prefix = self._with_prefix.copy()
        others = []
        for rank, shape in additions:
            if type(shape) is Exact:
                _raise(table._exact, shape.name, rank=rank)
            elif type(shape) is Suffix:
                _raise(table._with_suffix, shape.suffix, rank=rank)
            elif type(shape) is Prefix:
                _raise(table._with_prefix, shape.prefix, rank=rank)
            else:
                others.append((rank, shape))
        table._others = tuple(sorted([*self._others, *others], key=_rank_of, reverse=True))
        table._suffixes = tuple(table._with_suffix)
        table._prefixes = tuple(table._with_prefix)
        return table


def _raise(ranks: dict[bytes, int], key: bytes, *, rank: int) -> None:
    if rank > ranks.get(key, 0):
        ranks[key] = rank


def _rank_of(ranked: tuple[int, Shape]) -> int:
    return ranked[0]


class Tables:
    """The table for directories, and the one for everything else."""

    __slots__ = ("directories", "files")

    def __init__(self, *, directories: Table, files: Table) -> None:
        self.directories: Table = directories
        self.files: Table = files

    def ignored(self, name: bytes, *, directory: bool) -> bool:
        """Tell whether a name is ignored."""
        return (self.directories if directory else self.files).rank(name) & 1 == 1

    def extended(self, additions: Iterable[tuple[int, bool, Segment]]) -> Tables:
        """Return tables with more rules: rank, whether it is for directories only, shapes."""
        directories: list[tuple[int, Shape]] = []
        files: list[tuple[int, Shape]] = []
        for rank, directories_only, segment in additions:
            ranked = [(rank, shape) for shape in segment or ()]
            directories += ranked
            if not directories_only:
                files += ranked
        return Tables(directories=self.directories.extended(directories), files=self.files.extended(files))


# --- Which names are ignored: the rules in force in one directory, and those of its subdirectories ---

GITIGNORE = b".gitignore"
LASTGOODIGNORE = b".lastgoodignore"


class Unreadable:
    """Stands for the text of an ignore file that exists and could not be read."""

    __slots__ = ()


UNREADABLE: Final = Unreadable()

_EMPTY = Tables(directories=Table(), files=Table())


class Rules:
    """The ignore rules in force in one directory; frozen, and shared by directories where equal.

    ``readable`` is False if an ignore file of this directory or one above could not be read; then
    nothing is ignored (rule S5), and for deleting everything has to count as ignored.
    ``fingerprint`` tells the rules of one directory from other rules of the same directory.
    """

    __slots__ = (
        "_children",
        "_depth",
        "_floating",
        "_open",
        "_tables",
        "_top",
        "fingerprint",
        "readable",
    )

    def __init__(self, *, depth: int, fingerprint: bytes, readable: bool) -> None:
        self.fingerprint: bytes = fingerprint
        self.readable: bool = readable
        self._depth = depth
        self._floating = _EMPTY  # the rules without a slash, from here up
        self._open: tuple[RouteStep, ...] = ()  # how far the rules with a slash have got
        self._tables = _EMPTY
        self._top = 0  # the number of rules so far
        self._children: dict[tuple[RouteStep, ...], Rules] = {}

    def ignored(self, name: bytes, *, directory: bool) -> bool:
        """Tell whether an entry of this directory is ignored; a link is never a directory."""
        return self._tables.ignored(name, directory=directory)

    def among(self, names: bytes) -> Tables:
        """Return what of the rules the names of this directory, joined by NUL, can meet."""
        tables = self._tables
        return Tables(directories=tables.directories.among(names), files=tables.files.among(names))

    def child(self, name: bytes, gitignore: Text = None, *, lastgoodignore: Text = None) -> Rules:
        """Return the rules in force in a subdirectory, given the texts of its ignore files."""
        if not self.readable:
            return self
        if isinstance(gitignore, Unreadable) or isinstance(lastgoodignore, Unreadable):
            return unreadable_rules()
        steps = self._advance(name)
        if gitignore or lastgoodignore:
            return self._joined((gitignore or b"", lastgoodignore or b""), steps=steps)
        known = self._children.get(steps)
        if known is None:
            known = self._children[steps] = self._inherited(steps)
        return known

    @property
    def may_ignore_below(self) -> bool:
        """Whether a rule with a slash in it could still ignore something in or below this directory."""
        return any(step.rank & 1 for step in self._open)

    def _advance(self, name: bytes) -> tuple[RouteStep, ...]:
        reached: dict[RouteStep, None] = {}
        for step in self._open:
            for following in step.after(name):
                reached[following] = None
        return tuple(reached)

    def _inherited(self, steps: tuple[RouteStep, ...]) -> Rules:
        rules = Rules(depth=self._depth + 1, fingerprint=self.fingerprint, readable=True)
        rules._floating = self._floating
        rules._top = self._top
        rules._open = steps
        rules._tables = _with_last_steps(self._floating, steps)
        return rules

    def _joined(self, texts: Sequence[bytes], *, steps: tuple[RouteStep, ...]) -> Rules:
        depth = self._depth + 1
        return self.joined(
            [pattern for text in texts for pattern in parse(text)],
            depth=depth,
            fingerprint=_digest([self.fingerprint, b"%d" % depth, *texts]),
            steps=steps,
        )

    def joined(
        self, patterns: Iterable[Pattern], *, depth: int, fingerprint: bytes, steps: tuple[RouteStep, ...]
    ) -> Rules:
        """Return these rules with more patterns, stronger than they are."""
        floating: list[tuple[int, bool, Segment]] = []
        opened = list(steps)
        number = self._top
        for pattern in patterns:
            number += 1
            rank = number * 2 + (not pattern.negative)
            if pattern.floating:
                floating.extend((rank, pattern.directories_only, route[0]) for route in pattern.routes)
            else:
                opened.extend(first_steps(pattern, rank=rank))
        rules = Rules(depth=depth, fingerprint=fingerprint, readable=True)
        rules._top = number
        rules._floating = self._floating.extended(floating)
        rules._open = tuple(opened)
        rules._tables = _with_last_steps(rules._floating, rules._open)
        return rules


def _with_last_steps(tables: Tables, steps: Iterable[RouteStep]) -> Tables:
    last = [(step.rank, step.directories_only, step.segment) for step in steps if step.last]
    return tables.extended(last) if last else tables


def _digest(parts: Iterable[bytes]) -> bytes:
    whole = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    digest: bytes = sha1(whole, usedforsecurity=False).digest()
    return digest


def unreadable_rules() -> Rules:
    """Return the rules of a directory whose ignore files could not be read."""
    return Rules(depth=0, fingerprint=b"unreadable", readable=False)


def workspace_rules(state: IgnoreState, gitignore: Text = None, *, lastgoodignore: Text = None) -> Rules:
    """Return the rules of a workspace's top directory.

    In ``state.excludes`` the built-in patterns come first and are weaker than the files outside
    the workspace; the configured ones after them are stronger.
    """
    if not state.readable or isinstance(gitignore, Unreadable) or isinstance(lastgoodignore, Unreadable):
        return unreadable_rules()
    built_in = 0
    while built_in < len(state.excludes) and state.excludes[built_in] in BUILT_IN_EXCLUDES:
        built_in += 1
    texts = (
        _lines(state.excludes[:built_in]),
        state.global_exclude,
        state.info_exclude,
        _lines(state.excludes[built_in:]),
        gitignore or b"",
        lastgoodignore or b"",
    )
    return _from_texts(texts)


def _lines(patterns: Iterable[str]) -> bytes:
    return b"\n".join(to_bytes(pattern) for pattern in patterns)


def _from_texts(texts: Sequence[bytes]) -> Rules:
    nothing = Rules(depth=0, fingerprint=b"", readable=True)
    patterns = [pattern for text in texts for pattern in parse(text)]
    return nothing.joined(patterns, depth=0, fingerprint=_digest(texts), steps=())


# Each scan asks for those of the settings, which hardly ever are others.
_of_patterns: dict[tuple[str, ...], Rules] = {}


def pattern_rules(patterns: tuple[str, ...]) -> Rules:
    """Return rules by which a path is "ignored" if it fits one of some patterns."""
    if patterns not in _of_patterns:
        _of_patterns[patterns] = _from_texts([_lines(patterns)])
    return _of_patterns[patterns]


class Includes:
    """The patterns of what is captured although ignored (rule S5).

    A pattern that names a directory takes in all below it. One without a slash (``.env``) is looked
    for in directories that are not ignored, so that nobody has to walk ``node_modules`` for it; one
    with a slash (``build/local.db``, ``**/.env``) also opens the ignored directories on its way.
    """

    __slots__ = ("_known", "_within")

    def __init__(self, patterns: Sequence[str]) -> None:
        self._known: dict[bytes, Rules] = {b"": pattern_rules(tuple(patterns))}
        self._within: dict[bytes, bool] = {b"": False}

    def matches(self, path: bytes, *, directory: bool) -> bool:
        """Tell whether a path, or a directory above it, is included."""
        above = parent(path)
        return self._inside(above) or self._known[above].ignored(_name(path), directory=directory)

    def may_match_below(self, path: bytes) -> bool:
        """Tell whether something in a directory may be included, so that it has to be read."""
        return self._inside(path) or self._known[path].may_ignore_below

    def _inside(self, path: bytes) -> bool:
        """Tell whether a directory or one above it is included, and get to know its patterns."""
        if path in self._within:
            return self._within[path]
        for each in unknown(path, self._within):
            above, _, name = each.rpartition(b"/")
            rules = self._known[above]
            self._within[each] = self._within[above] or rules.ignored(name, directory=True)
            self._known[each] = rules.child(name)
        return self._within[path]


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def is_hand_written(path: bytes) -> bool:
    """Tell whether a file has a name of those that people write by hand (rule S5), switched off or not."""
    return pattern_rules(BUILT_IN_INCLUDES).ignored(_name(path), directory=False)


def is_expected(path: bytes) -> bool:
    """Tell whether a path has a name of the built-in excludes (rule S6); a directory's ends with a slash."""
    return _is_called(path, BUILT_IN_EXCLUDES)


def is_cache(path: bytes) -> bool:
    """Tell whether a path has a name of what its program makes again; a directory's ends with a slash."""
    return _is_called(path, CACHES)


def _is_called(path: bytes, patterns: tuple[str, ...]) -> bool:
    return pattern_rules(patterns).ignored(_name(path.removesuffix(b"/")), directory=path.endswith(b"/"))


class TreeRules:
    """The ignore rules of a whole tree, present or past, asked by path (rule T4).

    ``texts`` returns the ``.gitignore`` and the ``.lastgoodignore`` of a directory; it is called
    once a directory at most, and not for directories that are ignored.
    """

    __slots__ = ("_known", "_state", "_texts")

    def __init__(self, state: IgnoreState, texts: Callable[[bytes], tuple[Text, Text]]) -> None:
        self._state = state
        self._texts = texts
        self._known: dict[bytes, Rules | None] = {}

    def ignored(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether a path or a directory above it is ignored; None if rules are unreadable."""
        rules = self._rules_in(parent(path))
        if rules is None:
            return True
        return rules.ignored(_name(path), directory=directory) if rules.readable else None

    def not_ignored(self, directory: bytes, names: Sequence[bytes]) -> list[bytes]:
        """Return those of a directory's files that are surely not ignored."""
        rules = self._rules_in(directory)
        if rules is None or not rules.readable:
            return []
        tables = rules.among(b"\0".join(names))
        return [name for name in names if not tables.ignored(name, directory=False)]

    def _rules_in(self, directory: bytes) -> Rules | None:
        """Return the rules of a directory; None if it is ignored."""
        known = self._known
        if b"" not in known:
            gitignore, lastgoodignore = self._texts(b"")
            known[b""] = workspace_rules(self._state, gitignore, lastgoodignore=lastgoodignore)
        for each in unknown(directory, known):
            known[each] = self._enter(each)
        return known[directory]

    def _enter(self, path: bytes) -> Rules | None:
        """Return the rules of a directory, its parents being known; None if it is ignored."""
        rules = self._known[parent(path)]
        if rules is None or not rules.readable:
            return rules  # what is above decides for all below it
        if rules.ignored(_name(path), directory=True):
            return None
        gitignore, lastgoodignore = self._texts(path)
        return rules.child(_name(path), gitignore, lastgoodignore=lastgoodignore)


# --- Ignore rules of a directory, rewritten for one below it ---

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+,@=~%")


def relative(text: bytes, names: Sequence[bytes]) -> bytes:
    """Return the rules of an ignore file as they bear on the directory that ``names`` lead down to.

    The result is an ignore file for that directory; what cannot matter below it is gone.
    """
    lines = []
    for line in read_lines(text):
        for way in line.ways:
            ends = b"/\n" if line.directories_only else b"\n"
            begins = b"!" if line.negative else b""
            if line.floating:
                lines.append(begins + _render(way[0]) + ends)
                continue
            lines += [begins + b"/" + rest + ends for rest in _rests(way, names)]
    return b"".join(lines)


def _rests(route: Sequence[Sequence[Element]], names: Sequence[bytes]) -> list[bytes]:
    reached = _settled({0}, route)
    for name in names:
        following = set()
        for at in reached:
            if route[at] == [DEEP]:
                following.add(at)
            elif at + 1 < len(route) and any(shape.matches(name) for shape in shapes(route[at])):
                following.add(at + 1)
        reached = _settled(following, route)
    return [b"/".join(_render(segment) for segment in route[at:]) for at in sorted(reached)]


def _settled(reached: set[int], route: Sequence[Sequence[Element]]) -> set[int]:
    """Add the places behind a double star, which may stand for no name at all."""
    return reached | {at + 1 for at in reached if route[at] == [DEEP]}


def _render(segment: Sequence[Element]) -> bytes:
    return b"".join(_render_element(element) for element in segment)


def _render_element(element: Element) -> bytes:
    if isinstance(element, bytes):
        return _render_class(element)
    if element < 0:
        return {ANY: b"?", STAR: b"*", DEEP: b"**"}[element]
    if element in _PLAIN:
        return bytes((element,))
    # A carriage return would be lost at the end of a line, even escaped.
    return b"[\r]" if element == 0x0D else b"\\" + bytes((element,))


def _render_class(members: bytes) -> bytes:
    # A newline cannot be written; it is a member only where most bytes are.
    negated = 0x0A in members
    others = (byte for byte in range(1, 256) if byte != SLASH and byte not in members)
    listed = list(others) if negated else list(members)
    body = b"".join(b"\\" + bytes((byte,)) for byte in listed)
    return b"[" + (b"!" if negated else b"") + body + b"]"
