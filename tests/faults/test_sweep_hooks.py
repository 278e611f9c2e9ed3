"""A hook of an agent's turn that is killed or failed at any call: of the turn nothing is lost (P6, S22)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_answered, assert_unharmed, listed, opened, two_checkpoints
from faults.stage import Stage
from faults.sweep import STOPPED, sweep
from lastgood.hooks.event import HookEvent
from lastgood.hooks.respond import respond

pytestmark = pytest.mark.faults

POINTS = 3


def event(stage: Stage, kind: str, text: str = "") -> dict[str, Any]:
    """Return the fields of an event of a host that lives, and is this process."""
    told = {"host": "claude-code", "kind": kind, "session": "1", "folder": str(stage.workspace)}
    return {**told, "owner": os.getpid(), "text": text}


def tell(stage: Stage, kind: str, text: str = "") -> None:
    with opened(stage) as workspace:
        respond(workspace, HookEvent(**event(stage, kind, text)), session=None)


def turn(stage: Stage, text: str) -> None:
    """Have a turn in which a file is written."""
    tell(stage, "prompt", text)
    (stage.workspace / f"{text}.py").write_text("the agent's\n")
    tell(stage, "turn-end")


def a_person_worked(stage: Stage) -> None:
    """Build: a session of a host, and a file that a person wrote after a turn."""
    two_checkpoints(stage)
    tell(stage, "session-start")
    turn(stage, "first")
    (stage.workspace / "person.py").write_text("a person's\n")


def an_agent_worked(stage: Stage) -> None:
    """Build: the same, and a turn that wrote a file and is about to end."""
    a_person_worked(stage)
    tell(stage, "prompt", "second")
    (stage.workspace / "second.py").write_text("the agent's\n")


@STOPPED
def test_a_turn_whose_end_is_broken_off_is_kept_once(injector: Injector, stage: Stage, blow: Blow) -> None:
    """What is left of it the next prompt keeps."""
    stage.prepare(an_agent_worked)
    earlier = listed(stage)

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "responded", where)
        turn(stage, "third")
        with opened(stage) as workspace:
            _, second, third = [one for one in reversed(workspace.list()) if one.kind == "turn"]
            kept = {"second"} if trial.said("responded") is not None else {"second", "interrupted: second"}
            assert second.manifest.message in kept, where
            assert third.manifest.message == "third", where
            assert workspace.read(second.id, "second.py") == b"the agent's\n", where
            assert {one.state for one in workspace.steps()} <= {"done", "failed"}, where
        assert_unharmed(stage, earlier, where)

    order = {"event": event(stage, "turn-end")}
    sweep(injector, stage, "hook", order, blow=blow, check=check, points=POINTS)


@STOPPED
def test_what_a_person_did_before_a_prompt_that_is_broken_off_is_never_the_agent_s(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(a_person_worked)
    earlier = listed(stage)

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "responded", where)
        (stage.workspace / "second.py").write_text("the agent's\n")
        tell(stage, "turn-end")
        with opened(stage) as workspace:
            last = workspace.list(limit=1)[0]
            assert last.kind == "turn", where
            assert workspace.read(last.id, "second.py") == b"the agent's\n", where
            of_person, of_agent = (
                workspace.blame(name).lines[0].by.actor.type for name in ("person.py", "second.py")
            )
            if trial.said("responded") is not None:
                assert (of_person, of_agent, last.manifest.message) == ("person", "agent", "second"), where
            assert of_person in {"person", "unknown"}, where
            assert of_agent in {"agent", "unknown"}, where
        assert_unharmed(stage, earlier, where)

    order = {"event": event(stage, "prompt", "second")}
    sweep(injector, stage, "hook", order, blow=blow, check=check, points=POINTS)
