"""An export or import that is killed or failed at any call: all of it is there, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import lastgood
from faults.disks import read_only
from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_answered, assert_collected, listed, opened
from faults.stage import Stage, alter, fill
from faults.sweep import STOPPED, sweep
from lastgood.workspace import Workspace
from tools.ledgers import texts

pytestmark = pytest.mark.faults


def _at(folder: Path, store: Path) -> Workspace:
    return lastgood.open(folder, store=store, maintenance="off", allow_root=True)


def _empty(stage: Stage) -> None:
    fill(stage.workspace)
    with opened(stage) as workspace:
        workspace.save("here before")
        alter(stage.workspace)


@STOPPED
def test_an_import_stopped_at_any_call_is_whole_or_nothing_and_runs_again(
    injector: Injector, stage: Stage, blow: Blow, tmp_path: Path, environment: dict[str, str]
) -> None:
    stage.prepare(_empty)
    other = tmp_path / "other"
    other.mkdir()
    fill(other)
    with _at(other, tmp_path / "other-store") as there:
        made = [there.save("one").checkpoint.id]
        alter(other)
        made.append(there.save("two").checkpoint.id)
        there.ledger("test").change(lambda book: book.put("thread", "key", head={"n": 1}, body=["said"]))
        books = texts(there.ledger("test"))
        there.export(tmp_path / "parcel.tar", private=True)
    earlier = listed(stage)
    between = []

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "imported", where)
        with opened(stage) as workspace:
            assert (found := workspace.verify()).ok, f"{where}: {found.faults}"
            known = {one.key: one.checkpoints for one in workspace.workspaces()}
            assert sorted(known.values()) in ([1], [1, 2]), where
            if trial.said("imported"):
                assert len(known) == 2, where
        if len(known) == 2:
            # Their checkpoints are there: the one moment at which their books may not be.
            with _at(other, stage.store) as there:
                held = texts(there.ledger("test"))
            assert held == books or (trial.said("imported") is None and held == {}), where
            between.append(held == {})
        with opened(stage) as workspace:
            again = workspace.import_file(tmp_path / "parcel.tar")
            assert set(again.checkpoints) in (set(), set(made)), where
            for id in made:
                assert workspace.get(id).id == id, where
            assert workspace.verify(deep=True).ok, where
        with _at(other, stage.store) as there:
            assert texts(there.ledger("test")) == books, where
        assert listed(stage) == earlier, where
        assert_collected(stage, where)

    order = {"file": str(tmp_path / "parcel.tar"), "environment": environment}
    sweep(injector, stage, "import", order, blow=blow, check=check, points=16)
    assert any(between), "no blow struck between the commit of the facts and that of the books"


@STOPPED
def test_an_export_stopped_at_any_call_leaves_a_whole_file_or_none(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(_empty)
    earlier = listed(stage)
    file = stage.store / "parcel.tar"

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "exported", where)
        with opened(stage) as workspace:
            if file.exists():
                assert workspace.import_file(file).known == earlier, where
                file.unlink()
            else:
                assert trial.said("exported") is None, where
            assert workspace.export(file).checkpoints == earlier, where
            assert not list(stage.store.glob("parcel.tar.*")), where  # nothing of a killed one
        assert_collected(stage, where)

    sweep(injector, stage, "export", {"file": str(file)}, blow=blow, check=check, points=16)


def test_an_export_from_a_store_to_be_read_that_was_killed_leaves_nothing_the_next_time(
    injector: Injector, stage: Stage, tmp_path: Path
) -> None:
    """K3: what is gathered lies beside the file then; takes root."""
    stage.prepare(_empty)
    earlier = listed(stage)
    aside = tmp_path / "aside"
    aside.mkdir()
    file, person = aside / "parcel.tar", aside / "parcel.tar.gathered-0123456789abcdef.folder"
    person.mkdir()
    (person / "theirs").write_text("x")
    left = set()

    with read_only(stage.store):
        for at in range(1, 12):
            order = {"workspace": str(stage.workspace), "store": str(stage.store), "file": str(file)}
            assert injector.run("export", order, roots=[aside], blow=Blow(at=at)).killed
            left.add(len(list(aside.iterdir())))
            with opened(stage) as workspace:
                assert workspace.export(file).checkpoints == earlier
            assert sorted(aside.iterdir()) == [file, person]
            file.unlink()
    assert max(left) > 1, "no kill left anything"
