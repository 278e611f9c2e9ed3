"""Opens a workspace for programs with an event loop."""

from __future__ import annotations

from functools import partial

from lastgood.aio.loops import present_bridge
from lastgood.aio.workspace import AsyncWorkspace, face_of
from lastgood.errors import Usage
from lastgood.workspace import open_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import TracebackType
    from typing import Any

    from lastgood.model.settings import Settings
    from lastgood.ports.host import Clock
    from lastgood.workspace import Workspace
    from lastgood.workspace.paths import PathLike
    from lastgood.workspace.upkeep import Maintenance


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
        return face_of(opened[0], bridge)
