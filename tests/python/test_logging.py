"""A program can have logged what lastgood does; nothing is said by itself, and no command pays for it."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lastgood

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(project: Path) -> Path:
    (project / "notes.txt").write_text("good\n")
    return project


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(one.levelno, one.getMessage()) for one in caplog.records if one.name == "lastgood"]


def test_checkpoints_and_restores_are_logged(
    project: Path, workspace: lastgood.Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lastgood")
    saved = workspace.save("before")
    (project / "notes.txt").write_text("ruined\n")
    restored = workspace.restore("@")

    assert said(caplog) == [
        (logging.INFO, f"saved in {project}: {saved!r}"),
        (logging.INFO, f"restored in {project}: {restored!r}"),
    ]


def test_failures_and_recoveries_are_logged(
    project: Path, workspace: lastgood.Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lastgood")
    workspace.save("one")
    with pytest.raises(lastgood.NotFound) as caught:
        workspace.restore("nowhere")
    report = workspace.recover()

    assert said(caplog)[1:] == [
        (logging.INFO, f"not restored in {project}: {caught.value!r}"),
        (logging.INFO, f"recovered in {project}: {report!r}"),
    ]


def test_opening_closing_and_the_words_of_the_work_are_details(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="lastgood")
    with lastgood.open(project, store=project.parent / "store", maintenance="off") as workspace:
        report = workspace.task_start("T01")

    store = project.parent / "store"
    details = [text for level, text in said(caplog) if level == logging.DEBUG]
    assert details == [
        f"opened {project}, with the store {store}",
        f"task_changed in {project}: {report!r}",
        f"closed {project}",
    ]


def test_maintenance_is_logged(
    project: Path, workspace: lastgood.Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lastgood")
    done = workspace.maintain()

    assert said(caplog) == [
        (logging.INFO, f"maintained {project.parent / 'store'}: {', '.join(done) or 'nothing was due'}")
    ]


def test_waiting_for_a_lock_is_logged_once(
    project: Path, workspace: lastgood.Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lastgood")
    workspace.save("one")
    (lock,) = (project.parent / "store" / "workspaces").glob("*/lock")
    descriptor = os.open(lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    waiting = threading.Event()
    watcher = Watcher(waiting)
    logging.getLogger("lastgood").addHandler(watcher)
    thread = threading.Thread(target=workspace.save, args=("two",))
    try:
        thread.start()
        assert waiting.wait(60)
    finally:
        os.close(descriptor)
        thread.join()
        logging.getLogger("lastgood").removeHandler(watcher)

    assert [text for _, text in said(caplog) if text.startswith("waiting")] == ["waiting for this workspace"]


class Watcher(logging.Handler):
    """Tells when somebody says that it waits."""

    def __init__(self, waiting: threading.Event) -> None:
        super().__init__()
        self._waiting = waiting

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("waiting"):
            self._waiting.set()


def run(program: str, project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", program, str(project), str(project.parent / "store")],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "HOME": str(project.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


OPEN = "lastgood.open(sys.argv[1], store=sys.argv[2], allow_root=True, maintenance='off')"


def test_a_program_that_does_not_ask_sees_nothing(project: Path) -> None:
    program = f"import logging, sys, lastgood\nwith {OPEN} as workspace:\n    workspace.save('one')"

    done = run(program, project)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_without_logging_does_not_get_it_loaded(project: Path) -> None:
    program = (
        f"import sys, lastgood\nwith {OPEN} as workspace:\n    workspace.save('one')\n"
        "print('logging' in sys.modules)"
    )

    assert run(program, project).stdout == "False\n"


@pytest.mark.parametrize("way", ["{}", "workspace = {}", "workspaces = [{}]", "{}.within('sess_0')"])
def test_a_workspace_that_is_not_closed_is_warned_of(project: Path, way: str) -> None:
    program = f"import sys, lastgood\n{way.format(OPEN)}"

    done = run(program, project, "-W", "default::ResourceWarning")

    assert done.stderr.count(f"ResourceWarning: a workspace was not closed: {project}") == 1


def test_a_closed_workspace_and_a_fork_of_an_open_one_are_not_warned_of(project: Path) -> None:
    program = (
        f"import os, sys, lastgood\nworkspace = {OPEN}\n"
        "child = os.fork()\n"
        "if child:\n    os.waitpid(child, 0)\n    workspace.close()\n"
    )

    done = run(program, project, "-W", "default::ResourceWarning")

    assert (done.returncode, done.stderr) == (0, "")
