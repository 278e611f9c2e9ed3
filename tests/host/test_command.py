"""Commands of the caller and processes of ours: their end, their output, and what they leave behind."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.command import TAIL, GuardedCommands
from lastgood.model.checkpoint import CommandResult
from lastgood.worker import Worker, is_sound
from lastgood.workspace.running.output import KEPT_BYTES, Output, safe_name
from tools.living import LONG, eventually, eventually_gone, lives, written

if TYPE_CHECKING:
    from lastgood.worker import Tell


def run(
    folder: Path, *words: str, timeout: float = LONG, tick: Callable[[], None] = lambda: None
) -> CommandResult:
    environment = {"PATH": os.environ["PATH"]}
    return GuardedCommands(environment, tick=tick).run(
        words, directory=os.fsencode(folder), variables={"LASTGOOD_CHECKPOINT": "ckpt_1"}, timeout=timeout
    )


def shell(
    folder: Path, text: str, *, timeout: float = LONG, tick: Callable[[], None] = lambda: None
) -> CommandResult:
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
    assert eventually(pid.exists)
    runner.kill()
    runner.wait()
    assert eventually_gone(int(pid.read_text()))


# What commands wrote, on disk: the beginning and the end, whatever a task is called and a disk holds.


SOURCE = Path(__file__).parent.parent.parent / "src"


def kept(folder: Path, *parts: bytes) -> bytes:
    with Output(os.fsencode(folder), task="T01", attempt=1) as output:
        for part in parts:
            output.write(part)
    assert output.fault is None
    return Path(os.fsdecode(output.path)).read_bytes()


def test_an_output_is_kept_in_a_private_file_as_it_grows(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "sess_1"
    output = Output(os.fsencode(folder), task="T01", attempt=2)
    output.write(b"one\n")
    file = folder / "T01.2.log"
    assert file.read_bytes() == b"one\n"
    output.write(b"two\n")
    output.close()
    assert file.read_bytes() == b"one\ntwo\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("size", [0, 1, KEPT_BYTES, KEPT_BYTES + 1, 2 * KEPT_BYTES])
def test_what_fits_is_kept_whole(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    assert kept(tmp_path, content[:70_000], content[70_000:]) == content


@pytest.mark.parametrize("size", [2 * KEPT_BYTES + 1, 3 * KEPT_BYTES + 1, 9 * KEPT_BYTES + 12345])
@pytest.mark.parametrize("part", [65536, 1_000_003])
def test_of_more_the_beginning_and_the_end_are_kept(tmp_path: Path, size: int, part: int) -> None:
    content = os.urandom(size)
    found = kept(tmp_path, *(content[at : at + part] for at in range(0, size, part)))
    missing = size - 2 * KEPT_BYTES
    middle = b"\n[%d bytes are left out here]\n" % missing
    assert found == content[:KEPT_BYTES] + middle + content[-KEPT_BYTES:]


def test_the_file_stays_bounded_while_it_grows(tmp_path: Path) -> None:
    output = Output(os.fsencode(tmp_path), task="T01", attempt=1)
    for _ in range(200):
        output.write(b"x" * 65536)
        assert (tmp_path / "T01.1.log").stat().st_size <= 3 * KEPT_BYTES + 100
    output.close()


def test_an_attempt_of_the_same_number_replaces_its_output(tmp_path: Path) -> None:
    assert kept(tmp_path, b"the first one, killed") != b""
    assert kept(tmp_path, b"again") == b"again"


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_no_two_tasks_have_the_same_file_and_none_leads_elsewhere(tasks: list[str]) -> None:
    one, other = (safe_name(task) for task in tasks)
    assert one != other
    assert b"/" not in one
    assert b"\0" not in one
    assert len(one) <= 200


def test_tasks_of_any_name_have_readable_files(tmp_path: Path) -> None:
    assert safe_name("T01") == b"T01"
    assert safe_name("build/all") == b"build%2Fall"
    assert safe_name("..") + b".1.log" == b"...1.log"
    assert len({safe_name("x" * 1000), safe_name("x" * 1001)}) == 2
    assert len(safe_name("ü" * 1000)) <= 200


def test_a_disk_that_is_full_is_told_and_not_raised(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the disk."""
    program = (
        "import os, resource, signal, sys\n"
        "from lastgood.workspace.running.output import Output\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "output = Output(os.getcwdb(), task='T01', attempt=1)\n"
        "for _ in range(100):\n"
        "    output.write(b'x' * 65536)\n"
        "output.close()\n"
        "print(output.fault)\n"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)}
    said = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout == os.strerror(errno.EFBIG) + "\n"
    assert (tmp_path / "T01.1.log").stat().st_size == 100_000


def test_a_folder_that_cannot_be_made_is_told_and_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Output(os.fsencode(tmp_path / "file" / "sess_1"), task="T01", attempt=1) as output:
        output.write(b"one")
    assert output.fault == os.strerror(errno.EEXIST)


def test_a_link_in_the_place_of_an_output_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (tmp_path / "mine").write_text("mine")
    (folder / "T01.1.log").symlink_to(tmp_path / "mine")
    with Output(os.fsencode(folder), task="T01", attempt=1) as output:
        output.write(b"one")
    assert output.fault == os.strerror(errno.ELOOP)
    assert (tmp_path / "mine").read_text() == "mine"


# A process forked for one piece of work: it tells, it holds nothing, and it goes.


def stay(tell: Tell) -> None:
    tell(b"here")
    while True:
        signal.pause()


def test_it_says_what_came_of_its_work() -> None:
    known = b"x" * 300_000

    def work(tell: Tell) -> None:
        tell(known + known)

    companion = Worker(work, keep=[])
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

    companion = Worker(work, keep=[])
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

        companion = Worker(work, keep=[place])
        assert companion.hear(8) == b"conthere"
    with (tmp_path / "lock").open("w") as wanted:
        fcntl.flock(wanted, fcntl.LOCK_EX | fcntl.LOCK_NB)
    companion.end()


def test_it_is_gone_when_it_was_ended() -> None:
    def work(tell: Tell) -> None:
        tell(os.getpid().to_bytes(8, "big"))
        stay(tell)

    companion = Worker(work, keep=[])
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
        from lastgood.worker import Worker as Companion
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
    assert eventually_gone(pid)


def test_no_process_is_forked_beside_another_thread_or_from_a_large_one() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert not is_sound(1 << 60)
    end.set()
    thread.join()
    assert not is_sound(1)
