"""Strangers and kills at any call of verbs in a workspace that watches itself, or that two processes look at.

The next save, which passes by what it knows by then, comes to what a scan comes to that knows nothing (S1;
decisions 063, 066, 069, 075), and nothing that a stranger wrote is lost (T12b). A stranger acts at calls that
only look, too: between these a scan can miss something.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from faults.injector import Blow, Injector, Mode, Trial
from faults.scenes import assert_found, assert_nothing_ours, opened, recover
from faults.stage import Stage
from faults.sweep import sweep, sweep_both_ways
from lastgood.objects.engine import GitEngine
from lastgood.scanner import cache, parallel, scan
from lastgood.workspace import Workspace
from tools.desk import Desk

pytestmark = pytest.mark.faults

FOLDERS = ("a", "b/deep", "still")
# What is unsaved when a verb begins; what it is told besides.
VERBS: Mapping[str, Mapping[str, object]] = {
    "restore": {"ref": "first", "edits": {"a/two": "unsaved", "top": "unsaved"}},
    "undo": {"edits": {"still/two": "unsaved"}},
    "save": {"edits": {"a/two": "unsaved", "b/deep/new": "unsaved"}},
}
# Does something in a folder, by some words if it writes.
Act = Callable[[Path, bytes], None]


def _scene(stage: Stage) -> None:
    for folder in FOLDERS:
        place = stage.workspace / folder
        place.mkdir(parents=True)
        for name in ("one", "two", "three"):
            (place / name).write_text(f"{name} in {folder}\n")
    (stage.workspace / "top").write_text("top\n")
    with opened(stage) as workspace:
        workspace.save("the first state", name="first")
        (stage.workspace / "a" / "one").write_text("other\n")
        (stage.workspace / "a" / "new").write_text("new\n")
        (stage.workspace / "b" / "deep" / "one").write_text("other\n")
        (stage.workspace / "b" / "deep" / "three").unlink()
        workspace.save("the second state", name="second")


def _edit(place: Path, words: bytes) -> None:
    with (place / "two").open("r+b") as file:
        file.write(words)


def _edit_by_rename(place: Path, words: bytes) -> None:
    (place / "one~").write_bytes(words)
    (place / "one~").rename(place / "one")


def _rename(place: Path, _words: bytes) -> None:
    (place / "one").rename(place / "theirs")


def _rename_over(place: Path, _words: bytes) -> None:
    (place / "one").rename(place / "two")


def _rename_and_back(place: Path, _words: bytes) -> None:
    (place / "one").rename(place / "theirs")
    (place / "theirs").rename(place / "one")


def _add(place: Path, words: bytes) -> None:
    (place / "theirs").write_bytes(words)


def _add_a_folder(place: Path, words: bytes) -> None:
    (place / "their").mkdir()
    (place / "their" / "file").write_bytes(words)


def _change_mode(place: Path, _words: bytes) -> None:
    (place / "one").chmod(0o600)


def _delete(place: Path, _words: bytes) -> None:
    (place / "one").unlink()


def _put_another_in_its_place(place: Path, words: bytes) -> None:
    place.rename(place.with_name("away"))
    place.mkdir()
    (place / "two").write_bytes(words)


ACTS = (
    _edit,
    _edit_by_rename,
    _rename,
    _rename_over,
    _rename_and_back,
    _add,
    _add_a_folder,
    _change_mode,
    _delete,
    _put_another_in_its_place,
)


class Stranger:
    """Does one thing in each folder, drawn by the number of the call at which it is done."""

    def __init__(self, stage: Stage, *, seed: str) -> None:
        self._root = stage.workspace
        self._seed = seed
        self.did = ""
        # What it wrote.
        self.words: set[bytes] = set()

    def __call__(self, at: int) -> None:
        chance = random.Random(f"{self._seed} {at}")
        acts = [(folder, chance.choice(ACTS)) for folder in FOLDERS]
        self.did = ", ".join(f"{act.__name__} in {folder}" for folder, act in acts)
        for folder, act in acts:
            with suppress(OSError):  # what is not there at this moment
                act(self._root / folder, b"these words of a stranger are in %s\n" % folder.encode())
        files = [path.read_bytes() for path in self._root.rglob("*") if path.is_file()]
        self.words = {one for one in files if one.startswith(b"these words")}


class Afresh:
    """Tells what a workspace has, by a scan that knows nothing."""

    def __init__(self, stage: Stage) -> None:
        folder = stage.folder / "afresh"
        folder.mkdir()
        temporary = folder / "tmp"
        temporary.mkdir()
        place = os.fsencode(folder / "objects.git")
        self._desk = Desk(folder, engine=GitEngine.create(place, temporary=os.fsencode(temporary)))
        self._desk.root = stage.workspace

    @property
    def root(self) -> str:
        tree = self._desk.scan().result.tree
        return f"{tree.tree.hex()} {tree.modes.hex()}"


@pytest.fixture
def afresh(stage: Stage) -> Afresh:
    stage.prepare(_scene, once=True)
    return Afresh(stage)


LOOKING = pytest.mark.parametrize("looking", ["watch", "two processes"])
OF_EACH = pytest.mark.parametrize("verb", VERBS)


@LOOKING
@OF_EACH
def test_what_a_stranger_does_at_any_call_is_in_the_next_save(
    injector: Injector, stage: Stage, afresh: Afresh, verb: str, looking: str
) -> None:
    stranger = Stranger(stage, seed=verb)
    looked: set[str] = set()

    def check(trial: Trial, where: str) -> None:
        where = f"{where}, {stranger.did}"
        assert trial.status == 0, f"{where}: {trial.lines}"
        assert trial.said("next") == afresh.root, f"{where}: {trial.lines}"
        looked.add("watch" if trial.said("watching") == "True" else "one process")
        if trial.said("forked") != "0":
            looked.add("two processes")
        assert_found(stage, stranger.words if trial.reached else set(), trial, where)
        assert_nothing_ours(stage, where)

    sweep(
        injector,
        stage,
        verb,
        {**VERBS[verb], "looking": looking},
        blow=Blow(mode=Mode.PAUSE, looks=True),
        check=check,
        points=16,
        meanwhile=stranger,
    )
    # Not in each trial: a conflict may be told before any look, and beside a thread no process forks.
    assert looking in looked


@LOOKING
@OF_EACH
def test_what_a_kill_at_any_call_leaves_is_in_the_next_save_after_a_recovery(
    injector: Injector,
    stage: Stage,
    afresh: Afresh,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    looking: str,
) -> None:
    """And so is what a stranger does then."""
    monkeypatch.setattr(scan, "_SEVERAL_DIRECTORIES", 0)
    if looking == "two processes":
        monkeypatch.setattr(cache, "WORTHWHILE_FILES", 1)
        monkeypatch.setattr(parallel, "RESIDENT_BYTES_A_FILE", 1 << 40)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    stranger = Stranger(stage, seed=verb)
    recovered = count()

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("next"), f"{where}: {trial.lines}"
        with opened(stage, watch=looking == "watch") as workspace:
            recover(workspace, roll_back=roll_back)
            assert _saved(workspace) == afresh.root, where
            stranger(next(recovered))
            assert _saved(workspace) == afresh.root, f"{where}, {stranger.did}"

    parameters = {**VERBS[verb], "looking": looking}
    sweep_both_ways(injector, stage, verb, parameters, blow=Blow(), check=check, points=8)


def _saved(workspace: Workspace) -> str:
    root = workspace.save().checkpoint.manifest.root
    return f"{root.tree} {root.modes}"
