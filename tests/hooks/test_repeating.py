"""Hooks in two of a host's places: the second telling of an event does nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from hooks.conftest import Agent, payload
from lastgood.context import Context
from lastgood.hooks import repeated
from lastgood.hooks.claude_code import event_of
from lastgood.hooks.event import HookEvent
from lastgood.hooks.repeated import Telling
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.command import COMMAND
from tools.forks import ended, forked

Told = Callable[..., bool]


@pytest.fixture
def context(workspace: Workspace, clock: FakeClock) -> Context:
    return workspace._context.replace(clock=clock)


@pytest.fixture
def told(context: Context) -> Told:
    """Return what tells of an event by some process, and says whether it was told of before."""

    def tell(event: HookEvent, said: bytes = b"{}", *, caller: int) -> bool:
        with Telling(context, event, said, caller=caller) as telling:
            return telling.again

    return tell


EVENT = HookEvent(host="claude-code", kind="prompt", session="one", folder="/", owner=7, moment="m")


def test_what_another_hook_was_told_of_is_repeated(told: Told) -> None:
    """A hook that is carried out anew, since who did that was killed, is the same one."""
    assert not told(EVENT, caller=1)
    assert told(EVENT, caller=2)
    assert told(EVENT, caller=3)
    assert not told(EVENT, caller=1)


def test_where_no_lock_is_of_one_byte_it_is_repeated_all_the_same(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS."""
    monkeypatch.setattr(repeated, "_OF_FILE", None)
    assert [told(EVENT, caller=one) for one in (1, 2, 1)] == [False, True, False]


def test_another_moment_kind_text_or_host_is_another_event(told: Told) -> None:
    assert not told(EVENT, caller=1)
    assert not told(EVENT, b'{"more": 1}', caller=2)
    assert not told(EVENT.replace(kind="turn-end"), caller=3)
    assert not told(EVENT.replace(owner=8), caller=4)


def test_what_nothing_tells_apart_is_none_of_before(told: Told) -> None:
    """But for what happens once in the life of a host."""
    plain = EVENT.replace(moment=None)
    assert [told(plain, caller=one) for one in (1, 2)] == [False, False]
    start = plain.replace(kind="session-start")
    assert [told(start, caller=one) for one in (3, 4)] == [False, True]


def test_a_conversation_that_a_host_comes_back_to_at_once_begins_and_ends_again(told: Told) -> None:
    """As by /resume to another one and back: each is told of alike, here by two hooks."""
    start = EVENT.replace(kind="session-start", moment=None)
    other, end = start.replace(session="two"), start.replace(kind="session-end")
    told(other, b"other", caller=1)
    happened = [(start, b"start"), (end, b"end"), (start, b"start"), (end, b"end")]
    callers = iter(range(2, 10))
    again = [told(event, said, caller=next(callers)) for event, said in happened for _ in range(2)]
    assert again == [False, True] * 4


def test_after_a_while_it_is_another(told: Told, clock: FakeClock) -> None:
    assert not told(EVENT, caller=1)
    clock.advance(61)
    assert not told(EVENT, caller=2)


def test_the_file_stays_small_and_may_say_anything(told: Told, context: Context) -> None:
    path = os.path.join(context.store, b"workspaces", context.key.encode(), b"events")
    assert not told(EVENT, caller=1)
    Path(os.fsdecode(path)).write_bytes(b"\xff\n1 2\nx y z\n" * 4_000)
    assert not told(EVENT, caller=2)
    assert told(EVENT, caller=3)
    assert os.stat(path).st_size < 1_000


def test_where_nothing_can_be_noted_each_counts(told: Told, context: Context) -> None:
    os.makedirs(os.path.join(context.store, b"workspaces", context.key.encode(), b"events"))
    assert [told(EVENT, caller=one) for one in (1, 2)] == [False, False]


@pytest.mark.parametrize("name", ["UserPromptSubmit", "PreToolUse", "Stop", "SessionEnd"])
def test_claude_code_tells_moments_apart(name: str) -> None:
    found = event_of(payload(name), {}, caller=1)
    assert found is not None
    assert found.moment


def test_a_turn_that_is_told_of_twice_at_once_is_one(agent: Agent) -> None:
    """As by the plugin and by the user's settings, whose hooks Claude Code starts beside each other."""

    def twice(event: str, **fields: object) -> None:
        own = {"transcript_path": str(agent.transcript), "cwd": str(agent.project)}
        text = json.dumps(payload(event) | own | fields).encode()
        environment = agent.lastgood.environment | {"CLAUDE_PID": str(agent.process.pid)}
        started = [
            subprocess.Popen(
                [sys.executable, COMMAND, "hook", "claude-code"],
                cwd="/",
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for _ in range(2)
        ]
        for one in started:
            assert one.stdin is not None
            one.stdin.write(text)
            one.stdin.close()
        for one in started:
            assert one.stdout is not None
            assert one.stdout.read() == b""
            one.stdout.close()
            assert one.wait() == 0

    twice("SessionStart")
    for turn, word in enumerate(("one", "two")):
        twice("UserPromptSubmit", prompt=f"write {word}", prompt_id=f"p{turn}")
        (agent.project / "file").write_text("half " + word)
        twice("PreToolUse", prompt_id=f"p{turn}", tool_use_id=f"t{turn}")
        (agent.project / "file").write_text(word)
        twice("Stop", prompt_id=f"p{turn}")

    told = agent.told()
    assert told == [
        ("session-start", "session start"),
        ("risky", "before: rm -rf notes.txt; false"),
        ("turn", "write one"),
        ("risky", "before: rm -rf notes.txt; false"),
        ("turn", "write two"),
    ]
    assert len(agent.lastgood("session", "list", "--json").json["sessions"]) == 1


@pytest.mark.parametrize("of_one_byte", [True, False])
def test_a_hook_that_is_stopped_is_not_waited_for(
    context: Context, told: Told, monkeypatch: pytest.MonkeyPatch, *, of_one_byte: bool
) -> None:
    """S16."""
    monkeypatch.setattr(repeated, "STOPPED_PATIENCE", 0.0)
    if not of_one_byte:
        monkeypatch.setattr(repeated, "_OF_FILE", None)
    patient = EVENT.replace(seconds=600.0)

    def stop() -> None:
        with Telling(context, patient, b"{}", caller=1):
            os.kill(os.getpid(), signal.SIGSTOP)

    child = forked(stop)
    os.waitpid(child, os.WUNTRACED)
    try:
        assert not told(patient, caller=2)
    finally:
        os.kill(child, signal.SIGCONT)
    assert ended(child) == 0


def test_what_failed_is_left_to_the_next_hook_which_waits_for_it(context: Context, told: Told) -> None:
    found: list[bool] = []
    other = Thread(target=lambda: found.append(told(EVENT, caller=2)))

    with suppress(InterruptedError), Telling(context, EVENT, b"{}", caller=1):
        other.start()
        assert not told(EVENT.replace(moment="n"), b"another", caller=3)  # for that alone nobody waits
        assert not found
        raise InterruptedError
    other.join()

    assert found == [False]
    assert told(EVENT, caller=4)


def test_a_turn_that_another_hook_has_go_on_twice_is_one_and_all_of_it_the_agents(agent: Agent) -> None:
    """T15, S20: its host tells of two ends with the same words; a third time nothing changed."""
    agent.asked("write it")
    for text in ("one", "one\ntwo", "one\ntwo\nthree"):
        (agent.project / "file").write_text(text)
        agent.quietly("Stop", stop_hook_active=text != "one")
    agent.quietly("Stop", stop_hook_active=True)
    agent.asked("go on")

    assert [kind for kind, _ in agent.told()] == ["session-start", "turn", "turn", "turn"]
    lines = agent.lastgood("blame", "file", "--json").json["lines"]
    assert {one["actor"]["name"] for one in lines} == {"claude-code"}
    said = agent.lastgood("rewind", "1", "--yes").err
    assert said.count("write it") == 1
    assert (agent.project / "file").read_text() == "as it was"


def test_a_risky_call_that_looks_like_one_before_is_kept_if_files_changed(agent: Agent) -> None:
    agent.asked("write it")
    for text in ("half", "half", "whole"):
        (agent.project / "file").write_text(text)
        agent.quietly("PreToolUse", tool_use_id="the same")

    assert [kind for kind, _ in agent.told()] == ["session-start", "risky", "risky"]


def test_a_risky_call_is_denied_though_another_hook_failed_before(agent: Agent) -> None:
    """As where only one of the two places says `--block`."""
    agent.asked("write it")
    (agent.project / "file").write_text("half")
    sent = payload("PreToolUse") | {"transcript_path": str(agent.transcript), "cwd": str(agent.project)}
    (lock,) = agent.lastgood.store.glob("workspaces/*/lock")
    lock.unlink()
    lock.mkdir()  # so that nothing can be saved

    agent.sends(json.dumps(sent))
    reply = json.loads(agent.sends(json.dumps(sent), "--block").stdout)

    assert reply["hookSpecificOutput"]["permissionDecision"] == "deny"
