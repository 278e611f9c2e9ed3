"""Scans in a process of its own, for callers in whose process other Python threads live.

One busy thread beside a scan makes it up to a thousand times slower, since each system call gives the
interpreter away and gets it back only after milliseconds.

It answers one question at a time: into a file without a name, announced by a few bytes, so that this side
waits for the interpreter three times, not thousands of times. It is nobody's child, so that no program
waits for it by mistake. It ends as soon as nobody holds the other end of its questions, and when none has
come for a while.
"""

from __future__ import annotations

import fcntl
import os
import sys
from _thread import RLock
from marshal import dumps, loads

from lastgood import errors
from lastgood.cancellation import SHORT_SWITCH_INTERVAL, STRIDE, cancel_check, check_cancelled, pause
from lastgood.disk import free, no_room, shortage
from lastgood.errors import FULL, Busy, Internal, LastgoodError, Storage
from lastgood.host import ScanRequest, ScanResult, SystemClock
from lastgood.ignore import UNREADABLE
from lastgood.model.checkpoint import GitState, IgnoreState, NestedRepository
from lastgood.model.tree import Gap, TreeId
from lastgood.scanner.cache import CacheConditions, CachedTree, Details
from lastgood.scanner.scan import WorkspaceScanner
from lastgood.scanner.scanned import WorkspaceScan
from lastgood.settings import CaptureSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lastgood.engine import Engine, ObjectReader, ObjectWriter
    from lastgood.ignore import Text
    from lastgood.scanner.cache import Source

    Plain = dict[str, Any]
    Answer = Mapping[str, dict[str, object]]


# --- A process that scans, kept ready while its workspace is open (decision 022) ---

LENGTH_BYTES = 8
ANSWER = b"lastgood scan answer\n"
# What is announced, before the length of what was said: that the next question may come, that none may, or
# that there is no room to say anything.
READY = b"r"
LAST = b"l"
NOT_WRITTEN = b"w"
ANNOUNCEMENT_BYTES = 1 + LENGTH_BYTES

# Before anything else it lets go of its parent. Isolated from environment, user and folder; without site;
# leaving no bytecode behind.
_OPTIONS = (b"-I", b"-S", b"-B", b"-c")
_BOOTSTRAP = b"""
import posix, sys
posix.chdir("/")
try:
    if posix.fork():
        posix._exit(0)
except OSError:
    pass
sys.path.append(sys.argv[1])
from lastgood.scanner.helper import main
main()
"""
_FIRST_FREE = 3
# What is said of a large workspace takes some megabytes.
_ANSWER_BYTES = 32 << 20

# The ends that keep such processes alive, and their pipes. A fork of this process lets go of them.
_held: dict[int, tuple[int, int]] = {}
# This process does not fork while one is started: the fork would keep the other ends as well, and whoever
# waits for the end of announcements would wait for the fork.
_starting = RLock()
_HOOKS: list[str] = []


class ScanProcess:
    """One such process, started here; OSError if it cannot be. ``sheet`` is the file that it writes into."""

    def __init__(self, python: bytes, *, sheet: int) -> None:
        self.status: int = 0  # with which what was started here ended
        self.heard: bool = False  # whether it took the last question whole
        self._owner = os.getpid()
        self._starter = 0
        self._sheet = sheet
        self._questions = self._announcements = -1
        self._pipe = (0, 0)
        _watch_forks()
        try:
            with _starting:
                self._start(python)
        finally:
            if not self._starter:
                self.end()

    @property
    def is_ours(self) -> bool:
        """Whether this process started and still holds it: a fork does not, nor who closed all files."""
        try:
            return self._owner == os.getpid() and _identity(self._questions) == self._pipe
        except OSError:
            return False

    def ask(self, question: bytes) -> tuple[bytes, bytes]:
        """Return what was announced (nothing if the process is gone), and what was said.

        It works on after this only if it is ready for the next question.
        """
        try:
            self.heard = self._send(len(question).to_bytes(LENGTH_BYTES, "big") + question)
            announced = self._wait()
        except BaseException:  # Ctrl-C, too: the answer that nobody waited for would be the next one's
            self.end()
            raise
        if announced[:1] == READY:
            self._reap(os.WNOHANG)
        else:
            self._dismiss()
        size = int.from_bytes(announced[1:], "big") if announced else os.fstat(self._sheet).st_size
        return announced[:1], os.pread(self._sheet, size, 0)

    def end(self) -> None:
        """Have it end, and wait for that; harmless when repeated."""
        if self._sheet < 0 or (self._questions >= 0 and not self.is_ours):
            return
        self._dismiss()
        descriptor, self._sheet = self._sheet, -1
        os.close(descriptor)

    def __del__(self) -> None:
        self.end()

    def _start(self, python: bytes) -> None:
        theirs: list[int] = []
        try:
            receiving, self._questions = _pipe()
            theirs.append(receiving)
            self._pipe = _held[self._questions] = _identity(self._questions)
            self._announcements, sending = _pipe()
            theirs.append(sending)
            self._starter = _start(python, (receiving, sending, self._sheet))
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _send(self, content: bytes) -> bool:
        rest = memoryview(content)
        while rest:
            try:
                rest = rest[os.write(self._questions, rest) :]
            except BrokenPipeError:  # it is gone, and may have said why
                return False
        return True

    def _wait(self) -> bytes:
        """Wait for an announcement, unless this thread is asked to give up."""
        if cancel_check() is not None:
            from select import POLLIN, poll

            waiting = poll()
            waiting.register(self._announcements, POLLIN)
            while not waiting.poll(STRIDE * 1000):
                check_cancelled()
        return os.read(self._announcements, ANNOUNCEMENT_BYTES)

    def _reap(self, how: int = 0) -> None:
        """Wait for what was started here: it has ended, or is the process itself and does when dismissed."""
        if not self._starter:
            return
        try:
            ended, status = os.waitpid(self._starter, how)
        except ChildProcessError:  # somebody else waits for all children here
            ended, status = self._starter, 0
        if ended:
            self._starter = 0
            self.status = os.waitstatus_to_exitcode(status)

    def _dismiss(self) -> None:
        """Let go of the process, which makes it end, and wait until nobody can announce anything."""
        if self._questions < 0:
            return
        _held.pop(self._questions, None)
        descriptor, self._questions = self._questions, -1
        os.close(descriptor)
        self._reap()
        announcements, self._announcements = self._announcements, -1
        if announcements >= 0:
            while os.read(announcements, ANNOUNCEMENT_BYTES):
                pass
            os.close(announcements)


def nameless_file(folder: bytes) -> int:
    """Open a file that nobody else can find, and that is gone when nobody has it open.

    It lies in a folder, or in memory where the disk of that is full: to look at a workspace takes no room.
    """
    bytes_free, files_free = free(folder)
    if hasattr(os, "memfd_create") and (bytes_free < _ANSWER_BYTES or files_free < 1):
        descriptor = os.memfd_create("lastgood")
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
        return _off_the_streams(descriptor)
    path = folder + b"/scan.answer." + os.urandom(8).hex().encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return _off_the_streams(descriptor)


def _start(python: bytes, streams: tuple[int, int, int]) -> int:
    package = os.path.dirname(os.path.dirname(os.path.abspath(errors.__file__)))
    command = [python, *_OPTIONS, _BOOTSTRAP, os.fsencode(package)]
    actions = [(os.POSIX_SPAWN_DUP2, stream, place) for place, stream in enumerate(streams)]
    # In a group of its own: what a terminal sends to all, Ctrl-C or Ctrl-Z, is for the owner.
    return os.posix_spawn(python, command, {}, file_actions=actions, setpgroup=0)


def _identity(descriptor: int) -> tuple[int, int]:
    seen = os.fstat(descriptor)
    return seen.st_dev, seen.st_ino


def _pipe() -> tuple[int, int]:
    receiving, sending = os.pipe()
    return _off_the_streams(receiving), _off_the_streams(sending)


def _off_the_streams(descriptor: int) -> int:
    """Return a descriptor that does not have the number of a standard stream, which may be closed here."""
    if descriptor >= _FIRST_FREE:
        return descriptor
    import fcntl

    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.close(descriptor)
    return moved


def _watch_forks() -> None:
    if not _HOOKS:
        _HOOKS.append("fork")
        os.register_at_fork(
            before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_let_go
        )


def _let_go() -> None:
    _starting.release()
    while _held:
        descriptor, pipe = _held.popitem()
        try:
            if _identity(descriptor) == pipe:
                os.close(descriptor)
        except OSError:  # closed by somebody who closes all that he does not know
            continue


# --- Requests and scans as plain values, to be handed from one process to another ---


def plain_request(request: ScanRequest) -> Plain:
    """Return a request as plain values."""
    plain = request.as_dict()
    plain["settings"] = request.settings.as_dict()
    plain["previous"] = None if request.previous is None else request.previous.as_dict()
    return plain


def request_of(plain: Plain) -> ScanRequest:
    """Return the request that `plain_request` described."""
    previous = plain["previous"]
    fields = plain | {
        "settings": CaptureSettings(**plain["settings"]),
        "previous": None if previous is None else TreeId(**previous),
    }
    return ScanRequest(**fields)


def plain_scan(scan: WorkspaceScan, *, known: Source | None) -> Plain:
    """Return a scan, with all that is needed to ask it and to keep it, as plain values.

    Its records are left out if they are those that the caller has of a ``known`` cache.
    """
    snapshot = scan.snapshot
    conditions = snapshot.conditions
    assert conditions is not None
    source = None if scan.worth_keeping else snapshot.source
    return {
        "result": _plain_result(scan.result),
        "conditions": conditions.as_dict(),
        "records": None if source is not None and source == known else snapshot.records,
        "source": source,
        "name": snapshot.details.name,
        "pending": snapshot.details.pending,
        "rules": scan.outer_rules.as_dict(),
        "texts": {path: tuple(map(_plain_text, texts)) for path, texts in scan.fresh_texts.items()},
        "worth_keeping": scan.worth_keeping,
    }


def scan_of(plain: Plain, *, folder: bytes, objects: ObjectReader, known: CachedTree | None) -> WorkspaceScan:
    """Return the scan that `plain_scan` described; ``folder`` is that of the cache, ``known`` as there."""
    details = Details(folder, plain["name"])
    details.pending = plain["pending"]
    records = plain["records"]
    if records is None:
        assert known is not None
        records = known.records
    conditions = CacheConditions(**plain["conditions"])
    snapshot = CachedTree(conditions, records=records, details=details, source=plain["source"])
    return WorkspaceScan(
        _result_of(plain["result"]),
        folder=folder,
        snapshot=snapshot,
        known={},
        objects=objects,
        rules=IgnoreState(**plain["rules"]),
        texts={path: (_text_of(first), _text_of(second)) for path, (first, second) in plain["texts"].items()},
        worth_keeping=plain["worth_keeping"],
    )


def _plain_result(result: ScanResult) -> Plain:
    plain = result.as_dict()
    plain["tree"] = result.tree.as_dict()
    plain["gaps"] = tuple(gap.as_dict() for gap in result.gaps)
    plain["ignore"] = result.ignore.as_dict()
    if result.git is not None:
        git = result.git.as_dict()
        plain["git"] = git | {"nested": tuple(nested.as_dict() for nested in result.git.nested)}
    return plain


def _result_of(plain: Plain) -> ScanResult:
    git = plain["git"]
    if git is not None:
        nested = tuple(NestedRepository(**one) for one in git["nested"])
        git = GitState(**(git | {"nested": nested}))
    fields = plain | {
        "tree": TreeId(**plain["tree"]),
        "gaps": tuple(Gap(**gap) for gap in plain["gaps"]),
        "ignore": IgnoreState(**plain["ignore"]),
        "git": git,
    }
    return ScanResult(**fields)


def _plain_text(text: Text) -> bytes | bool:
    """Return an ignore file's text; False if there is none, True if it is unreadable."""
    return text if isinstance(text, bytes) else text is not None


def _text_of(plain: bytes | bool) -> Text:  # noqa: FBT001 - the other half of `_plain_text`
    if isinstance(plain, bytes):
        return plain
    return UNREADABLE if plain else None


# --- Scans in a process of its own, for callers in whose process other Python threads live ---

_SAID_BYTES = 4000
# What shells and the loader of libraries say when a program cannot be run.
_NOT_STARTED = 127
# So many processes are killed in the work on one scan before it is given up.
_ATTEMPTS = 2
# The kernel lets go of the locks of one that was killed a moment after its pipes.
_SECONDS_TO_DIE = 0.02


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
        self._ready: list[ScanProcess] = []
        self._closed = False
        # What is known of the cache as it lies on the disk, so that it need not be said again.
        self._known: CachedTree | None = None

    def scan(self, request: ScanRequest, *, writer: ObjectWriter) -> WorkspaceScan:
        """Read the workspace; raises what a local scan would, `Internal` if the process breaks down.

        If it is killed, another one does it once more; `Busy` if that is killed, too.
        """
        if not os.path.basename(self._python).startswith((b"python", b"pypy")):
            return self._here(request, writer=writer)  # an application with an interpreter inside
        known = self._known
        for _ in range(_ATTEMPTS):
            try:
                answer = self._elsewhere(request, writer=writer, known=known)
            except Killed:
                continue
            if answer is None:
                return self._here(request, writer=writer)
            return self._found(answer, writer=writer, known=known)
        raise Busy(
            "the process that scans the workspace was killed, and so was the one that tried once more: this"
            " machine may be short of memory, or something ends what it does not know",
            hint="see what ends it (`dmesg` tells of memory that ran out), then try again",
            details={"attempts": _ATTEMPTS},
        )

    def _elsewhere(
        self, request: ScanRequest, *, writer: ObjectWriter, known: CachedTree | None
    ) -> Answer | None:
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
                    "known": None if known is None else known.source,
                }
            )
            with SHORT_SWITCH_INTERVAL:
                answer = self._ask_the_ready(question) or self._ask_a_new_one(question)
        finally:
            if answer is None:
                writer.take_back()
        return answer

    def _found(self, answer: Answer, *, writer: ObjectWriter, known: CachedTree | None) -> WorkspaceScan:
        fault = answer.get("error")
        if fault is not None:
            raise _error_of(fault)
        writer.adopt(answer["detached"])
        scan = scan_of(answer["scan"], folder=self._cache, objects=self._engine, known=known)
        if scan.snapshot.source is not None:
            self._known = scan.snapshot
        return scan

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
            process = self._ready.pop()
        except IndexError:
            return None
        if not process.is_ours:
            return None
        announced, said = process.ask(question)
        if not announced and not process.heard and (not said or said.startswith(ANSWER)):
            process.end()
            return None
        return self._answer(process, announced, said)

    def _ask_a_new_one(self, question: bytes) -> Answer | None:
        """Return the answer of a new process, None if none can be started here."""
        try:
            sheet = nameless_file(self._cache)
        except OSError as error:
            raise self._no_room(error) from error
        try:
            process = ScanProcess(self._python, sheet=sheet)
        except OSError:
            return None
        announced, said = process.ask(question)
        if not announced and process.status == _NOT_STARTED:
            process.end()
            return None
        return self._answer(process, announced, said)

    def _answer(self, process: ScanProcess, announced: bytes, said: bytes) -> Answer:
        if announced == READY and not self._ready and not self._closed:
            self._ready.append(process)
        else:
            process.end()
        if announced == NOT_WRITTEN:
            raise self._no_room(None)
        if not announced and process.status <= 0 and _is_cut_short(said):
            pause(_SECONDS_TO_DIE)
            raise Killed
        if not announced or not said.startswith(ANSWER):
            raise Internal(
                "the process that scans the workspace broke down",
                hint="report this; in a process without other threads the scan runs without it",
                details={"status": process.status, "said": said[-_SAID_BYTES:].decode("utf-8", "replace")},
            )
        answer: Answer = loads(said[len(ANSWER) :])  # noqa: S302 - our own process wrote it
        return answer

    def _no_room(self, error: OSError | None) -> Storage:
        """Say that the scan's answer could not be written."""
        full = error if error is not None and error.errno in FULL else shortage(self._cache)
        if full is not None:
            return no_room(full, doing="scanning the workspace", place=self._cache)
        reason = "the disk is failing" if error is None else error.strerror
        return Storage(f"the scan's answer has nowhere to go: {reason}", hint="fix the disk")


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
