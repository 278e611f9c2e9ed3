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
# Of the verbs there are many, and some of them take seconds: no more rounds than these.
_FEWER_ROUNDS, _LEAST_ROUNDS = 11, 3
# At most so much more than at first (rule P8a), and so many bytes of the store each.
_RATIO, _BYTES = 1.2, 4096


class Side:
    """A workspace in which much, or little, was done in one session.

    Packs are joined as often as maintenance joins them: a folder of ext4 that once had thousands of names
    is slow to list for ever, and slow to make files in for a minute or two after they were deleted.
    """

    def __init__(self, place: str, *, work: Work, times: int) -> None:
        import lastgood
        from lastgood.settings import PACKS_DUE

        self.root, self.store = os.path.join(place, "project"), os.path.join(place, "store")
        os.makedirs(self.root)
        self.workspace: Workspace = lastgood.open(self.root, store=self.store, maintenance="off")
        self.session: OpenSession[Workspace] = self.workspace.session(goal="measure").__enter__()
        self._work, self._done = work, 0
        for number in range(1, times + 1):
            self.go_on()
            if number % PACKS_DUE == 0:
                special.consolidate(self.store, "due")

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


def lines(place: str, what: str, work: Work, *, times: int, rounds: int) -> list[dict[str, Any]]:
    """Return what the table says of many of one kind."""
    few = Side(os.path.join(place, "few"), work=work, times=FEW)
    many = Side(os.path.join(place, "many"), work=work, times=times)
    grown = (many.size() - few.size()) / (times - FEW)
    looks: dict[str, Callable[[Side], object]] = {
        f"a {what} after {times:,}": lambda side: side.go_on(),
        f"list of 20 after {times:,} {what}s": lambda side: side.workspace.list(limit=20),
        f"status after {times:,} {what}s": lambda side: side.workspace.status(),
    }
    found = [
        *(_line(name, few, many, do, target=_RATIO, rounds=rounds) for name, do in looks.items()),
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


def every_verb(place: str, *, times: int, rounds: int) -> list[dict[str, Any]]:
    """Return what the table says of each verb after many tasks, beside after a few."""
    few = Side(os.path.join(place, "few"), work=a_task, times=FEW)
    many = Side(os.path.join(place, "many"), work=a_task, times=times)
    for side in (few, many):
        side.size()  # which joins the packs, as maintenance does
    found = [
        _line(
            f"`{name}` after {times:,} tasks", few, many, do, target=_RATIO, rounds=min(rounds, _FEWER_ROUNDS)
        )
        for name, do in EQUAL.items()
    ]
    found += [
        _line(
            f"`{name}` after {times:,} tasks", few, many, do, target=None, rounds=min(rounds, _LEAST_ROUNDS)
        )
        for name, do in GROWING.items()
    ]
    few.close()
    many.close()
    return found


def _anew(side: Side, do: Callable[[Workspace], object]) -> None:
    """Do something as a process that has seen nothing yet."""
    import lastgood
    from lastgood.model import long_list

    long_list.forget()
    with lastgood.open(side.root, store=side.store, maintenance="off") as workspace:
        do(workspace)


def _to_and_fro(side: Side) -> None:
    side.workspace.restore("@~1")
    side.workspace.undo()


def _a_session(side: Side) -> None:
    with side.workspace.session(goal="another", exclusive=False):
        pass


# What is to cost the same however many checkpoints there are (rule P8a), and what looks at each of them.
EQUAL: dict[str, Callable[[Side], object]] = {
    "save": lambda side: side.workspace.save("one more", allow_empty=True),
    "task start, done": lambda side: side.go_on(),
    "list": lambda side: side.workspace.list(limit=20),
    "list, opened anew": lambda side: _anew(side, lambda opened: opened.list(limit=20)),
    "status": lambda side: side.workspace.status(),
    "status, opened anew": lambda side: _anew(side, lambda opened: opened.status()),
    "show @~10": lambda side: side.workspace.entries("@~10"),
    "show task:T00003": lambda side: side.workspace.get("task:T00003"),
    "diff @~1": lambda side: side.workspace.diff("@~1"),
    "log PATH --limit 1": lambda side: side.workspace.log("3.txt", limit=1),
    "restore @~3 --dry-run": lambda side: side.workspace.plan_restore("@~3"),
    "restore @~1, undo": _to_and_fro,
    "undo --list": lambda side: side.workspace.operations(can="undo"),
    "progress show": lambda side: side.workspace.progress(),
    "session start, end": _a_session,
}
GROWING: dict[str, Callable[[Side], object]] = {
    "list, all of them in brief": lambda side: side.workspace.list(brief=True),
    "recover --review": lambda side: side.workspace.recover(choice="review"),
    "show 'a message'": lambda side: side.workspace.get("Completed task T00003"),
    "report": lambda side: side.workspace.report(period="all"),
    "prune --dry-run": lambda side: side.workspace.plan_prune(),
    "verify": lambda side: side.workspace.verify(),
}


def _line(
    work: str,
    few: Side,
    many: Side,
    do: Callable[[Side], object],
    *,
    target: float | None,
    rounds: int,
) -> dict[str, Any]:
    taken: dict[Side, list[float]] = {few: [], many: []}
    for turn in range(rounds):
        for side in (few, many) if turn % 2 else (many, few):
            taken[side].append(_seconds(partial(do, side)))
    first, last = (statistics.median(taken[side]) * 1000 for side in (few, many))
    return {
        "work": f"{work}, in process, processor time (after {FEW}: {first:.1f} ms)",
        "unit": "ms",
        "figures": {"lastgood": last},
        "target": "looks at each" if target is None else f"≤ {target:g} x at first",
        "ratio": last / first,
        "met": None if target is None else last / first <= target,
    }


def _seconds(do: Callable[[], object]) -> float:
    before = time.process_time()
    do()
    return time.process_time() - before
