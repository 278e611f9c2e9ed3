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
    from collections.abc import Callable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

# The last steps, over which the median is taken: their state is the largest.
_LAST = 100
# How long a thread is when its verbs are timed, one by one, and over how many steps.
_LENGTH, _STEPS = 600, 100
_WORDS = [f"word{number:04}" for number in range(5000)]


def lines(place: str, *, steps: int) -> list[dict[str, Any]]:
    """Return what the table says of threads: their size, and what each verb of a saver takes.

    Both savers take each step in turn, so that both meet the machine in the same mood; both write to a
    log that SQLite syncs at each commit (``synchronous = FULL``), on the same disk.
    """
    from langchain_core.messages import AIMessage

    chance = random.Random(1)

    def text() -> str:
        return " ".join(chance.choice(_WORDS) for _ in range(130))

    grown = _grown(
        os.path.join(place, "messages"), lambda step: AIMessage(text(), id=f"message {step}"), steps=steps
    )
    work = f"LangGraph thread of {steps:,} messages"
    megabytes = {side.name: side.size() / 1e6 for side in grown[0]}
    late = {side.name: _milliseconds(side.whole[-_LAST:]) for side in grown[0]}
    found = [
        _line(f"{work}, stored", "MB", megabytes, limit=0.02),
        _line(f"{work}, a late step", "ms", late, limit=1.5),
        *_verbs(grown, "messages"),
    ]
    plain = _grown(
        os.path.join(place, "dicts"),
        lambda step: {"role": "user", "content": text(), "number": step},
        steps=min(steps, _LENGTH + _STEPS // 2),
    )
    return [*found, *_verbs(plain, "plain dicts")]


def _grown(place: str, item: Callable[[int], object], *, steps: int) -> tuple[list[_Side], _Least]:
    """Return both savers after a thread has grown by an item a step in each, and the least beside them."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    import lastgood
    from lastgood.integrations.langgraph import LastgoodSaver

    project, store = os.path.join(place, "project"), os.path.join(place, "store")
    os.makedirs(project)
    os.environ["LASTGOOD_WITNESS"] = os.path.join(place, "witness")
    connection = sqlite3.connect(os.path.join(place, "threads.sqlite"), check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        ours = _Side("lastgood", LastgoodSaver(workspace), store, "ledger")
        theirs = _Side("SqliteSaver", SqliteSaver(connection), place, "threads")
        sides = [ours, theirs]
        least = _Least(os.path.join(place, "least.sqlite3"))
        items: list[object] = []
        for step in range(steps):
            items.append(item(step))
            timed = abs(step - min(steps - _STEPS // 2, _LENGTH)) <= _STEPS // 2
            for side in sides if step % 2 else sides[::-1]:
                side.take(step, items, timed=timed)
            least.put_writes(step, items[-1], timed=timed)
        for side in sides:
            assert side.came_back() == items, side.name
    connection.close()
    least.close()
    return sides, least


def _verbs(grown: tuple[Sequence[_Side], _Least], of: str) -> list[dict[str, Any]]:
    sides, least = grown
    length = min(_LENGTH, len(sides[0].whole))
    found = [
        _line(
            f"LangGraph, {verb} at {length} {of}",
            "ms",
            {side.name: _milliseconds(side.taken[verb]) for side in sides},
            limit=1.5,
        )
        for verb in sides[0].taken
    ]
    theirs = _milliseconds(sides[1].taken["put_writes"])
    bound = {"lastgood": _milliseconds(least.taken), "SqliteSaver": theirs}
    line = _line(f"the least: LangGraph, put_writes of our rows, {length} {of}", "ms", bound, limit=1)
    return [*found, {**line, "target": "-", "met": None}]


def _milliseconds(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000


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
    """One saver and its thread; ``folder`` has its files, which begin with ``files``."""

    def __init__(self, name: str, saver: BaseCheckpointSaver[Any], folder: str, files: str) -> None:
        self.name = name
        self.whole: list[float] = []
        self.taken: dict[str, list[float]] = {"get_tuple": [], "put": [], "put_writes": []}
        self._saver = saver
        self._place = (folder, files)
        self._config: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}

    def take(self, step: int, items: list[object], *, timed: bool) -> None:
        """Keep a step as a graph does: what its task wrote, and the state that came of it; read it then."""
        from langgraph.checkpoint.base import empty_checkpoint

        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(items)}
        checkpoint["channel_versions"] = {"messages": step + 1}
        begun = time.perf_counter()
        if step:
            self._saver.put_writes(self._config, [("messages", items[-1:])], f"task {step}")
        between = time.perf_counter()
        self._config = self._saver.put(
            self._config, checkpoint, {"step": step, "source": "loop"}, {"messages": step + 1}
        )
        ended = time.perf_counter()
        self.whole.append(ended - begun)
        if timed:
            self.came_back()
            self.taken["get_tuple"].append(time.perf_counter() - ended)
            self.taken["put"].append(ended - between)
            self.taken["put_writes"].append(between - begun)

    def came_back(self) -> object:
        """Return the items of the newest state."""
        found = self._saver.get_tuple({"configurable": {"thread_id": "1"}})
        return None if found is None else found.checkpoint["channel_values"]["messages"]

    def size(self) -> int:
        """Return the bytes stored."""
        folder, files = self._place
        return sum(
            os.path.getsize(os.path.join(folder, name))
            for name in os.listdir(folder)
            if name.startswith(files)
        )


class _Least:
    """What writes the rows that our ``put_writes`` writes, and makes the tags in them, and nothing else.

    It looks nothing up, packs nothing, waits for nobody and proves nothing.
    """

    _ANCHORED = 192

    def __init__(self, path: str) -> None:
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

        from lastgood.ledger.file import write_new

        self.taken: list[float] = []
        self._dumps = JsonPlusSerializer().dumps_typed
        fields = {"changes": 0, "id": "least", "serial": 0, "root": bytes(32), "seal": bytes(32)}
        write_new(path, lambda made: made.executemany("INSERT INTO meta VALUES (?, ?)", fields.items()))
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("synchronous = FULL", "secure_delete = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute(
            "INSERT INTO book (workspace, space, name, born, entries, total, loose, tag)"
            " VALUES ('workspace', 'langgraph', x'31', x'00', 0, x'00', 0, x'00')"
        )
        self._anchor = os.open(f"{path}.anchor", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def put_writes(self, step: int, item: object, *, timed: bool) -> None:
        """Write a piece and the entry that refers to it, the book's row, the seal, and the anchor's slot."""
        import hmac
        import zlib
        from hashlib import blake2b

        content = self._dumps(item)[1]
        key, head, body = f"w\0\0{step:032}\0task {step}\x000".encode(), bytes(80), bytes(60)
        execute = self._connection.execute
        begun = time.perf_counter()
        tags = [hmac.digest(bytes(32), key + head + body + bytes(place), "sha256") for place in range(4)]
        execute("BEGIN IMMEDIATE")
        execute(
            "INSERT INTO piece (book, id, size, content) VALUES (1, ?, ?, ?)",
            (blake2b(content, digest_size=20).digest(), len(content), b"z" + zlib.compress(content, 1)),
        )
        execute(
            "INSERT INTO entry (book, key, mark, tag, head, body) VALUES (1, ?, NULL, ?, ?, ?)",
            (key, tags[0], head, body),
        )
        execute(
            "UPDATE book SET entries = ?, total = ?, loose = 0, tag = ? WHERE number = 1", (step, *tags[1:3])
        )
        execute(
            "INSERT OR REPLACE INTO meta VALUES ('id', 'least'), ('serial', ?), ('root', ?), ('seal', ?)",
            (step, *tags[2:]),
        )
        execute("UPDATE meta SET value = value + 1 WHERE name = 'changes'")
        execute("COMMIT")
        os.pwrite(self._anchor, bytes(self._ANCHORED), step % 2 * self._ANCHORED)
        if timed:
            self.taken.append(time.perf_counter() - begun)

    def close(self) -> None:
        """Let go of its files."""
        self._connection.close()
        os.close(self._anchor)
