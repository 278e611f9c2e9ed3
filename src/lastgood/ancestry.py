"""Whose a session is, told from the processes above its verbs (rule P1).

A verb of the command line is over in a moment; what goes on is a shell, a script, an agent above it. The
nearest process above all verbs of a session owns it. Neither names nor guesses say how far up that may
be: what starts everybody's work (a terminal's window, a service, the first process) is nobody's owner.
"""

from __future__ import annotations

from itertools import pairwise

from lastgood.model.session import Ancestor, Ancestry
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_FIRST = 1
# So many processes are remembered of verbs that have nobody in common.
_MOST = 32


class Process(Value):
    """One process as the kernel tells of it.

    ``parent`` is 0 where that is in another PID namespace, ``session`` the process that leads its
    session, ``terminal`` whether that has one; ``started`` is its start as the kernel counts it.
    """

    pid: int
    parent: int
    session: int
    terminal: bool
    started: str


class Reach(Value):
    """How much of a line of processes counts: the first ``owners`` may own, of ``known`` the death counts.

    ``open`` says that somebody beyond these, who lives or not, may be at work.
    """

    owners: int
    known: int
    open: bool


def reach(line: Sequence[Process], *, is_machines: bool, whole: bool = True) -> Reach:
    """Return how much of a line counts: a verb, and who is above it, up to the first process.

    Not ``whole``, there are more, which could not be seen. ``is_machines`` says that the first process is
    the machine's own, which only starts others; that of a container may be anybody, and so may whoever
    sent a line into it from outside, which ends before the first process.
    """
    is_whole = whole and is_machines and line[-1].pid == _FIRST
    last = len(line) - (2 if is_machines and line[-1].pid == _FIRST else 1)
    for place, (child, one) in enumerate(pairwise(line)):
        above = line[place + 2] if place + 2 < len(line) else None
        if child.terminal and not one.terminal:
            return Reach(owners=place, known=last, open=not is_whole)
        if one.pid == _FIRST:
            return Reach(owners=place, known=last, open=not is_machines)
        if not one.terminal and above is not None and _adopts(above, one):
            return Reach(owners=place, known=last, open=not is_whole)
    return Reach(owners=max(0, len(line) - 1), known=max(0, len(line) - 1), open=True)


def _adopts(parent: Process, child: Process) -> bool:
    """Tell whether a process takes in what others leave behind: the first one, or a subreaper.

    One that began after its child, or whose child belongs to a session that it neither leads nor is in,
    has not begotten it. A service without a terminal whose children lead sessions of their own starts
    everybody's work, as a user's service manager does.
    """
    if parent.pid == _FIRST or int(parent.started) > int(child.started):
        return True
    if child.session == child.pid:
        return parent.parent == _FIRST and not parent.terminal
    return child.session not in {parent.session, parent.pid}


def follow(known: Ancestry | None, seen: Ancestry, *, alive: bool | None) -> Ancestry:
    """Return what is known of an owner after one more verb, which was ``seen`` below some processes.

    ``alive`` says whether who is known lives. A verb from elsewhere changes nothing while an owner lives,
    or may live out of sight. Where it was the shell of some verbs only, the next one shows who began it.
    Where verbs have nobody in common, none of them owns; what is forgotten of them then leaves it open.
    """
    if known is None or known.verb == seen.verb:
        return known or seen
    if known.found and alive:
        return known
    if (known.host, known.boot, known.namespace) != (seen.host, seen.boot, seen.namespace):
        return seen if alive is False else known
    shared = [one for one in known.processes[: known.owners] if one in seen.processes]
    if shared:
        rest = known.processes[known.owners :]
        return known.replace(processes=(*shared, *rest), owners=len(shared), found=True, verb=seen.verb)
    if known.found or alive is False:
        return known if alive is None else seen
    is_open = seen.open or known.open
    others = () if is_open else tuple(one for one in known.processes if one not in seen.processes)
    kept = (*seen.processes, *others)[:_MOST]
    is_open = is_open or len(kept) < len(seen.processes) + len(others)
    return seen.replace(processes=kept, owners=0, open=is_open)


def judge(known: Ancestry, states: Sequence[bool | None], *, own: Collection[Ancestor] = ()) -> bool | None:
    """Tell whether a session's owner lives, from whether its processes do; None where nobody can tell.

    An owner that was found is proven to live. Dead, it may have been no more than the shell of some verbs:
    death is proven only where everybody above it is dead too, or the caller's ``own``, whom nothing is
    kept from; and where some were out of sight, only if one of these lives.
    Before one is found nobody is proven to live, and everybody has to be dead.
    """
    if known.found and states[0] is not False:
        return states[0]
    if known.found:
        living = [one for one, state in zip(known.processes, states, strict=True) if state is not False]
        unknown = any(one not in own for one in living) or (known.open and not living)
        return None if unknown else False
    gone = all(state is False for state in states)
    return False if gone and states and not known.open else None


def ancestry(
    line: Sequence[Process], *, host: str, boot: str | None, namespace: str | None, counted: Reach
) -> Ancestry:
    """Return what a verb, the first of a line, tells of its session's owner."""
    above = tuple(Ancestor(pid=one.pid, started=one.started) for one in line[1 : counted.known + 1])
    return Ancestry(
        host=host,
        boot=boot,
        namespace=namespace,
        processes=above,
        owners=counted.owners,
        open=counted.open,
        verb=Ancestor(pid=line[0].pid, started=line[0].started),
    )


def is_below(pid: int, owners: Collection[int], *, parent: Callable[[int], int | None]) -> bool:
    """Tell whether a process is one of some, or below them.

    ``parent`` tells whose child one is now, None where it cannot be seen. One that ended has left its
    children to another; who is above one that stays hidden, as another user's may be, nobody can tell.
    """
    child = place = pid
    while place not in owners:
        above = parent(place)
        if above is None and place != child:
            again = parent(child)
            if again == place:
                return False
            child, place = (pid, pid) if again is None else (child, again)
        elif not above:
            return False
        else:
            child, place = place, above
    return True
