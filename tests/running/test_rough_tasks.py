"""Tasks that behave badly: the run comes to an orderly end, and nothing of anybody is lost (P6, P7, T17)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import NotFound, Storage
from lastgood.processes import ProcFiles
from lastgood.workspace import Workspace
from tools.command import COMMAND, with_source
from tools.living import lives, written
from tools.runs import Told, states, wait_for
from tools.values import not_none

# In the units of `ulimit -f`, 512 bytes: more than the catalogue needs, less than the task writes.
LIMIT = 4000
# A machine that is so slow that a task has not got far after the first of these many seconds gives it more.
LIMITS = (1, 4, 16, 64)

FILL = "for n in 1 2 3 4 5; do head -c 1000000 /dev/urandom > big_$n; done"


class Narrow:
    """The command where no file may grow beyond a limit, as on a disk that is full."""

    def __init__(self, project: Path, store: Path) -> None:
        self._project = project
        self._store = store

    def run(self, plan: str, *, limit: int | None) -> tuple[int, dict[str, Any], int]:
        """Return the exit code, the report or error, and how much memory it took, in kilobytes."""
        words = [sys.executable, COMMAND, "run", plan, "--json"]
        measured = (
            "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode;"
            " print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)"
        )
        words = [sys.executable, "-c", measured, *words]
        if limit is not None:
            words = ["/bin/sh", "-c", f'ulimit -f {limit}; exec "$@"', "sh", *words]
        done = subprocess.run(
            words,
            cwd=self._project,
            env=os.environ | {"LASTGOOD_STORE": str(self._store)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return done.returncode, last.get("report") or last.get("error") or {}, int(done.stderr.split()[-1])


@pytest.fixture
def narrow(project: Path, store: Path) -> Narrow:
    return Narrow(project, store)


def names(workspace: Workspace, checkpoint: str) -> set[str]:
    """Return what files a checkpoint holds, by bringing it back beside."""
    aside = os.path.join(os.path.dirname(workspace.path), f"aside-{checkpoint}")
    workspace.restore(checkpoint, to=aside)
    return set(os.listdir(aside))


def test_a_task_that_eats_the_disk_is_ended_and_taken_back(
    workspace: Workspace, project: Path, told: Told
) -> None:
    run = f"ulimit -f {LIMIT}; echo begun > note; yes > big"
    report = workspace.run({"tasks": [{"id": "A", "run": run, "on_failure": "rollback"}]}, observer=told)
    assert (report.state, states(report)) == ("failed", {"A": "failed"})
    assert os.listdir(project) == []
    (back,) = told.of("rolled-back")
    assert set(back.paths) == {b"big", b"note"}
    assert names(workspace, not_none(back.checkpoint)) >= {"big", "note"}


def test_a_task_whose_files_do_not_fit_into_the_store_is_not_done_again_when_there_is_room(
    narrow: Narrow, project: Path, workspace: Workspace, plan_file: Callable[..., str], outside: Path
) -> None:
    """P6: what was done stays done, and gets its checkpoint."""
    plan = plan_file(
        {"id": "A", "run": f"echo A >> {outside}/starts; {FILL}"}, {"id": "B", "run": "echo b > b"}
    )
    code, error, _ = narrow.run(plan, limit=LIMIT)
    assert (code, error["code"]) == (1, "storage")
    held = {path.name: path.read_bytes() for path in project.iterdir()}
    assert len(held) == 5
    assert workspace.status().state == "incomplete"
    code, report, _ = narrow.run(plan, limit=None)
    assert (code, report["state"]) == (0, "done")
    assert (outside / "starts").read_text() == "A\n"
    assert {path.name: path.read_bytes() for path in project.iterdir() if path.name != "b"} == held
    assert workspace.verify().ok


def test_nothing_is_taken_back_that_could_not_be_kept_before(
    narrow: Narrow, project: Path, workspace: Workspace, plan_file: Callable[..., str], outside: Path
) -> None:
    task = {"id": "A", "run": f"[ -e {outside}/go ] || {{ {FILL}; exit 1; }}", "on_failure": "rollback"}
    plan = plan_file(task)
    code, error, _ = narrow.run(plan, limit=LIMIT)
    assert (code, error["code"]) == (1, "storage")
    assert len(list(project.iterdir())) == 5
    (outside / "go").touch()
    code, report, _ = narrow.run(plan, limit=None)
    assert (code, report["state"]) == (0, "done")
    assert list(project.iterdir()) == []
    (kept,) = workspace.list(kind="error")
    assert len(names(workspace, kept.id)) == 5
    assert workspace.verify().ok


def test_a_task_may_close_its_output_and_work_on(workspace: Workspace, project: Path) -> None:
    run = "echo before; exec >&- 2>&-; sleep 0.2; echo after > file"
    report = workspace.run({"tasks": [{"id": "A", "run": run, "check": "exec >&-; sleep 0.1; test -e file"}]})
    assert (report.state, states(report)) == ("done", {"A": "done"})
    assert (project / "file").read_text() == "after\n"
    assert workspace.get("task:A").good


def test_a_task_that_ignores_gentle_words_is_ended_with_all_that_it_started(
    workspace: Workspace, outside: Path, project: Path
) -> None:
    run = (
        f"trap '' TERM HUP INT; echo $$ > {outside}/pid; env -i setsid sleep 1000 & "
        f"echo $! > {outside}/daemon; echo half > file; touch {outside}/begun; while :; do sleep 0.1; done"
    )
    for limit in LIMITS:
        task = {"id": "A", "run": run, "timeout": limit, "on_failure": "rollback"}
        report = workspace.run({"tasks": [task]})
        assert report.reason == f"task A failed: it was stopped after {limit} s"
        assert os.listdir(project) == []
        if (outside / "begun").exists():
            break
    for name in ("pid", "daemon"):
        assert not lives(int((outside / name).read_text()))


@pytest.mark.chance("how fast a loaded machine starts and ends a thousand processes")
def test_a_task_that_forks_a_thousand_children_leaves_none(workspace: Workspace, told: Told) -> None:
    """And names some of them, not all."""
    program = "import os, time; [os.fork() or time.sleep(1000) for _ in range(1000)]"
    seen = 'grep -lsz "^LASTGOOD_TASK=thousand$" /proc/[0-9]*/environ | wc -l'
    text = f'{sys.executable} -S -c "{program}" & until [ $({seen}) -gt 1000 ]; do sleep 0.05; done'
    report = workspace.run({"tasks": [{"id": "thousand", "run": text}]}, observer=told)
    assert report.state == "done"
    assert ProcFiles().marked(report.session) == []
    assert len(told.notices) < 2000


def test_a_flood_takes_bounded_memory(
    narrow: Narrow, plan_file: Callable[..., str], workspace: Workspace
) -> None:
    """Without any line's end, and with nothing but."""
    text = "head -c 20000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero | tr '\\0' '\\n'"
    plan = plan_file({"id": "A", "run": text})
    code, report, kilobytes = narrow.run(plan, limit=None)
    assert (code, report["state"]) == (0, "done")
    (kept,) = Path(report["outputs"]).iterdir()
    assert kept.stat().st_size < 3 << 20
    assert kilobytes < 100_000


def test_an_edit_of_a_person_while_a_task_runs_is_never_lost(
    workspace: Workspace, project: Path, outside: Path, told: Told
) -> None:
    """Nobody can tell it from the task's own: it is kept before anything is taken back, and named."""
    (project / "mine").write_text("one\n")
    run = (
        f"touch {outside}/begun; echo now; until [ -e {outside}/go ]; do sleep 0.01; done; touch junk; exit 1"
    )

    def edit(_event: object) -> None:
        (project / "mine").write_text("a person's\n")
        (outside / "go").touch()

    told.on("output", edit)
    workspace.run({"tasks": [{"id": "A", "run": run, "on_failure": "rollback"}]}, observer=told)
    (back,) = told.of("rolled-back")
    assert set(back.paths) == {b"mine", b"junk"}
    command = not_none(back.reason).partition(": lastgood restore ")[2].split()
    assert command[1:] == ["--", "PATH"]
    assert workspace.get(command[0]).id == back.checkpoint
    workspace.restore(command[0], paths=["mine"])
    assert (project / "mine").read_text() == "a person's\n"
    assert not (project / "junk").exists()


@pytest.mark.parametrize("policy", ["keep", "stop"])
def test_an_edit_of_a_person_stays_where_nothing_is_taken_back(
    workspace: Workspace, project: Path, told: Told, policy: str
) -> None:
    told.on("output", lambda _event: (project / "mine").write_text("a person's\n"))
    workspace.run(
        {"tasks": [{"id": "A", "run": "echo now; sleep 0.2; exit 1", "on_failure": policy}]}, observer=told
    )
    assert (project / "mine").read_text() == "a person's\n"
    assert told.of("rolled-back") == []


def test_a_task_that_takes_the_workspace_away_ends_the_run_and_can_be_undone(
    workspace: Workspace, project: Path
) -> None:
    (project / "mine").write_text("one\n")
    with pytest.raises((NotFound, Storage)) as failed:
        workspace.run({"tasks": [{"id": "A", "run": f"rm -rf {project}", "on_failure": "rollback"}]})
    assert failed.value.hint
    project.mkdir()
    assert workspace.status().state == "incomplete"
    (start,) = workspace.list(kind="session-start")
    workspace.restore(start.id)
    assert (project / "mine").read_text() == "one\n"


def test_a_task_that_starts_the_same_run_again_is_refused_and_harms_nothing(
    workspace: Workspace, plan_file: Callable[..., str], project: Path
) -> None:
    """P1."""
    command = f"cd {project} && {sys.executable} {COMMAND}"
    path = plan_file({"id": "A", "run": "true"})
    plan_file({"id": "A", "run": f"{command} run {path}; echo $? > code"})
    report = workspace.run(path)
    assert report.state == "done"
    assert (project / "code").read_text() == "13\n"
    (session,) = workspace.sessions()
    assert session.session.ended_by == "finished"


def test_a_daemon_of_a_killed_runner_is_gone_before_its_run_goes_on(
    runner: Callable[..., Any], workspace: Workspace, plan_file: Callable[..., str], outside: Path
) -> None:
    """P7: whatever it did to hide."""
    hidden = (
        f"env -i setsid /bin/sh -c 'echo $$ > {outside}/pid; trap \"\" TERM; while :; do sleep 0.1; done' &"
    )
    again = f"[ -e {outside}/again ] && exit 0; touch {outside}/again"
    plan = plan_file({"id": "A", "run": f"{again}; {hidden} sleep 1000"})
    started = runner(plan)
    written(outside / "pid")
    started.kill()
    report = workspace.run(plan)
    assert (report.state, report.continued) == ("done", True)
    assert not lives(int((outside / "pid").read_text()))


def test_what_an_interrupted_attempt_left_is_taken_back_before_another_task_works(
    runner: Callable[..., Any],
    workspace: Workspace,
    plan_file: Callable[..., str],
    outside: Path,
    project: Path,
) -> None:
    """P7, T17: else the work of one that failed before, and is done now, would be taken for its own."""
    first = {"id": "A", "run": f"test -e {outside}/again && echo a > a", "on_failure": "keep"}
    text = f"echo begun >> b; test -e {outside}/again || {{ touch {outside}/again; sleep 1000; }}"
    plan = plan_file(first, {"id": "B", "run": text, "on_failure": "rollback"})
    started = runner(plan)
    wait_for(outside / "again")
    started.kill()
    report = workspace.run(plan)
    assert (report.state, report.continued) == ("done", True)
    assert (project / "a").read_text() == "a\n"
    assert (project / "b").read_text() == "begun\n"


def test_what_an_irreversible_attempt_left_is_told_from_the_work_of_other_tasks(
    runner: Callable[..., Any],
    workspace: Workspace,
    plan_file: Callable[..., str],
    outside: Path,
    project: Path,
) -> None:
    """P6, P7, T17: it waits for a person's word while others work."""
    first = {"id": "A", "run": f"test -e {outside}/again && echo a > a", "on_failure": "keep"}
    text = f"echo begun >> b; test -e {outside}/again || {{ touch {outside}/again; sleep 1000; }}"
    plan = plan_file(first, {"id": "B", "run": text, "on_failure": "rollback", "irreversible": True})
    started = runner(plan)
    wait_for(outside / "again")
    started.kill()
    report = workspace.run(plan)
    assert states(report) == {"A": "done", "B": "pending"}
    assert (project / "b").read_text() == "begun\n"
    report = workspace.run(plan, redo=["B"])
    assert report.state == "done"
    assert (project / "a").read_text() == "a\n"
    assert (project / "b").read_text() == "begun\n"


# A runner dies between two of its records: whatever was done is known, or said to be unknown (P6, P7).


Die = Callable[..., None]

# Dies when the run tells of something for the Nth time; or, with a verb of the observers, of that.
PROGRAM = """
import lastgood, json, os, signal, sys
project, store, plan, where, count = sys.argv[1:]
left = int(count)

def die(event):
    global left
    if event.type == where:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

workspace = lastgood.open(project, store=store, maintenance="off")
workspace.subscribe(die)
workspace.run(plan, observer=die)
"""


@pytest.fixture
def die(project: Path, store: Path) -> Die:
    """Return a call that carries out a plan in a process that kills itself at some moment."""

    def run(plan: str, where: str, count: int = 1) -> None:
        words = [sys.executable, "-c", PROGRAM, str(project), str(store), plan, where, str(count)]
        done = subprocess.run(words, env=with_source(), capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    return run


MOMENTS = [
    ("check-started", 1),
    ("task_changed", 3),  # the first task is done and has its checkpoint; nothing is said of it yet
    ("attempt-failed", 1),  # what it left is kept; nothing is taken back yet
    ("restored", 1),  # it is taken back; nothing is said of it yet
    ("session_ended", 1),
]


@pytest.mark.parametrize(("where", "count"), MOMENTS)
def test_a_run_ends_as_if_nothing_had_happened_wherever_its_runner_dies(
    workspace: Workspace,
    project: Path,
    outside: Path,
    tmp_path: Path,
    die: Die,
    told: Told,
    where: str,
    count: int,
) -> None:
    """T7, P6: every effect comes once, or is reported as unknown."""
    flaky = f"echo x >> {outside}/B; ls > seen; test $(wc -l < {outside}/B) -ge 2"
    once = {"id": "C", "run": f"echo x >> {outside}/C; touch c", "irreversible": True}
    plan: dict[str, Any] = {
        "sprints": [
            {
                "id": "S1",
                "tasks": [{"id": "A", "run": f"echo x >> {outside}/A; touch a", "check": "test -f a"}],
            },
            {"id": "S2", "tasks": [{"id": "B", "run": flaky, "retries": 1, "on_failure": "rollback"}, once]},
        ]
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    die(str(path), where, count)

    report = workspace.run(str(path), choice="continue", observer=told)
    unknown = {effect.task for effect in report.unknown_effects}
    if unknown == {"C"}:
        happened = (outside / "C").exists()
        report = workspace.run(str(path), done=["C"] * happened, redo=["C"] * (not happened))
    assert states(report) == {"A": "done", "B": "done", "C": "done"}
    assert sorted(os.listdir(project)) == (["a", "c", "seen"] if (outside / "C").exists() else ["a", "seen"])
    assert (project / "seen").read_text() == "a\nseen\n"
    counted = {task: len((outside / task).read_text().split()) for task in "ABC"}
    expected = {"A": 1, "B": 2, "C": 1}
    assert {task for task in counted if counted[task] != expected[task]} <= unknown
    assert counted["C"] == 1
    (session,) = workspace.sessions()
    assert (session.state, session.session.ended_by) == ("ended", "finished")
    kinds = [one.kind for one in workspace.list()]
    assert kinds.count("sprint") == 2
    assert all(workspace.get(f"task:{task}").kind == "task" for task in "ABC")
