"""Scans in a process of its own, for callers in whose process other Python threads live.

One busy thread beside a scan makes it up to a thousand times slower, since each system call gives the
interpreter away and gets it back only after milliseconds.
"""

from __future__ import annotations

import os
import sys
from _thread import _count
from marshal import dumps, loads

from lastgood import errors
from lastgood.adapters.clock import SystemClock
from lastgood.adapters.room import FULL, no_room, shortage
from lastgood.adapters.scan.resident import ANSWER, NOT_WRITTEN, READY, Resident, nameless_file
from lastgood.adapters.scan.scanner import WorkspaceScanner
from lastgood.adapters.scan.wire import plain_request, scan_of
from lastgood.adapters.stopping import pause
from lastgood.adapters.turns import SHORT_TURNS
from lastgood.errors import Busy, Internal, LastgoodError, Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.adapters.scan.found import WorkspaceScan
    from lastgood.model.scan import ScanRequest
    from lastgood.ports.engine import Engine, ObjectWriter

    Answer = Mapping[str, dict[str, object]]

_SAID_BYTES = 4000
# What shells and the loader of libraries say when a program cannot be run.
_NOT_STARTED = 127
# So many processes are killed in the work on one scan before it is given up.
_ATTEMPTS = 2
# The kernel lets go of the locks of one that was killed a moment after its pipes.
_SECONDS_TO_DIE = 0.02


def others_alive() -> bool:
    """Tell whether Python threads besides the calling one live in this process."""
    return _count() > 0


class Killed(Exception):
    """The process ended in the middle of a scan, and said nothing: somebody else ended it."""


class RemoteScanner:
    """Scans workspaces of one store elsewhere; ``engine`` is the store's, ``cache`` as for a local scanner.

    The process that does it stays for the next scan, until `close` or the end of this one. It imports
    nothing but this package and the standard library, and sees neither environment nor current directory.
    ``python`` is the interpreter to run.
    """

    def __init__(self, *, cache: bytes, store: bytes, engine: Engine, python: bytes | None = None) -> None:
        self._cache = cache
        self._store = store
        self._engine = engine
        self._python = os.fsencode(sys.executable or "") if python is None else python
        self._ready: list[Resident] = []
        self._closed = False

    def scan(self, request: ScanRequest, *, writer: ObjectWriter) -> WorkspaceScan:
        """Read the workspace; raises what a local scan would, `Internal` if the process breaks down.

        If it is killed, another one does it once more; `Busy` if that is killed, too.
        """
        if not os.path.basename(self._python).startswith((b"python", b"pypy")):
            return self._here(request, writer=writer)  # an application with an interpreter inside
        for _ in range(_ATTEMPTS):
            try:
                answer = self._elsewhere(request, writer=writer)
            except Killed:
                continue
            if answer is None:
                return self._here(request, writer=writer)
            return self._found(answer, writer=writer)
        raise Busy(
            "the process that scans the workspace was killed, and so was the one that tried once more: this"
            " machine may be short of memory, or something ends what it does not know",
            hint="see what ends it (`dmesg` tells of memory that ran out), then try again",
            details={"attempts": _ATTEMPTS},
        )

    def _elsewhere(self, request: ScanRequest, *, writer: ObjectWriter) -> Answer | None:
        """Return the answer of a process, None if none can be started; the writer is its, or ours again."""
        detached = writer.detach()
        answer = None
        try:
            question = dumps(
                {
                    "request": plain_request(request),
                    "cache": self._cache,
                    "store": self._store,
                    "detached": dict(detached),
                }
            )
            with SHORT_TURNS:
                answer = self._ask_the_ready(question) or self._ask_a_new_one(question)
        finally:
            if answer is None:
                writer.take_back()
        return answer

    def _found(self, answer: Answer, *, writer: ObjectWriter) -> WorkspaceScan:
        fault = answer.get("error")
        if fault is not None:
            raise _error_of(fault)
        writer.adopt(answer["detached"])
        return scan_of(answer["scan"], folder=self._cache, objects=self._engine)

    def close(self) -> None:
        """Have the process end; harmless when repeated."""
        self._closed = True
        while self._ready:
            self._ready.pop().end()

    def _here(self, request: ScanRequest, *, writer: ObjectWriter) -> WorkspaceScan:
        """Scan slowly rather than not at all."""
        scanner = WorkspaceScanner(cache=self._cache, clock=SystemClock(), objects=self._engine)
        return scanner.scan(request, writer=writer)

    def _ask_the_ready(self, question: bytes) -> Answer | None:
        """Return the answer of a process that is ready, None if there is none, or it ended meanwhile."""
        try:
            resident = self._ready.pop()
        except IndexError:
            return None
        if not resident.is_ours:
            return None
        announced, said = resident.ask(question)
        if not announced and not resident.heard and (not said or said.startswith(ANSWER)):
            resident.end()
            return None
        return self._answer(resident, announced, said)

    def _ask_a_new_one(self, question: bytes) -> Answer | None:
        """Return the answer of a new process, None if none can be started here."""
        try:
            sheet = nameless_file(self._cache)
        except OSError as error:
            raise self._no_room(error) from error
        try:
            resident = Resident(self._python, sheet=sheet)
        except OSError:
            return None
        announced, said = resident.ask(question)
        if not announced and resident.status == _NOT_STARTED:
            resident.end()
            return None
        return self._answer(resident, announced, said)

    def _answer(self, resident: Resident, announced: bytes, said: bytes) -> Answer:
        if announced == READY and not self._ready and not self._closed:
            self._ready.append(resident)
        else:
            resident.end()
        if announced == NOT_WRITTEN:
            raise self._no_room(None)
        if not announced and resident.status <= 0 and _is_cut_short(said):
            pause(_SECONDS_TO_DIE)
            raise Killed
        if not announced or not said.startswith(ANSWER):
            raise Internal(
                "the process that scans the workspace broke down",
                hint="report this; in a process without other threads the scan runs without it",
                details={"status": resident.status, "said": said[-_SAID_BYTES:].decode("utf-8", "replace")},
            )
        answer: Answer = loads(said[len(ANSWER) :])  # noqa: S302 - our own process wrote it
        return answer

    def _no_room(self, error: OSError | None) -> Storage:
        """Say that the scan's answer could not be written."""
        full = error if error is not None and error.errno in FULL else shortage(self._cache)
        if full is not None:
            return no_room(full, doing="scanning the workspace", place=self._cache)
        reason = "the disk is failing" if error is None else error.strerror
        return Storage(f"the scan's answer has nowhere to go: {reason}", hint="mend the disk")


def _is_cut_short(said: bytes) -> bool:
    """Tell whether what was said is an answer, or the beginning of one, or nothing: no complaint."""
    return said.startswith(ANSWER) or ANSWER.startswith(said)


def _error_of(fault: Mapping[str, object]) -> LastgoodError:
    kind: object = getattr(errors, str(fault["kind"]), Internal)
    assert isinstance(kind, type)
    assert issubclass(kind, LastgoodError)
    details = fault["details"]
    assert isinstance(details, dict)
    return kind(str(fault["message"]), hint=str(fault["hint"]), details=details)
