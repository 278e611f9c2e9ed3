from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from lastgood.adapters.git.engine import GitEngine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEALED = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Store:
    """A git engine in a folder of its own, and real git to judge it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "objects.git"
        self.packs = self.root / "objects" / "pack"
        self.temporary = folder / "tmp"
        self.engine = GitEngine.create(os.fsencode(self.root), temporary=os.fsencode(self.temporary))

    def open(self, *, search_path: bytes | None = None) -> GitEngine:
        """Open the same folder again, as another process would."""
        if search_path is None:
            return GitEngine(os.fsencode(self.root), temporary=os.fsencode(self.temporary))
        return GitEngine(
            os.fsencode(self.root), temporary=os.fsencode(self.temporary), search_path=search_path
        )

    def git(self, *arguments: str, feed: bytes = b"") -> bytes:
        """Run real git in the repository; it must succeed."""
        command = ["git", "--git-dir", str(self.root), *arguments]
        return subprocess.run(command, input=feed, capture_output=True, check=True, env=SEALED).stdout

    def judge(self) -> None:
        """Have git prove the whole repository."""
        self.git("fsck", "--full", "--strict")
        for index in self.packs.glob("*.idx"):
            self.git("verify-pack", str(index))

    def pack_files(self) -> list[Path]:
        return sorted(self.packs.glob("*.pack"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.engine.close()
