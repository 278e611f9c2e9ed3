"""Whose a session is, from lines of processes alone: every rule of P1 about owners that are found."""

from __future__ import annotations

import pytest

from lastgood.ancestry import Process, Reach, ancestry, follow, is_below, judge, reach
from lastgood.model.session import Ancestor, Ancestry

INIT = Process(pid=1, parent=0, session=1, terminal=False, started="1")


def process(pid: int, parent: int, *, terminal: bool = False, session: int = 50, started: int = 0) -> Process:
    return Process(
        pid=pid, parent=parent, session=session, terminal=terminal, started=str(started or 1000 + pid)
    )


def line(*pids: int, terminal: bool = True) -> list[Process]:
    """Return a verb and who is above it, all of one session."""
    return [
        process(pid, above, terminal=terminal, session=pids[-1])
        for pid, above in zip(pids, (*pids[1:], 1), strict=True)
    ]


WINDOW = process(50, 40, session=40)
SERVICE = process(40, 1, session=40)
DAEMON = process(30, 1, session=30)
AT_DAEMON = process(60, 30, session=30)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [*line(90, 80, 70), INIT], Reach(owners=2, known=2, open=False), id="below the first process"
        ),
        pytest.param(
            [
                process(90, 80, terminal=True),
                process(80, 70, terminal=True),
                process(70, 50, terminal=True),
                WINDOW,
                SERVICE,
                INIT,
            ],
            # The window may be an agent that opens a terminal for each command.
            Reach(owners=2, known=4, open=False),
            id="below the window of a terminal",
        ),
        pytest.param(
            [process(90, 60, session=30), AT_DAEMON, DAEMON, INIT],
            Reach(owners=1, known=2, open=False),
            id="below what the first process started",
        ),
        pytest.param(
            [
                process(90, 80, session=80),
                process(80, 70, session=80),
                process(70, 40, session=70),
                SERVICE,
                INIT,
            ],
            Reach(owners=1, known=3, open=False),
            id="below what a service manager started",
        ),
        pytest.param(
            [process(90, 80, session=77), process(80, 60, session=77), AT_DAEMON, DAEMON, INIT],
            Reach(owners=0, known=3, open=False),
            id="below what was adopted: its session is not that of whom it is below",
        ),
        pytest.param(
            [process(90, 80), process(80, 60, started=5), process(60, 55, started=9), WINDOW, INIT],
            Reach(owners=0, known=3, open=False),
            id="below what was adopted: who is above it began later",
        ),
        pytest.param(
            [process(90, 80, terminal=True, session=90), process(80, 70), process(70, 1), INIT],
            Reach(owners=0, known=2, open=False),
            id="a verb with a terminal of its own",
        ),
        pytest.param(
            [process(90, 80), process(80, 0)],
            # Whoever sent it (docker exec, nsenter) is out of sight, and may be an agent at work.
            Reach(owners=1, known=1, open=True),
            id="up to what came from outside into a container",
        ),
    ],
)
def test_the_search_for_an_owner_stops_by_structure(given: list[Process], expected: Reach) -> None:
    """P1."""
    assert reach(given, is_machines=True) == expected


@pytest.mark.parametrize(
    "given",
    [
        [*line(90, 80), INIT],
        [*line(90, 80, terminal=False), INIT],
        [process(90, 80, terminal=True), process(80, 1, terminal=True), INIT],
    ],
)
def test_the_first_process_of_a_container_may_be_anybody(given: list[Process]) -> None:
    """P1: nobody is proven dead as long as it may be an agent."""
    assert reach(given, is_machines=False).open


def test_the_first_process_of_a_container_is_a_witness() -> None:
    """P1: who is below it, and asks, is told of a death all the same."""
    counted = reach([*line(90, 80), INIT], is_machines=False)
    assert (counted.owners, counted.known) == (1, 2)


def test_where_not_everybody_is_seen_nobody_is_proven_dead() -> None:
    """P1."""
    assert reach(line(90, 80), is_machines=True, whole=False).open


# Verbs one after the other. A letter is a process; the first one is the verb.


def seen(pids: str, *, owners: int | None = None, open: bool = False, boot: str = "b") -> Ancestry:
    given = line(*map(ord, pids))
    counted = Reach(owners=len(pids) - 1 if owners is None else owners, known=len(pids) - 1, open=open)
    return ancestry(given, host="h", boot=boot, namespace="n", counted=counted)


def told(*verbs: str, dead: str = "", caller: str = "") -> tuple[str, bool, bool | None]:
    """Return who owns after some verbs, whether that is settled, and whether it lives for a caller."""
    own = [Ancestor(pid=ord(one), started=str(1000 + ord(one))) for one in caller]
    known: Ancestry | None = None
    for verb in verbs:
        alive = None if known is None else judge(known, states(known, dead=dead), own=own)
        known = follow(known, seen(verb), alive=alive)
    assert known is not None
    owners = "".join(chr(one.pid) for one in known.processes[: known.owners])
    return owners, known.found, judge(known, states(known, dead=dead), own=own)


def states(known: Ancestry, *, dead: str) -> list[bool | None]:
    return [chr(one.pid) not in dead for one in known.processes]


@pytest.mark.parametrize(
    ("verbs", "dead", "owner", "found", "alive"),
    [
        pytest.param(["vsab"], "", "sab", False, None, id="one verb proves no life"),
        pytest.param(["vsab"], "s", "sab", False, None, id="one verb: its shell alone proves no death"),
        pytest.param(["vsab"], "sab", "sab", False, False, id="one verb: dead when all are"),
        pytest.param(["vsab", "wsab"], "", "sab", True, True, id="two verbs of a script"),
        pytest.param(["vsab", "wsab"], "s", "sab", True, None, id="a script that is gone: its parent lives"),
        pytest.param(["vsab", "wsab"], "sa", "sab", True, None, id="one that lives above is enough"),
        pytest.param(
            ["vsab", "wsab"], "sab", "sab", True, False, id="a script that and all above were killed"
        ),
        pytest.param(["vsab", "wtab"], "st", "ab", True, True, id="a new shell for each verb"),
        pytest.param(["vsab", "wtab", "xuab"], "stu", "ab", True, True, id="and again"),
        pytest.param(["vsab", "wtab"], "sta", "ab", True, None, id="a killed agent: its shell lives"),
        pytest.param(["vsab", "wtab"], "stab", "ab", True, False, id="a killed agent, with its shell"),
        pytest.param(["vsab", "wtab", "xb"], "st", "ab", True, True, id="a verb from elsewhere"),
        pytest.param(["vsab", "vsab"], "", "sab", False, None, id="the same verb twice is one"),
        pytest.param(["vsab", "wsab", "xtab"], "s", "ab", True, True, id="a first shell of two verbs"),
        pytest.param(["vsab", "wsab", "xcd"], "s", "sab", True, None, id="gone, and a verb from elsewhere"),
        pytest.param(["vsab", "wtcd"], "", "", False, None, id="nobody in common"),
        pytest.param(["vsab", "wtcd"], "tcd", "", False, None, id="nobody in common, one side dead"),
        pytest.param(["vsab", "wtcd"], "sab", "tcd", False, None, id="gone on by somebody else"),
        pytest.param(["vsab", "wtcd", "xucd"], "sabtu", "cd", True, True, id="who then is found"),
    ],
)
def test_the_owner_is_the_nearest_above_all_verbs(
    verbs: list[str], dead: str, *, owner: str, found: bool, alive: bool | None
) -> None:
    """P1."""
    assert told(*verbs, dead=dead) == (owner, found, alive)


def test_a_living_process_above_the_caller_is_nobody_else() -> None:
    """P1: whoever asks below it is told that the owner is dead; anybody else that nobody knows."""
    assert told("vsab", "wsab", dead="s", caller="xab") == ("sab", True, False)
    assert told("vsab", "wsab", dead="s", caller="xb") == ("sab", True, None)


def test_who_sent_some_verbs_in_from_out_of_sight_may_be_at_work() -> None:
    """P1: what is left of them proves nothing, unless somebody above them lives, who is the caller's own."""
    known = follow(seen("vsab", open=True), seen("wsab", open=True), alive=None)
    assert known.found
    assert judge(known, [False, False, False]) is None
    assert judge(known, [False, False, True], own=[Ancestor(pid=ord("b"), started="1098")]) is False


def test_a_hundred_new_shells_leave_the_agent_the_owner() -> None:
    """P1."""
    known: Ancestry | None = None
    for number in range(100):
        shell = Ancestor(pid=1000 + number, started=str(number))
        agent = Ancestor(pid=7, started="1")
        verb = Ancestor(pid=2000 + number, started=str(number))
        one = Ancestry(host="h", processes=(shell, agent), verb=verb, owners=2)
        known = follow(known, one, alive=None if known is None else True)
    assert known is not None
    assert (known.processes, known.found) == ((Ancestor(pid=7, started="1"),), True)


def test_another_process_of_the_same_number_is_another_one() -> None:
    """P1: numbers are used again."""
    known = follow(seen("vsab"), seen("wtab"), alive=None)
    again = seen("xuab").replace(
        processes=(Ancestor(pid=ord("u"), started="1"), Ancestor(pid=ord("a"), started="9999"))
    )
    assert follow(known, again.replace(owners=2), alive=False) == again.replace(owners=2)


def test_what_cannot_be_compared_changes_nothing_unless_the_owner_is_dead() -> None:
    """P1: a verb from another run of the machine, another one, another namespace."""
    other = seen("wsab", boot="another")
    assert follow(seen("vsab"), other, alive=None) == seen("vsab")
    assert follow(seen("vsab"), other, alive=False) == other


def test_an_owner_out_of_sight_is_not_replaced() -> None:
    """P1."""
    known = follow(seen("vsab"), seen("wsab"), alive=None)
    assert follow(known, seen("xt"), alive=None) == known


def test_whoever_cannot_be_seen_is_not_proven_dead() -> None:
    """P1."""
    known = seen("vsab")
    assert judge(known, [False, None, False]) is None
    assert judge(known.replace(open=True), [False, False, False]) is None
    assert judge(known.replace(processes=()), []) is None


@pytest.mark.parametrize("open", [True, False])
def test_verbs_that_have_nobody_in_common_are_not_kept_without_end(*, open: bool) -> None:
    """P1: what is forgotten makes it less certain who is dead, never more."""
    known: Ancestry | None = None
    for number in range(100, 200):
        counted = Reach(owners=1, known=1, open=open)
        verb = ancestry(line(number + 1000, number), host="h", boot="b", namespace="n", counted=counted)
        known = follow(known, verb, alive=None)
    assert known is not None
    assert len(known.processes) <= (1 if open else 32)
    assert known.processes[0].pid == 199
    assert judge(known, [False] * len(known.processes)) is None


# --- Whether a process is below some others ---


@pytest.mark.parametrize(
    ("pid", "found"),
    [(7, True), (40, True), (9, True), (30, False), (1, False), (99, False), (21, False)],
)
def test_a_process_is_below_whoever_began_it(pid: int, *, found: bool) -> None:
    """P7c: 20 is another user's, and cannot be seen."""
    parents = {40: 7, 9: 40, 7: 1, 30: 1, 21: 20, 1: 0}
    assert is_below(pid, {7}, parent=parents.get) is found


def test_a_process_whose_parent_has_just_ended_is_below_who_took_it_over() -> None:
    """P7c."""
    told = {9: iter([8, 7]), 8: iter([None])}
    assert is_below(9, {7}, parent=lambda pid: next(told[pid]))


def test_a_process_is_looked_at_again_if_two_above_it_ended() -> None:
    """P7c."""
    told = {9: iter([8, 7]), 8: iter([6, None]), 6: iter([None])}
    assert is_below(9, {7}, parent=lambda pid: next(told[pid]))
