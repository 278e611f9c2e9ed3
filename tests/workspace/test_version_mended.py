"""A store whose catalogue says another version by damage is mended by `verify --repair` (K4)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lastgood.catalogue.database import CURRENT
from tools.command import Command


@pytest.fixture
def kept(project: Path, store: Path) -> Command:
    """Return the command in a project with a checkpoint and a session."""
    command = Command(project, store)
    (project / "a.txt").write_text("first\n", encoding="utf-8")
    command("save", "the first", "--name", "one")
    command("session", "start", "--goal", "all of it")
    return command


def number(store: Path, *, written: int | None = None) -> int:
    with closing(sqlite3.connect(store / "catalogue.sqlite3", isolation_level=None)) as connection:
        if written is not None:
            connection.execute(f"PRAGMA user_version = {written}")
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize("damaged", [CURRENT.version + 1, 1 << 24, -(1 << 31) + 4, 2, 0])
def test_a_repair_gives_the_catalogue_its_version_again(kept: Command, store: Path, damaged: int) -> None:
    before = kept("list", "--json").json, kept("session", "list", "--json").json
    number(store, written=damaged)
    refused = kept("list", expect=None)
    assert refused.code == (17 if damaged > CURRENT.version else 16)
    assert "lastgood verify --repair" in refused.err

    assert f"set from {damaged} to {CURRENT.version}" in kept("verify", "--repair").out

    assert (kept("list", "--json").json, kept("session", "list", "--json").json) == before
    assert number(store) == CURRENT.version
    assert not (store / "damaged").exists()
    kept("verify", "--deep")


def test_a_repair_leaves_the_store_of_a_newer_lastgood_alone(kept: Command, store: Path) -> None:
    with closing(sqlite3.connect(store / "catalogue.sqlite3", isolation_level=None)) as connection:
        connection.execute(f"UPDATE meta SET value = {CURRENT.version + 1} WHERE name = 'version'")
    number(store, written=CURRENT.version + 1)
    before = (store / "catalogue.sqlite3").read_bytes()
    (store / "format").write_text("torn")

    refused = kept("verify", "--repair", expect=17)

    assert "does not prove that its version is damaged" in refused.err
    assert "use the newer lastgood" in refused.err
    assert (store / "catalogue.sqlite3").read_bytes() == before
    assert (store / "format").read_text() == "torn"
    number(store, written=CURRENT.version)
