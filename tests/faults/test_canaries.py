"""Nothing found in a workspace, or planted in the environment of git or Python there, is run (rule S12)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.cli import SOURCES, Bench, git
from faults.stage import tree_of

HOOKS = (
    "pre-commit",
    "post-checkout",
    "post-index-change",
    "fsmonitor-watchman",
    "reference-transaction",
    "post-merge",
    "pre-auto-gc",
)


def _program(path: Path, canary: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho \"$0\" >>'{canary}'\ncat\n")
    path.chmod(0o755)
    return path


def _hooks(bench: Bench, canary: Path) -> dict[str, str]:
    for name in HOOKS:
        _program(bench.workspace / ".git" / "hooks" / name, canary)
    return {}


def _settings(bench: Bench, canary: Path) -> dict[str, str]:
    """Settings of the repository that name a program, each one of its own."""
    names = (
        "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.gitProxy", "core.askPass",
        "core.alternateRefsCommand", "diff.external", "pager.diff", "gpg.program", "credential.helper",
        "interactive.diffFilter", "uploadpack.packObjectsHook",
    )  # fmt: skip
    for name in names:
        program = _program(bench.home / name, canary)
        git(bench.workspace, "config", name, f"!{program}" if name == "credential.helper" else str(program))
    return {}


def _hooks_elsewhere(bench: Bench, canary: Path) -> dict[str, str]:
    for name in HOOKS:
        _program(bench.home / "hooks" / name, canary)
    git(bench.workspace, "config", "core.hooksPath", "../home/hooks")
    return {}


def _partial_clone(bench: Bench, _canary: Path) -> dict[str, str]:
    git(bench.workspace, "config", "extensions.partialClone", "origin")
    return {}


def _attributes(bench: Bench, canary: Path) -> dict[str, str]:
    program = _program(bench.home / "program", canary)
    for name in ("clean", "smudge", "process"):
        git(bench.workspace, "config", f"filter.evil.{name}", str(program))
    git(bench.workspace, "config", "filter.evil.required", "true")
    for name in ("textconv", "command"):
        git(bench.workspace, "config", f"diff.evil.{name}", str(program))
    git(bench.workspace, "config", "merge.evil.driver", str(program))
    (bench.workspace / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (bench.workspace / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    return {}


def _users_settings(bench: Bench, canary: Path) -> dict[str, str]:
    program = _program(bench.home / "program", canary)
    (bench.home / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {bench.home}\n\tpager = {program}\n"
        f"\teditor = {program}\n\tsshCommand = {program}\n"
        f"\taskPass = {program}\n\talternateRefsCommand = {program}\n"
        f"[gpg]\n\tprogram = {program}\n[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n"
        f'[diff]\n\texternal = {program}\n[credential]\n\thelper = {program}\n[alias]\n\tlog = "!{program}"\n'
        f"[pack]\n\tpackObjectsHook = {program}\n[uploadpack]\n\tpackObjectsHook = {program}\n"
    )
    return {}


def _variables(bench: Bench, canary: Path) -> dict[str, str]:
    program = str(_program(bench.home / "program", canary))
    names = (
        "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS",
        "GIT_PROXY_COMMAND", "GIT_SEQUENCE_EDITOR", "PAGER", "EDITOR", "VISUAL", "SSH_ASKPASS", "LESSOPEN",
    )  # fmt: skip
    return dict.fromkeys(names, program) | {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": program,
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{program}'",
    }


def _misleading_variables(bench: Bench, canary: Path) -> dict[str, str]:
    other = bench.home / "other"
    other.mkdir()
    git(other, "init", "-q")
    _program(other / ".git" / "hooks" / "post-index-change", canary)
    git(other, "config", "core.fsmonitor", str(_program(bench.home / "program", canary)))
    return {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(other / ".git" / "objects"),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_NAMESPACE": "evil",
        "GIT_TEMPLATE_DIR": str(other),
        "GIT_EXEC_PATH": str(other),
        "GIT_TRACE": str(bench.home / "trace"),
    }


def _git_beside(bench: Bench, canary: Path) -> dict[str, str]:
    for name in ("git", "python", "python3", "sh", "less", "patch", "diff", "tar"):
        _program(bench.workspace / name, canary)
        _program(bench.workspace / "bin" / name, canary)
    return {"PATH": f".:bin::./bin:{os.environ['PATH']}"}


def _python_files(bench: Bench, canary: Path) -> dict[str, str]:
    code = f"open({str(canary)!r}, 'w').close()\n"
    names = (
        "sitecustomize",
        "usercustomize",
        "lastgood",
        "sqlite3",
        "json",
        "zlib",
        "argparse",
        "conftest",
        "__init__",
    )
    for name in names:
        (bench.workspace / f"{name}.py").write_text(code)
    (bench.workspace / "evil.pth").write_text(f"import os; {code}")
    (bench.workspace / "pyvenv.cfg").write_text("home = .\n")
    return {}


def _configuration(bench: Bench, canary: Path) -> dict[str, str]:
    program = _program(bench.workspace / "program", canary)
    (bench.workspace / "setup.cfg").write_text(f"[alias]\nsave = {program}\n")
    (bench.workspace / ".envrc").write_text(f"{program}\n")
    (bench.workspace / "Makefile").write_text(f"all:\n\t{program}\n")
    return {}


def _submodule(bench: Bench, canary: Path) -> dict[str, str]:
    program = _program(bench.home / "program", canary)
    (bench.workspace / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = ext::{program}\n\tupdate = !{program}\n'
    )
    git(bench.workspace, "config", "submodule.x.update", f"!{program}")
    return {}


def _nested(bench: Bench, canary: Path) -> dict[str, str]:
    nested = bench.workspace / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "file").write_text("nested\n")
    git(nested, "config", "core.fsmonitor", str(_program(bench.home / "program", canary)))
    for name in HOOKS:
        _program(nested / ".git" / "hooks" / name, canary)
    return {}


def _git_file(bench: Bench, canary: Path) -> dict[str, str]:
    """A `.git` file in a folder leads to a repository elsewhere whose settings run a program."""
    elsewhere = bench.home / "elsewhere"
    elsewhere.mkdir()
    git(elsewhere, "init", "-q")
    git(elsewhere, "config", "core.fsmonitor", str(_program(bench.home / "program", canary)))
    git(elsewhere, "config", "core.worktree", str(bench.workspace))
    (bench.workspace / "linked").mkdir()
    (bench.workspace / "linked" / ".git").write_text(f"gitdir: {elsewhere}/.git\n")
    return {}


def _included(bench: Bench, canary: Path) -> dict[str, str]:
    program = _program(bench.home / "program", canary)
    (bench.workspace / "settings").write_text(f"[core]\n\tfsmonitor = {program}\n")
    git(bench.workspace, "config", "include.path", "../settings")
    return {}


def _fsmonitor_index(bench: Bench, canary: Path) -> dict[str, str]:
    git(bench.workspace, "update-index", "--fsmonitor")
    git(bench.workspace, "config", "core.fsmonitor", str(_program(bench.home / "program", canary)))
    return {}


VECTORS: list[Callable[[Bench, Path], dict[str, str]]] = [
    _hooks,
    _hooks_elsewhere,
    _settings,
    _partial_clone,
    _attributes,
    _users_settings,
    _variables,
    _misleading_variables,
    _git_beside,
    _python_files,
    _configuration,
    _submodule,
    _nested,
    _git_file,
    _included,
    _fsmonitor_index,
]


@pytest.mark.parametrize("plant", VECTORS, ids=lambda vector: vector.__name__.strip("_"))
def test_no_verb_runs_what_it_finds(bench: Bench, plant: Callable[[Bench, Path], dict[str, str]]) -> None:
    git(bench.workspace, "init", "-q")
    (bench.workspace / "file").write_text("one\n" * 30)
    git(bench.workspace, "add", ".")
    git(bench.workspace, "commit", "-qm", "one")
    canary = bench.home / "canary"
    variables = plant(bench, canary)
    canary.unlink(missing_ok=True)  # planting by git itself may have run it
    _all_verbs(bench, variables)
    assert not canary.exists(), canary.read_text()


def _all_verbs(bench: Bench, variables: dict[str, str]) -> None:
    def run(*arguments: str) -> str:
        answer = bench.run("--store", str(bench.store), *arguments, variables=variables, cwd=bench.workspace)
        assert answer.code in {0, 3}, (arguments, answer)
        return answer.out

    run("save", "one", "--name", "one", "--json")
    kept = tree_of(bench.workspace)
    (bench.workspace / "file").write_text("two\n" * 30)
    (bench.workspace / "new").write_text("new\n")
    run("save", "two")
    run("diff", "one")
    run("diff", "one", "@")
    run("restore", "one", "--yes")
    assert tree_of(bench.workspace) == kept
    run("undo")
    run("redo")
    run("list")
    run("show", "one", "--files")
    run("status")
    run("recover")
    run("delete", "one", *(["--yes"] if "--yes" in _help(bench) else []))
    run("verify", "--deep", "--repair")


def _help(bench: Bench) -> str:
    return bench("help", "delete").out


def test_the_canary_sings_when_it_is_run(bench: Bench) -> None:
    canary = bench.home / "canary"
    program = _program(bench.home / "program", canary)
    assert os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", f"{program} < /dev/null"]) == 0
    assert canary.exists()


_BESIDE_A_THREAD = """
import sys, threading
sys.path[:] = [path for path in sys.path if path]  # the caller's own habit is not ours to judge
import lastgood
threading.Thread(target=threading.Event().wait, daemon=True).start()
with lastgood.open(".", store=sys.argv[1], maintenance="off") as workspace:
    saved = workspace.save("by the scanner's own process").checkpoint
    print(saved.manifest.files)
"""


def test_the_scanner_in_a_process_of_its_own_imports_nothing_from_the_workspace(bench: Bench) -> None:
    canary = bench.home / "canary"
    _python_files(bench, canary)
    done = subprocess.run(
        [sys.executable, "-c", _BESIDE_A_THREAD, str(bench.store)],
        cwd=bench.workspace,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "HOME": str(bench.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
    assert not canary.exists()
