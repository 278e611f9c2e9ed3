"""Ignore rules made ready for the names of one directory: look-ups first, searches last."""

from __future__ import annotations

from lastgood.rules.ignore_glob import Exact, Prefix, Suffix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.rules.ignore_glob import Shape
    from lastgood.rules.ignore_pattern import Pattern, Route, Segment


class Step:
    """A place in a route: what the next name has to be, and where that leads.

    ``rank`` orders rules, later ones higher; its lowest bit tells that the rule ignores.
    """

    __slots__ = ("directories_only", "following", "rank", "segment")

    def __init__(self, *, rank: int, directories_only: bool, segment: Segment) -> None:
        self.rank = rank
        self.directories_only = directories_only
        self.segment = segment
        self.following: tuple[Step, ...] = ()

    @property
    def last(self) -> bool:
        """Whether a name that fits here is matched by the whole pattern."""
        return not self.following

    def after(self, name: bytes) -> tuple[Step, ...]:
        """Return the steps that are open in a directory of this name."""
        if self.segment is None or any(shape.matches(name) for shape in self.segment):
            return self.following
        return ()


def first_steps(pattern: Pattern, *, rank: int) -> list[Step]:
    """Return the steps of an anchored pattern that are open in its own directory."""
    opened: list[Step] = []
    for route in pattern.routes:
        opened.extend(_chain(route, rank=rank, directories_only=pattern.directories_only))
    return opened


def _chain(route: Route, *, rank: int, directories_only: bool) -> tuple[Step, ...]:
    opened: tuple[Step, ...] = ()
    for segment in reversed(route):
        step = Step(rank=rank, directories_only=directories_only, segment=segment)
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
        self.directories = directories
        self.files = files

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
