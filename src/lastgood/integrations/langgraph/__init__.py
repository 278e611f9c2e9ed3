"""LangGraph: threads kept in lastgood's store, and the files of the same moments with them.

>>> from lastgood.integrations.langgraph import LastgoodSaver
>>> with lastgood.open(project, store=store) as workspace:
...     graph = builder.compile(checkpointer=LastgoodSaver(workspace, files=True))
...     graph.invoke({"messages": [("user", "hello")]}, {"configurable": {"thread_id": "1"}})

Needs the package ``langgraph-checkpoint`` (``lastgood[langgraph]``).
"""

from lastgood.integrations.langgraph.saver import LastgoodSaver

__all__ = ["LastgoodSaver"]
