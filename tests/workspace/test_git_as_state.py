"""HEAD, branch and index are state: they make checkpoints, and come back after any history (S10, T9)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lastgood as package
from lastgood.workspace import Workspace
from tools.command import Command

WHO = ("-c", "user.email=ada@example.com", "-c", "user.name=Ada", "-c", "commit.gpgsign=false")
SETTINGS = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


def git(folder: Path, *words: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, text=True, check=False, env=SETTINGS
    )
    assert fails or done.returncode == 0, (words, done.stderr)
    return done.stdout


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    (project / "a").write_text("a\n")
    git(project, "add", "a")
    git(project, "commit", "-q", "-m", "first")
    return project


CHANGES: dict[str, Callable[[Path], object]] = {
    "a commit": lambda at: git(at, "commit", "-q", "--allow-empty", "-m", "second"),
    "an amended commit": lambda at: git(at, "commit", "-q", "--amend", "-m", "other words"),
    "a branch": lambda at: git(at, "checkout", "-q", "-b", "side"),
    "a detached HEAD": lambda at: git(at, "checkout", "-q", "--detach"),
    "a staging": lambda at: git(at, "rm", "-q", "--cached", "a"),
}


@pytest.mark.parametrize("kind", ["manual", "auto"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_save_after_a_change_of_git_alone_makes_a_checkpoint(
    repository: Path, workspace: Workspace, change: Callable[[Path], object], kind: str
) -> None:
    """S10: and the one after that none."""
    first = workspace.save().checkpoint
    change(repository)
    second = workspace.save(kind=kind)  # type: ignore[arg-type]
    assert second.created
    assert second.checkpoint.previous == first.id
    assert workspace.save(kind=kind).unchanged_since == second.checkpoint.id  # type: ignore[arg-type]


def stage(at: Path, text: str) -> None:
    """Have the index, and it alone, say something else."""
    (at / "a").write_text(text)
    git(at, "add", "a")
    (at / "a").write_text("a\n")


def put_over(index: Path, other: Path) -> None:
    """Have an index say what another says, with the times that it has."""
    seen = index.stat()
    index.write_bytes(other.read_bytes())
    os.utime(index, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert index.stat().st_size == seen.st_size


def put_in_place(index: Path, other: Path) -> None:
    """Have another take the place of an index, with its own times."""
    os.replace(shutil.copy2(other, index.with_name("copied")), index)


@pytest.mark.parametrize("put", [put_over, put_in_place])
def test_a_process_that_found_no_change_sees_another_index(
    repository: Path, workspace: Workspace, tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    """S10: it remembers which index it saw last."""
    index = repository / ".git" / "index"
    stage(repository, "b\n")
    first = workspace.save().checkpoint
    other = Path(shutil.copy2(index, tmp_path / "other"))
    stage(repository, "c\n")
    assert workspace.save().created
    assert not workspace.save().created
    put(index, other)
    again = workspace.save()
    assert again.created
    assert again.checkpoint.manifest.state == first.manifest.state
    assert not workspace.save().created


def test_an_index_that_was_only_refreshed_is_no_change(repository: Path, workspace: Workspace) -> None:
    """S10: what git learns of times is no state."""
    first = workspace.save().checkpoint
    os.utime(repository / "a", (1, 1))
    before = (repository / ".git" / "index").read_bytes()
    git(repository, "update-index", "--refresh")
    assert (repository / ".git" / "index").read_bytes() != before
    assert workspace.save().unchanged_since == first.id


def test_a_restore_after_a_commit_keeps_the_head_of_before(repository: Path, workspace: Workspace) -> None:
    """S10: what was saved after the commit leads back to after it."""
    (repository / "a").write_text("b\n")
    workspace.save()
    git(repository, "commit", "-q", "-a", "-m", "second")
    head = git(repository, "rev-parse", "HEAD")
    workspace.save()
    assert workspace.restore("@", git=True).operation is None
    assert git(repository, "rev-parse", "HEAD") == head


def test_what_a_person_asked_for_by_a_message_exists_under_it(lastgood: Command) -> None:
    """S10: on the command line; an automatic one of the same does not."""
    (lastgood.project / "a").write_text("a")
    lastgood("save", "before the schema")
    lastgood("save", "before the schema, again")
    listed = lastgood("list", "--json").json["checkpoints"]
    assert [one["message"] for one in listed] == ["before the schema, again", "before the schema"]
    assert listed[0]["previous"] == listed[1]["id"]
    assert lastgood("save").out.startswith("unchanged since ")
    assert lastgood("save", "only a turn", "--kind", "turn").out.startswith("unchanged since ")


WORDS = [
    "edit",
    "stage",
    "unstage",
    "commit",
    "amend",
    "branch",
    "switch",
    "detach",
    "rebase",
    "save",
    "back",
]
HISTORIES = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 5)), min_size=8, max_size=20)


def stance(at: Path) -> tuple[str, str, str]:
    """Return HEAD's commit, what it names, and the index, as git tells them."""
    named = git(at, "symbolic-ref", "-q", "HEAD", fails=True).strip()
    return git(at, "rev-parse", "HEAD").strip(), named, git(at, "ls-files", "-s", "-t")


def branches(at: Path) -> dict[str, str]:
    lines = git(at, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def do(at: Path, word: str, number: int) -> None:
    """Do what a person does with git."""
    if word == "edit":
        (at / f"file {number % 3}").write_text(f"{len(os.listdir(at))} {os.urandom(4).hex()}\n")
    elif word == "stage":
        git(at, "add", "-A")
    elif word == "unstage":
        git(at, "reset", "-q")
    elif word in {"commit", "amend"}:
        git(at, "commit", "-q", "-a", "--allow-empty", "-m", str(number), *["--amend"][: word == "amend"])
    elif word == "branch":
        git(at, "checkout", "-q", "-b", f"side{len(branches(at))}")
    elif word == "detach":
        git(at, "checkout", "-q", "--detach")
    else:
        names = [name.removeprefix("refs/heads/") for name in branches(at)]
        name = names[number % len(names)]
        if word == "switch":
            git(at, "checkout", "-q", "-f", name)
        else:
            git(at, "reset", "-q", "--hard")
            git(at, "rebase", "-q", "-X", "theirs", name, fails=True)
            git(at, "rebase", "--abort", fails=True)


@settings(
    max_examples=6,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=[Phase.generate],
)
@given(steps=HISTORIES)
def test_head_and_index_come_back_as_they_were_after_any_history(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """T9: no branch is ever moved; HEAD is on its branch where that still points there."""
    folder = tmp_path_factory.mktemp("git")
    at = folder / "project"
    at.mkdir()
    git(at, "init", "-q", "-b", "main")
    (at / "file 0").write_text("0\n")
    git(at, "add", "-A")
    git(at, "commit", "-q", "-m", "first")
    with package.open(at, store=folder / "store", maintenance="off") as workspace:
        known = [(workspace.save("first").checkpoint.id, stance(at))]
        for word, number in steps:
            if word == "save":
                known.append((workspace.save().checkpoint.id, stance(at)))
            elif word == "back":
                id, then = known[number % len(known)]
                before = branches(at)
                workspace.restore(id, git=True)
                commit, named, index = stance(at)
                assert (commit, index) == (then[0], then[2])
                assert named == (then[1] if before.get(then[1]) == commit else "")
                assert branches(at) == before
            else:
                do(at, word, number)
