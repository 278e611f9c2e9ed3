"""What facts add up to (rule K5)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.model.activity import PERIODS, TaskCounts
from lastgood.model.operation import Operation
from lastgood.model.session import Effect
from lastgood.reporting.activity import steady
from tools.report_records import DAY, HOUR, MINUTE, NOW, SECOND, activity, busy, checkpoint, session, task


def test_a_workspace_without_any_work_gives_an_empty_report() -> None:
    empty = activity()
    assert (empty.sessions, empty.buckets, empty.marks, empty.notes) == ((), (), (), ())
    assert empty.tasks == TaskCounts()
    assert empty.tasks.success_ratio is None
    assert empty.tokens is None
    assert empty.checkpoints.total == 0


def test_tasks_are_counted_by_state_with_their_success_and_time() -> None:
    tasks = (
        task("a", start=NOW - 10 * SECOND, end=NOW),
        task("b", start=NOW - 20 * SECOND, end=NOW),
        task("c", "failed", start=NOW - 30 * SECOND, end=NOW),
        task("d", "skipped", end=NOW),
        task("e", "running", start=NOW),
        task("f", "pending"),
    )
    counted = activity(sessions=(session("s", started=NOW - HOUR, tasks=tasks),)).tasks
    assert (counted.done, counted.failed, counted.skipped, counted.running, counted.pending) == (
        2,
        1,
        1,
        1,
        1,
    )
    assert counted.total == 6
    assert counted.success_ratio == 2 / 3
    assert counted.seconds == 60


def test_tasks_outside_any_session_count_too() -> None:
    assert activity(outside=(task("a", end=NOW),)).tasks.done == 1
    assert activity(outside=(task("a", end=NOW),), session="s").tasks.done == 0


@pytest.mark.parametrize(("period", "held"), [("day", 1), ("week", 2), ("month", 3), ("all", 4)])
def test_a_period_ends_now(period: str, held: int) -> None:
    ages = (90 * DAY, 20 * DAY, 3 * DAY, HOUR)
    found = activity(
        *(checkpoint(number, at=NOW - age) for number, age in enumerate(ages, start=1)),
        sessions=tuple(session(f"s{age}", started=NOW - age, ended_at=NOW - age + 1) for age in ages),
        outside=tuple(task(f"t{age}", start=NOW - age, end=NOW - age) for age in ages),
        operations=tuple(
            Operation(id=f"op{age}", workspace_key="w", type="restore", at=NOW - age) for age in ages
        ),
        effects=tuple(
            Effect(id=f"e{age}", workspace_key="w", name="push", started_at=NOW - age) for age in ages
        ),
        period=period,
    )
    assert found.checkpoints.total == len(found.sessions) == found.tasks.done == held
    assert found.operations == {"restore": held}
    assert len(found.effects) == held
    assert sum(bucket.checkpoints for bucket in found.buckets) == held


def test_a_session_that_reaches_into_a_period_belongs_to_it() -> None:
    found = activity(sessions=(session("s", started=NOW - 3 * DAY, beat=NOW - HOUR),), period="day")
    assert len(found.sessions) == 1


def test_one_session_alone_can_be_reported_on() -> None:
    found = activity(
        checkpoint(1, session="s", stored_bytes=5),
        checkpoint(2, session="other", stored_bytes=7),
        sessions=(session("s", started=NOW), session("other", started=NOW)),
        operations=(Operation(id="op", workspace_key="w", type="restore", at=NOW),),
        session="s",
    )
    assert [one.report.id for one in found.sessions] == ["s"]
    assert found.saves.stored_bytes == 5
    assert found.operations == {}


def test_tokens_are_a_running_total_of_each_session() -> None:
    found = activity(
        checkpoint(1, session="a", tokens=100),
        checkpoint(2, session="b", tokens=10),
        checkpoint(3, session="a", tokens=250),
        checkpoint(4, session="a"),
        checkpoint(5, session="a", tokens=30),  # counted anew, after a compaction
        sessions=(session("a", started=NOW), session("b", started=NOW)),
    )
    assert [one.tokens for one in found.sessions] == [280, 10]
    assert found.tokens == 290
    assert sum(bucket.tokens for bucket in found.buckets) == 290


def test_tokens_used_before_a_period_are_not_counted_in_it() -> None:
    found = activity(
        checkpoint(1, at=NOW - 3 * DAY, session="a", tokens=1000),
        checkpoint(2, at=NOW - HOUR, session="a", tokens=1200),
        sessions=(session("a", started=NOW - 3 * DAY, beat=NOW),),
        period="day",
    )
    assert (found.tokens, found.sessions[0].tokens, found.buckets[-1].tokens) == (200, 200, 0)
    assert sum(bucket.tokens for bucket in found.buckets) == 200


def test_deleted_checkpoints_count_in_sizes_alone() -> None:
    assert activity(checkpoint(1), checkpoint(2, deleted_at=NOW)).checkpoints.total == 1


def test_checkpoints_are_counted_by_kind_and_by_what_is_known_of_them() -> None:
    counts = activity(
        checkpoint(1, kind="turn", name="n", good=True),
        checkpoint(2, kind="turn", pinned=True, good=False),
        checkpoint(3, kind="manual", partial=True, damaged="bits"),
    ).checkpoints
    assert counts.by_kind == {"turn": 2, "manual": 1}
    assert (counts.named, counts.pinned, counts.good, counts.bad, counts.partial, counts.damaged) == (1,) * 6


def test_what_a_person_should_look_at_is_named() -> None:
    found = activity(
        checkpoint(1, damaged="bits", partial=True),
        sessions=(session("s", started=NOW, state="incomplete", tasks=(task("t").replace(attempts=4),)),),
        effects=(Effect(id="e", workspace_key="w", name="deploy", started_at=NOW, state="unknown"),),
    )
    assert [note.code for note in found.notes] == [
        "incomplete-sessions",
        "many-attempts",
        "damaged-checkpoints",
        "partial-checkpoints",
        "unknown-effects",
    ]
    assert all(note.hint for note in found.notes)


def test_a_clock_that_went_back_makes_no_negative_time() -> None:
    """Rule S15."""
    found = activity(
        checkpoint(1, at=NOW - HOUR),
        checkpoint(2, at=NOW - HOUR),
        checkpoint(3, at=0),
        checkpoint(4, at=NOW - MINUTE),
        sessions=(
            session("s", started=NOW + DAY, beat=NOW - DAY, tasks=(task("t", start=NOW, end=NOW - HOUR),)),
        ),
    )
    assert found.seconds == 0
    assert found.worked[0].seconds == 0
    assert [mark.at for mark in found.marks] == [NOW - HOUR, NOW - HOUR, NOW - HOUR, NOW - MINUTE]
    assert found.buckets[0].start > NOW - 2 * HOUR


def test_a_checkpoint_of_the_future_is_shown_where_it_was_made() -> None:
    """Rule S15."""
    found = activity(
        checkpoint(1, at=NOW - HOUR), checkpoint(2, at=(1 << 63) - 1), checkpoint(3, at=NOW - MINUTE)
    )
    assert [mark.at for mark in found.marks] == [NOW - HOUR, NOW - HOUR, NOW - MINUTE]
    assert activity(checkpoint(1, at=NOW + 50 * DAY), period="week").checkpoints.total == 1


def test_one_save_by_a_wrong_clock_leaves_the_others_where_they_are() -> None:
    """Rule S15: a clock that was a week ahead for a moment, and was set right."""
    times = [1, 2, 900, 3, 4, 5]
    assert steady(times, now=1000) == [1, 2, 2, 3, 4, 5]
    assert steady([900, 1, 2, 3], now=1000) == [1, 1, 2, 3]
    assert steady([900, 901], now=1) == [1, 1]
    assert steady([], now=1) == []


@given(st.lists(st.integers(0, 9)))
def test_as_many_times_as_possible_stay_as_they_are(times: list[int]) -> None:
    kept = sum(a == b for a, b in zip(times, steady(times, now=9), strict=True))
    longest = [1] * len(times)
    for place, at in enumerate(times):
        longest[place] = 1 + max((longest[n] for n in range(place) if times[n] <= at), default=0)
    assert kept >= max(longest, default=0)


@given(st.lists(st.integers(0, 1 << 63)), st.integers(0, 1 << 63))
def test_times_are_shown_in_order_and_never_ahead(times: list[int], now: int) -> None:
    shown = steady(times, now=now)
    assert shown == sorted(shown)
    assert all(at <= now for at in shown)
    assert len(shown) == len(times)


@given(
    st.lists(st.integers(0, (1 << 63) - 1), max_size=30),
    st.lists(st.tuples(st.integers(0, 1 << 63), st.integers(0, 1 << 63)), max_size=10),
    st.sampled_from(PERIODS),
    st.integers(-14 * 3600, 14 * 3600),
)
def test_whatever_the_clocks_said_every_bucket_holds_its_share(
    times: list[int], ends: list[tuple[int, int]], period: str, offset: int
) -> None:
    found = activity(
        *(checkpoint(number, at=at) for number, at in enumerate(times, start=1)),
        outside=tuple(task(f"t{n}", start=start, end=end) for n, (start, end) in enumerate(ends)),
        period=period,
        offset=offset,
    )
    assert len(found.buckets) <= 60
    assert sum(bucket.checkpoints for bucket in found.buckets) == found.checkpoints.total
    assert sum(bucket.tasks_done for bucket in found.buckets) == found.tasks.done
    for left, right in itertools.pairwise(found.buckets):
        assert left.end == right.start
        assert left.start < left.end


def test_days_begin_at_local_midnight() -> None:
    found = activity(*(checkpoint(n, at=NOW - (40 - n) * DAY) for n in range(40)), offset=2 * 3600)
    assert {(bucket.start // SECOND + 2 * 3600) % 86_400 for bucket in found.buckets} == {0}


def test_weeks_begin_on_monday() -> None:
    found = activity(*(checkpoint(n, at=NOW - (300 - n) * DAY) for n in range(300)))
    assert {(bucket.start // DAY + 3) % 7 for bucket in found.buckets} == {0}


def test_thousands_of_checkpoints_add_up() -> None:
    found = activity(
        *(
            checkpoint(n, at=NOW - (10_000 - n) * MINUTE, session=f"s{n % 50}", stored_bytes=1, tokens=n)
            for n in range(1, 10_001)
        ),
        sessions=tuple(session(f"s{n}", started=NOW - 9 * DAY) for n in range(50)),
    )
    assert found.saves.stored_bytes == 10_000
    assert sum(one.checkpoints for one in found.sessions) == 10_000
    assert len(found.buckets) <= 48


def test_a_report_on_everything_holds_together() -> None:
    found = busy()
    assert found.checkpoints.good == 4
    assert found.sessions[0].tokens == 36 * 700
