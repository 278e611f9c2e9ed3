"""Agents commit: a task that fails after that is taken back in its files, and what stays is said (T9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lastgood.workspace import Workspace
from tools.runs import Told, states


def test_a_rollback_leaves_the_commits_of_a_failed_attempt_and_says_so(
    workspace: Workspace, project: Path, git: Callable[..., str], told: Told
) -> None:
    """T9."""
    (project / "app.py").write_text("good\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "The first")
    commit = 'echo "bad $LASTGOOD_ATTEMPT" > app.py && git commit -q -a -m "Attempt $LASTGOOD_ATTEMPT"'
    task = {"id": "A", "run": f"{commit}; false", "on_failure": "rollback", "retries": 1}
    report = workspace.run({"tasks": [task]}, observer=told)
    assert states(report) == {"A": "failed"}
    assert (project / "app.py").read_text() == "good\n"
    assert git(project, "log", "--format=%s").split("\n")[:3] == ["Attempt 2", "Attempt 1", "The first"]
    heads = git(project, "log", "--format=%h", "--abbrev=12", "-2").split()
    said = "the project's HEAD is not taken back: it stands at {}, 1 commit on"
    assert told.notices.split("\n") == [said.format(head) for head in reversed(heads)]


def test_repositories_that_a_failed_attempt_moved_or_took_away_are_named(
    workspace: Workspace, project: Path, git: Callable[..., str], told: Told
) -> None:
    """T9: no checkpoint holds a repository."""
    for place in (project, project / "gone", project / "moved"):
        place.mkdir(exist_ok=True)
        (place / "file").write_text("good\n")
        git(place, "init", "-q", "-b", "main")
        git(place, "add", "file")
        git(place, "commit", "-q", "-m", "The first")
    commit = "(cd moved && git commit -q --allow-empty -m second)"
    tasks = [
        {"id": "A", "run": f"{commit}; rm -rf gone; false", "on_failure": "rollback"},
        {"id": "B", "run": "rm -rf .git; false", "on_failure": "rollback"},
    ]
    workspace.run({"tasks": tasks}, observer=told)
    assert (project / "gone" / "file").read_text() == "good\n"
    assert [(event.task, event.reason, event.paths) for event in told.of("noticed")] == [
        ("A", "a nested repository is gone, and no checkpoint holds it", (b"gone",)),
        ("A", "the HEAD of a nested repository is not taken back", (b"moved",)),
        ("B", "the project's HEAD is not taken back: it stands at no commit", ()),
    ]
