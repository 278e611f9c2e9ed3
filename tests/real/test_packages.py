"""Trees that people have: saved, wrecked, restored byte for byte, and the restore undone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood
from lastgood.settings import BUILT_IN_EXCLUDES, CaptureSettings, Settings
from tools.wreckage import picture, wreck

pytestmark = pytest.mark.real

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.environ.get("LASTGOOD_TEST_CACHE") or os.path.join(ROOT, ".cache", "real")
# In node_modules itself everything is content: packages ship folders called `venv` and files `.pyc`.
EVERYTHING = Settings(capture=CaptureSettings(built_in=(), max_file_size=1 << 30))
WITHOUT_NODE_MODULES = tuple(pattern for pattern in BUILT_IN_EXCLUDES if pattern != "node_modules")


@pytest.fixture
def tmp_path(tmp_path: Path, arena: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return a folder on the disk, but in memory for the many files of `node_modules`.

    To make a file there takes a tenth of the processor; that disks keep what is written, Django shows.
    """
    if "[node.tar]" not in request.node.name:
        yield tmp_path
        return
    folder = arena / "node"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def fetched(archive: str, project: Path, *part: str) -> None:
    """Unpack a tree that `scripts/real_trees` fetched, or a part of it, into the (empty) project."""
    path = os.path.join(CACHE, archive)
    if not os.path.isfile(path):
        name = archive.partition(".")[0]
        pytest.skip(f"{archive} is not in {CACHE}: run scripts/real_trees {name}")
    inside = [os.path.join("project", one) for one in part]
    words = ["tar", "-xf", path, "-C", str(project), "--strip-components=1", "--no-same-owner", *inside]
    subprocess.run(words, check=True)


@pytest.mark.parametrize("archive", ["django.tar.gz", "sqlalchemy.tar.gz", "node.tar"])
def test_a_wrecked_tree_comes_back_byte_for_byte(archive: str, project: Path, store: Path) -> None:
    """S1, S2, S3, T2, T3, T8."""
    fetched(archive, project)
    with lastgood.open(
        project, store=store, settings=EVERYTHING, maintenance="off", allow_root=True
    ) as workspace:
        before = picture(project)
        kept = workspace.save("whole").checkpoint
        assert kept.gaps == ()
        held = [entry.path for entry in workspace.entries(kept.id)]
        wreck(project, held)
        wrecked = picture(project)
        assert wrecked != before

        report = workspace.restore(kept.id)
        assert report.omissions == ()
        assert picture(project) == before

        workspace.undo()
        assert picture(project) == wrecked
        workspace.redo()
        assert picture(project) == before
        assert workspace.verify().ok


def test_node_modules_are_content_only_when_switched_on(project: Path, store: Path) -> None:
    """S6."""
    fetched("node.tar", project, "node_modules/lodash")
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        small = workspace.save("as configured").checkpoint
    settings = Settings(capture=CaptureSettings(built_in=WITHOUT_NODE_MODULES))
    with lastgood.open(project, store=store, settings=settings, maintenance="off") as workspace:
        whole = workspace.save("node_modules too").checkpoint
    assert small.manifest.files == 0
    assert whole.manifest.files > 1_000
