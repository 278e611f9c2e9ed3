"""Real git repositories of every sort."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_EDITOR": "true",
}


class Project:
    """A repository with a worktree, driven by real git."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = os.fsencode(path)

    def git(self, *arguments: str, given: bytes = b"", fails: bool = False) -> str:
        command = ["git", "-c", "protocol.file.allow=always", *arguments]
        done = subprocess.run(
            command, cwd=self.path, env=ENVIRONMENT, input=given, capture_output=True, check=False
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout.decode(errors="surrogateescape").strip()

    def write(self, path: str, content: bytes = b"x\n") -> Path:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def commit(self, path: str = "file", content: bytes = b"x\n") -> str:
        self.write(path, content)
        self.git("add", "-f", path)
        self.git("commit", "-q", "-m", path)
        return self.git("rev-parse", "HEAD")


def make_project(path: Path, *options: str) -> Project:
    path.mkdir()
    project = Project(path.resolve())
    project.git("init", "-q", "-b", "main", *options)
    return project
