"""Which calls of a verb are hit: all of them in the long form, an even sample in the short one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from faults.injector import Blow, Injector, Mode, Trial
from faults.stage import Stage
from lastgood.errors import LastgoodError

# The torture run sets this; the share of points that the short form tries is one in STRIDE.
FULL = bool(os.environ.get("LASTGOOD_TORTURE"))
LONGEST_SWEEP = 20_000
SHOWN = 12
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
) -> int:
    """Hit one call after another, each in a fresh copy, and check what is left; return the calls.

    ``points`` is how many calls the short form tries. The checker gets the trial and a sentence
    that says what was hit.
    """
    order = {"workspace": str(stage.workspace), "store": str(stage.store), **parameters}
    stage.reset(state)
    clean = injector.run(verb, order, roots=stage.roots, blow=replace(blow, at=0))
    assert clean.status == 0, f"{verb} fails by itself: {clean.lines}"
    faults = []
    for at in _chosen(clean.calls, points):
        stage.reset(state)
        trial = injector.run(verb, order, roots=stage.roots, blow=replace(blow, at=at))
        where = f"{verb}: {replace(blow, at=at)} ({trial.hit})"
        try:
            check(trial, where)
        except (AssertionError, LastgoodError) as error:
            faults.append(f"{where}: {type(error).__name__}: {error}")
    assert not faults, f"{len(faults)} of {clean.calls} calls\n" + "\n".join(faults[:SHOWN])
    return clean.calls


def _chosen(calls: int, points: int) -> list[int]:
    """Return the numbers of the calls to hit; the short form keeps both ends, where protocols turn."""
    assert 0 < calls < LONGEST_SWEEP
    if FULL or calls <= points:
        return list(range(1, calls + 2))
    ends = points // 4
    chosen = {1, calls + 1, *range(calls - ends + 1, calls + 1)}
    middle = calls - ends
    steps = points - len(chosen)
    chosen |= {1 + (middle - 1) * step // max(1, steps) for step in range(1, steps + 1)}
    return sorted(chosen)
