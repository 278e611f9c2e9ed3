"""Drives the least that a save or a restore takes, in a process of its own like the others."""

from __future__ import annotations

import zlib
from hashlib import sha1

from drive import Request, append_to_ten, files_below, serve
from least import Asking
from promised import Promised

try:
    from isal.isal_zlib import compress, decompress
except ImportError:
    compress, decompress = zlib.compress, zlib.decompress


class Driver:
    """Keeps one workspace open."""

    def open(self, request: Request) -> object:
        self.root = request["workspace"]
        self.least = (
            Asking(self.root, request["store"])
            if request.get("asking")
            else Promised(self.root, request["store"], sha1=sha1, compress=compress, decompress=decompress)
        )
        return None

    def save(self, _request: Request) -> object:
        return self.least.save()

    def unchanged(self, _request: Request) -> object:
        self.least.unchanged()
        return None

    def restore(self, request: Request) -> object:
        return self.least.restore(request["ref"])["operation"]

    def burst(self, request: Request) -> object:
        """Change ten files and save, again and again."""
        paths = files_below(self.root)
        for turn in range(int(request["count"])):
            append_to_ten(paths, turn)
            self.least.save()
        return None


driver = Driver()
serve(
    {
        "open": driver.open,
        "save": driver.save,
        "unchanged": driver.unchanged,
        "restore": driver.restore,
        "burst": driver.burst,
    }
)
