"""Trees of any depth and width: nothing falls by recursion, and no cost grows with a square.

Every verb here runs with two hundred frames to go, so that no recursion over folders can pass by luck.
"""

from __future__ import annotations

import cProfile
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Unsafe
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.tree import DIRECTORY, FILE, Entry
from lastgood.paths import DEEPEST, LONGEST_PATH, join
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import Draft, SaveTransaction
from lastgood.workspace import Workspace
from tools.long_form import LONG
from tools.unlocked import writers

FRAMES = 200
DEEP = 600
TOO_DEEP = (3_000, 20_000) if LONG else (DEEPEST + 100,)


@contextmanager
def few_frames() -> Iterator[None]:
    """Leave this many frames to whatever is called within."""
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


@pytest.fixture(autouse=True)
def nothing_deep_is_left(tmp_path: Path) -> Iterator[None]:
    """Take away what pytest, which is recursive there, could not."""
    yield
    subprocess.run(["rm", "-rf", "--", *(str(path) for path in tmp_path.iterdir())], check=True)


def chain(folder: Path, depth: int, *, name: bytes = b"d", leaf: bytes = b"leaf") -> None:
    """Make folders within each other, and a file in the last."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open(leaf, os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def depth_of(folder: Path, *, name: bytes = b"d") -> int:
    """Count folders within each other."""
    here = os.open(folder, os.O_RDONLY)
    depth = -1
    while here >= 0:
        depth += 1
        try:
            below = os.open(name, os.O_RDONLY, dir_fd=here)
        except FileNotFoundError:
            below = -1
        os.close(here)
        here = below
    return depth


def test_these_tests_would_notice_recursion() -> None:
    def down(left: int) -> int:
        return 0 if not left else 1 + down(left - 1)

    with few_frames():
        assert down(FRAMES // 2) == FRAMES // 2
        with pytest.raises(RecursionError):
            down(FRAMES)


def test_six_hundred_folders_in_each_other_are_an_ordinary_tree(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S3, T3, T8, K4: every verb that walks trees, with few frames."""
    (project / "file").write_text("good")
    good = workspace.save("good").checkpoint
    chain(project, DEEP)
    with few_frames():
        deep = workspace.save("deep").checkpoint
        assert not deep.gaps
        assert not workspace.save().created
        assert len(workspace.entries(deep.id)) == DEEP + 2
        (change,) = workspace.diff(good.id, deep.id).files
        assert change.path.count(b"/") == DEEP
        workspace.restore(deep.id, to=tmp_path / "aside")
        assert not workspace.verify(deep=True).damaged
        assert not workspace.verify(repair=True).damaged
        workspace.prune(verify=True)
        workspace.restore(good.id)
        assert os.listdir(project) == ["file"]
        workspace.undo()
        workspace.restore(good.id, merge=True)
        workspace.undo()
        workspace.maintain()
        workspace.export(tmp_path / "export")
        workspace.status()
    assert depth_of(tmp_path / "aside") == DEEP
    assert depth_of(project) == DEEP
    assert os.listdir(store / "tmp") == []


def test_a_deep_tree_with_folders_at_every_step_comes_back(workspace: Workspace, project: Path) -> None:
    """S3, T3: more are left and entered again than are open at once."""
    empty = workspace.save("empty", allow_empty=True).checkpoint
    path = project
    for number in range(200):
        for name in (f"a{number}", f"z{number}"):
            (path / name).mkdir()
            (path / name / "file").write_text(name)
        path = path / "m"
        path.mkdir()
    full = workspace.save("full").checkpoint
    assert len(workspace.entries(full.id)) == 200 * 5
    workspace.restore(empty.id)
    assert os.listdir(project) == []
    workspace.undo()
    assert not workspace.diff(full.id).files
    (project / "z0" / "file").write_text("other")
    (path / "new").write_text("new")
    assert {one.status for one in workspace.diff(full.id).files} == {"added", "modified"}


@pytest.mark.parametrize("depth", TOO_DEEP)
def test_what_is_deeper_than_git_reads_is_a_gap_and_stays(
    workspace: Workspace, project: Path, tmp_path: Path, depth: int
) -> None:
    """S7, T4: an older checkpoint comes back all the same, and undo takes it back."""
    (project / "file").write_text("good")
    good = workspace.save("good").checkpoint
    chain(project, depth)
    (project / "file").write_text("bad")
    with few_frames():
        deep = workspace.save("deep")
        workspace.restore(deep.checkpoint.id, to=tmp_path / "aside")
        report = workspace.restore(good.id)
        damaged = workspace.verify(deep=True).damaged
        workspace.undo()
    (gap,) = deep.checkpoint.gaps
    assert (gap.reason, gap.path) == ("unsupported", b"/".join([b"d"] * (DEEPEST + 1)))
    assert deep.new_gaps == (gap,)
    (kept,) = (one for one in report.outcomes if one.result == "kept")
    assert kept.path == b"/".join([b"d"] * DEEPEST)
    assert kept.reason == "holds what is too deep to be captured: --discard would delete it"
    assert "failed" not in {one.result for one in report.outcomes}
    assert damaged == ()
    assert (project / "file").read_text() == "bad"
    assert depth_of(tmp_path / "aside") == DEEPEST
    assert depth_of(project) == depth


def test_discard_takes_away_what_is_too_deep_and_says_that_it_does_not_come_back(
    workspace: Workspace, project: Path
) -> None:
    """T4, T8: undo brings back the folders that the guard holds."""
    good = workspace.save("good", allow_empty=True).checkpoint
    chain(project, DEEPEST + 50)
    with few_frames():
        report = workspace.restore(good.id, discard=True)
        assert os.listdir(project) == []
        undone = workspace.undo()
    (told,) = (one for one in report.outcomes if one.reason is not None)
    assert (told.path, told.result) == (b"/".join([b"d"] * DEEPEST), "removed")
    assert told.reason == "with what is too deep in it to be kept"
    (lacking,) = (one for one in undone.outcomes if one.reason is not None)
    assert lacking.reason == "without what was too deep in it to be kept"
    assert depth_of(project) == DEEPEST


def test_discard_spares_a_repository_however_deep_it_is(workspace: Workspace, project: Path) -> None:
    """T4: a nested .git is never deleted."""
    good = workspace.save("good", allow_empty=True).checkpoint
    chain(project, DEEPEST + 50, leaf=b".git")
    report = workspace.restore(good.id, discard=True)
    reasons = {one.path: one.reason for one in report.outcomes if one.result == "kept"}
    assert reasons[b"/".join([b"d"] * DEEPEST)] == "holds a repository"
    assert depth_of(project) == DEEPEST + 50


def test_the_deepest_tree_that_is_kept_can_be_read_by_git(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """S7, T11."""
    chain(project, DEEPEST, leaf=b"x")
    checkpoint = workspace.save("deepest").checkpoint
    assert not checkpoint.gaps
    listed = subprocess.run(
        ["git", "--git-dir", str(store / "objects.git"), "ls-tree", "-rz", checkpoint.commit, "workspace"],
        capture_output=True,
        check=True,
    ).stdout
    path = listed.split(b"\t")[1].rstrip(b"\0")
    assert path == b"workspace/" + b"d/" * DEEPEST + b"x"
    assert depth_of(project) == DEEPEST


@pytest.mark.parametrize("private", ["leaf", "/d"])
def test_what_is_private_is_left_out_of_an_export_however_deep_it_lies(
    project: Path, store: Path, tmp_path: Path, private: str
) -> None:
    """S5: whether the file is included, or the folder far above it."""
    settings = lastgood.Settings(capture=lastgood.Settings().capture.replace(include=(private,)))
    (project / ".gitignore").write_text(private)
    chain(project, DEEP)
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        workspace.save("private")
        with few_frames():
            report = workspace.export(tmp_path / "export")
    (withheld,) = report.withheld
    (path,) = withheld.paths
    assert path == b"d/" * DEEP + b"leaf"


def test_one_odd_workspace_stops_no_verb_of_the_store(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """K4, K8."""
    chain(project, DEEP)
    workspace.save("deep")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("other")
    with lastgood.open(tmp_path / "other", store=store, maintenance="off") as other, few_frames():
        other.save("other")
        assert other.verify(deep=True).checkpoints == 2
        assert not other.verify(repair=True).damaged
        other.prune(verify=True)
        assert len(other.workspaces()) == 2
        other.report()
        other.maintain()
    assert depth_of(project) == DEEP


def saved_as_once(workspace: Workspace, depth: int) -> Checkpoint:
    """Make a checkpoint of a tree deeper than is kept today, as earlier versions did."""
    context = workspace._context
    writer = writers(context).engine_of().writer()
    entries = [Entry(name=b"leaf", kind=FILE, mode=0o644, oid=writer.blob(b"deep"))]
    for _ in range(depth):
        tree = writer.directory(entries)
        entries = [Entry(name=b"d", kind=DIRECTORY, mode=0o755, oid=tree.tree)]
    file = Entry(name=b"file", kind=FILE, mode=0o644, oid=writer.blob(b"beside"))
    tree = writer.directory([*entries, file])
    with SaveTransaction(context) as saving, WorkspaceSnapshot(saving) as snapshot:
        writer.publish()
        snapshot.scan.result = snapshot.scan.result.replace(tree=tree, files=2)  # type: ignore[misc]
        return snapshot.keep(saving, Draft(kind="manual", message="once")).checkpoint


def test_a_checkpoint_that_is_too_deep_already_stops_no_verb(
    workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    """K4: it is named, the others are proven, and what is sound in it can be restored."""
    (project / "file").write_text("good")
    good = workspace.save("good").checkpoint
    once = saved_as_once(workspace, 3_000)
    with few_frames():
        assert not workspace.verify().damaged
        (damaged,) = workspace.verify(deep=True).damaged
        assert not workspace.verify(repair=True).damaged
        workspace.prune(verify=True)
        workspace.diff(once.id)
        assert len(workspace.entries(once.id)) == 3_002
        workspace.maintain()
        workspace.export(tmp_path / "export")
        with pytest.raises(Unsafe, match="too long a path"):
            workspace.restore(once.id)
        workspace.restore(once.id, paths=["file"])
        assert (project / "file").read_text() == "beside"
        workspace.restore(good.id)
    assert damaged.id == once.id
    assert "too long a path" in damaged.reason
    assert (project / "file").read_text() == "good"


LONG_NAMES = (b"n" * 255, b"\n" * 255, b"\xff" * 255, "é".encode() * 127)


def test_names_as_long_as_they_can_be_come_back(workspace: Workspace, project: Path, tmp_path: Path) -> None:
    """S3, T5, T6: also where a folder has taken a file's place, and the reverse."""
    root = os.fsencode(project)
    for name in LONG_NAMES:
        with open(join(root, name), "wb") as file:
            file.write(name)
        os.mkdir(join(root, name[:-2] + b"-d"))
        with open(join(join(root, name[:-2] + b"-d"), name), "wb") as file:
            file.write(b"inside")
    good = workspace.save("good").checkpoint
    assert not good.gaps
    for name in LONG_NAMES:
        os.unlink(join(root, name))
        os.mkdir(join(root, name))
        with open(join(join(root, name), name), "wb") as file:
            file.write(b"other")
        os.unlink(join(join(root, name[:-2] + b"-d"), name))
        os.rmdir(join(root, name[:-2] + b"-d"))
        with open(join(root, name[:-2] + b"-d"), "wb") as file:
            file.write(b"a file now")
    turned = workspace.save("turned").checkpoint

    report = workspace.restore(good.id)
    assert "failed" not in {one.result for one in report.outcomes}
    for name in LONG_NAMES:
        with open(join(root, name), "rb") as file:
            assert file.read() == name
    workspace.undo()
    assert not workspace.diff(turned.id).files
    workspace.restore(turned.id, to=tmp_path / "aside")


def test_a_conflict_over_the_longest_name_gets_its_other_version_beside_it(
    workspace: Workspace, project: Path
) -> None:
    """T17: under a name that is cut."""
    file = project / ("n" * 255)
    file.write_text("first\n")
    first = workspace.save("first").checkpoint
    file.write_text("second\n")
    workspace.save("second")
    file.write_text("mine\n")
    workspace.restore(first.id, merge=True)
    (beside,) = set(os.listdir(project)) - {file.name}
    assert (project / beside).read_text() == "first\n"
    assert len(beside) == 255
    assert file.read_text() == "mine\n"


def long_path(folder: Path, length: int) -> bytes:
    """Make a file whose path in a folder is so many bytes long, and return that path."""
    path = b""
    here = os.open(folder, os.O_RDONLY)
    while length - len(path) > 256:
        name = b"p" * min(255, length - len(path) - 3)
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, path = below, join(path, name)
    name = b"f" * (length - len(path) - 1)
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    return join(path, name)


def test_the_longest_path_comes_back_and_a_longer_one_is_a_gap(
    workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    """S7, T3: although no program could name the one from the top."""
    (project / "a").mkdir()
    empty = workspace.save("empty").checkpoint
    longest = b"a/" + long_path(project / "a", LONGEST_PATH - 2)
    assert len(longest) == LONGEST_PATH
    with few_frames():
        held = workspace.save("longest").checkpoint
        assert not held.gaps
        workspace.restore(empty.id)
        assert os.listdir(project / "a") == []
        workspace.undo()
        assert not workspace.diff(held.id).files
        assert not workspace.verify(deep=True).damaged
    (project / "b").mkdir()
    longer = b"b/" + long_path(project / "b", LONGEST_PATH - 1)
    gapped = workspace.save("longer").checkpoint
    assert [(gap.path, gap.reason) for gap in gapped.gaps] == [(longer, "unsupported")]
    workspace.restore(gapped.id, to=tmp_path / "aside")


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls that some work takes: unlike its time, they are the same each time."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def costs(tmp_path: Path, make: Callable[[Path], None]) -> dict[str, int]:
    """Return what verbs cost on a tree that came after a checkpoint."""
    project = tmp_path / "project"
    project.mkdir()
    with lastgood.open(project, store=tmp_path / "store", maintenance="off") as workspace:
        empty = workspace.save("empty", allow_empty=True).checkpoint
        make(project)
        counted = {"save": calls_of(lambda: workspace.save("full"))}
        counted["diff"] = calls_of(lambda: workspace.diff(empty.id, "@", patch=False))
        counted["restore"] = calls_of(lambda: workspace.restore(empty.id))
        counted["undo"] = calls_of(workspace.undo)
        counted["verify"] = calls_of(lambda: workspace.verify(deep=True))
    return counted


@pytest.mark.parametrize("shape", ["deep", "wide"])
def test_twice_the_tree_costs_about_twice_as_much(tmp_path: Path, shape: str) -> None:
    """T3: taking a tree away costs what deleting it costs; a square would be four times."""

    def make(folder: Path, size: int) -> None:
        if shape == "deep":
            chain(folder, size)
            return
        for number in range(size):
            (folder / f"{number}").write_text(f"{number % 7}")

    sizes = (120, 240) if shape == "deep" else (60, 120)
    once, twice = (costs(_made(tmp_path / f"{size}"), partial(make, size=size)) for size in sizes)
    assert {verb: calls for verb, calls in twice.items() if calls > 2.7 * once[verb]} == {}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.skipif(not LONG, reason="two hundred thousand files take minutes: LASTGOOD_TORTURE=1")
def test_two_hundred_thousand_files_in_one_folder(tmp_path: Path) -> None:
    """S3, T3, K4."""

    def make(folder: Path) -> None:
        for number in range(200_000):
            (folder / f"{number}").write_text(f"{number % 977}")

    costs(tmp_path, make)


_MEASURED = """
import resource, sys
import lastgood
with lastgood.open(sys.argv[1], store=sys.argv[2], maintenance="off") as workspace:
    workspace.status()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = workspace.diff(*sys.argv[3:])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(report.patch or b""))
"""
MEMORY = 64 << 10  # in KiB, as getrusage counts


def grown(project: Path, store: Path, *refs: str) -> int:
    """Return by how many KiB a process grows in which two sides are compared."""
    # Through a shell: a process counts as its own what the one that it was forked from has held.
    shell = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", _MEASURED]
    done = subprocess.run([*shell, str(project), str(store), *refs], capture_output=True, check=True)
    return int(done.stdout.split()[0])


def test_a_difference_of_large_files_takes_little_memory(project: Path, store: Path) -> None:
    """They are told to differ, and not read: 1 GiB of zeros took 2.1 GB."""
    size = (1 << 30) if LONG else (160 << 20)
    capture = lastgood.Settings().capture.replace(max_file_size=2 << 30)
    settings = lastgood.Settings(capture=capture)
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        empty = workspace.save("empty", allow_empty=True).checkpoint
        with open(project / "zeros", "wb") as file:
            file.truncate(size)
        full = workspace.save("full").checkpoint
        (told,) = workspace.diff(empty.id, full.id).files
    assert (told.binary, told.large) == (True, True)
    assert grown(project, store, empty.id, full.id) < MEMORY


def test_a_difference_of_texts_takes_little_more_than_their_lines(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """Seven hundred thousand lines, no two the same, against one: the worst case for what compares them."""
    lines = [b"%07d\n" % number for number in range(700_000)]
    ids = []
    for text in (b"one\n", b"".join(lines)):
        (project / "text").write_bytes(text)
        ids.append(workspace.save("text").checkpoint.id)
    held = sum((sys.getsizeof(line) + 15) // 16 * 16 + 8 for line in lines) + sum(map(len, lines))
    assert grown(project, store, *ids) < MEMORY + held // 1024


if sys.platform == "darwin":  # there it is bytes
    MEMORY <<= 10
