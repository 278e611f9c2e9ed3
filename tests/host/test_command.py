"""Commands of the caller: their end, their output, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.command import TAIL, GuardedCommands
from lastgood.model.checkpoint import Ran
from tools.living import LONG, eventually_gone, lives, written


def run(folder: Path, *words: str, timeout: float = LONG, tick: Callable[[], None] = lambda: None) -> Ran:
    environment = {"PATH": os.environ["PATH"]}
    return GuardedCommands(environment, tick=tick).run(
        words, directory=os.fsencode(folder), variables={"LASTGOOD_CHECKPOINT": "ckpt_1"}, timeout=timeout
    )


def shell(folder: Path, text: str, *, timeout: float = LONG, tick: Callable[[], None] = lambda: None) -> Ran:
    return run(folder, "/bin/sh", "-c", text, timeout=timeout, tick=tick)


def test_a_command_tells_its_exit_code_and_its_words(tmp_path: Path) -> None:
    ran = shell(tmp_path, "pwd; echo $LASTGOOD_CHECKPOINT >&2; exit 7")
    assert (ran.ending, ran.code) == ("exited", 7)
    assert ran.tail == os.fsencode(tmp_path) + b"\nckpt_1\n"


def test_a_command_has_nothing_to_read(tmp_path: Path) -> None:
    assert shell(tmp_path, "cat; echo done").tail == b"done\n"


def test_a_command_that_is_missing_never_started(tmp_path: Path) -> None:
    ran = run(tmp_path, "no-such-program")
    assert (ran.ending, ran.fault) == ("unstarted", "no-such-program: No such file or directory")


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """Also what ignores a gentle word, and what has left the group."""
    text = (
        "trap '' TERM; sleep 1000 & echo $! > inner; setsid sleep 1000 & echo $! > outer;"
        " sleep 1000; sleep 1000"
    )

    def tick() -> None:  # its time is over only when it has got so far, however slow the machine
        assert written(tmp_path / "inner")
        assert written(tmp_path / "outer")

    ran = shell(tmp_path, text, timeout=0.5, tick=tick)
    assert ran.ending == "stopped"
    for name in ("inner", "outer"):
        assert not lives(int((tmp_path / name).read_text()))


def test_what_a_command_leaves_in_the_background_is_ended(tmp_path: Path) -> None:
    ran = shell(tmp_path, "sleep 1000 & echo $! > left; echo over")
    assert (ran.ending, ran.code, ran.tail) == ("exited", 0, b"over\n")
    assert not lives(int((tmp_path / "left").read_text()))


def test_a_command_killed_by_a_signal_says_so(tmp_path: Path) -> None:
    ran = shell(tmp_path, "kill -SEGV $$")
    assert (ran.ending, ran.code) == ("killed", signal.SIGSEGV)


def test_only_the_end_of_much_output_is_kept(tmp_path: Path) -> None:
    ran = shell(tmp_path, "head -c 300000000 /dev/zero; echo; echo the end")
    assert ran.code == 0
    assert len(ran.tail) == TAIL
    assert ran.tail.endswith(b"\0\nthe end\n")


def test_a_command_that_closes_its_descriptors_is_waited_for(tmp_path: Path) -> None:
    ran = shell(tmp_path, "echo before; exec >&- 2>&- <&-; sleep 0.4; exit 5")
    assert (ran.ending, ran.code, ran.tail) == ("exited", 5, b"before\n")


def test_an_interrupted_wait_ends_the_command(tmp_path: Path) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    def interrupt_it() -> None:
        written(tmp_path / "pid")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    thread = threading.Thread(target=interrupt_it)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            shell(tmp_path, "echo $$ > pid; exec sleep 1000", timeout=1000)
    finally:
        thread.join()
        signal.signal(signal.SIGALRM, before)
    assert not lives(int((tmp_path / "pid").read_text()))


def test_a_command_does_not_outlive_a_killed_runner(tmp_path: Path) -> None:
    words = ["/bin/sh", "-c", "echo $$ > pid.new; mv pid.new pid; exec sleep 1000"]
    program = (
        "import os; from lastgood.command import GuardedCommands;"
        f" GuardedCommands(dict(os.environ)).run({words}, directory={os.fsencode(tmp_path)!r},"
        " variables={}, timeout=1000)"
    )
    runner = subprocess.Popen([sys.executable, "-c", program])
    pid = tmp_path / "pid"
    while not pid.exists():
        time.sleep(0.02)
    runner.kill()
    runner.wait()
    assert eventually_gone(int(pid.read_text()))
