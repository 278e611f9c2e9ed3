"""A client of the server in a project with one checkpoint, in each era of the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp_types import CallToolResult, ElicitResult, ErrorData, ListRootsResult, Root
from pydantic import FileUrl

import lastgood
from lastgood.mcp_server.server import Server
from lastgood.workspace import open_as
from lastgood.workspace.api import Workspace

Talk = Callable[[Client], Awaitable[Any]]
ERAS = ["legacy", "2026-07-28"]


class Served:
    """A server, its project, and a person who answers each question in the same way.

    The client says that it has some folders ``open``; None: it says nothing of that.
    """

    def __init__(self, project: Path, store: Path, *, era: str, bound: bool = False) -> None:
        self.project = project
        self.asked: list[str] = []
        self.open: list[Path] | None = None
        self.fails_to_tell = False
        self.is_mute = False
        self.asked_for_roots = 0
        self._era = era
        self.server = Server(
            lambda purpose, folder: open_as(
                Workspace,
                folder or str(project),
                store=str(store),
                maintenance="off",
                purpose=purpose,
                passing=True,
            ),
            started=str(project),
            bound=bound,
        )

    def thinks(self) -> None:
        """Take the time that a person takes; what happens meanwhile is for a test to say."""

    def talk(self, talk: Talk, *, answer: ElicitResult | None = None) -> Any:
        """Connect and talk; without an answer the client cannot ask anybody."""

        async def answering(context: Any, params: Any) -> ElicitResult:
            self.asked.append(params.message)
            assert answer is not None
            self.thinks()
            return answer

        async def telling(context: Any) -> ListRootsResult | ErrorData:
            self.asked_for_roots += 1
            if self.is_mute:
                await asyncio.Event().wait()
            if self.fails_to_tell:
                return ErrorData(code=-32603, message="no roots after all")
            return ListRootsResult(roots=[Root(uri=FileUrl(one.as_uri())) for one in self.open or ()])

        async def main() -> Any:
            async with Client(
                self.server,
                mode=self._era,
                elicitation_callback=None if answer is None else answering,
                list_roots_callback=None if self.open is None else telling,
            ) as client:
                return await talk(client)

        return asyncio.run(main())

    def call(self, tool: str, *, answer: ElicitResult | None = None, **words: Any) -> CallToolResult:
        """Call one tool in a connection of its own."""
        return self.talk(lambda client: client.call_tool(tool, words), answer=answer)  # type: ignore[no-any-return]

    def done(self, tool: str, *, answer: ElicitResult | None = None, **words: Any) -> dict[str, Any]:
        """Return the document of a tool that did its work."""
        result = self.call(tool, answer=answer, **words)
        assert not result.is_error, result.content
        assert result.structured_content == json.loads(result.content[0].text)  # type: ignore[union-attr]
        return result.structured_content or {}

    def refused(self, tool: str, *, answer: ElicitResult | None = None, **words: Any) -> dict[str, Any]:
        """Return the error that a tool answered."""
        result = self.call(tool, answer=answer, **words)
        assert result.is_error, result.content
        assert result.structured_content is None
        said = json.loads(result.content[0].text)  # type: ignore[union-attr]
        assert said["schema"] == "lastgood.error/1"
        return said["error"]  # type: ignore[no-any-return]


@pytest.fixture(autouse=True, scope="module")
def each_schema_is_proven_once() -> Iterator[None]:
    """Spare the client to prove the schemas of the tools, which stay the same, for each connection anew."""
    proven: set[str] = set()
    prove = Draft202012Validator.check_schema

    def once(schema: Any) -> None:
        known = json.dumps(schema, sort_keys=True)
        if known not in proven:
            prove(schema)
            proven.add(known)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", staticmethod(once))
        yield


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """Return an era of the protocol: with a handshake, or without."""
    era: str = request.param
    return era


@pytest.fixture
def served(project: Path, store: Path, era: str) -> Served:
    """Return a server, in each era, for a project that was saved once, and changed since."""
    return saved_once(project, store, era=era)


@pytest.fixture
def modern(project: Path, store: Path) -> Served:
    """Return the same in one era, for what does not depend on that."""
    return saved_once(project, store, era=ERAS[-1])


def saved_once(project: Path, store: Path, *, era: str) -> Served:
    (project / "notes.txt").write_text("good\n")
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("before", name="first")
    (project / "notes.txt").write_text("ruined\n")
    (project / "new.txt").write_text("new\n")
    return Served(project, store, era=era)
