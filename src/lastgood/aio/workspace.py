"""The verbs, awaited: each is one line, and all that it does is done by the synchronous one."""

from __future__ import annotations

from functools import partial, wraps
from typing import ParamSpec

from lastgood.aio.bridge import AsyncFace, Result, RunningCalls, awaited, plain_observer
from lastgood.aio.calls import present_bridge
from lastgood.aio.session import AsyncSession
from lastgood.errors import Usage
from lastgood.ledger import Ledger
from lastgood.workspace import Workspace, open_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType
    from typing import Any, Concatenate, Final, Self

    from lastgood.host import Clock
    from lastgood.ledger import LedgerReader, LedgerWriter
    from lastgood.literals import Maintenance
    from lastgood.model.calls import Observer
    from lastgood.model.checkpoint import HealthNote
    from lastgood.model.operation import Event
    from lastgood.settings import Settings
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.session import OpenSession


# --- A ledger, awaited ---


class AsyncLedger(AsyncFace[Ledger]):
    """One space of a workspace's ledger, for programs with an event loop."""

    async def look(self, work: Callable[[LedgerReader], Result]) -> Result:
        """Ask something of one moment; ``work`` is called in another thread."""
        return await self._call(partial(self._inner.look, work))

    async def change(self, work: Callable[[LedgerWriter], Result]) -> Result:
        """Change something in one transaction, durable on return; nothing is changed if it raises.

        ``work`` is called in another thread.
        """
        return await self._call(partial(self._inner.change, work), whole=True)

    accept: Final = awaited(Ledger.accept, whole=True)


# --- The verbs, awaited: each is one line, and all that it does is done by the synchronous one ---

Words = ParamSpec("Words")


def _entered(
    verb: Callable[Concatenate[Any, Words], OpenSession[Workspace]],
) -> Callable[Concatenate[AsyncWorkspace, Words], AsyncSession[AsyncWorkspace]]:
    """Return the verb that makes a session; only the beginning and the end of that are awaited."""

    @wraps(verb)
    def session(
        face: AsyncWorkspace, /, *args: Words.args, **words: Words.kwargs
    ) -> AsyncSession[AsyncWorkspace]:
        opened = verb(face._inner, *args, **words)  # noqa: SLF001 - it is a method of it
        running = face._running  # noqa: SLF001 - the same
        return AsyncSession(opened, running=running, face=partial(type(face), running=running))

    session.__doc__ = str(verb.__doc__).replace("``with``", "``async with``")
    return session


class AsyncWorkspace(AsyncFace[Workspace]):
    """A folder whose states are kept, for programs with an event loop; made by `lastgood.open_async`.

    Its verbs are those of `Workspace`, awaited; there they stand by what they are for. Several may run
    at once. It belongs to the loop that it was opened in.

    >>> import asyncio
    >>> async def main():
    ...     async with lastgood.open_async(project, store=store) as workspace:
    ...         before = (await workspace.save("before the refactor")).checkpoint
    ...         (project / "notes.txt").write_text("ruined")
    ...         report = await workspace.restore(before.id)
    ...         return report.omissions
    >>> asyncio.run(main())
    ()
    """

    save: Final = awaited(Workspace.save)
    check: Final = awaited(Workspace.check)

    list: Final = awaited(Workspace.list)
    stands_at: Final = awaited(Workspace.stands_at)
    get: Final = awaited(Workspace.get)
    previous: Final = awaited(Workspace.previous)
    entries: Final = awaited(Workspace.entries)
    read: Final = awaited(Workspace.read)
    log: Final = awaited(Workspace.log)
    blame: Final = awaited(Workspace.blame)
    changed_paths: Final = awaited(Workspace.changed_paths)
    conversation: Final = awaited(Workspace.conversation)
    transcript: Final = awaited(Workspace.transcript)
    diff: Final = awaited(Workspace.diff)
    operations: Final = awaited(Workspace.operations)
    status: Final = awaited(Workspace.status)

    plan_restore: Final = awaited(Workspace.plan_restore)
    preview: Final = awaited(Workspace.preview)
    apply: Final = awaited(Workspace.apply)
    restore: Final = awaited(Workspace.restore)
    rewind_target: Final = awaited(Workspace.rewind_target)
    preview_rewind: Final = awaited(Workspace.preview_rewind)
    preview_rewinds: Final = awaited(Workspace.preview_rewinds)
    changed_beside: Final = awaited(Workspace.changed_beside)
    at_work: Final = awaited(Workspace.at_work)
    plan_rewind: Final = awaited(Workspace.plan_rewind)
    rewind: Final = awaited(Workspace.rewind)
    plan_undo: Final = awaited(Workspace.plan_undo)
    plan_redo: Final = awaited(Workspace.plan_redo)
    undo: Final = awaited(Workspace.undo)
    redo: Final = awaited(Workspace.redo)
    recover: Final = awaited(Workspace.recover, whole=True)
    steps: Final = awaited(Workspace.steps)

    delete: Final = awaited(Workspace.delete, whole=True)
    pin: Final = awaited(Workspace.pin, whole=True)
    unpin: Final = awaited(Workspace.unpin, whole=True)
    name: Final = awaited(Workspace.name, whole=True)
    verify: Final = awaited(Workspace.verify, whole=True)
    plan_prune: Final = awaited(Workspace.plan_prune)
    prune: Final = awaited(Workspace.prune, whole=True)
    plan_purge: Final = awaited(Workspace.plan_purge)
    purge: Final = awaited(Workspace.purge, whole=True)
    delete_unkept: Final = awaited(Workspace.delete_unkept, whole=True)
    store_sizes: Final = awaited(Workspace.store_sizes)
    maintain: Final = awaited(Workspace.maintain, whole=True)

    workspaces: Final = awaited(Workspace.workspaces)
    attach: Final = awaited(Workspace.attach, whole=True)
    plan_forget: Final = awaited(Workspace.plan_forget)
    forget: Final = awaited(Workspace.forget, whole=True)
    export: Final = awaited(Workspace.export, whole=True)
    import_file: Final = awaited(Workspace.import_file, whole=True)

    run: Final = awaited(Workspace.run, live="observer")

    report: Final = awaited(Workspace.report)
    report_page: Final = awaited(Workspace.report_page)
    examine: Final = awaited(Workspace.examine)

    session_start: Final = awaited(Workspace.session_start, whole=True)
    session_end: Final = awaited(Workspace.session_end, whole=True)
    session_break_off: Final = awaited(Workspace.session_break_off, whole=True)
    session_heartbeat: Final = awaited(Workspace.session_heartbeat, whole=True)
    sessions: Final = awaited(Workspace.sessions)
    get_session: Final = awaited(Workspace.get_session)
    progress: Final = awaited(Workspace.progress)
    progress_report: Final = awaited(Workspace.progress_report)
    progress_set: Final = awaited(Workspace.progress_set, whole=True)
    tasks: Final = awaited(Workspace.tasks)
    task_start: Final = awaited(Workspace.task_start, whole=True)
    task_done: Final = awaited(Workspace.task_done, whole=True)
    task_fail: Final = awaited(Workspace.task_fail, whole=True)
    task_skip: Final = awaited(Workspace.task_skip, whole=True)
    feature_start: Final = awaited(Workspace.feature_start, whole=True)
    feature_done: Final = awaited(Workspace.feature_done, whole=True)
    sprint_start: Final = awaited(Workspace.sprint_start, whole=True)
    sprint_done: Final = awaited(Workspace.sprint_done, whole=True)
    step_start: Final = awaited(Workspace.step_start, whole=True)
    step_end: Final = awaited(Workspace.step_end, whole=True)
    last_step: Final = awaited(Workspace.last_step)

    session: Final = _entered(Workspace.session)

    async def ledger(self, space: str) -> AsyncLedger:
        """Return one space of this workspace's ledger: books of entries for a program of yours.

        What it keeps is private to the store, shared between processes, and proven when it is read:
        whoever alters it without this user's key is found out (`Damaged`).
        """
        ledger = await self._call(partial(self._inner.ledger, space))
        return AsyncLedger(ledger, running=self._running)

    def within(self, session: str) -> Self:
        """Return this workspace as those see it who work in a session; it shares everything else."""
        return type(self)(self._inner.within(session), running=self._running)

    @property
    def path(self) -> str:
        """The workspace's real path."""
        return self._inner.path

    @property
    def store(self) -> str:
        """The store's real path."""
        return self._inner.store

    @property
    def settings(self) -> Settings:
        """What configuration decided."""
        return self._inner.settings

    @property
    def remarks(self) -> tuple[HealthNote, ...]:
        """What was wrong with configuration files, or the store, when it was opened; `status` says it too."""
        return self._inner.remarks

    @property
    def watching(self) -> bool:
        """Whether what changes is heard of here (``watch=True``), so that nothing else is looked at."""
        return self._inner.watching

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell an observer what happened, after the fact; return the call that ends it.

        It is called in the event loop's own thread, before the verb returns to its caller; it is a plain
        call, such as a queue's ``put_nowait``. An exception of an observer never harms the operation.
        """
        told: Callable[[Event], None] = partial(self._running.bridge().tell, plain_observer(observer))
        return self._inner.subscribe(told)

    async def close(self) -> None:
        """Let go of the store when no call is under way any more; harmless when repeated.

        Whichever loop it is called in: that of the workspace may have ended.
        """
        await present_bridge().certain(partial(self._running.dismiss, self._inner.close))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


# --- Opens a workspace for programs with an event loop ---


def open_async(
    path: PathLike | None = None,
    *,
    store: PathLike | None = None,
    allow_root: bool = False,
    environment: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    maintenance: Maintenance | None = None,
    clock: Clock | None = None,
    repair: bool = False,
    watch: bool = False,
) -> Opening:
    """Open a workspace under asyncio or trio: ``async with lastgood.open_async(path) as workspace``.

    Everything it is given means what it means to `lastgood.open`. Awaited instead, it returns the
    workspace, which is then closed by ``await workspace.close()``.
    """
    return Opening(
        partial(
            open_workspace,
            path,
            store=store,
            allow_root=allow_root,
            environment=environment,
            settings=settings,
            maintenance=maintenance,
            clock=clock,
            repair=repair,
            watch=watch,
        )
    )


class Opening:
    """A workspace that is about to be opened: to be entered by ``async with``, or awaited."""

    def __init__(self, opening: Callable[[], Workspace]) -> None:
        self._opening = opening
        self._opened: AsyncWorkspace | None = None

    def __await__(self) -> Generator[Any, Any, AsyncWorkspace]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncWorkspace:
        if self._opened is not None:
            raise Usage("this workspace was opened already", hint="call lastgood.open_async again")
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _open(self) -> AsyncWorkspace:
        bridge = present_bridge()
        opened: list[Workspace] = []
        try:
            await bridge.call(lambda: opened.append(self._opening()), whole=True)
        except BaseException:
            for workspace in opened:  # cancelled just when it was open
                await bridge.certain(workspace.close)
            raise
        return AsyncWorkspace(opened[0], running=RunningCalls(lambda: bridge))
