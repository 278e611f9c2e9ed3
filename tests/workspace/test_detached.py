"""Maintenance in a process of its own goes by the settings of whoever started it (rules K1, K7)."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lastgood
from lastgood.model.checkpoint import KINDS
from lastgood.settings import PACKS_WHEN_IDLE, CaptureSettings, LimitSettings, Rungs, Settings
from lastgood.workspace import AutoMaintenance, Workspace, maintenance
from lastgood.workspace.maintenance import decode_settings, encode_settings
from tools.command import Command
from tools.harm import packs_of
from tools.living import eventually, until_tidied
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.literals import Durability

FEW = 3
# After so many checkpoints it is asked whether there are too many.
MANY = 8


def fill(workspace: Workspace) -> None:
    for number in range(MANY):
        workspace.save(str(number), allow_empty=True)


def tidied(child: int | None) -> None:
    """Wait for maintenance that was started, and see that it ended well."""
    assert child is not None
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def configured(text: str) -> None:
    """Write the user's own file."""
    folder = Path(os.environ["HOME"]) / ".config" / "lastgood"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(text)


def test_settings_of_a_program_count_for_its_maintenance(
    project: Path, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lastgood")
    settings = Settings(limits=LimitSettings(max_checkpoints=FEW))
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        fill(workspace)
        upkeep = AutoMaintenance("background")
        upkeep.after_save(workspace._context)
        assert caplog.messages[-1] == f"maintenance of {store} started, process {upkeep._child}"
        tidied(upkeep._child)
        assert len(workspace.list()) <= FEW


def test_a_few_packs_are_joined_while_nobody_works(project: Path, store: Path) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        for number in range(PACKS_WHEN_IDLE):
            (project / "file").write_text(str(number))
            workspace.save(str(number))
        upkeep = AutoMaintenance("background")
        upkeep.when_idle(workspace._context)
        tidied(upkeep._child)
        assert len(packs_of(store)) == 1


def test_settings_of_a_program_stand_in_the_place_of_the_user_s_file(project: Path, store: Path) -> None:
    """As they do for everything else: nothing is let go that the program wants kept."""
    configured(f"[retention]\nmax_checkpoints = {FEW}\nmanual = {{last = 1, hourly = 0, daily = 0}}\n")
    with lastgood.open(project, store=store, maintenance="off", settings=Settings()) as workspace:
        fill(workspace)
        tidied(maintenance.start(str(project), str(store), packs=1, settings=workspace.settings))
        assert len(workspace.list()) == MANY


def test_the_ledger_is_backed_up_wherever_its_witness_is_kept(
    project: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LASTGOOD_WITNESS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "kept"))
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("one")
        workspace.ledger("turns").change(lambda writer: writer.put("book", "key", head=1, body=2))
        tidied(maintenance.start(str(project), str(store), packs=1, settings=workspace.settings))
    assert (store / "ledger.backup.sqlite3.gz").exists()
    assert not (Path(os.environ["HOME"]) / ".local" / "share" / "lastgood-witness").exists()


def test_the_user_s_file_counts_where_nothing_else_is_said(project: Path, store: Path) -> None:
    configured(f"[retention]\nmax_checkpoints = {FEW}\n")
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        fill(workspace)
        upkeep = AutoMaintenance("background")
        upkeep.after_save(workspace._context)
        tidied(upkeep._child)
        assert len(workspace.list()) <= FEW


def test_settings_of_the_command_line_count_for_its_maintenance(project: Path, store: Path) -> None:
    command = Command(project, store)
    for number in range(MANY):
        few = f"retention.max_checkpoints={FEW}"
        command("--set", few, "save", str(number), "--allow-empty", env={"LASTGOOD_MAINTENANCE": ""})

    def few_left() -> bool:
        return len(command("list", "--json").json["checkpoints"]) <= FEW

    assert eventually(few_left), "no maintenance went by what --set said"
    until_tidied(store)


def test_a_project_s_file_that_is_broken_does_not_keep_the_store_from_being_tidied(
    project: Path, store: Path
) -> None:
    """K7: it has no say in it."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        fill(workspace)
        (project / ".lastgood.toml").write_text("no TOML")
        settings = Settings(limits=LimitSettings(max_checkpoints=FEW))
        tidied(maintenance.start(str(project), str(store), packs=1, settings=settings))
        assert len(workspace.list()) <= FEW


def test_maintenance_of_a_store_that_is_gone_makes_none(project: Path, store: Path, tmp_path: Path) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        fill(workspace)
    gone = tmp_path / "gone"
    (gone / "locks").mkdir(parents=True)
    child = not_none(maintenance.start(str(project), str(gone), packs=1, settings=Settings()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert sorted(os.listdir(gone)) == ["locks"]


numbers = st.integers(0, 1 << 40)


@given(
    limits=st.builds(LimitSettings, max_checkpoints=numbers, max_store_size=numbers),
    retention=st.dictionaries(
        st.sampled_from(KINDS), st.builds(Rungs, last=numbers, hourly=numbers, daily=numbers)
    ),
    durability=st.sampled_from(["full", "fast"]),
    expires=st.floats(0, 1e9) | st.just(float("inf")),
)
def test_what_is_handed_over_arrives_as_it_was(
    limits: LimitSettings, retention: dict[str, Rungs], durability: Durability, expires: float
) -> None:
    settings = Settings(
        limits=limits, retention=retention, durability=durability, session_expires_after=expires
    )
    assert decode_settings(encode_settings(settings)) == settings


def test_patterns_are_not_handed_over() -> None:
    assert "secret-plans" not in encode_settings(Settings(capture=CaptureSettings(exclude=("secret-plans",))))
