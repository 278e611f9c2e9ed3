"""Directories that their owner may not write to, in restores that are killed at any call (rule T7).

A restore opens them to work in them, and closes them in the end. Permissions do not hold for root, so
the verbs run as somebody for whom they do.
"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import opened
from faults.stage import Stage, Tree, differences
from faults.sweep import WAYS, sweep, sweep_both_ways

NOT_FOUND = 10

pytestmark = pytest.mark.faults


def _first(root: Path) -> None:
    _write(root / "top", "one\n")
    _write(root / "same" / "x", "one\n")
    _write(root / "same" / "in" / "y", "one\n")
    _write(root / "same" / "in" / "old", "only in the first state\n")
    _write(root / "back" / "gone" / "x", "a closed directory that goes\n")
    _write(root / "opens" / "x", "one\n")
    _write(root / "closes" / "x", "one\n")
    _write(root / "to-file" / "inside" / "x", "a closed directory that becomes a file\n")
    _close(root, opens=0o555, closes=0o755)


def _second(root: Path) -> None:
    for place in (root, *(path for path in root.rglob("*") if path.is_dir())):
        place.chmod(0o755)
    _write(root / "top", "two\n")
    _write(root / "same" / "x", "two\n")
    _write(root / "same" / "in" / "y", "two\n")
    (root / "same" / "in" / "old").unlink()
    (root / "back" / "gone" / "x").unlink()
    (root / "back" / "gone").rmdir()
    _write(root / "new" / "closed" / "x", "a closed directory that comes\n")
    _write(root / "opens" / "x", "two\n")
    _write(root / "closes" / "x", "two\n")
    (root / "to-file" / "inside" / "x").unlink()
    (root / "to-file" / "inside").rmdir()
    (root / "to-file").rmdir()
    _write(root / "to-file", "now a file\n")
    _close(root, opens=0o755, closes=0o500)


def _close(root: Path, *, opens: int, closes: int) -> None:
    modes = {
        "same/in": 0o500,
        "same": 0o555,
        "back/gone": 0o555,
        "back": 0o555,
        "new/closed": 0o555,
        "to-file/inside": 0o555,
        "to-file": 0o555,
        "opens": opens,
        "closes": closes,
    }
    for name, mode in modes.items():
        if (root / name).is_dir():
            (root / name).chmod(mode)
    root.chmod(0o555)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _two_states(stage: Stage) -> None:
    """The first state and the second are both checkpoints, and the second is there."""
    _first(stage.workspace)
    with opened(stage) as workspace:
        workspace.save("the first state", name="first")
        _second(stage.workspace)
        workspace.save("the second state", name="second")


def _whole(stage: Stage) -> Tree:
    """Read the workspace, with the permissions of its root."""
    return {**stage.tree(), b"": (stat.S_IMODE(stage.workspace.stat().st_mode), None)}


def _run(injector: Injector, stage: Stage, verb: str, blow: Blow, **parameters: object) -> Trial:
    order = {"workspace": str(stage.workspace), "store": str(stage.store), "ordinary": True, **parameters}
    return injector.run(verb, order, roots=stage.roots, blow=blow)


def _ends(injector: Injector, stage: Stage) -> tuple[Tree, Tree]:
    """Return the workspace before the restore and after it; the stage is as before."""
    stage.prepare(_two_states)
    start = _whole(stage)
    assert _run(injector, stage, "restore", Blow(), ref="first").said("restored")
    target = _whole(stage)
    assert start[b""] == target[b""] == (0o555, None)
    assert (start[b"same"], start[b"opens"], start[b"closes"]) == (
        (0o555, None),
        (0o755, None),
        (0o500, None),
    )
    assert (target[b"same"], target[b"opens"], target[b"closes"]) == (
        (0o555, None),
        (0o555, None),
        (0o755, None),
    )
    assert target[b"back/gone"] == target[b"to-file"] == (0o555, None)
    stage.reset()
    return start, target


def test_closed_directories_are_closed_again_after_a_restore_killed_at_any_call(
    injector: Injector, stage: Stage
) -> None:
    start, target = _ends(injector, stage)

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("restored"), f"{where}: {trial.lines}"
        with opened(stage) as workspace:
            interrupted = workspace.status().state == "interrupted"
        if not interrupted:
            assert _whole(stage) in (start, target), f"{where}: {differences(_whole(stage), target)}"
            return
        again = _run(injector, stage, "recover", Blow(), roll_back=roll_back)
        assert again.said("recovered"), f"{where}: {again.lines}"
        wanted = start if roll_back else target
        assert _whole(stage) == wanted, f"{where}: {differences(_whole(stage), wanted)}"

    parameters = {"ref": "first", "ordinary": True}
    sweep_both_ways(injector, stage, "restore", parameters, blow=Blow(), check=check, points=24)


@WAYS
def test_closed_directories_are_closed_again_after_a_recovery_killed_at_any_call(
    injector: Injector, stage: Stage, *, roll_back: bool
) -> None:
    start, target = _ends(injector, stage)
    middle = _half_done(injector, stage)
    stage.reset()
    assert _run(injector, stage, "restore", Blow(middle), ref="first").killed
    stage.keep()

    def check(trial: Trial, where: str) -> None:
        assert trial.killed or trial.said("recovered"), f"{where}: {trial.lines}"
        again = _run(injector, stage, "recover", Blow(), roll_back=roll_back)
        over = roll_back and again.status == NOT_FOUND  # it was taken back before the blow
        assert over or again.said("recovered"), f"{where}: {again.lines}"
        wanted = start if roll_back else target
        assert _whole(stage) == wanted, f"{where}: {differences(_whole(stage), wanted)}"

    parameters = {"roll_back": roll_back, "ordinary": True}
    sweep(injector, stage, "recover", parameters, blow=Blow(), check=check, points=20)


def _half_done(injector: Injector, stage: Stage) -> int:
    """Return the number of a restore's call before which half of its renames are done."""
    order = {"workspace": str(stage.workspace), "store": str(stage.store), "ordinary": True, "ref": "first"}
    clean = injector.run("restore", order, roots=(stage.roots), blow=Blow(), traced=True)
    lines = clean.trace.splitlines()
    inside = [at for at, line in enumerate(lines, 1) if " rename" in line and "/workspace/" in line]
    return inside[len(inside) // 2] + 1
