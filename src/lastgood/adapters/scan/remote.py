"""Scans in a process of its own, for callers in whose process other Python threads live.

One busy thread beside a scan makes it a thousand times slower, since each system call gives the
interpreter away and gets it back only after milliseconds. The process writes its answer into a file
without a name, so that this side waits for the interpreter three times, not thousands of times.
"""

from __future__ import annotations

import os
import sys
from _thread import _count
from marshal import dumps, loads

from lastgood import errors
from lastgood.adapters.clock import SystemClock
from lastgood.adapters.scan.scanner import WorkspaceScanner
from lastgood.adapters.scan.wire import plain_request, scan_of
from lastgood.adapters.stopping import STRIDE, asker, heed, pause
from lastgood.adapters.turns import SHORT_TURNS
from lastgood.errors import Internal, LastgoodError, Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.adapters.scan.found import WorkspaceScan
    from lastgood.model.scan import ScanRequest
    from lastgood.ports.engine import Engine, ObjectWriter

LENGTH_BYTES = 8
ANSWER = b"lastgood scan answer\n"
# The exit status of a process that could not write its answer down.
NOT_WRITTEN = 74
_BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from lastgood.helper import main; main()"
# Isolated from environment, user and folder; without site; leaving no bytecode behind.
_OPTIONS = (b"-I", b"-S", b"-B", b"-c")
_SAID_BYTES = 4000
# What shells and the loader of libraries say when a program cannot be run.
_NOT_STARTED = 127


def others_alive() -> bool:
    """Tell whether Python threads besides the calling one live in this process."""
    return _count() > 0


class RemoteScanner:
    """Scans workspaces of one store elsewhere; ``engine`` is the store's, ``cache`` as for a local scanner.

    The process ends when this one does, imports nothing but this package and the standard library,
    and sees neither environment nor current directory. ``python`` is the interpreter to run.
    """

    def __init__(self, *, cache: bytes, store: bytes, engine: Engine, python: bytes | None = None) -> None:
        self._cache = cache
        self._store = store
        self._engine = engine
        self._python = os.fsencode(sys.executable or "") if python is None else python

    def scan(self, request: ScanRequest, *, writer: ObjectWriter) -> WorkspaceScan:
        """Read the workspace; raises what a local scan would, `Internal` if the process breaks down."""
        if not os.path.basename(self._python).startswith((b"python", b"pypy")):
            return self._here(request, writer=writer)  # an application with an interpreter inside
        detached = writer.detach()
        question = dumps(
            {
                "request": plain_request(request),
                "cache": self._cache,
                "store": self._store,
                "detached": dict(detached),
            }
        )
        with SHORT_TURNS:
            answer = self._ask(question)
        if answer is None:
            writer.adopt(detached)
            return self._here(request, writer=writer)
        writer.adopt(answer["detached"])
        return scan_of(answer["scan"], folder=self._cache, objects=self._engine)

    def _here(self, request: ScanRequest, *, writer: ObjectWriter) -> WorkspaceScan:
        """Scan slowly rather than not at all."""
        scanner = WorkspaceScanner(cache=self._cache, clock=SystemClock(), objects=self._engine)
        return scanner.scan(request, writer=writer)

    def _ask(self, question: bytes) -> Mapping[str, dict[str, object]] | None:
        """Return the answer, None if no process can be started here."""
        try:
            sheet = _nameless_file(self._cache)
        except OSError as error:
            raise _no_room(error.strerror) from error
        try:
            status = self._run(question, sheet=sheet)
            said = os.pread(sheet, os.fstat(sheet).st_size, 0)
        finally:
            os.close(sheet)
        if status == _NOT_STARTED:
            return None
        if status == NOT_WRITTEN:
            raise _no_room("the disk is full or failing")
        if status or not said.startswith(ANSWER):
            raise Internal(
                "the process that scans the workspace broke down",
                hint="report this; in a process without other threads the scan runs without it",
                details={"status": status, "said": said[-_SAID_BYTES:].decode("utf-8", "replace")},
            )
        answer: dict[str, dict[str, object]] = loads(said[len(ANSWER) :])  # noqa: S302 - our own process wrote it
        fault = answer.get("error")
        if fault is not None:
            raise _error_of(fault)
        return answer

    def _run(self, question: bytes, *, sheet: int) -> int:
        """Run the process to its end, and return its exit status."""
        package = os.path.dirname(os.path.dirname(os.path.abspath(errors.__file__)))
        command = [self._python, *_OPTIONS, _BOOTSTRAP.encode(), os.fsencode(package)]
        receiving, sending = os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, receiving, 0),
            (os.POSIX_SPAWN_DUP2, sheet, 1),
            (os.POSIX_SPAWN_DUP2, sheet, 2),
        ]
        try:
            try:
                child = os.posix_spawn(self._python, command, {}, file_actions=actions)
            except OSError:
                return _NOT_STARTED
            finally:
                os.close(receiving)
            return _converse(child, question, sending)
        finally:
            os.close(sending)


def _no_room(reason: str | None) -> Storage:
    return Storage(f"the scan's answer has nowhere to go: {reason}", hint="free space, or mend the disk")


def _converse(child: int, question: bytes, sending: int) -> int:
    """Hand over the question and wait for the end; whatever happens, the process does not outlive this."""
    ended = False
    try:
        _send(sending, len(question).to_bytes(LENGTH_BYTES, "big") + question)
        status = _status_of(child)
        ended = True
    except ChildProcessError:  # the caller ignores SIGCHLD: then nothing is left to wait for
        status = 0
        ended = True
    finally:
        if not ended:
            os.kill(child, 9)
            os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _status_of(child: int) -> int:
    """Wait for a process to end, unless this thread is asked to give up, and return its wait status."""
    if asker() is None:
        return os.waitpid(child, 0)[1]
    try:
        ending = os.pidfd_open(child)
    except (AttributeError, OSError):  # not Linux, or an old one, or already waited for
        return _looked_for(child, lambda: pause(STRIDE / 10))
    from select import POLLIN, poll

    ended = poll()
    ended.register(ending, POLLIN)
    try:
        return _looked_for(child, lambda: ended.poll(STRIDE * 1000))
    finally:
        os.close(ending)


def _looked_for(child: int, wait: Callable[[], object]) -> int:
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        wait()
        heed()


def _send(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BrokenPipeError:  # the other side ended before it had read everything; it will have said why
            return


def _nameless_file(folder: bytes) -> int:
    """Open a file that nobody else can find, and that is gone when nobody has it open."""
    path = folder + b"/scan.answer." + os.urandom(8).hex().encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return descriptor


def _error_of(fault: Mapping[str, object]) -> LastgoodError:
    kind: object = getattr(errors, str(fault["kind"]), Internal)
    assert isinstance(kind, type)
    assert issubclass(kind, LastgoodError)
    details = fault["details"]
    assert isinstance(details, dict)
    return kind(str(fault["message"]), hint=str(fault["hint"]), details=details)
