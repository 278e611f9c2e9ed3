"""Plans carried out on real folders, against an oracle (rules T3 to T6)."""

from __future__ import annotations

import os
import tempfile

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastgood.restore.plan import inverse
from tools.forest import Field, Names, Node

names = st.sampled_from([b"a", b"a-b", b"a.b", b"b", b"c", b"\xff\n", b"-x", b"ign", b"ign2"])
modes = st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o000])
leaves = st.one_of(
    st.tuples(modes, st.sampled_from([b"", b"x", b"y"])), st.sampled_from(["a", "../b", "/nowhere"])
)


def _directories(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    mode = st.sampled_from([0o755, 0o700, 0o555, 0o2755])
    return st.tuples(mode, st.dictionaries(names, inner, max_size=4))


nodes: st.SearchStrategy[Node] = st.recursive(leaves, _directories, max_leaves=10)
trees: st.SearchStrategy[Names] = st.dictionaries(names, nodes, max_size=6)


def ignored(path: bytes) -> bool:
    return any(part.startswith(b"ign") for part in path.split(b"/"))


def captured(names_: Names) -> Names:
    """A tree as a save would hold it."""
    held: Names = {}
    for name, node in names_.items():
        if not ignored(name):
            inner = _inner(node)
            held[name] = node if inner is None else (_mode(node), captured(inner))
    return held


def remains(names_: Names) -> Names:
    """What a restore must not take away, with the directories above it."""
    kept: Names = {}
    for name, node in names_.items():
        inner = _inner(node)
        if ignored(name):
            kept[name] = node
        elif inner is not None and remains(inner):
            kept[name] = (_mode(node), remains(inner))
    return kept


def expected(present: Names, target: Names) -> Names:
    result: Names = {}
    kept = remains(present)
    for name, want in target.items():
        have, wanted = present.get(name), _inner(want)
        found = None if have is None else _inner(have)
        if wanted is None:
            result[name] = kept.get(name, want)
        elif have is None or found is None:
            result[name] = (_mode(want) & 0o777, expected({}, wanted))
        else:
            result[name] = (_mode(want) & 0o777 | _mode(have) & 0o7000, expected(found, wanted))
    return kept | result


def _inner(node: Node) -> Names | None:
    return node[1] if not isinstance(node, str) and isinstance(node[1], dict) else None


def _mode(node: Node) -> int:
    assert not isinstance(node, str)
    return node[0]


def _field() -> tuple[tempfile.TemporaryDirectory[bytes], Field]:
    folder = tempfile.TemporaryDirectory(dir=os.fsencode(tempfile.gettempdir()))
    return folder, Field(folder.name)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(present=trees, target=trees.map(captured))
def test_restoring_gives_the_target_and_keeps_what_was_ignored(present: Names, target: Names) -> None:
    folder, field = _field()
    with folder:
        field.lay(present)
        steps = field.plan(target, ignored=ignored)
        assert len({step.path for step in steps}) == len(steps)
        outcomes = field.apply(steps)
        assert [one.path for one in outcomes] == [step.path for step in steps]
        assert not [one for one in outcomes if one.result == "failed"]
        assert _plain(field.now()) == _plain(expected(present, target))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(present=trees.map(captured), target=trees.map(captured))
def test_a_restore_taken_back_gives_what_was_there(present: Names, target: Names) -> None:
    folder, field = _field()
    with folder:
        field.lay(present)
        before = field.now()
        steps = field.plan(target)
        field.apply(steps)
        after = field.now()
        field.apply(inverse(steps))
        assert _plain(field.now()) == _plain(before)
        field.apply(inverse(inverse(steps)))
        assert _plain(field.now()) == _plain(after)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(present=trees.map(captured), target=trees.map(captured))
def test_a_second_restore_has_nothing_to_do(present: Names, target: Names) -> None:
    folder, field = _field()
    with folder:
        field.lay(present)
        field.apply(field.plan(target))
        assert field.plan(target) == ()


def _plain(names_: Names) -> Names:
    """A tree without the bits that a restore never gives, and that new directories inherit."""
    plain: Names = {}
    for name, node in names_.items():
        inner = _inner(node)
        plain[name] = node if inner is None else (_mode(node) & 0o777, _plain(inner))
    return plain
