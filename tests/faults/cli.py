"""The command line as a person or program meets it: its exit code, its two streams."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.command import command
from tools.forking import read_at_start
from tools.forks import NOBODY, be_nobody, said_by_fork

SOURCES = Path(__file__).parent.parent.parent / "src"


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True)
class Bench:
    """A workspace, a store, and the program between them."""

    workspace: Path
    store: Path
    home: Path

    def run(
        self, *arguments: str, variables: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Answer:
        """Run ``lastgood`` with arguments as they are."""
        environment = {
            **read_at_start(),
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LASTGOOD_MAINTENANCE": "off",
            **(variables or {}),
        }
        done = command(arguments, folder=cwd or self.home, environment=environment)
        return Answer(done.code, os.fsdecode(done.out_bytes), os.fsdecode(done.err_bytes))

    def __call__(self, *arguments: str, variables: Mapping[str, str] | None = None) -> Answer:
        """Run ``lastgood`` for this workspace and store."""
        return self.run(
            "--store", str(self.store), "-C", str(self.workspace), *arguments, variables=variables
        )

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run a verb that has to succeed, and return its document."""
        answer = self(*arguments, "--json")
        assert answer.code in {0, 3}, answer
        return answer.document

    def save(self, *arguments: str) -> str:
        """Save and return the id."""
        found = self.json("save", *arguments)["checkpoint"]["id"]
        assert isinstance(found, str)
        return found


def git(directory: Path, *arguments: str) -> str:
    """Run the user's git in a folder."""
    settings = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=directory, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def as_nobody(work: Callable[[], str], *, folder: Path) -> str:
    """Do something as another user, who is given a folder, and return what it said.

    Everything is imported before: another user may not be able to read the interpreter's library.
    Without root it is done as ourselves, which is no root either.
    """
    if os.geteuid() != 0:
        return work()
    import_everything()
    for above in folder.parents:
        above.chmod(above.stat().st_mode | 0o011)
    os.chown(folder, NOBODY, NOBODY)

    def at_home() -> str:
        be_nobody()
        os.environ["HOME"] = str(folder)
        return work()

    return said_by_fork(at_home)


def import_everything() -> None:
    """Load every module of the package and what it would load later."""
    import getpass  # noqa: F401
    import hashlib  # noqa: F401
    import pkgutil
    import sqlite3  # noqa: F401
    import tempfile  # noqa: F401
    from importlib import import_module

    import lastgood

    for module in pkgutil.walk_packages(lastgood.__path__, "lastgood."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
