"""Real graphs over the saver: they go on after a restart, fork, wait for people, and bring files back."""

from __future__ import annotations

import asyncio
import operator
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

import lastgood
from lastgood.aio.bridge import MOST_AT_ONCE
from lastgood.errors import Conflict, Invalid, NotFound, Unsafe, Usage
from lastgood.integrations.langgraph import LastgoodSaver
from lastgood.workspace import Workspace
from tools.values import not_none

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph


class State(TypedDict):
    """What was done, step by step."""

    done: Annotated[list[str], operator.add]


def config_of(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def writer(project: Path, saver: LastgoodSaver, *, ask: bool = False) -> CompiledStateGraph[Any]:
    """Return a graph of three steps, each of which writes a file of the workspace."""

    def step(name: str) -> Any:
        def work(state: State) -> dict[str, list[str]]:
            if ask and name == "second":
                name_given = interrupt("what is it called?")
                (project / f"{name_given}.txt").write_text("named by a person")
            (project / "log.txt").write_text("\n".join([*state["done"], name]))
            (project / f"{name}.txt").write_text(name)
            return {"done": [name]}

        return work

    builder = StateGraph(State)
    names = ["first", "second", "third"]
    for name in names:
        builder.add_node(name, step(name))
    for before, after in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


def run(graph: CompiledStateGraph[Any], said: Any = None) -> Any:
    return graph.invoke({"done": []} if said is None else said, config_of("1"), durability="sync")


def thinker(saver: LastgoodSaver) -> CompiledStateGraph[Any]:
    """Return a graph that changes no file."""
    builder = StateGraph(State)
    builder.add_node("think", lambda _state: {"done": ["thought"]})
    builder.add_edge(START, "think")
    return builder.compile(checkpointer=saver)


def files(project: Path) -> set[str]:
    return {name for name in os.listdir(project) if not name.startswith(".")}


def test_a_graph_goes_on_in_another_process_where_a_person_was_asked(project: Path, store: Path) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        graph = writer(project, LastgoodSaver(workspace), ask=True)
        assert "__interrupt__" in run(graph)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        graph = writer(project, LastgoodSaver(workspace), ask=True)
        assert graph.get_state(config_of("1")).next == ("second",)
        assert run(graph, Command(resume="it"))["done"] == ["first", "second", "third"]
    assert (project / "it.txt").read_text() == "named by a person"


def test_time_travel_brings_the_files_back_too(workspace: Workspace, project: Path) -> None:
    """T1, T8: also this restore can be undone."""
    (project / "mine.txt").write_text("a person's")
    saver = LastgoodSaver(workspace, files=True)
    graph = writer(project, saver)
    run(graph)
    assert files(project) == {"mine.txt", "log.txt", "first.txt", "second.txt", "third.txt"}
    history = list(graph.get_state_history(config_of("1")))
    (past,) = (one for one in history if one.next == ("second",))
    assert not_none(past.metadata)["lastgood_files"] == saver.files_of(past.config)  # type: ignore[typeddict-item]

    report = saver.restore_files(past.config)
    assert report.complete
    assert files(project) == {"mine.txt", "log.txt", "first.txt"}
    assert (project / "log.txt").read_text() == "first"

    forked = graph.update_state(past.config, {"done": ["otherwise"]}, as_node="first")
    result = graph.invoke(None, forked, durability="sync")
    assert result["done"] == ["first", "otherwise", "second", "third"]
    assert (project / "log.txt").read_text() == "first\notherwise\nsecond\nthird"
    saver.restore_files(history[0].config)
    assert (project / "log.txt").read_text() == "first\nsecond\nthird"
    workspace.undo()
    assert (project / "log.txt").read_text() == "first\notherwise\nsecond\nthird"


def test_steps_that_change_no_file_make_no_checkpoints(workspace: Workspace, project: Path) -> None:
    """S10."""
    (project / "a.txt").write_text("a")
    saver = LastgoodSaver(workspace, files=True)
    graph = thinker(saver)
    for _ in range(3):
        run(graph)
    assert len(workspace.list()) == 1
    assert len({saver.files_of(one.config) for one in graph.get_state_history(config_of("1"))}) == 1


def test_files_are_not_kept_beside_a_step_that_may_change_them(workspace: Workspace, project: Path) -> None:
    graph = writer(project, LastgoodSaver(workspace, files=True))
    for durability in ({}, {"durability": "async"}):
        with pytest.raises(Usage, match="does not wait") as caught:
            graph.invoke({"done": []}, config_of("1"), **durability)  # type: ignore[call-overload]
        assert 'durability="sync"' in caught.value.hint
    assert graph.invoke({"done": []}, config_of("1"), durability="exit")["done"][-1] == "third"


def test_without_files_none_are_kept_and_none_are_brought_back(workspace: Workspace, project: Path) -> None:
    saver = LastgoodSaver(workspace)
    graph = writer(project, saver)
    run(graph)
    assert workspace.list() == ()
    assert saver.files_of(config_of("1")) is None
    with pytest.raises(NotFound, match="no files were kept") as caught:
        saver.restore_files(config_of("1"))
    assert "files=True" in caught.value.hint
    with pytest.raises(NotFound, match="no such checkpoint"):
        saver.restore_files(config_of("nobody"))


def test_files_whose_checkpoint_was_deleted_are_told_to_be_gone(workspace: Workspace, project: Path) -> None:
    saver = LastgoodSaver(workspace, files=True)
    graph = writer(project, saver)
    run(graph)
    past = list(graph.get_state_history(config_of("1")))[2]
    kept = not_none(saver.files_of(past.config))
    workspace.delete(kept)
    with pytest.raises(NotFound):
        saver.restore_files(past.config)
    workspace.undo()
    assert saver.restore_files(past.config).complete


def test_a_step_whose_files_cannot_be_kept_fails_and_keeps_nothing(project: Path, store: Path) -> None:
    """S14."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        saver = LastgoodSaver(workspace, files=True)
        graph = thinker(saver)
        run(graph)
        before = len(list(graph.get_state_history(config_of("1"))))
        project.rename(project.with_name("moved"))
        with pytest.raises((lastgood.NotFound, Unsafe)):
            run(graph)
        assert len(list(graph.get_state_history(config_of("1")))) == before


async def test_the_awaited_twins_do_the_same(workspace: Workspace, project: Path) -> None:
    saver = LastgoodSaver(workspace, files=True)

    graph = writer(project, saver)
    await graph.ainvoke({"done": []}, config_of("1"), durability="sync")
    history = [one async for one in graph.aget_state_history(config_of("1"))]
    (past,) = (one for one in history if one.next == ("third",))
    assert await saver.afiles_of(past.config) == saver.files_of(past.config)
    assert (await saver.arestore_files(past.config)).complete
    await saver.acopy_thread("1", "2")
    assert (await graph.aget_state(config_of("2"))).values == history[0].values
    await saver.aprune(["2"])
    assert len([one async for one in graph.aget_state_history(config_of("2"))]) == 1
    await saver.adelete_thread("2")
    assert (await graph.aget_state(config_of("2"))).values == {}
    assert files(project) == {"log.txt", "first.txt", "second.txt"}


def test_many_threads_at_once_each_keep_their_own(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    builder = StateGraph(State)
    builder.add_node("say", lambda state: {"done": [f"{len(state['done'])}"]})
    builder.add_edge(START, "say")
    graph = builder.compile(checkpointer=saver)

    async def talk(thread: str) -> list[str]:
        for _ in range(4):
            await graph.ainvoke({"done": [thread]}, config_of(thread))
        state = await graph.aget_state(config_of(thread))
        done: list[str] = state.values["done"]
        return done

    async def everyone() -> list[list[str]]:
        return await asyncio.gather(*(talk(f"thread {number}") for number in range(12)))

    for number, done in enumerate(asyncio.run(everyone())):
        assert done[::2] == [f"thread {number}"] * 4
    assert len({one.config["configurable"]["thread_id"] for one in saver.list(None)}) == 12


def ours() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "lastgood"]


def test_many_awaited_calls_share_a_few_threads(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    ledger: Any = saver._records.ledger

    async def everyone() -> None:
        with ledger._file._lock:  # none can end
            asked = [asyncio.ensure_future(saver.aget_tuple(config_of(str(n)))) for n in range(200)]
            while len(ours()) < MOST_AT_ONCE:  # noqa: ASYNC110 - other threads tell nobody
                await asyncio.sleep(0.001)
            for _ in range(20):
                await asyncio.sleep(0.001)
                assert len(ours()) == MOST_AT_ONCE
        assert await asyncio.gather(*asked) == [None] * 200

    for _ in range(2):  # each run has a loop of its own
        for thread in ours():
            thread.join()
        asyncio.run(everyone())


async def test_a_cancelled_step_is_kept_whole_or_not_at_all(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    checkpoints = 0

    async def attempt(number: int) -> None:
        config: RunnableConfig = {"configurable": {"thread_id": str(number), "checkpoint_ns": ""}}
        from langgraph.checkpoint.base import empty_checkpoint

        task = asyncio.create_task(saver.aput(config, empty_checkpoint(), {"step": 1}, {}))
        await asyncio.sleep(number / 5000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for number in range(12):
        try:
            await attempt(number)
        except BaseException as error:  # noqa: BLE001 - it may have been quicker than the cancellation
            assert "DID NOT RAISE" in str(error)
    checkpoints = len(list(saver.list(None)))
    assert len(list(saver.list(None))) == checkpoints
    assert workspace.verify().faults == ()


PROGRAM = """
import operator, os, sys
from typing import Annotated, TypedDict
import lastgood
from langgraph.graph import StateGraph, START, END
from lastgood.integrations.langgraph import LastgoodSaver

class State(TypedDict):
    done: Annotated[list, operator.add]

def step(state):
    number = len(state["done"])
    with open("log.txt", "a") as file:
        file.write(f"{number}\\n")
    return {"done": [number]}

workspace = lastgood.open(os.getcwd(), store=sys.argv[1], maintenance="off")
builder = StateGraph(State)
builder.add_node("step", step)
builder.add_edge(START, "step")
builder.add_conditional_edges("step", lambda state: END if len(state["done"]) > 200 else "step")
saver = LastgoodSaver(workspace, files=True)
graph = builder.compile(checkpointer=saver)
config = {"configurable": {"thread_id": "1"}, "recursion_limit": 1000}
print("begun", flush=True)
for _ in graph.stream({"done": []}, config, durability="sync"):
    print("step", flush=True)
"""


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_a_killed_graph_has_files_and_state_of_one_moment(steps: int, project: Path, store: Path) -> None:
    """Invariant 3 of time travel: the thread's newest state and the files bound to it belong together."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store)],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    for _ in range(1 + steps):
        running.stdout.readline()
    running.send_signal(signal.SIGKILL)
    running.wait()
    running.stdout.close()
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        saver = LastgoodSaver(workspace)
        found = not_none(saver.get_tuple(config_of("1")))
        done = found.checkpoint["channel_values"]["done"]
        assert len(done) >= steps - 1
        saver.restore_files(found.config)
        assert (project / "log.txt").read_text().split() == [str(number) for number in done]
        assert workspace.verify().faults == ()


def test_a_run_and_a_thread_can_be_removed_and_a_thread_copied_only_to_a_free_name(
    workspace: Workspace,
) -> None:
    saver = LastgoodSaver(workspace)
    builder = StateGraph(State)
    builder.add_node("say", lambda _state: {"done": ["said"]})
    builder.add_edge(START, "say")
    graph = builder.compile(checkpointer=saver)
    run(graph)
    saver.copy_thread("1", "2")
    with pytest.raises(Conflict, match="already"):
        saver.copy_thread("1", "2")
    with pytest.raises(NotFound, match="no thread"):
        saver.copy_thread("3", "4")
    with pytest.raises(Invalid, match="no strategy"):
        saver.prune(["1"], strategy="everything")
    saver.prune(["1", "none"], strategy="delete")
    assert [one.config["configurable"]["thread_id"] for one in saver.list(None, limit=1)] == ["2"]


def test_a_configuration_that_names_nothing_is_refused(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    with pytest.raises(Usage, match="names no thread"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(Usage, match="belong to a checkpoint"):
        saver.put_writes(config_of("1"), [("a", 1)], "task")
    with pytest.raises(Invalid, match="NUL"):
        saver.get_tuple(config_of("a\0b"))
    odd = empty_checkpoint()
    odd["id"] = "a\0b"
    with pytest.raises(Invalid, match="NUL"):
        saver.put(config_of("1"), odd, {}, {})
    assert list(saver.list(None)) == []


async def test_an_asynchronous_workspace_keeps_threads_and_files_too(project: Path, store: Path) -> None:
    """What is awaited goes by the workspace's loop; closing it waits for that."""
    config = config_of("1")
    async with lastgood.open_async(project, store=store, maintenance="off") as workspace:
        saver = LastgoodSaver(workspace, files=True)
        assert saver.workspace is workspace
        graph = writer(project, saver)
        await graph.ainvoke({"done": []}, config, durability="sync")
        (past,) = [one async for one in graph.aget_state_history(config) if one.next == ("second",)]
        assert (await saver.arestore_files(past.config)).complete
        assert files(project) == {"log.txt", "first.txt"}
        await workspace.undo()
        assert files(project) == {"log.txt", "first.txt", "second.txt", "third.txt"}
        done = not_none(saver.get_tuple(config)).checkpoint["channel_values"]["done"]
        assert done == ["first", "second", "third"]
        late = asyncio.ensure_future(saver.adelete_thread("1"))
        await asyncio.sleep(0)
    await late
    with lastgood.open(project, store=store, maintenance="off") as other:
        assert LastgoodSaver(other).get_tuple(config) is None


def test_versions_grow_whatever_saver_began(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(41, None) == 42
    theirs = f"{41:032}.{0.5:016}"
    assert saver.get_next_version(theirs, None) > theirs
