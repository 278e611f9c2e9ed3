"""JSON as the standard library reads it, and what is stored in it: damage is told apart from data."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import Damaged, Unsupported
from lastgood.model import canonical, checkpoint, operation
from lastgood.model.canonical import dumps, loads
from lastgood.model.checkpoint import (
    Actor,
    GitState,
    IgnoreState,
    Manifest,
    Metrics,
    NestedRepository,
    TreeRef,
)
from lastgood.model.operation import Journal, Operation, RestorePlan, Step
from lastgood.model.tree import Counts, Entry, Gap

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), _VALUES), st.sampled_from(["", "\n", " \r\n\t"]))
def test_an_object_is_read_as_json_does(value: dict[str, object], end: str) -> None:
    text = json.dumps(value) + end
    assert loads(text, what="it") == loads(text.encode(), what="it") == json.loads(text)
    assert loads(" " + text, what="it") == json.loads(text)
    assert loads(dumps(value), what="it") == value


def test_what_is_wrong_is_told_also_before_the_library_was_ever_loaded() -> None:
    program = """
import sys
from lastgood.model.canonical import loads
from lastgood.errors import Damaged
assert loads('{"a":[1,{}]}', what="it") == {"a": [1, {}]}
assert "json" not in sys.modules
for text in ("{", '{"a":01}', "[1,", '{"a":"x', "tru"):
    for module in [name for name in sys.modules if name.startswith("json")]:
        del sys.modules[module]
    try:
        loads(text, what="it")
    except Damaged:
        continue
    sys.exit(text)
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env={"PYTHONPATH": ":".join(sys.path)}, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "x",
        '{"a":1}x',
        '{"a":01}',
        "{'a':1}",
        '{"a":"\n"}',
        "[1]",
        '"x"',
        "1",
        '{"a":' * 100_000,
    ],
)
def test_what_is_no_object_is_damage(text: str) -> None:
    with pytest.raises(Damaged, match="it is not"):
        loads(text, what="it")
    with pytest.raises(Damaged, match="it is not"):
        loads(text.encode() + b"\xff", what="it")


# Manifests, operations and journals survive the round trip, and damage is told apart from data.


paths = st.binary(min_size=1, max_size=20).filter(lambda path: b"\0" not in path)

oids = st.binary(min_size=20, max_size=20)

entries = st.builds(
    Entry,
    name=paths,
    kind=st.sampled_from(["file", "link", "directory"]),
    mode=st.integers(0, 0o7777),
    oid=oids,
    modes=st.one_of(st.just(b""), oids),
)

steps = st.builds(
    Step,
    path=paths,
    action=st.sampled_from(["write", "delete", "mkdir", "rmdir", "chmod", "keep", "skip"]),
    want=st.one_of(st.none(), entries),
    have=st.one_of(st.none(), entries),
    reason=st.one_of(st.none(), st.text(max_size=5)),
    forced=st.booleans(),
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

manifests = st.builds(
    Manifest,
    id=st.just("ckpt_0123456789abcdef"),
    workspace=texts,
    workspace_key=texts,
    kind=st.sampled_from(["manual", "guard", "turn"]),
    message=texts,
    name=st.one_of(st.none(), texts),
    created_at=st.integers(0, 4_000_000_000 * 10**9),
    sequence=st.integers(1, 10**9),
    previous=st.none(),
    root=st.builds(TreeRef, tree=st.just("ab" * 20), modes=st.sampled_from(["", "cd" * 20])),
    changes=st.builds(Counts, added=st.integers(0, 9), modified=st.integers(0, 9), deleted=st.integers(0, 9)),
    files=st.integers(0, 10**6),
    size=st.integers(0, 10**12),
    ignored=st.integers(0, 10**6),
    gaps=st.lists(
        st.builds(
            Gap,
            path=paths,
            reason=st.sampled_from(["too-large", "unstable"]),
            size=st.one_of(st.none(), st.integers(0, 10**12)),
        ),
        max_size=3,
    ).map(tuple),
    partial=st.booleans(),
    private=st.lists(paths, max_size=2).map(tuple),
    forced=st.lists(paths, max_size=2).map(tuple),
    actor=st.builds(Actor, type=st.just("person"), name=st.one_of(st.none(), texts)),
    git=st.one_of(
        st.none(),
        st.builds(
            GitState,
            head=st.one_of(st.none(), st.just("ef" * 20)),
            branch=st.one_of(st.none(), texts),
            dirty=st.one_of(st.none(), st.lists(paths, max_size=2).map(tuple)),
            operation=st.sampled_from([None, "merge", "rebase"]),
            nested=st.lists(st.builds(NestedRepository, path=paths, head=st.none()), max_size=2).map(tuple),
        ),
    ),
    ignore=st.builds(
        IgnoreState,
        excludes=st.lists(texts, max_size=2).map(tuple),
        info_exclude=st.binary(max_size=9),
        readable=st.booleans(),
    ),
    metrics=st.builds(Metrics, save_ms=st.floats(0, 10**6), stored_bytes=st.integers(0, 10**9)),
    metadata=st.dictionaries(texts, texts, max_size=2),
)


@given(manifests)
def test_a_manifest_survives_the_round_trip(original: Manifest) -> None:
    assert checkpoint.decode(checkpoint.encode(original)) == original


@given(manifests)
def test_a_manifest_is_canonical_json_for_any_reader(original: Manifest) -> None:
    text = checkpoint.encode(original)

    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode() == text


def test_a_manifest_of_a_newer_format_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="manifest/3"):
        checkpoint.decode(b'{"schema":"lastgood.manifest/3"}')


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"{}", b'{"schema":"lastgood.manifest/1"}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_manifest_is_damaged(text: bytes) -> None:
    with pytest.raises(Damaged):
        checkpoint.decode(text)


@given(st.lists(steps, max_size=3).map(tuple))
def test_an_operation_survives_the_round_trip(some: tuple[Step, ...]) -> None:
    original = Operation(id="op_1", workspace_key="k", type="restore", at=5, target="t", steps=some)

    assert operation.OPERATION.decode(operation.OPERATION.encode(original)) == original


@given(
    st.lists(steps, max_size=3).map(tuple),
    st.lists(paths, max_size=2).map(tuple),
    st.dictionaries(paths, st.integers(0, 0o7777), max_size=3),
)
def test_a_journal_survives_the_round_trip(
    some: tuple[Step, ...], scope: tuple[bytes, ...], closed: dict[bytes, int]
) -> None:
    plan = RestorePlan(id="plan_1", target="t", workspace_key="k", paths=scope, steps=some, discard=True)
    original = Journal(
        operation="op_1",
        type="undo",
        of="op_0",
        started_at=7,
        guard="g",
        target_tree="x",
        plan=plan,
        closed=closed,
    )

    assert operation.JOURNAL.decode(operation.JOURNAL.encode(original)) == original


def test_a_journal_of_a_release_that_names_no_closed_directories_can_be_read() -> None:
    plan = RestorePlan(id="plan_1", target="t", workspace_key="k", paths=(), steps=())
    journal = Journal(
        operation="op_1", type="restore", of=None, started_at=7, guard="g", target_tree="x", plan=plan
    )
    record = json.loads(operation.JOURNAL.encode(journal))
    del record["closed"]

    assert operation.JOURNAL.decode(json.dumps(record).encode()) == journal


@given(st.integers(-(10**9), 40 * 10**9))
def test_a_moment_reads_as_the_calendar_says(seconds: int) -> None:
    expected = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")

    assert canonical.iso(seconds * 10**9)[:19] == expected.rjust(19, "0")


@given(st.dates())
def test_days_undoes_civil(date: object) -> None:
    day = datetime.fromisoformat(str(date)).replace(tzinfo=UTC)
    number = canonical.days(day.year, day.month, day.day)

    assert canonical.civil(number) == (day.year, day.month, day.day)


@given(
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(), texts, st.floats(allow_nan=False, allow_infinity=False)
        ),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
        max_leaves=8,
    )
)
def test_canonical_json_means_what_json_means(value: object) -> None:
    assert json.loads(canonical.dumps(value)) == value
