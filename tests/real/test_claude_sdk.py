"""The real agent program, driven by its SDK over our session store: conversation and files together."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SessionKey,
    get_session_messages_from_store,
    project_key_for_directory,
    query,
)

import lastgood
from lastgood.integrations.claude_agent_sdk import LastgoodSessionStore
from real.hosts import Host
from tools.command import Command, started
from tools.living import descendants, eventually, eventually_gone
from tools.scripted_model import ScriptedModel
from tools.values import not_none

pytestmark = pytest.mark.real


@pytest.mark.chance("what a real agent program does, and when")
def test_one_call_goes_back_to_before_a_prompt_and_a_checkpoint_is_resumed_by_hand(
    tmp_path: Path, project: Path, store: Path
) -> None:
    """T11: its label quotes the prompt."""
    home = tmp_path / "home"
    home.mkdir()

    def script(said: str) -> tuple[str, dict[str, Any]] | None:
        for word in ("one", "two"):
            if f"write {word}" in said:
                return "Bash", {"command": f"echo {word} >> notes.txt; echo {word} > {word}.txt"}
        return None

    with (
        ScriptedModel(script) as model,
        lastgood.open(project, store=store, maintenance="off") as workspace,
    ):
        host = Host("claude-code", home=home, project=project, model=model.url)
        sessions = LastgoodSessionStore(workspace)

        async def say(text: str, *, resume: str | None = None) -> str:
            options = ClaudeAgentOptions(
                cwd=project,
                cli_path=host.program,
                env={**host.environment, "CLAUDE_CONFIG_DIR": str(home / ".claude")},
                permission_mode="bypassPermissions",
                resume=resume,
            )
            session = ""
            async for message in query(prompt=text, options=sessions.attached(options)):
                if isinstance(message, ResultMessage):
                    session = message.session_id
            return session

        async def talk() -> None:
            session = await say("write one")
            assert (project / "notes.txt").read_text() == "one\n"
            again = await say("write two", resume=session)
            assert (project / "notes.txt").read_text() == "one\ntwo\n"
            said = await get_session_messages_from_store(sessions, again, directory=str(project))
            prompts = {str(one.message["content"]): one.uuid for one in said if one.type == "user"}
            (first,) = (uuid for text, uuid in prompts.items() if "write one" in text)
            (second,) = (uuid for text, uuid in prompts.items() if "write two" in text)

            rewound = await sessions.rewind(again, message=second)
            assert rewound.prompt == "write two"
            assert set(os.listdir(project)) == {"notes.txt", "one.txt"}
            assert (project / "notes.txt").read_text() == "one\n"
            model.asked.clear()
            await say("go on", resume=rewound.session_id)
            asked = [one for one in model.asked if "go on" in one]
            assert asked
            assert all("write one" in one and "write two" not in one for one in asked)

            await sessions.restore_files(session, message=first)
            assert os.listdir(project) == []
            workspace.undo()
            assert (project / "notes.txt").read_text() == "one\n"

        asyncio.run(talk())
        assert "before: write two" in {one.message for one in workspace.list()}
        # Of a session that it resumes the SDK keeps the transcript in a folder that it takes away again.
        held = ((one.id, one.conversation) for one in workspace.list() if one.conversation)
        kept = next(id for id, said in held if Path(os.fsdecode(said.source or b"")).is_relative_to(home))
        told = not_none(workspace.restore(kept, only=["conversation"]).conversation)
        model.asked.clear()
        host.say("by hand", resume=str(told["resume_command"]).split()[-1])
        asked = [one for one in model.asked if "by hand" in one]
        assert asked
        assert all("write one" in one and "write two" not in one for one in asked)

        # What is in there comes back all the same, to where the program looks for it now.
        held = ((one.id, one.conversation) for one in workspace.list() if one.conversation)
        gone = (id for id, said in held if not os.path.exists(said.source or b""))
        resumed = next(id for id in gone if "write two" in str(list(workspace.conversation(id))))
        command = Command(project, store)
        command.environment["CLAUDE_CONFIG_DIR"] = str(home / ".claude")
        back = command("restore", resumed, "--only", "conversation", "--yes", "--json").json["conversation"]
        assert Path(back["transcript"]).is_relative_to(home)
        model.asked.clear()
        host.say("by hand again", resume=back["resume_command"].split()[-1])
        asked = [one for one in model.asked if "by hand again" in one]
        assert asked
        assert all("write one" in one and "write two" in one for one in asked)


PROGRAM = """
import asyncio, json, sys
import lastgood
from claude_agent_sdk import ClaudeAgentOptions, query
from lastgood.integrations.claude_agent_sdk import LastgoodSessionStore

project, store, program, environment = sys.argv[1:]

async def main():
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        options = ClaudeAgentOptions(
            cwd=project, cli_path=program, env=json.loads(environment), permission_mode="bypassPermissions"
        )
        options = LastgoodSessionStore(workspace).attached(options)
        async for message in query(prompt="write one", options=options):
            pass

asyncio.run(main())
"""


@pytest.mark.chance("what a real agent program does, and when")
def test_a_turn_that_is_killed_is_in_the_store_as_far_as_it_went(
    tmp_path: Path, project: Path, store: Path
) -> None:
    """P5, P7c."""
    home = tmp_path / "home"
    home.mkdir()
    with ScriptedModel(
        lambda said: "echo one > one.txt; sleep 600" if "write one" in said else None
    ) as model:
        host = Host("claude-code", home=home, project=project, model=model.url)
        environment = json.dumps({**host.environment, "CLAUDE_CONFIG_DIR": str(home / ".claude")})
        process = started(PROGRAM, project, store, host.program, environment)
        try:
            assert eventually((project / "one.txt").exists)
            with lastgood.open(project, store=store, maintenance="off") as workspace:
                sessions = LastgoodSessionStore(workspace)
                assert eventually(lambda: "echo one" in kept(sessions))
        finally:
            left = descendants(process.pid)
            process.kill()
            process.communicate()
            for pid in left:  # they would work on for minutes, in the folders of this test
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert all(eventually_gone(pid) for pid in left)
        with lastgood.open(project, store=store, maintenance="off") as workspace:
            said = kept(LastgoodSessionStore(workspace))
        assert "write one" in said
        assert "echo one" in said


def kept(sessions: LastgoodSessionStore) -> str:
    """Return all lines of all sessions of the workspace's project."""

    async def found() -> list[Any]:
        key = project_key_for_directory(sessions.workspace.path)
        listed = await sessions.list_sessions(key)
        loaded = [{"project_key": key, "session_id": one["session_id"]} for one in listed]
        return [await sessions.load(cast("SessionKey", one)) for one in loaded]

    return json.dumps(asyncio.run(found()))
