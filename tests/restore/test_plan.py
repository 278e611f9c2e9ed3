"""What a restore would do to every path (rules T1 to T6, T16)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lastgood.errors import NotFound, Unsafe
from lastgood.model.operation import Step
from lastgood.model.tree import DIRECTORY, FILE, Entry, Gap, StoredTree, TreeId
from lastgood.restore.plan import DeletionEvidence, conflicts, identify, inverse, plan, too_many_deletions
from lastgood.restore.steps import is_foreign
from tools.forest import Forest, Ground, Names, Node
from tools.values import not_none

A: Node = (0o644, b"a")
B: Node = (0o644, b"b")
EMPTY: Node = (0o755, {})


def folder(**names: Node) -> Node:
    return (0o755, {name.encode(): node for name, node in names.items()})


class Case:
    """A workspace, a target and what is known about both."""

    def __init__(self, present: Names, target: Names) -> None:
        self.forest = Forest()
        self.present = self.forest.plant(present)
        self.target = self.forest.plant(target)
        self.left_out: dict[bytes, Sequence[bytes]] = {}
        self.ignored: Callable[[bytes], bool | None] = lambda _path: False
        self.ignored_then: Callable[[bytes], bool | None] = lambda _path: False
        self.gaps_now: tuple[Gap, ...] = ()
        self.gaps_then: tuple[Gap, ...] = ()
        self.seen: dict[bytes, Entry] = {}

    def steps(self, *paths: bytes, discard: bool = False) -> tuple[Step, ...]:
        ground = Ground(self.forest, self.present, left_out=self.left_out, ignored=self.ignored)

        def ignored_then(path: bytes, *, directory: bool) -> bool | None:
            return self.ignored_then(path)

        evidence = DeletionEvidence(
            ignored_then=ignored_then,
            look=self.seen.get,
            gaps_now=self.gaps_now,
            gaps_then=self.gaps_then,
        )
        tree = StoredTree(self.target, self.forest.directory)
        return plan(tree, ground, evidence=evidence, paths=paths, discard=discard)

    def told(self, *paths: bytes) -> list[str]:
        return [told(step) for step in self.steps(*paths)]

    def look(self, path: bytes, node: Node) -> None:
        """Let something stand at a path that the scan left out."""
        above, _, name = path.rpartition(b"/")
        entry = self.forest.entry(name, node)
        self.seen[path] = entry.replace(oid=b"") if entry.kind == DIRECTORY else entry
        self.left_out[above] = [*self.left_out.get(above, ()), name]


def told(step: Step) -> str:
    reason = f" ({step.reason})" if step.reason else ""
    forced = "!" if step.forced else ""
    return f"{step.action}{forced} {step.path.decode()}{reason}"


def test_additions_edits_and_deletions_come_out() -> None:
    case = Case({b"edited": A, b"new": A, b"same": A}, {b"edited": B, b"gone": A, b"same": A})
    assert case.told() == ["write edited", "write gone", "delete new"]


def test_files_already_right_get_no_step() -> None:
    assert Case({b"a": A, b"d": folder(x=A)}, {b"a": A, b"d": folder(x=A)}).steps() == ()


def test_permissions_alone_are_a_chmod() -> None:
    case = Case({b"a": A, b"d": folder(x=A)}, {b"a": (0o600, b"a"), b"d": (0o700, {b"x": A})})
    assert case.told() == ["chmod a", "chmod d"]


def test_special_bits_are_never_wanted_and_never_a_difference() -> None:
    case = Case({b"same": (0o755, b"a")}, {b"new": (0o6755, b"a"), b"same": (0o4755, b"a")})
    [step] = case.steps()
    assert step.path == b"new"
    assert not_none(step.want).mode == 0o755


def test_directories_come_before_files_and_go_after_them() -> None:
    case = Case({b"old": folder(deep=folder(x=A))}, {b"new": folder(deep=folder(x=A))})
    assert case.told() == [
        "mkdir new",
        "mkdir new/deep",
        "write new/deep/x",
        "delete old/deep/x",
        "rmdir old/deep",
        "rmdir old",
    ]


def test_a_directory_takes_the_place_of_a_file() -> None:
    steps = Case({b"a": A}, {b"a": folder(x=B)}).steps()
    assert [told(step) for step in steps] == ["mkdir a", "write a/x"]
    assert not_none(steps[0].have).kind == FILE


def test_a_file_takes_the_place_of_a_directory() -> None:
    steps = Case({b"a": folder(d=folder(y=A), x=B)}, {b"a": A}).steps()
    assert [told(step) for step in steps] == ["write a", "delete a/d/y", "delete a/x", "rmdir a/d"]
    assert not_none(steps[0].have).kind == DIRECTORY


def test_a_link_takes_the_place_of_a_file() -> None:
    assert Case({b"a": A}, {b"a": "elsewhere"}).told() == ["write a"]


def test_what_is_ignored_now_is_kept() -> None:
    case = Case({b"log": A}, {})
    case.ignored = lambda path: path == b"log"
    assert case.told() == ["keep log (ignored)"]


def test_what_was_ignored_then_is_kept() -> None:
    case = Case({b"log": A}, {})
    case.ignored_then = lambda path: path == b"log"
    assert case.told() == ["keep log (was ignored)"]


def test_with_unreadable_rules_nothing_is_deleted() -> None:
    case = Case({b"a": A, b"d": EMPTY}, {})
    case.ignored = lambda _path: None
    assert case.told() == [
        "keep a (its ignore rules cannot be read)",
        "keep d (its ignore rules cannot be read)",
    ]
    case.ignored, case.ignored_then = (lambda _path: False), (lambda _path: None)
    assert case.told()[0] == "keep a (the ignore rules of then cannot be read)"


def test_a_gap_is_never_taken_for_a_deletion() -> None:
    case = Case({b"big": A, b"d": folder(x=A)}, {b"d": EMPTY})
    case.gaps_then = (Gap(path=b"big", reason="too-large"), Gap(path=b"d", reason="unreadable"))
    assert case.told() == ["keep big (not held then: too-large)", "keep d/x (not held then: unreadable)"]
    case.gaps_then, case.gaps_now = (), (Gap(path=b"", reason="budget"),)
    assert case.told() == ["keep big (not saved: budget)", "keep d/x (not saved: budget)"]


def test_an_ignored_empty_directory_is_kept() -> None:
    case = Case({b"d": EMPTY}, {})
    case.ignored = lambda path: path == b"d"
    assert case.told() == ["keep d (ignored)"]


def test_a_directory_that_holds_what_was_not_captured_stays() -> None:
    case = Case({b"d": folder(x=A)}, {})
    case.left_out = {b"d": [b"cache"]}
    assert case.told() == ["delete d/x", "keep d (holds what was not captured)"]


def test_a_nested_repository_stays() -> None:
    case = Case({b"lib": folder(x=A), b"lib2": folder(sub=folder(x=A))}, {})
    case.left_out = {b"lib": [b".git"], b"lib2/sub": [b".git"]}
    assert case.told() == [
        "delete lib/x",
        "delete lib2/sub/x",
        "keep lib (holds a repository)",
        "keep lib2/sub (holds a repository)",
    ]


def test_a_file_does_not_take_the_place_of_a_directory_in_which_something_stays() -> None:
    case = Case({b"build": folder(a=A)}, {b"build": A})
    case.left_out = {b"build": [b"out.o"]}
    assert case.told() == [
        "delete build/a",
        "skip build (a directory is in the way, and build/out.o in it stays)",
    ]


def test_a_file_does_not_take_the_place_of_a_directory_that_was_not_captured() -> None:
    case = Case({}, {b"build": A})
    case.look(b"build", EMPTY)
    case.ignored = lambda path: path == b"build"
    assert case.told() == ["skip build (a directory is in the way (ignored))"]


def test_an_ignored_file_that_is_overwritten_is_forced_into_the_guard() -> None:
    case = Case({}, {b".env": A})
    case.look(b".env", B)
    [step] = case.steps()
    assert told(step) == "write! .env"
    assert step.have == case.seen[b".env"]


def test_an_ignored_file_that_is_right_already_is_left_alone() -> None:
    case = Case({}, {b".env": A})
    case.look(b".env", A)
    assert case.steps() == ()


def test_a_directory_takes_the_place_of_an_ignored_file_by_force() -> None:
    case = Case({}, {b"out": folder(x=A)})
    case.look(b"out", B)
    assert case.told() == ["mkdir! out", "write out/x"]


def test_an_uncaptured_directory_is_looked_into_only_where_the_target_wants_something() -> None:
    case = Case({}, {b"out": folder(same=A, x=A)})
    case.look(b"out", EMPTY)
    case.seen[b"out/x"] = case.forest.entry(b"x", B)
    case.seen[b"out/same"] = case.forest.entry(b"same", A)
    case.seen[b"out/other"] = case.forest.entry(b"other", A)
    assert case.told() == ["write! out/x"]


def test_what_no_guard_can_hold_is_not_overwritten_unless_discarded() -> None:
    case = Case({}, {b"pipe": A})
    case.look(b"pipe", A)
    case.seen[b"pipe"] = Entry(name=b"pipe", kind=FILE, mode=0o644, oid=b"")
    with pytest.raises(Unsafe) as caught:
        case.steps()
    assert caught.value.details == {"paths": ["pipe"]}
    discarded = case.steps(discard=True)
    assert [step.action for step in discarded] == ["write"]
    assert [told(step) for step in inverse(discarded)] == ["skip pipe (what was here could not be copied)"]


def test_a_scope_touches_nothing_else() -> None:
    case = Case({b"a": A, b"d": folder(x=A, y=A), b"new": A}, {b"a": B, b"d": folder(x=B, y=B)})
    assert case.told(b"d/x", b"new") == ["write d/x", "delete new"]
    assert case.told(b"d", b"d/x") == ["write d/x", "write d/y"]


def test_a_scope_makes_the_directories_above_it() -> None:
    case = Case({b"d": A}, {b"d": (0o700, {b"e": folder(x=A, y=A)}), b"z": A})
    steps = case.steps(b"d/e/x", b"d/e/y")
    assert [told(step) for step in steps] == ["mkdir d", "mkdir d/e", "write d/e/x", "write d/e/y"]
    assert steps[0].have is not None


def test_a_scope_leaves_the_directories_above_it() -> None:
    case = Case({b"d": (0o700, {b"x": A})}, {})
    assert case.told(b"d/x") == ["delete d/x"]
    case = Case({b"d": (0o700, {b"x": A})}, {b"d": folder(x=B)})
    assert case.told(b"d/x") == ["write d/x"]


def test_a_scope_that_is_nowhere_is_not_found() -> None:
    with pytest.raises(NotFound) as caught:
        Case({b"a": A}, {b"a": A}).steps(b"a/b")
    assert caught.value.details == {"path": "a/b"}


def test_a_misspelt_name_of_what_only_the_target_has_is_told_from_its_folder() -> None:
    case = Case({b"d": folder(other=A)}, {b"d": folder(main=B, other=A)})
    with pytest.raises(NotFound) as caught:
        case.steps(b"d/mian")
    assert caught.value.details["near"] == "d/main"


def test_a_scope_that_was_a_gap_is_skipped_by_name() -> None:
    case = Case({}, {})
    case.gaps_then = (Gap(path=b"big", reason="too-large"),)
    assert case.told(b"big") == ["skip big (not held then: too-large)"]


def test_a_scope_that_is_ignored_and_unknown_to_the_target_is_kept() -> None:
    case = Case({}, {})
    case.look(b"node_modules", EMPTY)
    case.ignored = lambda path: path == b"node_modules"
    assert case.told(b"node_modules") == ["keep node_modules (ignored)"]


def test_the_whole_is_a_scope() -> None:
    case = Case({b"a": A}, {b"b": A})
    assert case.told(b"", b"a") == case.told()


def test_a_hostile_target_is_refused_while_planning() -> None:
    case = Case({}, {b"d": folder(**{".GIT": folder(config=A)})})
    with pytest.raises(Unsafe) as caught:
        case.steps()
    assert caught.value.details == {"paths": ["d/.GIT"]}


def test_a_bomb_is_refused_while_planning() -> None:
    case = Case({}, {})
    tree = case.forest.plant({b"x": A})
    for _ in range(30):
        entries = [Entry(name=b"d%d" % n, kind=DIRECTORY, mode=0o755, oid=tree.tree) for n in range(2)]
        tree = case.forest.plant_entries(entries)
    case.target = tree
    with pytest.raises(Unsafe):
        case.steps()


def test_equal_directories_are_not_read() -> None:
    case = Case({b"d": folder(x=A), b"y": A}, {b"d": folder(x=A), b"y": B})
    read: list[TreeId] = []

    def reading(tree: TreeId) -> Sequence[Entry]:
        read.append(tree)
        return case.forest.directory(tree)

    evidence = DeletionEvidence(ignored_then=lambda path, *, directory: False, look=case.seen.get)  # noqa: ARG005 - the protocol's
    plan(StoredTree(case.target, reading), Ground(case.forest, case.present), evidence=evidence)
    assert read == [case.target]


def test_a_tree_deeper_than_the_recursion_limit_is_planned() -> None:
    case = Case({}, {})
    tree = case.forest.plant({b"x": A})
    for _ in range(1500):
        tree = case.forest.plant_entries([Entry(name=b"d", kind=DIRECTORY, mode=0o755, oid=tree.tree)])
    deep, shallow = tree, case.target
    case.target = deep
    assert len(case.steps()) == 1501
    case.present, case.target = deep, shallow
    assert len(case.steps()) == 1501


def test_the_same_plan_has_the_same_id() -> None:
    def id_of(case: Case, target: str = "ckpt_1") -> str:
        return identify(case.steps(), target=target, workspace_key="k")

    assert id_of(Case({b"a": A}, {b"a": B})) == id_of(Case({b"a": A}, {b"a": B}))
    assert id_of(Case({b"a": A}, {b"a": B})) != id_of(Case({b"a": A}, {}))
    assert id_of(Case({b"a": A}, {b"a": B})) != id_of(Case({b"a": A}, {b"a": B}), "ckpt_2")
    assert id_of(Case({}, {})).startswith("plan_")


def test_what_a_plan_overrides_is_part_of_its_id() -> None:
    """T14, T16: who looked at a plan agreed to no more."""
    ids = {
        identify((), target="ckpt_1", workspace_key="k", discard=discard, force=force)
        for discard in (False, True)
        for force in (False, True)
    }
    assert len(ids) == 4


def test_a_path_that_changed_since_the_plan_is_a_conflict() -> None:
    case = Case({b"a": A, b"b": A, b"c": A}, {b"a": B, b"b": B, b"n": A})
    held = {b"a": case.forest.entry(b"a", A), b"b": case.forest.entry(b"b", (0o600, b"a"))}
    assert conflicts(case.steps(), held.get) == (b"b", b"c")
    held[b"n"] = held[b"a"]
    assert b"n" in conflicts(case.steps(), held.get)


def test_steps_taken_back_say_what_they_find_and_what_they_want() -> None:
    case = Case(
        {b"d": folder(x=A), b"f": A, b"m": A, b"new": A, b"gone": EMPTY},
        {b"d": A, b"f": folder(x=A), b"m": (0o600, b"a"), b"old": A, b"made": EMPTY},
    )
    steps = case.steps()
    back = inverse(steps)
    assert [told(step) for step in back] == [
        "mkdir d",
        "mkdir gone",
        "write d/x",
        "write f",
        "write new",
        "chmod m",
        "delete f/x",
        "delete old",
        "rmdir made",
    ]
    assert inverse(back) == steps


def test_consent_is_asked_for_many_deletions() -> None:
    def deleting(number: int) -> list[Step]:
        return [Step(path=b"%d" % n, action="delete") for n in range(number)]

    assert not too_many_deletions(deleting(49), 49)
    assert too_many_deletions(deleting(50), 99)
    assert not too_many_deletions(deleting(50), 100)
    assert not too_many_deletions(deleting(1000), 100_000)
    assert too_many_deletions(deleting(1001), 100_000)


CLOSED = Entry(name=b"d", kind=DIRECTORY, mode=0o550, oid=b"")


@pytest.mark.parametrize(
    ("present", "foreign"),
    [
        (None, False),
        (CLOSED, False),
        (CLOSED.replace(mode=0o750), False),
        (CLOSED.replace(mode=0o570), True),
        (CLOSED.replace(mode=0o551), True),
        (CLOSED.replace(mode=0o500), True),
        (Entry(name=b"d", kind=FILE, mode=0o644, oid=b"1" * 20), True),
    ],
)
def test_a_directory_is_ours_while_only_its_owner_was_let_in(present: Entry | None, foreign: object) -> None:
    """T7."""
    step = Step(path=b"d", action="chmod", have=CLOSED.replace(mode=0o777), want=CLOSED)
    assert is_foreign(step, present) is foreign
