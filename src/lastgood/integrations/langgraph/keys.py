"""Where a thread's checkpoints and writes stand in its book."""

from __future__ import annotations

from langgraph.checkpoint.base import get_checkpoint_id

from lastgood.errors import Invalid, Usage
from lastgood.value import Value

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
    """Return the place that a configuration names."""
    named = config.get("configurable") or {}
    thread = named.get("thread_id")
    if thread is None:
        raise Usage(
            "the configuration names no thread", hint='give {"configurable": {"thread_id": ...}} to the graph'
        )
    id = get_checkpoint_id(config)
    space = named.get("checkpoint_ns")
    return Spot(
        thread=thread_name(thread),
        space=None if space is None else _sound(str(space)),
        id=None if not id else _sound(str(id)),
    )


def thread_name(thread: object) -> str:
    """Return the name of a thread's book."""
    return _sound(str(thread))


def config_of(spot: Spot, id: str) -> RunnableConfig:
    """Return the configuration that names one checkpoint."""
    return {"configurable": {"thread_id": spot.thread, "checkpoint_ns": spot.namespace, "checkpoint_id": id}}


def checkpoints(space: str | None) -> str:
    """Return how the keys of all checkpoints begin."""
    return _CHECKPOINT if space is None else f"{_CHECKPOINT}{space}\0"


def checkpoint(space: str, id: str) -> str:
    """Return the key of a checkpoint."""
    return f"{_CHECKPOINT}{space}\0{_sound(id)}"


def writes(space: str, id: str) -> str:
    """Return how the keys of a checkpoint's writes begin."""
    return f"{_WRITE}{space}\0{id}\0"


def write(space: str, id: str, *, task: str, place: int) -> str:
    """Return the key of a write."""
    return f"{writes(space, id)}{_sound(task)}\0{place}"


def parts_of(key: str) -> tuple[str, str]:
    """Return the namespace and id in a checkpoint's key."""
    _, space, id = key.split("\0")
    return space, id


def _sound(name: str) -> str:
    if "\0" in name:
        raise Invalid(f"{name!r} holds a NUL", hint="name threads, namespaces and tasks without one")
    return name
