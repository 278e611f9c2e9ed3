"""How threads are written into a ledger: one book a thread, an entry a checkpoint and a write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    writes_sort_key,
)

from lastgood.errors import Damaged, Invalid, Usage
from lastgood.integrations.langgraph.values import Values
from lastgood.ledger import LedgerEntry, LedgerReader, LedgerWriter
from lastgood.value import Value, cast
from lastgood.workspace.arguments import expect

# --- Where a thread's checkpoints and writes stand in its book ---

_CHECKPOINT = "c\0"
_WRITE = "w\0"


class ThreadPosition(Value):
    """A place in a thread; ``id`` is None for the newest checkpoint, ``space`` for every namespace."""

    thread: str
    space: str | None
    id: str | None

    @property
    def namespace(self) -> str:
        """The namespace; that of the graph itself where none is named."""
        return self.space or ""


def spot_of(config: RunnableConfig) -> ThreadPosition:
    """Return the place that a configuration names; `Usage` for what names none."""
    expect(config, Mapping, what="the configuration")
    named = config.get("configurable") or {}
    expect(named, Mapping, what="the configuration's part configurable")
    thread = named.get("thread_id")
    if thread is None:
        raise Usage(
            "the configuration names no thread", hint='give {"configurable": {"thread_id": ...}} to the graph'
        )
    id = get_checkpoint_id(config)
    space = named.get("checkpoint_ns")
    return ThreadPosition(
        thread=name_of(thread),
        space=None if space is None else name_of(space, "the namespace"),
        id=None if id is None or id == "" else name_of(id, "the id of the checkpoint"),
    )


def names(given: Iterable[object], what: str) -> list[str]:
    """Return the names of several threads or runs; `Usage` for one text, whose letters would be names."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise Usage(f"{what} is {type(given).__name__}, not list", hint="give a list of ids")
    return [name_of(one, f"one of {what}") for one in given]


def config_of(spot: ThreadPosition, id: str) -> RunnableConfig:
    """Return the configuration that names one checkpoint."""
    return {"configurable": {"thread_id": spot.thread, "checkpoint_ns": spot.namespace, "checkpoint_id": id}}


def checkpoints(space: str | None) -> str:
    """Return how the keys of all checkpoints begin."""
    return _CHECKPOINT if space is None else f"{_CHECKPOINT}{space}\0"


def checkpoint_key(space: str, id: str) -> str:
    """Return the key of a checkpoint."""
    return f"{_CHECKPOINT}{space}\0{name_of(id, 'the id of the checkpoint')}"


def writes(space: str, id: str) -> str:
    """Return how the keys of a checkpoint's writes begin."""
    return f"{_WRITE}{space}\0{id}\0"


def write(space: str, id: str, *, task: str, place: int) -> str:
    """Return the key of a write."""
    return f"{writes(space, id)}{name_of(task, 'the id of the task')}\0{place}"


def parts_of(key: str) -> tuple[str, str]:
    """Return the namespace and id in a checkpoint's key."""
    _, space, id = key.split("\0")
    return space, id


def name_of(given: object, what: str = "the id of the thread") -> str:
    """Return an id as a text, by which a book or an entry is called: that of a number or a UUID too."""
    expect(given, str, int, UUID, what=what)
    text = str(given)
    if "\0" in text:
        raise Invalid(f"{text!r} holds a NUL", hint="name threads, namespaces and tasks without one")
    return text


# --- How threads are written into a ledger: one book a thread, an entry a checkpoint and a write ---

FILES = "lastgood_files"


class Page(Value):
    """A checkpoint as its entry's head tells of it, without its values.

    ``channels`` are those that hold something; ``files`` is the workspace's checkpoint of the moment.
    """

    space: str
    id: str
    parent: str | None
    channels: tuple[str, ...]
    metadata: object
    files: str | None
    entry: LedgerEntry


def page_of(entry: LedgerEntry) -> Page:
    """Read an entry's head."""
    space, id = parts_of(entry.key)
    match entry.head:
        case {"parent": parent, "channels": list() as channels, "metadata": metadata, "files": files}:
            return Page(
                space=space,
                id=id,
                parent=cast("str | None", parent),
                channels=tuple(str(one) for one in channels),
                metadata=metadata,
                files=cast("str | None", files),
                entry=entry,
            )
    raise Damaged(f"the checkpoint {id} of a thread cannot be read", hint="run: lastgood verify")


class CheckpointQuery(Value):
    """Which checkpoints are looked for; ``filter`` holds metadata that have to be so."""

    asked: ThreadPosition | None
    earliest: str | None
    filter: Mapping[str, Any]
    limit: int | None

    def fits(self, page: Page, values: Values) -> bool:
        """Tell whether a checkpoint is one of those."""
        if self.earliest is not None and page.id >= self.earliest:
            return False
        if self.asked is not None and self.asked.id is not None and page.id != self.asked.id:
            return False
        if not self.filter:
            return True
        metadata = {**values.revived(page.metadata), FILES: page.files}
        return all(metadata.get(name) == wanted for name, wanted in self.filter.items())


def answers(book: LedgerReader, question: CheckpointQuery, values: Values) -> list[ThreadPosition]:
    """Return where the checkpoints are that are looked for; their values are not read."""
    asked = question.asked
    found: list[ThreadPosition] = []
    for thread in book.books() if asked is None else [asked.thread]:
        for page in Thread(book, thread, values).pages(None if asked is None else asked.space):
            if question.limit is not None and len(found) >= question.limit:
                return found
            if question.fits(page, values):
                found.append(ThreadPosition(thread=thread, space=page.space, id=page.id))
    return found


class Thread:
    """A thread, read at one moment."""

    def __init__(self, book: LedgerReader, name: str, values: Values) -> None:
        self._book = book
        self._name = name
        self._values = values

    def page(self, space: str, id: str | None) -> Page | None:
        """Return one checkpoint of a namespace, the newest if none is named."""
        if id is not None:
            entry = self._book.entry(self._name, checkpoint_key(space, id))
            return None if entry is None else page_of(entry)
        newest = self._book.entries(self._name, prefix=checkpoints(space), newest_first=True, limit=1)
        return page_of(newest[0]) if newest else None

    def pages(self, space: str | None) -> list[Page]:
        """Return all checkpoints of a namespace, or of all, newest first."""
        found = [page_of(one) for one in self._book.entries(self._name, prefix=checkpoints(space))]
        return sorted(found, key=lambda page: page.id, reverse=True)

    def tuple_of(self, page: Page, spot: ThreadPosition) -> CheckpointTuple:
        """Return a checkpoint with everything that belongs to it."""
        here = spot.replace(space=page.space)
        checkpoint, values = self._state(page)
        metadata: dict[str, Any] = self._values.revived(page.metadata)
        if page.files is not None:
            metadata[FILES] = page.files
        checkpoint["channel_values"] = values
        return CheckpointTuple(
            config=config_of(here, page.id),
            checkpoint=checkpoint,
            metadata=cast("CheckpointMetadata", metadata),
            parent_config=None if page.parent is None else config_of(here, page.parent),
            pending_writes=[
                (task, channel, self._values.revived(value))
                for task, channel, value in self._writes(page.space, page.id)
            ],
        )

    def history(self, spot: ThreadPosition, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to channels since they were last stored, along the line of parents."""
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        missing = set(channels)
        target = self.page(spot.namespace, spot.id)
        above = None if target is None else target.parent
        while above is not None and missing:
            page = self.page(spot.namespace, above)
            if page is None:
                break
            for task, channel, value in reversed(self._writes(page.space, page.id)):
                if channel in missing:
                    found[channel]["writes"].append((task, channel, self._values.revived(value)))
            stored = missing.intersection(page.channels)
            values = self._state(page)[1] if stored else {}
            for name in stored:
                found[name]["seed"] = values[name]
            missing -= stored
            above = page.parent
        for one in found.values():
            one["writes"].reverse()
        return found

    def carried(self, space: str, parent: str | None, versions: Mapping[str, object]) -> dict[str, object]:
        """Return, still plain, what channels hold that are at the version of the parent checkpoint."""
        page = None if parent is None or not versions else self.page(space, parent)
        if page is None or not set(versions).intersection(page.channels):
            return {}
        match self._book.body(page.entry):
            case {"checkpoint": kept, "values": dict() as values}:
                known = self._values.revived(kept)["channel_versions"]
                return {
                    name: values[name]
                    for name, at in versions.items()
                    if name in values and known.get(name) == at
                }
        raise _unreadable(page)

    def _state(self, page: Page) -> tuple[Checkpoint, dict[str, Any]]:
        """Return a checkpoint, and what its channels hold."""
        match self._values.read(self._book, page.entry):
            case {"checkpoint": dict() as checkpoint, "values": dict() as values}:
                return cast("Checkpoint", checkpoint), values
        raise _unreadable(page)

    def _writes(self, space: str, id: str) -> list[tuple[str, str, object]]:
        """Return task, channel and plain value of a checkpoint's writes, in the order of their tasks."""
        found = []
        for entry in self._book.entries(self._name, prefix=writes(space, id)):
            match entry.head:
                case {
                    "task": str() as task,
                    "path": str() as path,
                    "channel": str() as channel,
                    "place": place,
                }:
                    order = writes_sort_key(path, task, cast("int", place))
                    found.append((order, task, channel, self._book.body(entry)))
                case _:
                    raise Damaged("a write of a thread cannot be read", hint="run: lastgood verify")
        found.sort(key=lambda one: one[0])
        return [(task, channel, value) for _, task, channel, value in found]


def _unreadable(page: Page) -> Damaged:
    return Damaged(f"the checkpoint {page.id} of a thread cannot be read", hint="run: lastgood verify")


def put_checkpoint(
    book: LedgerWriter,
    spot: ThreadPosition,
    *,
    checkpoint: Checkpoint,
    metadata: dict[str, Any],
    new_versions: ChannelVersions,
    files: str | None,
    values: Values,
) -> None:
    """Write a checkpoint into its thread's book."""
    kept: dict[str, object] = {**checkpoint}
    given: dict[str, object] = cast("dict[str, object]", kept.pop("channel_values"))
    plain = {name: values.plain(one) for name, one in given.items()}
    versions = checkpoint["channel_versions"]
    rest = {name: at for name, at in versions.items() if name not in plain and name not in new_versions}
    plain |= Thread(book, spot.thread, values).carried(spot.namespace, spot.id, rest)
    run = metadata.get("run_id")
    book.put(
        spot.thread,
        checkpoint_key(spot.namespace, checkpoint["id"]),
        mark=None if run is None else str(run),
        head={
            "parent": spot.id,
            "channels": sorted(plain),
            "metadata": values.plain(metadata),
            "files": files,
        },
        body={"checkpoint": values.plain(kept), "values": plain},
        examine=values.examine,
    )


def put_writes(
    book: LedgerWriter,
    spot: ThreadPosition,
    *,
    writes: Sequence[tuple[str, Any]],
    task: str,
    path: str,
    values: Values,
) -> None:
    """Write what a task wrote; what it wrote before stays, but for what is special."""
    for number, (channel, value) in enumerate(writes):
        place = WRITES_IDX_MAP.get(channel, number)
        key = write(spot.namespace, spot.id or "", task=task, place=place)
        if place >= 0 and book.entry(spot.thread, key) is not None:
            continue
        head = {"task": task, "path": path, "channel": channel, "place": place}
        book.put(spot.thread, key, head=head, body=values.plain(value), examine=values.examine)


def drop_checkpoints(book: LedgerWriter, thread: str, pages: Sequence[tuple[str, str]]) -> None:
    """Remove checkpoints (namespace and id) with their writes, and the thread if none is left."""
    for space, id in pages:
        below = book.entries(thread, prefix=writes(space, id))
        book.drop(thread, [checkpoint_key(space, id), *(one.key for one in below)])
    if not book.entries(thread, prefix=checkpoints(None), limit=1):
        book.drop_book(thread)


def superseded(pages: Sequence[Page], values: Values) -> list[tuple[str, str]]:
    """Return the checkpoints that the newest of each namespace does not need."""
    spare: list[tuple[str, str]] = []
    for space in {page.space for page in pages}:
        line = {page.id: page for page in pages if page.space == space}
        needed = _needed(line, values)
        spare += [(space, id) for id in line if id not in needed]
    return spare


def _needed(line: Mapping[str, Page], values: Values) -> set[str]:
    """Return the newest of a line, and those that hold what its delta channels are made of."""
    page: Page | None = line[max(line)]
    assert page is not None
    metadata = values.revived(page.metadata)
    counted = metadata.get("counters_since_delta_snapshot") or {}
    missing = set(counted) - set(page.channels)
    needed = {page.id}
    while missing and page is not None and page.parent is not None:
        page = line.get(page.parent)
        if page is not None:
            needed.add(page.id)
            missing -= set(page.channels)
    return needed
