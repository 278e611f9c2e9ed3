"""Care for a command: what it says, when it is to end, and that nothing of it is left, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lastgood import command as commands
from lastgood.command import GuardedCommands
from lastgood.model.checkpoint import CommandResult
from lastgood.processes import ProcFiles
from lastgood.procfs import content_of
from lastgood.supervisor import SETTLING
from lastgood.workspace.running.context import CaughtSignals
from tools.living import LONG, children, eventually, eventually_gone, lives, state, written
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.model.run import Command

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"
# No other run of these tests on the machine has the same.
SESSION = f"sess_{os.urandom(8).hex()}"


def attend(
    folder: Path,
    command: Command,
    *,
    variables: dict[str, str] | None = None,
    timeout: float | None = LONG,
    output: Callable[[bytes], None] = lambda _part: None,
    tick: Callable[[], None] = lambda: None,
    asked: Callable[[], Sequence[int]] = tuple,
    patience: float = LONG,
    settling: float = SETTLING,
) -> CommandResult:
    environment = {"PATH": os.environ["PATH"]}
    return GuardedCommands(environment, patience=patience, settling=settling).attend(
        command,
        directory=os.fsencode(folder),
        variables=variables or {},
        timeout=timeout,
        output=output,
        tick=tick,
        asked=asked,
    )


def asking(folder: Path, *numbers: int) -> Callable[[], tuple[int, ...]]:
    """Return what asks for an end, with one signal after the other, once a file is there."""
    told: list[int] = []

    def asked() -> tuple[int, ...]:
        if (folder / "ready").exists() and len(told) < len(numbers):
            told.append(numbers[len(told)])
        return tuple(told)

    return asked


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return what starts a process that attends a command."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        command: str, *, timeout: str = "", stops: bool = False, **options: object
    ) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(HERE / "attending.py"), str(tmp_path), command, timeout]
        words += ["stops"] * stops
        environment = os.environ | {"PYTHONPATH": str(SOURCE)}
        one = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
        started.append(one)
        return one  # type: ignore[no-any-return]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_output_is_given_as_it_comes_to_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    parts: list[bytes] = []
    threads: set[int] = set()

    def output(part: bytes) -> None:
        parts.append(part)
        threads.add(threading.get_ident())
        (tmp_path / "heard").touch()

    text = "echo one; while [ ! -e heard ]; do sleep 0.01; done; echo two >&2"
    ran = attend(tmp_path, text, output=output)
    assert (ran.ending, ran.code) == ("exited", 0)
    assert (parts[0], b"".join(parts)) == (b"one\n", b"one\ntwo\n")
    assert threads == {threading.get_ident()}


def test_a_caller_has_its_turn_while_a_command_floods_it(tmp_path: Path) -> None:
    turns: list[int] = []

    def tick() -> None:
        turns.append(1)
        if len(turns) == 5:
            (tmp_path / "enough").touch()

    ran = attend(tmp_path, "while [ ! -e enough ]; do head -c 200000 /dev/zero; done", tick=tick)
    assert (ran.ending, ran.code) == ("exited", 0)


def test_a_flood_is_given_in_bounded_parts(tmp_path: Path) -> None:
    sizes: list[int] = []
    ran = attend(
        tmp_path, ("head", "-c", "30000000", "/dev/zero"), output=lambda part: sizes.append(len(part))
    )
    assert ran.code == 0
    assert sum(sizes) == 30_000_000
    assert max(sizes) <= 1 << 20


def test_a_command_sees_the_environment_that_it_was_given_and_nothing_of_what_is_in_between(
    tmp_path: Path,
) -> None:
    given = {"LASTGOOD_SESSION": "sess_1", "WORD": "naïve \udcff", "LD_LIBRARY_PATH": "/nowhere"}
    heard: list[bytes] = []
    attend(tmp_path, ("env", "-0"), variables=given, output=heard.append)
    seen = dict(line.split(b"=", 1) for line in b"".join(heard).rstrip(b"\0").split(b"\0"))
    assert set(seen) == {b"PATH", b"PWD", b"LASTGOOD_CHECK", *map(os.fsencode, given)}
    assert seen[b"WORD"] == "naïve ".encode() + b"\xff"


@pytest.mark.parametrize("was", [None, "/", "/nowhere", "a\ud800b"])
def test_a_command_is_told_the_folder_that_it_is_in(tmp_path: Path, was: str | None) -> None:
    """A shell would set it anew; other programs believe what they find."""
    variables = {} if was is None else {"PWD": was}
    ran = attend(tmp_path, (sys.executable, "-c", "import os; print(os.environ['PWD'])"), variables=variables)
    assert ran.tail.decode().strip() == str(tmp_path)


def test_a_command_is_told_its_folder_as_its_caller_spelt_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    spelt = str(tmp_path / "link")
    told = (sys.executable, "-c", "import os; print(os.environ['PWD'])")
    assert attend(tmp_path / "real", told, variables={"PWD": spelt}).tail.decode().strip() == spelt


def test_a_command_has_a_session_of_its_own_and_no_descriptors_but_three(tmp_path: Path) -> None:
    program = (
        "import os; print(os.getsid(0) == os.getpid() != os.getppid(), os.getpgrp() == os.getpid(),"
        " sorted(map(int, os.listdir('/proc/self/fd')))[:4], os.readlink('/proc/self/fd/0'))"
    )
    ran = attend(tmp_path, (sys.executable, "-c", program))
    assert ran.tail == b"True True [0, 1, 2, 3] /dev/null\n"  # 3 is the listing itself


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_is_forwarded_to_the_whole_group(tmp_path: Path, number: int) -> None:
    program = (
        "import os, signal, time\n"
        "inner = os.fork() == 0\n"
        "def heard(*_):\n"
        "    os.write(1, b'inner\\n' if inner else b'outer\\n')\n"
        "    os._exit(inner or os.wait()[1])\n"
        f"signal.signal({int(number)}, heard)\n"
        "if inner:\n"
        "    os.mkdir('inner')\n"
        "while not os.path.exists('inner'):\n"
        "    pass\n"
        "inner or os.mkdir('ready')\n"
        "time.sleep(1000)\n"
    )
    ran = attend(tmp_path, (sys.executable, "-S", "-c", program), asked=asking(tmp_path, number))
    assert (ran.ending, ran.code) == ("interrupted", number)
    assert sorted(ran.tail.split()) == [b"inner", b"outer"]


def test_what_ignores_a_signal_is_ended_when_patience_is(tmp_path: Path) -> None:
    text = "trap '' INT TERM; echo $$ > pid; touch ready; while :; do sleep 0.05; done"
    ran = attend(tmp_path, text, asked=asking(tmp_path, signal.SIGINT), patience=0.5)
    assert (ran.ending, ran.code) == ("interrupted", signal.SIGINT)
    assert not lives(int(written(tmp_path / "pid")))


def test_the_same_signal_again_ends_a_command_at_once(tmp_path: Path) -> None:
    text = "trap 'echo gently; sleep 1000' TERM; trap '' INT; touch ready; while :; do sleep 0.01; done"
    ran = attend(tmp_path, text, asked=asking(tmp_path, signal.SIGINT, signal.SIGINT))
    assert (ran.ending, ran.code, ran.tail) == ("interrupted", signal.SIGINT, b"")


def test_another_signal_is_forwarded_too(tmp_path: Path) -> None:
    text = "trap 'echo int' INT; trap 'echo hup; exit' HUP; touch ready; while :; do sleep 0.01; done"
    ran = attend(tmp_path, text, asked=asking(tmp_path, signal.SIGINT, signal.SIGHUP))
    assert (ran.ending, ran.code) == ("interrupted", signal.SIGINT)
    assert b"hup\n" in ran.tail


def test_a_signal_that_comes_too_late_changes_nothing(tmp_path: Path) -> None:
    """What a command left behind is being ended then, and its own end has been heard of."""
    left = "(trap 'touch ending' TERM; touch ready; while :; do sleep 0.05; done) &"
    text = f"{left} while [ ! -e ready ]; do sleep 0.01; done; exit 4"
    seen: list[bool] = []

    def asked() -> tuple[int, ...]:
        seen.append((tmp_path / "ending").exists())
        return (signal.SIGINT,) if seen.count(True) > 1 else ()

    ran = attend(tmp_path, text, asked=asked)
    assert (ran.ending, ran.code) == ("exited", 4)


def test_what_a_command_left_running_is_named_and_ended(tmp_path: Path) -> None:
    """Also a daemon that put off its environment and its group."""
    text = (
        "env -i /bin/sh -c 'setsid /bin/sh -c \"echo \\$\\$ > daemon; exec sleep 1000\" &';"
        " while [ ! -s daemon ]; do sleep 0.01; done;"
        " until grep -q ^sleep /proc/$(cat daemon)/cmdline; do sleep 0.01; done"
    )
    ran = attend(tmp_path, text)
    pid = int(written(tmp_path / "daemon"))
    assert (ran.ending, ran.code) == ("exited", 0)
    assert [(one.pid, one.command) for one in ran.left] == [(pid, "sleep 1000")]
    assert not lives(pid)


def test_the_last_of_a_pipe_may_end_by_itself(tmp_path: Path) -> None:
    ran = attend(tmp_path, "(sleep 0.1; echo late) & echo early", settling=LONG)
    assert (ran.tail, ran.left) == (b"early\nlate\n", ())


@pytest.mark.chance("how fast a loaded machine ends a thousand processes")
def test_a_thousand_children_are_ended(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "for number in range(1000):\n"
        "    if os.fork() == 0:\n"
        "        number % 2 and os.setsid()\n"
        "        time.sleep(1000)\n"
        "open('ready', 'w').close()\n"
        "time.sleep(1000)\n"
    )
    command = (sys.executable, "-S", "-c", program)
    ran = attend(
        tmp_path,
        command,
        variables={"LASTGOOD_SESSION": SESSION},
        asked=asking(tmp_path, signal.SIGTERM),
    )
    assert (ran.ending, ran.code) == ("interrupted", signal.SIGTERM)
    assert ProcFiles().marked(SESSION) == []


@pytest.mark.chance("whether a listing meets a process that lives for a moment")
def test_what_begets_children_faster_than_they_can_be_listed_is_ended(tmp_path: Path) -> None:
    """Each of them leads a session of its own, and ends as soon as it has a child."""
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "ends = time.monotonic() + 60\n"
        "while time.monotonic() < ends:\n"
        "    if os.fork():\n"
        "        os._exit(0)\n"
        "    os.setsid()\n"
        "os.mkdir('of-itself')\n"
    )
    command = (sys.executable, "-S", "-c", program)
    ran = attend(tmp_path, command, variables={"LASTGOOD_SESSION": SESSION}, timeout=None)
    assert ran.ending == "exited"
    assert ProcFiles().marked(SESSION) == []
    assert not (tmp_path / "of-itself").exists()


@pytest.mark.chance("whether a listing meets a process that lives for a moment")
def test_what_begets_children_is_ended_too_when_its_watch_was_killed(tmp_path: Path) -> None:
    """None of them lives long enough to be listed and then looked at."""
    program = (
        "import os, signal, time\n"
        "watch = os.getppid()\n"
        "ends = time.monotonic() + 60\n"
        "for number in range(1_000_000):\n"
        "    if os.fork():\n"
        "        number or time.sleep(1000)\n"
        "        os._exit(0)\n"
        "    number or os.setsid()\n"
        "    if number == 20:\n"
        "        os.kill(watch, signal.SIGKILL)\n"
        "    if time.monotonic() > ends:\n"
        "        break\n"
        "os.mkdir('of-itself')\n"
    )
    command = (sys.executable, "-S", "-c", program)
    ran = attend(tmp_path, command, variables={"LASTGOOD_SESSION": SESSION}, timeout=None)
    assert ran.ending == "killed"
    assert ProcFiles().marked(SESSION) == []
    assert not (tmp_path / "of-itself").exists()


def test_a_command_that_dies_with_what_watched_over_it_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    text = "setsid sleep 1000 & echo $! > outer; echo $$ > inner; kill -KILL $PPID; sleep 1000"
    ran = attend(tmp_path, text)
    assert (ran.ending, ran.code) == ("killed", signal.SIGKILL)
    assert ran.fault == "what watched over it was killed"
    for name in ("inner", "outer"):
        assert not lives(int((tmp_path / name).read_text()))


def test_nothing_is_left_also_where_nobody_learns_how_children_ended(tmp_path: Path) -> None:
    """As with SIGCHLD ignored, which makes of every end an exit with 0."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ran = attend(tmp_path, "setsid sleep 1000 & echo $! > outer; kill -KILL $PPID; sleep 1000")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert ran.ending == "killed"
    assert not lives(int((tmp_path / "outer").read_text()))


@pytest.mark.chance("how far a start is when its watch is killed")
def test_a_command_is_never_said_not_to_have_started_if_it_may_have(tmp_path: Path) -> None:
    """Whenever what watches over it is killed; nothing runs on unwatched either."""
    program = "import os, time; os.mkdir(os.environ['DID']); time.sleep(1000)"
    for number in range(40):
        did = tmp_path / str(number)
        killer = threading.Thread(target=kill_the_watch_after, args=(number * 0.001,))
        killer.start()
        variables = {"DID": str(did), "LASTGOOD_SESSION": SESSION}
        ran = attend(tmp_path, (sys.executable, "-S", "-c", program), variables=variables)
        killer.join()
        assert (ran.ending, did.exists()) in {("unstarted", False), ("killed", False), ("killed", True)}
        assert ProcFiles().marked(variables["LASTGOOD_SESSION"]) == []


def test_what_started_is_ended_though_nobody_heard_of_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch is killed, having been given up, with its words unread."""
    monkeypatch.setattr(commands, "_ENOUGH", -LONG)
    text = "setsid sleep 1000 & echo $! > outer; sleep 1000"

    def tick() -> None:
        hold.join()
        for pid in watches():
            os.kill(pid, signal.SIGCONT)
        assert written(tmp_path / "outer")

    hold = threading.Thread(target=hold_the_watch)
    hold.start()
    ran = attend(tmp_path, text, timeout=0, tick=tick, patience=0.0)
    hold.join()
    assert ran.ending == "stopped"
    assert not lives(int(written(tmp_path / "outer")))


def hold_the_watch() -> None:
    """Stop the watch before it begins, as soon as it is one; it is woken in the first tick."""
    ends = time.monotonic() + LONG
    while not (found := watches()):
        assert time.monotonic() < ends
    os.kill(found[0], signal.SIGSTOP)


@pytest.mark.chance("how far a start is when its watch is killed")
def test_what_was_about_to_become_a_command_is_gone_too_when_its_watch_was_killed(tmp_path: Path) -> None:
    """However late it dies: it looks along a very long PATH, where others leave it little time to."""
    slow = {"PATH": "/x:" * 400_000, "LASTGOOD_SESSION": SESSION}
    words = (sys.executable, "-S", "-c", "print(flush=True)\nwhile True: pass")
    busy = [subprocess.Popen(words, stdout=subprocess.PIPE) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for one in busy:
            assert not_none(one.stdout).read(1)
        for _ in range(10):
            killer = threading.Thread(target=kill_the_watch_over_what_starts_late)
            killer.start()
            ran = attend(tmp_path, ("nowhere",), variables=slow)
            assert (ran.ending, ProcFiles().marked(SESSION)) == ("killed", [])
            killer.join()
    finally:
        for one in busy:
            one.kill()
            one.communicate()


def kill_the_watch_over_what_starts_late() -> None:
    assert eventually(lambda: any(children(pid) for pid in watches()))
    (watch,) = watches()
    (starting,) = children(watch)
    assert eventually(lambda: same_file(starting, 1, 2))
    os.setpriority(os.PRIO_PROCESS, starting, 19)
    os.kill(watch, signal.SIGKILL)


def same_file(pid: int, first: int, second: int) -> bool:
    return os.readlink(f"/proc/{pid}/fd/{first}") == os.readlink(f"/proc/{pid}/fd/{second}")


def kill_the_watch_after(seconds: float) -> None:
    assert eventually(lambda: watches() != [])
    (pid,) = watches()
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)


def watches() -> list[int]:
    return [pid for pid in children(os.getpid()) if b"lastgood.supervisor" in content_of(pid, "cmdline")]


def test_what_a_caller_raises_ends_the_command(tmp_path: Path) -> None:
    def tick() -> None:
        if (tmp_path / "pid").exists():
            raise LookupError

    with pytest.raises(LookupError):
        attend(tmp_path, "echo $$ > pid.new; mv pid.new pid; exec sleep 1000", tick=tick)
    assert not lives(int((tmp_path / "pid").read_text()))


def test_a_command_can_be_attended_from_any_thread_and_with_children_ignored(tmp_path: Path) -> None:
    """Whoever ignores SIGCHLD learns no exit codes by itself."""
    came: list[CommandResult] = []
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        thread = threading.Thread(target=lambda: came.append(attend(tmp_path, "exit 9")))
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert [(one.ending, one.code) for one in came] == [("exited", 9)]


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (("no-such-program",), "no-such-program: No such file or directory"),
        (("",), ": Invalid argument"),
        (("/",), "/: Permission denied"),
        (("a\nb",), "a b: No such file or directory"),
        (("x" * 5000,), "x" * 5000 + ": File name too long"),
        (("echo", "x" * 200_000), "echo: Argument list too long"),
        (("echo", "a\0b"), "echo: Invalid argument"),
    ],
)
def test_what_cannot_be_run_never_started(tmp_path: Path, command: tuple[str, ...], fault: str) -> None:
    ran = attend(tmp_path, command)
    assert (ran.ending, ran.code, ran.fault) == ("unstarted", 0, fault)


@pytest.mark.parametrize("executable", ["", "/usr/bin/some-application"])
def test_a_program_with_an_interpreter_inside_uses_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert attend(tmp_path, "exit 4").code == 4


def test_where_no_interpreter_is_found_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = attend(tmp_path, "touch here")
    assert (ran.ending, ran.fault) == ("unstarted", "python3: No such file or directory")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    ran = attend(tmp_path / "gone", "true")
    assert (ran.ending, ran.fault) == ("unstarted", f"{tmp_path}/gone: No such file or directory")


def test_nothing_outlives_a_killed_runner(
    runner: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Also what became a daemon, put off its environment, or ignores gentle words."""
    one = runner(
        "env -i /bin/sh -c 'trap \"\" TERM; setsid sleep 1000 & echo $! > daemon';"
        " setsid sleep 1000 & echo $! > other; echo $$ > pid; exec sleep 1000"
    )
    pids = [int(written(tmp_path / name)) for name in ("pid", "daemon", "other")]
    one.kill()
    assert all(eventually_gone(pid) for pid in pids)


def test_a_runner_is_missed_also_when_a_fork_of_it_holds_its_pipes_open(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from lastgood.command import GuardedCommands\n"
        "def tick():\n"
        "    if os.path.exists('pid') and not os.path.exists('fork'):\n"
        "        pid = os.fork()\n"
        "        if pid == 0:\n"
        "            time.sleep(1000)\n"
        "        open('fork.new', 'w').write(f'{pid}\\n')\n"
        "        os.rename('fork.new', 'fork')\n"
        "GuardedCommands(dict(os.environ)).attend('echo $$ > pid.new; mv pid.new pid; exec sleep 1000',\n"
        "    directory=os.getcwdb(), variables={}, timeout=None, output=print, tick=tick, asked=tuple)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    one = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment)
    fork = int(written(tmp_path / "fork"))
    one.kill()
    one.wait()
    try:
        assert eventually_gone(int(written(tmp_path / "pid")))
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_command_itself_does_not_outlive_runner_and_watch_killed_together(
    runner: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """What it started may; that bears the session's name in its environment, and is found by it (P7)."""
    os.environ["LASTGOOD_SESSION"] = SESSION
    try:
        one = runner("setsid sleep 1000 & echo $! > outer; echo $$ > pid; exec sleep 1000")
    finally:
        del os.environ["LASTGOOD_SESSION"]
    pid, outer = int(written(tmp_path / "pid")), int(written(tmp_path / "outer"))
    (watch,) = children(one.pid)
    os.kill(one.pid, signal.SIGSTOP)  # else the one would do something about the other's end
    assert eventually(lambda: state(one.pid) == "T")
    os.kill(watch, signal.SIGKILL)
    os.kill(one.pid, signal.SIGKILL)
    try:
        assert eventually_gone(pid)
        one.wait()
        assert eventually(lambda: [living.pid for living in ProcFiles().marked(SESSION)] == [outer])
    finally:
        os.kill(outer, signal.SIGKILL)


def test_the_watch_is_a_part_of_the_session_until_nothing_else_is(
    runner: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """P7: who waits for the session's processes waits for what bears no mark of it, too."""
    os.environ["LASTGOOD_SESSION"] = SESSION
    try:
        one = runner(
            "env -i setsid /bin/sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 0.1; done' & wait"
        )
    finally:
        del os.environ["LASTGOOD_SESSION"]
    daemon = int(written(tmp_path / "daemon"))
    (watch,) = children(one.pid)
    for pid in (one.pid, watch):  # in this order: the runner wakes it
        os.kill(pid, signal.SIGSTOP)
        assert eventually(lambda pid=pid: state(pid) == "T")  # type: ignore[misc]
    one.kill()
    one.wait()
    assert watch in {living.pid for living in ProcFiles().marked(SESSION)}
    os.kill(watch, signal.SIGCONT)
    assert eventually(lambda: ProcFiles().marked(SESSION) == [])
    assert not lives(daemon)


def test_a_signal_to_the_runner_reaches_the_command(
    runner: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    one = runner("trap 'echo heard; exit 3' TERM; echo $$ > pid; while :; do :; done")
    written(tmp_path / "pid")
    one.terminate()
    said, _ = one.communicate(timeout=LONG)
    assert said == b"heard\ninterrupted 15\n"


def test_what_is_ignored_stays_ignored(
    runner: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """As ``nohup`` has it: neither runner nor command ends with the terminal."""
    one = runner(
        "echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done; echo over",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    pid = int(written(tmp_path / "pid"))
    one.send_signal(signal.SIGHUP)
    os.kill(pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    said, _ = one.communicate(timeout=LONG)
    assert said == b"over\nexited 0\n"


def test_a_command_stops_and_goes_on_with_its_runner(
    runner: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """Ctrl-Z on a terminal: the command has a session of its own, where the kernel does not stop it."""
    one = runner("sleep 1000 & echo $! > inner; echo $$ > pid; wait $!; echo over")
    pids = [int(written(tmp_path / name)) for name in ("pid", "inner")]

    one.send_signal(signal.SIGSTOP)
    assert all(eventually(lambda pid=pid: state(pid) == "T") for pid in pids)  # type: ignore[misc]
    one.send_signal(signal.SIGCONT)
    assert all(eventually(lambda pid=pid: state(pid) == "S") for pid in pids)  # type: ignore[misc]
    os.kill(pids[1], signal.SIGTERM)
    said, _ = one.communicate(timeout=LONG)
    assert said.endswith(b"over\nexited 0\n")


# Waits without another process: who waits for one that is stopped before it has become a program cannot
# be stopped, and stands still all the same.
STEADY = "echo $$ > pid.new; mv pid.new pid; while [ ! -e go ]; do :; done"
# A machine that is so slow that nothing has begun after the first of these many seconds gets more of them.
LIMITS = (2, 8, 32)


@pytest.mark.parametrize("where", ["anywhere", "at its sign of life"])
def test_the_time_limit_does_not_run_while_the_runner_is_stopped(
    runner: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, where: str
) -> None:
    """Not only where it waits for the command."""
    stops = where == "at its sign of life"
    for limit in LIMITS:
        one = runner(STEADY, timeout=str(limit), stops=stops)
        if in_time_after_a_stop(one, tmp_path, limit=limit, stops=stops):
            return
    pytest.fail("the time of a stop was counted")


def in_time_after_a_stop(one: subprocess.Popen[bytes], folder: Path, *, limit: int, stops: bool) -> bool:
    """Tell whether a command may go on that stood still for all of its time."""
    assert eventually(
        lambda: one.poll() is not None or (state(one.pid) == "T" if stops else (folder / "pid").exists())
    )
    if one.poll() is None:
        pid = int(written(folder / "pid"))
        one.send_signal(signal.SIGSTOP)
        assert eventually(lambda: state(pid) in "TXZ")
        time.sleep(limit)
        one.send_signal(signal.SIGCONT)
        assert eventually(lambda: state(pid) != "T")
    (folder / "go").touch()
    said, _ = one.communicate(timeout=LONG)
    for name in ("pid", "go"):
        (folder / name).unlink(missing_ok=True)
    return said == b"exited 0\n"


def test_caught_signals_are_told_in_their_order_and_given_back() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with CaughtSignals() as caught:
        assert caught() == ()
        os.kill(os.getpid(), signal.SIGTERM)
        assert eventually(lambda: len(caught()) == 1)
        os.kill(os.getpid(), signal.SIGINT)
        assert eventually(lambda: len(caught()) == 2)
        assert caught() == (signal.SIGTERM, signal.SIGINT)
    assert before == {number: signal.getsignal(number) for number in before}


def test_signals_that_the_program_has_its_own_way_with_are_left_to_it() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: came.append(number))
    try:
        with CaughtSignals() as caught:
            os.kill(os.getpid(), signal.SIGTERM)
            assert eventually(lambda: came == [signal.SIGTERM])
            assert caught() == ()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signals_cannot_be_caught_outside_the_main_thread() -> None:
    came: list[tuple[int, ...]] = []

    def elsewhere() -> None:
        with CaughtSignals() as caught:
            came.append(caught())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert came == [()]


def test_a_command_that_stops_what_watches_over_it_hangs_nobody(tmp_path: Path) -> None:
    """Without a limit of time too: what is stopped is woken."""
    ran = attend(tmp_path, "kill -STOP $PPID; echo on", timeout=None)
    assert (ran.ending, ran.code, ran.tail) == ("exited", 0, b"on\n")


_STRANGER = """
import os, sys, time
ends = time.monotonic() + float(sys.argv[2])
pipe = os.open(f"/proc/{sys.argv[1]}/fd/1", os.O_WRONLY)
open("ready", "w").close()
try:
    while time.monotonic() < ends:
        os.write(pipe, bytes(1 << 16))
except BrokenPipeError:
    raise SystemExit from None
raise SystemExit("nobody let go of the pipe")
"""


def test_what_others_write_to_its_output_without_end_holds_nobody(tmp_path: Path) -> None:
    """What cannot be ended may have it: what became another user's. Here somebody else opens it."""
    strangers: list[subprocess.Popen[bytes]] = []

    def tick() -> None:
        if not strangers:
            words = [sys.executable, "-c", _STRANGER, written(tmp_path / "pid"), str(LONG)]
            strangers.append(subprocess.Popen(words, cwd=tmp_path))

    def slowly(part: bytes) -> None:
        time.sleep(0.02 if part.startswith(b"\0") else 0)  # so there is always more

    ran = attend(
        tmp_path, "echo $$ > pid; until test -e ready; do sleep 0.05; done", output=slowly, tick=tick
    )
    assert (ran.ending, ran.code) == ("exited", 0)
    assert strangers[0].wait() == 0


def test_a_process_that_vanishes_while_groups_are_compared_is_of_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P8c: whose group has the terminal is asked while processes end."""
    from lastgood import supervisor

    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    asleep, awake = os.pipe()
    watched = supervisor._Supervision(gone, mark=None, caller=1, asleep=asleep, lent=None)
    monkeypatch.setattr(watched, "_living", lambda: iter([gone]))
    assert not watched._is_ours(os.getpgrp())
    for end in (asleep, awake):
        os.close(end)
