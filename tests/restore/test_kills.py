"""A restore killed at each of its changes, cleared and finished or taken back (rules T5, T7)."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from itertools import count

import pytest

from lastgood.model.operation import Step
from tools.forest import TOKEN, Field, Names, Node, folder, stamps

A: Node = (0o644, b"a")
B: Node = (0o644, b"b")
CHANGES = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.symlink", "open", "os.fchmod"}
)
PRESENT: Names = {
    b"dir to file": folder({b"x": A, b"sub": folder({b"y": A}), b"empty": folder({})}),
    b"file to dir": A,
    b"link to dir": "elsewhere",
    b"dir to link": folder({b"x": A}),
    b"edited": folder({b"x": A, b"mode": (0o600, b"m"), b"ignored": B}),
    b"gone": folder({b"x": A, b"deep": folder({b"y": A})}),
    b"read-only": folder({b"x": A, b"y": A}, 0o555),
}
TARGET: Names = {
    b"dir to file": B,
    b"file to dir": folder({b"x": B}),
    b"link to dir": folder({b"x": B}),
    b"dir to link": "elsewhere",
    b"edited": folder({b"x": B, b"mode": (0o644, b"m")}, 0o700),
    b"new": folder({b"x": A, b"deep": folder({b"y": A})}),
    b"read-only": folder({b"x": B}, 0o555),
}


def ignored(path: bytes) -> bool:
    return path.endswith(b"ignored")


def _with_ignored(names: Names) -> Names:
    edited = names[b"edited"]
    assert not isinstance(edited, str)
    assert isinstance(edited[1], dict)
    return names | {b"edited": (edited[0], edited[1] | {b"ignored": B})}


def _apply_until(field: Field, steps: tuple[Step, ...], point: int) -> bool:
    """Apply in a child that is killed before its nth change, and tell whether it was."""
    evidence = stamps(field.root)
    child = os.fork()
    if not child:
        left = count()

        def kill(event: str, _arguments: object) -> None:
            if event in CHANGES and next(left) == point:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        status = 1
        try:
            field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=evidence)
            status = 0
        finally:
            os._exit(status)  # never does a child go on with the tests
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return code != 0


def _directories(steps: tuple[Step, ...]) -> list[bytes]:
    return sorted({step.path for step in steps} | {step.path.rpartition(b"/")[0] for step in steps})


def _names(root: bytes) -> set[bytes]:
    return {name for _, directories, files in os.walk(root) for name in directories + files}


@pytest.mark.faults
@pytest.mark.parametrize("goal", [TARGET, PRESENT], ids=["finished", "taken back"])
def test_a_restore_killed_at_any_change_can_be_finished_or_taken_back(goal: Names) -> None:
    for point in count():
        with tempfile.TemporaryDirectory() as made:
            field = Field(os.fsencode(made))
            field.lay(PRESENT)
            steps = field.plan(TARGET, ignored=ignored)
            killed = _apply_until(field, steps, point)
            assert field.applier.clear_temporaries(TOKEN, _directories(steps), steps=steps) == (), point
            assert not any(name.startswith(b".lastgood") for name in _names(field.root)), point
            assert field.restore(goal, ignored=ignored) == [], point
            assert field.now() == _with_ignored(goal), point
        if not killed:
            break
    assert point > 40
