"""Where a thread's checkpoints and writes stand in its book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from langgraph.checkpoint.base import get_checkpoint_id

from lastgood.errors import Invalid, Usage
from lastgood.value import Value
from lastgood.workspace.arguments import expect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

_CHECKPOINT = "c\0"
_WRITE = "w\0"


class Spot(Value):
    """A place in a thread; ``id`` is None for the newest checkpoint, ``space`` for every namespace."""

    thread: str
    space: str | None
    id: str | None

    @property
    def namespace(self) -> str:
        """The namespace; that of the graph itself where none is named."""
        return self.space or ""


def spot_of(config: RunnableConfig) -> Spot:
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
    return Spot(
        thread=thread_name(thread),
        space=None if space is None else _named(space, "the namespace"),
        id=None if id is None or id == "" else _named(id, "the id of the checkpoint"),
    )


def thread_name(thread: object) -> str:
    """Return the name of a thread's book."""
    return _named(thread, "the id of the thread")


def names(given: Iterable[object], what: str) -> list[str]:
    """Return the names of several threads or runs; `Usage` for one text, whose letters would be names."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise Usage(f"{what} is {type(given).__name__}, not list", hint="give a list of ids")
    return [_named(one, f"one of {what}") for one in given]


def config_of(spot: Spot, id: str) -> RunnableConfig:
    """Return the configuration that names one checkpoint."""
    return {"configurable": {"thread_id": spot.thread, "checkpoint_ns": spot.namespace, "checkpoint_id": id}}


def checkpoints(space: str | None) -> str:
    """Return how the keys of all checkpoints begin."""
    return _CHECKPOINT if space is None else f"{_CHECKPOINT}{space}\0"


def checkpoint(space: str, id: str) -> str:
    """Return the key of a checkpoint."""
    return f"{_CHECKPOINT}{space}\0{_named(id, 'the id of the checkpoint')}"


def writes(space: str, id: str) -> str:
    """Return how the keys of a checkpoint's writes begin."""
    return f"{_WRITE}{space}\0{id}\0"


def write(space: str, id: str, *, task: str, place: int) -> str:
    """Return the key of a write."""
    return f"{writes(space, id)}{_named(task, 'the id of the task')}\0{place}"


def parts_of(key: str) -> tuple[str, str]:
    """Return the namespace and id in a checkpoint's key."""
    _, space, id = key.split("\0")
    return space, id


def _named(given: object, what: str) -> str:
    """Return an id as a text: a number or a UUID names as its text does."""
    expect(given, str, int, UUID, what=what)
    return _sound(str(given))


def _sound(name: str) -> str:
    if "\0" in name:
        raise Invalid(f"{name!r} holds a NUL", hint="name threads, namespaces and tasks without one")
    return name
