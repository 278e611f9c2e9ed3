"""States of a graph, put into a saver as a graph does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver


def put(saver: BaseCheckpointSaver[Any], values: dict[str, Any], config: RunnableConfig) -> RunnableConfig:
    """Keep a state whose channels hold some values, and return its configuration."""
    checkpoint = create_checkpoint(empty_checkpoint(), None, 1)
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = dict.fromkeys(values, 1)
    return saver.put(config, checkpoint, {"step": 1}, checkpoint["channel_versions"])
