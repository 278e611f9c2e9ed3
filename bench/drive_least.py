"""Drives the least that a save or a restore takes, in a process of its own like the others."""

from __future__ import annotations

from drive import Request, serve
from least import Believed, Least


class Driver:
    """Keeps one workspace; one that is not to be believed only asks."""

    def open(self, request: Request) -> object:
        kind = Believed if "believed" in request else Least
        self.least = kind(request["workspace"], request["store"])
        return None

    def save(self, _request: Request) -> object:
        if isinstance(self.least, Believed):
            self.least.save()
        return None

    def unchanged(self, _request: Request) -> object:
        self.least.unchanged()
        return None

    def restore(self, _request: Request) -> object:
        assert isinstance(self.least, Believed)
        self.least.restore()
        return None


driver = Driver()
serve({"open": driver.open, "save": driver.save, "unchanged": driver.unchanged, "restore": driver.restore})
