"""Where a workspace stands: `@`, whatever was done in whatever order (rule T15)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lastgood
from lastgood.errors import NotFound
from lastgood.testing.clock import FakeClock

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
]
HISTORIES = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 6)), min_size=6, max_size=16)


class Oracle:
    """What `@` is, told from the rule alone."""

    def __init__(self) -> None:
        self.place = ""
        self.before: dict[str, str] = {}
        self.gone: set[str] = set()

    def line(self, start: str | None = None) -> list[str]:
        place, found = self.place if start is None else start, []
        while place:
            found += [place] if place not in self.gone else []
            place = self.before[place]
        left = [one for one in self.before if one not in self.gone]
        return found if found or not left or start is not None else self.line(left[-1])

    def save(self, id: str) -> None:
        self.before[id] = next(iter(self.line()), "")
        self.place = id


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
        self.oracle.save(made.id)

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
        was = self.oracle.place
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
    with history.workspace:
        for word, number in steps:
            history.do(word, number)
            history.judge()
        # Once the rows of what was deleted are dropped, the way back leads past them.
        history.clock.advance(2 * DAY)
        history.workspace.maintain()
        listed = {one.id for one in history.workspace.list()}
        history.oracle.gone |= history.oracle.before.keys() - listed
        history.judge()
