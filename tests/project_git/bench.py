"""A project under git, opened as a workspace, and what real git says of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

import lastgood
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.operation import Part, PartOutcome
from lastgood.restore.parts import git as part_of_git
from lastgood.settings import Settings
from lastgood.transaction import RestoreTransaction
from project_git import projects
from tools.judge import git_faults
from tools.values import not_none

ENVIRONMENT = {**projects.ENVIRONMENT, "GIT_OPTIONAL_LOCKS": "0"}
_STATUS = ("status", "--porcelain", "-uall", "--no-renames", "-z")


class Bench:
    """One project in a folder of its own, with a store beside it."""

    def __init__(
        self, folder: Path, *, name: str = "project", made: bool = False, settings: Settings | None = None
    ) -> None:
        self.folder = folder
        self.path = folder / name
        if not made:
            self.path.mkdir()
            self.git("init", "-q", "-b", "main")
        self.workspace = lastgood.open(
            self.path, store=folder / "store", settings=settings, maintenance="off"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.workspace.close()
        assert git_faults(self.folder / "store") == ""

    def git(self, *words: str, fails: bool = False, given: bytes = b"", at: str = ".") -> bytes:
        done = self.try_git(*words, given=given, at=at)
        assert (done.returncode != 0) == fails, (words, done.stdout, done.stderr)
        return done.stdout

    def try_git(self, *words: str, given: bytes = b"", at: str = ".") -> subprocess.CompletedProcess[bytes]:
        # No maintenance: newer gits leave it running beside what comes next.
        settings = ("protocol.file.allow=always", "advice.detachedHead=false", "maintenance.auto=false")
        command = ["git", *(word for one in settings for word in ("-c", one)), *words]
        return subprocess.run(
            command, cwd=self.path / at, env=ENVIRONMENT, input=given, capture_output=True, check=False
        )

    def write(self, path: str, content: str = "x\n") -> None:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def commit(self, path: str = "file", content: str = "x\n") -> str:
        self.write(path, content)
        self.git("add", "-f", path)
        self.git("commit", "-q", "-m", path)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").decode().strip()

    def branch(self) -> str:
        return self.git("rev-parse", "--abbrev-ref", "HEAD").decode().strip()

    def status(self) -> set[str]:
        """Return what git's status shows, as it shows it."""
        lines = self.git(*_STATUS).decode(errors="surrogateescape").split("\0")
        return {line for line in lines if line}

    def shown(self) -> set[str]:
        """Return the paths that git's status shows."""
        return {line[3:].rstrip("/") for line in self.status()}

    def save(self) -> Checkpoint:
        return self.workspace.save(allow_empty=True).checkpoint

    def dirty(self, checkpoint: Checkpoint | None = None) -> set[str] | None:
        """Return the paths that a checkpoint, or a new one, says status would show."""
        held = self.save() if checkpoint is None else checkpoint
        assert held.git is not None
        return None if held.git.dirty is None else {os.fsdecode(path) for path in held.git.dirty}

    def plan(self, target: Checkpoint) -> Part | None:
        context = self.workspace._context
        return next(iter(part_of_git.plan(context, target)), None)

    def planned(self, target: Checkpoint) -> Part:
        """Plan where something is to be done, all that is there now being saved."""
        self.save()
        return not_none(self.plan(target))

    def gone_on(self) -> Part:
        """Save, commit something else, and plan to go back."""
        self.commit("a")
        target = self.save()
        self.commit("b")
        return self.planned(target)

    def settle(self, part: Part) -> PartOutcome:
        part_of_git.refuse(self.workspace._context, part)
        with RestoreTransaction(self.workspace._context) as restoring:
            return part_of_git.settle(restoring, part)

    def back(self, target: Checkpoint) -> PartOutcome | None:
        """Bring files, HEAD and index back by the real door; None if HEAD and index were as they are."""
        report = self.workspace.restore(target.id, git=True)
        return next((part for part in report.parts if part.scope == "git"), None)
