"""A git engine in a folder of its own, and real git to judge what it writes."""

from __future__ import annotations

import os
import subprocess

from lastgood.objects.engine import DEFAULT_SEARCH_PATH, GitEngine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

SEALED = {
    "PATH": os.fsdecode(DEFAULT_SEARCH_PATH),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class GitStore:
    """An engine, the folders it lives in, and git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root: Path = folder / "objects.git"
        self.packs: Path = self.root / "objects" / "pack"
        self.temporary: Path = folder / "tmp"
        self.engine: GitEngine = GitEngine.create(
            os.fsencode(self.root), temporary=os.fsencode(self.temporary)
        )
        self._opened = [self.engine]

    def open(self, *, search_path: bytes | None = None) -> GitEngine:
        """Open the same folder again, as another process would."""
        opened = GitEngine(
            os.fsencode(self.root),
            temporary=os.fsencode(self.temporary),
            search_path=DEFAULT_SEARCH_PATH if search_path is None else search_path,
        )
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        """Let go of every file that an engine opened here holds."""
        for engine in self._opened:
            engine.close()

    def git(self, *arguments: str, feed: bytes = b"") -> bytes:
        """Run real git in the repository and return what it printed; it must succeed."""
        command = ["git", "--git-dir", str(self.root), *arguments]
        return subprocess.run(  # noqa: S603 - tests name the arguments
            command, input=feed, capture_output=True, check=True, env=SEALED, cwd=self.root
        ).stdout

    def judge(self) -> None:
        """Have git prove the whole repository."""
        self.git("fsck", "--full", "--strict")
        for index in self.packs.glob("*.idx"):
            self.git("verify-pack", str(index))

    def pack_files(self) -> list[Path]:
        """Return the packs, sorted by name."""
        return sorted(self.packs.glob("*.pack"))
