"""Saves beside a process that writes: each captured file is one whole version (rules S8, S16)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood.objects.engine import GitEngine
from tools.desk import Desk
from tools.forks import ended, forked
from tools.harm import flip
from tools.living import eventually

SIZE = 200_000
# Whoever does not get the processor for so long in the middle of a file, in seconds, may be taken for one
# who has finished with it: nothing that can be seen tells the one from the other.
STALL = 0.008

# Every version is one number repeated; so a part of one beside a part of another shows.
WRITERS = {
    "in place": """
        with open(path, "r+b", buffering=0) as file:
            for start in range(0, size, 4096):
                file.write(block(number)[: min(4096, size - start)])
        """,
    "truncate and rewrite": """
        with open(path, "wb", buffering=0) as file:
            file.write(block(number) * (size // 4096) + block(number)[: size % 4096])
        """,
    "rename over": """
        with open(path + ".new", "wb") as file:
            file.write(block(number) * (size // 4096) + block(number)[: size % 4096])
        os.rename(path + ".new", path)
        """,
}


def slow_ones(desk: Desk) -> Path:
    """Return where the writer notes the files that took it long, and with a dash its rests."""
    return desk.cache.with_name("slow")


def rests(desk: Desk) -> int:
    return slow_ones(desk).read_text().count("-")


@pytest.fixture(params=sorted(WRITERS))
def writing(request: pytest.FixtureRequest, desk: Desk) -> Iterator[str]:
    """Run a process that writes three files over and over, with a rest now and then."""
    step = textwrap.indent(textwrap.dedent(WRITERS[request.param]), "    " * 2)
    code = textwrap.dedent(
        f"""
        import os, random, time
        size = {SIZE}
        def block(number):
            return (b"%07d\\n" % number) * 512
        number = 0
        slow = open({str(slow_ones(desk))!r}, "w", buffering=1)
        while True:
            number += 1
            path = {str(desk.root)!r} + "/f%d" % (number % 3)
            began = time.monotonic()
        {{step}}
            if time.monotonic() - began > {STALL}:
                print("f%d" % (number % 3), file=slow)
            if number % 60 == 0:
                print("-", file=slow)
                time.sleep(0.15)
        """
    ).replace("{step}", step.replace("\n        ", "\n    ").lstrip("\n"))
    for number in range(3):
        desk.write(f"f{number}", b"0000000\n" * (SIZE // 8))
    writer = subprocess.Popen([sys.executable, "-c", code])
    assert eventually(lambda: slow_ones(desk).exists() and writer.poll() is None)  # it has begun
    yield request.param
    assert writer.poll() is None
    writer.kill()
    writer.wait()


@pytest.mark.parametrize("exact", [True, False], ids=["times-prove", "no-times-prove"])
def test_each_captured_file_is_whole(desk: Desk, writing: str, *, exact: bool) -> None:
    """S8: also on file systems that do not give each change a time of its own."""
    if not exact:
        desk.exact_on = lambda _root: None
    whole = unstable = 0
    torn: dict[str, object] = {}
    for _ in range(34):
        scan = desk.save()
        for path, (_, _, content) in desk.held(scan).items():
            if path.endswith(b".new"):
                continue
            # A file may be empty, or shorter, only while `open` and `write` are two moments.
            if content != content[:8] * (SIZE // 8):
                torn[path.decode()] = (writing, len(content), set(content.split(b"\n")))
            whole += 1
        unstable += len(scan.result.gaps)
        assert set(desk.gaps(scan).values()) <= {"unstable"}
    before = rests(desk) if torn else 0
    assert not torn or eventually(lambda: rests(desk) > before)  # it has finished what it was at
    slow = set(slow_ones(desk).read_text().split())
    assert {path: said for path, said in torn.items() if path not in slow} == {}
    assert whole + unstable >= 3 * 30
    assert whole > 0


def test_entries_that_come_and_go_never_raise(desk: Desk) -> None:
    code = textwrap.dedent(
        f"""
        import os, shutil
        root = {str(desk.root)!r}
        while True:
            for number in range(30):
                os.makedirs(f"{{root}}/d{{number % 3}}/e", exist_ok=True)
                open(f"{{root}}/d{{number % 3}}/e/f{{number}}", "w").write("x" * number)
                os.symlink("x", f"{{root}}/d{{number % 3}}/l{{number}}")
            for number in range(3):
                os.rename(f"{{root}}/d{{number}}/e", f"{{root}}/d{{number}}/g")
                open(f"{{root}}/d{{number}}/e", "w").close()
                shutil.rmtree(f"{{root}}/d{{number}}")
        """
    )
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(60):
            scan = desk.save()
            assert set(desk.gaps(scan).values()) <= {"unstable"}
            desk.held(scan)
    finally:
        writer.kill()
        writer.wait()


def test_a_directory_swapped_for_a_link_leads_nowhere(desk: Desk) -> None:
    """T12: what lies outside is never captured."""
    outside = desk.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret")
    code = textwrap.dedent(
        f"""
        import os
        os.chdir({str(desk.root)!r})
        while True:
            os.mkdir("way")
            with open("way/a", "w") as file:
                file.write("public")
            os.rename("way", "old")
            os.symlink({str(outside)!r}, "way")
            os.unlink("old/a")
            os.rmdir("old")
            os.unlink("way")
        """
    )
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(60):
            contents = {content for kind, _, content in desk.held(desk.save()).values() if kind == "file"}
            assert b"secret" not in contents
    finally:
        writer.kill()
        writer.wait()


def test_savers_at_once_agree(desk: Desk) -> None:
    """S16."""
    for number in range(200):
        desk.write(f"d{number % 9}/f{number}", str(number))

    def save() -> None:
        assert len({desk.save().result.tree for _ in range(10)}) == 1

    children = [forked(save) for _ in range(4)]
    assert [ended(child) for child in children] == [0] * 4
    kept = desk.save()
    shutil.rmtree(desk.cache)
    desk.cache.mkdir()
    assert desk.save().result == kept.result


@pytest.mark.real
def test_a_hundred_thousand_files_fit_in_memory(arena: Path) -> None:
    """The budget is 150 MB, for the first save and for one without a change."""
    code = textwrap.dedent(
        """
        import os, sys
        from lastgood.host import SystemClock
        from lastgood.objects.engine import GitEngine
        from lastgood.scanner.scan import WorkspaceScanner
        from lastgood.host import ScanRequest
        from lastgood.settings import CaptureSettings
        root, cache, store = sys.argv[1:]
        os.makedirs(store + "/tmp", exist_ok=True)
        here = os.fsencode(store)
        engine = GitEngine.create(here + b"/objects.git", temporary=here + b"/tmp")
        scanner = WorkspaceScanner(cache=os.fsencode(cache), clock=SystemClock(), objects=engine)
        writer = engine.writer()
        scan = scanner.scan(ScanRequest(root=os.fsencode(root), settings=CaptureSettings(), previous=None,
            generation="g", store=os.fsencode(store)), writer=writer)
        assert scan.result.files == 100_000
        writer.publish(durable=False)
        scan.keep()
        # Not by getrusage, which also counts what the process was before it ran this program.
        with open("/proc/self/status") as file:
            (peak,) = (int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
        assert peak < 150 * 1024
        """
    )
    desk = Desk(Path(tempfile.mkdtemp(dir=arena)))
    root = str(desk.root)
    for number in range(100_000):
        if number % 20 == 0:
            folder = f"{root}/d{number // 2000}/e{number // 20}"
            os.makedirs(folder)
        with open(f"{folder}/file{number}", "w") as file:
            file.write(str(number))
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, root, desk.cache, desk.store], check=True)
    shutil.rmtree(root)


# The first save of a project copies what its packs have, and reads every file all the same.


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
    flip(pack, offset + 8)


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
