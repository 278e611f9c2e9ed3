"""The asynchronous face: the same verbs, awaited, under asyncio and under trio.

>>> import asyncio
>>> async def main():
...     async with lastgood.open_async(project, store=store) as workspace:
...         report = await workspace.save("before the refactor")
...         return report.created
>>> asyncio.run(main())
True

Cancelling an awaited call never leaves it running: it has either not started or is over when the
caller hears of it.
"""

from lastgood.aio.session import AsyncBlock, AsyncOnce, AsyncSession
from lastgood.aio.workspace import AsyncLedger, AsyncWorkspace, Opening, open_async

__all__ = [
    "AsyncBlock",
    "AsyncLedger",
    "AsyncOnce",
    "AsyncSession",
    "AsyncWorkspace",
    "Opening",
    "open_async",
]
