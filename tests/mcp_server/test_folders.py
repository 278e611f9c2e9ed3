"""Which folder a call is about, where a client has others open than the server was started for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

import lastgood
from mcp_server.conftest import Served, saved_once

YES = ElicitResult(action="accept", content={"go_ahead": True})


@pytest.fixture
def other(tmp_path: Path, store: Path) -> Path:
    """Return another folder, saved and changed since."""
    other = tmp_path / "the other"
    other.mkdir()
    saved_once(other, store, era="legacy")
    return other


def notes(folder: Path) -> str:
    return (folder / "notes.txt").read_text()


def test_the_only_folder_that_a_client_has_open_is_meant(served: Served, other: Path) -> None:
    """An editor may start a server anywhere, and tells what is open."""
    served.open = [other]

    served.done("restore", ref="first", confirm=True)

    assert notes(other) == "good\n"
    assert notes(served.project) == "ruined\n"


def test_of_several_folders_none_is_taken_unnamed(served: Served, other: Path) -> None:
    """What another folder's agent did is not to be taken back."""
    served.open = [served.project, other]

    calls: dict[str, dict[str, Any]] = {
        "restore": {"ref": "first", "confirm": True},
        "undo": {"confirm": True},
        "list": {},
    }
    for tool, words in calls.items():
        error = served.refused(tool, **words)
        assert error["code"] == "usage"
        assert str(served.project) in error["message"]
        assert str(other) in error["message"]
        assert "workspace=" in error["hint"]
    assert notes(other) == notes(served.project) == "ruined\n"


@pytest.mark.parametrize("by", ["path", "name", "another spelling"])
def test_one_of_several_is_named(served: Served, other: Path, by: str) -> None:
    served.open = [served.project, other]
    named = {"path": str(other), "name": other.name, "another spelling": f"{other.parent}/./{other.name}/"}

    served.done("restore", ref="first", confirm=True, workspace=named[by])
    assert notes(other) == "good\n"
    served.done("undo", confirm=True, workspace=named[by])
    assert notes(other) == "ruined\n"
    assert notes(served.project) == "ruined\n"


def test_folders_of_one_name_are_told_apart_by_their_paths(
    served: Served, tmp_path: Path, store: Path
) -> None:
    alike = tmp_path / "beside" / served.project.name
    alike.mkdir(parents=True)
    saved_once(alike, store, era="legacy")
    served.open = [served.project, alike]

    assert served.refused("list", workspace=alike.name)["code"] == "usage"
    assert served.done("list", workspace=str(alike))["checkpoints"]


@pytest.mark.parametrize("outside", ["/etc", "..", "", "nowhere"])
def test_no_other_folder_is_reached_by_its_name(served: Served, other: Path, outside: str) -> None:
    """T12: what a client has not open is none of a tool's business."""
    served.open = [served.project, other]
    assert served.refused("save", workspace=outside)["code"] == "usage"


def test_where_a_client_tells_nothing_no_other_folder_is_reached(served: Served, other: Path) -> None:
    """T12."""
    assert served.refused("save", workspace=str(other))["code"] == "usage"
    assert served.done("list", workspace=str(served.project))["checkpoints"]


def test_a_server_that_was_given_a_folder_keeps_to_it(
    project: Path, store: Path, era: str, other: Path
) -> None:
    """`lastgood -C DIR mcp`."""
    saved_once(project, store, era=era)
    served = Served(project, store, era=era, bound=True)
    served.open = [other]

    served.done("restore", ref="first", confirm=True)

    assert notes(project) == "good\n"
    assert notes(other) == "ruined\n"


def test_a_plan_is_carried_out_in_the_folder_that_it_was_made_for(served: Served, other: Path) -> None:
    """T1."""
    served.open = [served.project, other]
    plan = served.done("plan_restore", ref="first", workspace="the other")["plan"]

    served.done("restore", plan=plan)

    assert notes(other) == "good\n"
    assert notes(served.project) == "ruined\n"


def test_a_plan_for_a_folder_that_is_open_no_more_is_refused(served: Served, other: Path) -> None:
    served.open = [served.project]
    plan = served.done("plan_restore", ref="first")["plan"]
    served.open = [other]

    error = served.refused("restore", plan=plan)

    assert "not open here any more" in error["message"]
    assert notes(served.project) == "ruined\n"


def test_a_plan_is_refused_where_another_folder_is_named_beside_it(served: Served, other: Path) -> None:
    served.open = [served.project, other]
    plan = served.done("plan_restore", ref="first", workspace=str(served.project))["plan"]

    error = served.refused("restore", plan=plan, workspace=str(other))

    assert str(served.project) in error["message"]
    assert notes(served.project) == notes(other) == "ruined\n"


def test_a_question_names_the_folder(served: Served, other: Path) -> None:
    """T1."""
    served.open = [served.project, other]
    words: dict[str, Any] = {"workspace": "the other", "answer": YES}
    served.done("restore", ref="first", **words)
    served.done("undo", **words)
    served.done("recover", ref="first", roll_back=True, **words)

    assert len(served.asked) == 3
    assert all(str(other) in question for question in served.asked)


def test_a_client_that_does_not_tell_after_all_gets_the_folder_of_the_server(
    project: Path, store: Path
) -> None:
    served = saved_once(project, store, era="legacy")
    served.open = []
    assert served.done("list")["checkpoints"]
    served.fails_to_tell = True
    assert served.done("list")["checkpoints"]


def test_a_client_that_does_not_answer_is_not_asked_at_each_call(project: Path, store: Path) -> None:
    served = saved_once(project, store, era="legacy")
    served.open, served.is_mute = [], True
    served.server.folders.patience = 0.01

    async def talk(client: Client) -> Any:
        return [await client.call_tool("status", {}) for _ in range(4)]

    assert not any(one.is_error for one in served.talk(talk))
    assert served.asked_for_roots == 2


def test_a_client_that_answers_late_once_is_asked_again(project: Path, store: Path, other: Path) -> None:
    """That call alone does without."""
    served = saved_once(project, store, era="legacy")
    served.open, served.is_mute = [other], True
    served.server.folders.patience = 0.01

    async def talk(client: Client) -> Any:
        await client.call_tool("status", {})
        served.is_mute, served.server.folders.patience = False, 60.0
        return await client.call_tool("restore", {"ref": "first", "confirm": True})

    assert not served.talk(talk).is_error
    assert notes(other) == "good\n"
    assert notes(project) == "ruined\n"


def test_a_client_that_tells_no_more_means_what_it_told_last(project: Path, store: Path, other: Path) -> None:
    """T1: a slow answer is no reason to take another folder."""
    served = saved_once(project, store, era="legacy")
    served.open = [project, other]
    assert served.refused("list")["code"] == "usage"
    served.fails_to_tell = True
    assert served.refused("restore", ref="first", confirm=True)["code"] == "usage"
    assert notes(project) == "ruined\n"


def test_checkpoints_of_every_open_folder_are_resources(served: Served, other: Path) -> None:
    served.open = [served.project, other]

    async def talk(client: Client) -> Any:
        await client.call_tool("status", {"workspace": "the other"})
        listed = (await client.list_resources()).resources
        read = [await client.read_resource(f"{one.uri}/notes.txt") for one in listed]
        with pytest.raises(MCPError, match="several folders"):
            await client.read_resource("checkpoint://first")
        with pytest.raises(MCPError, match="several folders"):  # the other's may begin alike
            await client.read_resource(str(listed[0].uri)[:-4])
        return [one.contents[0].text for one in read]  # type: ignore[union-attr]

    assert served.talk(talk) == ["good\n", "good\n"]


def test_the_session_of_each_folder_is_its_own(served: Served, other: Path, store: Path) -> None:
    served.open = [served.project, other]
    served.done("save", message="mine", workspace="the other")

    with lastgood.open(other, store=store, maintenance="off") as workspace:
        assert workspace.get("@").message == "mine"
    assert [one["message"] for one in served.done("list", workspace=str(served.project))["checkpoints"]] == [
        "before"
    ]
