"""What is measured, row by row, each beside git and the peers in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import special
import tasks
import threads
import trees
from bare import listed
from drive import append_to_ten, files_below
from least import Server, looked_by_two
from sides import (
    GIT_ENVIRONMENT,
    ROOT,
    Bare,
    Driven,
    Git,
    LeastOneShot,
    OneShot,
    Opencode,
    Resident,
    Side,
    asking,
    borg,
    ours,
    praisonai,
    promised,
    restic,
    stepback,
    watching,
)

if TYPE_CHECKING:
    from lastgood.literals import Consolidation


@dataclass(frozen=True)
class Sizes:
    """How big everything is, and how often it is repeated."""

    small: int = 1_000
    files: int = 10_000
    many: int = 100_000
    many_mean: int = 1_000
    rounds: int = 7
    turns: int = 15
    history_files: int = 5_000
    history_saves: int = 1_000
    listed: int = 10_000
    savers: int = 8
    saver_files: int = 1_000
    saves_a_saver: int = 25
    spoken: int = 50_000_000
    spoken_saves: int = 1_000
    tasks: int = 1_000
    checkpoints: int = 2_000
    million: int = 1_000_000
    # Whether each round begins in a new second: git keeps whole ones, and reads anew what came in its last.
    apart: bool = True


SHORT = Sizes(
    small=20,
    files=30,
    many=40,
    rounds=2,
    turns=1,
    history_files=30,
    history_saves=2,
    listed=25,
    savers=2,
    saver_files=50,
    saves_a_saver=2,
    spoken=100_000,
    spoken_saves=4,
    tasks=22,
    checkpoints=22,
    million=500,
    apart=False,
)


LEAST = "the least that keeps what is promised"
ASKING = "the same, asking what it leaves out, too"
FEW = 200
"""The files of a small project."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure a side, the ratio that counts, and its target.

    ``target`` bounds ``ratio``; where there is none, lastgood's own figure. ``spread`` is within what half
    of the rounds had that ratio.
    """

    work: str
    unit: str
    figures: dict[str, float]
    target: str
    ratio: float | None = None
    met: bool | None = None
    note: str = ""
    spread: Sequence[float] = ()


# The seconds that each side took, round by round.
Taken = dict[str, list[float]]


@dataclass
class Bench:
    """The place and the sizes of a run."""

    place: str
    sizes: Sizes
    with_peers: bool
    laid: dict[str, tuple[int, int]] = field(default_factory=dict)

    def tree(self, files: int, *, mean: int = trees.MEAN_SIZE, purpose: str = "tree") -> str:
        """Return a workspace of so many files, freshly laid unless it is there already."""
        root = os.path.join(self.place, f"{purpose}-{files}")
        if self.laid.get(root) != (files, mean):
            trees.lay(root, files=files, mean=mean)
            self.laid[root] = (files, mean)
        return root

    def drop(self, root: str) -> None:
        """Remove a workspace that no other row needs."""
        self.laid.pop(root, None)
        special.remove(root)

    def root(self, side: Side, *, files: int, mean: int = trees.MEAN_SIZE) -> str:
        """Return the workspace for a side; stepback, whose store lies in it, has one of its own."""
        own = side.name == "stepback"
        return self.tree(files, mean=mean, purpose="stepback" if own else "tree")

    def roots(self, sides: Sequence[Side], *, files: int, mean: int = trees.MEAN_SIZE) -> list[str]:
        """Return every workspace that some sides work in."""
        return sorted({self.root(side, files=files, mean=mean) for side in sides})

    def store(self, side: Side) -> str:
        """Return where a side keeps what it saves."""
        return os.path.join(self.place, "stores", side.name)

    def files_of(self, root: str) -> str:
        """Return how many files a workspace has, and how many bytes, in words."""
        return f"{len(files_below(root)):,} files / {special.disk_usage(root) / 1e9:.1f} GB"

    def peers(self, *, backups: bool = True) -> list[Side]:
        """Return the peers that are installed."""
        candidates: list[Side] = [Opencode(), praisonai(), stepback()]
        if backups:
            candidates += [borg(), restic()]
        return [side for side in candidates if self.with_peers and side.available]

    def interleaved(
        self,
        sides: Sequence[Side],
        measure: Callable[[Side], float],
        *,
        rounds: int,
        before: Callable[[int], object] | None = None,
    ) -> Taken:
        """Return what each side took in rounds in which all take turns, in an order that rotates."""
        seconds: Taken = {side.name: [] for side in sides}
        for turn in range(rounds):
            self.begin_second()
            if before is not None:
                before(turn)
            for place in range(len(sides)):
                side = sides[(turn + place) % len(sides)]
                os.sync()  # what one side left to write must not slow the next
                seconds[side.name].append(measure(side))
        return seconds

    def begin_second(self) -> None:
        """Wait for the next second, so that git need not read again what it wrote in the last round."""
        if self.sizes.apart:
            time.sleep(1.01 - time.time() % 1)


def compared(work: str, taken: Taken, *, limit: float, note: str = "") -> Row:
    """Return a row that compares lastgood with git, in milliseconds, by the median of the rounds' ratios."""
    ratios = [mine / gits for mine, gits in zip(taken["lastgood"], taken["git"], strict=True)]
    ratio = statistics.median(ratios)
    figures = {name: statistics.median(rounds) * 1000 for name, rounds in taken.items()}
    target = f"≤ {limit:g} x git"
    return Row(
        work, "ms", figures, target, ratio=ratio, met=ratio <= limit, note=note, spread=halfway(ratios)
    )


def _with_the_least(
    work: str, taken: Taken, *, limit: float, watching: float = 1.0, note: str = ""
) -> list[Row]:
    """Return the row of a workspace opened as ever, that of one which watches, and the least beside them."""
    mine = {name: taken.pop(name) for name in ("watching", "promised", "asking") if name in taken}
    rows = [compared(work, taken, limit=limit, note=note)]
    for name, seconds in mine.items():
        pair = {"lastgood": seconds, "git": taken["git"]}
        if name == "watching":
            rows.append(compared(f"{work}, watching", pair, limit=watching))
            continue
        called = ASKING if name == "asking" else LEAST
        rows.append(replace(compared(f"{called}: {work}", pair, limit=1), target="-", met=None))
    return rows


def halfway(figures: Sequence[float]) -> tuple[float, ...]:
    """Return the figures between which half of them lie; none of a single one."""
    if len(figures) < 2:
        return ()
    low, _, high = statistics.quantiles(figures, n=4, method="inclusive")
    return low, high


def first_save(bench: Bench) -> list[Row]:
    """Measure the first save of a plain folder."""
    files = bench.sizes.files
    sides: list[Side] = [ours(), Git(), *bench.peers()]

    def measure(side: Side) -> float:
        side.open(bench.root(side, files=files), bench.store(side))
        seconds = side.first()
        side.close()
        return seconds

    taken = bench.interleaved(sides, measure, rounds=min(3, bench.sizes.rounds))
    size = _megabytes(bench.tree(files))
    return [compared(f"first save, plain folder, {files:,} files / {size} MB", taken, limit=0.22)]


def first_save_in_git(bench: Bench) -> list[Row]:
    """Measure the first save of a git project whose objects are packed, as after a clone."""
    root = bench.tree(bench.sizes.files, purpose="project")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "gc.auto=0", "commit", "-q", "-m", "all"],
        ["gc", "-q"],
    ):
        subprocess.run(["git", *command], cwd=root, env=GIT_ENVIRONMENT, check=True)
    subprocess.run(["git", "status", "--short"], cwd=root, env=GIT_ENVIRONMENT, check=True)
    # stepback keeps its objects in the project's own repository, where there is one, for ever.
    peers = [side for side in bench.peers(backups=False) if side.name != "stepback"]
    sides: list[Side] = [ours(), Git(), *peers]

    def measure(side: Side) -> float:
        side.open(root, bench.store(side))
        seconds = side.first()
        side.close()
        return seconds

    taken = bench.interleaved(sides, measure, rounds=min(3, bench.sizes.rounds))
    return [compared(f"first save, git project, {bench.sizes.files:,} files", taken, limit=0.10)]


def _opened(bench: Bench, sides: Sequence[Side], *, files: int, mean: int = trees.MEAN_SIZE) -> None:
    bench.roots(sides, files=files, mean=mean)
    # So that nobody's cache holds times too young to be trusted.
    time.sleep(1.1)
    for side in sides:
        side.open(bench.root(side, files=files, mean=mean), bench.store(side))
        side.first()
    for side in sides:
        side.unchanged()


def linux(bench: Bench) -> list[Row]:
    """Measure the sources of Linux: the first save, and what follows it. None where they were not fetched."""
    fetched = os.path.join(ROOT, ".cache", "real", "linux")
    if not os.path.isdir(fetched):
        print(
            "bench: no sources of Linux here, so it has no rows (scripts/real_trees linux)", file=sys.stderr
        )
        return []
    root = os.path.join(bench.place, "linux")
    subprocess.run(["cp", "-a", fetched, root], check=True)
    paths = sorted(path for path in files_below(root) if path.endswith(".c") and not os.path.islink(path))
    sides: list[Side] = [ours(), Git()]
    turns = iter(range(1000))

    def first(side: Side) -> float:
        side.open(root, bench.store(side))
        return side.first()

    def changed(side: Side) -> float:
        append_to_ten(paths, next(turns))
        return side.save()

    def restored(side: Side) -> float:
        append_to_ten(paths, next(turns))
        return side.restore()

    work, rounds = "Linux 6.1 sources", bench.sizes.rounds
    begun = bench.interleaved(sides, first, rounds=min(2, rounds))
    time.sleep(1.1)
    for side in sides:
        side.unchanged()
    found = [
        compared(f"{work}, first save, {bench.files_of(root)}", begun, limit=0.20),
        *(
            compared(f"{work}, {name}", bench.interleaved(sides, verb, rounds=rounds), limit=limit)
            for name, verb, limit in (
                ("no-change save, in process", lambda side: side.unchanged(), 1.3),
                ("10-file save, durable, in process", changed, 1.1),
                ("restore of 10 files", restored, 0.7),
            )
        ),
    ]
    _close(sides)
    special.remove(root)
    return found


def a_million(bench: Bench) -> list[Row]:
    """Measure the first `lastgood save` of a million small files, as a process, and its memory. Once."""
    files = bench.sizes.million
    root = bench.tree(files, mean=200, purpose="million")
    sides: list[Side] = [OneShot(), Git()]
    taken: Taken = {}
    for side in sides:
        os.sync()
        side.open(root, bench.store(side))
        taken[side.name] = [side.first()]
        if isinstance(side, OneShot):
            peak = side.peak / 1e6
        side.close()
        special.remove(bench.store(side))
    special.remove(root)
    work = f"first `lastgood save`, {files:,} files of 200 bytes"
    memory = Row(f"{work}, peak memory", "MB", {"lastgood": peak}, "≤ 400 MB", met=peak <= 400)
    return [compared(work, taken, limit=0.3), memory]


def no_change(bench: Bench) -> list[Row]:
    """Measure saves in which nothing changed, alone and beside a busy thread."""
    rows = []
    sizes = bench.sizes
    for files, mean, limit in (
        (sizes.small, trees.MEAN_SIZE, 0.4),
        (sizes.files, trees.MEAN_SIZE, 1.3),
        (sizes.many, sizes.many_mean, 1.3),
    ):
        mine = ours()
        peers = bench.peers() if files != sizes.many else []
        least = [promised()] if files != sizes.many else []
        if files == sizes.small:
            least.append(asking())
        sides: list[Side] = [mine, watching(), Git(), *least, *peers]
        _opened(bench, sides, files=files, mean=mean)
        taken = bench.interleaved(sides, lambda side: side.unchanged(), rounds=sizes.rounds)
        work = f"no-change save, in process, {files:,} files"
        rows += _with_the_least(work, taken, limit=limit, watching=0.4)
        if files == sizes.small:
            _close(sides)
            continue
        mine.ask("busy")
        mine.unchanged()
        beside = bench.interleaved([mine], lambda side: side.unchanged(), rounds=sizes.rounds)
        busy, alone = statistics.median(beside["lastgood"]), statistics.median(taken["lastgood"])
        ratio = busy / alone
        work = f"the same beside a busy Python thread, {files:,} files"
        figures = {"lastgood": busy * 1000}
        rows.append(Row(work, "ms", figures, "≤ 2 x alone", ratio=ratio, met=ratio <= 2))
        _close(sides)
    return rows


def ten_files(bench: Bench) -> list[Row]:
    """Measure saves of ten changed files, durable in our case."""
    rows = []
    sizes = bench.sizes
    for files, mean, limit in (
        (sizes.small, trees.MEAN_SIZE, 0.5),
        (sizes.files, trees.MEAN_SIZE, 0.9),
        (sizes.many, sizes.many_mean, 1.1),
    ):
        beside = [promised(), *bench.peers()] if files != sizes.many else []
        sides: list[Side] = [ours(), watching(), Git(), *beside]
        _opened(bench, sides, files=files, mean=mean)
        roots = bench.roots(sides, files=files, mean=mean)
        taken = bench.interleaved(
            sides, lambda side: side.save(), rounds=sizes.rounds, before=_editor(roots, files=files, base=0)
        )
        work = f"10-file save, durable, in process, {files:,} files"
        rows += _with_the_least(work, taken, limit=limit, watching=0.5)
        _close(sides)
    return rows


def one_file(bench: Bench) -> list[Row]:
    """Measure the save of one file among 200, written the moment before, each side in its own tree."""
    sides: list[Side] = [ours(), Git()]
    turns = iter(range(100_000, 200_000))
    for side in sides:
        side.open(bench.tree(FEW, purpose=f"few-{side.name}"), bench.store(side))
        side.first()
    time.sleep(1.1)

    def measure(side: Side) -> float:
        trees.edit(bench.tree(FEW, purpose=f"few-{side.name}"), files=FEW, count=1, turn=next(turns))
        return side.save()

    taken = bench.interleaved(sides, measure, rounds=3 * bench.sizes.rounds)
    _close(sides)
    return [compared(f"save of one file in {FEW}, just written, durable, in process", taken, limit=0.5)]


def one_shot(bench: Bench) -> list[Row]:
    """Measure `lastgood save` as a process."""
    rows = []
    for files, limit in ((bench.sizes.small, 2.5), (bench.sizes.files, 1.3)):
        sides: list[Side] = [OneShot(), Git(), LeastOneShot()]
        _opened(bench, sides, files=files)
        edit = _editor(bench.roots(sides, files=files), files=files, base=500)
        taken = bench.interleaved(sides, lambda side: side.save(), rounds=bench.sizes.rounds, before=edit)
        work = f"one-shot `lastgood save`, {files:,} files, 10 changed"
        rows += _with_the_least(work, taken, limit=limit)
    return rows


def resident(bench: Bench) -> list[Row]:
    """Measure `lastgood save` where a process watches: at its socket, as a process, and beside git."""
    sizes, rows = bench.sizes, []
    for files in (sizes.small, sizes.files, sizes.many):
        side = Resident()
        side.open(bench.tree(files, mean=sizes.many_mean), bench.store(side))
        took = [seconds * 1000 for seconds in side.asked(5 * sizes.rounds)]
        figure = statistics.median(took)
        work = f"no-change save at the resident's socket, {files:,} files"
        rows.append(Row(work, "ms", {"lastgood": figure}, "≤ 1 ms", met=figure <= 1))
        alone, asking = [], []
        for _ in range(3 * sizes.rounds):
            alone.append(side.bare())
            asking.append(side.unchanged())
        ratios = [mine / bare for mine, bare in zip(asking, alone, strict=True)]
        ratio = statistics.median(ratios)
        rows.append(
            Row(
                f"no-change `lastgood save` through the resident, {files:,} files",
                "ms",
                {"lastgood": statistics.median(asking) * 1000},
                "≤ 1.3 x `python -c pass`",
                ratio=ratio,
                met=ratio <= 1.3,
                spread=halfway(ratios),
            )
        )
        if files == sizes.many:
            memory = side.memory() / 1e6
            work = f"memory of the resident, {files:,} files"
            rows.append(Row(work, "MB", {"lastgood": memory}, "≤ 60 MB", met=memory <= 60))
        side.close()
    sides: list[Side] = [Resident(), Git()]
    _opened(bench, sides, files=sizes.small)
    edit = _editor(bench.roots(sides, files=sizes.small), files=sizes.small, base=700)
    taken = bench.interleaved(sides, lambda side: side.save(), rounds=sizes.rounds, before=edit)
    _close(sides)
    work = f"`lastgood save` through the resident, {sizes.small:,} files, 10 changed"
    return [*rows, compared(work, taken, limit=1.2)]


HOOKS = {
    "a harmless call": ("PreToolUse", "true", False),
    "a prompt": ("UserPromptSubmit", "", False),
    "a risky call, one file changed": ("PreToolUse", "rm -rf build", True),
    "a turn's end, one file changed": ("Stop", "", True),
}
"""What a host's hook is told at, the command of the call, and whether a file was changed before."""


def hooks(bench: Bench) -> list[Row]:
    """Measure what an agent's host waits for a hook, where a process watches, and where none does."""
    return [
        row
        for files in (bench.sizes.small, bench.sizes.many)
        for side in (Resident(), OneShot())
        for row in _hooks(bench, side, files=files)
    ]


def _hooks(bench: Bench, side: OneShot, *, files: int) -> list[Row]:
    root = bench.tree(files, mean=bench.sizes.many_mean)
    side.open(root, bench.store(side))
    side.save()
    told = special.Turns(os.path.join(bench.place, "host"), root)
    side.told(told.at("SessionStart"))
    taken: Taken = {name: [] for name in HOOKS}
    alone: Taken = {name: [] for name in HOOKS}
    for turn in range(1 + bench.sizes.turns):
        for name, (event, command, edits) in HOOKS.items():
            if edits:
                trees.edit(root, files=files, count=1, turn=300_000 + turn)
            payload = told.at(event, command=command)
            alone[name].append(side.bare())
            taken[name].append(side.told(payload))
    side.close()
    watched = "" if isinstance(side, Resident) else ", no process watching"
    rows = []
    for name, seconds in taken.items():
        # The first turn begins a session, which is no turn like another.
        ratios = [mine / bare for mine, bare in zip(seconds[1:], alone[name][1:], strict=True)]
        ratio, figure = statistics.median(ratios), statistics.median(seconds[1:]) * 1000
        target, met = "≤ 1.5 x `python -c pass`", ratio <= 1.5
        if watched:
            target, met = "≤ 10 s", figure <= 10_000
        work = f"hook of Claude Code at {name}, {files:,} files{watched}"
        figures = {"lastgood": figure}
        rows.append(Row(work, "ms", figures, target, ratio=ratio, met=met, spread=halfway(ratios)))
    return rows


def restoring(bench: Bench) -> list[Row]:
    """Measure bringing ten changed files back; ours takes a guard first."""
    sizes = bench.sizes
    return [*_restored(bench, files=sizes.small, limit=0.8), *_restored(bench, files=sizes.files, limit=0.7)]


def _restored(bench: Bench, *, files: int, limit: float) -> list[Row]:
    sides: list[Side] = [ours(), watching(), Git(), promised(), *bench.peers(backups=False)]
    # A tree each: what one side restores, all others would have to read anew, and opencode writes every file.
    roots = {side.name: bench.tree(files, purpose=f"restored-{side.name}") for side in sides}
    turns = iter(range(1_000, 100_000))

    def change(side: Side) -> None:
        trees.edit(roots[side.name], files=files, count=10, turn=next(turns))

    def measure(side: Side) -> float:
        change(side)
        return side.restore()

    # So that nobody's cache holds times too young to be trusted.
    time.sleep(1.1)
    for side in sides:
        side.open(roots[side.name], bench.store(side))
        side.first()
    for side in sides:
        side.unchanged()
        change(side)
        side.save()
    taken = bench.interleaved(sides, measure, rounds=2 * bench.sizes.rounds)
    _close(sides)
    for root in roots.values():
        bench.drop(root)
    work = f"restore of 10 files in {files:,}"
    return _with_the_least(work, taken, limit=limit, watching=limit, note="the guard checkpoint included")


def listing(bench: Bench) -> list[Row]:
    """Measure `lastgood list --limit 20` as a process."""
    count = bench.sizes.listed
    root = bench.tree(50, purpose="listed")
    side = OneShot()
    side.open(root, bench.store(side))
    side.save()
    special.multiply(bench.store(side), count=count)
    bare = _bare_python()
    taken = [side.run("list", "--limit", "20") for _ in range(bench.sizes.rounds)]
    log = special.git_log(os.path.join(bench.place, "stores", "log"), count=count, rounds=bench.sizes.rounds)
    figures = {"lastgood": statistics.median(taken) * 1000, "git": log * 1000}
    work = f"list of 20 in a store of {count:,} checkpoints, as a process"
    note = f"`python -c pass` takes {bare * 1000:.0f} ms here; git is `git log -20`"
    return [Row(work, "ms", figures, "≤ 40 ms", met=figures["lastgood"] <= 40, note=note)]


def store_size(bench: Bench) -> list[Row]:
    """Measure the store after many small saves, all files in it, as maintenance leaves it."""
    sizes = bench.sizes
    root = bench.tree(sizes.history_files, mean=4_000, purpose="history")
    mine, git = ours(), Git()
    peers = [side for side in bench.peers(backups=False) if side.name == "PraisonAI"]
    sides: list[Side] = [mine, git, *peers]
    for side in sides:
        side.open(root, bench.store(side))
        side.first()
    for turn in range(sizes.history_saves):
        trees.edit(root, files=sizes.history_files, count=10, turn=50_000 + turn)
        for side in sides:
            side.save()
    git.git("gc", "-q", "--prune=now")
    others = {side.name: special.disk_usage(bench.store(side)) / 1e6 for side in sides if side is not mine}

    def joined(extent: Consolidation) -> float:
        special.consolidate(bench.store(mine), extent)
        mine.ask("maintain")  # which empties the catalogue's log, and writes its copies anew
        return special.disk_usage(bench.store(mine)) / 1e6

    after_saves, when_idle = joined("due"), joined("idle")
    reserve = special.disk_usage(os.path.join(bench.store(mine), "reserve")) / 1e6
    _close(sides)

    def row(work: str, megabytes: float, limit: float, note: str) -> Row:
        ratio = megabytes / others["git"]
        figures = {"lastgood": megabytes, **others}
        return Row(work, "MB", figures, f"≤ {limit:g} x git", ratio=ratio, met=ratio <= limit, note=note)

    many = f"store after {sizes.history_saves:,} saves of 10 files in {sizes.history_files:,}"
    return [
        row(f"{many}, packs joined after saves", after_saves, 1.6, "git after `git gc`"),
        row(f"{many}, packs joined when idle", when_idle, 1.1, "the same"),
        row(
            "the same without the reserve for a full disk",
            when_idle - reserve,
            1.1,
            f"{reserve:.1f} MB in a store of any size",
        ),
    ]


def together(bench: Bench) -> list[Row]:
    """Measure several processes that save at once, each its own workspace, into one store."""
    sizes = bench.sizes
    roots = [
        bench.tree(sizes.saver_files, mean=4_000, purpose=f"saver{number}") for number in range(sizes.savers)
    ]
    store = os.path.join(bench.place, "stores", "together")

    def rate(side: Callable[[], Driven]) -> float:
        return special.rate_in_one_store(side, roots, store, saves=sizes.saves_a_saver)

    sides = [ours, watching, promised]
    first = [rate(side) for side in sides]
    gits = special.rate_of_git(roots, store, saves=sizes.saves_a_saver)
    plain, watched, least = (
        statistics.mean([before, rate(side)]) for before, side in zip(first, sides, strict=True)
    )
    many = f"{sizes.savers} workspaces of {sizes.saver_files:,} files"
    work = f"{sizes.savers} processes, one store, {many}, 10-file saves"
    note = "git: eight repositories"

    def row(work: str, mine: float) -> Row:
        figures = {"lastgood": mine, "git": gits}
        return Row(work, "saves/s", figures, "≥ 200 saves/s", met=mine >= 200, note=note)

    bound = replace(row(f"{LEAST}: {work}", least), target="-", met=None)
    return [row(work, plain), row(f"{work}, watching", watched), bound]


def peak_memory(bench: Bench) -> list[Row]:
    """Measure the peak memory of a first save and of a save without changes."""
    sizes = bench.sizes
    root = bench.tree(sizes.many, mean=sizes.many_mean)
    figures = {}
    mine = ours()
    mine.open(root, bench.store(mine))
    mine.first()
    mine.unchanged()
    figures["lastgood"] = float(str(mine.ask("peak")[1])) / 1e6
    mine.close()
    figures["git"] = special.peak_of_git(root, os.path.join(bench.place, "stores", "git")) / 1e6
    work = f"peak memory of a save, {sizes.many:,} files"
    return [Row(work, "MB", figures, "≤ 150 MB", met=figures["lastgood"] <= 150)]


def conversation(bench: Bench) -> list[Row]:
    """Measure the last save of a transcript that grew with every one of many."""
    sizes = bench.sizes
    place = os.path.join(bench.place, "spoken")
    saves, piece = sizes.spoken_saves, sizes.spoken // sizes.spoken_saves
    # The last few, so that neither side is judged by one.
    taken = {
        "lastgood": special.spoken_by_ours(os.path.join(place, "ours"), saves=saves, piece=piece)[-10:],
        "git": special.spoken_by_git(os.path.join(place, "git"), saves=saves, piece=piece)[-10:],
    }
    work = f"save number {saves:,} of a transcript grown to {sizes.spoken / 1e6:g} MB"
    note = "git commits the file"
    return [compared(work, taken, limit=0.1, note=note)]


def thread(bench: Bench) -> list[Row]:
    """Measure a LangGraph thread that grew by a message a step."""
    place = os.path.join(bench.place, "thread")
    return [Row(**line) for line in threads.lines(place, steps=bench.sizes.spoken_saves)]


def many_tasks(bench: Bench) -> list[Row]:
    """Measure a task after a thousand, and what is read then."""
    place = os.path.join(bench.place, "tasks")
    times, rounds = bench.sizes.tasks, bench.sizes.turns
    return [Row(**line) for line in tasks.lines(place, "task", tasks.a_task, times=times, rounds=rounds)]


def many_for_each_verb(bench: Bench) -> list[Row]:
    """Measure every verb after many tasks."""
    place = os.path.join(bench.place, "verbs")
    times, rounds = bench.sizes.checkpoints, bench.sizes.turns
    return [Row(**line) for line in tasks.every_verb(place, times=times, rounds=rounds)]


def many_checkpoints(bench: Bench) -> list[Row]:
    """Measure a save after two thousand, and what is read then."""
    place = os.path.join(bench.place, "checkpoints")
    times, rounds = bench.sizes.checkpoints, bench.sizes.turns
    return [Row(**line) for line in tasks.lines(place, "save", tasks.a_save, times=times, rounds=rounds)]


def many_features(bench: Bench) -> list[Row]:
    """Measure a feature after a thousand, and what is read then."""
    place = os.path.join(bench.place, "features")
    times, rounds = bench.sizes.tasks, bench.sizes.turns
    return [
        Row(**line) for line in tasks.lines(place, "feature", tasks.a_feature, times=times, rounds=rounds)
    ]


def least(bench: Bench) -> list[Row]:
    """Measure what no Python program does with less: to ask beside a busy process, and to answer a hook.

    What stands beside a row of ours is measured with that.
    """
    return [_least_beside(bench, files=bench.sizes.files), *_least_hooks(bench)]


def _least_beside(bench: Bench, *, files: int) -> Row:
    """Measure what asking takes two processes beside a busy one, and what it takes them alone."""
    known = listed(bench.tree(files, purpose="least"))
    alone, beside = [], []
    for _ in range(3 * bench.sizes.rounds):
        alone.append(looked_by_two(known, beside_busy=False))
        beside.append(looked_by_two(known, beside_busy=True))
    ratio = statistics.median(beside) / statistics.median(alone)
    work = f"the least: no-change save beside a busy process, {files:,} files (beside alone)"
    return Row(work, "ms", {"lastgood": statistics.median(beside) * 1000}, "-", ratio=ratio)


def _least_hooks(bench: Bench) -> list[Row]:
    """Measure a hook of bare Python that asks a server of bare Python, and what is asked at its socket."""
    sizes, place = bench.sizes, os.path.join(bench.place, "stores", "least-asked")
    root, side = bench.tree(sizes.small, purpose="least"), Bare()
    side.open(root, place)
    server = Server(place)
    turns = iter(range(500_000, 600_000))
    told = os.path.join(place, "told")
    taken: Taken = {"answered at once": [], "that keeps a changed file": []}
    alone: Taken = {name: [] for name in taken}
    for _ in range(3 * sizes.rounds):
        turn = next(turns)
        trees.edit(root, files=sizes.small, count=1, turn=turn)
        [path] = trees.edited(files=sizes.small, count=1, turn=turn)
        for name, said in zip(taken, ("-", os.path.join(root, path)), strict=True):
            with open(told, "w", encoding="utf-8") as file:
                file.write(said)
            alone[name].append(side.bare())
            taken[name].append(side.asks(server.place, told))
    asked = statistics.median(server.ask() * 1000 for _ in range(5 * sizes.rounds))
    server.close()
    rows = [Row("the least: asked at a socket, one row read", "ms", {"lastgood": asked}, "-")]
    for name, seconds in taken.items():
        ratios = [mine / bare for mine, bare in zip(seconds, alone[name], strict=True)]
        figures = {"lastgood": statistics.median(seconds) * 1000}
        work, ratio = f"the least in Python: hook {name} (beside `python -c pass`)", statistics.median(ratios)
        rows.append(Row(work, "ms", figures, "-", ratio=ratio, spread=halfway(ratios)))
    return rows


ROWS: dict[str, Callable[[Bench], list[Row]]] = {
    "first-save": first_save,
    "first-save-in-git": first_save_in_git,
    "linux": linux,
    "million": a_million,
    "no-change": no_change,
    "ten-files": ten_files,
    "one-file": one_file,
    "one-shot": one_shot,
    "resident": resident,
    "hooks": hooks,
    "restore": restoring,
    "list": listing,
    "store-size": store_size,
    "together": together,
    "peak-memory": peak_memory,
    "conversation": conversation,
    "thread": thread,
    "tasks": many_tasks,
    "verbs": many_for_each_verb,
    "checkpoints": many_checkpoints,
    "features": many_features,
    "least": least,
}


# These take many minutes, and are only measured if they are asked for.
LONG = ("linux", "million")


def _editor(roots: Sequence[str], *, files: int, base: int) -> Callable[[int], None]:
    """Return what changes the same ten files in every workspace before each round."""

    def edit(turn: int) -> None:
        for root in roots:
            trees.edit(root, files=files, count=10, turn=base + turn)

    return edit


def _close(sides: Sequence[Side]) -> None:
    for side in sides:
        side.close()


def _bare_python() -> float:
    return statistics.median(special.bare_python() for _ in range(9))


def _megabytes(root: str) -> int:
    return round(special.disk_usage(root) / 1e6)
