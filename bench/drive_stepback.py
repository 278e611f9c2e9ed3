"""Drives stepback through its engine."""

from __future__ import annotations

from pathlib import Path

from stepback.engine import Engine

from drive import Request, serve


class Driver:
    """Keeps one engine, as `stepback run` does."""

    def open(self, request: Request) -> object:
        self.engine = Engine(Path(request["workspace"]))
        self.engine.start_session()
        return None

    def save(self, request: Request) -> object:
        made = self.engine.checkpoint(label=request["message"])
        assert made is not None
        return str(made.id)

    def unchanged(self, request: Request) -> object:
        assert self.engine.checkpoint() is None, request
        return None

    def restore(self, request: Request) -> object:
        (target,) = [made for made in self.engine.state.checkpoints if str(made.id) == request["ref"]]
        self.engine.rewind(target)
        return None


driver = Driver()
serve({"open": driver.open, "save": driver.save, "unchanged": driver.unchanged, "restore": driver.restore})
