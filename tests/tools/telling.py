"""A conversation of an agent's host, told of in the test's own process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lastgood.hooks.event import HookEvent
from lastgood.hooks.respond import Reply, respond
from lastgood.workspace import Workspace


class Host:
    """A conversation of a host in the test's process."""

    def __init__(
        self, workspace: Workspace, project: Path, *, name: str = "one", host: str = "claude-code"
    ) -> None:
        self.host = host
        self.workspace = workspace
        self.transcript = project.parent / f"{name}.jsonl"
        self.folder = str(project)
        self.name = name

    def tells(self, kind: str, **fields: Any) -> Reply:
        event = HookEvent(
            host=self.host,
            kind=kind,  # type: ignore[arg-type]
            session=self.name,
            folder=self.folder,
            transcript=str(self.transcript),
            **fields,
        )
        return respond(self.workspace, event, session=None)

    def asked(self, prompt: str) -> Reply:
        return self.tells("prompt", text=prompt)

    def used(self, tool: str, call: str | None, **fields: Any) -> Reply:
        return self.tells("tool-end", tool=tool, call=call, **fields)
