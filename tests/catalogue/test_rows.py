"""A row's copy of a manifest: small, whole, and told as damage where it is not (K4)."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lastgood
from lastgood.catalogue import Query, WorkspaceRow, rows
from lastgood.catalogue.backup import is_sound, soundest_backup
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import CURRENT, create, prepare
from lastgood.catalogue.rebuild import restore_from_backup
from lastgood.catalogue.rows import pack_manifest, unpack_manifest
from lastgood.errors import Damaged
from lastgood.model import long_list
from lastgood.model.checkpoint import Checkpoint, GitState, Manifest, encode
from lastgood.model.session import SHORT, Features, Progress, Task
from lastgood.tasks import finish_feature, with_task
from lastgood.testing.clock import FakeClock

if TYPE_CHECKING:
    from lastgood.literals import TaskState


Save = Callable[..., Checkpoint]


@given(st.binary(max_size=3000))
def test_any_text_comes_back_as_it_was(text: bytes) -> None:
    assert unpack_manifest(pack_manifest(text)) == text


def test_a_manifest_takes_a_fraction_of_its_text(manifest: Callable[..., Manifest]) -> None:
    text = encode(manifest(1))

    assert len(pack_manifest(text)) < len(text) / 3


def test_a_workspace_that_stands_where_it_stood_is_not_written(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "catalogue", isolation_level=None)) as connection:
        prepare(connection)
        create(connection, CURRENT, generation="one")
        rows.add_workspace(connection, WorkspaceRow(key="key", path="/a", machine="one", created_at=1))
        for place in ("ckpt_1", "ckpt_2", None):
            before = connection.total_changes
            rows.move(connection, "key", to=place)
            rows.move(connection, "key", to=place)
            assert connection.total_changes - before <= 1
            assert rows.at(connection, "key") == place


def test_a_text_of_an_earlier_release_is_taken_as_it_is() -> None:
    assert unpack_manifest('{"schema":"lastgood.manifest/1"}') == '{"schema":"lastgood.manifest/1"}'


@pytest.mark.parametrize(
    "kept", [b"", b"\x01", b"\x02abc", pack_manifest(b"a text")[:-1], b"\x01\xff\xff\xff\xff"]
)
def test_what_cannot_be_made_out_is_damage(kept: bytes) -> None:
    with pytest.raises(Damaged, match="manifest"):
        unpack_manifest(kept)


def test_a_manifest_that_cannot_be_made_out_hides_no_other_checkpoint(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """K4."""
    for number in range(1, 4):
        save(number)
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("UPDATE checkpoint SET manifest = x'01ff' WHERE sequence = 2")
    other.close()

    third, second, first = catalogue.find(Query())

    assert (third.damaged, first.damaged) == (None, None)
    assert second.damaged is not None
    assert second.manifest.id == f"ckpt_{2:016x}"
    assert "checkpoint ckpt_0000000000000002" in str(catalogue.fault())


# Long lists lie in parts, other long records are compressed: never taken for what they are not (P2, K4).


STORES = Path(__file__).parents[1] / "stores_of_old"

OLD_KEY = "a1" * 10

KEY = "aa" * 10

MANY = 2000


def many(state: TaskState = "pending") -> Progress:
    return Progress(goal="all of it", tasks=tuple(Task(id=f"T{n:05}", state=state) for n in range(MANY)))


def long_words() -> Progress:
    return Progress(goal="all of it", state={"said": "word " * 1000})


def contents(path: str) -> dict[str, bytes]:
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT id, CAST(payload AS BLOB) FROM progress").fetchall())


def kept(path: str) -> list[tuple[str, int]]:
    """Return the kind and size of what rows keep of progress."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT typeof(payload), length(payload) FROM progress").fetchall()


def change(catalogue: SqliteCatalogue, to: Progress | Callable[[Progress], Progress]) -> Progress:
    made = to if callable(to) else lambda _: to
    return catalogue.work.change(lambda work: work.change_progress(KEY, made, workspace_key=KEY))


def test_long_progress_is_kept_in_parts_and_comes_back_as_it_was(catalogue: SqliteCatalogue) -> None:
    """P8a."""
    change(catalogue, many())
    long_list.forget()

    head, *parts = kept(catalogue.path)

    assert head[1] < 300
    assert len(parts) == MANY / long_list.PART
    assert catalogue.work.progress(KEY) == many()
    assert catalogue.altered() == []
    assert catalogue.fault() is None


def test_a_changed_task_among_thousands_writes_one_part(catalogue: SqliteCatalogue) -> None:
    """P8a."""
    change(catalogue, many())
    long_list.forget()
    before = contents(catalogue.path)

    after = change(catalogue, lambda found: with_task(found, Task(id="T00777", state="done")))

    written = {id for id, payload in contents(catalogue.path).items() if payload != before.get(id)}
    assert written == {KEY, f"{KEY}/tasks/{777 // long_list.PART:05}"}
    long_list.forget()
    assert catalogue.work.progress(KEY) == after
    assert (after.count("done"), after.count("pending")) == (1, MANY - 1)


@pytest.mark.parametrize("size", [0, 15, 16, 17, 32, 511, 512, 513, 1500])
def test_progress_of_any_length_takes_the_place_of_a_longer_one(
    catalogue: SqliteCatalogue, size: int
) -> None:
    """P8a: no part of what was there before stays."""
    wanted = many().replace(tasks=tuple(many().tasks)[:size])
    change(catalogue, many("done"))
    change(catalogue, wanted)
    long_list.forget()

    assert catalogue.work.progress(KEY) == wanted
    assert len(kept(catalogue.path)) == 1 + (-(-size // long_list.PART) if size > SHORT else 0)


def test_many_completed_features_are_kept_in_parts_too(catalogue: SqliteCatalogue) -> None:
    """P8a."""
    features = Features(current="next", completed=tuple(f"F{number}" for number in range(1000)))
    change(catalogue, Progress(features=features))
    before = contents(catalogue.path)
    long_list.forget()

    after = change(catalogue, lambda found: finish_feature(found, "next"))

    written = {id for id, payload in contents(catalogue.path).items() if payload != before.get(id)}
    assert written == {KEY, f"{KEY}/completed/{1000 // long_list.PART:05}"}
    long_list.forget()
    assert catalogue.work.progress(KEY) == after
    assert after.features.completed == (*features.completed, "next")


def test_a_part_that_was_altered_takes_no_other_with_it(catalogue: SqliteCatalogue) -> None:
    """K4: what is left of the tasks is told, the damage is named, and a repair leaves it so."""
    change(catalogue, many("done"))
    long_list.forget()
    part = f"{KEY}/tasks/00003"
    with closing(sqlite3.connect(catalogue.path, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE progress SET payload = replace(payload, 'T0005', 'T9995') WHERE id = ?", (part,)
        )
    left = tuple(many("done").tasks)[: 3 * long_list.PART] + tuple(many("done").tasks)[4 * long_list.PART :]

    assert catalogue.work.progress(KEY) == many().replace(tasks=left)
    assert catalogue.fault() == f"altered: progress {part}"
    assert catalogue.mend() == [
        f"progress {part} dropped: its record was altered",
        f"progress {KEY} lacks parts of its 2000 tasks: {len(left)} are left",
    ]
    assert catalogue.work.progress(KEY) == many().replace(tasks=left)
    after = change(catalogue, lambda found: found.replace(goal="more"))
    long_list.forget()
    assert catalogue.work.progress(KEY) == after == many().replace(goal="more", tasks=left)


def test_a_part_that_was_altered_comes_back_from_the_backup(catalogue: SqliteCatalogue) -> None:
    """K4."""
    change(catalogue, many("done"))
    assert catalogue.back_up()
    long_list.forget()
    part = f"{KEY}/tasks/00003"
    with closing(sqlite3.connect(catalogue.path, isolation_level=None)) as connection:
        connection.execute("UPDATE progress SET payload = 'x' WHERE id = ?", (part,))

    assert catalogue.mend() == [f"progress {part} is as the backup has it: its record was altered"]
    assert catalogue.work.progress(KEY) == many("done")


def test_checkpoints_in_brief_come_without_tasks_and_changed_paths_and_else_as_they_are(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    git = GitState(head=None, branch="main", dirty=(b"a",))
    made = save(1, git=git, progress=many())

    (whole,), (brief,) = catalogue.find(Query()), catalogue.find(Query(brief=True))

    assert whole == made
    less = made.manifest.replace(git=git.replace(dirty=None), progress=many().replace(tasks=()))
    assert brief == made.replace(manifest=less)


def test_short_progress_is_kept_as_text(catalogue: SqliteCatalogue) -> None:
    short = Progress(goal="g", tasks=(Task(id="T01"),))
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many(), workspace_key=KEY))
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: short, workspace_key=KEY))
    assert kept(catalogue.path)[0][0] == "text"
    assert catalogue.work.progress(KEY) == short


def test_compressed_progress_that_was_altered_is_not_believed(catalogue: SqliteCatalogue) -> None:
    """K4: also where it could still be unpacked."""
    change(catalogue, long_words())
    ((kind, _),) = kept(catalogue.path)
    assert kind == "blob"
    with closing(sqlite3.connect(catalogue.path, isolation_level=None)) as connection:
        other = b"\x01" + zlib.compress(b'{"goal":"another"}')
        connection.execute("UPDATE progress SET payload = ?", (other,))
    assert catalogue.work.progress(KEY) == Progress()
    assert catalogue.fault() == f"altered: progress {KEY}"


def test_a_repair_keeps_long_progress(catalogue: SqliteCatalogue) -> None:
    """Of what is newer than the backup too."""
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many(), workspace_key=KEY))
    assert catalogue.back_up()
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many("done"), workspace_key=KEY))
    again = rescued(catalogue)
    assert again.work.progress(KEY) == many("done")
    again.close()


def test_a_repair_brings_no_tasks_back_that_a_shorter_list_had_given_up(catalogue: SqliteCatalogue) -> None:
    """K4: the backup has parts of the longer list, which are none of the list in force."""
    few, more = Progress(tasks=many().tasks[:2]), Progress(tasks=many("done").tasks[:20])
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many(), workspace_key=KEY))
    assert catalogue.back_up()
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: few, workspace_key=KEY))
    again = rescued(catalogue)
    again.work.change(lambda to: to.change_progress(KEY, lambda _: more, workspace_key=KEY))
    long_list.forget()
    assert again.work.progress(KEY) == more
    again.close()


def rescued(catalogue: SqliteCatalogue) -> SqliteCatalogue:
    """Return a catalogue that was damaged and then rebuilt from its backup and its own rows."""
    catalogue.close()
    path = Path(catalogue.path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        index = "SELECT rootpage FROM sqlite_master WHERE name = 'operation_of_workspace'"
        ((page,),) = connection.execute(index).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    assert restore_from_backup(str(path), generation="g", at=1)
    long_list.forget()
    return SqliteCatalogue.open(str(path), clock=FakeClock(), create=False)


@pytest.mark.parametrize(("version", "form"), [(4, "text"), (6, "blob")])
def test_progress_of_an_earlier_version_is_read_and_then_kept_in_parts(
    path: str, version: int, form: str
) -> None:
    """P8a: as text, or compressed."""
    shutil.copyfile(STORES / f"version-{version}" / "catalogue.sqlite3", path)
    catalogue = SqliteCatalogue.open(path, clock=FakeClock(), create=False)
    before = catalogue.work.progress(OLD_KEY)
    assert (before.goal, before.count("done"), before.count("pending")) == ("all of it", 50, 50)
    assert form in {kind for kind, _ in kept(path)}
    after = catalogue.work.change(
        lambda to: to.change_progress(
            OLD_KEY, lambda found: found.replace(goal="more"), workspace_key=OLD_KEY
        )
    )
    assert after == before.replace(goal="more")
    assert len([id for id in contents(path) if id.startswith(OLD_KEY)]) == 1 + -(-100 // long_list.PART)
    long_list.forget()
    assert catalogue.work.progress(OLD_KEY) == after
    assert catalogue.fault() is None
    catalogue.close()


@given(text=st.text(st.characters(max_codepoint=127), max_size=50), times=st.sampled_from([1, 100, 1000]))
def test_every_record_comes_back_as_it_was(text: str, times: int) -> None:
    assert rows.unpack_record(rows.pack_record(text * times)) == text * times


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x02",
        b"\x01",
        b"\x01garbage",
        b"\x01" + zlib.compress(b"x" * 5000)[:-3],
        b"\x01" + zlib.compress(b"\xff" * 5000),
    ],
    ids=["nothing", "another form", "no content", "garbage", "cut short", "no ASCII"],
)
def test_what_is_no_record_is_damaged(value: bytes) -> None:
    with pytest.raises(Damaged):
        rows.unpack_record(value)


def test_a_record_that_would_fill_the_memory_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_LARGEST_RECORD", 1 << 20)
    assert rows.unpack_record(b"\x01" + zlib.compress(b"x" * (1 << 20))) == "x" * (1 << 20)
    with pytest.raises(Damaged):
        rows.unpack_record(b"\x01" + zlib.compress(bytes(3 << 20)))


# Damage to the words that made the tables: no page shows it, and it is found and mended (K4).


FLIPS = {
    "a column": ("operation", " at INTEGER", " au INTEGER"),
    "a column of the checkpoints": ("checkpoint", "gaps TEXT", "gapq TEXT"),
    "a table": ("step", "TABLE step", "TABLE stdp"),
    "a reference": ("checkpoint", "workspace (key)", "workspaca (key)"),
    "what is filled in": ("run", "DEFAULT 0", "DEFAULT 1"),
    "an index": ("operation_of_workspace", "(workspace_key, number)", "(workspace_key, undone)"),
}


def flip(path: str, name: str, before: str, after: str) -> None:
    """Alter the words that made a table or an index, and where it is a table's name, that as well."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    changed = connection.execute(
        "UPDATE sqlite_master SET sql = replace(sql, :before, :after),"
        " name = CASE WHEN :before = 'TABLE ' || name THEN substr(:after, 7) ELSE name END,"
        " tbl_name = CASE WHEN :before = 'TABLE ' || tbl_name THEN substr(:after, 7) ELSE tbl_name END"
        " WHERE name = :name AND sql LIKE '%' || :before || '%'",
        {"name": name, "before": before, "after": after},
    ).rowcount
    connection.commit()
    connection.close()
    assert changed == 1


@pytest.mark.parametrize("what", FLIPS)
def test_altered_words_of_a_table_are_damage_that_a_repair_mends(
    catalogue: SqliteCatalogue, save: Save, what: str
) -> None:
    for number in (1, 2):
        save(number, message=f"message {number}")
    catalogue.back_up()
    save(3)
    path = catalogue.path
    catalogue.close()
    flip(path, *FLIPS[what])

    assert not is_sound(path)
    restore_from_backup(path, generation="another", at=1)

    mended = SqliteCatalogue.open(path, clock=FakeClock(), create=False)
    assert mended.fault() is None
    assert {one.message for one in mended.find(Query())} >= {"message 1", "message 2"}
    mended.mend()
    mended.close()


def test_a_catalogue_with_altered_words_pushes_no_sound_backup_out(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    save(1)
    catalogue.back_up()
    sound = soundest_backup(catalogue.path)
    save(2)
    flip(catalogue.path, *FLIPS["a reference"])
    again = SqliteCatalogue.open(catalogue.path, clock=FakeClock(), create=False)
    with pytest.raises(Damaged):
        again.back_up()
    again.close()
    assert soundest_backup(catalogue.path) == sound


# A flipped id is told from its index entry, whatever SQLite takes the id from (rule K4).


def places(catalogue: Path, id: str) -> list[int]:
    """Return where an id stands: in the workspace's row, its own, the index, and its compressed manifest."""
    content = catalogue.read_bytes()
    found = [at for at in range(len(content)) if content.startswith(id.encode(), at)]
    assert len(found) == 3
    connection = sqlite3.connect(catalogue)
    (manifest,) = connection.execute("SELECT manifest FROM checkpoint WHERE id = ?", (id,)).fetchone()
    connection.close()
    return [*found, content.index(manifest)]


@pytest.mark.parametrize("place", range(4))
def test_an_id_altered_in_one_place_is_mended(project: Path, store: Path, place: int) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        for number in range(3):
            (project / "file").write_text(str(number))
            workspace.save(str(number))
        workspace.maintain()
        ids = [one.id for one in workspace.list()]
    catalogue = store / "catalogue.sqlite3"
    sqlite3.connect(catalogue).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    content = bytearray(catalogue.read_bytes())
    content[places(catalogue, ids[0])[place] + 20] ^= 1
    catalogue.write_bytes(content)

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert not workspace.verify().ok
    with lastgood.open(project, store=store, maintenance="off", repair=True) as workspace:
        assert workspace.verify(repair=True).ok

        assert [workspace.get(id).id for id in ids] == ids
