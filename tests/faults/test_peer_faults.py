"""Faults that were demonstrated in other checkpoint systems: losing work, and being unfaithful."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

import lastgood
from faults.cli import Bench, git
from faults.stage import contents_of, tree_of
from lastgood.settings import CaptureSettings, Settings
from lastgood.workspace import Workspace


def _capped(bench: Bench) -> Workspace:
    settings = Settings(capture=CaptureSettings(max_file_size=2000))
    return lastgood.open(bench.workspace, store=bench.store, maintenance="off", settings=settings)


def test_a_file_that_grew_past_the_cap_is_never_lost_nor_taken_for_deleted(bench: Bench) -> None:
    grown = bench.workspace / "grows.bin"
    grown.write_bytes(b"1" * 1000)
    with _capped(bench) as workspace:
        small = workspace.save("small").checkpoint
        grown.write_bytes(b"3" * 3000)
        large = workspace.save("large", allow_empty=True).checkpoint
        assert [(gap.path, gap.reason) for gap in large.gaps] == [(b"grows.bin", "too-large")]
        assert large.manifest.changes.deleted == 0
        workspace.restore(small.id)
        assert grown.read_bytes() == b"1" * 1000
        workspace.restore(large.id)
        assert grown.exists()
        workspace.undo() if grown.read_bytes() != b"1" * 1000 else None
        workspace.undo()
        assert grown.read_bytes() == b"3" * 3000


def test_an_overwritten_file_that_is_ignored_by_now_comes_back(workspace: Workspace, bench: Bench) -> None:
    secret = bench.workspace / "secret.cfg"
    secret.write_text("the only copy\n")
    before = workspace.save("before").checkpoint
    (bench.workspace / ".gitignore").write_text("secret.cfg\n")
    workspace.save("now ignored")
    secret.write_text("overwritten by an agent\n")
    workspace.restore(before.id)
    assert secret.read_text() == "the only copy\n"
    workspace.undo()
    assert secret.read_text() == "overwritten by an agent\n"


def test_a_global_excludes_file_hides_nothing(bench: Bench) -> None:
    (bench.home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/.excludes\n")
    (bench.home / ".excludes").write_text("*.md\n")
    (bench.home / ".config" / "git").mkdir(parents=True)
    (bench.home / ".config" / "git" / "ignore").write_text("*.md\n")
    (bench.workspace / "README.md").write_text("read me\n")
    before = bench.save()
    (bench.workspace / "README.md").unlink()
    assert bench("restore", before, "--yes").code == 0
    assert (bench.workspace / "README.md").read_text() == "read me\n"


def test_an_ignored_file_in_a_directory_that_has_to_become_a_file_survives(
    workspace: Workspace, bench: Bench
) -> None:
    place = bench.workspace / "place"
    place.write_text("a file\n")
    (bench.workspace / ".gitignore").write_text("*.log\n")
    before = workspace.save("a file").checkpoint
    place.unlink()
    place.mkdir()
    (place / "precious.log").write_text("the only copy\n")
    (place / "seen.txt").write_text("captured\n")
    present = tree_of(bench.workspace)
    workspace.restore(before.id)
    assert b"the only copy\n" in contents_of(tree_of(bench.workspace))
    workspace.undo()
    assert tree_of(bench.workspace) == present


@pytest.mark.parametrize("committed", [True, False], ids=["with a commit", "without a commit"])
def test_a_nested_repository_is_captured_like_any_folder(
    workspace: Workspace, bench: Bench, *, committed: bool
) -> None:
    nested = bench.workspace / "vendor" / "lib"
    nested.mkdir(parents=True)
    (nested / "code.py").write_text("original\n")
    git(nested, "init", "-q")
    if committed:
        git(nested, "add", ".")
        git(nested, "commit", "-qm", "one")
    before = workspace.save("before").checkpoint
    (nested / "code.py").write_text("clobbered\n")
    assert workspace.save("clobbered").created
    workspace.restore(before.id)
    assert (nested / "code.py").read_text() == "original\n"
    assert (nested / ".git" / "HEAD").exists()


def test_a_restore_forgets_no_later_checkpoint(workspace: Workspace, bench: Bench) -> None:
    ids = []
    for state in "abc":
        (bench.workspace / "file").write_text(state)
        ids.append(workspace.save(state).checkpoint.id)
    workspace.restore(ids[0])
    assert [one.id for one in workspace.list() if one.kind != "guard"] == ids[::-1]
    for state, id in zip("cab", (ids[2], ids[0], ids[1]), strict=True):
        workspace.restore(id)
        assert (bench.workspace / "file").read_text() == state


def test_the_store_borrows_nothing_from_the_project(workspace: Workspace, bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    for number in range(20):
        (bench.workspace / f"f{number}").write_text(f"content {number}\n" * 50)
    git(bench.workspace, "add", ".")
    git(bench.workspace, "commit", "-qm", "one")
    before = workspace.save("before").checkpoint
    for number in range(20):
        (bench.workspace / f"f{number}").write_text("all changed\n")
    git(bench.workspace, "commit", "-qa", "--amend", "-m", "other")
    git(bench.workspace, "reflog", "expire", "--expire=now", "--all")
    git(bench.workspace, "gc", "-q", "--prune=now")
    workspace.restore(before.id)
    assert (bench.workspace / "f7").read_text() == "content 7\n" * 50
    shutil.rmtree(bench.workspace / ".git")
    workspace.undo()
    assert (bench.workspace / "f7").read_text() == "all changed\n"
    assert workspace.save("without the repository", allow_empty=True).created
    assert workspace.verify(deep=True).ok


def test_untracked_files_are_only_removed_with_a_copy_kept(workspace: Workspace, bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    before = workspace.save("before", allow_empty=True).checkpoint
    (bench.workspace / "never" / "saved").mkdir(parents=True)
    (bench.workspace / "never" / "saved" / "by-anyone").write_text("new work\n")
    workspace.restore(before.id)
    assert not (bench.workspace / "never").exists()
    workspace.undo()
    assert (bench.workspace / "never" / "saved" / "by-anyone").read_text() == "new work\n"


def test_names_beyond_ascii_and_ignored_folders_survive_a_restore(workspace: Workspace, bench: Bench) -> None:
    names = [
        b"caf\xc3\xa9",
        b"cafe\xcc\x81",
        b"\xff\xfe",
        b"a\nb",
        b"tab\there",
        b" lead",
        b"-rf",
        b'quo"te',
        b"$(x)",
    ]
    root = os.fsencode(bench.workspace)
    for name in names:
        with open(root + b"/" + name, "wb") as file:
            file.write(name)
    (bench.workspace / ".gitignore").write_text("build/\n*.cache\n")
    (bench.workspace / "build").mkdir()
    (bench.workspace / "build" / "out.o").write_text("built\n")
    (bench.workspace / "x.cache").write_text("cached\n")
    before = workspace.save("before").checkpoint
    present = tree_of(bench.workspace)
    for name in names:
        os.unlink(root + b"/" + name)
    report = workspace.restore(before.id)
    assert not report.omissions
    assert tree_of(bench.workspace) == present


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o664, 0o400, 0o755, 0o700, 0o640, 0o000])
def test_permissions_come_back_as_they_were(workspace: Workspace, bench: Bench, mode: int) -> None:
    key = bench.workspace / "key"
    key.write_text("private\n")
    key.chmod(mode)
    before = workspace.save("before").checkpoint
    key.unlink()
    workspace.restore(before.id)
    assert stat.S_IMODE(key.stat().st_mode) == mode


def test_empty_directories_links_and_hard_links_come_back(workspace: Workspace, bench: Bench) -> None:
    (bench.workspace / "empty" / "inside").mkdir(parents=True)
    (bench.workspace / "empty").chmod(0o750)
    (bench.workspace / "one").write_text("shared\n")
    os.link(bench.workspace / "one", bench.workspace / "two")
    for name, target in (
        ("dangling", "nowhere"),
        ("up", "../.."),
        ("absolute", "/etc/passwd"),
        ("dir", "empty"),
    ):
        (bench.workspace / name).symlink_to(target)
    before = workspace.save("before").checkpoint
    present = tree_of(bench.workspace)
    shutil.rmtree(bench.workspace / "empty")
    for name in ("one", "two", "dangling", "up", "absolute", "dir"):
        (bench.workspace / name).unlink()
    assert not workspace.restore(before.id).omissions
    assert tree_of(bench.workspace) == present


def test_a_fifo_and_a_socket_are_gaps_and_stay(workspace: Workspace, bench: Bench) -> None:
    os.mkfifo(bench.workspace / "pipe")
    before = workspace.save("before", allow_empty=True).checkpoint
    assert [(gap.path, gap.reason) for gap in before.gaps] == [(b"pipe", "unsupported")]
    (bench.workspace / "file").write_text("x")
    workspace.restore(before.id)
    assert stat.S_ISFIFO((bench.workspace / "pipe").lstat().st_mode)


def _strange_git(bench: Bench) -> None:
    (bench.home / "templates" / "hooks").mkdir(parents=True)
    (bench.home / "hooks").mkdir()
    for folder in (bench.home / "templates" / "hooks", bench.home / "hooks"):
        hook = folder / "pre-commit"
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    (bench.home / ".gitconfig").write_text(
        "[core]\n\tautocrlf = true\n\tsafecrlf = true\n\thooksPath = ~/hooks\n"
        "[commit]\n\tgpgSign = true\n[user]\n\tuseConfigOnly = true\n"
        "[init]\n\ttemplateDir = ~/templates\n"
        '[filter "lfs"]\n\tclean = missing-program\n\tsmudge = missing-program\n\trequired = true\n'
    )


def test_no_setting_of_the_users_git_changes_bytes_or_stops_a_save(bench: Bench) -> None:
    _strange_git(bench)
    git(bench.workspace, "init", "-q")
    contents = {"lf": b"a\nb\n", "crlf": b"a\r\nb\r\n", "id": b"$Id$\n$Id: abc $\n", "big.bin": b"\0\1\2\r\n"}
    (bench.workspace / ".gitattributes").write_text(
        "* text=auto eol=lf ident\n*.bin filter=lfs\ncrlf eol=crlf\n"
    )
    for name, content in contents.items():
        (bench.workspace / name).write_bytes(content)
    before = bench.save("exact")
    for name in contents:
        (bench.workspace / name).unlink()
    assert bench("restore", before, "--yes").code == 0
    assert {name: (bench.workspace / name).read_bytes() for name in contents} == contents


def test_statuses_of_a_diff_tell_what_happened(workspace: Workspace, bench: Bench) -> None:
    def path(name: str) -> Path:
        return bench.workspace / name

    path("grown").write_text("a\n")
    path("shrunk").write_text("a\nb\nc\n")
    path("binary").write_bytes(b"\0\1\2")
    path("mode").write_text("m\n")
    path("moved").write_text("a long text that is moved\n" * 20)
    before = workspace.save("before").checkpoint
    path("grown").write_text("a\nb\n")
    path("shrunk").write_text("a\n")
    path("binary").unlink()
    path("mode").chmod(0o755)
    path("moved").rename(path("caf\u00e9\ttab"))
    path("empty").write_bytes(b"")
    found = {one.path: one for one in workspace.diff(before.id, patch=False).files}
    assert found[b"grown"].status == "modified"
    assert found[b"shrunk"].status == "modified"
    assert found[b"binary"].status == "deleted"
    assert found[b"mode"].status == "mode"
    assert found[b"empty"].status == "added"
    moved = found["caf\u00e9\ttab".encode()]
    assert (moved.status, moved.old_path) == ("renamed", b"moved")


def test_checkpoints_over_the_limit_go_and_their_bytes_too(bench: Bench) -> None:
    from faults.clocks import DAY, ShiftedClock
    from lastgood.settings import LimitSettings, Rungs

    clock = ShiftedClock()
    settings = Settings(limits=LimitSettings(max_checkpoints=12), retention={"auto": Rungs(last=100)})
    with lastgood.open(
        bench.workspace, store=bench.store, maintenance="off", settings=settings, clock=clock
    ) as workspace:
        for _ in range(30):
            (bench.workspace / "noise").write_bytes(os.urandom(100_000))
            workspace.save("noise", kind="auto")
        workspace.maintain()
        assert len(workspace.list()) == 12
        full = workspace.status().store_bytes
        clock.shift = 2 * DAY
        workspace.maintain()
        assert workspace.status().store_bytes < full - 1_500_000
        assert workspace.verify(deep=True).ok
