"""Drives lastgood through its Python interface."""

from __future__ import annotations

import sys
from contextlib import ExitStack

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/src")

import lastgood
from drive import Request, append_to_ten, files_below, serve


class Driver:
    """Keeps one workspace open."""

    def __init__(self) -> None:
        self.stack = ExitStack()

    def open(self, request: Request) -> object:
        self.stack.close()
        self.root = request["workspace"]
        self.workspace = self.stack.enter_context(
            lastgood.open(request["workspace"], store=request["store"], watch="watch" in request)
        )
        return None

    def save(self, request: Request) -> object:
        return self.workspace.save(request["message"], allow_empty=True).checkpoint.id

    def unchanged(self, request: Request) -> object:
        report = self.workspace.save("", kind="auto")
        assert not report.created, request
        return None

    def restore(self, request: Request) -> object:
        return self.workspace.restore(request["ref"]).operation

    def maintain(self, _request: Request) -> object:
        self.workspace.maintain()
        return None

    def burst(self, request: Request) -> object:
        """Change ten files and save, again and again."""
        paths = files_below(self.root)
        for turn in range(int(request["count"])):
            append_to_ten(paths, turn)
            self.workspace.save("burst")
        return None


driver = Driver()
serve(
    {
        "open": driver.open,
        "save": driver.save,
        "unchanged": driver.unchanged,
        "restore": driver.restore,
        "maintain": driver.maintain,
        "burst": driver.burst,
    }
)
