"""What is put into a ledger is there, in whatever process, until it is dropped."""

from __future__ import annotations

import math
import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lastgood
from lastgood.errors import Damaged, Invalid, Storage, Unsafe, Unsupported, Usage
from lastgood.ledger import Ledger, LedgerReader
from lastgood.ledger.cells import pack, piece_id, references, unpack
from lastgood.workspace import Workspace
from ledger.conftest import Forge
from tools.forks import ended, forked
from tools.values import not_none


def keys(ledger: Ledger, book: str, **how: object) -> list[str]:
    return ledger.look(lambda page: [one.key for one in page.entries(book, **how)])  # type: ignore[arg-type]


def body(ledger: Ledger, book: str, key: str) -> object:
    def read(page: LedgerReader) -> object:
        entry = page.entry(book, key)
        return None if entry is None else page.body(entry)

    return ledger.look(read)


def test_entries_are_found_by_key_prefix_order_and_mark(ledger: Ledger) -> None:
    assert ledger.look(lambda page: page.books()) == ["book", "other"]
    assert keys(ledger, "book") == [f"key {number}" for number in range(5)]
    assert keys(ledger, "book", newest_first=True, limit=2) == ["key 4", "key 3"]
    assert keys(ledger, "book", prefix="key", below="key 2") == ["key 0", "key 1"]
    assert keys(ledger, "book", prefix="nothing") == []
    assert ledger.look(lambda page: page.marked("odd")) == [("book", "key 1"), ("book", "key 3")]
    assert ledger.look(lambda page: page.marked("odd", book="other")) == []
    assert ledger.look(lambda page: page.entry("book", "key 9")) is None
    assert body(ledger, "book", "key 3") == ["text 3 " * 60]


def test_another_process_sees_what_was_put(ledger: Ledger, reopened: Callable[[], Ledger]) -> None:
    other = reopened()
    assert keys(other, "book") == keys(ledger, "book")
    other.change(lambda book: book.put("book", "key 9"))
    assert "key 9" in keys(ledger, "book")
    ledger.change(lambda book: book.drop("book", ["key 9", "never was"]))
    assert "key 9" not in keys(other, "book")


def test_spaces_and_workspaces_are_apart(ledger: Ledger, tmp_path: Path, project: Path, store: Path) -> None:
    (tmp_path / "second").mkdir()
    with (
        lastgood.open(project, store=store) as same,
        lastgood.open(tmp_path / "second", store=store) as other,
    ):
        assert same.ledger("another space").look(lambda page: page.books()) == []
        assert other.ledger("test").look(lambda page: page.books()) == []
        other.ledger("test").change(lambda book: book.put("book", "key 0", body="of the other"))
        assert body(other.ledger("test"), "book", "key 0") == "of the other"
    assert body(ledger, "book", "key 0") == ["text 0 " * 60]


def test_an_entry_is_replaced_and_what_it_held_is_freed(ledger: Ledger, store: Path) -> None:
    for number in range(300):
        text = f"{number} " * 2000
        ledger.change(lambda book, text=text: book.put("once", "key", body=text))  # type: ignore[misc]
    assert body(ledger, "once", "key") == "299 " * 2000
    assert keys(ledger, "once") == ["key"]
    assert (store / "ledger.sqlite3").stat().st_size < 1_000_000
    assert faults(store, ledger) == ()


def test_a_book_is_copied_whole_and_each_goes_on_alone(ledger: Ledger, store: Path) -> None:
    ledger.change(lambda book: book.copy_book("book", to="copy"))
    ledger.change(lambda book: book.drop("book", ["key 0"]))
    ledger.change(lambda book: book.put("copy", "key 1", body="changed"))
    assert len(keys(ledger, "copy")) == 5
    assert body(ledger, "copy", "key 0") == ["text 0 " * 60]
    assert body(ledger, "book", "key 1") == ["text 1 " * 60]
    ledger.change(lambda book: book.drop_book("book"))
    assert ledger.look(lambda page: page.books()) == ["copy", "other"]
    assert body(ledger, "copy", "key 4") == ["text 4 " * 60]
    assert faults(store, ledger) == ()


def faults(store: Path, _ledger: Ledger) -> tuple[str, ...]:
    with lastgood.open(store.parent / "project", store=store, maintenance="off") as workspace:
        return workspace.verify().faults


def test_a_head_that_names_one_value_twice_comes_back_as_two(ledger: Ledger) -> None:
    twice = ["a"]
    ledger.change(lambda book: book.put("book", "key", head=[twice, twice]))

    def head() -> list[list[str]]:
        entry = ledger.look(lambda page: page.entry("book", "key"))
        assert entry is not None
        assert isinstance(entry.head, list)
        return entry.head

    head()[0].append("b")
    changed = head()
    changed[0].append("b")
    assert changed == [["a", "b"], ["a"]]


def test_a_book_that_was_removed_and_made_again_holds_nothing_of_the_old(ledger: Ledger) -> None:
    assert body(ledger, "other", "only") == ["z" * 400]
    ledger.change(lambda book: book.drop_book("other"))
    assert keys(ledger, "other") == []
    ledger.change(lambda book: book.put("other", "new", body=["z" * 400]))
    assert keys(ledger, "other") == ["new"]
    assert body(ledger, "other", "new") == ["z" * 400]


def test_a_change_that_fails_leaves_everything_as_it_was(ledger: Ledger) -> None:
    def half(book: object) -> None:
        book.put("book", "key 0", body="half done")  # type: ignore[attr-defined]
        book.put("new", "key", body="half done")  # type: ignore[attr-defined]
        book.put("book", "key 1", body=object())  # type: ignore[attr-defined]

    with pytest.raises(Invalid):
        ledger.change(half)
    assert body(ledger, "book", "key 0") == ["text 0 " * 60]
    assert ledger.look(lambda page: page.books()) == ["book", "other"]
    ledger.change(lambda book: book.put("new", "key", body="whole"))
    assert body(ledger, "new", "key") == "whole"


def test_any_text_can_name_a_book_and_an_entry(ledger: Ledger) -> None:
    names = ["", "a\0b", "ä", "\udcff", "🙂", "' OR 1=1 --", "x" * 5000]
    for name in names:
        ledger.change(lambda book, name=name: book.put(name, name, mark=name, body=name))  # type: ignore[misc]
    for name in names:
        assert body(ledger, name, name) == name
        assert ledger.look(lambda page, name=name: page.marked(name)) == [(name, name)]  # type: ignore[misc]


def test_the_file_is_private_and_made_only_when_asked_for(workspace: Workspace, store: Path) -> None:
    """S18."""
    workspace.save("nothing to do with it", allow_empty=True)
    assert not (store / "ledger.sqlite3").exists()
    workspace.ledger("test").change(lambda book: book.put("book", "key"))
    for name in os.listdir(store):
        if name.startswith("ledger"):
            assert stat.S_IMODE((store / name).stat().st_mode) == 0o600
    anchor = store.parent.joinpath(os.environ["HOME"], ".local/share/lastgood-witness")
    assert stat.S_IMODE(anchor.stat().st_mode) == 0o700
    assert {stat.S_IMODE(one.stat().st_mode) for one in anchor.iterdir()} == {0o600}


PROGRAM = """
import sys
import lastgood
workspace = lastgood.open(sys.argv[1], store=sys.argv[2], maintenance="off")
ledger = workspace.ledger("test")
for number in range(40):
    ledger.change(lambda book: book.put("shared", f"{sys.argv[3]} {number}", body=["x" * 300, number]))
"""


def test_four_processes_write_to_one_book_at_once(ledger: Ledger, project: Path, store: Path) -> None:
    """S16."""
    words = [sys.executable, "-c", PROGRAM, str(project), str(store)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([*words, str(number)], env=environment) for number in range(4)]
    assert [one.wait(600) for one in running] == [0, 0, 0, 0]
    assert len(keys(ledger, "shared")) == 160
    assert faults(store, ledger) == ()


WITHOUT_A_PAUSE = """
import sys, time
import lastgood
ledger = lastgood.open(sys.argv[1], store=sys.argv[2], maintenance="off").ledger("test")
while True:
    ledger.change(lambda book: (book.put("shared", "key"), time.sleep(0.25)))
    print("changed", flush=True)
"""


def test_who_changes_without_a_pause_lets_others_in_between(
    ledger: Ledger, project: Path, store: Path
) -> None:
    """S16: SQLite by itself has others look once in a while, and they never find it free."""
    words = [sys.executable, "-c", WITHOUT_A_PAUSE, str(project), str(store)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert not_none(other.stdout).readline() == "changed\n"
            for number in range(5):
                ledger.change(lambda book, n=number: book.put("mine", f"key {n}"))  # type: ignore[misc]
        finally:
            other.kill()
    assert len(keys(ledger, "mine")) == 5


def test_a_forked_child_goes_on_with_it(ledger: Ledger) -> None:
    child = forked(lambda: ledger.change(lambda book: book.put("book", "of the child")))
    assert ended(child) == 0
    assert "of the child" in keys(ledger, "book")
    ledger.change(lambda book: book.put("book", "of the parent"))
    assert len(keys(ledger, "book")) == 7


def test_after_the_workspace_is_closed_it_says_so(project: Path, store: Path) -> None:
    workspace = lastgood.open(project, store=store)
    ledger = workspace.ledger("test")
    workspace.close()
    with pytest.raises(Usage, match="closed"):
        keys(ledger, "book")


@pytest.mark.parametrize("space", ["", "\n", 3])
def test_a_space_has_to_be_named(workspace: Workspace, space: object) -> None:
    with pytest.raises((Invalid, Usage)):
        workspace.ledger(space)  # type: ignore[arg-type]


def test_one_of_a_newer_lastgood_is_left_alone(
    ledger: Ledger, forge: Forge, reopened: Callable[[], Ledger]
) -> None:
    forge("PRAGMA user_version = 9")
    with pytest.raises(Unsupported, match="newer lastgood"):
        reopened()


def test_a_witness_inside_the_store_is_refused(
    workspace: Workspace, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LASTGOOD_WITNESS", str(store / "witness"))
    with (
        lastgood.open(workspace.path, store=store) as opened,
        pytest.raises(Unsafe, match="inside the store"),
    ):
        opened.ledger("test")


def test_where_the_witness_cannot_be_written_nothing_is_changed(
    ledger: Ledger, project: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S14: neither a false success nor a false failure."""
    (tmp_path / "a file").write_text("in the way")
    monkeypatch.setenv("LASTGOOD_WITNESS", str(tmp_path / "a file"))
    with (
        lastgood.open(project, store=store, maintenance="off") as workspace,
        pytest.raises(Storage, match="cannot be used"),
    ):
        workspace.ledger("test").change(lambda book: book.put("book", "key 9"))
    assert len(keys(ledger, "book")) == 5


def test_a_witness_that_goes_away_is_made_again(ledger: Ledger, reopened: Callable[[], Ledger]) -> None:
    place = os.path.join(os.environ["HOME"], ".local/share/lastgood-witness")
    (name,) = (one for one in os.listdir(place) if one != "key")
    os.unlink(os.path.join(place, name))
    ledger.change(lambda book: book.put("book", "key 9"))
    assert os.path.getsize(os.path.join(place, name)) == 384
    assert len(keys(reopened(), "book")) == 6


def test_what_was_removed_is_not_in_the_file_any_more_and_its_room_is_given_back(
    ledger: Ledger, project: Path, store: Path
) -> None:
    """K3."""
    secret = b"a secret that nobody must find"
    ledger.change(lambda book: book.put("told", "key", body=[secret, os.urandom(3_000_000)]))
    ledger.change(lambda book: book.put("book", "key 0", body=secret + b" either"))

    def stored() -> bytes:
        with lastgood.open(project, store=store, maintenance="off") as workspace:
            workspace.ledger("test").look(lambda page: page.books())
            with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return (store / "ledger.sqlite3").read_bytes()

    before = stored()
    assert secret in before
    ledger.change(lambda book: book.drop_book("told"))
    ledger.change(lambda book: book.put("book", "key 0", body="nothing"))
    after = stored()
    assert secret not in after
    assert len(after) < len(before) - 2_900_000


def test_its_size_is_part_of_the_stores(workspace: Workspace, store: Path) -> None:
    """K5."""
    before = workspace.status().store_bytes
    workspace.ledger("test").change(lambda book: book.put("book", "key", body=os.urandom(500_000)))
    assert workspace.status().store_bytes > before + 500_000


# Plain values come back as they were, share what they have in common, and are nothing but data.


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(codec=None))
    | st.binary(max_size=600)
)

PAIRS = st.tuples(st.text(alphabet="abc/+", max_size=9), st.binary(max_size=600))

VALUES = st.recursive(
    SCALARS | PAIRS,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(SCALARS, inner, max_size=40),
    max_leaves=120,
)


def came_back(value: object) -> object:
    cell, pieces = pack(value)
    return unpack(cell, pieces.__getitem__)


@settings(max_examples=50)
@given(VALUES)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    again = came_back(value)
    assert again == value
    assert repr(again) == repr(value)  # 1, 1.0 and True are equal, and not the same


@pytest.mark.parametrize("size", [0, 1, 255, 256, 8191, 8192, 8193, 500_000])
def test_long_texts_and_bytes_come_back_whole(size: int) -> None:
    assert came_back("ä" * size) == "ä" * size
    assert came_back(b"x" * size) == b"x" * size


def test_large_lists_and_dicts_come_back_in_their_order() -> None:
    numbers = list(range(100_000, 0, -1))
    assert came_back(numbers) == numbers
    named = {f"key {number}": number for number in numbers[:5000]}
    assert came_back(named) == named
    assert list(came_back(named)) == list(named)  # type: ignore[call-overload]


def test_not_a_number_stays_none() -> None:
    again = came_back(float("nan"))
    assert isinstance(again, float)
    assert math.isnan(again)


@pytest.mark.parametrize("seed", range(5))
def test_a_list_that_grew_or_shrank_at_either_end_shares_nearly_all_pieces(seed: int) -> None:
    chance = random.Random(seed)
    items = [chance.randbytes(chance.randint(50, 600)).hex() for _ in range(2000)]
    _, before = pack(items)
    for changed in (
        [*items, "one more"],
        ["one more", *items],
        items[1:],
        items[:-1],
        items[:900] + items[901:],
    ):
        _, after = pack(changed)
        assert sum(len(cell) for name, cell in after.items() if name not in before) < 8000


def test_a_text_that_grew_shares_what_it_was() -> None:
    text = "".join(f"line {number}\n" for number in range(50_000))
    _, before = pack(text)
    _, after = pack(text + "one more line\n")
    assert sum(len(cell) for name, cell in after.items() if name not in before) < 12_000


def test_every_piece_is_reached_from_the_cell() -> None:
    cell, pieces = pack([{"n": number, "text": "x" * number} for number in range(1000)])
    found: set[bytes] = set()
    wanted = list(references(cell))
    while wanted:
        name = wanted.pop()
        assert piece_id(pieces[name]) == name
        found.add(name)
        wanted += references(pieces[name])
    assert found == set(pieces)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, (1, 2), ("form", "text"), [bytearray(b"x")], {(1, 2): 3}, 1j, type, len]
)
def test_what_is_no_plain_value_is_refused(value: object) -> None:
    with pytest.raises(Invalid):
        pack(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(Invalid, match="too deep"):
        pack(endless)


@given(st.binary(max_size=200))
def test_garbage_is_damage_and_nothing_else(garbage: bytes) -> None:
    def nothing(name: bytes) -> bytes:
        raise Damaged(f"no {name.hex()}")

    with suppress(Damaged):
        unpack(garbage, nothing)
    with suppress(Damaged):
        list(references(garbage))


@settings(max_examples=50)
@given(VALUES, st.data())
def test_a_cell_cut_short_or_altered_is_damage_or_another_value(value: object, data: st.DataObject) -> None:
    cell, pieces = pack(value)
    place = data.draw(st.integers(0, len(cell) - 1))
    altered = bytes([*cell[:place], data.draw(st.integers(0, 255)), *cell[place + 1 :]])
    for bad in (cell[:place], altered):
        with suppress(Damaged):
            unpack(bad, lambda name: pieces.get(name, b"\xff"))
