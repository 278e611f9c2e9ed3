"""The resident where things fail: it is killed, stopped, out of room, and its clients say what they like."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from faults.conftest import CACHE
from faults.disks import SmallDisk, tmpfs
from faults.injector import Blow, Injector, Mode
from lastgood.errors import Busy, NoRoom, Storage
from lastgood.resident import LENGTH_BYTES, SOCKET, framed, greeting, received
from tools.command import PATIENCE, SOURCE, Command
from tools.forks import be_nobody, ended, forked
from tools.living import eventually, lives, state
from tools.long_form import LONG
from tools.watcher import Watcher, alone, answering, called, hurried

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="to be another user takes root")
# At so many places a save is hit in the short form.
POINTS = 2


@pytest.fixture(scope="module")
def injector(arena: Path) -> Iterator[Injector]:
    with Injector(cache=CACHE, scratch=arena) as running:
        yield running


@pytest.fixture
def resident(kept: Command) -> Iterator[Watcher]:
    with answering(kept) as started:
        yield started


@contextmanager
def under_fire(command: Command, injector: Injector) -> Iterator[Watcher]:
    """Have a resident of whose calls one can be hit."""
    preload, place = "LD_PRELOAD", "LASTGOOD_FAULT_MAP"
    # A variable of this name counts: whom the resident serves has it too, and follows no plan.
    command.environment[place] = injector.variables[place]
    with answering(command, ahead=("setsid", "env", f"{preload}={injector.variables[preload]}")) as watcher:
        yield watcher


def asking(command: Command, *words: str) -> subprocess.Popen[str]:
    """Begin a command that waits for the resident to greet it, however long."""
    ask = "from lastgood import client; client._GREETING_SECONDS = 60; client.run()"
    return subprocess.Popen(
        [sys.executable, "-c", ask, *words],
        cwd=command.project,
        env=command.environment | {"PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _calls_of_a_save(command: Command, injector: Injector) -> int:
    """Return how many calls on the store it takes to save a change through the resident that runs."""
    injector.arm((command.store,), Blow())
    _change(command, 0)
    out, err = asking(command, "save", "counted", "--quiet").communicate(timeout=PATIENCE)
    assert (bool(out), err) == (True, "")
    injector.disarm()
    assert injector.calls > 10
    return injector.calls


def _change(command: Command, number: int) -> None:
    (command.project / "a.txt").write_text(f"changed {number}\n")


def _points(calls: int) -> list[int]:
    return list(range(1, calls + 1, 1 if LONG else -(-calls // POINTS)))


def _saved(command: Command, message: str) -> list[str]:
    listed = command("list", "--json").json["checkpoints"]
    return [one["id"] for one in listed if one["message"] == message]


def test_killed_at_any_call_of_a_save_it_has_saved_just_once(kept: Command, injector: Injector) -> None:
    """Decision 038: who asked tells of the one checkpoint, whoever made it."""
    with under_fire(kept, injector):
        calls = _calls_of_a_save(kept, injector)
    for at in _points(calls):
        with under_fire(kept, injector) as watcher:
            _change(kept, at)
            injector.arm((kept.store,), Blow(at))
            out, err = asking(kept, "save", f"at {at}", "--quiet").communicate(timeout=PATIENCE)
            assert injector.reached
            watcher.process.communicate(timeout=PATIENCE)
            assert watcher.process.returncode == -signal.SIGKILL
            injector.disarm()
        assert (_saved(kept, f"at {at}"), err) == ([out.strip()], ""), f"killed at call {at}"
        assert kept("cat", out.strip(), "a.txt").out == f"changed {at}\n"
    assert kept("verify", "--json").json["ok"] is True


def test_stopped_at_any_call_of_a_save_it_keeps_nobody_and_saves_just_once(
    kept: Command, injector: Injector
) -> None:
    """S16: who asked saves by itself, or is told who holds the catalogue, and never waits for its end."""
    with under_fire(kept, injector) as watcher:
        _change(kept, -1)
        asking(kept, "save", "a resident's first takes more calls", "--quiet").communicate(timeout=PATIENCE)
        for at in _points(_calls_of_a_save(kept, injector)):
            _change(kept, at)
            injector.arm((kept.store,), Blow(at, Mode.STOP))
            ask = asking(kept, "save", f"at {at}", "--quiet")
            out, err = ask.communicate(timeout=PATIENCE)
            assert injector.reached
            assert state(watcher.process.pid) == "T"
            injector.go_on()
            injector.disarm()
            watcher.greets()
            made = _saved(kept, f"at {at}")
            if ask.returncode == 0:
                assert (made, err) == ([out.strip()], ""), f"stopped at call {at}"
            else:
                assert ask.returncode == Busy.exit_code, f"stopped at call {at}: {err}"
                assert f"pid {watcher.process.pid}" in err
                assert len(made) <= 1
    assert kept("verify", "--json").json["ok"] is True


@pytest.fixture
def small(lastgood: Command, tmp_path: Path) -> Iterator[tuple[Command, SmallDisk]]:
    """A project whose store is on a small disk."""
    with tmpfs(tmp_path / "disk") as disk:
        command = Command(lastgood.project, disk.place / "store")
        _change(command, 0)
        command("save", "the first")
        yield command, disk


@pytest.mark.parametrize("lack", ["bytes", "inodes"])
def test_on_a_full_disk_it_says_what_the_command_says_and_goes_on_once_there_is_room(
    small: tuple[Command, SmallDisk], lack: str
) -> None:
    """K3, S14: takes root to mount."""
    command, disk = small
    with answering(command, rest="100ms") as watcher:
        assert called(command, "status").served
        disk.fill_bytes() if lack == "bytes" else disk.fill_inodes()
        _change(command, 1)
        (command.project / "noise").write_bytes(os.urandom(50_000))
        for verb, option, code in (
            ("status", "--json", 0),
            ("save", "on a full disk", NoRoom.exit_code),
            ("status", "--json", 0),
        ):
            done = called(command, verb, option)
            assert done.said == alone(command, verb, option).said
            assert done.code == code
        disk.empty()
        assert watcher.process.poll() is None
        assert eventually(lambda: called(command, "status").served)
        made = called(command, "save", "room again", "--allow-empty", "--json").json["checkpoint"]
        same = alone(command, "save", "alone", "--allow-empty", "--json").json["checkpoint"]
        assert made["tree"] == same["tree"]
    assert command("verify", "--json").json["ok"] is True


def _connected(command: Command, stack: ExitStack) -> socket.socket:
    """Connect as a client that is greeted."""
    client = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
    client.settimeout(PATIENCE)
    client.connect(str(command.store / SOCKET))
    received(client, len(greeting()) + 1)
    return client


def _question(command: Command, *words: str) -> bytes:
    told = ["0" * 16, "-1 -1 -1", str(command.project), "lastgood", str(len(words)), *words]
    told += [f"{name}={value}" for name, value in command.environment.items() if name != "LASTGOOD_TRACE"]
    content = b"\0".join(map(os.fsencode, told))
    return framed(len(content).to_bytes(LENGTH_BYTES, "big"), content)


def test_a_client_that_goes_on_saying_little_keeps_nobody(kept: Command) -> None:
    """It has a second to say what it wants, not one for each byte."""
    with answering(kept) as watcher, ExitStack() as stack:
        client = _connected(kept, stack)
        over = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                client.sendall((1 << 20).to_bytes(LENGTH_BYTES, "big"))
                while not over.wait(0.1):
                    client.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        stack.callback(thread.join)
        stack.callback(over.set)
        watcher.greets()
        assert not over.is_set()


def test_clients_that_stay_in_mid_sentence_or_never_read_keep_nobody(kept: Command) -> None:
    for number in range(300):
        (kept.project / f"{number}-{'n' * 200}.log").write_text("ignored\n")
    (kept.project / ".gitignore").write_text("*.log\n")
    with answering(kept) as watcher, ExitStack() as stack:
        half = _question(kept, "save", "half")[:-5]
        _connected(kept, stack).sendall(half)
        watcher.greets()
        deaf = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect(str(kept.store / SOCKET))
        received(deaf, len(greeting()) + 1)
        deaf.sendall(_question(kept, "status", "--ignored", "--json"))
        watcher.greets()
        assert called(kept, "status").served
    assert _saved(kept, "half") == []


def test_of_two_hundred_clients_at_once_none_does_harm(kept: Command) -> None:
    with answering(kept) as watcher:
        files = len(os.listdir(f"/proc/{watcher.process.pid}/fd"))
        with ExitStack() as stack:
            refused = 0
            for _ in range(200):
                client = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
                client.setblocking(False)
                try:
                    client.connect(str(kept.store / SOCKET))
                except BlockingIOError:
                    refused += 1
            assert refused
            _change(kept, 1)
            done = hurried(kept, "save", "in the crowd", "--json")
            assert done.code == 0
        watcher.greets()
        assert eventually(lambda: called(kept, "status").served)
        # The sixteen that it let in are gone; what a first save opens may stay.
        assert len(os.listdir(f"/proc/{watcher.process.pid}/fd")) < files + 4
    assert _saved(kept, "in the crowd") == [done.json["checkpoint"]["id"]]


# Starts a program with more files open than a set of `select` has room for.
_WITH_MANY_OPEN = """
import os, resource, sys
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
nothing = os.open(os.devnull, os.O_RDONLY)
for descriptor in range(10, 1040):
    os.dup2(nothing, descriptor, inheritable=True)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200, reason="so many may not be open")
def test_it_answers_on_with_more_than_a_thousand_files_open(kept: Command) -> None:
    with answering(kept, ahead=(sys.executable, "-c", _WITH_MANY_OPEN)) as watcher:
        assert called(kept, "status").served
        watcher.greets()
        assert eventually(lambda: called(kept, "status").served)


@as_root
def test_another_user_is_not_even_greeted(kept: Command) -> None:
    """Though the way to the socket was left open."""
    with answering(kept) as watcher:
        place = kept.store / SOCKET
        for folder in place.parents:
            folder.chmod(folder.stat().st_mode | 0o011)
        place.chmod(0o666)

        def connect() -> None:
            os.chdir(kept.store)  # an address is short
            be_nobody()
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(PATIENCE)
                client.connect(SOCKET)
                assert client.recv(1) == b""

        assert ended(forked(connect)) == 0
        assert watcher.process.poll() is None


@as_root
def test_a_socket_of_another_user_is_told_nothing(kept: Command) -> None:
    """It greets as ours would; nobody says a word to it, and the work is done as without it."""
    place = kept.store / SOCKET
    for folder in place.parents:
        folder.chmod(folder.stat().st_mode | 0o011)
    mode = kept.store.stat().st_mode
    kept.store.chmod(0o777)
    reading, writing = os.pipe()

    def lie_in_wait() -> None:
        os.chdir(kept.store)  # an address is short
        be_nobody()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(SOCKET)
            listener.listen()
            os.chmod(SOCKET, 0o777)
            os.write(writing, b"r")
            while True:
                client, _ = listener.accept()
                said = b""
                with client, suppress(ConnectionError):  # closed before it took the greeting
                    client.sendall(greeting() + b"h")
                    said = client.recv(1 << 16)
                os.write(writing, said or b".")

    liar = forked(lie_in_wait)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"r"
        kept.store.chmod(mode)
        _change(kept, 1)
        done = called(kept, "save", "beside a liar", "--json")
        assert (done.served, done.code) == (False, 0)
        assert os.read(reading, 1 << 16) == b"."
        hook = kept("hook", "claude-code", stdin=b'{"hook_event_name":"SessionStart","session_id":"1"}')
        assert hook.err == ""
        assert called(kept, "status", "--json").json["resident_note"] is not None
        assert lives(liar)
    finally:
        os.kill(liar, signal.SIGKILL)
        ended(liar)
        os.close(reading)
    assert _saved(kept, "beside a liar") == [done.json["checkpoint"]["id"]]


@as_root
def test_a_store_that_can_only_be_read_is_read_beside_a_resident_or_without(
    kept: Command, tmp_path: Path
) -> None:
    """The socket is there, or cannot be made: reads answer, and a save says why not."""
    with answering(kept), _read_only(kept.store):
        _both_say(kept)
    with _read_only(kept.store):
        _both_say(kept)
        assert kept("watch", "--background", expect=None).code != 0
    assert called(kept, "save", "again", "--allow-empty").code == 0


def _both_say(command: Command) -> None:
    _change(command, 7)
    for verb, option, code in (("status", "--json", 0), ("save", "read-only", Storage.exit_code)):
        done = called(command, verb, option)
        assert done.said == alone(command, verb, option).said
        assert done.code == code


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    for words in (("--bind", str(folder)), ("-o", "remount,bind,ro")):
        done = subprocess.run(["mount", *words, str(folder)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("place", ["", "/nowhere", "relative", f"/{'long' * 60}"])
def test_no_folder_for_sockets_is_needed(kept: Command, resident: Watcher, place: str) -> None:
    """The socket is in the store: `XDG_RUNTIME_DIR` may be missing, another's, or too long for an address."""
    done = called(kept, "status", XDG_RUNTIME_DIR=place)
    assert (done.served, done.code) == (True, 0)


def test_without_a_home_the_command_does_its_work_by_itself(kept: Command, resident: Watcher) -> None:
    del kept.environment["HOME"]
    _change(kept, 1)
    done = called(kept, "save", "homeless", "--json")
    assert (done.served, done.code) == (False, 0)
    assert _saved(kept, "homeless") == [done.json["checkpoint"]["id"]]
