"""Which calls of a verb are hit: all of them in the long form, an even sample in the short one.

Of its sample, the short form leaves out a call at which a blow leaves what it leaves at another one: a kill
after nothing but a sync, a disk that is full before the next call that takes room, a short write where
nothing is written, and the middle of what SQLite writes into one of its files before it syncs.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

import pytest

from faults.injector import AFTER_OTHERS, LONGEST, Blow, Injector, Kind, Mode, Trial
from faults.stage import Stage
from lastgood.errors import LastgoodError
from tools.long_form import LONG

SHOWN = 12
_CALL = re.compile(r"^(\d+) (\w+) (.*)$", re.MULTILINE)
# What SQLite writes page by page.
_PAGED = (".sqlite3", ".sqlite3.new", "-wal", "-shm", "-journal")
# How many calls could be hit in all sweeps of this process, and how many were.
count = {"could": 0, "were": 0}
BLOWS = {
    "killed": Blow(),
    "bad-disk": Blow(mode=Mode.FAIL, error=errno.EIO),
    "full": Blow(mode=Mode.FAIL_FROM, error=errno.ENOSPC),
    "full-once": Blow(mode=Mode.FAIL, error=errno.ENOSPC),
    "short": Blow(mode=Mode.SHORT),
}
WAYS = pytest.mark.parametrize("roll_back", [False, True], ids=["forward", "back"])


def each_of(*names: str) -> pytest.MarkDecorator:
    """Have a test take blows of some kinds, one after another."""
    return pytest.mark.parametrize("blow", [BLOWS[name] for name in names], ids=names)


STOPPED = each_of("killed", "bad-disk", "full")
FAILED = each_of("full-once", "bad-disk", "full", "short")


class ChecksAWay(Protocol):
    """Checks what is left of a trial, and what comes of it by one of two ways."""

    def __call__(self, trial: Trial, where: str, *, roll_back: bool) -> None: ...


def sweep(
    injector: Injector,
    stage: Stage,
    verb: str,
    parameters: Mapping[str, object],
    *,
    blow: Blow,
    check: Callable[[Trial, str], None],
    points: int,
    state: str = "template",
    meanwhile: Callable[[int], None] | None = None,
) -> int:
    """Hit one call after another, each in a fresh copy, and check what is left; return the calls.

    ``points`` is how many calls the short form tries. The checker gets the trial and a sentence
    that says what was hit. ``meanwhile`` is what is done, by a call's number, while one is paused at.
    """
    strikes = _Strikes(injector, stage, verb, parameters, blow=blow, state=state, meanwhile=meanwhile)
    for at in strikes.chosen(points):
        strikes.check(at, check)
    return strikes.told()


def sweep_both_ways(
    injector: Injector,
    stage: Stage,
    verb: str,
    parameters: Mapping[str, object],
    *,
    blow: Blow,
    check: ChecksAWay,
    points: int,
) -> int:
    """Do the same with a checker that is told whether to take back what was interrupted, or to finish it.

    A trial that left a restore interrupted is done twice, once for each; any other one is told one of them.
    """
    strikes = _Strikes(injector, stage, verb, parameters, blow=blow, state="template")
    for at in strikes.chosen(points):
        back = at % 2 == 1
        strikes.check(at, partial(check, roll_back=back))
        if strikes.left_interrupted:
            strikes.check(at, partial(check, roll_back=not back))
    return strikes.told()


class _Strikes:
    """The trials of one verb and one kind of blow, and the faults that they brought to light."""

    def __init__(
        self,
        injector: Injector,
        stage: Stage,
        verb: str,
        parameters: Mapping[str, object],
        *,
        blow: Blow,
        state: str,
        meanwhile: Callable[[int], None] | None = None,
    ) -> None:
        self._meanwhile = meanwhile
        self._injector, self._stage, self._state = injector, stage, state
        self._verb, self._blow = verb, blow
        self._order = {"workspace": str(stage.workspace), "store": str(stage.store), **parameters}
        self._faults: list[str] = []
        self.left_interrupted = False
        self._clean = self._run(0)
        assert self._clean.status == 0, f"{verb} fails by itself: {self._clean.lines}"

    def _run(self, at: int) -> Trial:
        self._stage.reset(self._state)
        blow = replace(self._blow, at=at)
        roots, traced = self._stage.roots, at == 0
        self._injector.start(self._verb, self._order, roots=roots, blow=blow, traced=traced)
        if self._meanwhile is not None and self._injector.paused():
            self._meanwhile(at)
            self._injector.go_on()
        return self._injector.finish()

    def chosen(self, points: int) -> list[int]:
        """Return the numbers of the calls to hit."""
        calls = self._clean.calls
        numbers = _chosen(calls, points)
        if not LONG:
            alike = partial(first_alike, kinds=self._clean.kinds, mode=self._blow.mode)
            amid = amid_pages(self._clean)
            numbers = sorted({alike(amid.get(number, number)) for number in numbers})
        count["could"] += calls
        count["were"] += len(numbers)
        return numbers

    def check(self, at: int, check: Callable[[Trial, str], None]) -> None:
        """Strike at a call, and check what is left."""
        trial = self._run(at)
        where = f"{self._verb}: {replace(self._blow, at=at)} ({trial.hit})"
        self.left_interrupted = any(self._stage.store.glob("workspaces/*/restore.journal"))
        try:
            check(trial, where)
        except (AssertionError, LastgoodError) as error:
            self._faults.append(f"{where}: {type(error).__name__}: {error}")

    def told(self) -> int:
        """Return how many calls there are; fail if there were faults."""
        calls, faults = self._clean.calls, self._faults
        assert not faults, f"{len(faults)} of {calls} calls\n" + "\n".join(faults[:SHOWN])
        return calls


def first_alike(at: int, *, kinds: bytes, mode: Mode) -> int:
    """Return the number of the call at which a blow of a mode leaves the same as at another one."""
    calls = len(kinds) - 1
    does = [kind & ~AFTER_OTHERS for kind in kinds]
    if mode == Mode.KILL:
        # Whoever is killed after a sync has changed no more than who is killed before it.
        while 1 < at <= calls and does[at - 1] == Kind.SYNCS and does[at] == kinds[at]:
            at -= 1
    elif mode == Mode.FAIL_FROM:
        while at <= calls and does[at] not in {Kind.GROWS, Kind.WRITES}:
            at += 1
    elif mode == Mode.SHORT and at <= calls and does[at] != Kind.WRITES:
        at = calls + 1
    return at


def amid_pages(clean: Trial) -> dict[int, int]:
    """Return the calls amid a row of pages that SQLite writes into a file, each with the row's second call.

    Whatever stops it there, nobody reads of the row by SQLite's own rules: a log counts up to its last
    commit, which is the row's last page, its index is rebuilt, and what is copied into the database lies in
    the log.
    """
    # A name may have line breaks; what is behind one is no call's.
    named = {int(number): (call, path) for number, call, path in _CALL.findall(clean.trace)}
    found, begins = {}, 0
    for number in range(1, clean.calls + 1):
        does = named.get(number)
        goes_on = number > 1 and does == named.get(number - 1) and clean.kinds[number] == Kind.WRITES
        if does is None or not goes_on or not does[1].endswith(_PAGED):
            begins = number
        elif number > begins + 2:  # the one before is in the middle
            found[number - 1] = begins + 1
    return found


def _chosen(calls: int, points: int) -> list[int]:
    """Return the numbers of the calls to hit; the short form keeps both ends, where protocols turn."""
    assert 0 < calls < LONGEST
    if LONG or calls <= points:
        return list(range(1, calls + 2))
    ends = points // 4
    chosen = {1, calls + 1, *range(calls - ends + 1, calls + 1)}
    middle = calls - ends
    steps = points - len(chosen)
    chosen |= {1 + (middle - 1) * step // max(1, steps) for step in range(1, steps + 1)}
    return sorted(chosen)
