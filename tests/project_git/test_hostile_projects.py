"""Nothing that a project configures is run while its state is told, or HEAD is put back (rules S12, T9)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from project_git.bench import Bench

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
