"""Whatever graph is run: its history over our saver is what LangGraph's own saver in memory tells."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.func import task as langgraph_task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from lastgood.integrations.langgraph import LastgoodSaver
from lastgood.workspace import Workspace

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


Saver = LastgoodSaver | InMemorySaver

CONFIG: RunnableConfig = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    """A sum, a last value, and a channel that is kept by its changes."""

    done: Annotated[list[str], operator.add]
    last: str
    many: Annotated[
        list[int], DeltaChannel(lambda old, new: [*(old or []), *(x for one in new for x in one)])
    ]


def fan_out(saver: Saver) -> Any:
    builder = StateGraph(State)
    builder.add_node("work", lambda state: {"done": [state["last"]]})
    builder.add_node("join", lambda state: {"last": "+".join(sorted(state["done"]))})
    builder.add_conditional_edges(
        START, lambda _: [Send("work", {"last": f"part {n}"}) for n in range(5)], ["work"]
    )
    builder.add_edge("work", "join")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"done": []}, CONFIG)
    graph.invoke({"done": ["again"]}, CONFIG)
    return graph


def delta(saver: Saver) -> Any:
    builder = StateGraph(State)
    builder.add_node("count", lambda state: {"many": [len(state.get("many") or [])], "done": ["x"]})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: END if len(state["many"]) > 230 else "count")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"many": []}, {**CONFIG, "recursion_limit": 1000})
    return graph


def asking(saver: Saver) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", lambda _state: {"last": interrupt({"question": "who?"})})
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"done": ["begun"]}, CONFIG)
    graph.invoke(Command(resume={"name": "Ada"}), CONFIG)
    return graph


def failing(saver: Saver) -> Any:
    def fail(state: State) -> dict[str, Any]:
        raise ValueError("on purpose")

    builder = StateGraph(State)
    builder.add_node("good", lambda _state: {"done": ["good"]})
    builder.add_node("bad", fail)
    builder.add_edge(START, "good")
    builder.add_edge("good", "bad")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="on purpose"):
        graph.invoke({"done": []}, CONFIG)
    return graph


def nested(saver: Saver) -> Any:
    inner = StateGraph(State)
    inner.add_node("deep", lambda state: {"done": ["deep"], "last": interrupt(f"{len(state['done'])}")})
    inner.add_edge(START, "deep")
    builder = StateGraph(State)
    builder.add_node("inner", inner.compile(checkpointer=True))
    builder.add_edge(START, "inner")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"done": ["outer"]}, CONFIG)
    graph.invoke(Command(resume="answered"), CONFIG)
    return graph


def talking(saver: Saver) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda state: {"messages": [AIMessage("ok", id=f"{len(state['messages'])}")]})
    builder.add_edge(START, "say")
    graph = builder.compile(checkpointer=saver)
    for number in range(5):
        said = HumanMessage(f"hello {number}", id=f"u{number}")
        graph.invoke({"messages": [said]}, CONFIG)
    past = list(graph.get_state_history(CONFIG))[4]
    graph.update_state(past.config, {"messages": [AIMessage("otherwise", id="fork")]})
    return graph


def functional(saver: Saver) -> Any:
    @langgraph_task
    def double(number: int) -> int:
        return 2 * number

    @entrypoint(checkpointer=saver)
    def flow(number: int, *, previous: list[int] | None = None) -> list[int]:
        return [*(previous or []), double(number).result()]

    for number in range(4):
        flow.invoke(number, CONFIG)
    return flow


@pytest.mark.parametrize("scenario", [fan_out, delta, asking, failing, nested, talking, functional])
def test_a_graphs_history_is_what_the_saver_in_memory_tells(
    scenario: Callable[[Saver], Any], workspace: Workspace
) -> None:
    told = [story(scenario(saver)) for saver in (InMemorySaver(), LastgoodSaver(workspace))]
    assert told[1] == told[0]
    assert len(told[0]) > 1


def story(graph: Any) -> Sequence[object]:
    return [
        (
            one.values,
            one.next,
            (one.metadata["source"], one.metadata["step"]),
            sorted(repr((t.name, t.error, [i.value for i in t.interrupts], t.result)) for t in one.tasks),
            one.parent_config is None,
        )
        for one in graph.get_state_history(CONFIG)
    ]


def test_pruning_keeps_what_delta_channels_are_made_of(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    graph = delta(saver)
    before = graph.get_state(CONFIG).values
    steps = len(list(saver.list(CONFIG)))
    saver.prune(["1"])
    assert len(list(saver.list(CONFIG))) < steps - 100
    assert graph.get_state(CONFIG).values == before
    assert workspace.verify().faults == ()


def test_a_copied_thread_goes_on_by_itself(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    graph = delta(saver)
    saver.copy_thread("1", "2")
    other: RunnableConfig = {"configurable": {"thread_id": "2"}}
    assert graph.get_state(other).values == graph.get_state(CONFIG).values
    graph.update_state(other, {"done": ["elsewhere"]})
    assert graph.get_state(other).values["done"][-1] == "elsewhere"
    assert graph.get_state(CONFIG).values["done"][-1] == "x"
