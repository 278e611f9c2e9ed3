"""Looks for the conversation of a command that runs: its processes, and the files that they keep it in.

Only what runs below the supervisor of this session's own commands counts: nobody else's conversation is
taken, however near it lies. Where there is no ``/proc`` nothing is found.
"""

from __future__ import annotations

import json
import os
import stat
import time

from lastgood.ancestry import is_below
from lastgood.conversation import hosts
from lastgood.conversation.hosts import Chosen, FoundConversation, HostProcess
from lastgood.ids import SESSION_VARIABLE
from lastgood.paths import lies_in, to_text
from lastgood.processes import children, family
from lastgood.procfs import PARENT, content_of, is_open_to_write, pids, stat_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_STARTED = 19  # of /proc/PID/stat, after the name
_VARIABLES = frozenset(
    {"HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME"},
)
_RECORD_BYTES = 1 << 16
# Codex puts its instructions into the first line.
_HEAD_BYTES = 1 << 20
# A session's first eight digits end the name of its file.
_NAME_END = len("-01234567.jsonl")
# File systems keep times by the kernel's tick.
_TICK_NS = 20_000_000
# At first a look comes soon after the other, later every so often (seconds); it never takes more than a
# twentieth of a processor.
_SOON, _LATER, _SHARE = 0.1, 2.0, 20
_GROWTH = 20
# Who works in any folder: a rival of every opencode.
_SERVED: tuple[hosts.Host, str] = ("opencode", "")
# Until when another one is at work that is still there.
_STILL = float("inf")


class ConversationSearch:
    """Finds the conversation of the commands that this process runs within a session."""

    def __init__(self, session: str, *, root: bytes) -> None:
        self._mark = f"{SESSION_VARIABLE}={session}".encode()
        self._root = to_text(root)
        self._began = time.monotonic()
        self._command_since = time.time_ns() - _TICK_NS
        self._due = 0.0
        self._known: str | None = None
        self._seen: list[HostProcess] = []
        self._latest: list[HostProcess] = []
        self._parents: dict[int, int] = {}
        self._own: set[int] = set()
        self._rivals: dict[tuple[hosts.Host, str], float] = {}
        self._not_yet: dict[tuple[int, str], int] = {}
        self._databases: dict[tuple[int, str], str] = {}

    def renew(self) -> None:
        """Look often again: another command begins."""
        self._began, self._due = time.monotonic(), 0.0
        self._command_since = time.time_ns() - _TICK_NS
        self._known, self._seen, self._latest = None, [], []
        for known in (self._rivals, self._not_yet, self._databases):
            known.clear()

    def look(self, *, over: bool = False) -> Chosen | None:
        """Return what is found now; None if it is not yet time to look again.

        When the command is ``over``, what its processes left behind is looked at too.
        """
        now, began = time.monotonic(), time.thread_time()
        if now < self._due and not over:
            return None
        chosen = self._look(over=over)
        took = time.thread_time() - began
        self._due = now + max(_SOON, min(_LATER, (now - self._began) / _GROWTH), took * _SHARE)
        if chosen.conversation is not None:
            self._known = chosen.conversation.session
        elif chosen.withdrawn is not None:
            self._known = None
        return chosen

    def _look(self, *, over: bool) -> Chosen:
        found: list[FoundConversation] = []
        doubt: str | None = None
        if not over:
            self._see()
        # A look may have found no more of one than that it had just ended.
        for process in (*self._seen, *(self._latest if over else ())):
            one = self._claude(process) or self._codex(process)
            silent = hosts.silent_host(process.words) if one is None else None
            if silent is not None:
                one, doubt = self._silent(process, silent)
            if one is not None:
                found.append(one)
        above = {pid: list(_above(pid, self._parents)) for pid in self._parents}
        chosen = hosts.chosen(found, above=above, known=self._known)
        if chosen.conversation is not None:
            return chosen
        return Chosen(doubt=doubt, withdrawn=None if doubt is None else self._known)

    def _see(self) -> None:
        """Look at our own processes, and at every other one in the workspace of a host that tells nothing.

        A process may turn into another program: when it was last seen to be none yet is remembered.
        """
        now = time.time_ns()
        self._parents = {}
        self._seen = list(self._processes())
        for process in self._seen:
            if hosts.silent_host(process.words) is None:
                self._not_yet[process.pid, process.started] = now
            elif hosts.is_opencode(process.words):
                self._note_database(process)
        self._latest = [one for one in self._seen if hosts.silent_host(one.words)] or self._latest
        there = set(_works_beside(self._root, self._own))
        if self._databases and _is_served(self._own):
            there.add(_SERVED)
        gone = time.time_ns()
        for rival, until in self._rivals.items():
            if until == _STILL and rival not in there:
                self._rivals[rival] = gone
        self._rivals.update(dict.fromkeys(there, _STILL))

    def _since(self, process: HostProcess) -> int:
        """Return since when a process may have written as what it is now, as file systems keep times."""
        seen = self._not_yet.get((process.pid, process.started), 0)
        return max(self._command_since, _began(process) - _TICK_NS, seen - _TICK_NS)

    def _processes(self) -> Iterator[HostProcess]:
        """Yield what runs below our own supervisors, and note which these are, and whose child each is."""
        self._own = set()
        for supervisor in children(os.getpid()) or ():
            if self._mark not in content_of(supervisor, "environ").split(b"\0"):
                continue
            self._own.add(supervisor)
            for pid, facts in family(supervisor).items():
                if pid != supervisor:
                    self._parents[pid] = int(facts[PARENT])
                    yield _process(pid, facts[_STARTED].decode())

    def _claude(self, process: HostProcess) -> FoundConversation | None:
        home = hosts.claude_home(process.environment)
        if home is None:
            return None
        note = f"{home}/sessions/{process.pid}.json"
        record = _json(note, _RECORD_BYTES)
        newer = _written_since(note, _began(process))
        said = None if record is None else hosts.claude_session(process, record, newer=newer)
        if record is None and hosts.is_claude(process.words):  # an older one keeps no such record
            named = hosts.named_session(process.words)
            said = None if named is None else (named, process.folder)
        if said is None or not lies_in(said[1], self._root):
            return None
        session, folder = said
        path = _claude_transcript(f"{home}/projects", folder=folder, session=session, root=self._root)
        if path is None:
            return None
        return FoundConversation(host="claude-code", session=session, transcript=path, pid=process.pid)

    def _codex(self, process: HostProcess) -> FoundConversation | None:
        for descriptor, path in _open_files(process.pid):
            if not hosts.is_rollout(path) or not is_open_to_write(process.pid, descriptor):
                continue
            head = _json(path, _HEAD_BYTES)
            said = None if head is None else hosts.codex_session(head)
            if said is not None and lies_in(said[1], self._root):
                return FoundConversation(host="codex", session=said[0], transcript=path, pid=process.pid)
        return None

    def _silent(self, process: HostProcess, host: hosts.Host) -> tuple[FoundConversation | None, str | None]:
        """Return the conversation of a host that says nothing, or why nobody can tell which it is."""
        if not lies_in(process.folder, self._root):
            return None, None
        since = self._since(process)
        grown = (
            self._grown_of_opencode(process, since)
            if host == "opencode"
            else _grown_of_gemini(process, since)
        )
        session, doubt = hosts.one_of_grown(
            grown,
            named=hosts.named_session(process.words),
            known=self._known,
            strangers=max(self._rivals.get(one, 0) for one in ((host, process.folder), _SERVED)) >= since,
            last=next(reversed(grown), None) if host == "opencode" else None,
        )
        if session is None:
            told = None if doubt is None else f"the conversation of {host} is not kept: {doubt}"
            return None, told
        return FoundConversation(host=host, session=session, transcript=grown[session], pid=process.pid), None

    def _grown_of_opencode(self, process: HostProcess, since: int) -> dict[str, str]:
        """Return the conversations of a folder in a process's database, by their names, the latest last."""
        database = self._databases.get((process.pid, process.started))
        if database is None:
            return {}
        from lastgood.conversation.opencode_database import written_since

        found = written_since(database, folder=process.folder, since=since)
        return {session: f"{database}/{session}" for session in found}

    def _note_database(self, process: HostProcess) -> None:
        """Remember which database a process has open: what it said last is read when it is gone."""
        for descriptor, path in _open_files(process.pid):
            if hosts.is_opencode_database(path) and is_open_to_write(process.pid, descriptor):
                self._databases[process.pid, process.started] = path


def _process(pid: int, started: str) -> HostProcess:
    words = content_of(pid, "cmdline").rstrip(b"\0").split(b"\0")
    variables = (one.partition(b"=") for one in content_of(pid, "environ").split(b"\0"))
    environment = {os.fsdecode(name): os.fsdecode(value) for name, _, value in variables}
    return HostProcess(
        pid=pid,
        started=started,
        words=tuple(os.fsdecode(word) for word in words),
        folder=_folder(pid),
        environment={name: environment[name] for name in _VARIABLES & environment.keys()},
    )


def _began(process: HostProcess) -> int:
    """Return when a process began, in nanoseconds as file systems keep times."""
    up = int(process.started) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + up


def _folder(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def _above(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while pid in parents:
        pid = parents[pid]
        yield pid


def _open_files(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the descriptors of a process with what they are open on."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        try:
            yield name, os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue


def _json(path: str, limit: int) -> dict[str, object] | None:
    """Return the JSON object in the first line of a file; None if there is none."""
    try:
        record = json.loads(_begin(path, limit).partition(b"\n")[0])
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _begin(path: str, limit: int) -> bytes:
    """Return the first so many bytes of a plain file; nothing of what would have to be waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)


def _claude_transcript(projects: str, *, folder: str, session: str, root: str) -> str | None:
    """Return the file of a conversation: in the folder of its project, whose name may be cut short.

    One in any other folder has to say itself that it is of the workspace.
    """
    likely = f"{projects}/{hosts.claude_folder(folder)}/{session}.jsonl"
    if os.path.isfile(likely):
        return likely
    paths = (f"{projects}/{name}/{session}.jsonl" for name in _names(projects))
    return next((path for path in paths if os.path.isfile(path) and _is_of(path, root)), None)


def _is_of(path: str, root: str) -> bool:
    """Tell whether the first folder that a conversation of Claude Code names lies in the workspace."""
    try:
        lines = _begin(path, _HEAD_BYTES).split(b"\n")
    except OSError:
        return False
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        folder = record.get("cwd") if isinstance(record, dict) else None
        if isinstance(folder, str):
            return lies_in(folder, root)
    return False


def _grown_of_gemini(process: HostProcess, since: int) -> dict[str, str]:
    """Return the conversations of a process's folder, by their names, that were written to since a moment."""
    home = hosts.gemini_home(process.environment)
    if home is None:
        return {}
    projects = f"{home}/tmp"  # noqa: S108 - a folder of its own
    found: dict[str, str] = {}
    for name in _names(projects):
        if _text(f"{projects}/{name}/.project_root") != process.folder:
            continue
        chats = f"{projects}/{name}/chats"
        paths = [f"{chats}/{file}" for file in _names(chats) if file.endswith(".jsonl")]
        for path in paths:
            session = _gemini_session(path) if _written_since(path, since) else None
            if session is not None:
                # Resumed in another minute it begins a second file, and goes on in the first all the same.
                files = [one for one in paths if one.endswith(path[-_NAME_END:])]
                found[session] = max((one for one in files if _gemini_session(one) == session), key=_size)
    return found


def _gemini_session(path: str) -> str | None:
    head = _json(path, _HEAD_BYTES)
    return None if head is None else hosts.gemini_session(head)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _written_since(path: str, since: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns >= since
    except OSError:
        return False


def _works_beside(root: str, own: Collection[int]) -> Iterator[tuple[hosts.Host, str]]:
    """Yield where in the workspace one works that is not below our command, of a host that tells nothing."""
    for pid in pids():
        folder = _folder(pid)
        if not lies_in(folder, root) or _is_below(pid, own):
            continue
        host = hosts.silent_host(_words(pid))
        if host is not None:
            yield host, folder


def _is_served(own: Collection[int]) -> bool:
    """Tell whether somebody has opencode serve the folders of others, whichever it was started in."""
    return any(hosts.is_server(_words(pid)) and not _is_below(pid, own) for pid in pids())


def _is_below(pid: int, own: Collection[int]) -> bool:
    """Tell whether a process is one of some or below them, now: our command may have begun it just before.

    Until it turns into another program, it is called as whoever began it.
    """
    return is_below(pid, own, parent=_parent)


def _parent(pid: int) -> int | None:
    facts = stat_of(pid)
    return int(facts[PARENT]) if facts else None


def _words(pid: int) -> list[str]:
    return [os.fsdecode(word) for word in content_of(pid, "cmdline").split(b"\0")]


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()


def _text(path: str) -> str | None:
    try:
        return os.fsdecode(_begin(path, 4096)).strip()
    except OSError:
        return None
