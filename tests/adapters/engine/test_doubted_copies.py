"""What was copied out of a project is relied on by nobody else until it is proven."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

import pytest

from lastgood.testing.engine_suite import add_checkpoint
from lending import Project

if TYPE_CHECKING:
    from pathlib import Path

    from lastgood.testing.git_store import GitStore as Store
    from lending import Blobs

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


def forge(project: Lender) -> None:
    """Let the index of the project's pack name each of two blobs where the other lies."""
    (path,) = (pack.with_suffix(".idx") for pack in project.packs)
    content = bytearray(path.read_bytes())
    count = int.from_bytes(content[1028:1032], "big")
    one, two = (
        next(at for at in range(count) if content[1032 + 20 * at : 1052 + 20 * at] == oid)
        for oid in project.blobs
    )
    for table in (1032 + 20 * count, 1032 + 24 * count):
        rows = [content[table + 4 * at : table + 4 * at + 4] for at in (one, two)]
        content[table + 4 * one : table + 4 * one + 4] = rows[1]
        content[table + 4 * two : table + 4 * two + 4] = rows[0]
    content[-20:] = hashlib.sha1(content[:-20], usedforsecurity=False).digest()
    path.chmod(0o600)
    path.write_bytes(content)


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
    forge(project)
    save(store, *CONTENTS, project=project)
    store.engine.collect_leftovers()
    assert doubted(store) == 1
    assert {fault.oid for fault in store.engine.check()} >= set(project.blobs)


def test_the_mark_of_a_pack_that_is_gone_goes_too(store: Store, project: Lender) -> None:
    save(store, *CONTENTS, project=project)
    save(store, b"something else")
    assert store.engine.consolidate()
    store.engine.collect_leftovers()
    assert doubted(store) == 0
