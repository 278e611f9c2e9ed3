"""The processes of this machine, read from the kernel's files (``/proc``, proc(5)).

The kernel's files cost 0.05 ms a process; a library for this costs 20 ms to import alone.
"""

from __future__ import annotations

import os

from lastgood.errors import NotFound
from lastgood.ids import AGENTS, SESSION_VARIABLE
from lastgood.model.session import Ancestor, Living, Owner, ProcessUsage
from lastgood.procfs import (
    GONE,
    PARENT,
    STATE,
    content_of,
    kernel_file,
    pids,
    settled_pids,
    stat_of,
    words_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.ancestry import Process
    from lastgood.model.session import Ancestry

_COMMAND_LIMIT = 200
# Fields of /proc/PID/stat after the name in parentheses, from 0.
_SESSION, _TERMINAL, _STARTED, _RESIDENT = 3, 4, 19, 21
# Processor time of its own, and of its children that ended: in user mode and in the kernel.
_TIMES = (11, 12, 13, 14)
# The PID namespace of the machine itself, in the kernel's include/linux/proc_ns.h.
_MACHINES = "pid:[4026531836]"
# The id of the machine's present run, once it was asked for.
_booted: str | None = None
# Nobody works below so many processes; what is above is not looked at.
_HIGHEST = 64


class ProcFiles:
    """Processes as ``/proc`` shows them; where there is none, little can be told.

    ``caller`` is the process that carries out a verb, or waits for that: this one unless another is named.
    """

    def __init__(self, caller: int | None = None) -> None:
        self._caller = os.getpid() if caller is None else caller

    def owner(self, pid: int | None) -> Owner:
        """Describe the owner of a lease; without a pid one that lives by heartbeat alone."""
        if pid is None:
            return Owner(host=os.uname().nodename)
        try:
            os.kill(pid, 0)
        except PermissionError:
            pass
        except (ProcessLookupError, OverflowError):
            raise NotFound(
                f"there is no process {pid}", hint="give the number of a process that runs: --owner-pid PID"
            ) from None
        stat = _stat(pid)
        return Owner(
            host=os.uname().nodename,
            pid=pid,
            command=_command(pid),
            started=stat[_STARTED].decode() if stat else None,
            boot=_boot(),
            namespace=_namespace(),
        )

    def alive(self, owner: Owner) -> bool | None:
        """Tell whether an owner lives; None where that cannot be told from here.

        What another machine runs cannot be told; that this machine was started anew since can. A life
        in another PID namespace is proven where that can be seen from here, a death there never.
        """
        if owner.pid is None or owner.host != os.uname().nodename:
            return None
        boot = _boot()
        if None not in {owner.boot, boot} and owner.boot != boot:
            return False
        if owner.namespace != _namespace():
            return True if seen_from_above(owner) else None
        return _lives(owner.pid, owner.started)

    def ancestry(self) -> Ancestry | None:
        """Return who is above this process, as far as that tells whose work it does; None if nobody can."""
        from lastgood.ancestry import ancestry, reach

        line, whole = _line(self._caller)
        if not line:
            return None
        namespace = _namespace()
        return ancestry(
            line,
            host=os.uname().nodename,
            boot=_boot(),
            namespace=namespace,
            counted=reach(line, is_machines=namespace == _MACHINES, whole=whole),
        )

    def ancestor(self, known: Ancestry) -> Owner:
        """Describe the owner that was found."""
        found = known.processes[0]
        return Owner(
            host=known.host,
            pid=found.pid,
            command=_command(found.pid),
            started=found.started,
            boot=known.boot,
            namespace=known.namespace,
        )

    def lives(self, known: Ancestry) -> bool | None:
        """Tell whether whoever is at work below some processes lives; None where that cannot be told."""
        from lastgood.ancestry import judge

        if known.host != os.uname().nodename:
            return None
        boot = _boot()
        if None not in {known.boot, boot} and known.boot != boot:
            return False
        if known.namespace != _namespace():
            return None
        states = [_lives(one.pid, one.started) for one in known.processes]
        return judge(known, states, own=self._own() if states[:1] == [False] else ())

    def are_own(self, known: Ancestry) -> bool:
        """Tell whether of some processes those that live, and one at least, are this one or above it."""
        if known.host != os.uname().nodename or (known.boot, known.namespace) != (_boot(), _namespace()):
            return False
        living = [one for one in known.processes if _lives(one.pid, one.started) is not False]
        own = self._own()
        return bool(living) and all(one in own for one in living)

    def boot(self) -> str | None:
        """Return the id of the machine's present run; None where that cannot be told."""
        return _boot()

    def encloses(self, owner: Owner) -> bool:
        """Tell whether this process is an owner, or was started below it."""
        return self.height(owner) is not None

    def height(self, owner: Owner) -> int | None:
        """Return how many processes up from this one an owner is; None if it is not above it."""
        if owner.pid is None or not self.alive(owner):
            return None
        pid, height = self._caller, 0
        while pid != owner.pid:
            stat = _stat(pid)
            if stat is None:
                return None
            pid, height = int(stat[PARENT]), height + 1
        return height

    def is_in_own_terminal(self, owner: Owner) -> bool:
        """Tell whether this process is in another terminal than an owner, and no agent says that it is its.

        An editor has terminals for a person below the very process that is an agent's host.
        """
        stats = [None if pid is None else _stat(pid) for pid in (self._caller, owner.pid)]
        own, theirs = (b"0" if stat is None else stat[_TERMINAL] for stat in stats)
        if own in {b"0", theirs}:
            return False
        return not _is_agents(self._caller)

    def left_in(self, root: bytes, *, by: Owner, living: Sequence[Owner]) -> Sequence[Living]:
        """Return what agents started in a folder since the life of an owner that is gone began.

        What is below some that live is theirs, and what is above this process is not left.
        """
        if by.started is None or (by.boot, by.namespace) != (_boot(), _namespace()):
            return ()
        own, others = {one.pid for one in self._own()}, {one.pid for one in living}
        return [
            Living(pid=pid, command=_command(pid) or "")
            for pid in settled_pids()
            if pid not in own
            and _works_in(pid, root)
            and (stat := _stat(pid)) is not None
            and int(stat[_STARTED]) >= int(by.started)
            and _is_agents(pid)
            and others.isdisjoint(one.pid for one in _line(pid)[0])
        ]

    def marked(self, session: str) -> Sequence[Living]:
        """Return the living processes, but this one, that were started within a session."""
        mark = f"{SESSION_VARIABLE}={session}".encode()
        return [
            Living(pid=pid, command=_command(pid) or "")
            for pid in settled_pids()
            if pid not in {os.getpid(), self._caller} and mark in words_of(pid, "environ")
        ]

    def _own(self) -> list[Ancestor]:
        """Return the caller and those above it."""
        return [Ancestor(pid=one.pid, started=one.started) for one in _line(self._caller)[0]]

    def usage(self, owner: Owner) -> ProcessUsage | None:
        """Return what an owner and the processes below it use; None where that cannot be told."""
        if owner.pid is None or not self.alive(owner):
            return None
        counted = family(owner.pid).values()
        # With what the kernel added to a parent when a child of it ended.
        ticks = sum(int(stat[time]) for stat in counted for time in _TIMES)
        pages = sum(int(stat[_RESIDENT]) for stat in counted)
        return ProcessUsage(
            memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
            cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        )


def _is_agents(pid: int) -> bool:
    """Tell whether an agent says in the environment of a process that it started it."""
    known = (os.fsdecode(one).partition("=")[0] for one in words_of(pid, "environ"))
    return not AGENTS.keys().isdisjoint(known)


def _works_in(pid: int, root: bytes) -> bool:
    try:
        folder = os.readlink(f"/proc/{pid}/cwd".encode())
    except OSError:
        return False
    return folder == root or folder.startswith(root + b"/")


def family(pid: int) -> dict[int, list[bytes]]:
    """Return the facts of a process and of all below it, by their numbers."""
    found: dict[int, list[bytes]] = {}
    waiting = [pid]
    whole = None
    while waiting:
        one = waiting.pop()
        stat = None if one in found else _stat(one)
        if stat is None:
            continue
        found[one] = stat
        below = children(one) if whole is None else whole.get(one, [])
        if below is None:  # a kernel that lists no children: look at every process, once
            whole = _all_children()
            below = whole.get(one, [])
        waiting += below
    return found


def children(pid: int) -> list[int] | None:
    """Return the children of a process as the kernel lists them; None if it does not."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            below = kernel_file(f"/proc/{pid}/task/{thread}/children")
            if below is None:
                break
            found += map(int, below.split())
        else:
            return found
    except OSError:
        pass
    return found if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else None


def _all_children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid in pids():
        stat = _stat(pid)
        if stat is not None:
            found.setdefault(int(stat[PARENT]), []).append(pid)
    return found


def seen_from_above(owner: Owner) -> bool:
    """Tell whether an owner is seen to live in its own PID namespace, which lies below this one."""
    for pid in pids():
        stat = _stat(pid)
        if stat is None or stat[STATE] in GONE or stat[_STARTED].decode() != owner.started:
            continue
        numbers = content_of(pid, "status").partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
        if _namespace(pid) == owner.namespace and numbers[-1:] == [b"%d" % (owner.pid or 0)]:
            return True
    return False


def _line(pid: int) -> tuple[list[Process], bool]:
    """Return a process and those above it, up to the first one; and whether all of them were seen."""
    from lastgood.ancestry import Process

    line: list[Process] = []
    while pid and len(line) < _HIGHEST:
        stat = _stat(pid)
        if stat is None:
            return line, False
        line.append(
            Process(
                pid=pid,
                parent=int(stat[PARENT]),
                session=int(stat[_SESSION]),
                terminal=stat[_TERMINAL] != b"0",
                started=stat[_STARTED].decode(),
            )
        )
        pid = int(stat[PARENT])
    return line, not pid


def _lives(pid: int, started: str | None) -> bool | None:
    stat = _stat(pid)
    if stat is not None:
        return stat[STATE] not in GONE and stat[_STARTED].decode() == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A process has the number; /proc, which tells which one, is missing or cannot be read just now.
    return None


def _stat(pid: int) -> list[bytes] | None:
    fields = stat_of(pid)
    return fields if len(fields) > _RESIDENT else None


def _command(pid: int) -> str | None:
    words = b" ".join(words_of(pid, "cmdline"))
    return words.decode("utf-8", "replace")[:_COMMAND_LIMIT] or None


def _boot() -> str | None:
    global _booted  # noqa: PLW0603 - no process outlives the run of the machine in which it began
    if _booted is None:
        found = kernel_file("/proc/sys/kernel/random/boot_id")
        _booted = None if found is None else found.decode("ascii", "replace").strip()
    return _booted


def counts_here(owner: Owner) -> bool:
    """Tell whether an owner's number, if it has one, is that of a process here and not elsewhere."""
    return owner.host == os.uname().nodename and owner.namespace == _namespace()


def _namespace(pid: int | None = None) -> str | None:
    try:
        return os.readlink(f"/proc/{pid or 'self'}/ns/pid")
    except OSError:
        return None
