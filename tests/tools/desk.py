"""A desk to scan at: a workspace, an engine in memory, a scanner, and what the last save came to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from lastgood.engine import Engine
from lastgood.host import Clock, ScanRequest, SystemClock
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.paths import join
from lastgood.scanner.cache import load
from lastgood.scanner.parallel import ScanBegun, begin_scan
from lastgood.scanner.read import multigrain_device
from lastgood.scanner.remote import RemoteScanner
from lastgood.scanner.scan import WorkspaceScanner
from lastgood.scanner.watch import DirectoryWatch
from lastgood.settings import CaptureSettings
from lastgood.workspace import ScannerOfChoice
from lastgood.worktree import Scan
from tools.memory_engine import memory_engine

Held = dict[bytes, tuple[str, int, bytes]]


class Desk:
    def __init__(self, folder: Path, *, engine: Engine | None = None, clock: Clock | None = None) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        self.cache = folder / "cache"
        self.cache.mkdir()
        self.store = folder / "store"
        self.store.mkdir()
        self.engine: Engine = memory_engine() if engine is None else engine
        self.clock: Clock = SystemClock() if clock is None else clock
        self.sleep: Callable[[float], None] = time.sleep
        self.exact_on: Callable[[int], int | None] = multigrain_device
        self.previous: TreeId | None = None
        self.generation = "first"
        self.scanner: WorkspaceScanner | RemoteScanner | ScannerOfChoice | None = None
        # Whether a look by two processes begins before a scan is asked for.
        self.begins = False

    def write(self, name: str | bytes, content: str | bytes = "content") -> bytes:
        path = os.path.join(os.fsencode(self.root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def scan(self, **wanted: object) -> Scan:
        """Scan with some fields of the request or the settings given."""
        fields: dict[str, object] = {
            "root": os.fsencode(self.root),
            "settings": CaptureSettings(),
            "previous": self.previous,
            "generation": self.generation,
            "store": os.fsencode(self.store),
        }
        settings = {key: wanted.pop(key) for key in tuple(wanted) if key in CaptureSettings._fields}
        fields["settings"] = CaptureSettings(**settings)  # type: ignore[arg-type]
        writer = self.engine.writer()
        scanner = self.scanner or self.local()
        request = ScanRequest(**(fields | wanted))  # type: ignore[arg-type]
        begun = self.begin() if self.begins else None
        if begun is None:
            scan: Scan = scanner.scan(request, writer=writer)
        else:
            assert not isinstance(scanner, RemoteScanner)
            try:
                scan = scanner.scan(request, writer=writer, begun=begun)
            finally:
                begun.close()
        writer.publish(durable=False)
        return scan

    def begin(self) -> ScanBegun | None:
        """Have another process begin to look, if anything is known to look at."""
        root = os.fsencode(self.root)
        known = load(os.fsencode(self.cache), root)
        return begin_scan(root, known, clock=self.clock) if known.is_large else None

    def local(self, *, watch: DirectoryWatch | None = None) -> WorkspaceScanner:
        """Return a scanner that works in this process."""
        return WorkspaceScanner(
            cache=os.fsencode(self.cache),
            clock=self.clock,
            objects=self.engine,
            sleep=self.sleep,
            exact_on=self.exact_on,
            watch=watch,
        )

    def save(self, **wanted: object) -> Scan:
        scan = self.scan(**wanted)
        scan.keep()
        self.previous = scan.result.tree
        return scan

    def held(self, scan: Scan) -> Held:
        """Return everything that a scan's tree holds, read from the engine."""
        found: Held = {}
        todo = [(b"", scan.result.tree)]
        while todo:
            path, tree = todo.pop()
            for entry in self.engine.directory(tree):
                below = join(path, entry.name)
                if entry.kind == DIRECTORY:
                    todo.append((below, entry.tree_id))
                content = b"" if entry.kind == DIRECTORY else self.engine.read_blob(entry.oid)
                found[below] = (entry.kind, entry.mode, content)
        return found

    def names(self, scan: Scan) -> set[str]:
        return {os.fsdecode(path) for path in self.held(scan)}

    def gaps(self, scan: Scan) -> dict[str, str]:
        return {os.fsdecode(gap.path): gap.reason for gap in scan.result.gaps}

    def forget(self) -> None:
        """Delete the scan cache."""
        for name in os.listdir(self.cache):
            os.unlink(self.cache / name)
