"""Generated histories of long progress, restored, undone and recovered, beside plain copies (P8a, T7, T8)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import lastgood
from lastgood.errors import Conflict
from lastgood.model import long_list
from lastgood.model.session import Features, Progress
from tools.forks import die_before, ended, forked
from tools.long_form import LONG, examples
from tools.values import not_none

# Some of these names make no long list, and some do.
MOST = 60
NUMBERS = st.integers(0, MOST - 1)
# Before one of these a process is killed; there are more of them in a restore than it gets to.
EVENTS = ("open", "os.rename", "os.remove")
MEMORY = Path("/dev/shm")


class State(NamedTuple):
    """Everything that a restore changes, as plain values."""

    text: str
    progress: Progress


def plain(progress: Progress) -> Progress:
    """Return progress of which nothing is in parts."""
    completed = tuple(progress.features.completed)
    return progress.replace(
        tasks=tuple(progress.tasks), features=Features(current=progress.features.current, completed=completed)
    )


class ProgressHistories(RuleBasedStateMachine):
    """Does what people do to progress; what it should be then stands in plain copies."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        (self.folder / "project").mkdir()
        self.file = self.folder / "project" / "file"
        self.file.write_text("0")
        project, store = self.folder / "project", self.folder / "store"
        self.workspace = lastgood.open(project, store=store, maintenance="off", allow_root=True)
        self.saved: list[tuple[str, State]] = []
        self.done: list[tuple[State, State]] = []
        self.undone: list[tuple[State, State]] = []
        self.number = 0
        for number in range(20):
            self.workspace.task_skip(f"T{number:03}")
        self.save()

    def seen(self) -> State:
        long_list.forget()
        return State(self.file.read_text(), plain(self.workspace.progress()))

    def changed(self) -> None:
        """From here on a plain undo would be refused, and nothing can be done again."""
        self.done, self.undone = [], []

    @rule(number=NUMBERS)
    def do_a_task(self, number: int) -> None:
        self.workspace.task_start(f"T{number:03}")
        self.file.write_text(str(self.number))
        made = not_none(self.workspace.task_done(f"T{number:03}").saved).checkpoint
        self.changed()
        self.saved.append((made.id, self.seen()))

    @rule(number=NUMBERS)
    def leave_a_task_running(self, number: int) -> None:
        self.workspace.task_start(f"T{number:03}")
        self.changed()

    @rule(first=NUMBERS, many=st.integers(1, 20))
    def skip_tasks(self, first: int, many: int) -> None:
        for number in range(first, min(first + many, MOST)):
            self.workspace.task_start(f"T{number:03}")
            self.workspace.task_skip(f"T{number:03}")
        self.changed()

    @rule(first=NUMBERS, many=st.integers(1, 20))
    def complete_features(self, first: int, many: int) -> None:
        for number in range(first, first + many):
            self.workspace.feature_start(f"F{number:03}")
            self.workspace.feature_done(f"F{number:03}")
        self.changed()

    @rule(step=st.integers(1, 9))
    def go_on(self, step: int) -> None:
        self.workspace.progress_set(step=step)
        self.changed()

    @rule()
    def edit(self) -> None:
        self.number += 1
        self.file.write_text(str(self.number))
        self.changed()

    @rule()
    def save(self) -> None:
        made = self.workspace.save("saved", allow_empty=True).checkpoint
        self.saved.append((made.id, self.seen()))

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), alone=st.booleans())
    def restore(self, data: st.DataObject, *, alone: bool) -> None:
        id, wanted = data.draw(st.sampled_from(self.saved))
        before = self.seen()
        long_list.forget()
        report = self.workspace.restore(id, only=["progress"] if alone else None, force=True)
        after = State(before.text if alone else wanted.text, wanted.progress)
        assert self.seen() == after
        if not report.planned.empty:
            self.done.append((before, after))
            self.undone = []
        elif report.operation is not None:  # it only stands elsewhere, and an undo of that changes nothing
            self.changed()

    @precondition(lambda self: self.done)
    @rule()
    def undo(self) -> None:
        before, after = self.done.pop()
        self.workspace.undo()
        assert self.seen() == before
        self.undone.append((before, after))

    @precondition(lambda self: self.undone)
    @rule()
    def redo(self) -> None:
        before, after = self.undone.pop()
        self.workspace.redo()
        assert self.seen() == after
        self.done.append((before, after))

    @precondition(lambda self: self.done)
    @rule(number=NUMBERS)
    def undo_over_a_change(self, number: int) -> None:
        """T8: refused, and forced exact all the same, with a guard of what goes."""
        before, _ = self.done.pop()
        self.workspace.task_start(f"T{number:03}")
        present = self.seen()
        try:
            self.workspace.undo()
        except Conflict:
            assert self.seen() == present
            self.workspace.undo(force=True)
            assert self.seen() == before
        self.changed()

    @precondition(lambda self: self.saved)
    @rule(data=st.data(), at=st.integers(0, 120), roll_back=st.booleans())
    def die_in_a_restore(self, data: st.DataObject, at: int, *, roll_back: bool) -> None:
        """T7: finished, or taken back, by somebody who has seen nothing of it."""
        id, after = data.draw(st.sampled_from(self.saved))
        before = self.seen()

        def restore() -> None:
            die_before(*EVENTS, at=at)
            self.workspace.restore(id, force=True)

        if not ended(forked(restore)):
            assert self.seen() == after
        elif self.workspace.status().state == "interrupted":
            long_list.forget()
            self.workspace.recover(roll_back=roll_back)
            assert self.seen() == (before if roll_back else after)
            if not roll_back and before != after:
                self.workspace.undo()
                assert self.seen() == before
        else:
            assert self.seen() in (before, after)
        self.changed()

    @rule()
    def let_go_what_nobody_needs(self) -> None:
        """K1, K3: what operations need stays, and its bytes with it."""
        self.workspace.prune(keep=2, now=True)
        known = {one.id for one in self.workspace.list()}
        self.saved = [(id, state) for id, state in self.saved if id in known]

    def teardown(self) -> None:
        try:
            assert self.workspace.verify(deep=True).ok
        finally:
            self.workspace.close()
            shutil.rmtree(self.folder)


def test_no_history_of_progress_comes_back_otherwise() -> None:
    """P8a, T7, T8, T11."""
    chosen = settings(
        max_examples=examples(short=12, long=500),
        stateful_step_count=25,
        deadline=None,
        database=None,
        derandomize=not LONG,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(ProgressHistories, settings=chosen)
