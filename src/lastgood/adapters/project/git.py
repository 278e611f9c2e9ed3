"""Questions to the project's history that need git: its objects are read, its settings never."""

from __future__ import annotations

import os

from lastgood.adapters.hermetic import SEALED
from lastgood.adapters.project import refs
from lastgood.adapters.project.repository import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.project.repository import Repository

DEFAULT_SEARCH_PATH = b"/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
_HEX = frozenset("0123456789abcdef")
_DIGEST_SIZE = 20  # our repository cannot borrow from one with SHA-256
_PATIENCE_SECONDS = 10


class ReadOnlyGit:
    """The project's repository; where git is needed, it is run in a repository of ours that borrows objects.

    ``repository`` is that repository of ours, ``search_path`` the ``PATH`` on which git is looked for.
    """

    def __init__(self, repository: bytes, *, search_path: bytes = DEFAULT_SEARCH_PATH) -> None:
        self._repository = repository
        self._search_path = search_path

    def head(self, root: bytes) -> str | None:
        """Return the commit that HEAD stands for, None without a repository or commit."""
        found = find(root)
        return None if found is None else refs.head(found)[0]

    def commits_between(self, root: bytes, old: str, new: str) -> int | None:
        """Return by how many commits HEAD moved; None if that cannot be told.

        New commits count; where there are none, HEAD went back, and those that it left count.
        """
        if not (_is_oid(old) and _is_oid(new)):
            return None
        if old == new:
            return 0
        found = find(root)
        if found is None or found.digest_size != _DIGEST_SIZE:
            return None
        counts = self._ask(found, ["rev-list", "--count", "--left-right", f"{old}...{new}", "--"]).split()
        if len(counts) != 2 or not all(count.isdigit() for count in counts):
            return None
        gone, come = (int(count) for count in counts)
        return come or gone

    def _ask(self, found: Repository, arguments: list[str]) -> bytes:
        import shutil
        import subprocess

        program = shutil.which("git", path=os.fsdecode(self._search_path))
        if program is None:
            return b""
        environment = {
            b"PATH": self._search_path,
            **SEALED,
            b"GIT_DIR": self._repository,
            b"GIT_OBJECT_DIRECTORY": found.objects,
            b"GIT_SHALLOW_FILE": found.common_dir + b"/shallow",
        }
        try:
            done = subprocess.run(  # noqa: S603 - our own arguments; both ids are proven to be hex
                [program, *arguments],
                cwd=self._repository,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE_SECONDS,
                check=False,
            )
        except (subprocess.TimeoutExpired, OSError):
            return b""
        return done.stdout if done.returncode == 0 else b""


def _is_oid(oid: str) -> bool:
    return len(oid) == 2 * _DIGEST_SIZE and _HEX.issuperset(oid)
