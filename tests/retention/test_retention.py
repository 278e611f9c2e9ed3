"""The policy by kind and the limits, against a slow and obvious account of rule K1."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.errors import Usage
from lastgood.model.checkpoint import (
    KINDS,
    Actor,
    Checkpoint,
)
from lastgood.retention.policy import DAY, HOUR, POLICY, Conditions, age_of, decide, explicit_decisions
from lastgood.rewind import BEGAN
from lastgood.settings import Rungs
from tools import manifests

NOW = 1_767_225_600 * 10**9 + HOUR // 3
MINUTE = HOUR // 60


def checkpoint(number: int, *, age: int = 0, **facts: Any) -> Checkpoint:
    """Return a checkpoint of some nanoseconds' age."""
    return manifests.checkpoint(number, created_at=NOW - age, **facts)


def line(amount: int, *, apart: int, **facts: Any) -> list[Checkpoint]:
    """Return so many checkpoints, newest first, a fixed time apart."""
    return [checkpoint(amount - place, age=place * apart, **facts) for place in range(amount)]


def kept(checkpoints: list[Checkpoint], *, limit: int = 10_000, **more: Any) -> set[int]:
    decisions = decide(checkpoints, Conditions(now=NOW, limit=limit, **more))
    assert [one.id for one in decisions] == [one.id for one in checkpoints]
    assert all(one.reason for one in decisions)
    return {int(one.id[5:], 16) for one in decisions if one.keep}


@pytest.mark.parametrize(("kind", "last"), [("turn", 100), ("tool", 50), ("auto", 10)])
def test_the_newest_of_an_automatic_kind_stay_and_the_rest_is_thinned(kind: str, last: int) -> None:
    """K1: one per hour for a day, one per day for two weeks."""
    old = line(40 * 24 * 4, apart=15 * MINUTE, kind=kind)

    found = kept(old)

    ages = sorted((len(old) - number) * 15 * MINUTE for number in found)
    behind = ages[last:]
    assert len([age for age in behind if age <= DAY]) <= 25
    assert max(ages) <= 14 * DAY
    assert len([age for age in behind if age > DAY]) in {12, 13, 14}
    assert len(found) >= last


@pytest.mark.parametrize("kind", ["risky", "task", "sprint", "iteration", "error", "interrupt", "compaction"])
def test_twenty_of_a_moment_stay_and_all_of_the_last_day(kind: str) -> None:
    """K1."""
    busy = line(60, apart=30 * MINUTE, kind=kind)
    calm = line(60, apart=DAY, kind=kind)

    assert len(kept(busy)) == 49
    assert len(kept(calm)) == 20


def test_where_a_turn_began_stays_as_long_as_the_turn() -> None:
    """K1, S22: what a person changed between two turns is known as long as both are."""
    turns = line(400, apart=MINUTE, kind="turn")
    noted = [
        one.replace(manifest=one.manifest.replace(metadata={BEGAN: f"ckpt_{1000 + one.sequence:016x}"}))
        for one in turns
    ]
    begun = [checkpoint(1000 + one.sequence, age=NOW - one.manifest.created_at, kind="auto") for one in turns]
    made = [each for pair in zip(noted, begun, strict=True) for each in pair]

    found = kept(made)

    assert {number + 1000 for number in found if number < 1000} <= found
    assert len([number for number in found if number > 1000]) == len(found) // 2
    [reason] = {
        one.reason
        for one in decide(made, Conditions(now=NOW, limit=10_000))
        if int(one.id[5:], 16) == 1300  # behind the ten newest
    }
    assert reason == "a turn that is kept began there"
    assert len(kept(made, limit=20)) <= 20


def test_of_the_looks_broken_off_before_a_turn_one_stays_as_long_as_the_turn() -> None:
    """K1: by it is known that nobody knows whose is what came with the turn."""
    agent = Actor(type="agent", name="one")
    made = []
    for number in range(300, 0, -1):
        age = (300 - number) * MINUTE
        made.append(checkpoint(10 * number, age=age, kind="turn", actor=agent))
        made += [checkpoint(10 * number - one, age=age, kind="auto", partial=True) for one in (1, 2)]

    found = kept(made)
    turns = {number for number in found if number % 10 == 0}
    assert {number - 1 for number in turns} - {min(turns) - 1} <= found
    assert len(found) <= 2 * len(turns) + 30

    few = kept(made, limit=20)
    turns = {number for number in few if number % 10 == 0}
    assert len(few) <= 20
    assert len(turns) >= 7
    assert all(any(one < between < other for between in few) for one, other in pairwise(sorted(turns)))

    explicit = explicit_decisions(
        [*made[:3], made[3].replace(pinned=True)],
        keep=1,
        older_than=None,
        conditions=Conditions(now=NOW, limit=9),
    )
    assert [one.keep for one in explicit] == [True, True, False, True]


def test_guards_stay_for_seven_days() -> None:
    """K1."""
    guards = [checkpoint(999, kind="manual"), *line(100, apart=12 * HOUR, kind="guard")]

    assert len(kept(guards)) == 1 + 15


def test_marks_of_a_session_stay_while_it_has_checkpoints() -> None:
    """K1: the three newest, and those of every session that still has checkpoints."""
    starts = [
        checkpoint(100 - number, kind="session-start", session=f"s{number}", age=(number + 30) * DAY)
        for number in range(10)
    ]
    alive = checkpoint(1, kind="manual", session="s7", age=60 * DAY)

    assert kept([*starts, alive]) == {100, 99, 98, 93, 1}


def test_what_is_made_by_hand_stays_up_to_two_hundred() -> None:
    """K1."""
    assert len(kept(line(250, apart=30 * DAY, kind="manual"))) == 200


def test_named_pinned_and_feature_stay_for_ever() -> None:
    """K1, also where zeros are configured."""
    old = [
        checkpoint(9),
        checkpoint(4, age=900 * DAY, name="n"),
        checkpoint(3, age=900 * DAY, pinned=True),
        checkpoint(2, age=900 * DAY, kind="feature"),
        checkpoint(1, age=900 * DAY),
    ]
    nothing = {kind: Rungs(last=0) for kind in KINDS}

    assert kept(old, retention=nothing, limit=0) == {9, 4, 3, 2}


def test_zeros_leave_the_newest_good_of_each_session_and_the_newest_complete_one() -> None:
    """K1: always."""
    nothing = {kind: Rungs(last=0) for kind in KINDS}
    mixed = [
        checkpoint(8, partial=True),
        checkpoint(7, kind="guard"),
        checkpoint(6, session="b"),
        checkpoint(5, session="b", good=True),
        checkpoint(4, session="b", good=True),
        checkpoint(3, session="a", good=True),
        checkpoint(2, session="a", good=False),
        checkpoint(1, good=True),
    ]

    assert kept(mixed, retention=nothing, limit=0) == {6, 5, 3, 1}


def test_where_none_is_complete_the_newest_stays() -> None:
    nothing = {kind: Rungs(last=0) for kind in KINDS}

    assert kept([checkpoint(2, partial=True), checkpoint(1, partial=True)], retention=nothing) == {2}


def test_a_damaged_newest_one_does_not_count_for_the_sound_one_before_it() -> None:
    nothing = {kind: Rungs(last=0) for kind in KINDS}
    hit = [checkpoint(3, damaged="lost"), checkpoint(2), checkpoint(1)]

    assert kept(hit, retention=nothing) == {3, 2}


def test_where_the_workspace_stands_stays() -> None:
    """K1: `@` always means something."""
    nothing = {kind: Rungs(last=0) for kind in KINDS}
    history = [checkpoint(3), checkpoint(2), checkpoint(1)]

    assert kept(history, retention=nothing, limit=0, stands=history[1].id) == {3, 2}


def test_what_goes_is_told_all_that_is_kept_of_its_kind() -> None:
    old = [checkpoint(2, kind="turn"), checkpoint(1, kind="turn", age=400 * DAY)]
    rungs = {"turn": Rungs(last=1, hourly=5, daily=7)}

    (gone,) = [one for one in decide(old, Conditions(now=NOW, limit=9, retention=rungs)) if not one.keep]

    assert gone.reason == (
        "beyond what is kept of kind turn: the 1 newest, one an hour for 5 hours, one a day for 7 days"
    )


def test_the_limit_takes_the_middle_before_the_ends_and_what_is_automatic_first() -> None:
    """K1: permanent ones do not count."""
    history = [
        checkpoint(number, kind="manual" if number % 2 else "turn", pinned=number == 10, age=(20 - number))
        for number in range(20, 0, -1)
    ]

    found = kept(history, limit=13)

    assert {number for number in range(1, 21) if number % 2} <= found
    assert {20, 18, 2, 10} <= found
    assert len(found) == 13 + 1


def test_what_an_operation_needs_stays_over_the_limit() -> None:
    history = line(30, apart=MINUTE, kind="auto")

    assert 3 in kept(history, limit=5, needed={history[27].id: "needed"})
    assert len(kept(history, limit=5)) == 5


def test_a_clock_that_went_ahead_and_came_back_costs_nothing() -> None:
    """K1 and S15: the numbers give the order, and no checkpoint is older than its predecessor."""
    history = line(30, apart=MINUTE, kind="risky")
    jumped = [
        one.replace(manifest=one.manifest.replace(created_at=one.manifest.created_at + jump))
        for one, jump in zip(history, [3650 * DAY, -3650 * DAY, 0] * 10, strict=True)
    ]

    assert kept(jumped) == kept(history) == set(range(1, 31))


def test_what_was_saved_while_the_clock_was_behind_is_not_older_than_what_was_saved_next() -> None:
    """K1: the one before it may be of weeks ago."""
    wrong = checkpoint(3, age=3650 * DAY)
    conditions = Conditions(now=NOW, limit=500)
    for history, gone in (
        ([checkpoint(4, age=MINUTE), wrong, checkpoint(2, age=20 * DAY), checkpoint(1, age=30 * DAY)], 2),
        ([checkpoint(4, age=8 * DAY), wrong, checkpoint(2, age=20 * DAY), checkpoint(1, age=30 * DAY)], 4),
        ([wrong, checkpoint(2, age=20 * DAY), checkpoint(1, age=30 * DAY)], 2),
    ):
        found = explicit_decisions(history, keep=None, older_than=7 * DAY, conditions=conditions)
        assert len([one for one in found if not one.keep]) == gone


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([MINUTE, HOUR, DAY, 10 * DAY]),
            st.sampled_from([0, 0, 5 * DAY, 3650 * DAY, -3650 * DAY]),
        ),
        max_size=20,
    ),
    asked=st.sampled_from([DAY, 7 * DAY, 30 * DAY]),
)
def test_nothing_goes_that_is_younger_than_asked_whatever_clock_it_was_saved_by(
    steps: list[tuple[int, int]], asked: int
) -> None:
    """K1: where the clock was right at first and is now, and behind by more than has passed since then."""
    passed = [0]
    for step, _ in steps:
        passed.append(passed[-1] + step)
    ages = [passed[-1] - one for one in passed]
    wrong = [0, *(jump for _, jump in steps)]
    history = [
        checkpoint(number, age=age - jump)
        for number, (age, jump) in enumerate(zip(ages, wrong, strict=True), 1)
    ][::-1]

    conditions = Conditions(now=NOW, limit=500)
    found = explicit_decisions(history, keep=None, older_than=asked, conditions=conditions)

    gone = {one.id for one in found if not one.keep}
    assert not [one.sequence for one in history if one.id in gone and ages[one.sequence - 1] <= asked]


def test_a_wish_spares_only_what_is_permanent_or_needed() -> None:
    """K1: an explicit number or age asks of every kind alike."""
    history = [
        checkpoint(6, kind="manual", age=1 * DAY, good=True),
        checkpoint(5, kind="guard", age=2 * DAY),
        checkpoint(4, name="n", age=3 * DAY),
        checkpoint(3, age=4 * DAY, good=True),
        checkpoint(2, age=5 * DAY),
        checkpoint(1, kind="feature", age=6 * DAY),
    ]

    def stay(keep: int | None, older_than: int | None) -> set[int]:
        conditions = Conditions(now=NOW, limit=500, needed={history[4].id: "needed"})
        found = explicit_decisions(history, keep=keep, older_than=older_than, conditions=conditions)
        return {int(one.id[5:], 16) for one in found if one.keep}

    assert stay(1, None) == {6, 5, 4, 2, 1}
    assert stay(None, 2 * DAY) == {6, 5, 4, 2, 1}
    assert stay(None, 1 * DAY) == {6, 4, 2, 1}
    assert stay(1, 3 * DAY) == {6, 5, 4, 2, 1}


def test_a_guard_takes_no_place_among_those_asked_for_and_goes_by_its_own_row() -> None:
    """K1: nobody asked for a guard, so it pushes nothing out; a number says nothing about it."""
    history = [
        checkpoint(5, kind="guard", age=1 * DAY),
        checkpoint(4, kind="turn", age=1 * DAY),
        checkpoint(3, kind="guard", age=8 * DAY),
        checkpoint(2, kind="manual", age=9 * DAY),
        checkpoint(1, kind="manual", age=9 * DAY),
    ]

    def said(**given: Any) -> dict[int, str]:
        conditions = Conditions(now=NOW, limit=500, retention=given.pop("retention", {}))
        found = explicit_decisions(
            history, **({"keep": None, "older_than": None} | given), conditions=conditions
        )
        return {int(one.id[5:], 16): one.reason for one in found if one.keep}

    among = "among the 2 newest"
    assert said(keep=2) == {5: "of the last 7 days, of kind guard", 4: among, 2: among}
    assert said(keep=1)[4] == "the newest"
    assert set(said(keep=2, retention={"guard": Rungs(last=2)})) == {5, 4, 3, 2}
    assert set(said(keep=2, retention={"guard": Rungs(last=0, daily=1)})) == {5, 4, 2}
    assert set(said(older_than=1 * HOUR)) == set()
    assert set(said(keep=1, older_than=8 * DAY)) == {5, 4, 3}


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (DAY, "day"),
        (2 * DAY, "2 days"),
        (HOUR, "1 hour"),
        (90 * MINUTE, "90 minutes"),
        (45 * MINUTE // 60, "45 seconds"),
        (MINUTE // 40, "1.5 seconds"),
    ],
)
def test_a_reason_tells_an_age_in_the_largest_unit_that_it_is_a_multiple_of(limit: int, words: str) -> None:
    """K1: each decision has a reason that a person can check."""
    young = checkpoint(2, age=0)

    found = explicit_decisions(
        [young], keep=None, older_than=limit, conditions=Conditions(now=NOW, limit=500)
    )

    assert found[0].reason == f"not older than {words}"


@pytest.mark.parametrize(
    "text",
    ["x", "-1", "0", "", " ", "7x", "1e3", "nan", "inf", "0d", "0.0h", "9" * 400, "\u0667", "7 7", "+7"],
)
def test_what_is_no_age_is_a_slip_of_the_caller(text: str) -> None:
    """K2."""
    with pytest.raises(Usage):
        age_of(text)


def test_a_plain_number_means_days() -> None:
    assert age_of("7") == age_of("7d") == age_of(" 168h ") == 7 * DAY
    assert age_of("0.5") == age_of("12h") == 12 * HOUR


KIND = st.sampled_from(["turn", "tool", "auto", "risky", "guard", "manual", "feature", "session-start"])
ONE = st.fixed_dictionaries(
    {
        "kind": KIND,
        "step": st.sampled_from([0, MINUTE, 20 * MINUTE, 3 * HOUR, 2 * DAY, -5 * DAY, 9 * DAY]),
        "session": st.sampled_from([None, "a", "b"]),
        "pinned": st.booleans().map(bool) | st.just(value=False),
        "good": st.sampled_from([None, None, True, False]),
        "partial": st.sampled_from([False, False, False, True]),
        "name": st.sampled_from([None, None, None, None, "n"]),
        "began": st.sampled_from([None, 1, 2, 5]),
    }
)
SMALL = {"turn": Rungs(last=3, hourly=5, daily=6), "tool": Rungs(last=1, daily=3), "manual": Rungs(last=4)}


def history(drawn: list[dict[str, Any]]) -> list[Checkpoint]:
    age = 0
    made = []
    for place, facts in enumerate(drawn):
        age += facts["step"]
        given = {key: value for key, value in facts.items() if key not in {"step", "began"}}
        if facts["began"] is not None:
            given["metadata"] = {BEGAN: manifests.manifest(len(drawn) - place - facts["began"]).id}
        made.append(checkpoint(len(drawn) - place, age=age, **given))
    return made


def _begun(checkpoints: list[Checkpoint], stay: set[str]) -> set[str]:
    ids = {one.id for one in checkpoints}
    turns = [one for one in checkpoints if one.kind == "turn" and one.id in stay]
    return {str(one.manifest.metadata.get(BEGAN)) for one in turns} & ids


def oracle(checkpoints: list[Checkpoint], *, limit: int) -> set[str]:  # noqa: C901 - one rule after another
    """Say rule K1 as slowly as it can be said."""
    always = set()
    for one in checkpoints:
        if one.pinned or one.name is not None or one.kind == "feature":
            always.add(one.id)
    permanent = set(always)
    for session in {one.session for one in checkpoints}:
        for one in checkpoints:
            if one.session == session and one.good:
                always.add(one.id)
                break
    whole = [one for one in checkpoints if not one.partial and one.kind != "guard"]
    if checkpoints:
        always.add((whole or checkpoints)[0].id)

    past = {one.sequence: made for one in checkpoints if (made := one.manifest.created_at) <= NOW}

    def is_believed(number: int) -> bool:
        return all(past[other] <= past[number] for other in past if other < number)

    def age(one: Checkpoint) -> int:
        if one.sequence not in past:
            return 0
        later = [number for number in past if number >= one.sequence and is_believed(number)]
        return NOW - past[min(later)] if later else 0

    def stays(one: Checkpoint) -> bool:
        if one.id in always:
            return True
        line = [other for other in checkpoints if other.kind == one.kind]
        place = line.index(one)
        rungs = SMALL.get(one.kind) or {
            "auto": Rungs(last=10, hourly=24, daily=14),
            "risky": Rungs(last=20),
            "guard": Rungs(last=0),
            "session-start": Rungs(last=3),
        }.get(one.kind, Rungs(last=0))
        if place < rungs.last:
            return True
        if one.kind in {"risky", "guard"} and age(one) <= (DAY if one.kind == "risky" else 7 * DAY):
            return True
        behind = line[rungs.last :]
        for amount, unit in ((rungs.hourly, HOUR), (rungs.daily, DAY)):
            when = one.manifest.created_at // unit
            same = [
                other
                for other in behind
                if other.manifest.created_at // unit == when and age(other) <= amount * unit
            ]
            if amount and age(one) <= amount * unit and same[0] is one:
                return True
        return False

    found = {one.id for one in checkpoints if stays(one)}
    rows = found
    by_turn = _begun(checkpoints, rows) - rows
    found = rows | by_turn
    lasting = {one.session for one in checkpoints if one.id in found and one.kind != "session-start"} - {None}
    by_session = {
        one.id
        for one in checkpoints
        if one.kind == "session-start" and one.session in lasting and one.id not in found
    }
    found |= by_session
    loose = [one for one in checkpoints if one.id in found and one.id not in always]
    order = []
    for by_hand in (False, True):
        rest = [one for one in loose if (one.kind == "manual") is by_hand]
        ranked = [(min(place, len(rest) - 1 - place), place, one.id) for place, one in enumerate(rest)]
        order += [id for _, _, id in sorted(ranked, key=lambda row: (row[0], row[1]), reverse=True)]
    excess = max(0, len(found - permanent) - limit)
    found -= set(order[:excess])
    if excess and order[:excess]:
        found -= by_turn - always - _begun(checkpoints, found & rows)
        left = {one.session for one in checkpoints if one.id in found and one.kind != "session-start"}
        found -= {one.id for one in checkpoints if one.id in by_session - always and one.session not in left}
    return found


@settings(max_examples=400, deadline=None)
@given(st.lists(ONE, max_size=60), st.sampled_from([0, 3, 8, 500]))
def test_the_policy_decides_as_the_rule_says(drawn: list[dict[str, Any]], limit: int) -> None:
    """K1: against the oracle."""
    made = history(drawn)
    conditions = Conditions(now=NOW, limit=limit, retention=SMALL)

    decisions = decide(made, conditions)

    assert {one.id for one in decisions if one.keep} == oracle(made, limit=limit)


def in_time(facts: dict[str, object]) -> bool:
    """Tell whether the clock did not jump back: what proves others to be young may be what a limit takes."""
    return facts["step"] != -5 * DAY


@settings(max_examples=200, deadline=None)
@given(st.lists(ONE.filter(in_time), max_size=60), st.sampled_from([0, 3, 8, 500]))
def test_pruning_again_at_once_removes_nothing_more(drawn: list[dict[str, Any]], limit: int) -> None:
    conditions = Conditions(now=NOW, limit=limit, retention=SMALL)
    made = history(drawn)
    stay = {one.id for one in decide(made, conditions) if one.keep}

    again = decide([one for one in made if one.id in stay], conditions)

    assert [one.reason for one in again if not one.keep] == []


def test_the_page_on_keeping_has_the_numbers_of_the_policy() -> None:
    """K1."""
    page = (Path(__file__).parents[2] / "docs" / "keeping.md").read_text()
    rungs = [POLICY[kind].rungs for kind in ("turn", "tool", "auto")]
    assert {(one.hourly, one.daily) for one in rungs} == {(24, 14)}
    newest = "{}, {} and {}".format(*(one.last for one in rungs))
    assert f"the {newest} newest; behind them one an hour for a day and one a day for two weeks" in page
