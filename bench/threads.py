"""A LangGraph thread that grows by a message a step, kept by our saver and by the framework's for SQLite."""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

from sides import ROOT

sys.path.insert(0, os.path.join(ROOT, "src"))

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

# The last steps, over which the median is taken: their state is the largest.
_LAST = 100
_WORDS = [f"word{number:04}" for number in range(5000)]


def kept(place: str, *, steps: int) -> tuple[dict[str, float], dict[str, int]]:
    """Return the median seconds of a late step and the bytes stored at the end, by saver.

    Both savers take each step in turn, so that both meet the machine in the same mood.
    """
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.sqlite import SqliteSaver

    import lastgood
    from lastgood.integrations.langgraph import LastgoodSaver

    project, file = os.path.join(place, "project"), os.path.join(place, "threads.sqlite")
    os.makedirs(project)
    os.environ["LASTGOOD_WITNESS"] = os.path.join(place, "witness")
    chance = random.Random(1)
    with lastgood.open(project, store=os.path.join(place, "store"), maintenance="off") as workspace:
        theirs = SqliteSaver(sqlite3.connect(file, check_same_thread=False))
        sides = [_Side("lastgood", LastgoodSaver(workspace)), _Side("SqliteSaver", theirs)]
        messages: list[object] = []
        for step in range(steps):
            text = " ".join(chance.choice(_WORDS) for _ in range(130))
            messages.append(AIMessage(text, id=f"message {step}"))
            for side in sides if step % 2 else reversed(sides):
                side.take(step, messages)
        for side in sides:
            assert side.came_back() == messages, side.name
        theirs.conn.close()
    sizes = {
        "lastgood": _size(os.path.join(place, "store"), "ledger"),
        "SqliteSaver": _size(place, "threads"),
    }
    return {side.name: statistics.median(side.taken[-_LAST:]) for side in sides}, sizes


def lines(place: str, *, steps: int) -> list[dict[str, Any]]:
    """Return what the table says of a thread: its size, and the time of its late steps."""
    seconds, sizes = kept(place, steps=steps)
    milliseconds = {name: taken * 1000 for name, taken in seconds.items()}
    megabytes = {name: size / 1e6 for name, size in sizes.items()}
    work = f"LangGraph thread of {steps:,} messages"
    return [
        _line(f"{work}, stored", "MB", megabytes, limit=0.02),
        _line(f"{work}, a late step", "ms", milliseconds, limit=1.5),
    ]


def _line(work: str, unit: str, figures: dict[str, float], *, limit: float) -> dict[str, Any]:
    ratio = figures["lastgood"] / figures["SqliteSaver"]
    return {
        "work": work,
        "unit": unit,
        "figures": figures,
        "target": f"≤ {limit:g} x SqliteSaver",
        "ratio": ratio,
        "met": ratio <= limit,
        "note": f"LangGraph's SqliteSaver: {figures['SqliteSaver']:.3g} {unit}",
    }


class _Side:
    """One saver and its thread."""

    def __init__(self, name: str, saver: BaseCheckpointSaver[Any]) -> None:
        self.name = name
        self.taken: list[float] = []
        self._saver = saver
        self._config: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}

    def take(self, step: int, messages: list[object]) -> None:
        """Keep a step as a graph does: what its task wrote, and the state that came of it."""
        from langgraph.checkpoint.base import empty_checkpoint

        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(messages)}
        checkpoint["channel_versions"] = {"messages": step + 1}
        before = time.perf_counter()
        if step:
            self._saver.put_writes(self._config, [("messages", messages[-1:])], f"task {step}")
        self._config = self._saver.put(
            self._config, checkpoint, {"step": step, "source": "loop"}, {"messages": step + 1}
        )
        self.taken.append(time.perf_counter() - before)

    def came_back(self) -> object:
        """Return the messages of the newest state."""
        found = self._saver.get_tuple({"configurable": {"thread_id": "1"}})
        return None if found is None else found.checkpoint["channel_values"]["messages"]


def _size(folder: str, beginning: str) -> int:
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for name in os.listdir(folder)
        if name.startswith(beginning)
    )
