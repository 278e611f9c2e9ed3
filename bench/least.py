"""The least that a Python program can do for a save or a restore: the calls that nobody is spared, bare.

It asks for the state of every file by names that it knows, reads and hashes what changed, writes it
compressed, syncs as a durable save has to, and commits a row. No rules, no times that prove anything, no
trees, no locks, no conversation, nothing that says what it did.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from _sha1 import sha1

import trees

_COUNT = 10
Listed = list[tuple[str, list[str]]]


class Least:
    """One workspace, and a store that can be thrown away."""

    def __init__(self, root: str, store: str) -> None:
        self.root, self.store = root, store
        os.makedirs(f"{store}/packs", exist_ok=True)
        self.listed: Listed = [(folder, folders + names) for folder, folders, names in os.walk(root)]
        self.files = sum(len(names) for _, _, names in os.walk(root))
        self.rows = sqlite3.connect(f"{store}/rows", isolation_level=None)
        self.rows.execute("PRAGMA journal_mode = WAL")
        self.rows.execute("PRAGMA synchronous = FULL")
        self.rows.execute("CREATE TABLE IF NOT EXISTS row (number INTEGER PRIMARY KEY, said BLOB)")
        self.number = 0
        self.before: dict[str, bytes] = {}

    def edited(self, turn: int) -> list[str]:
        """Change some files, and return which."""
        before = {path: _read(path) for path in self._paths(turn)}
        trees.edit(self.root, files=self.files, count=_COUNT, turn=turn)
        self.before = before
        return list(before)

    def unchanged(self, _changed: list[str]) -> None:
        """Ask for the state of every file."""
        ask = os.stat
        for folder, names in self.listed:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            for name in names:
                ask(name, dir_fd=directory, follow_symlinks=False)
            os.close(directory)

    def save(self, changed: list[str]) -> None:
        """Do that, and keep what changed."""
        self.unchanged(changed)
        self._keep([_read(path) for path in changed])
        self._commit(b"a checkpoint")

    def restore(self, changed: list[str]) -> None:
        """Save what is there, say so, write what was there before, look at it, and say that it is done."""
        self.save(changed)
        journal = f"{self.store}/journal"
        self._write(journal, b"what is going to change")
        folders = {os.path.dirname(path) for path in changed}
        _sync([self.store])
        written = []
        for path in changed:
            written.append(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.write(written[-1], self.before[path])
        for descriptor in written:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for descriptor in written:
            os.fsync(descriptor)
            os.close(descriptor)
        for path in changed:
            os.rename(f"{path}.new", path)
        _sync(sorted(folders))
        for path in changed:
            assert sha1(_read(path)).digest() == sha1(self.before[path]).digest()
        self._commit(b"an operation")
        os.unlink(journal)
        _sync([self.store])

    def _paths(self, turn: int) -> list[str]:
        found = trees.edited(files=self.files, count=_COUNT, turn=turn)
        return [os.path.join(self.root, path) for path in found]

    def _keep(self, contents: list[bytes]) -> None:
        self.number += 1
        packed = [(sha1(content).digest(), zlib.compress(content, 1)) for content in contents]
        stem = f"{self.store}/packs/{self.number}"
        self._write(f"{stem}.pack", b"".join(content for _, content in packed))
        self._write(f"{stem}.idx", b"".join(sorted(oid for oid, _ in packed)))
        _sync([f"{self.store}/packs"])

    def _write(self, path: str, content: bytes) -> None:
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(f"{path}.new", path)

    def _commit(self, said: bytes) -> None:
        self.rows.execute("INSERT INTO row (said) VALUES (?)", (said * 50,))


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    content = os.read(descriptor, os.fstat(descriptor).st_size)
    os.close(descriptor)
    return content


def _sync(folders: list[str]) -> None:
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)


def rate(roots: list[str], store: str, *, saves: int) -> float:
    """Return how many saves of ten files a second processes make together, each of a workspace of its own."""
    before = time.perf_counter()
    children = []
    for number, root in enumerate(roots):
        child = os.fork()
        if not child:
            least = Least(root, f"{store}-{number}")
            for turn in range(saves):
                least.save(least.edited(turn))
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    return len(roots) * saves / (time.perf_counter() - before)
