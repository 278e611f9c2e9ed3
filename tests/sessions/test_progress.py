"""Progress and its records: how it changes, of thousands of tasks, and in the catalogue (rule P2)."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import tasks as rules
from lastgood.catalogue import WorkspaceRow
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.errors import Conflict, Damaged, Invalid
from lastgood.ids import checkpoint_id
from lastgood.model.checkpoint import Manifest, Metrics, TreeRef, decode, encode
from lastgood.model.session import Features, Position, Progress, Task, decode_progress, encode_progress
from lastgood.testing.clock import FakeClock
from tools import manifests
from tools.values import not_none

VERBS = ("start", "done", "failed", "skipped")


def carry_out(progress: Progress, verb: str, id: str, at: int) -> Progress:
    if verb == "start":
        return rules.start_task(progress, id, at=at)
    if verb == "skipped":
        return rules.skip_task(progress, id, at=at)
    return rules.end_task(progress, id, state=verb, at=at)  # type: ignore[arg-type]  # one of two


class History:
    """All that was ever said, looked through from the beginning for each question."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def state(self, id: str) -> str:
        state = "unknown"
        for verb, about in self.said:
            if about == id:
                state = "running" if verb == "start" else verb
        return state

    def attempts(self, id: str) -> int:
        return sum(1 for verb, about in self.said if about == id and verb == "start")

    def allows(self, verb: str, id: str) -> bool:
        state = self.state(id)
        if verb in ("start", state):
            return True
        if verb == "skipped":
            return state != "done"
        return state == "running"


@given(st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from(["T01", "T02", "T03"])), max_size=40))
def test_tasks_change_as_a_slow_history_says(said: list[tuple[str, str]]) -> None:
    """P2."""
    progress, history = Progress(), History()
    for at, (verb, id) in enumerate(said, start=1):
        if history.allows(verb, id):
            progress = carry_out(progress, verb, id, at)
            history.said.append((verb, id))
        else:
            with pytest.raises(Conflict) as caught:
                carry_out(progress, verb, id, at)
            assert "lastgood task start" in caught.value.hint
        for task in progress.tasks:
            assert task.state == history.state(task.id)
            assert task.attempts == history.attempts(task.id)
            assert (task.ended_at is None) == (task.state == "running")
    assert [task.id for task in progress.tasks] == list(dict.fromkeys(id for _, id in history.said))


def test_a_task_that_never_started_cannot_be_done() -> None:
    with pytest.raises(Conflict, match="never started") as caught:
        rules.end_task(Progress(), "T01", state="done", at=1)
    assert caught.value.hint == "start it first: lastgood task start T01"


def test_what_is_said_twice_keeps_the_first_moment() -> None:
    once = rules.end_task(rules.start_task(Progress(), "T01", at=1), "T01", state="done", at=2)
    assert rules.end_task(once, "T01", state="done", at=3) == once


@pytest.mark.parametrize("id", ["", " T01", "T01 ", "a\nb", "x" * 101, "\ud800", "\x1b[2J"])
@pytest.mark.parametrize(
    "change",
    [
        lambda name: rules.start_task(Progress(), name, at=1),
        lambda name: rules.end_task(Progress(), name, state="done", at=1),
        lambda name: rules.skip_task(Progress(), name, at=1),
        lambda name: rules.start_feature(Progress(), name),
        lambda name: rules.finish_feature(Progress(), name),
        lambda name: rules.start_sprint(Progress(), name),
        lambda name: rules.finish_sprint(Progress(), name),
    ],
)
def test_a_hostile_id_is_refused(change: Callable[[str], Progress], id: str) -> None:
    with pytest.raises(Invalid):
        change(id)


def test_a_feature_is_complete_once_and_building_it_again_takes_that_back() -> None:
    done = rules.finish_feature(rules.start_feature(Progress(), "login"), "login")
    assert done.features == Features(current=None, completed=("login",))
    assert rules.finish_feature(done, "login") == done
    again = rules.start_feature(done, "login")
    assert again.features == Features(current="login", completed=())
    with pytest.raises(Conflict, match="the one under way is login"):
        rules.finish_feature(again, "logout")


def test_another_sprint_than_the_present_one_cannot_be_done() -> None:
    with pytest.raises(Conflict, match="no sprint is under way"):
        rules.finish_sprint(Progress(), "S01")
    inside = rules.start_sprint(Progress(), "S01")
    assert rules.finish_sprint(inside, "S01") == inside
    with pytest.raises(Conflict, match="the one under way is S01"):
        rules.finish_sprint(inside, "S02")


def test_what_is_not_said_stays() -> None:
    first = rules.move(Progress(), phase="Construction", iteration=3, step=12, steps=15, artifacts=[b"a"])
    second = rules.move(first, step=13)
    assert second.position == first.position.replace(step=13)
    assert rules.move(second, artifacts=[]).position.artifacts == ()


def test_the_state_is_laid_over_by_key_and_a_key_without_value_goes() -> None:
    first = rules.move(Progress(), state={"retries": 1, "branch": "x"})
    assert rules.move(first, state={"retries": 2, "branch": None}).state == {"retries": 2}


@pytest.mark.parametrize(
    "words",
    [
        {"step": 16, "steps": 15},
        {"step": -1},
        {"iteration": 10**9 + 1},
        {"phase": "x" * 2001},
        {"goal": "\udcff"},
        {"artifacts": [b"%d" % number for number in range(1001)]},
    ],
)
def test_a_position_that_cannot_be_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        rules.move(Progress(), **words)  # type: ignore[arg-type]  # wrong on purpose


def test_tasks_beyond_the_limit_are_refused() -> None:
    many = Progress(tasks=tuple(Task(id=f"T{number}") for number in range(rules.TASKS_LIMIT)))
    with pytest.raises(Invalid, match="10000 tasks"):
        rules.start_task(many, "one more", at=1)
    assert rules.start_task(many, "T7", at=1).count("running") == 1


texts = st.text(max_size=20)

numbers = st.none() | st.integers(0, 10**9)

positions = st.builds(
    Position,
    phase=st.none() | texts,
    iteration=numbers,
    step=numbers,
    steps=numbers,
    sprint=st.none() | texts,
    artifacts=st.lists(st.binary(min_size=1, max_size=9), max_size=3).map(tuple),
)

tasks = st.builds(
    Task,
    id=texts,
    state=st.sampled_from(["pending", "running", "done", "failed", "skipped"]),
    attempts=st.integers(0, 99),
    started_at=st.none() | st.integers(0, 2**62),
    ended_at=st.none() | st.integers(0, 2**62),
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3),
    max_leaves=6,
)

records = st.builds(
    Progress,
    goal=st.none() | texts,
    position=positions,
    tasks=st.lists(tasks, max_size=4).map(tuple),
    features=st.builds(Features, current=st.none() | texts, completed=st.lists(texts, max_size=3).map(tuple)),
    state=st.dictionaries(texts, json_values, max_size=3),
)


@given(records)
def test_progress_survives_being_written(progress: Progress) -> None:
    """P2: artifacts of any bytes, state of any JSON."""
    assert decode_progress(encode_progress(progress)) == progress


def test_what_a_reader_does_to_progress_harms_no_other_reader() -> None:
    """A text that was read a moment ago is not read again, and still belongs to nobody."""
    for progress in (Progress(goal="G"), Progress(goal="G", state={"a": {"b": 1}})):
        text = encode_progress(progress)
        state = decode_progress(text).state
        assert isinstance(state, dict)
        state["mine"] = 1
        assert decode_progress(text) == progress


# The progress of thousands of tasks: what is known of it is neither written nor read anew (P2).


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
    return manifests.manifest(
        1,
        id=checkpoint_id(b"12345678"),
        workspace="/home/a",
        workspace_key=KEY,
        kind="task",
        message="m",
        root=TreeRef(tree="aa" * 20, modes="bb" * 20),
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
        found = not_none(catalogue.get(kept.id))
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
