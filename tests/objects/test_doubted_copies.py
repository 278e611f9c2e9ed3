"""What was copied out of a project is relied on by nobody else until it is proven."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.objects.engine import GitEngine
from lastgood.testing.engine_suite import add_checkpoint
from lastgood.testing.git_store import GitStore as Store
from tools.harm import packs_of
from tools.lending import Blobs, Project

CONTENTS = [random.Random(number).randbytes(2000) for number in range(2)]


class Lender(Project):
    """A project of two packed blobs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.blobs: Blobs = self.add("file", CONTENTS)
        self.git("gc", "-q")


@pytest.fixture
def project(tmp_path: Path) -> Lender:
    return Lender(tmp_path / "project")


def save(store: Store, *contents: bytes, project: Lender | None = None) -> None:
    """Save files of these contents through an engine of their own, first copying from a project."""
    writer = store.open().writer()
    if project is not None:
        writer.import_blobs(project.objects, project.blobs)
    add_checkpoint(writer, 1, {b"%d" % number: content for number, content in enumerate(contents)})
    writer.publish()


def doubted(store: Store) -> int:
    return len(list((store.root / "doubted").iterdir()))


def forge(project: Lender, *names: bytes) -> None:
    """Let the index of the project's pack name each of two blobs, the files' at first, where the other is."""
    (path,) = (pack.with_suffix(".idx") for pack in project.packs)
    content = bytearray(path.read_bytes())
    count = int.from_bytes(content[1028:1032], "big")
    one, two = (
        next(at for at in range(count) if content[1032 + 20 * at : 1052 + 20 * at] == oid)
        for oid in names or project.blobs
    )
    for table in (1032 + 20 * count, 1032 + 24 * count):
        rows = [content[table + 4 * at : table + 4 * at + 4] for at in (one, two)]
        content[table + 4 * one : table + 4 * one + 4] = rows[1]
        content[table + 4 * two : table + 4 * two + 4] = rows[0]
    content[-20:] = hashlib.sha1(content[:-20], usedforsecurity=False).digest()
    path.chmod(0o600)
    path.write_bytes(content)


def forge_beyond(project: Lender) -> bytes:
    """Let the index name a blob where one lies that nobody copies, and return the blob."""
    (stranger,) = project.add("other", [b"other" * 500])
    project.git("repack", "-qad")
    lost = next(iter(project.blobs))
    forge(project, lost, stranger)
    return lost


def test_a_forged_index_of_one_project_takes_no_bytes_from_another(store: Store, project: Lender) -> None:
    """S14: what is said to be saved is stored, whatever the repository of somebody else says."""
    forge(project)
    save(store, *CONTENTS, project=project)
    save(store, *CONTENTS, b"another file, too")
    fresh = store.open()
    assert {oid: fresh.read_blob(oid) for oid in project.blobs} == project.blobs


def test_a_copy_is_trusted_once_maintenance_has_proven_it(store: Store, project: Lender) -> None:
    save(store, *CONTENTS, project=project)
    assert doubted(store) == 1
    store.engine.collect_leftovers()
    assert doubted(store) == 0


def test_a_copy_that_proves_wrong_stays_doubted_and_is_told(store: Store, project: Lender) -> None:
    lost = forge_beyond(project)
    save(store, *CONTENTS, project=project)
    store.engine.collect_leftovers()
    assert doubted(store) == 1
    assert lost in {fault.oid for fault in store.engine.check()}


def test_the_mark_of_a_pack_that_is_gone_goes_too(store: Store, project: Lender) -> None:
    save(store, *CONTENTS, project=project)
    assert store.engine.sweep([])
    assert doubted(store) == 1
    store.engine.collect_leftovers()
    assert doubted(store) == 0


def join(store: Store) -> None:
    """Do what maintenance does."""
    store.engine.collect_leftovers()
    assert store.engine.consolidate()
    store.engine.collect_leftovers()


def marked(store: Store) -> list[Path]:
    """Return the packs that are doubted."""
    return [store.packs / (mark.name + ".pack") for mark in (store.root / "doubted").iterdir()]


def sound(store: Store, blobs: Blobs) -> None:
    """Have a fresh reader, our own proof and git itself look at what is stored."""
    fresh = store.open()
    assert {oid: fresh.read_blob(oid) for oid in blobs} == blobs
    assert list(fresh.check()) == []
    store.judge()


@pytest.mark.parametrize("again", ["stored again", "not stored again"])
def test_wrong_copies_of_which_nothing_is_lost_keep_no_pack_from_being_joined(
    store: Store, project: Lender, again: str
) -> None:
    """What their names stand for is stored elsewhere, or lies among them under another name."""
    forge(project)
    save(store, *CONTENTS, project=project)
    (wrong,) = marked(store)
    save(store, *(CONTENTS if again == "stored again" else ()), b"another file")
    os.utime(wrong)
    os.utime(wrong.with_suffix(".idx"))  # git looks into the newest first
    join(store)
    assert len(store.pack_files()) == 1
    assert [path.name for path in (store.root / "damaged").glob("*.pack")] == [wrong.name]
    assert marked(store) == []
    sound(store, project.blobs)


@pytest.mark.damages
def test_a_wrong_copy_that_is_all_there_is_stays_and_the_other_packs_are_joined(
    store: Store, project: Lender
) -> None:
    lost = forge_beyond(project)
    other = next(oid for oid in project.blobs if oid != lost)
    save(store, *CONTENTS, project=project)
    wrong = marked(store)
    for content in (b"one", b"two", b"three"):
        save(store, content)
    join(store)
    assert len(store.pack_files()) == 2
    assert marked(store) == wrong
    assert store.engine.doubted() == 1
    assert not (store.root / "damaged").exists()
    assert store.engine.repair()
    assert store.engine.consolidate()
    assert store.engine.doubted() == 0
    assert store.open().read_blob(other) == project.blobs[other]
    assert store.open().missing([lost]) == {lost}


# A reader whose index is damaged reads by what the pack itself says (rule K4: the rest stays usable).


BLOBS = [f"content {number}".encode() * 5 for number in range(20)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[GitEngine]:
    (tmp_path / "tmp").mkdir()
    engine = reopened(tmp_path)
    yield engine
    engine.close()


def reopened(folder: Path) -> GitEngine:
    return GitEngine.create(bytes(folder / "objects.git"), temporary=bytes(folder / "tmp"))


def publish(engine: GitEngine, blobs: list[bytes]) -> list[bytes]:
    writer = engine.writer()
    oids = [writer.blob(blob) for blob in blobs]
    writer.publish()
    return oids


def test_any_flipped_byte_of_an_index_hides_nothing(engine: GitEngine, tmp_path: Path) -> None:
    oids = publish(engine, BLOBS)
    (path,) = packs_of(tmp_path, ".idx")
    sound = path.read_bytes()
    path.chmod(0o600)

    for at in range(8, len(sound), 7):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x41]) + sound[at + 1 :])
        again = reopened(tmp_path)

        assert [again.read_blob(oid) for oid in oids] == BLOBS, at
        assert again.missing(oids) == set()
        again.close()


def test_packs_whose_indexes_were_swapped_are_read_all_the_same(engine: GitEngine, tmp_path: Path) -> None:
    first, second = publish(engine, BLOBS[:10]), publish(engine, BLOBS[10:])
    one, two = packs_of(tmp_path, ".idx")
    content = one.read_bytes()
    one.chmod(0o600)
    two.chmod(0o600)
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)

    again = reopened(tmp_path)

    assert [again.read_blob(oid) for oid in first + second] == BLOBS
    again.close()
