"""What changed between two scans, told by what the last one remembers, is what reading both trees tells."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.model.tree import changed, compare, counts, tally
from lastgood.restore.plan import DeletionEvidence, Since, plan
from lastgood.scanner.watch import DirectoryWatch
from lastgood.snapshot import ScannedFiles
from lastgood.trees import Files
from tools.desk import Desk
from tools.values import not_none


def _lay(desk: Desk) -> None:
    for folder in ("a", "a/deep", "b", "plain"):
        for name in ("one", "two", "three"):
            desk.write(f"{folder}/{name}", f"{folder} {name}")
    os.chmod(desk.root / "b" / "two", 0o600)
    os.symlink("one", desk.root / "b" / "link")
    (desk.root / "empty").mkdir()


def _edit(root: Path) -> None:
    (root / "plain" / "two").write_text("other")


def _add(root: Path) -> None:
    (root / "a" / "deep" / "four").write_text("new")
    (root / "new" / "below").mkdir(parents=True)
    (root / "new" / "below" / "file").write_text("new")


def _delete(root: Path) -> None:
    (root / "plain" / "one").unlink()
    shutil.rmtree(root / "a" / "deep")


def _chmod(root: Path) -> None:
    os.chmod(root / "plain" / "three", 0o640)
    os.chmod(root / "a" / "deep", 0o700)


def _change_kinds(root: Path) -> None:
    (root / "plain" / "one").unlink()
    (root / "plain" / "one").mkdir()
    (root / "b" / "link").unlink()
    (root / "b" / "link").write_text("a file")
    shutil.rmtree(root / "a" / "deep")
    (root / "a" / "deep").write_text("a file")


def _rename(root: Path) -> None:
    os.rename(root / "b", root / "c")
    os.rename(root / "a" / "one", root / "a" / "other")


def _touch(root: Path) -> None:
    os.utime(root / "plain" / "two")
    (root / "b" / "one").write_text("b one")


def _ignore(root: Path) -> None:
    (root / "a" / ".gitignore").write_text("two\n")
    (root / "plain" / "two").write_text("other")


@pytest.mark.parametrize("change", [_edit, _add, _delete, _chmod, _change_kinds, _rename, _touch, _ignore])
@pytest.mark.parametrize("watched", [False, True])
def test_what_differs_is_what_reading_both_trees_tells(
    desk: Desk, change: Callable[[Path], None], *, watched: bool
) -> None:
    if watched:
        desk.scanner = desk.local(watch=DirectoryWatch(os.fsencode(desk.store)))
    _lay(desk)
    desk.save()
    before = not_none(desk.previous)
    change(desk.root)
    scan = desk.scan()
    trees = (Files(before, desk.engine), Files(scan.result.tree, desk.engine))
    expected = list(compare(*trees))
    found = list(compare(trees[0], ScannedFiles(scan), differing=scan.differing))
    assert found == expected
    assert tally(trees[0], ScannedFiles(scan), differing=scan.differing) == counts(expected)
    edits = scan.edits(before)
    assert edits is None or [changed(*one) for one in edits] == expected
    assert (edits is not None) == (change in {_edit, _chmod, _touch})


def _set_bits(root: Path) -> None:
    os.chmod(root / "plain" / "three", 0o4755)
    os.chmod(root / "a" / "one", 0o4644)
    os.chmod(root / "a" / "deep", 0o1755)
    (root / "b" / "link").unlink()
    (root / "b" / "link").symlink_to("two")


@pytest.mark.parametrize("change", [_edit, _add, _chmod, _change_kinds, _touch, _ignore, _set_bits])
@pytest.mark.parametrize("fresh", [(), (b"plain/two", b"a/one")])
def test_a_plan_of_edits_is_the_plan_of_both_trees(
    desk: Desk, change: Callable[[Path], None], fresh: tuple[bytes, ...]
) -> None:
    """T1: what is known of the last scan spares a look at all else, and decides nothing."""
    _lay(desk)
    desk.save()
    before = not_none(desk.previous)
    change(desk.root)
    scan = desk.scan(fresh=fresh)
    evidence = DeletionEvidence(
        ignored_then=lambda _path, directory: False,  # noqa: ARG005 - the protocol's
        look=lambda _path: None,
        spares=lambda path: path == b"b/one",
    )
    target = Files(before, desk.engine)
    differing = list(compare(target, ScannedFiles(scan)))
    read = [scan.was_read(one.path) for one in differing]
    since = Since(root=scan.result.tree, differing=scan.differing, edits=scan.edits)
    planned = plan(target, scan, evidence=evidence, since=since)
    assert planned == plan(target, scan, evidence=evidence)
    assert [scan.was_read(one.path) for one in differing] == read


def test_a_scan_of_a_part_tells_no_edits(desk: Desk) -> None:
    """S9: what it left out may be there, and may be gone."""
    _lay(desk)
    desk.save()
    _edit(desk.root)
    scan = desk.scan(budget=0.0)
    assert scan.result.partial
    assert scan.edits(not_none(desk.previous)) is None


def test_what_the_last_scan_did_not_find_has_to_be_read(desk: Desk) -> None:
    _lay(desk)
    desk.save()
    older = not_none(desk.previous)
    _edit(desk.root)
    desk.save()
    _delete(desk.root)
    scan = desk.scan()
    assert scan.edits(older) is None
    assert scan.differing(b"", older, scan.result.tree) is None
    assert scan.differing(b"", not_none(desk.previous), older) is None
    assert scan.differing(b"", not_none(desk.previous), scan.result.tree) is not None
