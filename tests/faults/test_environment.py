"""A bad place for the store or the workspace: refused with the reason, before anything is written."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood
from faults.cli import Bench, as_nobody
from faults.disks import tmpfs
from faults.stage import tree_of
from lastgood.errors import LastgoodError, NotFound, Storage, Unsafe

ROOT = os.geteuid() == 0


def test_a_store_inside_its_workspace_is_never_captured(bench: Bench) -> None:
    (bench.workspace / "file").write_text("1")
    store = bench.workspace / ".store"
    try:
        with lastgood.open(bench.workspace, store=store, maintenance="off") as workspace:
            saved = workspace.save("one").checkpoint
            assert [entry.path for entry in workspace.entries(saved.id)] == [b"file"]
            (bench.workspace / "file").unlink()
            workspace.restore(saved.id)
            assert workspace.verify(deep=True).ok
    except Unsafe:
        assert not store.exists()  # refusing is right too


def test_a_workspace_inside_the_store_is_refused(bench: Bench) -> None:
    bench.save("one", "--allow-empty")
    with pytest.raises(Unsafe):
        lastgood.open(bench.store / "workspaces", store=bench.store)


@pytest.mark.parametrize("mark", ["{]", "", '{"engine":"git","format":9}\n'])
def test_a_mark_of_format_that_is_damaged_stops_nothing_and_is_mended(bench: Bench, mark: str) -> None:
    """K4: the catalogue says which version the store has; a newer one is told from one flipped bit."""
    bench.save("one", "--allow-empty")
    sound = (bench.store / "format").read_text()
    (bench.store / "format").write_text(mark)
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as workspace:
        assert not workspace.verify().ok
        assert workspace.verify(repair=True).ok
    assert (bench.store / "format").read_text() == sound


def _dumb(bench: Bench) -> str:
    try:
        with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as workspace:
            workspace.save("as nobody", allow_empty=True)
    except LastgoodError as error:
        return error.code
    return "saved"


@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_a_store_that_cannot_be_written_says_so(bench: Bench, mode: int) -> None:
    theirs = bench.home / "theirs"
    theirs.mkdir()
    here = type(bench)(bench.workspace, theirs / "store", bench.home)
    assert as_nobody(lambda: _dumb(here), folder=theirs) == "saved"
    for folder, _, files in os.walk(here.store):
        for name in files:
            os.chmod(os.path.join(folder, name), mode & 0o400)
    for folder, _, _ in os.walk(here.store, topdown=False):
        os.chmod(folder, mode)
    said = as_nobody(lambda: _dumb(here), folder=theirs)
    for folder, _, _ in os.walk(here.store):
        os.chmod(folder, 0o700)
    assert said == "storage"


@pytest.fixture
def small_disk(bench: Bench) -> Iterator[Path]:
    """A file system of six megabytes, or a folder on a limited one where mounting is not allowed."""
    with tmpfs(bench.home / "small", size=6 << 20, inodes=100_000) as disk:
        yield disk.place


def test_a_full_disk_under_the_store_costs_no_earlier_checkpoint(bench: Bench, small_disk: Path) -> None:
    store = small_disk / "store"
    contents: dict[str, bytes] = {}
    with lastgood.open(bench.workspace, store=store, maintenance="off") as workspace:
        failure: Storage | None = None
        for _ in range(30):
            content = os.urandom(700_000)
            (bench.workspace / "noise").write_bytes(content)
            try:
                contents[workspace.save("noise").checkpoint.id] = content
            except Storage as error:
                failure = error
                break
        assert failure is not None
        assert failure.hint
        assert {one.id for one in workspace.list()} == set(contents)
        for id, content in contents.items():
            assert workspace.read(id, "noise") == content
        assert workspace.verify().ok
        workspace.delete(*list(contents)[:3])
    from faults.clocks import DAY, ShiftedClock

    later = ShiftedClock(2 * DAY)
    with lastgood.open(bench.workspace, store=store, maintenance="off", clock=later) as workspace:
        workspace.maintain()
        (bench.workspace / "noise").write_bytes(b"small")
        assert workspace.save("room again").created
        assert workspace.verify(deep=True).ok


def test_a_full_disk_under_the_workspace_deletes_nothing(bench: Bench, small_disk: Path) -> None:
    project = small_disk / "project"
    project.mkdir()
    (project / ".lastgood.toml").write_text("")
    for number in range(4):
        (project / f"old-{number}").write_bytes(os.urandom(1_000_000))
    with lastgood.open(project, store=bench.store, maintenance="off") as workspace:
        before = workspace.save("old").checkpoint
        old = tree_of(project)
        for number in range(4):
            (project / f"old-{number}").unlink()
        (project / "new").write_bytes(os.urandom(4_500_000))
        new = tree_of(project)
        with pytest.raises(Storage):
            workspace.restore(before.id)
        assert (project / "new").exists()
        if workspace.status().state == "interrupted":
            workspace.recover(roll_back=True)
        assert tree_of(project) == new
        (project / "new").unlink()
        workspace.restore(before.id)
        assert tree_of(project) == old


def test_a_missing_workspace_is_no_proof_that_the_project_is_gone(bench: Bench) -> None:
    saved = bench.save("one", "--allow-empty")
    bench.workspace.rename(bench.home / "moved")
    with lastgood.open(bench.workspace, store=bench.store) as workspace:
        assert [one.id for one in workspace.list()] == [saved]
        with pytest.raises(NotFound):
            workspace.save()
    assert bench("save").code == 10
    (bench.home / "moved").rename(bench.workspace)
    assert bench.json("list")["checkpoints"][0]["id"] == saved


def test_a_workspace_that_vanishes_under_an_open_one_is_no_empty_checkpoint(bench: Bench) -> None:
    (bench.workspace / "file").write_text("1")
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as workspace:
        workspace.save("one")
        shutil.rmtree(bench.workspace)
        with pytest.raises(NotFound):
            workspace.save("two")
        assert len(workspace.list()) == 1


def test_odd_things_in_a_workspace_stop_nothing(bench: Bench) -> None:
    os.mknod(bench.workspace / "s", stat.S_IFSOCK | 0o600)  # none is bound by a path of any length
    os.mkfifo(bench.workspace / "pipe")
    (bench.workspace / "loop").symlink_to("loop")
    (bench.workspace / "deep").mkdir()
    (bench.workspace / ("n" * 255)).write_text("long name")
    place = os.open(bench.workspace, os.O_RDONLY)
    for _ in range(150):  # deeper than PATH_MAX
        os.mkdir("d" * 40, dir_fd=place)
        place, old = os.open("d" * 40, os.O_RDONLY, dir_fd=place), place
        os.close(old)
    os.close(place)
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as workspace:
        saved = workspace.save("odd").checkpoint
        gaps = {(gap.path, gap.reason) for gap in saved.gaps}
        assert {(b"s", "unsupported"), (b"pipe", "unsupported")} <= gaps
        (bench.workspace / "loop").unlink()
        workspace.restore(saved.id)
        assert (bench.workspace / "loop").is_symlink()
        assert (bench.workspace / "pipe").is_fifo()
        assert workspace.verify().ok
    subprocess.run(["rm", "-rf", bench.workspace / ("d" * 40)], check=True)


def test_no_git_on_the_path_stops_no_save_and_no_restore(bench: Bench) -> None:
    (bench.workspace / "file").write_text("1")
    nothing = {"PATH": "/nonexistent"}
    answer = bench("save", "--json", variables=nothing)
    assert answer.code == 0, answer
    (bench.workspace / "file").write_text("2")
    saved = answer.document["checkpoint"]["id"]
    assert bench("restore", saved, "--yes", variables=nothing).code == 0
    assert (bench.workspace / "file").read_text() == "1"
    for verb in (("undo",), ("verify",), ("status",), ("list",), ("diff", saved)):
        assert bench(*verb, variables=nothing).code == 0, verb
