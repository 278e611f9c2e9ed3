"""LangGraph: threads kept in lastgood's store, and the files of the same moments with them.

>>> from langgraph.graph import START, StateGraph
>>> from lastgood.integrations.langgraph import LastgoodSaver
>>> builder = StateGraph(dict).add_node("greet", lambda state: {"said": "hello"}).add_edge(START, "greet")
>>> with lastgood.open(project, store=store) as workspace:
...     graph = builder.compile(checkpointer=LastgoodSaver(workspace, files=True))
...     graph.invoke({"said": ""}, {"configurable": {"thread_id": "1"}}, durability="sync")
{'said': 'hello'}

Needs the package ``langgraph-checkpoint`` (``lastgood[langgraph]``).
"""

from lastgood.integrations import missing

try:
    from lastgood.integrations.langgraph.saver import LastgoodSaver
except ModuleNotFoundError as _error:
    raise missing(_error, extra="langgraph") from _error

__all__ = ["LastgoodSaver"]
