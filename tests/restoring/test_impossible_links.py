"""Links that no file system can hold: refused before the first write, and no store is lost to them (T12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lastgood
from lastgood.errors import Unsafe
from lastgood.model.operation import Journal
from lastgood.restore.finish import finish
from planting import link_to, planted
from unlocked import writers

if TYPE_CHECKING:
    from pathlib import Path

    from lastgood.workspace import Workspace

IMPOSSIBLE = {
    "NUL": b"a\0b",
    "nothing": b"",
    "too long": b"x" * 4096,
    "enormous": b"y" * (1 << 20),
}
impossible = pytest.mark.parametrize("target", IMPOSSIBLE.values(), ids=IMPOSSIBLE)


@impossible
def test_a_restore_of_one_is_refused_before_the_first_write(
    workspace: Workspace, project: Path, target: bytes
) -> None:
    """T12, T1: nothing is written, nothing is left open, and the plan alone is refused as well."""
    (project / "mine").write_text("mine")
    workspace.save("mine")
    bad = planted(workspace, {b"mine": b"theirs", b"l": link_to(target)})
    before = len(workspace.list())

    with pytest.raises(Unsafe, match="l is a link"):
        workspace.plan_restore(bad.id)
    with pytest.raises(Unsafe, match="l is a link"):
        workspace.restore(bad.id)
    with pytest.raises(Unsafe, match="l is a link"):
        workspace.restore(bad.id, to=project.parent / "aside")

    assert sorted(one.name for one in project.iterdir()) == ["mine"]
    assert (project / "mine").read_text() == "mine"
    assert not list((project.parent / "aside").iterdir())
    assert len(workspace.list()) == before
    assert workspace.status().state == "idle"
    (project / "mine").write_text("more")
    assert workspace.save("more").created


@impossible
def test_sound_paths_beside_one_come_back(workspace: Workspace, project: Path, target: bytes) -> None:
    """T12: a store that holds such a thing stays usable."""
    bad = planted(workspace, {b"mine": b"theirs", b"l": link_to(target)})

    assert workspace.restore(bad.id, paths=["mine"]).complete

    assert (project / "mine").read_text() == "theirs"
    assert workspace.diff(bad.id, None).files
    assert workspace.verify().ok


@impossible
def test_an_export_that_holds_one_is_not_imported(
    workspace: Workspace, tmp_path: Path, target: bytes
) -> None:
    """T12: nothing of it is taken in."""
    planted(workspace, {b"deep": {b"l": link_to(target)}})
    workspace.export(tmp_path / "bad.tar")
    (tmp_path / "elsewhere").mkdir()

    with lastgood.open(tmp_path / "elsewhere", store=tmp_path / "other", maintenance="off") as there:
        with pytest.raises(Unsafe, match="deep/l is a link"):
            there.import_file(tmp_path / "bad.tar")

        assert not [one for one in there.workspaces() if one.checkpoints]
        assert there.verify(deep=True).ok


@pytest.mark.parametrize("roll_back", [False, True])
def test_an_interrupted_restore_of_one_is_settled(
    workspace: Workspace, project: Path, *, roll_back: bool
) -> None:
    """T7: what an earlier release began is finished but for the link, or taken back, and work goes on."""
    (project / "mine").write_text("mine")
    kept = workspace.save("mine").checkpoint
    good = planted(workspace, {b"mine": b"theirs", b"l": link_to(b"mine")})
    bad = planted(workspace, {b"l": link_to(b"a\0b")})
    plan = workspace.plan_restore(good.id)
    context = workspace._context
    wrong = context.engine.directory(workspace._view.tree(bad).root)[0]
    steps = tuple(one.replace(want=wrong) if one.path == b"l" else one for one in plan.steps)
    writers(context).journal.open(
        Journal(
            operation="op_0123456789abcdef",
            type="restore",
            of=None,
            started_at=context.clock.now(),
            guard=kept.id,
            target_tree=plan.target,
            plan=plan.replace(steps=steps),
            session=None,
        )
    )

    changed = finish(context, roll_back=roll_back)

    assert changed is not None
    failed = {one.path for one in changed.outcomes if one.result == "failed"}
    assert failed == (set() if roll_back else {b"l"})
    assert (project / "mine").read_text() == ("mine" if roll_back else "theirs")
    (project / "mine").write_text("later")
    assert workspace.save("later").created
