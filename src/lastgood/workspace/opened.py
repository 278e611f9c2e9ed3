"""What every group of verbs stands on: the ports of one workspace, and those who observe it."""

from __future__ import annotations

import gc
import os
from _thread import _count

from lastgood.errors import LastgoodError, Usage, crowded
from lastgood.model.operation import Event
from lastgood.view import View
from lastgood.workspace.arguments import scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self, TypeVar

    from lastgood.context import Context
    from lastgood.model.operation import EventType, Observer
    from lastgood.model.report import HealthNote
    from lastgood.settings import Settings
    from lastgood.workspace import Upkeep

    Report = TypeVar("Report")
    Kind = TypeVar("Kind", bound="OpenWorkspace")
    from lastgood.workspace.arguments import PathLike


class WorkspaceState:
    """What all objects of one open workspace share."""

    def __init__(
        self,
        context: Context,
        *,
        upkeep: Upkeep,
        recompose: Callable[[], Context],
        release: Callable[[], None],
        rescued: tuple[str, ...] = (),
    ) -> None:
        self.context = context
        self.upkeep = upkeep
        self.recompose = recompose
        self.release = release
        self.rescued = rescued
        self.observers: list[Observer] = []


class OpenWorkspace:
    """One open workspace, as those see it who work in a ``session``; the groups of verbs derive from it."""

    def __init__(self, state: WorkspaceState, *, session: str | None = None) -> None:
        self._state = state
        self._session = session
        # The context that was last looked at, as it is within the session, and a view of it.
        self._known: tuple[Context, Context, View] | None = None

    @property
    def _context(self) -> Context:
        return self._seen()[1]

    @property
    def _view(self) -> View:
        return self._seen()[2]

    def _seen(self) -> tuple[Context, Context, View]:
        base, known = self._state.context, self._known
        if known is None or known[0] is not base:
            context = base if self._session is None else base.replace(session=self._session)
            self._known = known = base, context, self._view_of(context)
        return known

    def _as(self, group: type[Kind]) -> Kind:
        """Return another group of verbs of the same workspace, within the same session."""
        return group(self._state, session=self._session)

    def _use(self, context: Context) -> None:
        """Have all objects of the workspace go on with a context, each within its own session."""
        self._state.context = context.replace(session=self._state.context.session)

    def _view_of(self, context: Context) -> View:
        return View(
            catalogue=context.catalogue,
            objects=context.engine_of,
            key=context.key,
            clock=context.clock,
            work=context.work_of,
            session=self._session_at_hand,
        )

    def _session_at_hand(self) -> str | None:
        from lastgood.lease import session_at_hand

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

    @property
    def remarks(self) -> tuple[HealthNote, ...]:
        """What was wrong with configuration files, or the store, when it was opened; `status` says it too."""
        return self._context.remarks

    def close(self) -> None:
        """Let go of the store; harmless when repeated."""
        self._state.release()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell an observer what happened, after the fact; return the call that ends it.

        An exception of an observer never harms the operation.
        """
        if not callable(observer):
            raise Usage(f"the observer is {type(observer).__name__}, not a call", hint="hand over a function")
        observers = self._state.observers
        observers.append(observer)
        return lambda: observers.remove(observer) if observer in observers else None

    def _paths(self, paths: Sequence[PathLike]) -> tuple[bytes, ...]:
        return scope(paths, self._context.root)

    def _told(self, type: EventType, work: Callable[[], Report]) -> Report:
        began = self._context.clock.now() if self._state.observers else None
        try:
            report = _undelayed(work)
        except (LastgoodError, OSError) as fault:
            error = crowded(fault) or fault
            if isinstance(error, LastgoodError):
                self._tell("failed", error, began=began, attempted=type)
            if error is fault:
                raise
            raise error from fault
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
        if not self._state.observers:
            return
        event = Event(
            type=type,
            workspace=self.path,
            report=report,
            began=began,
            ended=self._context.clock.now(),
            attempted=attempted,
        )
        for observer in tuple(self._state.observers):
            try:  # noqa: SIM105 - contextlib costs start-up time
                observer(event)
            except Exception:  # noqa: BLE001, S110 - an observer's fault never harms the operation
                pass


def _undelayed(work: Callable[[], Report]) -> Report:
    """Do some work without waiting long for the interpreter where other threads are busy with it."""
    if not _count():
        return _uncollected(work)
    from lastgood.cancellation import SHORT_SWITCH_INTERVAL

    with SHORT_SWITCH_INTERVAL:
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
