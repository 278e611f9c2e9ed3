"""What a scan remembers of the last one: a directory by its identity, or nothing."""

from __future__ import annotations

import os

from lastgood.host import Scan
from lastgood.model.tree import DIRECTORY, StoredTree, TreeId, compare
from lastgood.paths import join
from lastgood.view import Files, RememberedFiles, ScannedFiles
from tools.desk import Desk


def plant(desk: Desk) -> None:
    desk.write(".gitignore", "*.log\nbuild/\n")
    for number in range(12):
        desk.write(f"d{number % 3}/e{number % 2}/f{number}", f"content {number}")
    for name in ("x.log", "build/x", "d1/build/x/kept", "d1/x.log"):
        desk.write(name)
    os.chmod(desk.root / "d0" / "e0" / "f0", 0o600)
    os.chmod(desk.root / "d2", 0o700)
    os.symlink("d1", desk.root / "link")
    os.mkdir(desk.root / "empty")


def directories(desk: Desk, scan: Scan) -> list[tuple[bytes, TreeId]]:
    found = [(b"", scan.result.tree)]
    for path, tree in found:  # grows
        found += [
            (join(path, entry.name), entry.tree_id)
            for entry in desk.engine.directory(tree)
            if entry.kind == DIRECTORY
        ]
    return found


def change(desk: Desk) -> None:
    desk.write("d0/e0/f0", "changed")
    desk.write("d2/new/file")
    os.unlink(desk.root / "d1" / "e1" / "f1")
    os.rmdir(desk.root / "empty")


def test_what_the_last_scan_found_is_remembered_as_the_engine_holds_it(desk: Desk) -> None:
    plant(desk)
    first = desk.save(forced=(b"d1/x.log", b"d1/build/x"))
    change(desk)
    second = desk.scan()
    places = directories(desk, first)
    assert {b"", b"d0/e0", b"d1/build/x", b"empty"} <= {path for path, _ in places}
    for path, tree in places:
        assert tuple(second.remembered(path, tree) or ("nothing",)) == (
            desk.engine.directory(tree) or ("nothing",)
        )


def test_nothing_is_remembered_of_another_identity(desk: Desk) -> None:
    plant(desk)
    desk.save()
    change(desk)
    second = desk.scan()
    for path, tree in directories(desk, second):
        if second.remembered(path, tree) is not None:
            assert path in {b"d0/e1", b"d1/e0", b"d2/e0", b"d2/e1"}
    first = TreeId(tree=b"\1" * 20)
    assert second.remembered(b"", first) is None
    assert second.remembered(b"nowhere", second.result.tree) is None


def test_nothing_is_remembered_when_the_details_are_damaged(desk: Desk) -> None:
    """K6."""
    plant(desk)
    first = desk.save()
    second = desk.scan()
    for details in desk.cache.glob("scan.details.*"):
        details.write_bytes(bytes(details.stat().st_size))
    assert second.remembered(b"", first.result.tree) is None


def test_changes_are_the_same_whether_remembered_or_read(desk: Desk) -> None:
    plant(desk)
    first = desk.save()
    change(desk)
    second = desk.scan()
    held = Files(first.result.tree, desk.engine)
    now = ScannedFiles(second)
    remembered = list(compare(RememberedFiles(held, second), now))
    assert remembered == list(compare(StoredTree(held.root, desk.engine.directory), now))
    assert len(remembered) == 4
