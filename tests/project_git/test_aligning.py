"""T9: HEAD and index come back as they were at the checkpoint; no branch is moved."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import project_git
from lastgood.errors import Conflict, Damaged, LastgoodError, Unsafe, Unsupported
from lastgood.project_git.restore import Realignment, left_behind
from project_git.bench import Bench
from tools.values import not_none


def text(bench: Bench, name: str = "HEAD") -> str:
    return (bench.path / ".git" / name).read_text().strip()


def test_nothing_is_planned_where_nothing_changed(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    bench.git("status")
    os.utime(bench.path / "a", (1, 1))
    bench.git("update-index", "--refresh")
    assert bench.plan(target) is None


def test_what_was_staged_is_staged_again(bench: Bench) -> None:
    bench.commit("a")
    bench.write("a", "staged\n")
    bench.git("add", "a")
    bench.write("a", "edited\n")
    bench.write("new")
    bench.git("add", "-N", "new")
    then, target = bench.status(), bench.save()
    bench.git("reset", "-q", "--hard")
    bench.git("add", ".")
    done = not_none(bench.back(target))
    assert done.result == "restored"
    assert bench.status() == then
    assert text(bench) == "ref: refs/heads/main"


def test_head_is_detached_where_its_branch_went_on(bench: Bench) -> None:
    old = bench.commit("a")
    target = bench.save()
    new = bench.commit("b")
    done = not_none(bench.back(target))
    assert "main" in not_none(done.reason)
    assert text(bench) == old
    assert bench.git("rev-parse", "main").decode().strip() == new
    assert bench.status() == set()


def test_head_is_attached_again_where_its_branch_still_points_there(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    bench.git("checkout", "-q", "-b", "side")
    bench.commit("b")
    bench.back(target)
    assert text(bench) == "ref: refs/heads/main"
    assert bench.status() == set()
    bench.git("checkout", "-q", "--detach")
    detached = bench.save()
    bench.git("checkout", "-q", "main")
    bench.back(detached)
    assert text(bench) == bench.head()


def test_a_branch_that_is_gone_is_not_made_again(bench: Bench) -> None:
    bench.commit("a")
    bench.git("checkout", "-q", "-b", "gone")
    old = bench.commit("b")
    target = bench.save()
    bench.git("checkout", "-q", "main")
    bench.git("branch", "-D", "gone")
    bench.back(target)
    assert text(bench) == old
    assert bench.git("branch", "--list", "gone") == b""


def test_the_old_head_is_kept_by_a_ref_and_named(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    bench.git("checkout", "-q", "--detach")
    lost = bench.commit("b")
    done = not_none(bench.back(target))
    kept = done.details["kept"]
    assert isinstance(kept, str)
    assert kept.startswith("refs/lastgood/kept/")
    assert bench.git("rev-parse", kept).decode().strip() == lost
    bench.git("gc", "-q", "--prune=now")
    bench.git("reflog", "expire", "--expire=now", "--all")
    bench.git("cat-file", "-e", lost)


def test_the_way_of_head_stands_in_its_log(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    new = bench.commit("b")
    bench.back(target)
    assert "lastgood" in bench.git("reflog", "-1").decode()
    assert bench.git("rev-parse", "HEAD@{1}").decode().strip() == new


def test_it_is_undone_and_done_again(bench: Bench) -> None:
    bench.commit("a")
    bench.write("a", "staged\n")
    bench.git("add", "a")
    then, target = bench.status(), bench.save()
    bench.git("commit", "-q", "-m", "on")
    new = bench.head()
    part = bench.planned(target)
    assert bench.settle(part).result == "restored"
    assert bench.status() == then
    for _ in range(2):
        assert bench.settle(part.turned()).result == "restored"
        assert (text(bench), bench.head(), bench.status()) == ("ref: refs/heads/main", new, set())
        assert bench.settle(part).result == "restored"
        assert bench.status() == then


def test_settling_twice_is_settling_once(bench: Bench) -> None:
    part = bench.gone_on()
    bench.settle(part)
    log = text(bench, "logs/HEAD")
    assert bench.settle(part).result == "restored"
    assert text(bench, "logs/HEAD") == log


def test_before_the_first_commit_and_back_again(bench: Bench) -> None:
    bench.write("a")
    bench.git("add", "a")
    then, target = bench.status(), bench.save()
    first = bench.commit("b")
    clean = bench.save()
    done = not_none(bench.back(target))
    assert done.result == "restored"
    assert bench.status() == then
    assert bench.git("rev-parse", "main").decode().strip() == first
    bench.back(clean)
    assert (text(bench), bench.status()) == ("ref: refs/heads/main", set())


def test_an_index_that_was_not_there_comes_back_empty(bench: Bench) -> None:
    bench.write("a")
    target = bench.save()
    bench.git("add", "a")
    bench.back(target)
    assert bench.status() == {"?? a"}


def test_conflicts_come_back_and_are_said(bench: Bench) -> None:
    bench.commit("a")
    bench.git("checkout", "-q", "-b", "side")
    bench.commit("a", "side\n")
    bench.git("checkout", "-q", "main")
    bench.commit("a", "main\n")
    bench.git("merge", "side", fails=True)
    then, target = bench.status(), bench.save()
    bench.git("merge", "--abort")
    done = not_none(bench.back(target))
    assert done.details["conflicts"] == ["a"]
    assert "merge" in (done.reason or "")
    assert bench.status() == then
    clean = bench.plan(target)
    assert clean is None


def test_conflicts_that_go_are_said(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    bench.write("a", "stashed\n")
    bench.git("stash", "-q")
    bench.commit("a", "main\n")
    bench.git("stash", "pop", fails=True)
    done = not_none(bench.back(target))
    assert done.details["conflicts_replaced"] == ["a"]
    assert "conflict" in (done.reason or "")
    assert bench.status() == set()


def merging(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "side", "HEAD~1")
    bench.commit("a", "side\n")
    bench.git("merge", "main", fails=True)


def rebasing(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "side", "HEAD~1")
    bench.commit("a", "side\n")
    bench.git("rebase", "main", fails=True)


def picking(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "side", "HEAD~1")
    bench.commit("a", "side\n")
    bench.git("cherry-pick", "main", fails=True)


def reverting(bench: Bench) -> None:
    bench.commit("a", "third\n")
    bench.git("revert", "HEAD~1", fails=True)


def bisecting(bench: Bench) -> None:
    bench.git("bisect", "start")


@pytest.mark.parametrize("begin", [merging, rebasing, picking, reverting, bisecting])
def test_it_is_refused_while_an_operation_is_under_way(bench: Bench, begin: Callable[[Bench], None]) -> None:
    bench.commit("a")
    target = bench.save()
    bench.commit("a", "other\n")
    bench.save()
    begin(bench)
    before = everything(bench)
    part = not_none(bench.plan(target))
    with pytest.raises(Unsafe, match="under way"):
        bench.settle(part)
    assert everything(bench) == before


def everything(bench: Bench) -> dict[str, bytes]:
    top = bench.path / ".git"
    return {str(path): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock"])
def test_it_is_refused_while_a_lock_is_held(bench: Bench, lock: str) -> None:
    part = bench.gone_on()
    (bench.path / ".git" / lock).write_bytes(b"")
    before = everything(bench)
    with pytest.raises(Conflict, match="lock"):
        bench.settle(part)
    from lastgood.restore.parts import git
    from lastgood.transaction import RestoreTransaction

    with RestoreTransaction(bench.workspace._context) as restoring:
        assert git.settle(restoring, part).result == "kept"
    assert everything(bench) == before


def test_it_is_refused_where_head_or_index_changed_since_the_plan(bench: Bench) -> None:
    part = bench.gone_on()
    bench.commit("c")
    with pytest.raises(Conflict):
        bench.settle(part)


def test_it_is_refused_where_the_commit_is_gone(bench: Bench) -> None:
    bench.commit("a")
    bench.git("checkout", "-q", "--detach")
    lost = bench.commit("b")
    target = bench.save()
    bench.git("checkout", "-q", "main")
    bench.git("reflog", "expire", "--expire=now", "--all")
    bench.git("gc", "-q", "--prune=now")
    part = bench.planned(target)
    with pytest.raises(Unsafe) as caught:
        bench.settle(part)
    assert f"commit {lost}" in str(caught.value.details["missing"])


def test_it_is_refused_where_what_was_staged_is_gone_and_says_what(bench: Bench) -> None:
    bench.commit("a")
    bench.write("staged", "only in the index\n")
    bench.git("add", "staged")
    target = bench.save()
    bench.git("reset", "-q")
    bench.git("gc", "-q", "--prune=now")
    part = bench.planned(target)
    with pytest.raises(Unsafe) as caught:
        bench.settle(part)
    assert caught.value.details["missing"] == ["staged"]


def test_the_present_index_has_to_be_held_by_the_store(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    bench.commit("b")
    part = not_none(bench.plan(target))
    assert bench.settle(part).result == "failed"
    assert text(bench) == "ref: refs/heads/main"


def test_a_guard_holds_the_index_also_where_no_file_changed(bench: Bench) -> None:
    bench.commit("a")
    bench.write("b")
    target = bench.save()
    bench.git("add", "b")
    bench.write("c")
    bench.save()
    bench.git("rm", "-q", "--cached", "b")
    plan = bench.workspace.plan_restore(target.id)
    report = bench.workspace.apply(plan)
    guard = bench.workspace.get(not_none(report.guard))
    part = bench.plan(guard)
    assert part is None


def test_a_linked_worktree_has_its_own_head_and_index(bench: Bench, tmp_path: Path) -> None:
    bench.commit("a")
    bench.git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    before = text(bench)
    with Bench(tmp_path, name="other", made=True) as other:
        other.write("a", "staged\n")
        other.git("add", "a")
        then, target = other.status(), other.save()
        other.git("commit", "-q", "-m", "on")
        done = not_none(other.back(target))
        assert done.result == "restored"
        assert other.status() == then
        assert other.git("rev-parse", str(done.details["kept"])) == bench.git("rev-parse", "other")
    assert text(bench) == before
    assert bench.status() == set()


def test_a_branch_on_which_another_worktree_stands_is_left_to_it(bench: Bench, tmp_path: Path) -> None:
    bench.commit("a")
    bench.git("checkout", "-q", "-b", "side")
    target = bench.save()
    bench.git("checkout", "-q", "main")
    bench.git("worktree", "add", "-q", str(tmp_path / "other"), "side")
    bench.back(target)
    assert text(bench) == bench.head()


def test_a_submodule_opened_as_a_workspace_has_its_own_head_and_index(bench: Bench) -> None:
    origin = bench.folder / "origin"
    origin.mkdir()
    bench.git("init", "-q", "-b", "main", str(origin))
    (origin / "inside").write_text("x\n")
    bench.git("add", "inside", at=str(origin))
    bench.git("commit", "-q", "-m", "inside", at=str(origin))
    bench.git("submodule", "add", "-q", str(origin), "sub")
    bench.git("commit", "-q", "-m", "sub")
    with Bench(bench.folder, name="project/sub", made=True) as sub:
        sub.write("inside", "staged\n")
        sub.git("add", "inside")
        then, target = sub.status(), sub.save()
        sub.git("commit", "-q", "-m", "on")
        done = not_none(sub.back(target))
        assert done.result == "restored"
        assert sub.status() == then
    assert bench.head() == bench.git("rev-parse", "main").decode().strip()


def test_a_repository_kept_elsewhere_is_refused_unless_it_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with Bench(tmp_path, made=True) as bench:
        bench.git("init", "-q", "-b", "main", "--separate-git-dir", str(tmp_path / "elsewhere"))
        bench.commit("a")
        target = bench.save()
        bench.commit("b")
        with pytest.raises(Unsafe):
            bench.plan(target)
        bench.git("config", "core.worktree", str(bench.path))
        done = not_none(bench.back(target))
        assert done.result == "restored"


def refused_at_plan(bench: Bench, kind: type[LastgoodError]) -> None:
    target = bench.save()
    before = everything(bench) if (bench.path / ".git").is_dir() else {}
    with pytest.raises(kind):
        bench.plan(target)
    if before:
        assert everything(bench) == before


def test_a_repository_of_sha_256_is_unsupported(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with Bench(tmp_path, made=True) as bench:
        bench.git("init", "-q", "--object-format=sha256")
        bench.commit("a")
        refused_at_plan(bench, Unsupported)


def test_a_folder_of_a_larger_repository_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.commit("part/a")
    with Bench(tmp_path, name="project/part", made=True) as part:
        refused_at_plan(part, Unsafe)


def test_a_git_that_is_a_link_is_refused(bench: Bench) -> None:
    bench.commit("a")
    shutil.move(bench.path / ".git", bench.folder / "elsewhere")
    (bench.path / ".git").symlink_to(bench.folder / "elsewhere")
    refused_at_plan(bench, Unsafe)


def test_a_git_file_that_leads_to_a_stranger_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.commit("a")
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / ".git").write_text(f"gitdir: {bench.path}/.git\n")
    with Bench(tmp_path, name="hostile", made=True) as hostile:
        refused_at_plan(hostile, Unsafe)


def test_a_head_that_is_a_link_is_unsupported(bench: Bench) -> None:
    bench.commit("a")
    (bench.path / ".git" / "HEAD").unlink()
    (bench.path / ".git" / "HEAD").symlink_to("refs/heads/main")
    refused_at_plan(bench, Unsupported)


def test_a_bare_repository_is_refused(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    bench.commit("b")
    bench.save()
    bench.git("config", "core.bare", "true")
    part = not_none(bench.plan(target))
    with pytest.raises(Unsafe):
        bench.settle(part)


def test_without_a_repository_there_or_then_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with Bench(tmp_path, made=True) as bench:
        bench.write("a")
        plain = bench.save()
        with pytest.raises(Unsafe):
            bench.plan(plain)
        bench.git("init", "-q")
        with pytest.raises(Unsafe):
            bench.plan(plain)


def test_an_index_that_is_garbage_is_refused(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    (bench.path / ".git" / "index").write_bytes(b"garbage")
    with pytest.raises(Unsafe):
        bench.plan(target)


def test_the_index_is_one_that_git_reads(bench: Bench) -> None:
    bench.commit("a")
    bench.write("staged")
    bench.git("add", "staged")
    held = bench.save()
    oid = bytes.fromhex(held.manifest.state["index"])
    (bench.folder / "index").write_bytes(bench.workspace._context.engine.read_blob(oid))
    shown = bench.try_git("-c", "core.fsmonitor=false", "ls-files", "-s")
    (bench.path / ".git" / "index").write_bytes((bench.folder / "index").read_bytes())
    assert bench.try_git("ls-files", "-s").stdout == shown.stdout


def test_a_lock_left_by_a_killed_process_of_ours_is_known_as_such(bench: Bench) -> None:
    part = bench.gone_on()
    git_dir = bench.path / ".git"
    (git_dir / "lastgood-index.new").write_bytes(b"half")
    os.link(git_dir / "lastgood-index.new", git_dir / "index.lock")
    (git_dir / "lastgood-HEAD.new").write_bytes(b"half")
    assert bench.settle(part).result == "restored"
    assert not [
        name for name in os.listdir(git_dir) if name.startswith("lastgood-") or name.endswith(".lock")
    ]


def test_what_cannot_be_taken_away_is_named_and_keeps_no_lock(bench: Bench) -> None:
    bench.commit("a")
    found = not_none(project_git.find(os.fsencode(bench.path)))
    beside = bench.path / ".git" / "lastgood-HEAD.new"
    with Realignment(found, head=b"ref: refs/heads/main\n", index=b""):
        os.unlink(beside)
        os.mkdir(beside)  # is in the way as a file is that a disk keeps
        assert bench.try_git("add", "a").returncode != 0  # the index is locked
    assert left_behind(found) == [str(beside)]
    bench.git("add", "a")


def test_what_the_store_has_lost_is_said(bench: Bench) -> None:
    part = bench.gone_on()
    gone = part.replace(after={**part.after, "index": "1" * 40})
    with pytest.raises(Damaged):
        bench.settle(gone)


@pytest.mark.parametrize(
    "name", ["../../../outside", "a..b", "a b", "x.lock", "a/../../HEAD", "\n", "-", "a/", "", "a\x7f"]
)
def test_a_branch_of_no_sound_name_is_never_written(bench: Bench, name: str) -> None:
    bench.commit("a")
    target = bench.save()
    commit = bench.head()
    bench.commit("b")
    hostile = target.replace(
        manifest=target.manifest.replace(git=not_none(target.git).replace(branch=name, head=commit))
    )
    bench.save()
    part = not_none(bench.plan(hostile))
    bench.settle(part)
    assert text(bench) == commit


# Nothing that a project configures is run while its state is told, or HEAD is put back (rules S12, T9).


HOOKS = (
    "pre-commit",
    "post-checkout",
    "post-index-change",
    "fsmonitor-watchman",
    "reference-transaction",
    "post-rewrite",
    "pre-auto-gc",
)

PROGRAMS = (
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "core.alternateRefsCommand",
    "core.gitProxy",
    "diff.external",
    "gpg.program",
    "uploadpack.packObjectsHook",
)


def program(bench: Bench) -> Path:
    path = bench.folder / "program"
    path.write_text(f"#!/bin/sh\ntouch '{bench.folder}/canary'\ncat\n")
    path.chmod(0o755)
    return path


def hooks(bench: Bench) -> None:
    for name in HOOKS:
        (bench.path / ".git" / "hooks").mkdir(exist_ok=True)
        (bench.path / ".git" / "hooks" / name).write_text(program(bench).read_text())
        (bench.path / ".git" / "hooks" / name).chmod(0o755)


def settings(bench: Bench) -> None:
    for name in PROGRAMS:
        bench.git("config", name, str(program(bench)))
    for alias in ("diff-index", "rev-list", "cat-file", "status"):
        bench.git("config", f"alias.{alias}", f"!{program(bench)}")
    bench.git("config", "core.hooksPath", str(bench.folder))
    bench.git("config", "remote.origin.url", f"ext::{program(bench)}")
    bench.git("config", "remote.origin.promisor", "true")
    bench.git("config", "extensions.partialClone", "origin")


def filters(bench: Bench) -> None:
    for name in ("clean", "smudge", "process"):
        bench.git("config", f"filter.evil.{name}", str(program(bench)))
    bench.git("config", "diff.evil.textconv", str(program(bench)))
    (bench.path / ".git" / "info").mkdir(exist_ok=True)
    (bench.path / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")


def fsmonitor(bench: Bench) -> None:
    bench.git("update-index", "--fsmonitor")
    bench.git("config", "core.fsmonitor", str(program(bench)))


def submodule(bench: Bench) -> None:
    (bench.path / "sub").mkdir()
    bench.git("init", "-q", at="sub")
    bench.write("sub/file")
    bench.git("add", ".", at="sub")
    bench.git("commit", "-q", "-m", "x", at="sub")
    bench.git("add", "sub")
    bench.git("config", "core.fsmonitor", str(program(bench)), at="sub")
    bench.write("sub/file", "other\n")
    bench.write(".gitmodules", f'[submodule "sub"]\n\tpath = sub\n\turl = x\n\tupdate = !{program(bench)}\n')


@pytest.mark.parametrize("plant", [hooks, settings, filters, fsmonitor, submodule])
def test_nothing_is_run(bench: Bench, plant: Callable[[Bench], None]) -> None:
    bench.commit("a", "one\n" * 30)
    bench.commit("b")
    plant(bench)
    bench.write("a", "staged\n")
    bench.try_git("-c", "core.fsmonitor=false", "update-index", "--add", "a")
    canary = bench.folder / "canary"
    canary.unlink(missing_ok=True)  # planting by git itself may have run it
    target = bench.save()
    bench.write("a", "edited\n")
    bench.save()
    head = bench.path / ".git" / "HEAD"
    head.write_text((bench.path / ".git" / "refs" / "heads" / "main").read_text())
    report = bench.workspace.restore(target.id, git=True)
    assert [part.result for part in report.parts if part.scope == "git"] == ["restored"]
    assert head.read_text() == "ref: refs/heads/main\n"
    bench.workspace.undo()
    assert not canary.exists()


def test_a_pipe_among_git_s_files_is_not_waited_for(bench: Bench) -> None:
    bench.commit("a")
    for name in ("index", "info/attributes", "info/exclude", "logs/HEAD"):
        path = bench.path / ".git" / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    assert bench.dirty() is None


def test_a_folder_in_the_place_of_a_kept_ref_is_said(bench: Bench) -> None:
    bench.commit("a")
    target = bench.save()
    bench.commit("b")
    outside = bench.folder / "outside"
    outside.mkdir()
    (bench.path / ".git" / "refs" / "lastgood").symlink_to(outside)
    report = bench.workspace.restore(target.id, git=True)
    assert [part.result for part in report.parts if part.scope == "git"] == ["failed"]
    assert list(outside.iterdir()) == []
    assert (bench.path / ".git" / "HEAD").read_text() == "ref: refs/heads/main\n"
    assert not list((bench.path / ".git").glob("*.lock"))
