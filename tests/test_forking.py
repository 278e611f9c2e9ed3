"""A fork of a process that has loaded the command is what a new process would be."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tools.command import PATIENCE, on_terminal
from tools.forking import Forkserver, Order
from tools.forks import ended, forked

# Tells what a process sees of itself, and does what it is told.
PROBE = """\
import os, signal, sys, time
standard = [one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr)]
standard[0] = standard[0] or sys.stdin.read()
status = dict(line.split(":\\t") for line in open("/proc/self/status"))
descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
place = os.getcwdb().decode("utf-8", "surrogateescape")
seen = {
    "name": __name__, "file": __file__, "words": sys.argv, "started as": sys.orig_argv, "path": sys.path,
    "flags": str(sys.flags), "folder": place, "environment": dict(os.environ), "zone": time.tzname,
    "streams": standard, "encodings": [sys.getfilesystemencoding(), sys.stdout.encoding, sys.stdout.errors],
    "buffers": [sys.stdout.line_buffering, sys.stderr.line_buffering], "descriptors": descriptors,
    "parent": os.getppid(), "group": os.getpgid(0), "session": os.getsid(0), "users": os.getresuid(),
    "main": sys.modules["__main__"].__dict__ is globals(), "interrupt": str(signal.getsignal(signal.SIGINT)),
    "status": {name: status[name] for name in ("Umask", "SigBlk", "SigIgn", "SigCgt", "Threads", "CapEff")},
    "foreground": os.tcgetpgrp(0) if standard[0] is True else None,
    "limits": open("/proc/self/limits").read(), "threads": len(os.listdir("/proc/self/task")),
}
print(__import__("json").dumps(seen))
print("said aside", file=sys.stderr)
sys.stdout.flush()
exec(os.environ.get("PROBED", ""))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("probe").resolve() / "probe"
    file.write_text(PROBE, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def server(script: Path) -> Iterator[Forkserver]:
    with closing(Forkserver(str(script))) as running:
        yield running


@pytest.fixture
def order(project: Path) -> Callable[..., Order]:
    def make(*words: str | bytes, stdin: bytes = b"", **more: str) -> Order:
        return Order.of(words, folder=project, environment=os.environ | more, stdin=stdin)

    return make


def by_a_new_process(script: Path, order: Order) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [sys.executable, script, *order.words],
        cwd=order.folder,
        env=order.environment,
        input=order.stdin,
        capture_output=True,
        umask=order.umask,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def seen(said: tuple[int, bytes, bytes]) -> Any:
    assert (said[0], said[2]) == (0, b"said aside\n"), said
    return json.loads(said[1])


def test_a_fork_sees_what_a_new_process_sees(
    server: Forkserver, script: Path, order: Callable[..., Order]
) -> None:
    one = order(
        "save", b"\xff\n", "", "--json", stdin=b"typed\n", TZ="Asia/Tokyo", ODD="a\udcffb", LASTGOOD_X="1"
    )
    assert server.can_be(one)
    told = seen(server.run(one, seconds=PATIENCE))
    assert told == seen(by_a_new_process(script, one))
    assert told["parent"] == os.getpid()
    assert told["streams"] == ["typed\n", False, False]


def test_a_fork_has_the_umask_and_the_folder_of_whoever_asks(
    server: Forkserver, script: Path, order: Callable[..., Order], project: Path
) -> None:
    before = os.umask(0o027)
    try:
        one = order()
    finally:
        os.umask(before)
    told = seen(server.run(one, seconds=PATIENCE))
    assert told == seen(by_a_new_process(script, one))
    assert (told["status"]["Umask"].strip(), told["folder"]) == ("0027", str(project.resolve()))


@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(3)",
        "sys.exit()",
        "os._exit(7)",
        "os.kill(os.getpid(), 15)",
        "os.kill(os.getpid(), 2)",
        "raise ValueError('it')",
        "sys.stdout.write('x' * 300_000)",
        "os.fork() or os.execvp('echo', ['echo', 'from a child'])\nos.wait()",
    ],
)
def test_a_fork_ends_as_a_new_process_ends(
    server: Forkserver, script: Path, order: Callable[..., Order], end: str
) -> None:
    one = order(PROBED=end)
    code, out, err = server.run(one, seconds=PATIENCE)
    expected = by_a_new_process(script, one)
    assert (code, out) == expected[:2]
    assert err.splitlines()[-1:] == expected[2].splitlines()[-1:]


def on_a_terminal(pid: int, terminal: int) -> Any:
    """Return what the probe tells on a terminal, without the numbers of its own process."""
    said = b""
    try:
        while part := os.read(terminal, 65_536):
            said += part
    except OSError:  # nobody has the other end any more
        os.close(terminal)
    assert os.waitpid(pid, 0) == (pid, 0), said
    told, aside = said.splitlines()
    assert aside == b"said aside"
    found = json.loads(told)
    assert [found.pop("session"), found.pop("group"), found.pop("foreground")] == [pid] * 3
    return found


def test_a_fork_has_a_terminal_as_a_new_process_has_one(
    server: Forkserver, script: Path, order: Callable[..., Order]
) -> None:
    one = order("list", PROBED="assert os.get_terminal_size(0) == (90, 20)")
    told = on_a_terminal(*server.on_terminal(one, rows=20, columns=90))
    words = [sys.executable, str(script), *map(os.fsdecode, one.words)]
    given = {os.fsdecode(name): os.fsdecode(value) for name, value in one.environment.items()}
    folder = Path(os.fsdecode(one.folder))
    new = on_a_terminal(*on_terminal(words, folder=folder, environment=given, rows=20, columns=90))
    assert told.pop("descriptors") == [0, 1, 2, 3]
    del new["descriptors"]  # what whoever started the tests left open is in it, too
    assert told == new
    assert told["streams"] == [True, True, True]


def test_forks_leave_each_other_nothing(server: Forkserver, order: Callable[..., Order]) -> None:
    first = seen(server.run(order(), seconds=PATIENCE))
    another = order("one", PROBED="os.environ['LEFT'] = sys.path[0] = '/left'\nos.chdir('/')")
    seen(server.run(another, seconds=PATIENCE))
    assert seen(server.run(order(), seconds=PATIENCE)) == first


def test_no_fork_serves_where_it_would_not_be_a_new_process(
    server: Forkserver, order: Callable[..., Order]
) -> None:
    assert server.can_be(order())
    assert not server.can_be(order(PYTHONHASHSEED="1"))
    assert not server.can_be(order(LC_ALL="C"))
    assert not server.can_be(order(LD_PRELOAD="/nowhere.so"))
    assert not server.can_be(order(stdin=bytes(100_000)))
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0 if soft else min(4096, hard) or 0, hard))
    try:
        assert soft == hard == 0 or not server.can_be(order())
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        assert not server.can_be(order())
    finally:
        signal.signal(signal.SIGUSR1, before)

    def differs_in_a_fork() -> None:
        assert not server.can_be(order())

    assert ended(forked(differs_in_a_fork)) == 0
