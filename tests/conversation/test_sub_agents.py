"""What sub-agents said is kept with their parent's conversation, and comes back with it (P5, T11)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import lastgood
from conversation.transcripts import append, captured
from lastgood.conversation.reader import agent_name, beside
from lastgood.errors import Conflict
from lastgood.workspace import Workspace
from tools.values import not_none

# What Claude Code 2.1.329, Codex 0.169.0 and Gemini CLI 0.61.0 wrote down of a turn with one sub-agent.
RECORDED = Path(__file__).parent / "recorded/sub-agents"
# Which of it is the parent's transcript, and a line that goes on with it.
PARENTS = {
    "claude-code": ("claude/projects/*/*.jsonl", b'{"type":"mode","sessionId":"x"}\n'),
    "codex": ("codex/sessions/*/*/*/*688f71c.jsonl", b'{"type":"event_msg","payload":{}}\n'),
    "gemini-cli": ("gemini/tmp/*/chats/*.jsonl", b'{"$set":{}}\n'),
}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture(params=list(PARENTS))
def host(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def home(host: str, tmp_path: Path) -> Path:
    """Return a home in which a host wrote something down."""
    for folder in (RECORDED / host).iterdir():
        shutil.copytree(folder, tmp_path / "home" / f".{folder.name}")
    return tmp_path / "home"


@pytest.fixture
def parent(host: str, home: Path) -> Path:
    (found,) = home.glob(f".{PARENTS[host][0]}")
    return found


def files(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def shape(path: Path) -> str:
    return UUID.sub("ID", str(path))


def test_a_sub_agents_transcript_comes_back_where_its_host_looks_for_that_of_the_copy(
    host: str, workspace: Workspace, home: Path, parent: Path
) -> None:
    """T11: the same but for ids, in a like place; undo takes all of it away again."""
    before = files(home)
    kept = captured(workspace, parent).checkpoint
    append(parent, PARENTS[host][1])
    went_on = files(home)

    workspace.restore(kept.id, only=["conversation"])

    after = files(home)
    made = {path: content for path, content in after.items() if path not in before}
    assert {path: after[path] for path in before} == went_on
    places = {shape(path).replace(parent.stem[-8:], "") for path in before}
    assert {re.sub(r"-[0-9a-f]{8}(?=\.jsonl)", "-", shape(path)) for path in made} == places
    held = {UUID.sub("ID", content.decode()).rstrip() for content in before.values()}
    assert {UUID.sub("ID", content.decode()).rstrip() for content in made.values()} == held
    workspace.undo()
    assert files(home) == went_on
    assert sorted(home.rglob("*")) == sorted(
        {one for path in before for one in (path, *path.parents)} & set(home.rglob("*"))
    )


@pytest.mark.parametrize("host", ["codex"], indirect=True)
def test_an_agent_knows_the_sub_agents_of_its_copy(
    home: Path, workspace: Workspace, host: str, parent: Path
) -> None:
    """T11: where ids are the same everywhere; else a sub-agent's counts within its parent's folder."""
    old = {path.stem[-36:] for path in files(home)}
    kept = captured(workspace, parent).checkpoint
    append(parent, PARENTS[host][1])
    told = not_none(workspace.restore(kept.id, only=["conversation"]).conversation)
    copy = Path(str(told["transcript"]))
    (agent,) = {path for path in files(home) if path.stem[-36:] not in old} - {copy}
    assert f'"parent_thread_id":"{copy.stem[-36:]}"' in agent.read_text()
    assert f'{{\\"agent_id\\":\\"{agent.stem[-36:]}\\"' in copy.read_text()
    assert not any(one in text.read_text() for one in old for text in (copy, agent))


@pytest.mark.parametrize("host", ["claude-code"], indirect=True)
def test_what_a_sub_agent_says_meanwhile_is_kept_at_the_next_save(
    workspace: Workspace, home: Path, parent: Path
) -> None:
    """P5, S10: up to its last whole line."""
    (agent,) = (path for path in files(home) if path != parent and path.suffix == ".jsonl")
    first = captured(workspace, parent).checkpoint
    assert not captured(workspace, parent).created
    append(agent, b'{"more":1}\n{"half')
    second = captured(workspace, parent).checkpoint
    assert second.id != first.id
    append(parent, b"{}\n")
    workspace.restore(second.id, only=["conversation"])
    ends = [path for path, content in files(home).items() if content.endswith(b'{"more":1}\n')]
    assert len(ends) == 1


@pytest.mark.parametrize("host", ["claude-code"], indirect=True)
def test_what_a_sub_agent_said_leaves_without_secrets(
    workspace: Workspace, home: Path, parent: Path, tmp_path: Path
) -> None:
    """S17: as the conversation does, and comes in whole elsewhere."""
    secret = "AKIA" + "QWERTYUIOPASDF23"
    (agent,) = (path for path in files(home) if path != parent and path.suffix == ".jsonl")
    append(agent, json.dumps({"type": "user", "message": {"content": f"use {secret}"}}).encode() + b"\n")
    kept = captured(workspace, parent).checkpoint
    workspace.export(tmp_path / "kept.tar")
    (tmp_path / "elsewhere").mkdir()
    with lastgood.open(tmp_path / "elsewhere", store=tmp_path / "other") as there:
        there.import_file(tmp_path / "kept.tar")
        assert there.verify(deep=True).ok
        held, engine = not_none(there.get(kept.id).conversation), there._context.engine
        found = {
            name: b"".join(map(engine.read_blob, oids)) for name, oids in beside(engine, held.tree).items()
        }
    assert sorted(found) == sorted(f"agent.{path.name}" for path in agent.parent.iterdir())
    assert b"redacted" in found[f"agent.{agent.name}"]
    assert secret.encode() not in b"".join(found.values())


@pytest.mark.parametrize("host", ["gemini-cli"], indirect=True)
def test_a_copy_whose_sub_agent_went_on_stays_whole(
    workspace: Workspace, home: Path, host: str, parent: Path
) -> None:
    """T11: undo takes all of it away, or nothing."""
    before = set(files(home))
    kept = captured(workspace, parent).checkpoint
    append(parent, PARENTS[host][1])
    workspace.restore(kept.id, only=["conversation"])
    made = set(files(home)) - before
    (agent,) = (path for path in made if path.parent.name != "chats")
    append(agent, b"{}\n")
    (part,) = (one for one in workspace.undo().parts if one.scope == "conversation")
    assert part.result == "kept"
    assert set(files(home)) == before | made


@pytest.mark.parametrize("host", ["claude-code"], indirect=True)
def test_a_very_long_line_of_a_sub_agent_is_kept_once_it_has_its_end(
    workspace: Workspace, home: Path, parent: Path
) -> None:
    """P5: it spans pieces that are read, and segments that are stored."""
    (agent,) = (path for path in files(home) if path != parent and path.suffix == ".jsonl")
    line = b'{"more":"' + b"0123456789" * 250_000 + b'"}\n'
    append(agent, line + b"half" * 300_000)
    kept = captured(workspace, parent).checkpoint
    append(parent, b"{}\n")
    before = set(files(home))
    workspace.restore(kept.id, only=["conversation"])
    (copy,) = (path for path in set(files(home)) - before if path.name == agent.name)
    assert copy.read_bytes().endswith(b"\n" + line)


@pytest.mark.parametrize("host", ["claude-code", "gemini-cli"], indirect=True)
def test_a_link_in_the_place_of_a_copys_folder_leads_nothing_out(
    workspace: Workspace, host: str, parent: Path, tmp_path: Path
) -> None:
    """T12: put there before, another id is taken; put there meanwhile, nothing is written."""
    kept = captured(workspace, parent).checkpoint
    append(parent, PARENTS[host][1])
    outside = tmp_path / "outside"
    outside.mkdir()
    for _ in range(2):
        plan = workspace.plan_restore(kept.id, only=["conversation"])
        (parent.parent / str(plan.parts[0].after["session"])).symlink_to(outside)
        with pytest.raises(Conflict):
            workspace.apply(plan)
    workspace.restore(kept.id, only=["conversation"])
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "x" * 201])
def test_a_name_that_leads_out_of_a_folder_is_no_sub_agents(name: str) -> None:
    """An import may bring any."""
    assert agent_name(name) is None
