"""Questions to the project's history that need git: its objects are read, its settings never."""

from __future__ import annotations

import os

from lastgood.adapters.project import refs
from lastgood.adapters.project.repository import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.project.repository import Repository

_HEX = frozenset("0123456789abcdef")
_PATIENCE_SECONDS = 10


class ReadOnlyGit:
    """The project's repository, asked by way of an empty one of ours that borrows its objects.

    ``temporary`` is a folder of ours for that empty repository, ``search_path`` the ``PATH`` on
    which git is looked for.
    """

    def __init__(self, *, temporary: bytes, search_path: str) -> None:
        self._temporary = temporary
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
        found = find(root)
        if found is None:
            return None
        said = None if old == new else self._count(found, f"{old}...{new}")
        if said is None:
            return 0 if old == new else None
        left, right = said
        return right or left

    def _count(self, found: Repository, span: str) -> tuple[int, int] | None:
        import tempfile

        try:
            with tempfile.TemporaryDirectory(
                prefix="project-", dir=os.fsdecode(self._temporary), ignore_cleanup_errors=True
            ) as empty:
                _lay_out(empty, found)
                said = self._ask(empty, found, ["rev-list", "--count", "--left-right", span, "--"])
        except OSError:
            return None
        counts = said.split()
        if len(counts) != 2 or not all(count.isdigit() for count in counts):
            return None
        return int(counts[0]), int(counts[1])

    def _ask(self, empty: str, found: Repository, arguments: list[str]) -> bytes:
        import shutil
        import subprocess

        program = shutil.which("git", path=self._search_path)
        if program is None:
            return b""
        environment = {
            b"PATH": os.fsencode(self._search_path),
            b"LC_ALL": b"C",
            b"HOME": b"/nonexistent",
            b"GIT_CONFIG_NOSYSTEM": b"1",
            b"GIT_CONFIG_GLOBAL": b"/dev/null",
            b"GIT_ATTR_NOSYSTEM": b"1",
            b"GIT_TERMINAL_PROMPT": b"0",
            b"GIT_OPTIONAL_LOCKS": b"0",
            b"GIT_NO_LAZY_FETCH": b"1",
            b"GIT_NO_REPLACE_OBJECTS": b"1",
            b"GIT_DIR": os.fsencode(empty),
            b"GIT_OBJECT_DIRECTORY": found.objects,
            b"GIT_SHALLOW_FILE": found.common_dir + b"/shallow",
        }
        try:
            done = subprocess.run(  # noqa: S603 - our own arguments; both ids are proven to be hex
                [program, *arguments],
                cwd=empty,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return b""
        return done.stdout if done.returncode == 0 else b""


def _is_oid(oid: str) -> bool:
    return len(oid) in {40, 64} and _HEX.issuperset(oid)


def _lay_out(empty: str, found: Repository) -> None:
    """Write the least that git takes for a repository."""
    os.mkdir(os.path.join(empty, "refs"))
    os.mkdir(os.path.join(empty, "objects"))
    settings = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
    if found.digest_size == 32:
        settings = (
            "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
        )
    for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", settings)):
        with open(os.path.join(empty, name), "w", encoding="ascii") as file:
            file.write(text)
