"""Many tasks, many checkpoints, many features: what each further one costs beside what the first ones did.

In processor time, both workspaces taking turns: other programs on the machine change neither figure much.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import special
from sides import ROOT

sys.path.insert(0, os.path.join(ROOT, "src"))

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.workspace import Workspace
    from lastgood.workspace.session import OpenSession

    Work = Callable[["Side", int], object]

FEW = 20
_ROUNDS = 15
# At most so much more than at first (rule P8a), and so many bytes of the store each.
_RATIO, _BYTES = 1.2, 4096


class Side:
    """A workspace in which much, or little, was done in one session."""

    def __init__(self, place: str, *, work: Work, times: int) -> None:
        import lastgood

        self.root, self.store = os.path.join(place, "project"), os.path.join(place, "store")
        os.makedirs(self.root)
        self.workspace: Workspace = lastgood.open(self.root, store=self.store, maintenance="off")
        self.session: OpenSession[Workspace] = self.workspace.session(goal="measure").__enter__()
        self._work, self._done = work, 0
        for _ in range(times):
            self.go_on()

    def go_on(self) -> float:
        """Do one thing more, and return its seconds of processor time."""
        self._done += 1
        with open(os.path.join(self.root, f"{self._done % 20}.txt"), "w", encoding="ascii") as file:
            file.write(f"{self._done}\n" * 50)
        return _seconds(lambda: self._work(self, self._done))

    def size(self) -> int:
        """Return what the store takes, its packs joined, without the reserve for a full disk."""
        # The log would be counted as growth, and no verb of the public ones empties it at once.
        self.workspace._context.catalogue.empty_log()  # type: ignore[attr-defined]  # noqa: SLF001
        special.consolidate(self.store)
        return special.disk_usage(self.store) - special.disk_usage(os.path.join(self.store, "reserve"))

    def close(self) -> None:
        """End the session."""
        self.session.__exit__(None, None, None)
        self.workspace.close()


def a_task(side: Side, number: int) -> None:
    """Start a task and end it, which makes its checkpoint."""
    with side.session.task(f"T{number:05}"):
        pass


def a_save(side: Side, number: int) -> None:
    """Make a checkpoint."""
    side.workspace.save(f"save {number}")


def a_feature(side: Side, number: int) -> None:
    """Complete a feature, which makes its checkpoint."""
    side.workspace.feature_start(f"F{number:05}")
    side.workspace.feature_done(f"F{number:05}")


def lines(place: str, what: str, work: Work, *, times: int) -> list[dict[str, Any]]:
    """Return what the table says of many of one kind."""
    few = Side(os.path.join(place, "few"), work=work, times=FEW)
    many = Side(os.path.join(place, "many"), work=work, times=times)
    grown = (many.size() - few.size()) / (times - FEW)
    found = [
        _line(f"a {what} after {times:,}", few, many, lambda side: side.go_on()),
        _line(f"list of 20 after {times:,} {what}s", few, many, lambda side: side.workspace.list(limit=20)),
        _line(f"status after {times:,} {what}s", few, many, lambda side: side.workspace.status()),
        {
            "work": f"growth of the store by each of {times:,} {what}s, packs joined",
            "unit": "KiB",
            "figures": {"lastgood": grown / 1024},
            "target": "≤ 4 KiB",
            "met": grown <= _BYTES,
        },
    ]
    few.close()
    many.close()
    return found


def _line(work: str, few: Side, many: Side, do: Callable[[Side], object]) -> dict[str, Any]:
    taken: dict[Side, list[float]] = {few: [], many: []}
    for turn in range(_ROUNDS):
        for side in (few, many) if turn % 2 else (many, few):
            taken[side].append(_seconds(partial(do, side)))
    first, last = (statistics.median(taken[side]) * 1000 for side in (few, many))
    return {
        "work": f"{work}, in process, processor time (after {FEW}: {first:.1f} ms)",
        "unit": "ms",
        "figures": {"lastgood": last},
        "target": f"≤ {_RATIO:g} x at first",
        "ratio": last / first,
        "met": last / first <= _RATIO,
    }


def _seconds(do: Callable[[], object]) -> float:
    before = time.process_time()
    do()
    return time.process_time() - before
