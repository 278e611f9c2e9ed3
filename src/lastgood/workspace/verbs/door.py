"""What every group of verbs stands on: the ports of one workspace, and those who observe it."""

from __future__ import annotations

import gc
import os
from _thread import _count

from lastgood.errors import LastgoodError, Usage
from lastgood.model.event import Event
from lastgood.view import View
from lastgood.workspace.paths import scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self, TypeVar

    from lastgood.model.event import EventType, Observer
    from lastgood.model.settings import Settings
    from lastgood.ports.context import Context
    from lastgood.workspace.upkeep import Upkeep

    Report = TypeVar("Report")
    from lastgood.workspace.paths import PathLike


class Door:
    """One open workspace; the groups of verbs derive from it."""

    def __init__(
        self,
        context: Context,
        *,
        upkeep: Upkeep,
        recompose: Callable[[], Context],
        release: Callable[[], None],
        rescued: tuple[str, ...] = (),
    ) -> None:
        self._upkeep = upkeep
        self._rescued = rescued
        self._recompose = recompose
        self._release = release
        self._observers: list[Observer] = []
        self._use(context)

    def _use(self, context: Context) -> None:
        self._context = context
        self._view = View(
            catalogue=context.catalogue,
            objects=context.engine_of,
            key=context.key,
            clock=context.clock,
            work=context.work_of,
            session=self._session_at_hand,
        )

    def _session_at_hand(self) -> str | None:
        from lastgood.actions.standing import session_at_hand

        return session_at_hand(self._context)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The workspace's real path."""
        return os.fsdecode(self._context.root)

    @property
    def store(self) -> str:
        """The store's real path."""
        return os.fsdecode(self._context.store)

    @property
    def settings(self) -> Settings:
        """What configuration decided."""
        return self._context.settings

    def close(self) -> None:
        """Let go of the store; harmless when repeated."""
        self._release()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell an observer what happened, after the fact; return the call that ends it.

        An exception of an observer never harms the operation.
        """
        if not callable(observer):
            raise Usage(f"the observer is {type(observer).__name__}, not a call", hint="hand over a function")
        self._observers.append(observer)
        return lambda: self._observers.remove(observer) if observer in self._observers else None

    def _paths(self, paths: Sequence[PathLike]) -> tuple[bytes, ...]:
        return scope(paths, self._context.root)

    def _told(self, type: EventType, work: Callable[[], Report]) -> Report:
        began = self._context.clock.now() if self._observers else None
        try:
            report = _undelayed(work)
        except LastgoodError as error:
            self._tell("failed", error, began=began, attempted=type)
            raise
        self._tell(type, report, began=began)
        return report

    def _tell(
        self,
        type: EventType,
        report: object,
        *,
        began: int | None = None,
        attempted: EventType | None = None,
    ) -> None:
        if not self._observers:
            return
        event = Event(
            type=type,
            workspace=self.path,
            report=report,
            began=began,
            ended=self._context.clock.now(),
            attempted=attempted,
        )
        for observer in tuple(self._observers):
            try:  # noqa: SIM105 - contextlib costs start-up time
                observer(event)
            except Exception:  # noqa: BLE001, S110 - an observer's fault never harms the operation
                pass


def _undelayed(work: Callable[[], Report]) -> Report:
    """Do some work without waiting long for the interpreter where other threads are busy with it."""
    if not _count():
        return _uncollected(work)
    from lastgood.adapters.turns import SHORT_TURNS

    with SHORT_TURNS:
        return work()


def _uncollected(work: Callable[[], Report]) -> Report:
    """Do some work without looking for cycles: it makes none, and in a large program each look takes long."""
    if not gc.isenabled():
        return work()
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()
