"""A project's own repository, out of whose packs blobs can be copied."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lastgood.testing.git_store import SEALED

Blobs = dict[bytes, bytes]


class Project:
    """A repository with blobs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q")

    @property
    def objects(self) -> bytes:
        return os.fsencode(self.path / ".git/objects")

    @property
    def packs(self) -> list[Path]:
        return sorted((self.path / ".git/objects/pack").glob("*.pack"))

    def git(self, *arguments: str, given: bytes = b"") -> bytes:
        run = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *arguments]
        done = subprocess.run(run, cwd=self.path, env=SEALED, check=True, capture_output=True, input=given)
        return done.stdout

    def versions(self, count: int = 8) -> Blobs:
        """Commit versions of one file, and return them: id to content."""
        text = "".join(f"line {number}\n" for number in range(3000))
        contents = [(text + f"version {version}\n").encode() for version in range(count)]
        return self.add("file", contents)

    def add(self, name: str, contents: list[bytes]) -> Blobs:
        blobs = {}
        for content in contents:
            (self.path / name).write_bytes(content)
            self.git("add", ".")
            self.git("commit", "-qm", "x")
            blobs[bytes.fromhex(self.git("rev-parse", f"HEAD:{name}").decode().strip())] = content
        return blobs

    def pack(self, oids: Blobs | list[bytes], *options: str) -> None:
        """Make a pack of just these objects."""
        given = b"".join(oid.hex().encode() + b"\n" for oid in oids)
        self.git("pack-objects", "-q", *options, ".git/objects/pack/pack", given=given)
