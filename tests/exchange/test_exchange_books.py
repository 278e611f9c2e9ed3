"""What frameworks keep leaves with the checkpoints when asked for, and arrives proven (S5, S17)."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import Damaged, LastgoodError, Unsafe
from lastgood.ledger import Ledger
from lastgood.ledger.cells import _cell, piece_id
from lastgood.workspace import Workspace

SECRET = "ghp_" + "a1B2c3D4e5" * 4
# Written with its length before it, that would look like a letter of its name.
KEY_OF_ODD_LENGTH = "sk-" + "aB3dE5fG" * 6
Line = dict[str, Any]


@pytest.fixture
def other(tmp_path: Path, project: Path) -> Iterator[Workspace]:
    """Return the workspace as another store has it."""
    with lastgood.open(project, store=tmp_path / "other", maintenance="off") as opened:
        yield opened


@pytest.fixture
def parcel(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.tar"


def fill(workspace: Workspace, *, said: str = "hello") -> None:
    """Make a checkpoint, and a thread that grows, so that its states share pieces."""
    workspace.save("one", allow_empty=True)
    ledger = workspace.ledger("test")
    said_so_far: list[str] = []
    for number in range(20):
        said_so_far.append(f"{said} {number} " * 30)
        ledger.change(
            lambda book, n=number: book.put(  # type: ignore[misc]
                "thread\0\udcff", f"key {n:02}", mark=f"m{n % 3}", head={"n": n}, body=list(said_so_far)
            )
        )
    workspace.ledger("another").change(lambda book: book.put("only", "x", head=("form", b"\0content")))


def texts(ledger: Ledger) -> dict[str, list[object]]:
    """Return everything that a ledger holds, read to the end."""
    return ledger.look(
        lambda book: {
            name: [(one.key, one.mark, one.head, book.body(one)) for one in book.entries(name)]
            for name in book.books()
        }
    )


def everything(workspace: Workspace) -> list[dict[str, list[object]]]:
    return [texts(workspace.ledger(space)) for space in ("test", "another")]


def test_books_arrive_as_they_were_when_they_are_asked_for(
    workspace: Workspace, other: Workspace, parcel: Path
) -> None:
    fill(workspace)
    report = workspace.export(parcel, private=True)
    assert (report.books, report.books_withheld) == (2, 0)
    assert other.import_file(parcel).books == 2
    assert everything(other) == everything(workspace)
    assert other.verify().ok
    other.ledger("test").change(lambda book: book.put("thread\0\udcff", "more", head=1))
    assert other.ledger("test").look(lambda book: len(book.marked("m0"))) == 7
    sizes = [one.ledger("test").look(lambda book: len(book.books())) for one in (workspace, other)]
    assert sizes == [1, 1]


@pytest.mark.parametrize("words", [{}, {"exact": True}, {"private": True, "conversation": False}])
def test_books_stay_here_by_default(
    workspace: Workspace, other: Workspace, parcel: Path, words: dict[str, Any]
) -> None:
    fill(workspace)
    report = workspace.export(parcel, **words)
    assert (report.books, report.books_withheld) == (0, 2)
    assert b"hello" not in parcel.read_bytes()
    assert other.import_file(parcel).books == 0
    assert everything(other) == [{}, {}]


def test_what_is_here_stays_as_it_is(workspace: Workspace, other: Workspace, parcel: Path) -> None:
    fill(workspace)
    workspace.export(parcel, private=True)
    other.ledger("another").change(lambda book: book.put("only", "x", head="mine"))
    assert other.import_file(parcel).books == 1
    assert other.import_file(parcel).books == 0
    assert texts(other.ledger("another")) == {"only": [("x", None, "mine", None)]}


def test_only_the_books_of_the_workspaces_that_leave_do(
    workspace: Workspace, tmp_path: Path, store: Path, parcel: Path
) -> None:
    fill(workspace)
    (tmp_path / "neighbour").mkdir()
    with lastgood.open(tmp_path / "neighbour", store=store, maintenance="off") as neighbour:
        neighbour.save("theirs", allow_empty=True)
        neighbour.ledger("test").change(lambda book: book.put("theirs", "x"))
        report = neighbour.export(parcel, private=True)
    assert (report.books, report.books_withheld) == (1, 0)


def test_a_book_that_shows_a_secret_stops_an_export_unless_allowed(
    workspace: Workspace, parcel: Path
) -> None:
    fill(workspace, said=f"the token is {SECRET}")
    with pytest.raises(Unsafe, match="the ledger: test"):
        workspace.export(parcel, private=True)
    assert not parcel.exists()
    assert workspace.export(parcel, private=True, allow_secrets=True).books == 2


@pytest.mark.parametrize(
    "value",
    [
        KEY_OF_ODD_LENGTH,
        ["nothing", [KEY_OF_ODD_LENGTH]],
        {"password": "hunter22hunter"},
        {KEY_OF_ODD_LENGTH: 1},
        "x" * 8180 + f" {SECRET} " + "y" * 8180,
        ("msgpack", b"\x92\x01\xd9" + bytes((len(KEY_OF_ODD_LENGTH),)) + KEY_OF_ODD_LENGTH.encode()),
        ("msgpack", b"\x91\xba" + b"AKIAQWERTYUIOPASDFGH" + b"\xc0"),
    ],
)
def test_a_secret_stops_an_export_wherever_in_a_value_it_stands(
    workspace: Workspace, parcel: Path, value: object
) -> None:
    """S17: the length before a text may be a letter, and a long text lies in parts."""
    workspace.save("one", allow_empty=True)
    workspace.ledger("test").change(lambda book: book.put("book", "key", body=value))
    with pytest.raises(Unsafe, match="the ledger: test book"):
        workspace.export(parcel, private=True)


def test_what_only_resembles_a_secret_leaves(workspace: Workspace, parcel: Path) -> None:
    value = [{"token": "none", "id": "task-" + "a1b2" * 8}, "é" * 20_000, b"task-" + b"a1b2" * 8, "\ud800"]
    workspace.save("one", allow_empty=True)
    workspace.ledger("test").change(lambda book: book.put("book", "key", body=value))
    assert workspace.export(parcel, private=True).books == 1


def test_a_damaged_book_does_not_leave(workspace: Workspace, parcel: Path, store: Path) -> None:
    fill(workspace)
    with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
        connection.execute("UPDATE piece SET content = CAST('=x' AS BLOB)")
        connection.commit()
    with pytest.raises(Damaged, match="the book test thread"):
        workspace.export(parcel, private=True)
    assert workspace.export(parcel).books == 0


def test_checkpoints_leave_although_the_ledger_is_damaged(
    workspace: Workspace, project: Path, store: Path, parcel: Path
) -> None:
    fill(workspace)
    workspace.close()
    (store / "ledger.sqlite3").write_bytes(b"no ledger" * 1000)
    with lastgood.open(project, store=store, maintenance="off") as again:
        report = again.export(parcel)
        assert (len(report.checkpoints), report.books, report.books_withheld) == (1, 0, None)
        with pytest.raises(Damaged):
            again.export(parcel.with_name("private"), private=True)


def test_an_export_of_a_store_without_a_ledger_makes_none(
    workspace: Workspace, other: Workspace, parcel: Path, store: Path
) -> None:
    workspace.save("one", allow_empty=True)
    assert workspace.export(parcel, private=True).books == 0
    assert other.import_file(parcel).books == 0
    assert not (store / "ledger.sqlite3").exists()


def edited(parcel: Path, edit: Callable[[list[Line]], list[Line]], target: Path) -> Path:
    """Write an export whose facts were edited, with checksums that fit."""
    with tarfile.open(parcel) as archive:
        members = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
    lines = edit([json.loads(line) for line in members["facts.jsonl"].splitlines()])
    facts = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    header = json.loads(members["lastgood.json"])
    header["facts"] = {"bytes": len(facts), "sha256": sha256(facts).hexdigest()}
    members["facts.jsonl"], members["lastgood.json"] = facts, json.dumps(header).encode()
    sums = [f"{sha256(members[name]).hexdigest()}  {name}\n" for name in members if name != "SHA256SUMS"]
    members["SHA256SUMS"] = "".join(sums).encode()
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            one = tarfile.TarInfo(name)
            one.size, one.mode = len(content), 0o600
            archive.addfile(one, BytesIO(content))
    return target


def of(lines: list[Line], fact: str) -> list[Line]:
    return [one for one in lines if one["fact"] == fact]


def replaced(of_kind: str, /, **fields: object) -> Callable[[list[Line]], list[Line]]:
    def edit(lines: list[Line]) -> list[Line]:
        of(lines, of_kind)[0].update(fields)
        return lines

    return edit


def bomb(lines: list[Line]) -> list[Line]:
    """Return a book whose one entry would expand a thousandfold at each of many levels."""
    cell, pieces = _cell(ord("B"), b"x" * 1000), []
    for _ in range(6):
        pieces.append(cell)
        cell = _cell(ord("L"), _cell(ord("R"), piece_id(cell)) * 500)
    kept = [one for one in lines if one["fact"] not in {"entry", "piece"}]
    kept = [one for one in kept if one["fact"] != "book" or one is of(lines, "book")[0]]

    def text(content: bytes) -> str:
        return b2a_base64(content, newline=False).decode()

    entry = {"fact": "entry", "key": "", "mark": None, "head": text(cell), "body": text(b"N\0")}
    return [*kept, entry, *({"fact": "piece", "content": text(one)} for one in pieces)]


LIES: dict[str, Callable[[list[Line]], list[Line]]] = {
    "an entry of no book": lambda lines: [*of(lines, "entry")[:1], *lines],
    "a book of another workspace": replaced("book", workspace_key="abc"),
    "a space that is none": replaced("book", space="a\nb"),
    "a name that is no base64": replaced("book", name=5),
    "a name that is no text": replaced("book", name="//79"),
    "a key that is no text": replaced("entry", key="//79"),
    "a mark that is no text": replaced("entry", mark="//79"),
    "a value that is no cell": replaced("entry", head="//79"),
    "a piece that is missing": lambda lines: [one for one in lines if one["fact"] != "piece"],
    "another piece": replaced("piece", content="Tm8="),
    "a book twice": lambda lines: [*lines, *of(lines, "book")[:1]],
    "an entry twice": lambda lines: [*lines, *of(lines, "entry")[-1:] * 2],
    "a fact that is none": replaced("book", fact="shelf"),
    "a bomb": bomb,
}


@pytest.mark.parametrize("lie", LIES)
def test_books_that_are_not_what_they_say_are_refused_with_everything(
    workspace: Workspace, other: Workspace, parcel: Path, tmp_path: Path, lie: str
) -> None:
    fill(workspace)
    workspace.export(parcel, private=True)
    with pytest.raises(LastgoodError):
        other.import_file(edited(parcel, LIES[lie], tmp_path / "edited.tar"))
    assert other.list() == ()
    assert everything(other) == [{}, {}]


def test_an_edit_that_lies_about_nothing_is_imported(
    workspace: Workspace, other: Workspace, parcel: Path, tmp_path: Path
) -> None:
    """So that the lies above are refused for what they are."""
    fill(workspace)
    workspace.export(parcel, private=True)
    assert other.import_file(edited(parcel, list, tmp_path / "edited.tar")).books == 2
