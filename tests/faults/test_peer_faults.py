"""Faults that were demonstrated in other checkpoint systems: losing work, and being unfaithful."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

import lastgood
from faults.cli import Bench, as_nobody, git
from faults.stage import tree_of
from lastgood.errors import LastgoodError
from lastgood.settings import CaptureSettings, Settings
from lastgood.workspace import Workspace
from tools.long_form import LONG
from tools.values import not_none


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
        workspace.undo()
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
    report = workspace.restore(before.id)
    assert [(one.path, bool(one.reason)) for one in report.omissions] == [(b"place", True)]
    assert (place / "precious.log").read_text() == "the only copy\n"
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
    (nested / "new").write_text("new\n")
    assert workspace.save("clobbered").created
    workspace.restore(before.id)
    assert (nested / "code.py").read_text() == "original\n"
    assert not (nested / "new").exists()
    assert git(nested, "status", "--porcelain") == ("" if committed else "?? code.py")


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


# Faults that were demonstrated in other checkpoint systems: ids, messages, locks, places.


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
    "ref",
    [
        "",
        "HEAD",
        "--quiet",
        "-",
        "..",
        "@{",
        "*",
        "%",
        "master",
        "\n",
        "@~99",
        "abc",
        "ckpt_0123456789abcdef",
    ],
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


# Hazards that two near peers were probed for, and mostly failed.


DELETED = 60_000 if LONG else 3_000
NAMES = [
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
MODES = [0o600, 0o444, 0o664, 0o400, 0o755, 0o700, 0o640, 0o644, 0o000]
TARGETS = {"dangling": "nowhere", "up": "../..", "absolute": "/etc/passwd", "dir": "empty"}


def test_a_repository_cloned_after_the_checkpoint_keeps_its_history(
    workspace: Workspace, bench: Bench
) -> None:
    (bench.workspace / "file").write_text("1\n")
    before = workspace.save("before").checkpoint
    clone = bench.workspace / "clone"
    clone.mkdir()
    git(clone, "init", "-q")
    (clone / "work.py").write_text("work\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "work")
    head = git(clone, "rev-parse", "HEAD")
    present = tree_of(bench.workspace)
    report = workspace.restore(before.id)
    assert git(clone, "rev-parse", "HEAD") == head
    assert git(clone, "cat-file", "-p", "HEAD:work.py") == "work"
    assert any(one.path == b"clone" or one.path.startswith(b"clone/") for one in report.outcomes)
    workspace.undo()
    assert tree_of(bench.workspace) == present


def test_whatever_a_tree_may_hold_comes_back(workspace: Workspace, bench: Bench) -> None:
    """Names beyond ASCII, permissions, empty folders, links, holes; what is ignored stays."""
    (bench.workspace / ".gitignore").write_text("build/\n*.cache\n")
    ignored = [bench.workspace / "build" / "out.o", bench.workspace / "x.cache"]
    for path in ignored:
        path.parent.mkdir(exist_ok=True)
        path.write_text("cached\n")
    held = bench.workspace / "held"
    (held / "empty" / "inside").mkdir(parents=True)
    (held / "empty").chmod(0o750)
    for name in NAMES:
        with open(os.fsencode(held) + b"/" + name, "wb") as file:
            file.write(name)
    for mode in MODES:
        (held / f"{mode:o}").write_text("private\n")
        (held / f"{mode:o}").chmod(mode)
    os.link(held / "644", held / "another name")
    for link, target in TARGETS.items():
        (held / link).symlink_to(target)
    with (held / "sparse").open("wb") as file:
        file.truncate(3_000_000)
        file.seek(2_000_000)
        file.write(b"middle")
    (held / "nothing").touch()
    before = workspace.save("before").checkpoint
    present = tree_of(bench.workspace)
    shutil.rmtree(held)
    assert not workspace.restore(before.id).omissions
    assert tree_of(bench.workspace) == present


def test_a_file_ignored_then_and_not_now_is_kept(workspace: Workspace, bench: Bench) -> None:
    (bench.workspace / ".gitignore").write_text("data.csv\n")
    (bench.workspace / "data.csv").write_text("measured for weeks\n")
    before = workspace.save("ignored then").checkpoint
    (bench.workspace / ".gitignore").unlink()
    report = workspace.restore(before.id)
    assert (bench.workspace / "data.csv").read_text() == "measured for weeks\n"
    assert [one.result for one in report.outcomes if one.path == b"data.csv"] == ["kept"]


def test_tens_of_thousands_of_deleted_files_come_back(workspace: Workspace, bench: Bench) -> None:
    for number in range(DELETED):
        folder = bench.workspace / f"folder-{number // 500}"
        folder.mkdir(exist_ok=True)
        (folder / f"a-long-name-to-fill-any-argument-list-{number}").write_text(f"{number}")
    before = workspace.save("all").checkpoint
    present = tree_of(bench.workspace)
    for folder in bench.workspace.iterdir():
        shutil.rmtree(folder)
    report = workspace.restore(before.id)
    assert not report.omissions
    assert tree_of(bench.workspace) == present


def test_work_on_an_unborn_branch_is_saved_and_restored(workspace: Workspace, bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    (bench.workspace / "file").write_text("1\n")
    before = workspace.save("before").checkpoint
    assert not_none(before.manifest.git).head is None
    (bench.workspace / "file").write_text("2\n")
    workspace.restore(before.id)
    assert (bench.workspace / "file").read_text() == "1\n"


def test_a_head_that_moved_stays_and_is_reported(workspace: Workspace, bench: Bench) -> None:
    git(bench.workspace, "init", "-q")
    (bench.workspace / "file").write_text("1\n")
    git(bench.workspace, "add", ".")
    git(bench.workspace, "commit", "-qm", "one")
    before = workspace.save("before").checkpoint
    for text in ("2\n", "3\n"):
        (bench.workspace / "file").write_text(text)
        git(bench.workspace, "commit", "-qam", text.strip())
    (bench.workspace / "staged").write_text("staged\n")
    git(bench.workspace, "add", "staged")
    head, index = git(bench.workspace, "rev-parse", "HEAD"), (bench.workspace / ".git" / "index").read_bytes()
    report = workspace.restore(before.id)
    assert report.head_moved is not None
    assert (report.head_moved.commits, report.head_moved.to) == (2, head)
    assert report.head_moved.left_branch == "moved"
    assert git(bench.workspace, "rev-parse", "HEAD") == head
    assert git(bench.workspace, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert (bench.workspace / ".git" / "index").read_bytes() == index
    assert (bench.workspace / "file").read_text() == "1\n"
    shutil.rmtree(bench.workspace / ".git")
    moved = not_none(workspace.preview(workspace.plan_restore(before.id)).head_moved)
    assert (moved.to, moved.left_branch) == (None, "gone")


@pytest.mark.parametrize(
    "attribute", ["eol=lf", "eol=crlf", "text", "ident", "filter=upper", "working-tree-encoding=UTF-16"]
)
def test_attributes_and_filters_change_no_byte(workspace: Workspace, bench: Bench, attribute: str) -> None:
    git(bench.workspace, "init", "-q")
    git(bench.workspace, "config", "filter.upper.clean", "tr a-z A-Z")
    git(bench.workspace, "config", "filter.upper.smudge", "tr A-Z a-z")
    (bench.workspace / ".gitattributes").write_text(f"* {attribute}\n")
    content = b"Mixed Case\r\nand \n ends $Id$\r\n"
    (bench.workspace / "file").write_bytes(content)
    before = workspace.save("before").checkpoint
    assert workspace.read(before.id, "file") == content
    (bench.workspace / "file").unlink()
    workspace.restore(before.id)
    assert (bench.workspace / "file").read_bytes() == content
