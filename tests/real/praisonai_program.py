"""A program of a user of PraisonAI's agents, with lastgood's service in place of the package's own."""

from __future__ import annotations

import asyncio
import json
import sys

from praisonaiagents import Agent
from praisonaiagents.approval import AutoApproveBackend, get_approval_registry
from praisonaiagents.escalation import EscalationPipeline, EscalationStage
from praisonaiagents.hooks import HookEvent, HookRegistry
from praisonaiagents.tools import write_file

from lastgood.integrations.praisonai import CheckpointEvent, CheckpointService


async def main(project: str, storage: str) -> None:
    """Have the agent edit files, and say what became of them."""
    told: list[str] = []
    service = CheckpointService(workspace_dir=project, storage_dir=storage)
    service.on(CheckpointEvent.CHECKPOINT_CREATED, lambda made: told.append(made.message))
    assert await service.initialize()
    hooks = HookRegistry()
    hooks.register_function(HookEvent.BEFORE_TOOL, service.before_tool)
    get_approval_registry().set_backend(AutoApproveBackend())
    agent = Agent(
        name="coder",
        instructions="You edit the files of a project.",
        llm="gpt-4o-mini",
        tools=[write_file],
        hooks=hooks,
    )
    pipeline = EscalationPipeline(agent=agent, checkpoint_service=service)
    answer = await pipeline.execute_at_stage("rewrite the prices", EscalationStage.AUTONOMOUS)
    print(json.dumps({"answer": str(answer.response), "success": answer.success, "told": told}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
