"""The catalogue's answers and changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lastgood.catalogue import Query, WorkspaceRow
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.errors import Conflict, Invalid, NotFound
from lastgood.model.checkpoint import Check, Checkpoint, Manifest
from lastgood.model.operation import Instant, Operation, Step
from lastgood.model.tree import Gap
from tools.values import not_none

Save = Callable[..., Checkpoint]
Build = Callable[..., Manifest]

KEY = "aa" * 10
OTHER = "bb" * 10


def ids(found: object) -> list[int]:
    assert isinstance(found, list)
    return [int(one.id[5:], 16) for one in found]


def test_an_added_checkpoint_reads_back_as_it_was_returned(catalogue: SqliteCatalogue, save: Save) -> None:
    gaps = (Gap(path=b"b\xffg\n", reason="too-large", size=7), Gap(path="ü".encode(), reason="unreadable"))
    added = save(1, name="first", pinned=True, message="why\udc80 \x00 ü", gaps=gaps)
    assert catalogue.get(added.id) == added
    assert catalogue.find(Query(workspace_key=KEY)) == [added]


def test_checkpoints_come_newest_first_by_sequence_whatever_the_clock_says(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """S15."""
    for number, moment in ((5, 500), (3, 100), (9, -4), (7, 500)):
        save(number, created_at=moment)
    assert ids(catalogue.find(Query())) == [7, 9, 3, 5]


def test_a_verdict_stays_with_its_checkpoint(catalogue: SqliteCatalogue, save: Save) -> None:
    """The last one counts; what the command wrote may be anything."""
    check = Check(command="make\udcff", exit_code=None, seconds=1.5, output_tail="\x00 \ud800", reason="late")
    save(1)
    second = save(2)
    catalogue.set_verdict(second.id, good=True, check=check.replace(exit_code=0))
    catalogue.set_verdict(second.id, good=False, check=check)
    found = not_none(catalogue.get(second.id))
    assert (found.good, found.check, found.damaged) == (False, check, None)
    assert ids(catalogue.find(Query(good=True))) == []
    catalogue.set_verdict(second.id, good=True, check=check)
    assert ids(catalogue.find(Query(good=True))) == [2]
    with pytest.raises(NotFound):
        catalogue.set_verdict("ckpt_0000000000000009", good=True, check=check)


def test_sequences_are_never_reused(catalogue: SqliteCatalogue, save: Save) -> None:
    """Invariant 7."""
    last = save(1)
    catalogue.delete([last.id], at=Instant(at=5))
    catalogue.forget(lambda deleted: deleted.at < 6)
    assert catalogue.next_sequence() == 2
    assert save(2).sequence == 2


def test_an_id_exists_once(catalogue: SqliteCatalogue, save: Save) -> None:
    """S15."""
    save(1)
    with pytest.raises(Conflict):
        save(1)
    assert catalogue.count() == 1


def test_a_checkpoint_needs_a_known_workspace(catalogue: SqliteCatalogue, save: Save) -> None:
    with pytest.raises(Conflict):
        save(1, workspace_key="cc")
    assert catalogue.count() == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(workspace_key=KEY), [6, 5, 4, 3, 2]),
        (Query(), [6, 5, 4, 3, 2, 1]),
        (Query(limit=2), [6, 5]),
        (Query(limit=2, offset=3), [3, 2]),
        (Query(limit=0), []),
        (Query(kind="turn"), [4]),
        (Query(guards=False), [6, 4, 3, 2, 1]),
        (Query(complete=True), [6, 5, 4, 2, 1]),
        (Query(since=3000, until=4000), [4, 3]),
        (Query(name="be*"), [2]),
        (Query(name="[!x]e?"), []),
        (Query(name="b[!x]fore*"), [2]),
        (Query(called="be*"), []),
        (Query(called="a*[b]"), [6]),
        (Query(good=True), []),
        (Query(session="s"), []),
    ],
)
def test_a_query_selects(catalogue: SqliteCatalogue, save: Save, query: Query, expected: list[int]) -> None:
    save(1, workspace_key=OTHER)
    save(2, name="before")
    save(3, partial=True)
    save(4, kind="turn")
    save(5, kind="guard")
    save(6, name="a*[b]")
    assert ids(catalogue.find(query)) == expected


def test_a_prefix_finds_what_is_not_deleted_in_all_workspaces(catalogue: SqliteCatalogue, save: Save) -> None:
    for number, digits in enumerate(("abcd" * 4, "abcd" + "f" * 12, "abcdef00" * 2, "abce" * 4), start=1):
        save(number, id="ckpt_" + digits, workspace_key=OTHER if number == 2 else KEY)
    catalogue.delete(["ckpt_" + "abcdef00" * 2], at=Instant(at=1))
    assert [one.sequence for one in catalogue.with_prefix("abcd")] == [2, 1]
    assert [one.sequence for one in catalogue.with_prefix("abcdabcdabcdabcd")] == [1]


def test_the_latest_facts_are_of_the_newest_and_of_where_the_workspace_stands(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    assert catalogue.latest_facts(KEY) is None
    save(1, name="x")
    save(2, kind="guard")
    save(3, partial=True, gaps=(Gap(path=b"rest", reason="budget"),))
    save(4, workspace_key=OTHER)
    save(5)
    catalogue.delete([f"ckpt_{5:016x}"], at=Instant(at=1))
    facts = not_none(catalogue.latest_facts(KEY))
    assert facts.at is not None
    assert (facts.newest.sequence, facts.newest.partial) == (3, True)
    assert facts.newest.gaps == '[{"path":"rest","reason":"budget"}]'
    assert (facts.at.sequence, facts.at.tree) == (1, f"{1:040x}")


def test_names_and_pins_change(catalogue: SqliteCatalogue, save: Save) -> None:
    one, two = save(1), save(2)
    catalogue.set_name(one.id, "shared")
    catalogue.set_name(two.id, "shared")
    catalogue.set_pinned(one.id, pinned=True)
    assert ids(catalogue.find(Query(called="shared"))) == [2, 1]
    assert [found.pinned for found in catalogue.find(Query())] == [False, True]
    catalogue.set_name(two.id, None)
    assert ids(catalogue.find(Query(called="shared"))) == [1]


def test_a_name_that_is_not_unicode_is_invalid(catalogue: SqliteCatalogue, save: Save) -> None:
    with pytest.raises(Invalid):
        catalogue.set_name(save(1).id, "x\udcff")


def test_damage_is_recorded_and_taken_back(catalogue: SqliteCatalogue, save: Save) -> None:
    """K4."""
    one, two = save(1), save(2)
    catalogue.set_damaged({one.id: "lost a\udcff", two.id: "lost"})
    catalogue.set_damaged({two.id: None})
    assert [found.damaged for found in catalogue.find(Query())] == [None, "lost a\\udcff"]
    assert catalogue.fault() is None


def test_a_deleted_checkpoint_is_seen_only_when_asked_for(catalogue: SqliteCatalogue, save: Save) -> None:
    one = save(1)
    save(2)
    catalogue.delete([one.id], at=Instant(at=77))
    assert ids(catalogue.find(Query())) == [2]
    assert ids(catalogue.find(Query(deleted=True))) == [2, 1]
    assert catalogue.count(KEY) == 1
    gone = not_none(catalogue.get(one.id))
    assert gone.deleted_at == 77
    catalogue.undelete([one.id])
    assert catalogue.get(one.id) == one


def test_a_second_deletion_keeps_the_first_time(catalogue: SqliteCatalogue, save: Save) -> None:
    one = save(1)
    catalogue.delete([one.id], at=Instant(at=77))
    catalogue.delete([one.id], at=Instant(at=99))
    gone = not_none(catalogue.get(one.id))
    assert gone.deleted_at == 77


def test_deleting_is_all_or_nothing(catalogue: SqliteCatalogue, save: Save) -> None:
    one = save(1)
    with pytest.raises(NotFound):
        catalogue.delete([one.id, "ckpt_ffffffffffffffff"], at=Instant(at=1))
    assert catalogue.count() == 1


def test_what_is_not_unicode_or_beyond_all_numbers_finds_nothing_amiss(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    save(1)
    assert catalogue.find(Query(called="\udcff")) == []
    assert catalogue.find(Query(name="*\udcff")) == []
    assert catalogue.get("\udcff") is None
    assert catalogue.workspace("\udcff") is None
    assert ids(catalogue.find(Query(limit=1 << 80, offset=0, since=-(1 << 80), until=1 << 80))) == [1]
    assert catalogue.find(Query(offset=1 << 80)) == []


def test_a_glob_fits_the_message_where_there_is_no_name(catalogue: SqliteCatalogue, save: Save) -> None:
    """The first line of it, as lists show it."""
    save(1, message="step 14: add nutmeg\nand cloves")
    two = save(2, message="step 15: add nutmeg")
    save(3, message="")
    catalogue.set_name(two.id, "spice")
    assert ids(catalogue.find(Query(name="*nutmeg*"))) == [1]
    assert ids(catalogue.find(Query(name="sp*"))) == [2]
    assert catalogue.find(Query(name="*cloves*")) == []
    assert ids(catalogue.find(Query(name="*"))) == [2, 1]


def test_what_is_not_there_cannot_be_changed(catalogue: SqliteCatalogue) -> None:
    with pytest.raises(NotFound):
        catalogue.set_name("ckpt_0", "x")
    with pytest.raises(NotFound):
        catalogue.set_undone("op_0", undone=True)
    with pytest.raises(NotFound):
        catalogue.attach("none", path="/x")


def test_commits_leave_out_what_was_deleted_before_a_time(catalogue: SqliteCatalogue, save: Save) -> None:
    """Invariant 4."""
    for number in (1, 2, 3):
        save(number)
    catalogue.delete([f"ckpt_{1:016x}"], at=Instant(at=10))
    catalogue.delete([f"ckpt_{2:016x}"], at=Instant(at=20))
    assert [int(commit, 16) for commit in catalogue.commits()] == [1, 2, 3]
    assert [int(commit, 16) for commit in catalogue.commits(deleted_after=15)] == [2, 3]


def test_forgetting_drops_only_old_deletions(catalogue: SqliteCatalogue, save: Save) -> None:
    """K3."""
    for number in (1, 2, 3):
        save(number)
    catalogue.delete([f"ckpt_{1:016x}"], at=Instant(at=10))
    catalogue.delete([f"ckpt_{2:016x}"], at=Instant(at=20))
    assert catalogue.forget(lambda deleted: deleted.at < 20) == [f"ckpt_{1:016x}"]
    assert ids(catalogue.find(Query(deleted=True))) == [3, 2]


def test_an_adopted_checkpoint_takes_its_old_number_if_it_is_free(
    catalogue: SqliteCatalogue, save: Save, manifest: Build
) -> None:
    """Invariant 6."""
    save(1)
    catalogue.adopt(manifest(9, name="kept"), commit="9" * 40)
    catalogue.adopt(manifest(10, sequence=9), commit="a" * 40)
    assert catalogue.adopt(manifest(9), commit="9" * 40) is None
    found = catalogue.find(Query())
    assert [(one.sequence, one.recovered, one.name) for one in found] == [
        (10, True, None),
        (9, True, "kept"),
        (1, False, None),
    ]
    assert save(11).sequence == 11


def test_old_operations_go_but_the_newest_of_each_workspace(catalogue: SqliteCatalogue) -> None:
    """K1: there is an end to them."""
    for number in range(6):
        catalogue.add_operation(Operation(id=f"op_{number}", workspace_key=KEY, type="delete", at=number))
    catalogue.add_operation(Operation(id="op_other", workspace_key=OTHER, type="delete", at=0))

    assert catalogue.forget_operations(is_old=lambda done: done.at < 2, keep=2) == 2
    assert [one.id for one in catalogue.operations(KEY)] == ["op_5", "op_4", "op_3", "op_2"]
    assert catalogue.forget_operations(is_old=lambda _done: True, keep=3) == 1
    assert [one.id for one in catalogue.operations(KEY)] == ["op_5", "op_4", "op_3"]
    assert [one.id for one in catalogue.operations(OTHER)] == ["op_other"]
    assert catalogue.back_up()
    assert catalogue.forget_operations(is_old=lambda _done: True, keep=3) == 0
    assert not catalogue.back_up()


def test_of_operations_that_stay_only_the_oldest_are_read(catalogue: SqliteCatalogue) -> None:
    """K1: each maintenance looks, and thousands may not be old yet."""
    for number in range(400):
        catalogue.add_operation(Operation(id=f"op_{number}", workspace_key=KEY, type="delete", at=number))
    read: list[int] = []

    def is_old(done: Operation) -> bool:
        read.append(done.at)
        return done.at < 150

    assert catalogue.forget_operations(is_old=is_old, keep=2) == 150
    assert read == [*range(300)]
    read.clear()
    assert catalogue.forget_operations(is_old=is_old, keep=2) == 0
    assert read == [*range(150, 250)]


def test_an_operation_done_while_the_clock_was_ahead_does_not_keep_old_ones(
    catalogue: SqliteCatalogue,
) -> None:
    """K1."""
    for number, at in enumerate([1 << 60, 1, 1 << 60, 2, 3]):
        catalogue.add_operation(Operation(id=f"op_{number}", workspace_key=KEY, type="delete", at=at))
    assert catalogue.forget_operations(is_old=lambda done: done.at < 3, keep=1) == 2
    assert [one.at for one in catalogue.operations(KEY)] == [3, 1 << 60, 1 << 60]


def test_operations_come_newest_first_with_their_present_state(catalogue: SqliteCatalogue) -> None:
    """T8."""
    steps = (Step(path=b"\xff\n", action="write"),)
    old = Operation(id="op_1", workspace_key=KEY, type="restore", at=9, steps=steps, guard="ckpt_1")
    new = Operation(id="op_2", workspace_key=KEY, type="delete", at=3, checkpoints=("ckpt_1", "ckpt_2"))
    other = Operation(id="op_3", workspace_key=OTHER, type="delete", at=3)
    for operation in (old, new, other):
        catalogue.add_operation(operation)
    catalogue.set_undone("op_2", undone=True)
    assert catalogue.operations(KEY) == [new.replace(undone=True), old]
    catalogue.set_undone("op_2", undone=False)
    assert catalogue.operations(KEY) == [new, old]


def test_some_operations_can_be_asked_for(catalogue: SqliteCatalogue) -> None:
    """T8."""
    made = [Operation(id=f"op_{number}", workspace_key=KEY, type="delete", at=3) for number in range(5)]
    for operation in made:
        catalogue.add_operation(operation)
    newest = made[::-1]
    assert catalogue.operations(KEY, limit=2) == newest[:2]
    assert catalogue.operations(KEY, limit=2, offset=2) == newest[2:4]
    assert catalogue.operations(KEY, limit=2, offset=4) == newest[4:]
    assert catalogue.operations(KEY, limit=2, offset=6) == []


def test_workspaces_have_paths_of_any_bytes(catalogue: SqliteCatalogue) -> None:
    """S19."""
    row = WorkspaceRow(key="dd", path="/a\udcff\nb", machine="m", created_at=4)
    catalogue.add_workspace(row)
    catalogue.add_workspace(row.replace(path="/ignored"))
    assert catalogue.workspace("dd") == row
    assert [found.path for found in catalogue.workspaces()] == [
        "/a\udcff\nb",
        "/home/a/other",
        "/home/a/project",
    ]
    catalogue.attach("dd", path="/z")
    assert catalogue.workspace("dd") == row.replace(path="/z")


def test_the_generation_changes_only_when_told(catalogue: SqliteCatalogue, save: Save) -> None:
    """Invariant 4."""
    first = catalogue.generation()
    save(1)
    assert catalogue.generation() == first
    catalogue.set_generation("1234567890123456")
    assert catalogue.generation() == "1234567890123456"


def test_ten_thousand_checkpoints_are_found_by_twenty(catalogue: SqliteCatalogue, manifest: Build) -> None:
    # One transaction for all, or the test would wait for ten thousand disk flushes.
    from lastgood.catalogue import rows

    born = [
        rows.birth(manifest(number), commit="0" * 40, name=None, pinned=False, recovered=False)
        for number in range(1, 10_001)
    ]
    marks = ", ".join("?" * len(born[0]))
    catalogue._database.write(
        lambda connection: connection.executemany(
            f"INSERT INTO checkpoint ({rows.BIRTH}) VALUES ({marks})", born
        )
    )
    assert ids(catalogue.find(Query(workspace_key=KEY, limit=20))) == list(range(10_000, 9_980, -1))
    assert catalogue.count(KEY) == 10_000
