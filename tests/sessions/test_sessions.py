"""Sessions in Python: leases, checkpoints by themselves, honest ends (rules P1 to P4, P6)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.catalogue.work import SessionTransaction
from lastgood.errors import Ambiguous, Busy, Conflict, Invalid, NotFound, Usage
from lastgood.model.operation import Event
from lastgood.sessions import progress
from lastgood.settings import AutoSettings, LimitSettings, Settings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from lastgood.workspace.arguments import JOURNAL
from tools.values import not_none

Opened = Callable[..., Workspace]
Sleeper = Callable[[], subprocess.Popen[bytes]]
Program = Callable[[str], subprocess.Popen[str]]

DAY = 86_400


def kinds(workspace: Workspace) -> list[str]:
    """Return the kinds of all checkpoints, oldest first."""
    return [one.kind for one in reversed(workspace.list())]


def effects(workspace: Workspace) -> list[tuple[str, int, str]]:
    context = workspace._context
    return [(one.name, one.attempt, one.state) for one in context.work.effects(context.key)]


def test_a_session_begins_and_ends_with_a_checkpoint(workspace: Workspace, project: Path) -> None:
    """P3: though nothing has changed."""
    workspace.save("before")
    with workspace.session(goal="migrate to v2", sprint="S01") as session:
        assert session.show().state == "active"
        (project / "a.txt").write_text("made in between")
        saved = workspace.save("in between").checkpoint
        assert saved.session == session.id
    assert kinds(workspace) == ["manual", "session-start", "manual", "session-end"]
    (ended,) = workspace.sessions()
    assert (ended.state, ended.session.ended_by) == ("ended", "finished")
    assert ended.progress.goal == "migrate to v2"
    assert ended.progress.position.sprint == "S01"
    assert workspace.save("after", allow_empty=True).checkpoint.session is None


def test_a_second_session_is_refused_with_the_owner_named(workspace: Workspace, sleeper: Sleeper) -> None:
    """P1."""
    one = sleeper()
    first = workspace.session_start(owner_pid=one.pid).session.id
    with pytest.raises(
        Conflict, match=rf"already active: {first} of process {one.pid} \(sleep 600\)"
    ) as caught:
        workspace.session_start()
    assert f"LASTGOOD_SESSION={first}" in caught.value.hint
    assert "--force" in caught.value.hint
    assert kinds(workspace) == ["session-start"]


def test_a_second_start_of_the_same_owner_is_told_so(workspace: Workspace) -> None:
    """P1."""
    with workspace.session(), pytest.raises(Conflict, match=r"this process .* has a session already"):
        workspace.session().__enter__()


def test_force_takes_over_and_records_it(workspace: Workspace, sleeper: Sleeper) -> None:
    """P1, P6."""
    first = workspace.session_start(owner_pid=sleeper().pid).session.id
    workspace.within(first).task_start("T01")
    started = workspace.session_start(force=True)
    assert started.took_over is not None
    assert started.session.session.took_over == first
    robbed = workspace.get_session(first)
    assert (robbed.state, robbed.session.ended_by) == ("ended", "taken over")
    assert effects(workspace) == [("T01", 1, "unknown")]


def test_who_lost_its_lease_is_told_and_counts_for_nobody(opened: Opened, sleeper: Sleeper) -> None:
    """P1: a lease lost while working; its files are saved all the same."""
    first = opened().session_start(owner_pid=sleeper().pid).session.id
    robbed = opened(environment=dict(os.environ) | {"LASTGOOD_SESSION": first})
    robbed.task_start("T01")
    opened().session_start(force=True)
    for work in (
        lambda: robbed.task_done("T01"),
        lambda: robbed.progress_set(step=1),
        lambda: robbed.step_start("push"),
        robbed.session_heartbeat,
        robbed.session_end,
    ):
        with pytest.raises(Conflict, match="another session took over"):
            work()
    saved = robbed.save("what the robbed one did", allow_empty=True).checkpoint
    assert saved.session is None


def test_who_lost_its_lease_does_not_make_its_session_incomplete_by_failing(workspace: Workspace) -> None:
    """P1: it has ended, and stays so."""

    def rob() -> None:
        workspace.session_start(goal="mine", force=True)
        raise RuntimeError

    with pytest.raises(RuntimeError) as caught, workspace.session(goal="theirs"):
        rob()
    assert "another session took over" in "".join(caught.value.__notes__)
    new, old = workspace.sessions()
    assert (new.state, new.session.goal) == ("active", "mine")
    assert (old.state, old.session.ended_by) == ("ended", "taken over")


def test_what_is_saved_after_the_death_of_the_owner_is_of_no_session(
    workspace: Workspace, sleeper: Sleeper
) -> None:
    """P1: nobody has changed anything in the store since the saves before."""
    one = sleeper()
    first = workspace.session_start(owner_pid=one.pid).session.id
    workspace.session_heartbeat(first)
    for _ in range(3):
        workspace.save(kind="auto")
    one.kill()
    one.wait()
    assert workspace.save("after").checkpoint.session is None


def test_what_is_saved_without_a_session_counts_to_one_that_began_elsewhere(opened: Opened) -> None:
    """P1: what was so at the saves before is asked again."""
    workspace = opened()
    workspace.save("before")
    for _ in range(3):
        workspace.save(kind="auto")
    with opened().session() as session:
        assert workspace.save("within").checkpoint.session == session.id


def test_the_death_of_the_owner_ends_a_session_at_once(workspace: Workspace, sleeper: Sleeper) -> None:
    """P1, P8."""
    one = sleeper()
    first = workspace.session_start(owner_pid=one.pid).session.id
    one.kill()
    one.wait()
    status = workspace.status()
    assert status.state == "incomplete"
    assert [dead.id for dead in status.incomplete] == [first]
    started = workspace.session_start(owner_pid=os.getpid())
    assert started.unfinished == (first,)
    assert started.took_over is None
    assert workspace.get_session(first).state == "incomplete"


def test_of_sessions_that_died_the_newest_comes_first(
    opened: Opened, clock: FakeClock, sleeper: Sleeper
) -> None:
    """P8: it is the one that is spoken of."""
    workspace = opened(clock=clock)
    dead = []
    for number in range(3):
        one = sleeper()
        dead.append(workspace.session_start(owner_pid=one.pid, exclusive=False).session.id)
        clock.advance(60)
        if number == 1:  # one was left by its owner, the others have lost theirs
            workspace.session_end(dead[1], finished=False)
        one.kill()
        one.wait()

    assert [one.id for one in workspace.status().incomplete] == [*reversed(dead)]


def test_a_killed_program_leaves_its_session_incomplete(workspace: Workspace, program: Program) -> None:
    """P1: kill -9 of the owner itself."""
    one = program(
        "session = workspace.session(goal='g').__enter__(); print(session.id); sys.stdout.flush()\n"
        "time.sleep(600)"
    )
    id = not_none(one.stdout).readline().strip()
    assert workspace.get_session(id).state == "active"
    with pytest.raises(Conflict):
        workspace.session_start()
    one.kill()
    one.communicate()
    assert workspace.get_session(id).state == "incomplete"


def test_a_living_owner_with_an_ancient_heartbeat_is_not_robbed(
    opened: Opened, clock: FakeClock, sleeper: Sleeper
) -> None:
    """P1."""
    workspace = opened(clock=clock)
    workspace.session_start(owner_pid=sleeper().pid)
    clock.advance(400 * DAY)
    with pytest.raises(Conflict, match="already active"):
        workspace.session_start()


def test_a_lease_without_owner_lives_a_day_from_its_last_heartbeat(opened: Opened, clock: FakeClock) -> None:
    """P1."""
    workspace = opened(clock=clock)
    first = workspace.session_start().session.id
    for beat in (
        lambda: workspace.save("a save beats", allow_empty=True),
        lambda: workspace.task_start("T01"),
        workspace.session_heartbeat,
        lambda: workspace.save("unchanged saves do"),
    ):
        clock.advance(DAY - 1)
        beat()
    clock.advance(DAY)
    assert workspace.get_session(first).state == "active"
    clock.advance(1)
    assert workspace.get_session(first).state == "incomplete"
    assert workspace.session_start().unfinished == (first,)


@pytest.mark.parametrize("jump", [10 * 365 * DAY, -DAY, -10 * 365 * DAY])
def test_a_clock_that_jumps_robs_nobody(opened: Opened, clock: FakeClock, jump: float) -> None:
    """P1, S15."""
    workspace = opened(clock=clock)
    first = workspace.session_start().session.id
    clock.jump(jump)
    with pytest.raises(Conflict, match="already active"):
        workspace.session_start()
    assert (workspace.save("later", allow_empty=True).checkpoint.metrics.session_seconds or 0) >= 0
    clock.jump(-jump)
    assert workspace.get_session(first).state == "active"


@pytest.mark.parametrize("beat", [Workspace.session_heartbeat, Workspace.save])
def test_a_heartbeat_after_a_restart_of_the_machine_counts_in_its_new_run(
    opened: Opened, clock: FakeClock, beat: Callable[[Workspace], object]
) -> None:
    """P1: a clock that is set then robs nobody."""
    workspace = opened(clock=clock)
    first = workspace.session_start().session.id
    workspace._context.work.change(
        lambda to: to.change_session(first, lambda found: found.replace(heartbeat_boot="the run before"))
    )
    clock.advance(120)
    beat(workspace)
    clock.jump(10 * 365 * DAY)
    assert workspace.get_session(first).state == "active"


def test_an_owner_in_another_namespace_is_not_robbed(
    opened: Opened, clock: FakeClock, sleeper: Sleeper
) -> None:
    """P1, S16: nobody can see from here whether it lives."""
    workspace = opened(clock=clock)
    one = sleeper()
    first = workspace.session_start(owner_pid=one.pid).session.session
    elsewhere = first.owner.replace(namespace="pid:[1]")
    workspace._context.work.change(
        lambda to: to.change_session(first.id, lambda found: found.replace(owner=elsewhere))
    )
    one.kill()
    one.wait()
    clock.advance(DAY - 1)
    with pytest.raises(Conflict, match="already active"):
        workspace.session_start()


def test_sessions_that_are_not_exclusive_live_beside_others(workspace: Workspace, sleeper: Sleeper) -> None:
    """P1."""
    workspace.session_start(owner_pid=sleeper().pid)
    with workspace.session(exclusive=False) as session:
        assert session.save("of the shared one", allow_empty=True).checkpoint.session == session.id
        assert len(workspace.status().sessions) == 2


def test_eight_processes_that_start_at_once_get_one_session(
    workspace: Workspace, program: Program, tmp_path: Path
) -> None:
    """P1: whichever goes first."""
    body = (
        "print('ready', flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): pass\n"
        "try:\n    workspace.session_start(owner_pid=os.getpid())\n"
        "except lastgood.Conflict: print('refused')\n"
        "else: print('started')\nsys.stdout.flush(); time.sleep(600)"
    )
    running = [program(body) for _ in range(8)]
    try:
        outputs = [not_none(one.stdout) for one in running]
        assert [out.readline() for out in outputs] == ["ready\n"] * 8
        (tmp_path / "go").touch()
        said = sorted(out.readline().strip() for out in outputs)
    finally:
        for one in running:
            one.kill()
            one.communicate()
    assert said == ["refused"] * 7 + ["started"]
    assert len(workspace.sessions()) == 1


TICKING = """
session = os.environ["LASTGOOD_SESSION"]
for number in range(5):
    id = f"{os.getpid()}-{number}"
    workspace.task_start(id)
    workspace.progress_set(state={id: number})
    workspace.task_done(id)
"""


def test_every_tick_of_eight_processes_in_one_session_counts(
    workspace: Workspace, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2."""
    with workspace.session() as session:
        monkeypatch.setenv("LASTGOOD_SESSION", session.id)
        running = [program(TICKING) for _ in range(8)]
        assert [one.wait() for one in running] == [0] * 8
        monkeypatch.delenv("LASTGOOD_SESSION")
        progress = session.progress()
        assert progress.count("done") == 40
        assert len(progress.state) == 40
    assert {state for _, _, state in effects(workspace)} == {"done"}
    for one in running:
        not_none(one.stdout).close()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_interruption_makes_a_checkpoint_and_goes_on(
    workspace: Workspace, program: Program, project: Path, how: signal.Signals
) -> None:
    """P3: Ctrl-C, and a polite kill."""
    one = program(
        "with workspace.session(goal='g') as session, session.task('T01'):\n"
        f"    open({str(project / 'half.txt')!r}, 'w').write('half done')\n"
        "    print(session.id); sys.stdout.flush()\n    time.sleep(600)"
    )
    id = not_none(one.stdout).readline().strip()
    one.send_signal(how)
    one.communicate()
    assert one.returncode == {signal.SIGTERM: 143, signal.SIGINT: -signal.SIGINT}[how]
    left = workspace.get_session(id)
    assert (left.state, left.session.ended_by) == ("incomplete", "interrupted")
    last = workspace.get("@")
    assert (last.kind, last.session) == ("interrupt", id)
    assert workspace.read("@", "half.txt") == b"half done"
    assert effects(workspace) == [("T01", 1, "unknown")]
    assert left.progress.count("running") == 1


def test_a_program_with_its_own_way_with_sigterm_keeps_it(workspace: Workspace) -> None:
    def own(_number: int, _frame: Any) -> None:
        return

    before = signal.signal(signal.SIGTERM, own)
    try:
        with workspace.session():
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signals_are_as_before_when_a_session_ends(workspace: Workspace) -> None:
    with workspace.session():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_session_in_another_thread_works_without_signals(opened: Opened) -> None:
    ended: list[str] = []

    def work() -> None:
        with opened().session() as session:
            ended.append(session.id)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(ended) == 1


def test_an_error_makes_a_checkpoint_leaves_the_session_incomplete_and_goes_on(workspace: Workspace) -> None:
    """P3."""
    with pytest.raises(ZeroDivisionError), workspace.session():
        1 / 0  # noqa: B018 - for its error
    assert kinds(workspace) == ["session-start", "error"]
    assert workspace.get("@").message == "ZeroDivisionError: division by zero"
    (left,) = workspace.sessions()
    assert (left.state, left.session.ended_by) == ("incomplete", "error")


def test_a_task_that_fails_makes_one_checkpoint_of_its_error(workspace: Workspace) -> None:
    """P2, P3, P6."""
    with pytest.raises(ValueError, match="boo"), workspace.session() as session, session.task("T01"):
        raise ValueError("boo")
    assert kinds(workspace) == ["session-start", "error"]
    failed = workspace.get("task:T01")
    assert (failed.kind, failed.task, failed.message) == ("error", "T01", "Task T01 failed: ValueError: boo")
    assert effects(workspace) == [("T01", 1, "failed")]


def test_an_error_that_was_caught_lets_the_session_finish(workspace: Workspace) -> None:
    with workspace.session() as session:
        with pytest.raises(ValueError, match="first"), session.task("T01"):
            raise ValueError("first")
        with session.task("T01") as task:
            assert task.attempts == 2
    assert workspace.sessions()[0].state == "ended"
    assert kinds(workspace) == ["session-start", "error", "task", "session-end"]
    assert effects(workspace) == [("T01", 1, "failed"), ("T01", 2, "done")]


def test_a_program_that_exits_in_peace_finishes_its_session(workspace: Workspace) -> None:
    with pytest.raises(SystemExit), workspace.session():
        sys.exit(0)
    assert workspace.sessions()[0].state == "ended"
    with pytest.raises(SystemExit), workspace.session():
        sys.exit("something is wrong")
    assert workspace.sessions()[0].state == "incomplete"
    with pytest.raises(SystemExit), workspace.session() as session, session.task("T01"):
        sys.exit(0)
    assert workspace.sessions()[0].state == "incomplete"


def test_steps_are_recorded_before_and_after(workspace: Workspace) -> None:
    """P6."""
    with workspace.session() as session:
        with session.task("T01"):
            with session.step("push", irreversible=True):
                assert effects(workspace)[-1] == ("push", 1, "running")
            with pytest.raises(ValueError, match="no"), session.step("mail"):
                raise ValueError("no")
        with pytest.raises(KeyboardInterrupt), session.step("deploy"):
            raise KeyboardInterrupt
    assert effects(workspace) == [
        ("T01", 1, "done"),
        ("push", 1, "done"),
        ("mail", 1, "failed"),
        ("deploy", 1, "unknown"),
    ]
    found = workspace._context.work.effects(workspace._context.key)
    assert [(one.task, one.irreversible) for one in found[1:3]] == [("T01", True), ("T01", False)]


def test_a_task_started_again_makes_the_earlier_effect_unknown(workspace: Workspace) -> None:
    """P2, P6."""
    workspace.task_start("T01", irreversible=True)
    again = workspace.task_start("T01")
    assert not_none(again.task).attempts == 2
    assert [one.attempt for one in again.unknown] == [1]
    assert again.unknown[0].irreversible
    workspace.task_done("T01")
    assert effects(workspace) == [("T01", 1, "unknown"), ("T01", 2, "done")]


def test_a_persons_word_that_a_task_was_done_is_about_its_last_attempt(workspace: Workspace) -> None:
    """P6."""
    within = workspace.within(workspace.session_start().session.id)
    for _ in range(2):
        within.task_start("T01")
    progress.happened(within._context, "T01")
    assert effects(workspace) == [("T01", 1, "unknown"), ("T01", 2, "done")]


def test_a_task_bears_the_moments_of_its_start_and_its_end(opened: Opened, clock: FakeClock) -> None:
    """P2."""
    workspace = opened(clock=clock)
    begun = clock.now()
    workspace.task_start("T01")
    clock.advance(90)
    workspace.task_done("T01")
    (task,) = workspace.progress().tasks
    assert (task.started_at, task.ended_at) == (begun, clock.now())


def test_what_is_ended_again_makes_no_second_checkpoint(workspace: Workspace) -> None:
    workspace.task_start("T01")
    assert workspace.task_done("T01").saved is not None
    assert workspace.task_done("T01").saved is None
    workspace.task_start("T01")
    assert workspace.task_done("T01").saved is not None
    workspace.feature_start("login")
    assert workspace.feature_done("login").saved is not None
    assert workspace.feature_done("login").saved is None
    assert kinds(workspace) == ["task", "task", "feature"]


def test_before_and_after_a_task_are_found(workspace: Workspace, project: Path) -> None:
    """P2: for each attempt anew."""
    (project / "a.txt").write_text("at first")
    with workspace.session() as session:
        first = workspace.get("@").id
        with session.task("T01"):
            (project / "a.txt").write_text("by T01")
        (project / "a.txt").write_text("by hand")
        with session.task("T02", risky=True):
            (project / "a.txt").write_text("by T02")
        assert workspace.get("before:task:T01").id == first
        assert workspace.read("task:T01", "a.txt") == b"by T01"
        before = workspace.get("before:task:T02")
        assert (before.kind, before.task, before.moment) == ("risky", "T02", "before")
        assert workspace.read(before.id, "a.txt") == b"by hand"
        assert workspace.read("task:T02", "a.txt") == b"by T02"
        with session.task("T01"):
            assert workspace.read("before:task:T01", "a.txt") == b"by T02"
        assert workspace.get("@start").id == first
        for ref in ("task:T9", "before:task:T9", "step:3"):
            with pytest.raises(NotFound):
                workspace.get(ref)
    with workspace.session():
        for ref in ("task:T01", "before:task:T01"):
            with pytest.raises(NotFound):
                workspace.get(ref)
    assert workspace.read("task:T01", "a.txt") == b"by T02"


def test_a_task_is_that_of_the_session_that_was_named_though_another_one_lives(workspace: Workspace) -> None:
    """P2."""
    ids: list[str] = []
    for _ in range(2):
        if ids:
            workspace.session_end(ids[0])
        ids.append(workspace.session_start().session.id)
        inside = workspace.within(ids[-1])
        inside.task_start("T1")
        inside.task_done("T1")
    found = [workspace.within(id).get("task:T1").manifest.session for id in ids]
    assert found == ids


def test_the_newest_checkpoint_at_a_step_is_found(workspace: Workspace) -> None:
    for step in (1, 2, 1):
        workspace.progress_set(step=step)
        workspace.save(f"at {step}", allow_empty=True)
    assert workspace.get("step:1").sequence == 3
    assert workspace.get("step:2").sequence == 2
    with pytest.raises(Invalid, match="no number of a step"):
        workspace.get("step:two")
    with pytest.raises(NotFound, match="no session is under way"):
        workspace.get("@start")


def test_the_session_that_died_is_still_at_hand(workspace: Workspace, sleeper: Sleeper) -> None:
    one = sleeper()
    first = workspace.session_start(owner_pid=one.pid)
    one.kill()
    one.wait()
    workspace.save("later", allow_empty=True)
    assert workspace.get("@start").id == not_none(first.saved).checkpoint.id


def test_another_iteration_makes_a_checkpoint(workspace: Workspace) -> None:
    """P3."""
    assert workspace.progress_set(iteration=1, step=8, steps=15).saved is not None
    assert workspace.progress_set(step=9).saved is None
    assert workspace.progress_set(iteration=1).saved is None
    assert workspace.progress_set(iteration=2).saved is not None
    assert [(one.kind, one.message) for one in workspace.list()] == [("iteration", "")] * 2
    position = not_none(workspace.get("@").position)
    assert (position.iteration, position.step) == (2, 9)


def test_progress_outside_sessions_is_the_workspaces(workspace: Workspace, project: Path) -> None:
    """P2."""
    workspace.progress_set(phase="Construction", iteration=3, step=12, steps=15, artifacts=["a.txt"])
    assert workspace.save().checkpoint.position == workspace.progress().position
    with workspace.session() as session:
        assert session.progress().empty
        session.progress(phase="Transition", artifacts=[project / "a.txt"], state={"x": 1})
        assert session.progress().position.artifacts == (b"a.txt",)
    assert workspace.progress().position.phase == "Construction"


def test_state_files_are_captured_though_ignored(workspace: Workspace, project: Path) -> None:
    """P2: and are private."""
    (project / ".gitignore").write_text("*.md\nfeature_list.json\n")
    for name in ("feature_list.json", "progress.md", "notes.md"):
        (project / name).write_text(name)
    saved = workspace.save().checkpoint
    assert sorted(saved.manifest.private) == [b"feature_list.json", b"progress.md"]
    assert workspace.read("@", "progress.md") == b"progress.md"


def test_moments_that_are_switched_off_make_no_checkpoints(opened: Opened) -> None:
    """K7, P3."""
    quiet = Settings(auto=AutoSettings(enabled=False))
    with opened(settings=quiet).session() as session, session.task("T01", irreversible=True):
        session.progress(iteration=4)
    workspace = opened(settings=Settings(auto=AutoSettings(on=("task",))))
    assert workspace.list() == ()
    with workspace.session() as session, session.task("T01"):
        session.progress(iteration=5)
    assert kinds(workspace) == ["task"]


def test_an_automatic_save_of_unchanged_files_and_progress_makes_none(workspace: Workspace) -> None:
    """S10."""
    workspace.progress_set(step=1)
    first = workspace.save(kind="auto").checkpoint
    again = workspace.save(kind="turn")
    assert (again.created, again.checkpoint.id) == (False, first.id)
    workspace.progress_set(step=2)
    assert workspace.save(kind="turn").created


def test_checkpoints_carry_the_metrics_of_their_session(opened: Opened, clock: FakeClock) -> None:
    """P4."""
    workspace = opened(clock=clock)
    with workspace.session() as session:
        clock.advance(90)
        with session.task("T01"):
            pass
        workspace.task_start("T02")
        workspace.task_fail("T02")
        workspace.task_start("T03")
        metrics = session.save("now", tokens=1200).checkpoint.metrics
    assert metrics.session_seconds == pytest.approx(90)
    assert (metrics.tasks_done, metrics.tasks_failed, metrics.tasks_total) == (1, 1, 3)
    assert (metrics.success_ratio, metrics.tokens) == (0.5, 1200)
    assert (metrics.memory_bytes or 0) > 1 << 20
    assert metrics.cpu_seconds is not None
    assert metrics.stored_bytes > 0


def test_observers_are_told_of_sessions_and_tasks(workspace: Workspace) -> None:
    told: list[str] = []
    workspace.subscribe(lambda event: told.append(event.type))
    with workspace.session() as session, session.task("T01"):
        pass
    assert told == [
        "session_started",
        "saved",
        "task_changed",
        "task_changed",
        "saved",
        "session_ended",
        "saved",
    ]


def test_an_observer_that_fails_harms_no_session(workspace: Workspace) -> None:
    def fail(_: Event) -> None:
        raise RuntimeError("of the observer")

    workspace.subscribe(fail)
    with workspace.session() as session, session.task("T01"):
        pass
    assert workspace.sessions()[0].state == "ended"


def test_a_session_whose_first_checkpoint_fails_has_not_begun(workspace: Workspace, opened: Opened) -> None:
    tight = opened(settings=Settings(limits=LimitSettings(max_store_size=1)))
    with pytest.raises(package.Storage):
        tight.session_start(goal="g")
    (failed,) = workspace.sessions()
    assert (failed.state, failed.session.ended_by) == ("ended", "failed")
    workspace.session_start()


def test_nothing_starts_beside_an_interrupted_restore(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """T7."""
    (project / "a.txt").write_text("a")
    workspace.save()
    context = workspace._context
    journal = store / "workspaces" / context.key / os.fsdecode(JOURNAL)
    journal.write_bytes(b"torn")
    for work in (workspace.session_start, lambda: workspace.task_start("T01")):
        with pytest.raises((Busy, package.Damaged)):
            work()
    journal.unlink()
    assert workspace.sessions() == ()
    assert workspace.progress().empty


def test_sessions_are_named_by_some_digits(workspace: Workspace) -> None:
    made = [workspace.session_start(exclusive=False).session.id for _ in range(2)]
    for id in made:
        assert workspace.get_session(id.removeprefix("sess_")[:12]).id == id
        assert workspace.get_session(id).id == id
    for nothing in ("sess_", "", "ffff_", "sess_zzzz", "é"):
        with pytest.raises(NotFound):
            workspace.get_session(nothing)
    digits = "a" * 12  # more than two that are drawn can be alike in
    ids = [f"sess_{digits}{number:04x}" for number in range(2)]
    first = workspace.sessions()[0].session

    def opened(work: SessionTransaction) -> None:
        for id in ids:
            work.open_session(first.replace(id=id))

    workspace._context.work.change(opened)
    with pytest.raises(Ambiguous) as caught:
        workspace.get_session(digits)
    assert caught.value.details["candidates"] == ids[::-1]


def test_ending_what_ended_and_what_died(workspace: Workspace, sleeper: Sleeper) -> None:
    with pytest.raises(NotFound, match="no session is under way"):
        workspace.session_end()
    one = sleeper()
    dead = workspace.session_start(owner_pid=one.pid).session.id
    one.kill()
    one.wait()
    with pytest.raises(Conflict, match="is incomplete") as caught:
        workspace.session_end()
    assert "lastgood recover" in caught.value.hint
    given_up = workspace.session_end(dead)
    assert (given_up.session.session.ended_by, given_up.saved) == ("fresh", None)
    with pytest.raises(Conflict, match="it was given up"):
        workspace.session_end(dead)
    assert workspace.status().state == "idle"


def test_a_session_left_incomplete_waits(workspace: Workspace) -> None:
    """P8."""
    workspace.session_start()
    left = workspace.session_end(finished=False)
    assert left.saved is not None
    assert left.session.state == "incomplete"
    status = workspace.status()
    assert (status.state, [one.id for one in status.incomplete]) == ("incomplete", [left.session.id])
    assert status.session is not None


def test_a_session_is_entered_once(workspace: Workspace) -> None:
    session = workspace.session()
    with pytest.raises(Usage, match="has not begun"):
        session.progress()
    with session:
        pass
    with pytest.raises(Usage, match="entered once"):
        session.__enter__()


def test_a_session_that_lost_its_lease_ends_with_a_conflict(workspace: Workspace) -> None:
    with pytest.raises(Conflict, match="another session took over"), workspace.session():
        workspace.session_start(force=True)


def test_a_failure_of_ours_never_hides_the_error_of_the_work(workspace: Workspace) -> None:
    def work() -> None:
        with workspace.session() as session, session.task("T01"):
            workspace.session_start(force=True)
            1 / 0  # noqa: B018 - for its error

    with pytest.raises(ZeroDivisionError) as caught:
        work()
    assert any("took over" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    "call",
    [
        lambda workspace: workspace.session_start(owner_pid=0),
        lambda workspace: workspace.session_start(owner_pid=True),
        lambda workspace: workspace.session_start(goal=5),
        lambda workspace: workspace.task_start(None),
        lambda workspace: workspace.task_fail("T01", reason=b"x"),
        lambda workspace: workspace.progress_set(step="12/15"),
        lambda workspace: workspace.progress_set(state=[1]),
        lambda workspace: workspace.progress_set(state={"x": object()}),
        lambda workspace: workspace.progress_set(state={"x": float("nan")}),
        lambda workspace: workspace.progress_set(artifacts="a.txt"),
    ],
)
def test_a_wrong_type_is_told_and_changes_nothing(
    workspace: Workspace, call: Callable[[Workspace], object]
) -> None:
    with pytest.raises(Usage):
        call(workspace)
    assert workspace.sessions() == ()
    assert workspace.progress().empty


def test_a_state_that_is_too_large_is_refused(workspace: Workspace) -> None:
    with pytest.raises(Invalid, match="limit is 262,144"):
        workspace.progress_set(state={"x": "y" * 300_000})
    with pytest.raises(package.Unsafe):
        workspace.progress_set(artifacts=["../outside"])
    assert workspace.progress().empty


def test_a_dead_owner_is_no_owner(workspace: Workspace, sleeper: Sleeper) -> None:
    one = sleeper()
    one.kill()
    one.wait()
    with pytest.raises(NotFound, match="there is no process"):
        workspace.session_start(owner_pid=one.pid)
    assert workspace.sessions() == ()


def test_a_session_of_another_workspace_does_not_count_here(
    opened: Opened, tmp_path: Path, store: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with package.open(other, store=store, maintenance="off") as elsewhere:
        id = elsewhere.session_start().session.id
    workspace = opened(environment=dict(os.environ) | {"LASTGOOD_SESSION": id})
    workspace.task_start("T01")
    assert workspace.save().checkpoint.session is None
    assert workspace.progress_report().session is None
    unknown = opened(environment=dict(os.environ) | {"LASTGOOD_SESSION": "sess_unknown"})
    with pytest.raises(NotFound, match="LASTGOOD_SESSION"):
        unknown.task_start("T01")
    assert unknown.save("all the same", allow_empty=True).created


def test_a_session_goes_on_while_bytes_are_freed_and_files_restored(workspace: Workspace) -> None:
    """P1: no sweep or restore, however long, makes a lease expire or a record of a step wait."""
    session = workspace.session_start()
    context = workspace._context
    before = session.session.session.heartbeat_at
    with context.locks.hold_store(wait=0), context.locks.hold_workspace(context.key, wait=0):
        assert workspace.session_heartbeat().session.heartbeat_at > before
        workspace.step_start("call")
        assert effects(workspace) == [("call", 1, "running")]
