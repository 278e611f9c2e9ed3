"""Words of the wrong kind are errors of ours for saver and session store, and remove nothing (K2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from lastgood.errors import LastgoodError, Usage
from lastgood.integrations.claude_agent_sdk import LastgoodSessionStore
from lastgood.integrations.langgraph import LastgoodSaver
from lastgood.workspace import Workspace
from tools.odd import NO_NUMBERS, NO_TEXTS, OTHER_NUMBERS, OTHERS, TEXTS

# A thread may be named by a number, as by the text of it.
NO_IDS: list[Any] = [None, *OTHER_NUMBERS, *OTHERS]
THREADS = ["7", "a", "None", "True", "b'7'", "3.5"]


def config_of(**named: object) -> Any:
    return {"configurable": {"checkpoint_ns": "", **named}}


@pytest.fixture
def saver(workspace: Workspace) -> LastgoodSaver:
    """Return a saver with threads whose names other values have as a text."""
    made = LastgoodSaver(workspace)
    for thread in THREADS:
        metadata: Any = {"source": "input", "step": 0, "run_id": thread}
        made.put(config_of(thread_id=thread), empty_checkpoint(), metadata, {})
    return made


def test_nothing_but_an_id_names_a_thread(saver: LastgoodSaver) -> None:
    odd: Any = saver
    for word in NO_IDS:
        for call in (
            odd.delete_thread,
            lambda one: odd.copy_thread(one, "new"),
            lambda one: odd.copy_thread("a", one),
            lambda one: odd.prune([one]),
            lambda one: odd.prune([one], strategy="delete"),
            lambda one: odd.delete_for_runs([one]),
            lambda one: odd.get_tuple(config_of(thread_id=one)),
            lambda one: odd.put(config_of(thread_id=one), empty_checkpoint(), {}, {}),
            lambda one: odd.files_of(config_of(thread_id=one)),
        ):
            with pytest.raises(LastgoodError):
                call(word)
    assert len(list(saver.list(None))) == len(THREADS)


def test_one_text_is_not_several_of_a_letter_each(saver: LastgoodSaver) -> None:
    odd: Any = saver
    for word in [*NO_TEXTS, *TEXTS]:
        if word not in ([], (), ["a"], {1}):
            for call in (odd.prune, odd.delete_for_runs, lambda one: odd.prune(one, strategy="delete")):
                with pytest.raises(LastgoodError):
                    call(word)
            with pytest.raises(LastgoodError):
                odd.prune(["a"], strategy=word)
    assert len(list(saver.list(None))) == len(THREADS)


def test_a_configuration_is_a_dict_with_ids(saver: LastgoodSaver) -> None:
    odd: Any = saver
    for word in [*NO_TEXTS, *TEXTS]:
        for config in (word, {"configurable": word}):
            for call in (odd.get_tuple, odd.files_of, odd.restore_files):
                with pytest.raises(LastgoodError):
                    call(config)
    for word in NO_IDS[1:]:
        for name in ("checkpoint_ns", "checkpoint_id"):
            with pytest.raises(LastgoodError):
                odd.get_tuple(config_of(thread_id="a", **{name: word}))
    assert len(list(saver.list(config_of(thread_id=7)))) == 1


def test_questions_are_asked_with_what_can_answer_them(saver: LastgoodSaver) -> None:
    odd: Any = saver
    for word in [*NO_NUMBERS[1:], -1]:
        with pytest.raises(Usage):
            list(odd.list(None, limit=word))
    for word in [*NO_TEXTS[1:], *TEXTS]:
        if not isinstance(word, dict):
            with pytest.raises(Usage):
                list(odd.list(None, filter=word))
            with pytest.raises(Usage):
                list(odd.list(None, before=word))


def test_what_is_no_checkpoint_is_not_kept(saver: LastgoodSaver) -> None:
    odd: Any = saver
    here = config_of(thread_id="new")
    for word in [*NO_TEXTS, *TEXTS]:
        if not isinstance(word, dict):
            with pytest.raises(LastgoodError):
                odd.put(here, word, {}, {})
            with pytest.raises(LastgoodError):
                odd.put(here, empty_checkpoint(), word, {})
    for word in NO_IDS:
        with pytest.raises(LastgoodError):
            odd.put(here, {**empty_checkpoint(), "id": word}, {}, {})
        with pytest.raises(LastgoodError):
            odd.put_writes(config_of(thread_id="a", checkpoint_id="1"), [("c", 1)], word)
    assert list(saver.list(here)) == []


@pytest.mark.parametrize("make", [LastgoodSaver, LastgoodSessionStore])
def test_a_door_opens_on_a_workspace_alone(workspace: Workspace, make: Callable[..., object]) -> None:
    for word in [*NO_TEXTS, *TEXTS]:
        with pytest.raises(Usage, match="the workspace is"):
            make(word)
    for word in [*NO_TEXTS, *TEXTS]:
        if not isinstance(word, bool):
            with pytest.raises(Usage, match="files is"):
                make(workspace, files=word)
    for word in NO_TEXTS:
        with pytest.raises(Usage, match="the kind is"):
            make(workspace, kind=word)


async def test_nothing_but_its_key_names_a_session(workspace: Workspace) -> None:
    """A slip in the name of a transcript does not remove the session."""
    odd: Any = LastgoodSessionStore(workspace, files=False)
    key = {"project_key": "p", "session_id": "s"}

    await odd.append(key, [{"type": "user", "uuid": "1"}])
    await odd.append({**key, "subpath": "sub"}, [{"type": "user", "uuid": "2"}])
    keys: list[Any] = [*NO_TEXTS, *TEXTS, {}]
    keys += [{**key, name: word} for name in key for word in NO_TEXTS]
    keys += [{**key, "subpath": word} for word in NO_TEXTS[1:]]
    for word in keys:
        for call in (odd.load, odd.delete, lambda one: odd.append(one, [{"type": "user"}])):
            with pytest.raises(LastgoodError):
                await call(word)
        if not (isinstance(word, dict) and "subpath" in word):
            with pytest.raises(LastgoodError):
                await odd.list_subkeys(word)
    with pytest.raises(Usage):
        await odd.delete({**key, "subpath": ""})
    for word in NO_TEXTS:
        with pytest.raises(LastgoodError):
            await odd.list_sessions(word)
        with pytest.raises(LastgoodError):
            await odd.list_session_summaries(word)
        with pytest.raises(LastgoodError):
            await odd.files_of(word)
    assert await odd.load(key) == [{"type": "user", "uuid": "1"}]
    assert await odd.list_subkeys(key) == ["sub"]


async def test_lines_are_a_list_of_dicts(workspace: Workspace) -> None:
    odd: Any = LastgoodSessionStore(workspace, files=False)
    key = {"project_key": "p", "session_id": "s"}

    for word in [*NO_TEXTS, *TEXTS]:
        if word:  # nothing is nothing
            with pytest.raises(LastgoodError):
                await odd.append(key, word)
    assert await odd.load(key) is None
