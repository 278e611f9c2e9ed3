"""Processes as the kernel shows them, owners of leases, and clocks (rules P1, P4, S16)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable

import pytest

from lastgood.errors import NotFound
from lastgood.host import SystemClock
from lastgood.processes import ProcFiles, seen_from_above
from lastgood.procfs import words_of
from lastgood.testing.clock import FakeClock
from tools.living import children, eventually, eventually_gone
from tools.values import not_none

SESSION = f"sess_{os.urandom(8).hex()}"


def test_a_process_is_known_from_its_first_moment_by_its_mark_and_its_words() -> None:
    """P7: a program has no environment for a moment while it comes into being (execve(2))."""
    environment = {"PATH": os.environ["PATH"], "LASTGOOD_SESSION": SESSION}
    for _ in range(50):
        with subprocess.Popen(["sleep", "1000"], env=environment) as one:
            found = ProcFiles().marked(SESSION)
            one.kill()
        assert [(living.pid, living.command) for living in found] == [(one.pid, "sleep 1000")]


def test_an_owner_is_told_by_name_from_its_first_moment() -> None:
    for _ in range(50):
        with subprocess.Popen(["sleep", "1000"]) as one:
            owner = ProcFiles().owner(one.pid)
            one.kill()
        assert owner.command == "sleep 1000"


@pytest.mark.parametrize("often", [1, 2, 5])
def test_processes_that_beget_another_and_end_are_never_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch, often: int
) -> None:
    """P7: whoever is listed is gone when it is looked at, and has a child that was not listed yet."""
    program = (
        "import os\n"
        "while True:\n"
        "    print(os.getpid(), flush=True)\n"
        "    if not os.read(0, 1) or os.fork():\n"
        "        os._exit(0)\n"
    )
    environment = {"PATH": os.environ["PATH"], "LASTGOOD_SESSION": SESSION}
    words, pipe = [sys.executable, "-S", "-c", program], subprocess.PIPE
    with subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, bufsize=0) as one:
        living = [int(not_none(one.stdout).readline())]
        listdir = os.listdir

        def listing(place: str) -> list[str]:
            names = listdir(place)
            if place == "/proc" and len(living) <= often:
                not_none(one.stdin).write(b"x")
                living.append(int(not_none(one.stdout).readline()))
                assert eventually_gone(living[-2])
            return names

        monkeypatch.setattr(os, "listdir", listing)
        assert [found.pid for found in ProcFiles().marked(SESSION)] == [living[-1]]
        assert len(living) == often + 1


def test_a_process_without_environment_or_words_is_not_waited_for() -> None:
    """Nor is a thread of the kernel, nor what has ended and waits for its parent."""
    with subprocess.Popen(
        ["env", "-i", sys.executable, "-S", "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as one:
        assert not_none(one.stdout).read(1)
        assert words_of(one.pid, "environ") == []
        assert words_of(one.pid, "cmdline")[0] == os.fsencode(sys.executable)
        one.communicate(b"\n")
    ended = os.fork()
    if ended == 0:
        os._exit(0)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    assert ended in children(os.getpid())
    assert words_of(ended, "environ") == []
    os.waitpid(ended, 0)
    assert words_of(ended, "environ") == []


# Owners of leases and what their processes use, as the kernel shows them (rules P1, P4, S16).


Sleeper = Callable[[], subprocess.Popen[bytes]]

PROCESSES = ProcFiles()


def test_a_killed_owner_is_dead_at_once(sleeper: Sleeper) -> None:
    """P1: also while nobody has collected it."""
    one = sleeper()
    owner = PROCESSES.owner(one.pid)
    assert PROCESSES.alive(owner) is True
    one.kill()
    assert eventually(lambda: PROCESSES.alive(owner) is False)
    one.wait()
    assert PROCESSES.alive(owner) is False


def test_a_living_owner_is_not_dead_to_whoever_can_open_no_file(sleeper: Sleeper) -> None:
    owner = PROCESSES.owner(sleeper().pid)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
    try:
        found = PROCESSES.alive(owner)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found is not False


def test_a_later_process_of_the_same_number_is_another_owner(sleeper: Sleeper) -> None:
    owner = PROCESSES.owner(sleeper().pid)
    assert PROCESSES.alive(owner.replace(started="1")) is False


def test_an_owner_of_an_earlier_run_of_the_machine_is_dead(sleeper: Sleeper) -> None:
    owner = PROCESSES.owner(sleeper().pid)
    assert PROCESSES.alive(owner.replace(boot="another")) is False


@pytest.mark.parametrize("elsewhere", [{"namespace": "pid:[1]"}, {"host": "another"}, {"pid": None}])
def test_of_an_owner_elsewhere_nobody_can_tell(sleeper: Sleeper, elsewhere: dict[str, object]) -> None:
    """S16: it is never declared dead."""
    one = sleeper()
    owner = PROCESSES.owner(one.pid).replace(**elsewhere)
    one.kill()
    one.wait()
    assert PROCESSES.alive(owner) is None


def test_a_life_in_a_namespace_below_is_seen_and_another_is_not(sleeper: Sleeper) -> None:
    """S16: the number alone says nothing there; start and namespace have to fit too."""
    one = sleeper()
    owner = PROCESSES.owner(one.pid)
    assert seen_from_above(owner)
    # A number that no process can have: the next one may have begun in the same tick of the clock.
    for other in ({"namespace": "pid:[1]"}, {"started": "1"}, {"pid": 2**22 + 1}):
        assert not seen_from_above(owner.replace(**other))
    one.kill()
    one.wait()
    assert not seen_from_above(owner)


def test_a_process_that_does_not_run_is_no_owner(sleeper: Sleeper) -> None:
    one = sleeper()
    one.kill()
    one.wait()
    for pid in (one.pid, 2**22 + 1, 2**70):
        with pytest.raises(NotFound, match="there is no process"):
            PROCESSES.owner(pid)


def test_a_name_with_spaces_and_parentheses_is_read_right() -> None:
    program = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, b') Z (1'); print(flush=True); time.sleep(600)"
    )
    one = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        not_none(one.stdout).readline()
        assert PROCESSES.alive(PROCESSES.owner(one.pid)) is True
    finally:
        one.kill()
        one.communicate()


FAMILY = """
import subprocess, sys, time
below = subprocess.Popen([sys.executable, "-c", "import time; kept = bytearray(64 << 20); print(flush=True);"
                          " time.sleep(600)"], stdout=subprocess.PIPE)
below.stdout.readline()
subprocess.run([sys.executable, "-c", "import time; ends = time.process_time() + 0.3\\nwhile"
                " time.process_time() < ends: pass"])
print(below.pid, flush=True)
time.sleep(600)
"""


def test_the_usage_of_an_owner_counts_those_below_it_and_those_that_ended() -> None:
    """P4."""
    above = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True)
    below = int(not_none(above.stdout).readline())
    try:
        used = not_none(PROCESSES.usage(PROCESSES.owner(above.pid)))
        assert used.memory_bytes > 64 << 20
        assert used.cpu_seconds >= 0.3
        alone = not_none(PROCESSES.usage(PROCESSES.owner(below)))
        assert alone.memory_bytes < used.memory_bytes
    finally:
        os.kill(below, 9)
        above.kill()
        above.communicate()


def test_of_the_dead_and_of_heartbeats_there_is_no_usage(sleeper: Sleeper) -> None:
    one = sleeper()
    owner = PROCESSES.owner(one.pid)
    one.kill()
    one.wait()
    assert PROCESSES.usage(owner) is None
    assert PROCESSES.usage(PROCESSES.owner(None)) is None


def test_a_process_is_within_its_parents_and_not_within_its_children(sleeper: Sleeper) -> None:
    """T14: whose session it is that a restore runs in."""
    assert PROCESSES.encloses(PROCESSES.owner(os.getpid()))
    assert PROCESSES.encloses(PROCESSES.owner(os.getppid()))
    assert not PROCESSES.encloses(PROCESSES.owner(sleeper().pid))
    assert not PROCESSES.encloses(PROCESSES.owner(None))


def test_how_far_above_a_process_is_another_is_counted() -> None:
    assert PROCESSES.height(PROCESSES.owner(os.getpid())) == 0
    assert PROCESSES.height(PROCESSES.owner(os.getppid())) == 1
    assert PROCESSES.height(PROCESSES.owner(None)) is None


def test_processes_of_a_session_are_found_by_their_environment() -> None:
    session = f"sess_{os.urandom(8).hex()}"
    environment = dict(os.environ) | {"LASTGOOD_SESSION": session}
    one = subprocess.Popen(["sleep", "600"], env=environment)
    try:
        assert eventually(lambda: [found.pid for found in PROCESSES.marked(session)] == [one.pid])
        assert PROCESSES.marked(session[:-1]) == []
    finally:
        one.kill()
        one.wait()


# The clocks.


def test_the_system_clock_tells_time_and_draws_anew() -> None:
    clock = SystemClock()
    assert clock.now() > 1_700_000_000_000_000_000
    assert clock.monotonic() <= clock.monotonic()
    assert len({clock.random() for _ in range(100)}) == 100
    assert len(clock.random()) == 8


def test_a_fake_clock_stands_steps_and_jumps() -> None:
    """S15."""
    standing = FakeClock(start=5)
    assert (standing.now(), standing.now()) == (5, 5)
    stepping = FakeClock(start=0, step=1.5)
    assert (stepping.now(), stepping.now()) == (1_500_000_000, 3_000_000_000)
    assert stepping.monotonic() == 4.5
    stepping.jump(-100)
    assert stepping.now() == -94_000_000_000
    assert stepping.monotonic() == 7.5


def test_a_fake_clock_s_chance_repeats_and_never_within_a_run() -> None:
    one, two = FakeClock(), FakeClock()
    drawn = [one.random() for _ in range(1000)]
    assert drawn == [two.random() for _ in range(1000)]
    assert len(set(drawn)) == 1000
    assert {len(piece) for piece in drawn} == {8}
