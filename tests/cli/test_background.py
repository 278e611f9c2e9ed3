"""One process in the background serves several workspaces, begins on demand, and leaves (decision 051)."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lastgood
from lastgood.cli.verbs.install import QUICK
from lastgood.context import Context
from lastgood.errors import Busy, Unsupported
from lastgood.locks import FlockLocks
from lastgood.scanner import watch as scanner_watch
from lastgood.workspace import open_as, watching
from lastgood.workspace.opened import OpenWorkspace, Proposal
from lastgood.workspace.residence import Greeting, Watching, greeted
from lastgood.workspace.watching import Watches
from tools.command import COMMAND, PATIENCE, SOURCE, Command, told
from tools.living import eventually, eventually_gone
from tools.long_form import LONG
from tools.values import not_none
from tools.watcher import Watcher, asked

_LOADED = b"lastgood.cli.main"
# As `install` has a host start a hook.
ENTERED = "-ES", "-c", QUICK.format(folder=SOURCE, program=f'"{sys.executable}", "{COMMAND}"')


@pytest.fixture
def beside(kept: Command, tmp_path: Path) -> Command:
    """Another workspace of the same store, with a checkpoint."""
    project = tmp_path / "beside"
    project.mkdir()
    (project / "b.txt").write_text("beside\n")
    command = Command(project, kept.store)
    command("save", "beside")
    return command


@pytest.fixture
def on_demand(kept: Command) -> Iterator[Command]:
    """The store of a user who has nothing configured; whatever watches at the end is ended."""
    kept.environment["LASTGOOD_WATCH_ON_DEMAND"] = "hooks"
    yield kept
    _end(kept)


def _end(command: Command) -> None:
    pid = FlockLocks(os.fsencode(command.store)).server()  # one that is busy does not greet
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        assert eventually_gone(pid)


def found(command: Command) -> Greeting:
    """Wait until a process greets, and return what it says; one that is busy does not at once."""
    said: list[Greeting | None] = []

    def greets() -> bool:
        said.append(greeted(os.fsencode(command.store)))
        return said[-1] is not None

    assert eventually(greets)
    return not_none(said[-1])


@contextmanager
def background(command: Command, *words: str) -> Iterator[int]:
    """Have a process watch in the background, started by hand."""
    made = command("watch", "--background", "--json", *words).json
    try:
        yield made["pid"]
    finally:
        _end(command)


def hook(command: Command, event: str, **fields: object) -> tuple[bytes, bool]:
    """Tell an event; return the reply, and whether the resident gave it."""
    done = _told(command, event, **fields)
    return done.stdout, _LOADED not in done.stderr


def _told(command: Command, event: str, **fields: object) -> subprocess.CompletedProcess[bytes]:
    payload = {
        "hook_event_name": event,
        "session_id": "7f1c",
        "cwd": str(command.project),
        "transcript_path": f"{command.project}.jsonl",
        **fields,
    }
    return subprocess.run(
        [sys.executable, "-Ximporttime", *ENTERED, "hook", "claude-code"],
        cwd="/",
        env=command.environment
        | {"CLAUDE_PROJECT_DIR": str(command.project), "CLAUDE_PID": str(os.getpid())},
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=True,
    )


def served_hook(command: Command, event: str, **fields: object) -> bytes:
    """Tell an event until the resident gives the reply: where it is busy the hook does its work itself."""
    reply, served = hook(command, event, **fields)
    while not served:
        reply, served = hook(command, event, **fields)
    return reply


def messages(command: Command) -> list[tuple[str, str]]:
    found = command("list", "--json").json["checkpoints"]
    return [(one["kind"], one["message"]) for one in reversed(found)]


# --- Hooks ---


def test_a_hook_as_it_is_entered_loads_the_client_alone(kept: Command) -> None:
    """No `site`, no `os` and nothing of the house: a host waits for each of them at each event."""
    with background(kept):
        while True:
            done = _told(kept, "PreToolUse", tool_name="Bash", tool_input={"command": "ls"})
            if _LOADED not in done.stderr:
                break
    loaded = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines()}
    assert {name for name in loaded if name.startswith(b"lastgood")} == {
        b"lastgood",
        b"lastgood.resident",
        b"lastgood.client",
    }
    assert not {b"site", b"os", b"__future__"} & loaded
    assert b"_socket" in loaded


def test_what_hooks_do_is_the_same_through_the_resident(kept: Command, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "a.txt").write_text("first\n")
    other = Command(alone, tmp_path / "other store")
    other("save", "one")
    for command, tell in ((other, lambda *words, **more: hook(*words, **more)[0]), (kept, served_hook)):
        with background(kept):
            assert tell(command, "SessionStart", source="startup") == b""
            assert tell(command, "UserPromptSubmit", prompt="write it") == b""
            (command.project / "a.txt").write_text("written\n")
            assert tell(command, "PreToolUse", tool_name="Bash", tool_input={"command": "rm a.txt"}) == b""
            assert tell(command, "PreToolUse", tool_name="Bash", tool_input={"command": "ls"}) == b""
            (command.project / "a.txt").write_text("written again\n")
            assert tell(command, "Stop") == b""
            assert tell(command, "SessionEnd", reason="exit") == b""
    expected = [("risky", "before: rm a.txt"), ("turn", "write it"), ("session-end", "session end")]
    assert messages(kept)[-3:] == messages(other)[-3:] == expected
    sessions = [one("session", "list", "--json").json["sessions"] for one in (kept, other)]
    assert [[one["state"] for one in found] for found in sessions] == [["ended"], ["ended"]]


def test_a_hook_that_the_resident_declines_loses_nothing_of_what_it_was_told(kept: Command) -> None:
    kept.environment["CLAUDE_CONFIG_DIR"] = str(kept.project.parent)
    with background(kept):
        kept.environment["TZ"] = "Europe/Lisbon"
        reply, served = hook(kept, "SessionStart", source="startup")
        assert (reply, served) == (b"", False)
        hook(kept, "UserPromptSubmit", prompt="anew")
        (kept.project / "a.txt").write_text("anew\n")
        hook(kept, "Stop")
    assert messages(kept)[-1] == ("turn", "anew")


def test_a_fault_is_told_by_the_hook_itself(kept: Command) -> None:
    with background(kept):
        done = kept("hook", "claude-code", stdin=b"no JSON")
    assert "what the host said is no JSON" in done.out


def test_a_word_that_is_hook_has_nobody_wait_for_input(kept: Command) -> None:
    reading, writing = os.pipe()
    with background(kept):
        done = subprocess.run(
            [sys.executable, COMMAND, "save", "hook"],
            cwd=kept.project,
            env=kept.environment,
            stdin=reading,
            capture_output=True,
            check=False,
        )
    os.close(reading)
    os.close(writing)
    assert done.returncode == 0


def test_what_a_call_began_before_it_was_broken_off_is_begun_once(kept: Command) -> None:
    """Rule P6."""
    digits = "00112233445566ff"
    with lastgood.open(kept.project, store=kept.store, maintenance="off") as workspace:
        session = workspace.session_start().session.id
        for _ in range(2):
            again = workspace.within(session)
            again.proposal = Proposal(digits)
            again.step_start("a turn")
            again.save("kept", allow_empty=True)
            again.save("kept too", allow_empty=True)
        assert [one.id for one in workspace.steps(session)] == [f"step_{digits}"]
        said = [one.manifest.message for one in workspace.list()]
        assert (said.count("kept"), said.count("kept too")) == (1, 2)


# --- Several workspaces ---


def test_the_first_command_in_a_store_may_be_that_something_watches(lastgood: Command) -> None:
    (lastgood.project / "a.txt").write_text("first\n")
    with background(lastgood):
        assert eventually(lambda: messages(lastgood) == [("auto", "by watch")])


def test_one_process_watches_several_workspaces_and_serves_both(kept: Command, beside: Command) -> None:
    with background(kept, "--rest", "100ms") as pid:
        assert json.loads(asked(beside, "watch", "--background", "--rest", "100ms", "--json"))["pid"] == pid
        for command in (kept, beside):
            (command.project / "newest.txt").write_text("newest\n")
        for command in (kept, beside):
            assert eventually(partial(_is_saved, command))
            assert command("status", "--json").json["resident_note"] is None
            served_hook(command, "SessionStart", source="startup")


def test_who_wants_another_workspace_watched_waits_for_one_that_is_busy(
    kept: Command, beside: Command
) -> None:
    """It alone can do that: another would be in its way."""
    waiting = "from lastgood import client; client._BUSY_SECONDS = 600; client.run()"
    with background(kept) as pid:
        os.kill(pid, signal.SIGSTOP)
        asking = subprocess.Popen(
            [sys.executable, "-c", waiting, "watch", "--background", "--json"],
            cwd=beside.project,
            env=beside.environment | {"PYTHONPATH": SOURCE},
            stdout=subprocess.PIPE,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            asking.wait(0.5)
        os.kill(pid, signal.SIGCONT)
        assert json.loads(asking.communicate()[0])["pid"] == pid


def test_a_message_that_is_called_like_its_option_waits_for_none_that_is_busy(kept: Command) -> None:
    waiting = f"from lastgood import client; client._BUSY_SECONDS = {2 * PATIENCE}; client.run()"
    (kept.project / "a.txt").write_text("changed\n")
    with background(kept) as pid:
        os.kill(pid, signal.SIGSTOP)
        try:
            subprocess.run(
                [sys.executable, "-c", waiting, "save", "--quiet", "--", "--background"],
                cwd=kept.project,
                env=kept.environment | {"PYTHONPATH": SOURCE},
                timeout=PATIENCE,
                check=True,
            )
        finally:
            os.kill(pid, signal.SIGCONT)
    assert ("manual", "--background") in messages(kept)


def test_one_that_is_only_worked_in_is_taken_up_and_left_to_who_wants_it(
    kept: Command, beside: Command
) -> None:
    for command in (kept, beside):
        command.environment["LASTGOOD_WATCH_ON_DEMAND"] = "hooks"
    with background(kept) as pid:
        served_hook(beside, "SessionStart", source="startup")
        assert beside("status", "--json").json["resident_note"]["code"] == "on-demand"
        with Watcher(beside).process as watcher:
            assert eventually(lambda: Watching(_context(beside)).is_watched)
            assert found(kept).pid == pid
            watcher.kill()


def _is_saved(command: Command) -> bool:
    return messages(command)[-1] == ("auto", "by watch")


def _context(command: Command) -> Context:
    with _opened(command.project, command.store) as workspace:
        return workspace._context


def _opened(folder: Path, store: Path) -> OpenWorkspace:
    return open_as(OpenWorkspace, folder, store=store, maintenance="off", allow_root=True)


@pytest.fixture
def several(tmp_path: Path) -> Iterator[tuple[Watches, list[OpenWorkspace]]]:
    """Three workspaces of three directories each, and room for seven."""
    watches = Watches(share=7)
    opened = []
    for name in ("one", "two", "three"):
        (tmp_path / name / "a").mkdir(parents=True)
        (tmp_path / name / "b").mkdir()
        opened.append(_opened(tmp_path / name, tmp_path / "store"))
    yield watches, opened
    watches.close()
    for one in opened:
        one.close()


def test_the_least_used_gives_room_and_one_watched_by_hand_does_not(
    several: tuple[Watches, list[OpenWorkspace]],
) -> None:
    watches, (one, two, three) = several
    for workspace, rest in ((one, 60.0), (two, None), (three, None)):
        watches.add(workspace, rest=rest)
        workspace.save("as it is", allow_empty=True)
        watches.fit()
    assert [watched.workspace for watched in watches] == [one, three]
    three.save("again", allow_empty=True)
    assert sum(watched.directories for watched in watches) == 6


def test_everything_is_looked_at_each_interval_however_often_a_checkpoint_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1: a write by a name outside the workspace is heard by nobody."""
    for place in ("one/a", "one/b", "outside"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "one" / "a" / "file").write_text("first\n")
    now = [time.monotonic()]
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with _opened(tmp_path / "one", tmp_path / "store") as workspace:
        watches = Watches()
        watched = watches.add(workspace, rest=1.0)
        for _ in range(3):  # until no file is so young that it is looked at again
            watched.keep()
        os.link(tmp_path / "one" / "a" / "file", tmp_path / "outside" / "file")
        (tmp_path / "outside" / "file").write_text("second\n")
        for number in range(4):
            now[0] += workspace.settings.auto.interval / 3
            (tmp_path / "one" / "b" / "file").write_text(f"{number}\n")
            assert not watched.attend()
            now[0] += 20.0
            assert watched.attend()
        assert workspace.read("@", "a/file") == b"second\n"
        watches.close()


@pytest.mark.parametrize("came", ["checkpoint", "session"])
def test_a_save_of_the_watch_gives_way_to_what_came_while_it_looked(
    several: tuple[Watches, list[OpenWorkspace]], tmp_path: Path, came: str
) -> None:
    """S22: as the latest state it would have what an agent did since be a person's, or in no session."""
    watches, (one, _, _) = several
    one.save("as it is", allow_empty=True)
    watched = watches.add(one, rest=60.0)
    (tmp_path / "one" / "file").write_text("changed\n")
    with lastgood.open(one.path, store=one.store, maintenance="off", allow_root=True) as other:

        def overtake(statement: str) -> None:
            if statement == "BEGIN IMMEDIATE":
                not_none(database._connection).set_trace_callback(None)
                other.save("theirs") if came == "checkpoint" else other.session_start()

        database = one._context.catalogue._database
        not_none(database._connection).set_trace_callback(overtake)
        watched.keep()
        assert by_watch(one) == []
        (tmp_path / "one" / "file").write_text("more\n")
        watched.keep()
        session = next((each.session.id for each in other.sessions()), None)
        assert by_watch(one) == [session]


def by_watch(workspace: OpenWorkspace) -> list[str | None]:
    """Return in which sessions the checkpoints are that the watch made."""
    return [one.session for one in workspace.list() if one.manifest.message == "by watch"]


def test_one_that_has_gone_is_dropped_and_the_others_are_watched_on(
    several: tuple[Watches, list[OpenWorkspace]], tmp_path: Path
) -> None:
    watches, (one, two, _) = several
    for workspace in (one, two):
        workspace.save("as it is")
        watches.add(workspace, rest=60.0)
    (tmp_path / "one").rename(tmp_path / "moved")
    (tmp_path / "two" / "file").write_text("last\n")
    reading, writing = os.pipe()
    os.write(writing, b"x")
    watches.run(reading, service=_Nobody(), idle=3600.0)
    os.close(reading)
    os.close(writing)
    assert [watched.workspace for watched in watches] == [two]
    assert two.list()[0].manifest.message == "by watch"


class _Nobody:
    """Serves nobody."""

    descriptor: int | None = None

    def begin(self) -> None:
        """Begin nothing."""

    def serve(self) -> None:
        """Serve nobody."""

    def is_found(self) -> bool:
        """Tell that nobody finds it."""
        return False


def test_a_process_that_nobody_finds_any_more_ends(several: tuple[Watches, list[OpenWorkspace]]) -> None:
    watches, (one, _, _) = several
    watches.add(one)
    reading, writing = os.pipe()
    watches.run(reading, service=_Nobody(), idle=3600.0)
    os.close(reading)
    os.close(writing)


def test_what_is_beyond_the_limit_is_told_with_the_way_to_raise_it(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "one" / name).mkdir(parents=True)
    workspace = _opened(tmp_path / "one", tmp_path / "store")
    watches = Watches(share=2)
    watched = watches.add(workspace, rest=60.0)
    watched.save()
    note = Watching(workspace._context).note()
    watches.close()
    assert note is not None
    assert (note.code, note.message.partition(" ")[0]) == ("watch-limit", "2")


def test_where_no_queue_is_left_it_is_told_why(kept: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> None:
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(scanner_watch, "Inotify", none_left)
    workspace = _opened(kept.project, kept.store)
    with pytest.raises(Unsupported, match="Too many open files"):
        Watches().add(workspace)
    workspace.close()


# --- On demand ---


def test_a_hook_starts_one_that_has_nothing_of_who_started_it(on_demand: Command) -> None:
    inherited, other = os.pipe()
    os.set_inheritable(inherited, True)
    payload = {"hook_event_name": "SessionStart", "session_id": "7f1c", "cwd": str(on_demand.project)}
    subprocess.run(
        [sys.executable, COMMAND, "hook", "claude-code"],
        cwd=on_demand.project,
        env=on_demand.environment | {"A_SECRET": "s3cret", "LASTGOOD_SESSION": ""},
        input=json.dumps(payload).encode(),
        capture_output=True,
        pass_fds=(inherited,),
        check=True,
    )
    os.close(inherited)
    os.close(other)
    resident = found(on_demand)
    assert (resident.is_same, resident.is_by_hand) == (True, False)
    place = Path(f"/proc/{resident.pid}")
    assert os.readlink(place / "cwd") == "/"
    assert os.getsid(resident.pid) == resident.pid
    assert b"s3cret" not in (place / "environ").read_bytes()
    assert {os.readlink(place / "fd" / str(number)) for number in range(3)} == {"/dev/null"}
    open_files = {os.readlink(one) for one in (place / "fd").iterdir()}
    outside = {one for one in open_files if one.startswith("/") and not one.startswith(str(on_demand.store))}
    assert {one for one in outside if not one.startswith(("/dev/null", "/proc/"))} == set()
    served_hook(on_demand, "UserPromptSubmit", prompt="go on")
    assert on_demand("status", "--json").json["resident_note"]["code"] == "on-demand"


@pytest.mark.parametrize(("value", "starts"), [("never", ""), ("hooks", ""), ("always", "one")])
def test_a_save_starts_one_where_that_is_configured(on_demand: Command, value: str, starts: str) -> None:
    on_demand.environment["LASTGOOD_WATCH_ON_DEMAND"] = value
    on_demand("save")
    turn = on_demand.store / "locks" / "resident.turn"
    assert turn.exists() is bool(starts)
    if starts:
        found(on_demand)


def test_of_two_that_are_started_at_once_one_stays(on_demand: Command) -> None:
    words = [sys.executable, "-I", "-c", _RUN, SOURCE, str(on_demand.project), str(on_demand.store), ""]
    both = [subprocess.Popen(words, env=on_demand.environment) for _ in range(2)]
    assert eventually(lambda: any(one.poll() is not None for one in both))
    resident = found(on_demand)
    (left,) = [one for one in both if one.pid == resident.pid]
    assert left.poll() is None
    left.kill()
    for one in both:
        one.wait()


_RUN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from lastgood.cli.verbs.watch import run; run(*sys.argv[1:])"
)


def test_it_leaves_when_nothing_happens(kept: Command) -> None:
    kept.environment["LASTGOOD_WATCH_IDLE"] = "200ms"
    words = [sys.executable, "-I", "-c", _RUN, SOURCE, str(kept.project), str(kept.store), ""]
    done = subprocess.run(words, env=kept.environment, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert not (kept.store / "resident.sock").exists()


def test_one_in_a_terminal_takes_over_from_one_on_demand(on_demand: Command) -> None:
    hook(on_demand, "SessionStart", source="startup")
    found(on_demand)
    with subprocess.Popen(
        [sys.executable, COMMAND, "watch"],
        cwd=on_demand.project,
        env=on_demand.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stderr is not None
        assert watcher.stderr.readline().startswith("watching ")
        assert eventually(lambda: getattr(greeted(os.fsencode(on_demand.store)), "pid", None) == watcher.pid)
        watcher.kill()


_EARLIER = """
import fcntl, os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
lock = os.open(sys.argv[1] + "/locks/resident.lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX)
os.chdir(sys.argv[1])
listener.bind("resident.sock")
listener.listen()
print("ready", flush=True)
while True:
    client, _ = listener.accept()
    client.send(b"lastgood resident 2 0.0.9 x\\n" + sys.argv[2].encode())
    client.close()
"""


@contextmanager
def earlier(command: Command, why: str) -> Iterator[subprocess.Popen[str]]:
    """Have a process of an earlier version answer."""
    with subprocess.Popen(
        [sys.executable, "-c", _EARLIER, str(command.store), why], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_one_of_an_earlier_version_is_replaced_if_nobody_wanted_it(on_demand: Command) -> None:
    with earlier(on_demand, "d") as process:
        assert on_demand("status", "--json").json["resident_note"]["code"] == "other-version"
        assert not hook(on_demand, "SessionStart", source="startup")[1]
        assert process.wait(PATIENCE) == 0
        assert eventually(lambda: getattr(greeted(os.fsencode(on_demand.store)), "is_same", False))


def test_one_of_an_earlier_version_that_somebody_started_goes_on_until_it_is_stopped(
    on_demand: Command,
) -> None:
    with earlier(on_demand, "h") as process:
        hook(on_demand, "SessionStart", source="startup")
        told(on_demand("watch", "--background", expect=14), 14)
        assert process.poll() is None
        assert on_demand("watch", "--stop", "--json").json["stopped"] == process.pid
        assert process.wait(PATIENCE) == 0
    assert on_demand("watch", "--stop", "--json").json["stopped"] is None


# --- By hand ---


def test_it_is_told_where_it_runs_and_why_it_does_not(kept: Command) -> None:
    def note() -> tuple[bool, str | None]:
        report: dict[str, Any] = kept("status", "--json").json
        said = report["resident_note"]
        return report["resident"], None if said is None else said["code"]

    assert note() == (False, "switched-off")
    kept.environment["LASTGOOD_WATCH_ON_DEMAND"] = "always"
    # The report has one begin, which may answer while the report is made.
    begun = {(False, "not-started"), (True, "on-demand")}
    assert note() in begun
    _end_when_there(kept)
    with background(kept):
        assert note() == (True, None)
        assert "a process watches this workspace" in kept("doctor", expect=None).out
    assert note() in begun


def _end_when_there(command: Command) -> None:
    found(command)
    _end(command)


def test_a_second_watch_of_one_workspace_is_told_of_the_first(kept: Command) -> None:
    with background(kept) as pid:
        # However busy the machine, it is asked: who is not greeted at once is told that another one watches.
        assert json.loads(asked(kept, "watch", "--background", "--json"))["pid"] == pid
        told(kept("watch", expect=14), 14)
        workspace = _opened(kept.project, kept.store)
        with pytest.raises(Busy):
            Watches().add(workspace)
        workspace.close()


def test_one_that_is_stopped_by_a_signal_is_ended_all_the_same(kept: Command) -> None:
    with background(kept) as pid:
        os.kill(pid, signal.SIGSTOP)
        assert kept("watch", "--stop", "--json").json["stopped"] == pid
        assert kept("status", "--json").json["resident"] is False


# --- Killed at any moment ---


def _resident(command: Command) -> subprocess.Popen[bytes]:
    """Start one on demand, and wait until it answers."""
    words = [sys.executable, "-I", "-c", _RUN, SOURCE, str(command.project), str(command.store), ""]
    process = subprocess.Popen(words, env=command.environment)
    found(command)
    return process


def _turn(command: Command, number: int) -> None:
    """Have a turn, of which no event says anything."""
    assert hook(command, "UserPromptSubmit", prompt=f"turn {number}")[0] == b""
    (command.project / "a.txt").write_text(f"{number}\n")
    assert hook(command, "Stop")[0] == b""


def test_killed_under_the_hooks_of_several_workspaces_it_is_missed_by_nobody(
    on_demand: Command, beside: Command
) -> None:
    moments = [random.uniform(0, 0.8) for _ in range(200)] if LONG else [0.1, 0.25, 0.5]
    beside.environment["LASTGOOD_WATCH_ON_DEMAND"] = "hooks"
    with (on_demand.store / "locks" / "resident.turn").open("wb") as turn, ThreadPoolExecutor(2) as pool:
        fcntl.flock(turn, fcntl.LOCK_EX)  # none is started but here
        for number, moment in enumerate(moments):
            process = _resident(on_demand)
            running = [pool.submit(_turn, command, number) for command in (on_demand, beside)]
            time.sleep(moment)
            process.kill()
            process.wait()
            for one in running:
                one.result()
    expected = [f"turn {number}" for number in range(len(moments))]
    for command in (on_demand, beside):
        assert [message for kind, message in messages(command) if kind == "turn"] == expected
        with lastgood.open(command.project, store=command.store, maintenance="off") as workspace:
            (session,) = workspace.sessions()
            steps = workspace.steps(session.id)
            assert [(one.name, one.state) for one in steps] == [(name, "done") for name in expected]
        assert command("verify", "--json").json["ok"] is True
