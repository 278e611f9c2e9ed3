"""How progress changes (rule P2), beside a slow and obvious model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import tasks as rules
from lastgood.errors import Conflict, Invalid
from lastgood.model.session import Features, Position, Progress, Task, decode_progress, encode_progress

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
