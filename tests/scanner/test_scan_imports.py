"""The first save of a project copies what its packs have, and reads every file all the same."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.objects.engine import GitEngine
from tools.desk import Desk

Git = Callable[..., str]

FILES = 300


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    return tmp_path / "objects.git/objects/pack"


@pytest.fixture
def project(tmp_path: Path, desk: Desk, git: Git) -> Desk:
    """Return a desk over a project whose files are in a pack."""
    (tmp_path / "tmp").mkdir()
    desk.engine = GitEngine.create(
        os.fsencode(tmp_path / "objects.git"), temporary=os.fsencode(tmp_path / "tmp")
    )
    git(desk.root, "init", "-q")
    for number in range(FILES):
        desk.write(f"f{number}", f"content {number}")
    git(desk.root, "add", ".")
    git(desk.root, "commit", "-qm", "all")
    git(desk.root, "gc", "-q")
    return desk


def counts(packs: Path, git: Git) -> list[int]:
    """Return how many blobs there are in each pack."""
    said = [git(packs, "verify-pack", "-v", str(path)) for path in packs.glob("*.idx")]
    return sorted(sum(" blob " in line for line in lines.splitlines()) for lines in said)


def test_what_the_project_has_packed_is_copied(project: Desk, packs: Path, git: Git) -> None:
    project.write("f1", "changed since")
    held = project.held(project.save())
    assert held[b"f1"][2] == b"changed since"
    assert held[b"f299"][2] == b"content 299"
    assert counts(packs, git) == [1, FILES]
    project.write("f2", "changed as well")
    project.save()
    assert counts(packs, git) == [1, 1, FILES]


def test_files_are_held_as_they_are_and_not_as_the_index_says(project: Desk, packs: Path, git: Git) -> None:
    """S1: a filter that was removed since left other bytes in the objects than in the files."""
    git(project.root, "config", "filter.f.clean", "tr a-z A-Z")
    project.write(".gitattributes", "* filter=f\n")
    for number in range(FILES):
        os.utime(project.root / f"f{number}", (1, number))
    git(project.root, "add", ".")
    git(project.root, "commit", "-qm", "in capitals")
    git(project.root, "config", "--unset", "filter.f.clean")
    git(project.root, "gc", "-q")
    held = project.held(project.save())
    assert {held[b"f%d" % number][2] for number in range(FILES)} == {
        b"content %d" % number for number in range(FILES)
    }
    assert max(counts(packs, git)) == FILES + 1


def damage_a_blob(project: Desk, git: Git) -> None:
    (pack,) = (project.root / ".git/objects/pack").glob("*.pack")
    lines = git(project.root, "verify-pack", "-v", str(pack)).splitlines()
    offset = int(next(line for line in lines if " blob " in line).split()[4])
    content = bytearray(pack.read_bytes())
    content[offset + 8] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(content)


def test_a_damaged_pack_of_the_project_costs_time_only(project: Desk, packs: Path, git: Git) -> None:
    damage_a_blob(project, git)
    held = project.held(project.save())
    assert {held[b"f%d" % number][2] for number in range(FILES)} == {
        b"content %d" % number for number in range(FILES)
    }
    assert counts(packs, git) == [FILES]


def test_lost_details_and_a_damaged_pack_together_cost_time_only(
    project: Desk, packs: Path, git: Git
) -> None:
    project.save()
    shutil.rmtree(packs)
    packs.mkdir()
    for path in project.cache.glob("scan.details.*"):
        path.write_bytes(b"")
    damage_a_blob(project, git)
    project.generation = "second"
    assert len(project.held(project.save())) == FILES
    assert counts(packs, git) == [FILES]


def test_what_is_not_in_the_worktree_is_not_copied(project: Desk, packs: Path, git: Git) -> None:
    git(project.root, "sparse-checkout", "set", "--no-cone", "/f2*")
    there = len(list(project.root.glob("f*")))
    assert there < FILES / 2
    for number in range(FILES):
        project.write(f"g{number}", f"content {number}")
    git(project.root, "add", "--sparse", ".")
    shutil.rmtree(project.root / ".git/info")
    assert len(project.held(project.save())) == there + FILES
    assert sum(counts(packs, git)) == FILES


@pytest.fixture(params=["clone --shared", "clone --depth=1", "worktree", "clone --filter", "submodule"])
def related(request: pytest.FixtureRequest, project: Desk, tmp_path: Path, git: Git) -> Desk:
    """Return a desk over a relative of the project."""
    place = tmp_path / "relative"
    place.mkdir()
    other = Desk(place, engine=project.engine)
    other.root.rmdir()
    words = request.param.split()
    if words[0] == "worktree":
        git(project.root, "worktree", "add", "-q", str(other.root))
    elif words[0] == "submodule":
        git(place, "init", "-q", "above")
        where = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"]
        git(place / "above", *where, str(project.root), "below")
        other.root = place / "above/below"
    else:
        git(project.root, "config", "uploadpack.allowFilter", "true")
        option = "--filter=blob:limit=10" if words[1] == "--filter" else words[1]
        source = str(project.root) if words[1] == "--shared" else f"file://{project.root}"
        git(place, "clone", "-q", option, source, str(other.root))
    return other


def test_relatives_of_a_repository_lend_what_they_have(related: Desk, packs: Path, git: Git) -> None:
    held = related.held(related.save())
    assert {held[b"f%d" % number][2] for number in range(FILES)} == {
        b"content %d" % number for number in range(FILES)
    }
    assert sum(counts(packs, git)) == FILES
    assert max(counts(packs, git)) >= FILES - 10


def test_a_repository_with_other_ids_lends_nothing(desk: Desk, tmp_path: Path, packs: Path, git: Git) -> None:
    (tmp_path / "tmp").mkdir()
    desk.engine = GitEngine.create(
        os.fsencode(tmp_path / "objects.git"), temporary=os.fsencode(tmp_path / "tmp")
    )
    git(desk.root, "init", "-q", "--object-format=sha256")
    for number in range(FILES):
        desk.write(f"f{number}", f"content {number}")
    git(desk.root, "add", ".")
    git(desk.root, "commit", "-qm", "all")
    git(desk.root, "gc", "-q")
    assert len(desk.held(desk.save())) == FILES
    assert counts(packs, git) == [FILES]


def test_copying_goes_on_where_no_process_can_be_forked(project: Desk, packs: Path, git: Git) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        held = project.held(project.save())
    finally:
        end.set()
        thread.join()
    assert len(held) == FILES
    assert counts(packs, git) == [0, FILES]
