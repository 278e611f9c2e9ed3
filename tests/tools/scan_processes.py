"""A desk whose scanner works elsewhere, and what becomes of the processes that do."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import lastgood
from lastgood.objects.engine import GitEngine
from lastgood.scanner.remote import RemoteScanner
from tools.desk import Desk
from tools.living import eventually, eventually_gone


class Far:
    """A desk whose scanner works elsewhere, and the process that it keeps ready."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder)
        (self.desk.store / "tmp").mkdir()
        store = os.fsencode(self.desk.store)
        engine = GitEngine.create(store + b"/objects.git", temporary=store + b"/tmp")
        self.desk.engine = engine
        self.scanner = RemoteScanner(cache=os.fsencode(self.desk.cache), store=store, engine=engine)
        self.desk.scanner = self.scanner

    @property
    def ready(self) -> list[int]:
        """The processes that read what this one asks."""
        ends = {os.readlink(f"/proc/self/fd/{one._questions}") for one in self.scanner._ready}
        return readers(ends)


def readers(pipes: set[str]) -> list[int]:
    """Return the processes that read from pipes, as soon as those that started them are gone."""
    eventually(lambda: len(all_readers(pipes)) <= len(pipes))
    return all_readers(pipes)


def all_readers(pipes: set[str]) -> list[int]:
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{process}/fd/0") in pipes:
                found.append(int(process))
        except OSError:
            continue
    return found


def ends(process: int) -> bool:
    """Tell whether a process comes to its end."""
    return eventually_gone(process)


_OWNER = """
    import os, sys, time
    from lastgood.objects.engine import GitEngine
    from lastgood.scanner import remote
    from lastgood.host import ScanRequest
    from lastgood.settings import CaptureSettings
    store = {store!r}
    engine = GitEngine(store + b"/objects.git", temporary=store + b"/tmp")
    scanner = remote.RemoteScanner(cache={cache!r}, store=store, engine=engine)
    def scan():
        return scanner.scan(
            ScanRequest(
                root={root!r}, settings=CaptureSettings(), previous=None, generation="first", store=store
            ),
            writer=engine.writer(),
        )
"""


def owner(far: Far, code: str) -> str:
    beginning = textwrap.dedent(_OWNER).format(
        store=os.fsencode(far.desk.store), cache=os.fsencode(far.desk.cache), root=os.fsencode(far.desk.root)
    )
    return beginning + textwrap.dedent(code)


def source() -> dict[str, str]:
    return {"PYTHONPATH": os.path.dirname(os.path.dirname(lastgood.__file__))}
