"""Processes as the kernel shows them: none is overlooked because it changes while it is looked at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from lastgood.processes import ProcFiles
from lastgood.procfs import words_of
from tools.living import children

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


def test_processes_that_beget_another_and_end_are_never_taken_for_gone() -> None:
    """P7: whoever is listed is gone when it is looked at, and has a child that was not listed yet."""
    program = (
        "import os, time\n"
        "print(flush=True)\n"
        "ends = time.monotonic() + 600\n"
        "while time.monotonic() < ends:\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
    )
    environment = {"PATH": os.environ["PATH"], "LASTGOOD_SESSION": SESSION}
    words = [sys.executable, "-S", "-c", program]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout is not None
            assert one.stdout.read(1)
            for _ in range(10):
                assert ProcFiles().marked(SESSION) != []
        finally:
            end_all(SESSION)


def end_all(session: str) -> None:
    while found := ProcFiles().marked(session):
        for living in found:
            try:
                os.kill(living.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def test_a_process_without_environment_or_words_is_not_waited_for() -> None:
    """Nor is a thread of the kernel, nor what has ended and waits for its parent."""
    with subprocess.Popen(
        ["env", "-i", sys.executable, "-S", "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as one:
        assert one.stdout is not None
        assert one.stdout.read(1)
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
