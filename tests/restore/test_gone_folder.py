"""A workspace whose folder is gone: what works without it, and how it is made again (rule T12a)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from faults.disks import tmpfs
from lastgood.errors import NotFound
from tools.command import COMMAND, Command, told
from tools.terminal import Terminal
from tools.wreckage import picture

Git = Callable[..., str]


@pytest.fixture
def gone(lastgood: Command) -> Command:
    """Return the command of a project that had one checkpoint, `good`, and was deleted."""
    project = lastgood.project / "deep" / "er" / "project"
    project.mkdir(parents=True)
    lastgood.project = project
    write(project)
    lastgood("save", "good", "--name", "good")
    shutil.rmtree(project.parent.parent)
    return lastgood


def write(project: Path) -> None:
    (project / "src").mkdir(exist_ok=True)
    (project / "a.txt").write_text("mine\n", encoding="utf-8")
    (project / "src" / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (project / "src" / "run.sh").chmod(0o755)


def elsewhere(command: Command) -> Path:
    """Return a folder that is there."""
    return command.store


def test_it_is_made_again_with_the_folders_above_it(gone: Command) -> None:
    """T12a."""
    shown = gone("-C", str(gone.project), "restore", "@", "--yes", cwd=elsewhere(gone))
    assert (gone.project / "a.txt").read_text(encoding="utf-8") == "mine\n"
    assert (gone.project / "src" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert "the folder was gone, and was made again" in shown.err


def test_a_dry_run_makes_nothing_and_its_plan_is_what_happens(gone: Command) -> None:
    """T1, T12a."""
    place = ("-C", str(gone.project))
    planned = gone(*place, "restore", "@", "--dry-run", "--json", cwd=elsewhere(gone)).json
    assert planned["folder_made"] is True
    assert not gone.project.parent.parent.exists()
    done = gone(*place, "restore", "@", "--plan", planned["plan"], "--json", cwd=elsewhere(gone)).json
    assert [one["path"] for one in done["files"]] == [one["path"] for one in planned["files"]]
    assert (gone.project / "a.txt").exists()


def test_without_a_terminal_it_needs_consent(gone: Command) -> None:
    done = gone("-C", str(gone.project), "restore", "@", cwd=elsewhere(gone), expect=2)
    told(done, 2)
    assert not gone.project.exists()


def test_on_a_terminal_it_is_asked_about(gone: Command) -> None:
    words = [sys.executable, COMMAND, "-C", str(gone.project), "restore", "@"]
    with Terminal(words, cwd=elsewhere(gone), environment=gone.environment) as terminal:
        terminal.until("Go ahead?")
        assert any("will be made again" in line for line in terminal.shown)
        assert not gone.project.exists()
        terminal.type("y\n")
        assert terminal.end() == 0
    assert (gone.project / "a.txt").exists()


def test_it_works_from_the_folder_that_was_deleted(gone: Command) -> None:
    """The shell still stands in it."""
    (gone.project / "src").mkdir(parents=True)
    script = f'cd src && rm -rf "$OLDPWD" && exec {sys.executable} {COMMAND} restore @ --yes'
    words = ["/bin/sh", "-c", script]
    with Terminal(words, cwd=gone.project, environment=gone.environment) as terminal:
        assert terminal.end() == 0
    assert (gone.project / "a.txt").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("show", "@"),
        ("log", "a.txt"),
        ("cat", "@", "src/run.sh"),
        ("diff", "@", "good"),
        ("status",),
        ("undo", "--list"),
        ("verify",),
        ("name", "@", "better"),
        ("restore", "@", "--to", "../aside"),
    ],
    ids=" ".join,
)
def test_what_needs_no_folder_works_without_it(gone: Command, words: tuple[str, ...]) -> None:
    done = gone("-C", str(gone.project), *words, cwd=elsewhere(gone))
    assert done.code == 0
    assert not gone.project.exists()


@pytest.mark.parametrize(
    "words",
    [("save", "x"), ("diff",), ("diff", "@"), ("session", "start"), ("run", "--", "true"), ("recover",)],
    ids=" ".join,
)
def test_what_needs_the_folder_says_that_it_is_gone_and_what_to_type(
    gone: Command, words: tuple[str, ...]
) -> None:
    done = gone("-C", str(gone.project), *words, cwd=elsewhere(gone), expect=10)
    told(done, 10)
    assert f"the workspace {gone.project} is gone" in done.err
    assert f"lastgood -C {gone.project} restore @" in done.err
    assert f"workspace attach {gone.project}" in done.err
    assert not gone.project.exists()
    assert gone("-C", str(gone.project), "list", "--json", cwd=elsewhere(gone)).json["checkpoints"][0]["name"]


def test_status_names_it_as_a_matter_of_health(gone: Command) -> None:
    place = ("-C", str(gone.project), "--store", str(gone.store))
    (health,) = gone(*place, "status", "--json", cwd=elsewhere(gone)).json["health"]
    assert health["code"] == "folder-gone"
    assert f"lastgood {' '.join(place)} restore @" in health["hint"]


def test_some_paths_come_back_alone(gone: Command) -> None:
    gone("-C", str(gone.project), "restore", "@", "a.txt", "--yes", cwd=elsewhere(gone))
    assert os.listdir(gone.project) == ["a.txt"]


def test_undo_takes_away_what_it_wrote_and_leaves_the_folder(gone: Command) -> None:
    """T8: the guard held an empty folder."""
    gone("-C", str(gone.project), "restore", "@", "--yes", cwd=elsewhere(gone))
    after = picture(gone.project)
    gone("undo")
    assert os.listdir(gone.project) == []
    gone("redo")
    assert picture(gone.project) == after


def test_an_undo_leaves_what_came_since(gone: Command) -> None:
    """T8."""
    gone("-C", str(gone.project), "restore", "@", "--yes", cwd=elsewhere(gone))
    (gone.project / "new.txt").write_text("new\n", encoding="utf-8")
    gone("undo")
    assert os.listdir(gone.project) == ["new.txt"]


def test_checkpoints_of_before_go_on_with_those_after(gone: Command) -> None:
    """S19: it is the same workspace."""
    gone("-C", str(gone.project), "restore", "@", "--yes", cwd=elsewhere(gone))
    (gone.project / "a.txt").write_text("more\n", encoding="utf-8")
    gone("save", "more")
    assert len([one for one in gone("list", "--json").json["checkpoints"] if one["kind"] == "manual"]) == 2


def test_a_file_in_its_place_is_refused_and_stays(gone: Command) -> None:
    """T12: whose that is, is not known."""
    gone.project.parent.mkdir(parents=True)
    gone.project.write_text("theirs\n", encoding="utf-8")
    for words in (("restore", "@", "--yes"), ("save", "x")):
        done = gone("-C", str(gone.project), *words, cwd=elsewhere(gone), expect=15)
        told(done, 15)
        assert "move that away, then: lastgood" in done.err
    assert gone.project.read_text(encoding="utf-8") == "theirs\n"
    assert gone("-C", str(gone.project), "cat", "@", "a.txt", cwd=elsewhere(gone)).out == "mine\n"


def test_another_disk_mounted_in_its_place_is_refused_unless_it_is_meant(lastgood: Command) -> None:
    """S11: what lies below it is there again when the disk is gone; its checkpoints can be had meanwhile."""
    write(lastgood.project)
    lastgood("save", "good", "--name", "good")
    options = ("-C", str(lastgood.project), "--store", str(lastgood.store))
    with tmpfs(lastgood.project):
        for words in (("status",), ("save", "x"), ("restore", "@", "--yes"), ("undo",)):
            done = lastgood(*options, *words, cwd=elsewhere(lastgood), expect=15)
            assert "it is the root of a mounted disk" in done.err
            assert "the same with --allow-root" in done.err
        assert os.listdir(lastgood.project) == []
        assert (
            lastgood(*options, "cat", "good", "a.txt", "--allow-root", cwd=elsewhere(lastgood)).out
            == "mine\n"
        )
        aside = str(lastgood.project.parent / "aside")
        lastgood(*options, "restore", "good", "--to", aside, "--allow-root", cwd=elsewhere(lastgood))
        lastgood(*options, "restore", "good", "--yes", "--allow-root", cwd=elsewhere(lastgood))
        assert sorted(os.listdir(lastgood.project)) == ["a.txt", "src"]
        (lastgood.project / "a.txt").write_text("on the disk\n", encoding="utf-8")
    assert (lastgood.project / "a.txt").read_text(encoding="utf-8") == "mine\n"
    assert picture(lastgood.project) == picture(Path(aside))


def test_a_link_in_its_place_is_refused_and_nothing_is_written_through_it(
    gone: Command, tmp_path: Path
) -> None:
    """T12, S19: what it leads to is another folder."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    gone.project.parent.mkdir(parents=True)
    gone.project.symlink_to(theirs)
    done = gone("-C", str(gone.project), "restore", "@", "--yes", cwd=elsewhere(gone), expect=15)
    told(done, 15)
    assert f"lastgood -C {theirs} workspace attach {gone.project}" in done.err
    assert os.listdir(theirs) == []
    assert gone("-C", str(gone.project), "list", "--json", cwd=elsewhere(gone)).json["checkpoints"]


def test_a_file_in_the_place_of_a_folder_above_it_is_refused(gone: Command) -> None:
    gone.project.parent.parent.mkdir(parents=True)
    gone.project.parent.write_text("theirs\n", encoding="utf-8")
    done = gone("-C", str(gone.project), "restore", "@", "--yes", cwd=elsewhere(gone), expect=15)
    told(done, 15)
    assert gone.project.parent.read_text(encoding="utf-8") == "theirs\n"


def test_a_folder_that_the_store_does_not_know_is_not_made(gone: Command) -> None:
    """Nothing comes of a mistyped path."""
    other = gone.project.parent.parent.parent / "mistyped"
    for words in (("restore", "@", "--yes"), ("save",), ("list",)):
        told(gone("-C", str(other), *words, cwd=elsewhere(gone), expect=10), 10)
    assert not other.exists()


def test_the_projects_git_is_said_not_to_come_back(lastgood: Command, git: Git) -> None:
    """T12a: a repository is in no checkpoint."""
    git(lastgood.project, "init", "-q")
    write(lastgood.project)
    lastgood("save", "good")
    shutil.rmtree(lastgood.project)
    done = lastgood("-C", str(lastgood.project), "restore", "@", "--yes", cwd=lastgood.store)
    assert "its .git is in no checkpoint and does not come back" in done.err


def test_in_python_a_restore_makes_it_again(project: Path, store: Path) -> None:
    """T16: there making the plan and applying it is the consent."""
    write(project)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("good")
    shutil.rmtree(project)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        with pytest.raises(NotFound, match="is gone"):
            workspace.save("x")
        plan = workspace.plan_restore("@")
        assert not project.exists()
        assert workspace.apply(plan).folder_made
    assert (project / "a.txt").read_text(encoding="utf-8") == "mine\n"


def test_a_plan_of_a_folder_that_is_gone_is_refused_where_something_came_there(
    project: Path, store: Path
) -> None:
    """T1: the plan is what happens."""
    write(project)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("good")
        shutil.rmtree(project)
        plan = workspace.plan_restore("@")
        project.mkdir()
        (project / "a.txt").write_text("theirs\n", encoding="utf-8")
        with pytest.raises(lastgood.Conflict):
            workspace.apply(plan)
    assert (project / "a.txt").read_text(encoding="utf-8") == "theirs\n"


def test_a_place_that_cannot_be_written_to_leaves_nothing_half_made(gone: Command) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing stops root")
    above = gone.project.parent.parent
    above.mkdir()
    above.chmod(0o500)
    done = gone("-C", str(gone.project), "restore", "@", "--yes", cwd=elsewhere(gone), expect=15)
    above.chmod(0o700)
    told(done, 15)
    assert os.listdir(above) == []
