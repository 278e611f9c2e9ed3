"""Steps of one's own program that are done once in a session, however often it starts (P6, P7)."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.errors import Ambiguous, Conflict, Invalid, Usage
from lastgood.workspace import Workspace
from tools.command import opening, started
from tools.runs import wait_for

Program = Callable[[str], Any]

# A program as its author writes it: started again after a crash, it goes on.
PROGRAM = """
def count(name):
    with open(os.path.join(OUTSIDE, name), "a") as file:
        file.write("x")

with workspace.session(goal="migrate", resume=True) as session:
    @session.once()
    def prepare(table):
        count("prepare-" + table)
        return {"rows": len(table)}

    @session.once("push", irreversible=IRREVERSIBLE)
    def push():
        count("push")
        if not os.path.exists(os.path.join(OUTSIDE, "again")):
            count("again")
            count("waiting")
            time.sleep(600)

    print(prepare("users"), prepare("orders"))
    push()
    print("done", session.started.continued)
"""


@pytest.fixture
def program(project: Path, store: Path, outside: Path) -> Callable[..., Any]:
    def run(*, irreversible: bool) -> subprocess.Popen[str]:
        terms = f"import lastgood, os, time\nOUTSIDE, IRREVERSIBLE = {str(outside)!r}, {irreversible}\n"
        return started(terms + opening(project, store) + PROGRAM, stderr=subprocess.PIPE)

    return run


def killed(program: Callable[..., Any], outside: Path, *, irreversible: bool) -> None:
    one = program(irreversible=irreversible)
    wait_for(outside / "waiting")
    one.kill()
    one.communicate()


def test_a_program_that_was_killed_goes_on_and_repeats_nothing_that_is_done(
    workspace: Workspace, program: Callable[..., Any], outside: Path
) -> None:
    killed(program, outside, irreversible=False)
    out, err = program(irreversible=False).communicate()
    assert (out, err) == ("{'rows': 5} {'rows': 6}\ndone True\n", "")
    counted = {name: (outside / name).read_text() for name in ("prepare-users", "prepare-orders", "push")}
    assert counted == {"prepare-users": "x", "prepare-orders": "x", "push": "xx"}
    (session,) = workspace.sessions()
    assert (session.state, session.session.ended_by) == ("ended", "finished")


def test_an_irreversible_step_that_nobody_saw_end_is_refused_until_somebody_knows(
    workspace: Workspace, program: Callable[..., Any], outside: Path
) -> None:
    killed(program, outside, irreversible=True)
    for _ in range(2):
        _, err = program(irreversible=True).communicate()
        assert "Conflict: nobody saw the end of the step push" in err
    assert (outside / "push").read_text() == "x"
    (step,) = [one for one in workspace.steps() if one.name == "push"]
    assert (step.state, step.irreversible) == ("unknown", True)
    workspace.step_end(step.replace(result={"value": None}), state="done")
    out, _ = program(irreversible=True).communicate()
    assert out.endswith("done True\n")
    assert (outside / "push").read_text() == "x"


def test_a_result_comes_back_as_it_was_recorded(workspace: Workspace) -> None:
    with workspace.session() as session:

        @session.once()
        def pair(*words: object, **named: object) -> Any:
            calls.append(words)
            return {"words": words, "named": named}

        calls: list[object] = []
        first = pair(1, "é\udcff", key=[None, 2.5])
        assert first == {"words": [1, "é\udcff"], "named": {"key": [None, 2.5]}}
        assert pair(1, "é\udcff", key=[None, 2.5]) == first
        assert pair(1, "é\udcff", key=[None, 2.25])["named"] == {"key": [None, 2.25]}
        assert pair() == {"words": [], "named": {}}
        assert len(calls) == 3


def test_what_json_cannot_hold_is_refused_each_time(workspace: Workspace) -> None:
    with workspace.session() as session:
        calls: list[int] = []

        @session.once()
        def odd(*_words: object) -> object:
            calls.append(1)
            return object()

        for _ in range(2):
            with pytest.raises(Invalid, match="its result could not be kept"):
                odd()
        assert len(calls) == 1
        with pytest.raises(Invalid, match="an argument of the step odd"):
            odd(object())
        assert len(calls) == 1


def test_a_step_that_failed_is_done_again(workspace: Workspace) -> None:
    with workspace.session() as session:
        faults = [ValueError("no"), None]

        @session.once(irreversible=True)
        def deploy() -> str:
            fault = faults.pop(0)
            if fault is not None:
                raise fault
            return "deployed"

        with pytest.raises(ValueError, match="no"):
            deploy()
        assert deploy() == "deployed"
        assert deploy() == "deployed"
        assert [step.state for step in workspace.steps(session.id)] == ["failed", "done"]


def test_a_step_whose_files_were_taken_back_is_done_again(workspace: Workspace, project: Path) -> None:
    with workspace.session() as session:
        calls: list[str] = []

        @session.once()
        def generate() -> None:
            calls.append("generate")
            (project / "made").write_text("made\n")

        @session.once(irreversible=True)
        def announce() -> None:
            calls.append("announce")

        before = session.save("before", allow_empty=True).checkpoint
        generate()
        announce()
        session.workspace.restore(before.id)
        generate()
        announce()
        assert calls == ["generate", "announce", "generate"]
        assert (project / "made").exists()


def test_a_result_leaves_the_store_without_secrets(
    workspace: Workspace, tmp_path: Path, project: Path
) -> None:
    """S17."""
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    with workspace.session() as session:
        session.once("login")(lambda: {"token": token, "user": "ada"})()
    other = tmp_path / "elsewhere"
    other.mkdir()
    results = []
    for exact in (False, True):
        parcel = tmp_path / f"parcel-{exact}"
        workspace.export(parcel, exact=exact)
        with package.open(other, store=tmp_path / f"store-{exact}", maintenance="off") as arrived:
            arrived.import_file(parcel)
            facts = arrived._context.work.effects(workspace._context.key)
            results.append([one.result for one in facts])
    assert token not in str(results[0])
    assert "ada" in str(results[0])
    assert results[1] == [{"value": {"token": token, "user": "ada"}}]


def test_threads_do_a_step_once(workspace: Workspace) -> None:
    with workspace.session() as session:
        calls: list[int] = []
        results: list[int] = []
        both = threading.Barrier(2)

        @session.once()
        def slow() -> int:
            calls.append(1)
            return 7

        def call() -> None:
            both.wait()
            results.append(slow())

        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(calls), results) == (1, [7, 7])


def test_steps_belong_to_their_task(workspace: Workspace) -> None:
    with workspace.session() as session:
        calls: list[str] = []
        for task in ("T1", "T2"):
            with session.task(task):
                session.once("same")(lambda task=task: calls.append(task))()
                with pytest.raises(Usage, match="the name of its task"):
                    session.once(task)(lambda: None)()
    assert calls == ["T1", "T2"]


@pytest.mark.parametrize("name", ["", "  ", 7])
def test_a_step_needs_a_name(workspace: Workspace, name: Any) -> None:
    with workspace.session() as session, pytest.raises(Usage, match="no name of a step"):
        session.once(name)


def test_a_session_that_is_resumed_keeps_its_id_or_is_new(workspace: Workspace) -> None:
    """P7."""
    with workspace.session(goal="g", resume=True) as first:
        pass
    with workspace.session(goal="g", resume=True) as second:
        assert (second.id == first.id, second.started.continued) == (False, False)
        with pytest.raises(RuntimeError), workspace.within(second.id).session(exclusive=False, goal="inner"):
            raise RuntimeError
    with pytest.raises(RuntimeError), workspace.session(goal="g") as third:
        raise RuntimeError
    with workspace.session(goal="g", resume=True) as fourth:
        assert (fourth.id, fourth.started.continued) == (third.id, True)
    with workspace.session(goal="inner", resume=True) as fifth:
        assert fifth.started.continued is False


def test_several_sessions_to_go_on_with_are_named(workspace: Workspace) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError), workspace.session(goal="g"):
            raise RuntimeError
    with pytest.raises(Ambiguous, match="2 sessions of this goal"), workspace.session(goal="g", resume=True):
        pass


def test_a_run_is_not_taken_for_a_session_of_ones_own(workspace: Workspace) -> None:
    workspace.run({"goal": "g", "tasks": [{"id": "A", "run": "exit 1"}]})
    with workspace.session(goal="g", resume=True) as session:
        assert session.started.continued is False


def test_coroutine_functions_are_steps_too(project: Path, store: Path) -> None:
    async def main() -> list[object]:
        calls: list[object] = []
        async with (
            package.open_async(project, store=store, maintenance="off") as workspace,
            workspace.session(goal="g") as session,
        ):

            @session.once()
            async def fetch(number: int) -> int:
                calls.append(number)
                await asyncio.sleep(0)
                return number * 2

            calls.append(await fetch(1))
            calls.append(await fetch(1))
            found = await asyncio.gather(fetch(2), fetch(2), return_exceptions=True)
            assert sorted(type(one).__name__ for one in found) == ["Conflict", "int"]
            with pytest.raises(Usage):
                session.once("plain")(lambda: None)  # type: ignore[arg-type, return-value]
            begun = asyncio.Event()

            @session.once()
            async def endless() -> None:
                begun.set()
                await asyncio.Event().wait()

            slow = asyncio.create_task(endless())
            await begun.wait()
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            assert [step.state for step in await workspace.steps()] == ["done", "done", "unknown"]
        return calls

    assert asyncio.run(main()) == [1, 2, 2, 2]


def test_a_coroutine_function_is_no_step_of_a_synchronous_session(workspace: Workspace) -> None:
    async def later() -> None: ...

    with workspace.session() as session, pytest.raises(Usage, match="coroutine function"):
        session.once()(later)


def test_a_step_of_another_process_that_still_runs_is_not_repeated(workspace: Workspace) -> None:
    with workspace.session() as session:
        session.workspace.step_start("push", irreversible=True)
        with pytest.raises(Conflict, match="nobody saw the end of the step push"):
            session.once("push", irreversible=True)(lambda: None)()


def test_a_step_of_a_task_is_no_turn_whatever_it_came_to(workspace: Workspace) -> None:
    """P9: by turns it is told whose a change is."""
    session = workspace.session_start(goal="go").session.id
    inside = workspace.within(session)
    inside.step_end(inside.step_start("turn"))
    inside.task_start("T1")
    step = inside.step_start("deploy", task="T1")
    inside.step_end(step.replace(result={"value": {"task": None}}))
    work = inside._context.work
    assert [one.name for one in work.turns(inside._context.key, session, limit=9)] == ["turn"]
