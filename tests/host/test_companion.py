"""A process forked for one piece of work: it tells, it holds nothing, and it goes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lastgood.worker import Companion, is_sound

if TYPE_CHECKING:
    from lastgood.worker import Tell


def stay(tell: Tell) -> None:
    tell(b"here")
    while True:
        signal.pause()


def test_it_says_what_came_of_its_work() -> None:
    known = b"x" * 300_000

    def work(tell: Tell) -> None:
        tell(known + known)

    companion = Companion(work, keep=[])
    assert companion.hear(300_000) == known
    assert companion.hear(1_000_000) == known
    assert companion.hear(1) == b""
    companion.end()
    companion.end()
    assert companion.hear(1) == b""


def test_work_that_fails_says_no_more_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def work(tell: Tell) -> None:
        tell(b"be")
        raise ValueError("a reason")

    companion = Companion(work, keep=[])
    assert companion.hear(4) == b"be"
    companion.end()
    assert capfd.readouterr() == ("", "")


def test_it_holds_no_lock_that_was_held_before(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"content")
    with (tmp_path / "lock").open("w") as held, (tmp_path / "kept").open("rb") as kept:
        fcntl.flock(held, fcntl.LOCK_SH)
        place = kept.fileno()

        def work(tell: Tell) -> None:
            tell(os.pread(place, 4, 0))
            stay(tell)

        companion = Companion(work, keep=[place])
        assert companion.hear(8) == b"conthere"
    with (tmp_path / "lock").open("w") as wanted:
        fcntl.flock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
    companion.end()


def test_it_is_gone_when_it_was_ended() -> None:
    def work(tell: Tell) -> None:
        tell(os.getpid().to_bytes(8, "big"))
        stay(tell)

    companion = Companion(work, keep=[])
    pid = int.from_bytes(companion.hear(8), "big")
    os.kill(pid, 0)
    os.kill(pid, signal.SIGINT)  # what a terminal sends to both is for the one that asked
    assert companion.hear(4) == b"here"
    companion.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_ends_soon_after_the_one_that_asked_was_killed(tmp_path: Path) -> None:
    code = textwrap.dedent(
        f"""
        import os, signal, time
        from lastgood.worker import Companion
        def work(tell):
            with open({str(tmp_path / "pid")!r}, "w") as file:
                file.write(str(os.getpid()))
            tell(b"here")
            while True:
                time.sleep(0.01)
                tell(b"")
        companion = Companion(work, keep=[])
        assert companion.hear(4) == b"here"
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{pid}") and "Z" not in state(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def test_no_process_is_forked_beside_another_thread_or_from_a_large_one() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert not is_sound(1 << 60)
    end.set()
    thread.join()
    assert not is_sound(1)
