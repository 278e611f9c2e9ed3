"""Faults that were demonstrated in other checkpoint systems: ids, messages, locks, places."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lastgood
from faults.cli import PROGRAM, SOURCES, Bench, as_nobody, git
from faults.clocks import AlikeClock
from faults.stage import tree_of
from lastgood.errors import Ambiguous, LastgoodError, NotFound
from lastgood.workspace import Workspace

MESSAGES = [
    "a | pipe || two",
    "[step-7] not a step",
    "subject\n\nbody\nmore",
    "",
    "--quiet",
    "-m",
    "100% %s {} \\n",
    "\u202eright to left",
    "\x1b[31mred\x1b[0m\a",
    "caf\u00e9 \U0001f600",
    "'; DROP TABLE checkpoints; --",
]


@pytest.mark.parametrize("message", MESSAGES)
def test_any_message_comes_back_as_it_was_and_hides_no_checkpoint(
    workspace: Workspace, bench: Bench, message: str
) -> None:
    (bench.workspace / "file").write_text("1")
    saved = workspace.save(message).checkpoint
    (bench.workspace / "file").write_text("2")
    other = workspace.save("other").checkpoint
    assert [(one.id, one.message) for one in workspace.list()] == [(other.id, "other"), (saved.id, message)]


def test_a_message_with_control_characters_reaches_no_terminal(bench: Bench) -> None:
    (bench.workspace / "\x1b]0;owned\x07").write_text("1")
    bench.save("\x1b[31mred\x07", "--allow-empty")
    for verb in (("list",), ("show", "@"), ("show", "@", "--files"), ("status",), ("verify",)):
        answer = bench(*verb)
        assert "\x1b" not in answer.out + answer.err, verb
        assert "\x07" not in answer.out + answer.err, verb


def test_a_checkpoint_of_an_earlier_process_is_found(bench: Bench) -> None:
    saved = bench.save("early", "--allow-empty")
    for ref in (saved, saved[:13], saved.removeprefix("ckpt_")[:8], "@", "latest"):
        assert bench.json("show", ref)["checkpoint"]["id"] == saved


@pytest.mark.parametrize(
    "ref", ["", "HEAD", "--quiet", "-", "..", "@{", "*", "%", "master", "\n", "@~99", "abc"]
)
def test_what_names_no_checkpoint_is_refused_and_leaves_nothing_behind(
    workspace: Workspace, bench: Bench, ref: str
) -> None:
    (bench.workspace / "file").write_text("1")
    workspace.save("one")
    (bench.workspace / "file").write_text("dirty")
    before = workspace.list()
    with pytest.raises(LastgoodError) as caught:
        workspace.restore(ref)
    assert caught.value.code in {"not-found", "invalid", "usage"}
    assert workspace.list() == before
    assert (bench.workspace / "file").read_text() == "dirty"


def test_an_id_that_looks_like_an_option_is_never_one(bench: Bench) -> None:
    bench.save("one", "--allow-empty")
    assert bench("restore", "--quiet", "--yes").code == 2  # no REF was given
    assert bench("restore", "--", "--quiet").code == 2


def test_an_ambiguous_prefix_lists_the_candidates(bench: Bench) -> None:
    clock = AlikeClock()
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off", clock=clock) as workspace:
        ids = {workspace.save("one", allow_empty=True).checkpoint.id for _ in range(3)}
        alike = f"{AlikeClock.HEAD:04x}"
        assert len(ids) == 3
        assert all(id.removeprefix("ckpt_").startswith(alike) for id in ids)
        with pytest.raises(Ambiguous) as caught:
            workspace.get(alike)
        assert ids == set(caught.value.details["candidates"])  # type: ignore[call-overload]


def test_left_over_lock_files_block_nothing(workspace: Workspace, bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    (bench.workspace / "file").write_text("1")
    first = workspace.save("one").checkpoint
    (bench.workspace / ".git" / "index.lock").touch()
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "gc.pid"):
        (bench.store / "objects.git" / name).touch()
    (bench.workspace / "file").write_text("2")
    assert workspace.save("two").created
    workspace.restore(first.id)
    assert (bench.workspace / "file").read_text() == "1"
    workspace.maintain()
    assert workspace.verify().ok


@pytest.mark.chance("how far a restore is when it is killed")
def test_a_restore_killed_half_way_is_known_as_such_and_finished(bench: Bench) -> None:
    for number in range(600):
        (bench.workspace / f"f{number}").write_text(f"old {number}\n")
    before = bench.save("old")
    old = tree_of(bench.workspace)
    for number in range(600):
        (bench.workspace / f"f{number}").write_text(f"new {number}\n")
    new = tree_of(bench.workspace)
    for delay in (0.15, 0.2, 0.25, 0.3, 0.35, 0.4):
        arguments = ["--store", str(bench.store), "-C", str(bench.workspace), "restore", before, "--yes"]
        running = subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "LASTGOOD_MAINTENANCE": "off"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        running.kill()
        running.wait()
        if bench.json("status")["state"] == "interrupted":
            assert bench("save", "too early").code == 14
            assert bench("recover").code == 0
            assert tree_of(bench.workspace) == old
        assert tree_of(bench.workspace) in (old, new)
        if tree_of(bench.workspace) == old:
            assert bench("undo").code == 0
        assert tree_of(bench.workspace) == new


def test_spellings_of_one_folder_are_one_workspace_and_two_folders_are_two(bench: Bench) -> None:
    projects = {}
    for name in ("x", "y"):
        folder = bench.home / name
        folder.mkdir()
        (folder / "who").write_text(name)
        projects[name] = folder
    (bench.home / "link").symlink_to("x")
    store = ("--store", str(bench.store))
    ids = []
    for spelling, cwd in (
        ("x", bench.home),
        ("x/", bench.home),
        ("./x", bench.home),
        (".", projects["x"]),
        ("link", bench.home),
    ):
        answer = bench.run(*store, "-C", spelling, "save", "--allow-empty", "--json", cwd=cwd)
        ids.append(answer.document["checkpoint"]["id"])
    bench.run(*store, "-C", ".", "save", "--json", "--allow-empty", cwd=projects["y"])
    listed = bench.run(*store, "-C", "x", "list", "--json", cwd=bench.home).document["checkpoints"]
    assert [one["id"] for one in listed] == ids[::-1]
    refused = bench.run(*store, "-C", ".", "restore", ids[0], "--yes", cwd=projects["y"])
    assert refused.code == 15
    assert (projects["y"] / "who").read_text() == "y"


def test_one_unreadable_file_is_a_gap_and_the_rest_is_saved(bench: Bench, tmp_path: Path) -> None:
    bench.save("as root", "--allow-empty")
    (bench.workspace / "open").write_text("read me\n")
    (bench.workspace / "shut").write_text("not me\n")
    (bench.workspace / "shut").chmod(0)
    (bench.workspace / "closed").mkdir()
    (bench.workspace / "closed" / "in").write_text("nor me\n")
    (bench.workspace / "closed").chmod(0)
    theirs = tmp_path / "theirs"
    theirs.mkdir()

    def save() -> str:
        with lastgood.open(bench.workspace, store=theirs / "store", maintenance="off") as workspace:
            saved = workspace.save("as nobody").checkpoint
            found = sorted((gap.path, gap.reason) for gap in saved.gaps)
            return f"{found} {[one.path for one in workspace.entries(saved.id)]}"

    said = as_nobody(save, folder=theirs)
    (bench.workspace / "closed").chmod(0o755)
    assert said == "[(b'closed', 'unreadable'), (b'shut', 'unreadable')] [b'open']"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_store_is_private_whatever_the_umask(bench: Bench, umask: int) -> None:
    (bench.workspace / "secret").write_text("s3cret\n")
    old = os.umask(umask)
    try:
        with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as workspace:
            workspace.save("one")
            (bench.workspace / "secret").write_text("other\n")
            workspace.restore("@")
            workspace.maintain()
    finally:
        os.umask(old)
    for path in [bench.store, *bench.store.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert not mode & 0o077, f"{path} {mode:o}"


def test_an_unknown_id_costs_no_guard(bench: Bench) -> None:
    bench.save("one", "--allow-empty")
    assert bench("restore", "ckpt_0123456789abcdef", "--yes").code == 10
    assert len(bench.json("list")["checkpoints"]) == 1


def test_the_latest_of_an_empty_store_is_not_found(workspace: Workspace) -> None:
    with pytest.raises(NotFound):
        workspace.get("@")
