"""Books of frameworks and plans of runs leave and arrive with the checkpoints, proven (S5, S17, P6, P7)."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import tarfile
import time
from binascii import b2a_base64
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given

import lastgood
from lastgood.errors import Conflict, Damaged, LastgoodError, Storage, Unsafe
from lastgood.exchange.form import decode_facts, encode_facts
from lastgood.ledger.cells import _cell, piece_id
from lastgood.locks import FlockLocks
from lastgood.model.exchange import ExportedPlan, Facts
from lastgood.model.run import WorkPlan
from lastgood.settings import LimitSettings, Settings
from lastgood.workplan.plan import PLAN
from lastgood.workspace import Workspace
from tools.ledgers import texts
from tools.parcels import facts_of, lines, members_of, rebuilt
from tools.runs import Told, states
from tools.values import not_none
from tools.workplans import plans

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


def test_a_sweep_that_waits_for_an_import_comes_after_its_books(
    workspace: Workspace, other: Workspace, parcel: Path, tmp_path: Path
) -> None:
    fill(workspace)
    workspace.export(parcel, private=True)
    store = tmp_path / "other"
    over = Event()

    def sweep() -> None:
        with FlockLocks(os.fsencode(store)).hold_store(wait=60):
            over.wait()

    with closing(sqlite3.connect(store / "catalogue.sqlite3", isolation_level=None)) as rival:
        rival.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor() as threads:
            arriving = threads.submit(other.import_file, parcel)
            await_lock(store / "locks/store.lock")
            threads.submit(sweep)
            await_lock(store / "locks/store.lock.turn")
            rival.execute("ROLLBACK")
            try:
                assert arriving.result().books == 2
            finally:
                over.set()


def await_lock(path: Path) -> None:
    """Wait until somebody holds a lock."""
    while True:
        time.sleep(0.001)
        if path.exists():
            with path.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return


def test_an_import_whose_books_are_refused_adds_no_checkpoint_until_they_can_be_added(
    workspace: Workspace, other: Workspace, parcel: Path, tmp_path: Path
) -> None:
    fill(workspace)
    workspace.export(parcel, private=True)
    other.ledger("mine").change(lambda book: book.put("only", "x"))
    ledger = tmp_path / "other" / "ledger.sqlite3"
    other.close()
    ledger.rename(tmp_path / "elsewhere")
    with lastgood.open(other.path, store=tmp_path / "other", maintenance="off") as again:
        with pytest.raises(Damaged, match="is gone"):
            again.import_file(parcel)
        assert again.list(all_workspaces=True) == ()

        (tmp_path / "elsewhere").rename(ledger)
        report = again.import_file(parcel)

        assert (len(report.checkpoints), report.books) == (1, 2)
        assert again.verify().ok


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
    with pytest.raises(Unsafe, match="looks like a secret") as refused:
        workspace.export(parcel, private=True)
    assert str(refused.value.details["files"]).startswith("['the ledger: test ")
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
    with pytest.raises(Unsafe, match="looks like a secret") as refused:
        workspace.export(parcel, private=True)
    assert refused.value.details["files"] == ["the ledger: test book"]


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


# The plans of runs leave with their sessions: what began in one place goes on in another (P6, P7).


def opened(folder: Path, store: Path) -> Workspace:
    folder.mkdir(exist_ok=True)
    return lastgood.open(folder, store=store, maintenance="off")


def begun(project: Path, *tasks: dict[str, Any], **fields: Any) -> Path:
    """Write a plan into a project: by default one whose second task fails until a file is there."""
    usual = (
        {"id": "A", "run": "echo a >> A"},
        {"id": "B", "run": "test -e ready"},
        {"id": "C", "run": "echo c >> C", "needs": ["B"]},
    )
    path = project / "plan.json"
    path.write_text(json.dumps({"tasks": list(tasks or usual), **fields}))
    return path


def arrived(tmp_path: Path, parcel: Path) -> Workspace:
    """Return the workspace of another store, in another folder, with what the export brought."""
    there = opened(tmp_path / "elsewhere", tmp_path / "other-store")
    there.import_file(parcel, attach=True)
    there.restore("@")
    return there


def leave(workspace: Workspace, project: Path, parcel: Path, **choices: Any) -> None:
    """Export, and let the project be gone: it is on another machine."""
    workspace.export(parcel, **choices)
    project.rename(project.parent / "gone")


def test_a_run_that_did_not_finish_goes_on_where_it_was_imported(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """P6: what is done stays done, though the folder is another one."""
    first = workspace.run(str(begun(project)))
    assert states(first) == {"A": "done", "B": "failed", "C": "pending"}
    leave(workspace, project, parcel)
    told = Told()
    with arrived(tmp_path, parcel) as there:
        (Path(there.path) / "ready").touch()
        report = there.run(str(Path(there.path) / "plan.json"), observer=told)

        assert (report.session, report.continued, report.state) == (first.session, True, "done")
        assert (Path(there.path) / "A").read_text() == "a\n"
        assert "the plan was edited" not in told.notices
        assert there.verify(deep=True).ok


def test_a_run_that_finished_is_known_as_finished(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    (project / "ready").touch()
    first = workspace.run(str(begun(project)))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        report = there.run(str(Path(there.path) / "plan.json"), choice="continue")
        assert (report.session, report.reason) == (first.session, "it has finished already")


def test_a_recovery_of_what_was_imported_knows_the_plan(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    first = workspace.run(str(begun(project)))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        (waiting,) = there.status().incomplete
        assert waiting.words == ("run", str(Path(there.path) / "plan.json"))
        kept = not_none(there._context.work.run(first.session))
        assert [task.id for task in kept.plan.tasks] == ["A", "B", "C"]


def test_a_plan_edited_since_is_told_by_its_tasks(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """P7: nobody continues another plan unawares."""
    workspace.run(str(begun(project)))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        edited = begun(Path(there.path), {"id": "A", "run": "echo a >> A"}, {"id": "B", "run": "true"})
        with pytest.raises(Conflict, match="the plan was edited since its run"):
            there.run(str(edited))


def test_a_plan_outside_the_workspace_keeps_its_place(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    (tmp_path / "project-plans").mkdir()
    plan = begun(tmp_path / "project-plans")
    first = workspace.run(str(plan))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        (Path(there.path) / "ready").touch()
        assert there.run(str(plan)).session == first.session


def test_plans_arrive_with_an_import_into_a_store_that_has_their_sessions(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """As after an import of an export of old, which had none."""
    first = workspace.run(str(begun(project)))
    workspace.export(parcel)
    members = members_of(parcel)
    old = tmp_path / "old.tar"
    kept = [fact for fact in facts_of(members) if fact["fact"] != "plan"]
    assert len(kept) == len(facts_of(members)) - 1
    rebuilt(old, members | {"facts.jsonl": lines(kept)})
    with opened(tmp_path / "elsewhere", tmp_path / "other-store") as there:
        there.import_file(old)
        assert there._context.work.run(first.session) is None
        there.import_file(parcel)
        before = not_none(there._context.work.run(first.session))
        there.import_file(parcel)
        assert there._context.work.run(first.session) == before


def test_what_is_known_of_a_run_here_stays(workspace: Workspace, project: Path, parcel: Path) -> None:
    first = workspace.run(str(begun(project)))
    workspace.export(parcel)
    edited = begun(project, {"id": "A", "run": "echo a >> A"}, {"id": "B", "run": "true"})
    assert workspace.run(str(edited), rebase=True).state == "done"
    before = workspace._context.work.run(first.session)

    workspace.import_file(parcel)

    assert workspace._context.work.run(first.session) == before


def test_plans_leave_without_secrets_unless_exact(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """S17: a plan without its secret is another plan, and says so when it goes on."""
    task = {
        "id": "A",
        "run": f"false {SECRET}",
        "check": f"echo {SECRET}",
        "env": {"API_TOKEN": "hunter-four"},
    }
    plan = begun(project, task, {"id": "B", "run": ["echo", SECRET]}, goal=f"use {SECRET}")
    (project / ".lastgoodignore").write_text("plan.json\n")
    text = plan.read_text()
    first = workspace.run(str(plan))
    workspace.export(tmp_path / "exact.tar", exact=True)
    leave(workspace, project, parcel)
    for file in (parcel, tmp_path / "exact.tar"):
        with tarfile.open(file) as archive:
            member = not_none(archive.extractfile("facts.jsonl"))
            facts = member.read()
        assert (SECRET.encode() in facts) == (b"hunter-four" in facts) == (file != parcel)
    with arrived(tmp_path, parcel) as there:
        (Path(there.path) / "plan.json").write_text(text)
        with pytest.raises(Conflict, match="task A") as refused:
            there.run(str(Path(there.path) / "plan.json"))
        assert refused.value.details["session"] == first.session
        report = there.run(str(Path(there.path) / "plan.json"), rebase=True)
        assert report.session == first.session


def test_a_plan_that_many_runs_carried_out_leaves_once(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    (project / "ready").touch()
    plan = begun(project)
    made = [workspace.run(str(plan), choice="fresh").session for _ in range(3)]
    workspace.export(parcel)
    (fact,) = [fact for fact in facts_of(members_of(parcel)) if fact["fact"] == "plan"]
    assert sorted(fact["sessions"]) == sorted(made)
    with opened(tmp_path / "elsewhere", tmp_path / "other-store") as there:
        there.import_file(parcel)
        assert all(there._context.work.run(session) is not None for session in made)


def _without(fact: dict[str, Any], key: str) -> None:
    del fact[key]


LYING_PLANS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no sessions": lambda fact: fact.update(sessions=[]),
    "a session that the file does not have": lambda fact: fact.update(sessions=["sess_0123456789abcdef"]),
    "a session twice": lambda fact: fact.update(sessions=fact["sessions"] * 2),
    "sessions that are none": lambda fact: fact.update(sessions=[7]),
    "another workspace": lambda fact: fact.update(workspace_key="abcd"),
    "no plan": lambda fact: _without(fact, "plan"),
    "a plan that is none": lambda fact: fact.update(plan={"version": 1}),
    "no tasks": lambda fact: fact["plan"].update(tasks=[]),
    "one task twice": lambda fact: fact["plan"].update(tasks=fact["plan"]["tasks"] * 2),
    "a task in front of what it needs": lambda fact: fact["plan"]["tasks"].reverse(),
    "needs of nothing": lambda fact: fact["plan"]["tasks"][0].update(needs=["Z"]),
    "an id with a control character": lambda fact: fact["plan"]["tasks"][0].update(id="\x1b[2J"),
    "a folder outside": lambda fact: fact["plan"]["tasks"][0].update(cwd="../../etc"),
    "a variable of ours": lambda fact: fact["plan"]["tasks"][0].update(env={"LASTGOOD_STORE": "/"}),
    "a source that is no path": lambda fact: fact["plan"].update(source="plan.json"),
    "a source with a NUL": lambda fact: fact["plan"].update(source="/a\0b"),
    "a source that no file can have": lambda fact: fact["plan"].update(source="/\ud800"),
    "an endless number": lambda fact: fact["plan"]["tasks"][0].update(retries=10**30),
}


@pytest.mark.parametrize("lie", LYING_PLANS)
def test_a_plan_that_lies_is_refused(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path, lie: str
) -> None:
    workspace.run(str(begun(project)))
    workspace.export(parcel)
    facts = facts_of(members_of(parcel))
    LYING_PLANS[lie](next(fact for fact in facts if fact["fact"] == "plan"))
    rebuilt(parcel, members_of(parcel) | {"facts.jsonl": lines(facts)})
    with opened(tmp_path / "elsewhere", tmp_path / "other-store") as there:
        with pytest.raises(Damaged):
            there.import_file(parcel)
        assert there._context.catalogue.workspaces() == []


def test_a_plan_of_so_many_sessions_that_no_store_could_hold_it_is_refused(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """It is in the file once, and would be in the catalogue for each of them."""
    workspace.run(str(begun(project, {"id": "A", "run": f"false {'x' * 90_000}"})))
    workspace.export(parcel)
    facts = facts_of(members_of(parcel))
    plan = next(fact for fact in facts if fact["fact"] == "plan")
    session = next(fact for fact in facts if fact["fact"] == "session")
    plan["sessions"] = [f"sess_{number:016x}" for number in range(100)]
    facts += [{**session, "session": {**session["session"], "id": id}} for id in plan["sessions"]]
    rebuilt(parcel, members_of(parcel) | {"facts.jsonl": lines(facts)})
    (tmp_path / "elsewhere").mkdir()
    small = Settings(limits=LimitSettings(max_store_size=4 << 20))
    with lastgood.open(
        tmp_path / "elsewhere", store=tmp_path / "other-store", maintenance="off", settings=small
    ) as there:
        with pytest.raises(Storage, match="plans"):
            there.import_file(parcel)
        assert there._context.catalogue.workspaces() == []


def test_a_plan_of_a_newer_lastgood_is_unsupported(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    workspace.run(str(begun(project)))
    workspace.export(parcel)
    facts = facts_of(members_of(parcel))
    next(fact for fact in facts if fact["fact"] == "plan")["plan"]["version"] = 99
    rebuilt(parcel, members_of(parcel) | {"facts.jsonl": lines(facts)})
    with (
        opened(tmp_path / "elsewhere", tmp_path / "other-store") as there,
        pytest.raises(lastgood.Unsupported),
    ):
        there.import_file(parcel)


@given(plan=plans())
def test_every_sound_plan_comes_back_as_it_was(plan: WorkPlan) -> None:
    sound = plan.replace(source=None if plan.source is None else "/" + plan.source)
    kept = ExportedPlan(sessions=("sess_0123456789abcdef",), workspace_key="ab", plan=sound)
    (back,) = decode_facts(encode_facts(Facts(plans=(kept,)))).plans
    assert PLAN.encode(back.plan) == PLAN.encode(sound)
    assert (back.sessions, back.workspace_key) == (kept.sessions, kept.workspace_key)


def test_a_run_goes_on_in_a_folder_that_was_moved(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S19: what is attached brings its runs along."""
    first = workspace.run(str(begun(project)))
    moved = tmp_path / "moved"
    project.rename(moved)
    with opened(moved, store) as there:
        there.attach(str(project))
        (moved / "ready").touch()
        report = there.run(str(moved / "plan.json"))
        assert (report.session, report.state) == (first.session, "done")
