"""What only asks, or needs what is there already, makes no store where none is (a mistyped ``--store``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.command import Command

ANSWERED = (
    ("list",),
    ("list", "--all-workspaces"),
    ("list", "--json"),
    ("status",),
    ("verify",),
    ("verify", "--deep"),
    ("doctor",),
    ("config",),
    ("report",),
    ("progress",),
    ("session", "list"),
    ("workspace", "list"),
    ("undo", "--list"),
    ("recover",),
    ("blame", "a.txt"),
    ("prune", "--dry-run"),
    ("prune", "--yes"),
)
NOT_FOUND = (
    ("show", "@"),
    ("show", "one", "--files"),
    ("diff",),
    ("diff", "@~1", "@"),
    ("verify", "@"),
    ("restore", "@", "--yes"),
    ("rewind", "--yes"),
    ("undo",),
    ("redo",),
    ("delete", "@"),
    ("pin", "@"),
    ("name", "@", "one"),
    ("check", "@", "--", "true"),
    ("session", "show"),
    ("session", "end"),
    ("workspace", "forget", ".", "--yes"),
    ("workspace", "attach", "."),
    ("export", "out.lastgood"),
    ("export", "out.lastgood", "@"),
    ("maintain",),
    ("verify", "--repair"),
    ("import", "nothing.lastgood"),
    ("import", "nothing.lastgood", "--attach"),
    ("run", "nothing.yaml"),
    ("run", "--review", "--", "true"),
    ("run", "--continue", "--", "true"),
)
NOTHING_BEGUN = (
    ("task", "done", "T01"),
    ("task", "fail", "T01"),
    ("feature", "done", "login"),
    ("sprint", "done", "S1"),
)
OF_A_SESSION = (
    ("task", "start", "T01"),
    ("task", "skip", "T01"),
    ("feature", "start", "login"),
    ("sprint", "start", "S1"),
    ("progress", "set", "--goal", "all"),
)
NAMING_THE_STORE = (
    ("export", "out.lastgood"),
    ("maintain",),
    ("workspace", "attach", "."),
    ("verify", "--repair"),
)


def seen(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.fixture
def absent(lastgood: Command, store: Path) -> Iterator[Command]:
    """Return the command where there is no store; in the end there is none, and nothing else has come."""
    (lastgood.project / "a.txt").write_text("a\n", encoding="utf-8")
    before = seen(store.parent), seen(lastgood.project)
    yield lastgood
    assert (seen(store.parent), seen(lastgood.project)) == before
    assert not store.exists()


@pytest.mark.parametrize("words", ANSWERED, ids=" ".join)
def test_a_question_to_a_store_that_is_not_there_makes_none(absent: Command, words: tuple[str, ...]) -> None:
    absent(*words)


@pytest.mark.parametrize("words", NOT_FOUND, ids=" ".join)
def test_what_needs_a_checkpoint_finds_none_and_makes_no_store(
    absent: Command, words: tuple[str, ...]
) -> None:
    absent(*words, expect=10)


@pytest.mark.parametrize("words", NOTHING_BEGUN, ids=" ".join)
def test_what_ends_something_finds_nothing_begun_and_makes_no_store(
    absent: Command, words: tuple[str, ...]
) -> None:
    assert "start it first" in absent(*words, expect=13).err


@pytest.mark.parametrize("words", OF_A_SESSION, ids=" ".join)
def test_what_belongs_to_a_session_that_nobody_knows_makes_no_store(
    absent: Command, words: tuple[str, ...]
) -> None:
    done = absent(*words, env={"LASTGOOD_SESSION": "sess_0123456789abcdef"}, expect=10)
    assert "sess_0123456789abcdef" in done.err


@pytest.mark.parametrize("words", NAMING_THE_STORE, ids=" ".join)
def test_what_is_about_a_store_that_is_not_there_names_it(
    lastgood: Command, store: Path, words: tuple[str, ...]
) -> None:
    done = lastgood(*words, expect=10)
    assert f"there is no store at {store}" in done.err
    assert "--store" in done.err


def test_maintenance_does_not_take_up_a_store_in_the_making(lastgood: Command, store: Path) -> None:
    (store / "locks").mkdir(mode=0o700, parents=True)
    lastgood("maintain", expect=10)
    assert seen(store) == ["locks"]


def test_an_empty_folder_named_as_store_stays_empty(lastgood: Command, store: Path) -> None:
    store.mkdir(mode=0o755, parents=True)
    assert lastgood("list", "--json").json["checkpoints"] == []
    assert seen(store) == []
    assert store.stat().st_mode & 0o777 == 0o755


def test_a_store_in_the_making_is_left_to_whoever_makes_it(lastgood: Command, store: Path) -> None:
    (store / "locks").mkdir(mode=0o700, parents=True)
    lastgood("status")
    assert seen(store) == ["locks"]


def test_a_folder_of_other_things_is_refused_by_a_question_too(lastgood: Command, store: Path) -> None:
    store.mkdir(parents=True)
    (store / "mine.txt").write_text("mine\n", encoding="utf-8")
    assert "is not empty and no store of lastgood" in lastgood("list", expect=15).err


def test_a_place_where_everybody_may_write_is_refused_by_a_question_too(
    lastgood: Command, store: Path
) -> None:
    """Rule S18."""
    store.parent.mkdir(exist_ok=True, parents=True)
    store.parent.chmod(0o777)
    assert "everybody may write" in lastgood("list", expect=15).err


def test_the_doctor_says_that_there_is_no_store_yet(lastgood: Command) -> None:
    findings = {one["code"]: one["state"] for one in lastgood("doctor", "--json").json["findings"]}
    assert findings["no-store"] == "note"


def test_status_names_the_store_that_is_not_there(lastgood: Command, store: Path) -> None:
    assert lastgood("status", "--json").json["store"] == str(store)


def test_a_list_in_a_folder_without_checkpoints_writes_nothing(kept: Command, store: Path) -> None:
    other = kept.project.parent / "other"
    other.mkdir()
    before = {path: sorted(names) for path, _, names in os.walk(store)}
    kept("-C", str(other), "list")
    assert {path: sorted(names) for path, _, names in os.walk(store)} == before


def test_the_first_save_makes_the_store_that_a_list_did_not(lastgood: Command, store: Path) -> None:
    (lastgood.project / "a.txt").write_text("a\n", encoding="utf-8")
    lastgood("list")
    lastgood("save", "--name", "one")
    assert "one" in lastgood("list").out
    assert store.is_dir()
