"""The progress of thousands of tasks: what is known of it is neither written nor read anew (P2)."""

from __future__ import annotations

import gc
import json
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import tasks as rules
from lastgood.catalogue import WorkspaceRow
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.errors import Damaged
from lastgood.ids import checkpoint_id
from lastgood.model.checkpoint import Actor, IgnoreState, Manifest, Metrics, TreeRef, decode, encode
from lastgood.model.session import Features, Position, Progress, Task, decode_progress, encode_progress
from lastgood.model.tree import Counts
from lastgood.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "aa" * 10
TASKS = st.lists(
    st.builds(
        lambda name, state, attempts, at: Task(id=name, state=state, attempts=attempts, started_at=at),
        st.text(min_size=1, max_size=3),
        st.sampled_from(["pending", "running", "done"]),
        st.integers(min_value=0, max_value=2),
        st.none() | st.integers(min_value=0, max_value=9),
    ),
    max_size=5,
).map(tuple)
PROGRESS = st.builds(
    lambda goal, tasks, artifacts, completed: Progress(
        goal=goal,
        position=Position(artifacts=artifacts),
        tasks=tasks,
        features=Features(completed=completed),
    ),
    st.none() | st.text(max_size=3),
    TASKS,
    st.lists(st.binary(min_size=1, max_size=3), max_size=2).map(tuple),
    st.lists(st.text(min_size=1, max_size=2), max_size=2).map(tuple),
)


def manifest(progress: Progress) -> Manifest:
    return Manifest(
        id=checkpoint_id(b"12345678"),
        workspace="/home/a",
        workspace_key=KEY,
        kind="task",
        message="m",
        name=None,
        created_at=1,
        sequence=1,
        previous=None,
        root=TreeRef(tree="aa" * 20, modes="bb" * 20),
        changes=Counts(),
        files=0,
        size=0,
        ignored=0,
        gaps=(),
        partial=False,
        private=(),
        forced=(),
        git=None,
        metadata={},
        actor=Actor(),
        ignore=IgnoreState(),
        metrics=Metrics(save_ms=1.5, stored_bytes=1),
        progress=progress,
    )


def plain(progress: Progress) -> object:
    """Return what the text of a progress has to say, told by nothing that writes it."""
    return json.loads(
        json.dumps(
            {
                "version": 1,
                "goal": progress.goal,
                "position": {
                    **progress.position.as_dict(),
                    "artifacts": json.loads(encode_progress(progress))["position"]["artifacts"],
                },
                "tasks": [task.as_dict() for task in progress.tasks],
                "features": progress.features.as_dict(),
                "state": dict(progress.state),
            }
        )
    )


@given(st.lists(PROGRESS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_progress_comes_back_exactly_whatever_was_written_before(
    several: list[Progress], random: object
) -> None:
    """P2: each shares some of its tasks with those before."""
    shared: list[Task] = []
    for one in several:
        mixed = one.replace(tasks=(*shared, *one.tasks))
        text = encode_progress(mixed)
        assert json.loads(text) == plain(mixed)
        assert text == encode_progress(mixed)
        assert decode_progress(text) == mixed
        assert decode(encode(manifest(mixed))).progress == mixed
        random.shuffle(shared)  # type: ignore[attr-defined]
        shared = [*one.tasks, *shared][:8]


def test_tasks_that_the_caller_keeps_by_the_same_words_stay_the_callers() -> None:
    """P2: the state may hold what looks like our own record, also with no task of ours beside it."""
    tasks = (Task(id="T01", state="done", attempts=1, started_at=1, ended_at=2), Task(id="T02"))
    state = {"tasks": [task.as_dict() for task in tasks]}
    encode_progress(Progress(tasks=tasks))
    for own in ((), tasks, tasks[:1], (*tasks, Task(id="T03"))):
        progress = Progress(goal="g", tasks=own, state=state)
        text, whole = encode_progress(progress), encode(manifest(progress))
        for known in (tasks, own, ()):
            encode_progress(Progress(tasks=known))
            assert decode_progress(text) == progress
            assert decode(whole).progress == decode(whole.decode()).progress == progress


def test_a_record_that_was_damaged_is_seen_beside_one_that_is_known() -> None:
    """K4."""
    progress = Progress(goal="g", tasks=(Task(id="T01"), Task(id="T02")))
    text = encode_progress(progress)
    for wrong in (
        text.replace('"T02"', "2"),
        text.replace('"goal":"g"', '"goal":1'),
        text[:-1],
        text.replace('"tasks":', '"tusks":'),
    ):
        assert wrong != text
        with pytest.raises(Damaged):
            decode_progress(wrong)
    assert decode_progress(text) == progress


def test_what_is_read_may_be_changed_without_harm() -> None:
    progress = Progress(goal="g", tasks=(Task(id="T01"),))
    text = encode_progress(progress)
    decode_progress(text).state["mine"] = 1  # type: ignore[index]
    assert decode_progress(text).state == {}


def test_a_task_of_thousands_costs_what_one_of_twenty_does(tmp_path: Path) -> None:
    """Counted in calls of functions, which no load can change."""
    found = []
    for count in (20, 2000):
        path = str(tmp_path / f"{count}.sqlite3")
        with closing(SqliteCatalogue.open(path, clock=FakeClock())) as catalogue:
            found.append(_calls(_turn(catalogue, count)))
    few, many = found
    assert many < few * 1.2


def _turn(catalogue: SqliteCatalogue, count: int) -> Callable[[], None]:
    """Return what a run does with the records of one task of so many."""
    catalogue.add_workspace(WorkspaceRow(key=KEY, path="/home/a", machine="m", created_at=1))
    ids = [f"T{number:05}" for number in range(count)]
    work = catalogue.work
    work.change(
        lambda to: to.change_progress(KEY, lambda found: rules.registered(found, ids), workspace_key=KEY)
    )

    def turn() -> None:
        begun = work.change(
            lambda to: to.change_progress(
                KEY, lambda found: rules.begin(found, "T00007", steps=(), at=1), workspace_key=KEY
            )
        )
        assert work.progress(KEY) == begun
        done = work.change(
            lambda to: to.change_progress(
                KEY, lambda found: rules.end(found, "T00007", state="done", at=2), workspace_key=KEY
            )
        )
        kept = catalogue.add(manifest(done), commit="cc" * 20, name=None, pinned=False)
        assert done.count("done", "failed") == 1
        found = catalogue.get(kept.id)
        assert found is not None
        assert found.manifest.progress == work.progress(KEY)

    return turn


def _calls(work: Callable[[], None]) -> int:
    counted = 0

    def count(*_: object) -> None:
        nonlocal counted
        counted += 1

    gc.collect()
    gc.disable()  # what others left behind may have much to say when it goes
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted
