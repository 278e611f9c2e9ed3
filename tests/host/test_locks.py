"""Locks die with their owner, and are taken from nobody (S16)."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from lastgood import lock_owner
from lastgood import locks as module
from lastgood.errors import Busy, Storage
from lastgood.host import ExclusiveHold, SharedHold
from lastgood.locks import FlockLocks
from tools.forks import ended, forked
from tools.living import eventually
from tools.values import not_none

if TYPE_CHECKING:
    from sys import TraceFunction  # type: ignore[attr-defined]

Start = Callable[..., subprocess.Popen[str]]

KEY = "ab12"


@pytest.fixture
def locks(place: bytes) -> FlockLocks:
    return FlockLocks(place, command="lastgood save")


def line(process: subprocess.Popen[str]) -> str:
    return not_none(process.stdout).readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("")


def test_those_who_share_do_not_wait_for_each_other(locks: FlockLocks) -> None:
    with locks.share_store(wait=0) as one, locks.share_store(wait=0):
        assert type(one) is SharedHold


def test_one_who_holds_alone_keeps_everybody_out(locks: FlockLocks) -> None:
    with locks.hold_workspace(KEY, wait=0) as hold:
        assert type(hold) is ExclusiveHold
        with pytest.raises(Busy), locks.share_workspace(KEY, wait=0):
            pass
        with pytest.raises(Busy), locks.hold_workspace(KEY, wait=0):
            pass
    with locks.hold_workspace(KEY, wait=0):
        pass


def test_locks_of_different_things_are_independent(locks: FlockLocks) -> None:
    with (
        locks.hold_store(wait=0),
        locks.hold_workspace(KEY, wait=0),
        locks.hold_workspace("cd", wait=0),
        locks.maintenance(wait=0),
    ):
        pass


def test_an_exception_lets_go(locks: FlockLocks) -> None:
    def fail() -> None:
        with locks.hold_store(wait=0):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with locks.hold_store(wait=0):
        pass


@pytest.mark.parametrize("waited_for", [False, True])
@pytest.mark.parametrize("taking", ["share_workspace", "hold_workspace"])
def test_a_signal_at_any_step_leaves_no_lock_behind(
    locks: FlockLocks, taking: str, *, waited_for: bool
) -> None:
    """S16: whoever was interrupted may live on, as the process that watches does."""
    with locks.hold_workspace(KEY, wait=0):
        Path(os.fsdecode(locks._workspace(KEY) + (b".turn" if waited_for else b""))).touch()
    step = 1
    while _is_broken_off(lambda: getattr(locks, taking)(KEY, wait=60), at=step):
        lock = locks._workspace(KEY)
        for path in filter(os.path.exists, (lock, lock + b".turn")):
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        step += 1
    assert step > 50


def _is_broken_off(take: Callable[[], AbstractContextManager[object]], *, at: int) -> bool:
    """Take a lock and let it go, with a signal's exception before one step; False if there are fewer."""
    steps = 0

    def trace(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        nonlocal steps
        if frame.f_code.co_filename != module.__file__:
            return None
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        if steps == at:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # which tells of what closes by itself
        sys.settrace(trace)
        try:
            with take():
                pass
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
    return False


def test_another_process_is_kept_out_and_told_by_whom(start: Start) -> None:
    holder = start("hold_workspace")
    pid = line(holder).split()[1]
    told = line(start("share_workspace", wait=0.05))
    assert told.startswith(f"busy this workspace is held by pid {pid} (lastgood restore) since 20")
    end(holder)
    assert line(start("share_workspace")).startswith("held")


def test_a_killed_owner_is_gone_at_once(start: Start, locks: FlockLocks) -> None:
    holder = start("hold_workspace")
    assert line(holder).startswith("held")
    holder.kill()
    holder.wait()
    with locks.hold_workspace(KEY, wait=0):
        pass


def test_a_stopped_owner_is_never_robbed(start: Start, locks: FlockLocks) -> None:
    holder = start("hold_workspace")
    assert line(holder).startswith("held")
    holder.send_signal(signal.SIGSTOP)
    lock = Path(os.fsdecode(locks._workspace(KEY)))
    for file in lock.parent.iterdir():  # however old it looks
        os.utime(file, (0, 0))
    with pytest.raises(Busy), locks.hold_workspace(KEY, wait=0.1):
        pass
    holder.send_signal(signal.SIGCONT)


def test_a_garbled_or_foreign_owner_record_gives_nothing_away(start: Start, locks: FlockLocks) -> None:
    holder = start("hold_workspace")
    assert line(holder).startswith("held")
    record = Path(os.fsdecode(locks._workspace(KEY) + b".owner"))
    for text in (b"", b"\xff\x00\n", b"pid 999999999\nsince x\n", b"pid x\nsince now\nhost else\x1b[0m\n"):
        record.write_bytes(text)
        with pytest.raises(Busy) as caught, locks.share_workspace(KEY, wait=0):
            pass
        assert "\x1b" not in caught.value.message
    record.unlink()
    with pytest.raises(Busy), locks.share_workspace(KEY, wait=0):
        pass


def test_what_a_hook_has_python_run_is_left_out_of_its_name() -> None:
    words = ["python", "-ES", "-c", "print(flush=True); input()", "hook", "claude-code"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, executable=sys.executable, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()  # before it runs, it may have no words yet
        assert lock_owner.named(process.pid) == f"pid {process.pid} (python -ES -c ... hook claude-code)"
        process.communicate(b"\n")


def test_a_dead_owner_is_not_named(start: Start, locks: FlockLocks) -> None:
    holder = start("hold_workspace")
    assert line(holder).startswith("held")
    record = locks._workspace(KEY) + b".owner"
    assert lock_owner.describe(record).startswith("pid ")
    holder.kill()
    holder.wait()
    assert os.path.exists(record)
    assert lock_owner.describe(record) == ""
    with locks.share_workspace(KEY, wait=0), pytest.raises(Busy) as caught, locks.hold_workspace(KEY, wait=0):
        pass
    assert caught.value.message == "this workspace is held by another lastgood command"


def test_who_has_let_go_is_not_named(locks: FlockLocks) -> None:
    """Though it lives on, and the next ones hold the lock together."""
    record = locks._workspace(KEY) + b".owner"
    with locks.hold_workspace(KEY, wait=0):
        assert lock_owner.describe(record).startswith(f"pid {os.getpid()} ")
    assert lock_owner.describe(record) == ""
    with locks.share_workspace(KEY, wait=0), pytest.raises(Busy) as caught, locks.hold_workspace(KEY, wait=0):
        pass
    assert caught.value.message == "this workspace is held by another lastgood command"


def test_of_who_held_a_lock_before_nothing_is_left_to_be_told(place: bytes) -> None:
    for command in ("lastgood " + "restore " * 400, "lastgood undo"):
        locks = FlockLocks(place, command=command)
        with locks.hold_workspace(KEY, wait=0):
            told = lock_owner.describe(locks._workspace(KEY) + b".owner")
            record = Path(os.fsdecode(locks._workspace(KEY) + b".owner")).read_text("ascii")
    assert f"pid {os.getpid()} (lastgood undo) since " in told
    assert "restore" not in record


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_an_owner_in_another_pid_namespace_is_not_robbed(start: Start, locks: FlockLocks) -> None:
    holder = start("hold_workspace", prefix=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"))
    told = line(holder)
    if not told:
        pytest.skip("this machine permits no new pid namespace")
    assert told.split()[1] in {"1", "2"}
    with pytest.raises(Busy) as caught, locks.hold_workspace(KEY, wait=0.1):
        pass
    assert "(lastgood restore) since" in caught.value.message


def test_two_threads_exclude_each_other(locks: FlockLocks) -> None:
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(10):
            with locks.hold_store(wait=30):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_forked_child_does_not_keep_the_lock(locks: FlockLocks) -> None:
    ready, go_on = os.pipe(), os.pipe()
    with locks.hold_store(wait=0):
        child = forked(lambda: os.write(ready[1], b".") and os.read(go_on[0], 1))
        os.read(ready[0], 1)
    try:
        with locks.hold_store(wait=0):
            pass
    finally:
        os.write(go_on[1], b".")
        ended(child)
        for descriptor in (*ready, *go_on):
            os.close(descriptor)


def test_a_lock_outlives_its_holder_s_child(place: bytes, locks: FlockLocks) -> None:
    """A child that leaves the with block, or just ends, must not let go of its parent's lock."""
    with locks.hold_store(wait=0):
        ended(forked(lambda: None))  # with all that it inherited
        lock = locks.hold_workspace(KEY, wait=0)
        with lock:
            assert ended(forked(lambda: lock.__exit__(None, None, None))) == 0
            assert os.path.exists(place + b"/workspaces/ab12/lock.owner")
            with pytest.raises(Busy), locks.share_workspace(KEY, wait=0):
                pass
        with pytest.raises(Busy), locks.share_store(wait=0):
            pass


def test_a_program_that_is_started_does_not_inherit_the_lock(locks: FlockLocks) -> None:
    with locks.hold_store(wait=0):
        program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        with locks.hold_store(wait=0):
            pass
    finally:
        program.communicate(b"\n")


def test_waiting_ends_when_the_lock_is_free(start: Start) -> None:
    holder = start("hold_store")
    assert line(holder).startswith("held")
    waiting = start("share_store", wait=60)
    end(holder)
    assert line(waiting).startswith("held")


def test_one_who_wants_to_be_alone_gets_it_although_sharers_come_and_go(locks: FlockLocks) -> None:
    stop = threading.Event()

    def share() -> None:
        while not stop.is_set():
            with locks.share_store(wait=30):
                time.sleep(0.02)

    threads = [threading.Thread(target=share) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with locks.hold_store(wait=30):
            pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def has_turn(lock: bytes) -> bool:
    """Tell whether somebody waits for a lock, so that others come after him."""
    if not os.path.exists(lock + b".turn"):
        return False
    with open(lock + b".turn", "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize(
    ("waiting", "newcomer"),
    [
        ("share_workspace", "hold_workspace"),
        ("hold_workspace", "share_workspace"),
        ("hold_workspace", "hold_workspace"),
    ],
)
def test_who_waits_for_a_lock_has_it_before_who_comes_later(
    start: Start, locks: FlockLocks, monkeypatch: pytest.MonkeyPatch, waiting: str, newcomer: str
) -> None:
    """As whoever does has had it a moment ago, and asks again at once."""
    monkeypatch.setattr(module, "_COURTESY", 600)
    had: list[str] = []

    def come() -> None:
        with getattr(locks, newcomer)(KEY, wait=600):
            had.append(newcomer)

    late = threading.Thread(target=come)
    with locks.hold_workspace(KEY, wait=0):
        first = start(waiting, wait=600)
        assert eventually(lambda: has_turn(locks._workspace(KEY)))
    late.start()
    try:
        assert line(first).startswith("held")
        assert not had
    finally:
        end(first)
        late.join()
    assert had == [newcomer]


@pytest.mark.parametrize("waiting", ["share_workspace", "hold_workspace"])
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_who_is_stopped_or_dies_while_waiting_holds_nobody_up(
    start: Start, locks: FlockLocks, monkeypatch: pytest.MonkeyPatch, waiting: str, number: signal.Signals
) -> None:
    """S16."""
    monkeypatch.setattr(module, "_COURTESY", 1e9)
    monkeypatch.setattr(module, "_STOPPED_COURTESY", 0.1)
    with locks.hold_workspace(KEY, wait=0):
        first = start(waiting, wait=600)
        assert eventually(lambda: has_turn(locks._workspace(KEY)))
        first.send_signal(number)
    for _ in range(2):
        with locks.hold_workspace(KEY, wait=1e9):
            pass
        with locks.share_workspace(KEY, wait=1e9):
            pass


def test_a_turn_that_cannot_be_locked_is_not_waited_for(locks: FlockLocks, start: Start) -> None:
    os.makedirs(locks._workspace(KEY) + b".turn")
    waiting = start("share_workspace", wait=600)
    assert line(waiting).startswith("held")
    end(waiting)
    with locks.hold_workspace(KEY, wait=600):
        pass


def test_sharing_twice_goes_on_although_somebody_waits(start: Start, locks: FlockLocks) -> None:
    with locks.share_store(wait=0):
        waiting = start("hold_store", wait=60)
        assert eventually(lambda: has_turn(locks._file(b"store.lock")))
        with locks.share_store(wait=30):
            pass
    assert line(waiting).startswith("held")


def test_what_one_who_shares_has_started_goes_on_although_somebody_waits(
    start: Start, locks: FlockLocks
) -> None:
    """Or the one would wait for its child, the child for who waits, and that for the one."""
    with locks.share_store(wait=0):
        waiting = start("hold_store", wait=600)
        assert eventually(lambda: has_turn(locks._file(b"store.lock")))
        child = start("share_store", wait=600)
        assert line(child).startswith("held")
        end(child)
    assert line(waiting).startswith("held")


def test_a_lock_file_that_was_deleted_divides_nobody(place: bytes, locks: FlockLocks) -> None:
    """One who locked the old file sees that it is not the one that others find."""
    path = place + b"/locks/store.lock"
    with locks.share_store(wait=0):
        os.unlink(path)
    with locks.hold_store(wait=0), pytest.raises(Busy), locks.share_store(wait=0):
        pass
    assert os.path.exists(path)


def test_lock_files_are_private_whatever_the_umask(place: bytes, locks: FlockLocks) -> None:
    """S18."""
    before = os.umask(0)
    try:
        with locks.hold_workspace(KEY, wait=0):
            found = [Path(os.fsdecode(place)) / "workspaces" / KEY]
            found += found[0].iterdir()
            assert {one.stat().st_mode & 0o077 for one in found} == {0}
    finally:
        os.umask(before)


def test_a_link_in_the_place_of_a_lock_is_not_followed(
    place: bytes, locks: FlockLocks, tmp_path: Path
) -> None:
    target = tmp_path / "victim"
    os.mkdir(place + b"/locks")
    os.symlink(target, place + b"/locks/store.lock")
    with pytest.raises(Storage), locks.hold_store(wait=0):
        pass
    assert not target.exists()


def test_nothing_is_made_in_the_place_of_a_store_that_is_gone(place: bytes, locks: FlockLocks) -> None:
    """It would stand in the way of who brings it back."""
    os.rename(place, place + b".elsewhere")
    for lock in (locks.share_workspace(KEY, wait=0), locks.hold_store(wait=0)):
        with pytest.raises(Storage, match="is not there any more"), lock:
            pass
    assert not os.path.lexists(place)


def test_a_store_without_room_for_locks_is_a_storage_error(place: bytes) -> None:
    Path(os.fsdecode(place + b"/locks")).write_text("in the way")
    with pytest.raises(Storage), FlockLocks(place).share_store(wait=0):
        pass


def test_who_holds_a_lock_is_refused_at_once_what_it_would_wait_for_itself(locks: FlockLocks) -> None:
    """S16: nobody would let go of it meanwhile."""
    refused = pytest.raises(Busy, match="held by the verb that asks this here")
    with locks.hold_workspace(KEY, wait=0), refused, locks.share_workspace(KEY, wait=60):
        pass
    share = locks.share_workspace
    with share(KEY, wait=0), share(KEY, wait=0), refused, locks.hold_workspace(KEY, wait=60):
        pass
    with locks.hold_workspace(KEY, wait=0):
        pass


def test_who_shares_leaves_nothing_of_a_turn_where_nobody_waits(place: bytes, locks: FlockLocks) -> None:
    with locks.share_store(wait=0):
        assert os.listdir(place + b"/locks") == [b"store.lock"]


_WITHOUT_DESCRIPTORS = """
import fcntl, os, resource, sys, threading
from lastgood.locks import FolderTurn

folder = sys.argv[1]
held = os.open(folder, os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, free + 1))
threading.Timer(0.2, os.close, (held,)).start()
with FolderTurn(folder, what="the store"):
    print("held")
"""


def test_to_wait_for_a_turn_takes_no_descriptor_beside_its_own(tmp_path: Path) -> None:
    """S14: nothing is loaded for that."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DESCRIPTORS, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.stdout == "held\n", done.stderr
