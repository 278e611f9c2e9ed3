"""Where a workspace stands: `@`, whatever was done in whatever order (rule T15)."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lastgood
from lastgood.errors import NotFound
from lastgood.testing.clock import FakeClock
from tools.harm import packs_of
from tools.unlocked import writers

Line = list[tuple[str, tuple[str, ...]]]

DAY = 24 * 3600
WORDS = [
    "save",
    "save with a gap",
    "restore",
    "restore",
    "restore a path",
    "restore progress",
    "restore aside",
    "merge",
    "undo",
    "redo",
    "delete",
    "prune",
    "import",
    "rebuild",
]
HISTORIES = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 6)), min_size=6, max_size=16)


class Oracle:
    """What `@` is, told from the rule alone."""

    def __init__(self) -> None:
        self.place = ""
        self.before: dict[str, str] = {}
        self.files: dict[str, dict[str, str]] = {}
        self.gone: set[str] = set()

    def line(self, start: str | None = None) -> list[str]:
        place, found = self.place if start is None else start, []
        while place:
            found += [place] if place not in self.gone else []
            place = self.before[place]
        left = [one for one in self.before if one not in self.gone]
        return found if found or not left or start is not None else self.line(left[-1])

    def save(self, id: str, files: dict[str, str]) -> None:
        self.before[id] = next(iter(self.line()), "")
        self.files[id] = files
        self.place = id

    def rebuild(self, files: dict[str, str]) -> None:
        alike = [one for one in self.before if one not in self.gone and self.files[one] == files]
        self.place = next(reversed(alike), "")


class History:
    """A workspace beside the oracle; each word is one thing that somebody does."""

    def __init__(self, folder: Path) -> None:
        self.project, self.folder = folder / "project", folder
        self.project.mkdir()
        self.clock = FakeClock()
        self.workspace = lastgood.open(
            self.project, store=folder / "store", clock=self.clock, maintenance="off"
        )
        self.oracle = Oracle()
        self.number = 0
        self.stack: Line = []
        self.back: Line = []
        self.save()

    def save(self) -> None:
        self.number += 1
        self.clock.advance(1)
        (self.project / "file").write_text(str(self.number))
        (self.project / f"own {self.number % 3}").write_text(str(self.number))
        self.workspace.progress_set(step=self.number)
        made = self.workspace.save(str(self.number)).checkpoint
        assert made.previous == (next(iter(self.oracle.line()), "") or None)
        self.oracle.save(made.id, self.files())

    def files(self) -> dict[str, str]:
        return {one.name: one.read_text() for one in self.project.iterdir()}

    def rebuild(self) -> None:
        """Lose the catalogue, but for a backup of just before."""
        store = self.folder / "store"
        writers(self.workspace._context).catalogue.back_up()
        self.workspace.close()
        for name in ("catalogue.sqlite3", "catalogue.sqlite3-wal", "catalogue.sqlite3-shm"):
            (store / name).unlink(missing_ok=True)
        self.workspace = lastgood.open(
            self.project, store=store, clock=self.clock, maintenance="off", repair=True
        )
        self.workspace.verify(repair=True)
        self.oracle.rebuild(self.files())

    def did(self, what: str, how: tuple[str, ...]) -> None:
        self.stack.append((what, how))
        self.back.clear()

    def pick(self, number: int) -> str | None:
        left = [one for one in self.oracle.before if one not in self.oracle.gone]
        return left[number % len(left)] if left else None

    def do(self, word: str, number: int) -> None:
        target = self.pick(number)
        if word == "save":
            self.save()
        elif word == "save with a gap":
            (self.project / "file").write_text(f"budget {self.number}")
            assert self.workspace.save("short", budget=0.0).checkpoint.partial
        elif word == "rebuild":
            self.rebuild()
        elif word == "undo":
            self.undo(self.stack, self.back, self.workspace.undo, back=True)
        elif word == "redo":
            self.undo(self.back, self.stack, self.workspace.redo, back=False)
        elif target is not None:
            {
                "restore": self.restore,
                "restore a path": lambda target: self.partly(target, paths=["file"]),
                "restore progress": lambda target: self.partly(target, only=["progress"]),
                "merge": lambda target: self.partly(target, merge=True, conflict="ours"),
                "restore aside": self.aside,
                "delete": self.delete,
                "prune": lambda _: self.prune(number + 1),
                "import": self.bring,
            }[word](target)

    def restore(self, id: str) -> None:
        was = self.oracle.place or next(iter(self.oracle.line()), "")
        if self.workspace.restore(id).operation is not None:
            self.did("moved", (was or id, id))
            self.oracle.place = id
        else:
            assert id == was

    def partly(self, id: str, **how: object) -> None:
        if self.workspace.restore(id, **how).operation is not None:  # type: ignore[arg-type]
            self.did("stayed", ())

    def aside(self, id: str) -> None:
        with TemporaryDirectory(dir=self.folder) as place:
            self.workspace.restore(id, to=Path(place) / "new")

    def delete(self, id: str) -> None:
        self.workspace.delete(id)
        self.oracle.gone.add(id)
        self.did("deleted", (id,))

    def prune(self, keep: int) -> None:
        here = self.oracle.line()[0]
        report = self.workspace.prune(keep=keep)
        assert here not in [one.id for one in report.remove]
        going = {one.id for one in report.remove} & self.oracle.before.keys()
        self.oracle.gone |= going
        if report.operation is not None:
            self.did("deleted", tuple(going))

    def bring(self, id: str) -> None:
        """Take an older checkpoint out and in again: the newest here was made before it came."""
        file = self.folder / f"export {self.number} {len(list(self.folder.iterdir()))}"
        self.workspace.export(file, id)
        self.workspace.import_file(file)

    def undo(self, line: Line, onto: Line, verb: Callable[..., object], *, back: bool) -> None:
        if not line:
            with pytest.raises(NotFound):
                verb(force=True)
            return
        what, how = line.pop()
        onto.append((what, how))
        verb(force=True)
        if what == "moved":
            self.oracle.place = how[0 if back else 1]
        elif what == "deleted":
            self.oracle.gone = self.oracle.gone - set(how) if back else self.oracle.gone | set(how)

    def judge(self) -> None:
        line = self.oracle.line()
        found = [one.id for one in self.workspace._view.history()]
        assert found == line
        assert self.workspace.stands_at() == (line[0] if line else None)
        for number, id in enumerate(line[:4]):
            assert self.workspace.get(f"@~{number}").id == id
        for form in () if line else ("@", "@~1", "latest"):
            with pytest.raises(NotFound):
                self.workspace.get(form)


@settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=[Phase.generate],
)
@given(steps=HISTORIES)
def test_the_workspace_stands_where_the_rule_says_after_any_history(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """T15, K1, T8."""
    history = History(tmp_path_factory.mktemp("standing"))
    try:
        for word, number in steps:
            history.do(word, number)
            history.judge()
        # Once the rows of what was deleted are dropped, the way back leads past them.
        history.clock.advance(2 * DAY)
        history.workspace.maintain()
        listed = {one.id for one in history.workspace.list()}
        history.oracle.gone |= history.oracle.before.keys() - listed
        history.judge()
    finally:
        history.workspace.close()


def lose_catalogue(store: Path) -> None:
    """Delete the catalogue with its log and its backups."""
    for file in store.glob("catalogue.sqlite3*"):
        file.unlink()


@pytest.fixture
def went_back(project: Path, store: Path) -> tuple[str, str]:
    """Save twice, go back to the first, and return both."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        (project / "file").write_text("one")
        first = workspace.save("first").checkpoint.id
        (project / "file").write_text("two")
        second = workspace.save("second").checkpoint.id
        workspace.restore(first)
    return first, second


def repaired(project: Path, store: Path) -> tuple[str, ...]:
    with lastgood.open(project, store=store, maintenance="off", repair=True) as workspace:
        return tuple(str(line) for line in workspace.verify(repair=True).repaired)


def test_a_workspace_whose_catalogue_was_lost_stands_at_the_checkpoint_whose_files_it_has(
    project: Path, store: Path, went_back: tuple[str, str]
) -> None:
    """T15, K4: a restore is recorded in the catalogue alone; the repair says what it found."""
    lose_catalogue(store)

    told = repaired(project, store)

    assert f"the workspace stands at {went_back[0][:13]}, whose files it has" in told
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert workspace.stands_at() == went_back[0]
        assert workspace.status().health == ()


def test_a_workspace_whose_place_is_not_known_says_so_until_the_next_save(
    project: Path, store: Path, went_back: tuple[str, str]
) -> None:
    """T15: it counts as standing at the newest; the repair says so once, `status` as long as it is so."""
    (project / "file").write_text("edited since")
    lose_catalogue(store)

    assert f"where {project} stands was lost: its newest checkpoint counts" in repaired(project, store)
    assert not repaired(project, store)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert workspace.stands_at() == went_back[1]
        assert [note.code for note in workspace.status().health] == ["place-lost"]

        saved = workspace.save("now").checkpoint

        assert saved.previous == went_back[1]
        assert workspace.status().health == ()


def test_another_workspace_of_a_rebuilt_catalogue_finds_its_own_place(
    project: Path, store: Path, went_back: tuple[str, str], tmp_path: Path
) -> None:
    """T15: a repair reads the files of the workspace at hand alone."""
    other = tmp_path / "other"
    other.mkdir()
    with lastgood.open(other, store=store, maintenance="off") as workspace:
        workspace.save("empty", allow_empty=True)
    lose_catalogue(store)
    repaired(other, store)

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert [note.code for note in workspace.status().health] == ["place-lost"]
        workspace.verify(repair=True)
        assert workspace.stands_at() == went_back[0]


def test_a_workspace_whose_row_alone_was_altered_finds_its_place(
    project: Path, store: Path, went_back: tuple[str, str]
) -> None:
    """T15, K4."""
    with sqlite3.connect(store / "catalogue.sqlite3") as altered:
        altered.execute("UPDATE workspace SET at = NULL")

    repaired(project, store)

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert workspace.stands_at() == went_back[0]


def test_a_workspace_whose_place_and_all_before_it_are_deleted_says_so(
    project: Path, store: Path, went_back: tuple[str, str]
) -> None:
    """T15: the newest counts, and undoing the deletion leads back."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.delete(went_back[0])

        assert workspace.stands_at() == went_back[1]
        assert [note.code for note in workspace.status().health] == ["place-deleted"]

        workspace.undo()

        assert workspace.stands_at() == went_back[0]
        assert workspace.status().health == ()


def test_where_every_checkpoint_is_deleted_that_is_what_every_verb_says(
    project: Path, store: Path, went_back: tuple[str, str]
) -> None:
    """T15: not that there is none yet; and what brings them back."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.delete(*went_back)
        asked: list[Callable[[], object]] = [workspace.rewind, workspace.diff]
        asked += [partial(workspace.get, ref) for ref in ("@", "@~1", "latest", went_back[0][5:11])]
        for ask in asked:
            with pytest.raises(NotFound, match="every checkpoint of this workspace is deleted") as caught:
                ask()
            assert "lastgood undo" in caught.value.hint
        assert [note.code for note in workspace.status().health] == ["place-deleted"]


def test_what_is_before_the_beginning_is_told_by_how_much_there_is(
    project: Path, store: Path, went_back: tuple[str, str]
) -> None:
    """T15."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.restore(went_back[1])
        with pytest.raises(NotFound, match="there is no '@~7': before `@` there is 1 checkpoint"):
            workspace.get("@~7")
        workspace.delete(went_back[0])
        with pytest.raises(NotFound, match="there is no '@~1': before `@` there is none"):
            workspace.get("@~1")


def test_unchanged_is_said_only_of_what_can_be_read(
    project: Path, store: Path, went_back: tuple[str, str]
) -> None:
    """S10, S14: what counts is where the workspace stands, not the newest; what is lost is stored anew."""
    time.sleep(0.1)  # so that the scan cache knows the file for certain
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert workspace.save().unchanged_since == went_back[0]
        commit = bytes.fromhex(workspace.get(went_back[0]).commit)
    (first,) = (index for index in packs_of(store, ".idx") if commit in index.read_bytes())
    for part in first.parent.glob(f"{first.stem}.*"):
        part.unlink()
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        saved = workspace.save().checkpoint

        assert workspace.verify(saved.id, deep=True).damaged == ()
