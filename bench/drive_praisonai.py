"""Drives PraisonAI's CheckpointService through its Python interface."""

from __future__ import annotations

import asyncio

from praisonaiagents.checkpoints import CheckpointService

from drive import Request, serve


class Driver:
    """Keeps one service and one event loop, as a long-lived agent would."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def open(self, request: Request) -> object:
        self.service = CheckpointService(request["workspace"], storage_dir=request["store"])
        assert self.loop.run_until_complete(self.service.initialize())
        return None

    def save(self, request: Request) -> object:
        result = self.loop.run_until_complete(self.service.save(request["message"]))
        assert result.success, result.error
        return str(result.checkpoint.id)

    def unchanged(self, request: Request) -> object:
        result = self.loop.run_until_complete(self.service.save(request["message"]))
        assert not result.success, result
        return None

    def restore(self, request: Request) -> object:
        result = self.loop.run_until_complete(self.service.restore(request["ref"]))
        assert result.success, result.error
        return None


driver = Driver()
serve({"open": driver.open, "save": driver.save, "unchanged": driver.unchanged, "restore": driver.restore})
