"""How far a rewind goes, told from the history alone (rule T15)."""

from __future__ import annotations

from collections.abc import Sequence

from lastgood.model.checkpoint import Checkpoint, TreeRef
from lastgood.rewind import BEGAN, History, extent
from tools.manifests import checkpoint
from tools.values import not_none

# A kind, a session, and the files.
Told = tuple[str, str | None, str]


def history(
    line: Sequence[Checkpoint],
    *,
    returned: bool = False,
    untouched: bool = True,
    taken_back: Sequence[int] = (),
) -> History:
    return History(
        line=line,
        untouched=lambda: untouched,
        returned=returned,
        starts={one.id for one in line if one.kind == "session-start"},
        taken_back={line[place].id for place in taken_back},
    )


def told(*line: Told) -> list[Checkpoint]:
    """Return checkpoints, newest first."""
    return [
        checkpoint(number, kind=kind, session=session, root=TreeRef(tree=files))
        for number, (kind, session, files) in zip(range(len(line), 0, -1), line, strict=True)
    ]


def places(found: History, steps: int) -> tuple[int, list[int], list[int]] | None:
    """Return the places of the target, of the runs and of what else goes."""
    reached = extent(found, steps=steps)
    if reached is None:
        return None
    place = list(found.line).index
    return place(reached.target), [place(one) for one in reached.runs], [place(one) for one in reached.saves]


def test_turns_are_counted_where_there_are_any() -> None:
    """S20: a checkpoint of before a turn is the state before it."""
    after = [
        checkpoint(number, kind=kind) for number, kind in ((4, "turn"), (3, "auto"), (2, "turn"), (1, "auto"))
    ]
    before = [checkpoint(2, kind="turn", metadata={"moment": "before"}), checkpoint(1, kind="auto")]
    assert not_none(extent(history(after), steps=2)).target is after[3]
    assert extent(history(after), steps=3) is None
    assert not_none(extent(history(before), steps=1)).target is before[0]


def test_a_turn_that_says_where_it_began_goes_back_there() -> None:
    """S20: not to what was kept within it, nor to what a person changed before it."""
    began = checkpoint(1, kind="turn")
    within = checkpoint(2, kind="risky")
    ended = checkpoint(3, kind="turn", metadata={BEGAN: began.id})
    assert not_none(extent(history([ended, within, began]), steps=1)).target is began
    assert extent(history([ended, within, began]), steps=2) is None


def test_a_turn_before_which_the_workspace_returned_is_passed_over() -> None:
    """T15."""
    line = [checkpoint(number, kind="turn", metadata={"moment": "before"}) for number in (3, 2, 1)]
    back = history(line, returned=True)
    assert not_none(extent(back, steps=1)).target is line[1]
    assert extent(back, steps=3) is None
    assert not_none(extent(history(line, returned=True, untouched=False), steps=1)).target is line[0]


def turns(*files: str) -> list[Checkpoint]:
    """Return turns that began and ended with such files, oldest first given, newest first returned."""
    line = [checkpoint(1, kind="auto", root=TreeRef(tree=files[0]))]
    for number, tree in enumerate(files[1:], 1):
        kept = TreeRef(tree=tree)
        line.insert(0, checkpoint(2 * number, kind="turn", metadata={BEGAN: line[0].id}, root=kept))
        line.insert(0, checkpoint(2 * number + 1, kind="auto", root=kept))
    return line


def test_a_turn_that_changed_no_file_is_gone_past_and_counts_where_none_did() -> None:
    """T15: whether it has a checkpoint depends on when its host wrote the talk down."""
    line = turns("a", "b", "b", "c", "c")
    found = [not_none(extent(history(line), steps=steps)) for steps in (1, 2)]
    assert [line.index(one.target) for one in found] == [4, 8]
    assert [[line.index(turn) for turn in one.turns] for one in found] == [[1, 3], [1, 3, 5, 7]]
    assert [[line.index(turn) for turn in one.idle] for one in found] == [[1], [1, 5]]
    assert extent(history(line), steps=3) is None
    assert not_none(extent(history(line).replace(of_files=False), steps=1)).target is line[2]
    talk = turns("a", "a", "a")
    assert not_none(extent(history(talk), steps=2)).target is talk[4]


def test_a_turn_of_which_only_its_beginning_is_told_counts_by_what_came_of_it() -> None:
    """T15: that may still be in the workspace alone."""
    line = [
        checkpoint(number, kind="turn", metadata={"moment": "before"}, root=TreeRef(tree=tree))
        for number, tree in ((3, "b"), (2, "b"), (1, "a"))
    ]
    found = not_none(extent(history(line), steps=1))
    assert (found.target, found.turns, found.idle) == (line[2], tuple(line), (line[0], line[1]))
    changed = [not_none(extent(history(line, untouched=False), steps=steps)) for steps in (1, 2)]
    assert [one.target for one in changed] == [line[0], line[2]]
    assert [one.idle for one in changed] == [(), (line[1],)]


def run(session: str, *, begins: str, ends: str) -> tuple[Told, Told, Told]:
    return ("session-end", session, ends), ("task", session, ends), ("session-start", session, begins)


def test_runs_are_counted_and_what_was_saved_beside_them_is_named() -> None:
    """T15: one's own saves are no steps."""
    line = told(
        ("manual", None, "e"),
        *run("B", begins="c", ends="d"),
        ("manual", None, "b"),
        *run("A", begins="a", ends="b"),
        ("manual", None, "a"),
    )
    assert places(history(line), 1) == (3, [3], [0])
    # What stood in the second run's first checkpoint had been changed by hand before it.
    assert places(history(line), 2) == (7, [3, 7], [0, 3])
    assert places(history(line), 3) is None


def test_a_run_that_changed_nothing_is_not_counted() -> None:
    """T15: nothing of it could be taken back."""
    line = told(*run("B", begins="b", ends="b"), *run("A", begins="a", ends="b"))
    assert places(history(line), 1) == (5, [5], [])
    assert places(history(line), 2) is None


def test_a_run_that_was_cut_short_left_its_changes_to_what_came_next() -> None:
    """T15: to the checkpoint after it, or in the workspace."""
    cut = told(("manual", None, "b"), ("session-start", "A", "a"), ("manual", None, "a"))
    assert places(history(cut), 1) == (1, [1], [0])
    last = cut[1:]
    assert places(history(last, untouched=False), 1) == (0, [0], [])
    assert places(history(last), 1) is None


def test_a_run_that_was_taken_back_is_not_counted_again() -> None:
    """T15: what changed since is one's own."""
    line = told(("manual", None, "own"), ("session-start", "B", "b"), *run("A", begins="a", ends="b"))
    assert places(history(line, taken_back=[1]), 1) == (4, [4], [0])
    assert places(history(line[1:], taken_back=[0], untouched=False), 1) == (3, [3], [])


def test_a_run_that_went_on_after_it_was_taken_back_counts() -> None:
    """T15, P7."""
    line = told(*run("A", begins="a", ends="b"))
    assert places(history(line, taken_back=[2]), 1) == (2, [2], [])


def test_states_are_counted_where_there_are_neither_turns_nor_runs() -> None:
    """T15: one with the files of the checkpoint after it is no step."""
    line = told(("manual", None, "c"), ("manual", None, "c"), ("manual", None, "b"), ("manual", None, "a"))
    assert places(history(line), 1) == (2, [], [1])
    assert places(history(line), 2) == (3, [], [1, 2])


def test_what_was_changed_between_turns_is_named_and_what_is_within_them_is_not() -> None:
    """T15, S20: one's own changes go too."""
    line = [
        checkpoint(6, kind="turn", metadata={BEGAN: checkpoint(4).id}, root=TreeRef(tree="e")),
        checkpoint(5, kind="risky", root=TreeRef(tree="d")),
        checkpoint(4, kind="auto", root=TreeRef(tree="c")),
        checkpoint(3, kind="turn", metadata={BEGAN: checkpoint(2).id}, root=TreeRef(tree="b")),
        checkpoint(2, kind="auto", root=TreeRef(tree="a")),
        checkpoint(1, kind="manual", root=TreeRef(tree="0")),
    ]
    reached = not_none(extent(history(line), steps=2))
    assert reached.target is line[4]
    assert reached.turns == (line[0], line[3])
    assert reached.saves == (line[2],)
    assert not_none(extent(history(line), steps=1)).saves == ()
