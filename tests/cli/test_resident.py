"""The process that watches carries out commands of others: they print and do what they would without it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lastgood
from tools.command import COMMAND, PATIENCE, Command, Done
from tools.living import eventually, is_open
from tools.long_form import examples
from tools.operations import STEPS, Step, take
from tools.watcher import WAITING, Watcher, alone, answering, asked, called, hurried, timeless


@pytest.fixture
def resident(kept: Command) -> Iterator[Watcher]:
    with answering(kept) as started:
        yield started


def test_it_answers_in_a_store_that_its_first_checkpoint_makes(lastgood: Command) -> None:
    (lastgood.project / "a.txt").write_text("first\n")
    assert not lastgood.store.exists()
    with answering(lastgood):
        assert called(lastgood, "status").served


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--json"),
        ("status", "--ignored"),
        ("save",),
        ("create", "--json"),
        ("checkpoint", "save", "--quiet"),
    ],
    ids=" ".join,
)
def test_what_it_carries_out_says_what_the_command_says_alone(
    kept: Command, resident: Watcher, words: tuple[str, ...]
) -> None:
    served = called(kept, *words)
    assert served.served
    assert served.said == alone(kept, *words).said


def test_a_checkpoint_made_by_it_has_what_one_made_alone_has(kept: Command, resident: Watcher) -> None:
    (kept.project / "a.txt").write_text("third\n")
    words = ("save", "a message", "--name", "three", "--meta", "k=v", "--pin", "--tokens", "7", "--json")
    first, second = called(kept, *words), alone(kept, *words)
    assert (first.served, first.code) == (True, 0)
    one, two = first.json["checkpoint"], second.json["checkpoint"]
    assert one["changes"] == {"added": 0, "modified": 1, "deleted": 0}
    same = (
        "tree",
        "message",
        "name",
        "metadata",
        "pinned",
        "kind",
        "actor",
        "files",
        "bytes",
        "git",
        "session",
    )
    assert {key: one[key] for key in same} == {key: two[key] for key in same}
    assert kept("cat", one["id"], "a.txt").out == "third\n"


def test_a_folder_below_and_one_that_is_named_are_understood(kept: Command, resident: Watcher) -> None:
    for words, cwd in (
        (("status", "--json"), kept.project / "src"),
        (("-C", str(kept.project), "status", "--json"), Path("/")),
        (("-C", "..", "status"), kept.project / "src"),
        (("-C", "project/src/..", "status"), kept.project.parent),
    ):
        served = called(kept, *words, cwd=cwd)
        assert served.served
        assert served.said == alone(kept, *words, cwd=cwd).said


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("save", "--kind", "bogus"),
        ("save", "--nonsense"),
        ("save", "--name", "not a:name"),
        ("save", "--help"),
        ("save", "--check", "true", "--json"),
        ("save", "--set", "capture.exclude=a.txt", "--quiet"),
        ("status", "save"),
        ("show", "save"),
        ("-C", "/", "status"),
        ("-C", "/nowhere", "save"),
        ("--store", "/nowhere/at all", "status"),
    ],
    ids=" ".join,
)
def test_what_is_not_for_it_is_done_as_ever(kept: Command, resident: Watcher, words: tuple[str, ...]) -> None:
    done = called(kept, *words)
    assert not done.served
    expected = alone(kept, *words)
    assert (done.code, done.err.partition("Traceback")[0]) == (
        expected.code,
        expected.err.partition("Trace")[0],
    )


@pytest.mark.parametrize(
    "name", ["HOME", "TZ", "XDG_CONFIG_HOME", "LASTGOOD_CAPTURE_EXCLUDE", "LASTGOOD_WITNESS"]
)
def test_an_environment_that_may_change_what_comes_out_is_not_for_it(
    kept: Command, resident: Watcher, name: str
) -> None:
    assert not called(kept, "status", cwd=None, **{name: str(kept.project.parent)}).served


def test_a_configuration_changed_meanwhile_counts(kept: Command, resident: Watcher) -> None:
    (kept.project / "new.txt").write_text("newer\n")
    for excluded in ("new.txt", "a.txt"):
        (kept.project / ".lastgood.toml").write_text(f'[capture]\nexclude = ["{excluded}"]\n')
        for words in (("status", "--json"), ("status", "--ignored"), ("save", "--json"), ("save", "--json")):
            done = called(kept, *words)
            assert done.served
            if words != ("save", "--json"):
                assert done.said == alone(kept, *words).said
        made = called(kept, "save", excluded, "--json").json["checkpoint"]
        assert made["tree"] == alone(kept, "save", excluded, "--json").json["checkpoint"]["tree"]


def test_a_configuration_that_broke_meanwhile_is_told_by_the_command_itself(
    kept: Command, resident: Watcher
) -> None:
    (kept.project / ".lastgood.toml").write_text("[capture\n")
    done = called(kept, "status")
    assert not done.served
    assert done.said == alone(kept, "status").said
    assert "is not TOML" in done.out
    (kept.project / ".lastgood.toml").unlink()
    assert called(kept, "status").served


def test_options_of_the_watch_are_not_those_of_who_asks(kept: Command) -> None:
    with answering(kept, settings=("capture.exclude=new.txt", "durability=fast")):
        (kept.project / "new.txt").write_text("newer\n")
        for words in (("status", "--json"), ("status", "--ignored")):
            served = called(kept, *words)
            assert served.served
            assert served.said == alone(kept, *words).said
        made = called(kept, "save", "with it", "--json")
        assert made.served
        assert kept("cat", made.json["checkpoint"]["id"], "new.txt").out == "newer\n"


def test_its_hints_name_the_program_as_each_caller_started_it(kept: Command, resident: Watcher) -> None:
    for number in range(30):
        (kept.project / f"{number}.txt").write_text("new\n", encoding="utf-8")
    away = called(kept, "status", PATH="/usr/bin:/bin")
    assert away.served
    assert f"more: {COMMAND} diff --stat\n" in away.out
    found = called(kept, "status")
    assert found.served
    assert "more: lastgood diff --stat\n" in found.out


def test_a_terminal_shows_the_same(kept: Command, resident: Watcher) -> None:
    (kept.project / "a.txt").write_text("changed\n")
    served = kept.terminal("status").out
    kept.environment["LASTGOOD_TRACE"] = "1"
    assert "\x1b[" in served
    assert timeless(served) == timeless(kept.terminal("status").out)


def test_output_that_nobody_takes_is_told_as_ever(kept: Command, resident: Watcher) -> None:
    def into_nothing(**env: str) -> tuple[int, bytes]:
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, COMMAND, "status"],
                cwd=kept.project,
                env=kept.environment | env,
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
            )
        return done.returncode, done.stderr

    assert into_nothing() == into_nothing(LASTGOOD_TRACE="1")
    assert into_nothing()[0] != 0


def test_whose_session_it_is_is_told_by_who_asks(kept: Command, resident: Watcher) -> None:
    """Rule P1: the processes above the command count, not those above the resident."""
    command = f"{sys.executable} {COMMAND}"
    script = f"{command} session start --goal g --quiet >&2; echo x > own; {command} save own --json; :"
    done = subprocess.run(
        ["sh", "-c", script], cwd=kept.project, env=kept.environment, capture_output=True, check=True
    )
    made = Done(0, done.stdout, done.stderr).json["checkpoint"]
    assert made["session"] is not None
    # Its shell is gone by now, whatever lives above the resident.
    assert called(kept, "status", "--json").json["state"] == alone(kept, "status", "--json").json["state"]


def test_its_socket_is_for_one_user_and_a_dead_ones_is_replaced(kept: Command, resident: Watcher) -> None:
    place = kept.store / "resident.sock"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    resident.end(signal.SIGKILL)
    assert place.is_socket()
    done = called(kept, "save", "none lives")
    assert (done.served, done.code) == (False, 0)
    with answering(kept, rest="100ms") as again:
        assert called(kept, "status").served
        assert again.end()[0] == 0
    assert not place.exists()


def test_a_store_far_down_has_one_too(kept: Command, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    shutil.move(kept.store, deep / "store")
    far = Command(kept.project, deep / "store")
    watcher = Watcher(far)
    try:
        deadline = time.monotonic() + PATIENCE
        while not called(far, "status").served:
            assert time.monotonic() < deadline
    finally:
        watcher.end(signal.SIGKILL)


@pytest.mark.parametrize(
    "words",
    [
        ("restore", "one", "--yes"),
        ("prune", "--keep", "1", "--now"),
        ("verify", "--repair"),
        ("maintain",),
        ("delete", "one"),
        ("workspace", "attach", "{}"),
        ("undo",),
    ],
    ids=lambda words: words[0],
)
def test_what_others_do_beside_it_waits_for_nothing_and_is_seen(
    kept: Command, resident: Watcher, words: tuple[str, ...]
) -> None:
    called(kept, "status")
    began = time.monotonic()
    alone(kept, *(word.format(kept.project) for word in words))
    assert time.monotonic() - began < 25, "it waited until a lock was given up"
    for next_words in (("status", "--json"), ("save", "--json"), ("status", "--json")):
        assert called(kept, *next_words).said == alone(kept, *next_words).said


def test_a_catalogue_that_was_replaced_is_not_asked(kept: Command, resident: Watcher) -> None:
    catalogue = kept.store / "catalogue.sqlite3"
    shutil.copy(catalogue, kept.store / "copy")
    os.replace(kept.store / "copy", catalogue)
    done = called(kept, "save", "into the new one", "--json")
    assert not done.served
    assert done.json["checkpoint"]["id"] in kept("list", "--json").out


def test_a_store_that_was_moved_away_is_served_no_more(kept: Command, resident: Watcher) -> None:
    moved = kept.store.with_name("moved")
    kept.store.rename(moved)
    done = called(Command(kept.project, moved), "save", "there", "--json")
    assert (done.served, done.code) == (False, 0)
    assert not kept.store.exists()


def test_one_that_is_stopped_keeps_nobody_and_does_nothing_twice(kept: Command, resident: Watcher) -> None:
    (kept.project / "a.txt").write_text("while it was stopped\n")
    resident.process.send_signal(signal.SIGSTOP)
    done = hurried(kept, "save", "once", "--json")
    assert (done.served, done.code) == (False, 0)
    resident.process.send_signal(signal.SIGCONT)
    resident.greets()
    assert [one["id"] for one in _named(kept, "once")] == [done.json["checkpoint"]["id"]]


def _named(command: Command, message: str) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = command("list", "--json").json["checkpoints"]
    return [one for one in listed if one["message"] == message]


@settings(max_examples=examples(short=8, long=100), suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=5, max_size=25))
def test_whatever_is_done_to_files_it_saves_what_is_there(tmp_path: Path, steps: list[Step]) -> None:
    """Each save through the socket is compared with a look at everything, into another store."""
    folder = tmp_path / "generated"
    shutil.rmtree(folder, ignore_errors=True)
    root, outside = folder / "above" / "project", folder / "outside"
    root.mkdir(parents=True)
    outside.mkdir()
    command = Command(root, folder / "store")
    command.environment = {name: value for name, value in os.environ.items() if name != "LASTGOOD_STORE"}
    command.environment |= {"LASTGOOD_STORE": str(folder / "store"), "LASTGOOD_MAINTENANCE": "off"}

    def save() -> None:
        status = asked(command, "status", "--json")
        report = asked(command, "save", "--allow-empty", "--json")
        made = knowing.get(json.loads(report)["checkpoint"]["id"]).manifest
        wanted = looking.save(allow_empty=True).checkpoint.manifest
        assert made.root == wanted.root
        assert (made.files, made.size, made.gaps, made.ignored) == (
            wanted.files,
            wanted.size,
            wanted.gaps,
            wanted.ignored,
        )
        drift = json.loads(status)["drift"]
        if drift is not None:
            assert drift == {"added": 0, "modified": 0, "deleted": 0} | made.changes.as_dict()

    with ExitStack() as opened:
        opened.enter_context(answering(command))
        looking, knowing = (
            opened.enter_context(
                closing(lastgood.open(root, store=folder / name, maintenance="off", allow_root=True))
            )
            for name in ("looking", "store")
        )
        for number, step in enumerate(steps):
            take(step, number, root=root, outside=outside, save=save)
        save()
        save()


def _saving(command: Command, number: int) -> subprocess.Popen[str]:
    (command.project / "a.txt").write_text(f"{number}\n")
    (command.project / "large").write_bytes(os.urandom(1 << 20))
    return subprocess.Popen(
        [sys.executable, COMMAND, "save", f"message {number}", "--quiet"],
        cwd=command.project,
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_that_is_killed_at_any_moment_is_noticed_by_no_caller(kept: Command) -> None:
    drawn = random.Random(os.urandom(8))
    for number in range(examples(short=6, long=200)):
        with answering(kept, rest="100ms") as watcher:
            asking = _saving(kept, number)
            time.sleep(drawn.uniform(0, 0.12))
            watcher.end(signal.SIGKILL)
        out, err = asking.communicate(timeout=PATIENCE)
        assert (asking.returncode, err) == (0, "")
        (made,) = _named(kept, f"message {number}")
        assert made["id"] == out.strip()
        assert kept("cat", made["id"], "a.txt").out == f"{number}\n"
    assert kept("verify", "--json").json["ok"] is True


def test_who_interrupts_a_command_interrupts_what_is_done_for_it(kept: Command) -> None:
    """It reads a file with no end in sight: it cannot be done before."""
    kept("config", "set", "capture.max_file_size", "2TiB")
    endless = kept.project / "endless"
    with answering(kept), ExitStack() as stack:
        (kept.project / "a.txt").write_text("third\n")
        with endless.open("wb") as file:
            file.truncate(1 << 40)  # all of it a hole
        asking = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", WAITING, "save", "interrupted"],
                cwd=kept.project,
                env=kept.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(asking.kill)
        assert eventually(lambda: is_open(endless))
        asking.send_signal(signal.SIGINT)
        out, err = asking.communicate(timeout=PATIENCE)
        assert (asking.returncode, out) == (130, "")
        assert err.startswith("lastgood: interrupted; nothing was saved\n")
        assert _named(kept, "interrupted") == []
        endless.unlink()
        done = called(kept, "save", "after that", "--json")
        assert (
            done.json["checkpoint"]["tree"]
            == alone(kept, "save", "alone", "--json").json["checkpoint"]["tree"]
        )


def test_strangers_at_its_socket_harm_nothing(kept: Command, resident: Watcher) -> None:
    place = str(kept.store / "resident.sock")
    for said in (b"", b"\0" * 7, b"\xff" * 8, b"\0\0\0\0\0\0\0\x05nopes", os.urandom(64)):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(place)
            client.sendall(said)
    resident.greets()
    assert called(kept, "status").served
