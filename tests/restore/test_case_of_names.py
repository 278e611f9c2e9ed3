"""Restores where a file system takes names for one that differ in case (rule T3)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

from lastgood.model.operation import Outcome
from lastgood.model.tree import Entry, StoredTree
from lastgood.paths import folded, join
from lastgood.restore.merge import Copies, MergedTree, plan_merge
from lastgood.restore.plan import DeletionEvidence, are_alike
from lastgood.restore.spellings import as_spelt
from tools.forest import Field, Names, Node, folder, snapshot

A: Node = (0o644, b"a")
B: Node = (0o644, b"b")
C: Node = (0o644, b"c")
X: Node = (0o755, b"a")


@pytest.fixture
def field(tmp_path_factory: pytest.TempPathFactory) -> Field:
    return Field(os.fsencode(tmp_path_factory.mktemp("workspace")))


def looking(field: Field) -> Callable[[bytes], Entry | None]:
    """Look as where case does not count."""

    def look(path: bytes) -> Entry | None:
        found = b""
        for name in path.split(b"/"):
            here = field.at(found)
            names = os.listdir(here) if os.path.isdir(here) else []
            alike = [one for one in names if folded(one) == folded(name)]
            if not alike:
                return None
            found = join(found, alike[0])
        return field.applier.present(found)

    return look


def restored(field: Field, target: Names, *, ignored: Sequence[bytes] = ()) -> list[Outcome]:
    steps = field.plan(target, ignored=lambda path: path in ignored)
    assert are_alike(steps)
    return list(field.apply(as_spelt(steps, looking(field))))


def told(outcomes: list[Outcome]) -> list[str]:
    return [f"{one.result} {one.path.decode()}{f': {one.reason}' if one.reason else ''}" for one in outcomes]


def test_a_file_of_another_spelling_gets_the_content_and_keeps_its_name(field: Field) -> None:
    field.lay({b"readme": A})
    assert told(restored(field, {b"README": B})) == [
        "restored readme: spelt so here, where README is the same name"
    ]
    assert field.now() == {b"readme": B}


def test_a_file_of_another_spelling_alone_is_left_as_it_is(field: Field) -> None:
    field.lay({b"readme": A})
    assert told(restored(field, {b"README": A})) == [
        "kept readme: spelt so here, where README is the same name"
    ]


def test_permissions_come_back_under_another_spelling(field: Field) -> None:
    field.lay({b"run": A})
    restored(field, {b"Run": X})
    assert field.now() == {b"run": X}


def test_a_folder_of_another_spelling_becomes_what_it_was(field: Field) -> None:
    field.lay({b"src": folder({b"edited": A, b"new": A, b"same": A, b"deep": folder({b"New": A})})})
    target = {b"edited": B, b"gone": A, b"same": A, b"deep": folder({b"new": B, b"more": folder({b"x": A})})}
    outcomes = restored(field, {b"Src": folder(target)})
    assert not [one for one in outcomes if one.result in {"failed", "skipped"}]
    deep = folder({b"New": B, b"more": folder({b"x": A})})
    assert field.now() == {b"src": folder({b"edited": B, b"gone": A, b"same": A, b"deep": deep})}
    assert "kept src: spelt so here, where Src is the same name" in told(outcomes)


def test_letters_beyond_ascii_count_too(field: Field) -> None:
    field.lay({"ärger".encode(): A})
    restored(field, {"Ärger".encode(): B})
    assert field.now() == {"ärger".encode(): B}


def test_a_folder_takes_the_place_of_a_file_of_another_spelling(field: Field) -> None:
    field.lay({b"it": A})
    restored(field, {b"It": folder({b"x": B})})
    assert field.now() == {b"it": folder({b"x": B})}


def test_a_file_takes_the_place_of_a_folder_of_another_spelling(field: Field) -> None:
    field.lay({b"it": folder({b"x": B, b"d": folder({})})})
    restored(field, {b"It": A})
    assert field.now() == {b"it": A}


def test_a_folder_that_stays_for_what_is_in_it_is_written_into(field: Field) -> None:
    field.lay({b"src": folder({b"x": A, b"kept": A})})
    restored(field, {b"Src": folder({b"x": B})}, ignored=[b"src/kept"])
    assert field.now() == {b"src": folder({b"x": B, b"kept": A})}


def test_a_file_that_stays_keeps_out_a_folder_of_the_same_name(field: Field) -> None:
    field.lay({b"src": A})
    made = field.plan({b"Src": folder({b"x": B})})
    steps = [
        step.replace(action="keep", reason="was ignored") if step.want is None else step for step in made
    ]
    assert told(list(field.apply(as_spelt(steps, looking(field))))) == [
        "kept src: was ignored",
        "skipped Src: src stays, which is the same name here",
        "skipped Src/x: Src could not be made",
    ]
    assert field.now() == {b"src": A}


# A merge leaves alone what changed since its base, and that has no step, or one that only says why.


def merged(field: Field, base: Names, target: Names) -> list[Outcome]:
    present = snapshot(field.forest, field.root)
    evidence = DeletionEvidence(
        ignored_then=lambda _path, *, directory: False,  # noqa: ARG005 - the protocol's
        look=looking(field),
    )
    tree = MergedTree(
        *(StoredTree(field.forest.plant(names), field.forest.directory) for names in (base, target)),
        present=present,
        evidence=evidence,
        blend=lambda _sides: None,
        favour=None,
        copies=Copies(ref="x", suffix=b".lastgood-x"),
    )
    steps = plan_merge(tree, present, evidence=evidence, paths=(), discard=False, was=lambda _path: False)
    return list(field.apply(as_spelt(steps, looking(field), listed=present.directory)))


def test_a_merge_takes_a_file_back_under_the_spelling_that_is_there(field: Field) -> None:
    field.lay({b"readme": A, b"since": A})
    outcomes = merged(field, {b"readme": A}, {b"README": B})
    assert told(outcomes) == ["restored readme: spelt so here, where README is the same name"]
    assert field.now() == {b"readme": B, b"since": A}


def test_a_merge_writes_nothing_over_a_conflict_of_another_spelling(field: Field) -> None:
    field.lay({b"readme": C})
    outcomes = merged(field, {b"readme": A}, {b"README": B})
    assert told(outcomes) == [
        "skipped README: readme stays, which is the same name here",
        "skipped readme: conflict",
    ]
    assert field.now() == {b"readme": C}


def test_a_merge_writes_into_a_folder_that_stays_for_what_came_since(field: Field) -> None:
    field.lay({b"src": folder({b"x": A, b"since": A})})
    outcomes = merged(field, {b"src": folder({b"x": A})}, {b"Src": folder({b"x": B, b"y": B})})
    assert not [one for one in outcomes if one.result in {"failed", "skipped"}]
    assert field.now() == {b"src": folder({b"x": B, b"y": B, b"since": A})}


def test_a_merge_writes_nothing_over_what_came_since_under_another_spelling(field: Field) -> None:
    field.lay({b"src": folder({b"New": C})})
    outcomes = merged(field, {}, {b"Src": folder({b"new": A})})
    assert told(outcomes) == ["skipped Src/new: src/New stays, which is the same name here"]
    assert field.now() == {b"src": folder({b"New": C})}


def test_a_merge_makes_a_second_spelling_where_names_are_told_apart(field: Field) -> None:
    field.lay({b"readme": C})
    present = snapshot(field.forest, field.root)
    steps = field.plan({b"readme": C, b"README": A})
    assert as_spelt(steps, field.applier.present, listed=present.directory) == steps


def test_where_names_are_told_apart_nothing_changes(field: Field) -> None:
    field.lay({b"src": folder({b"x": A})})
    steps = field.plan({b"Src": folder({b"x": A})})
    assert as_spelt(steps, field.applier.present) == steps
    field.apply(steps)
    assert field.now() == {b"Src": folder({b"x": A})}
