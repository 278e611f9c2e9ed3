"""The checkpoint-manager skill's class, over real projects."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import LastgoodError, Usage
from lastgood.integrations.checkpoint_manager import (
    CheckpointManager,
    ErrorRecoverer,
    handle_error,
    with_recovery,
)
from lastgood.model import long_list
from tools.command import Command
from tools.event_loops import PATIENCE, Loop
from tools.harm import lose
from tools.odd import NO_NUMBERS, NO_PATHS, NO_TEXTS, OTHER_NUMBERS, OTHERS, TEXTS
from tools.wreckage import picture


@pytest.fixture
def manager(project: Path, store: Path) -> CheckpointManager:
    """Return a manager of the project."""
    return CheckpointManager(project, store=store)


async def test_the_skills_quick_start_works(manager: CheckpointManager, project: Path) -> None:
    (project / "app.ts").write_text("one\n")

    checkpoint = await manager.create_checkpoint(
        name="before-refactor", description="State before major refactoring"
    )
    (project / "app.ts").write_text("two\n")
    (project / "temporary").write_text("left over\n")
    back = await manager.rollback(checkpoint.id)
    assert (back.restored, back.removed, back.success) == (("app.ts",), ("temporary",), True)
    (project / "app.ts").write_text("three\n")
    assert (await manager.rollback_to_latest()).checkpoint == checkpoint
    (project / "app.ts").write_text("four\n")
    assert (await manager.restore_checkpoint(checkpoint.id)).success
    assert (project / "app.ts").read_text() == "one\n"


def test_the_record_has_the_skills_shape(
    manager: CheckpointManager, project: Path, git: Callable[..., str]
) -> None:
    git(project, "init", "-q", "-b", "main")
    (project / "app.ts").write_text("one\n")
    git(project, "add", "app.ts")
    git(project, "commit", "-q", "-m", "one")
    (project / "app.ts").write_text("two\n")
    (project / "feature_list.json").write_text(
        json.dumps(
            [
                {"id": "auth-001", "passes": True},
                {"id": "auth-002", "status": "completed"},
                {"id": "auth-003", "status": "in_progress"},
                {"id": "auth-004", "passes": False},
            ]
        )
    )
    context = {"session_number": 5, "token_usage": 45000}
    made = asyncio.run(manager.create_checkpoint("before-refactor", "described", context=context))
    assert made.to_dict() == {
        "id": made.id,
        "name": "before-refactor",
        "description": "described",
        "timestamp": made.timestamp,
        "git_state": {
            "commit_hash": git(project, "rev-parse", "HEAD").strip(),
            "branch": "main",
            "dirty_files": ["app.ts", "feature_list.json"],
        },
        "feature_state": {
            "current": "auth-003",
            "completed": ["auth-001", "auth-002"],
            "snapshot_path": "feature_list.json",
        },
        "context": context,
        "type": "manual",
        "lastgood_id": made.lastgood_id,
    }
    assert re.fullmatch(r"checkpoint-\d{8}-\d{6}(-\d+)?", made.id)
    assert datetime.fromisoformat(made.timestamp).utcoffset() == timedelta(0)
    assert made.git_state.branch == made.git_state["branch"] == "main"
    assert json.loads(json.dumps(made.to_dict())) == made.to_dict()
    assert asyncio.run(manager.get_checkpoint(made.id)) == made


def test_work_that_was_never_committed_comes_back_and_git_stays(
    manager: CheckpointManager, project: Path, git: Callable[..., str]
) -> None:
    """T9: what a reset would destroy."""
    git(project, "init", "-q", "-b", "main")
    (project / "tracked").write_text("one\n")
    git(project, "add", "tracked")
    git(project, "commit", "-q", "-m", "one")
    (project / "tracked").write_text("never committed\n")
    (project / "untracked").write_text("never added\n")
    made = asyncio.run(manager.create_checkpoint("dirty"))
    before = picture(project)
    git(project, "commit", "-q", "-a", "-m", "two")
    head = git(project, "rev-parse", "HEAD")
    (project / "tracked").write_text("ruined\n")
    (project / "untracked").unlink()
    back = asyncio.run(manager.rollback(made.id))
    assert (project / "untracked").read_text() == "never added\n"
    assert {path: what for path, what in picture(project).items() if b".git" not in path} == {
        path: what for path, what in before.items() if b".git" not in path
    }
    assert git(project, "rev-parse", "HEAD") == head
    assert back.commits_since == 1
    asyncio.run(manager.undo())
    assert (project / "tracked").read_text() == "ruined\n"


@pytest.mark.parametrize("name", ["feature_list.json", "progress.md", "claude-progress.txt"])
def test_feature_list_and_progress_come_back_although_ignored(
    manager: CheckpointManager, project: Path, name: str
) -> None:
    """P2."""
    (project / ".gitignore").write_text("*.json\n*.txt\n*.md\n")
    (project / name).write_text('["then"]')
    made = asyncio.run(manager.create_checkpoint("then"))
    (project / name).write_text('["now"]')
    asyncio.run(manager.rollback(made.id))
    assert (project / name).read_text() == '["then"]'
    assert asyncio.run(manager.read(made.id, name)) == b'["then"]'


def test_types_are_kept_as_the_skill_says(manager: CheckpointManager, project: Path) -> None:
    """K1: automatic five, session three, manual and feature all."""

    async def main() -> dict[str, list[str]]:
        for number in range(7):
            for type in ("automatic", "manual", "feature", "session"):
                (project / "file").write_text(f"{number} {type}")
                await manager.create_checkpoint(f"{type}-{number}", type=type)
        every = await manager.list_checkpoints()
        return {
            type: [one.name.rpartition("-")[2] for one in every if one.type == type]
            for type in ("automatic", "manual", "feature", "session")
        }

    kept = asyncio.run(main())
    assert kept["automatic"] == ["6", "5", "4", "3", "2"]
    assert kept["session"] == ["6", "5", "4"]
    assert kept["manual"] == kept["feature"] == list("6543210")


def test_pruning_by_the_command_lines_policy_spares_manual_and_feature_ones(
    project: Path, store: Path, manager: CheckpointManager
) -> None:
    """K1."""

    async def main() -> None:
        for name in ("named", "no lastgood name: it has a colon", ""):
            await manager.create_checkpoint(name)
        await manager.create_checkpoint("done", type="feature")
        await manager.create_checkpoint("newest", type="session")

    asyncio.run(main())
    with lastgood.open(project, store=store) as workspace:
        workspace.prune(keep=1)
    assert len(asyncio.run(manager.list_checkpoints())) == 5


async def test_automatic_ones_are_let_go_without_a_trace_on_the_undo_stack(
    manager: CheckpointManager, project: Path
) -> None:
    """T8."""
    for number in range(6):
        (project / "file").write_text(str(number))
        made = await manager.create_checkpoint(type="auto")
    (project / "file").write_text("later")
    await manager.rollback(made.id)
    await manager.create_checkpoint(type="auto")
    await manager.undo()
    assert (project / "file").read_text() == "later"


async def test_ids_of_one_second_differ(manager: CheckpointManager) -> None:
    made = list(await asyncio.gather(*(manager.create_checkpoint(f"c{n}") for n in range(8))))
    assert len({one.id for one in made}) == 8


def test_checkpoints_are_found_by_the_command_lines_names_too(
    manager: CheckpointManager, project: Path, store: Path
) -> None:
    made = asyncio.run(manager.create_checkpoint("before-refactor"))
    with lastgood.open(project, store=store) as workspace:
        assert workspace.get("before-refactor").id == made.lastgood_id
        (project / "file").write_text("1")
        by_hand = workspace.save("by hand").checkpoint
    assert asyncio.run(manager.get_checkpoint(made.lastgood_id)) == made
    assert asyncio.run(manager.get_checkpoint("before-refactor")) == made
    foreign = asyncio.run(manager.get_checkpoint(by_hand.id))
    assert (foreign.id, foreign.description, foreign.type) == (by_hand.id, "by hand", "manual")
    (project / "file").unlink()
    assert asyncio.run(manager.rollback(by_hand.short_id)).restored == ("file",)


def test_the_session_number_is_counted_where_nobody_gives_it(manager: CheckpointManager) -> None:
    async def main() -> list[int]:
        types = ("manual", "session", "automatic", "session", "manual")
        return [(await manager.create_checkpoint(type=one)).context.session_number for one in types]

    assert asyncio.run(main()) == [1, 2, 2, 3, 3]


def test_a_checkpoint_is_validated_by_bringing_it_back_aside(
    manager: CheckpointManager, project: Path
) -> None:
    """K4."""
    (project / "file").write_text("1")
    made = asyncio.run(manager.create_checkpoint("whole"))
    assert asyncio.run(manager.validate_checkpoint(made.id)) is True


async def test_a_checkpoint_is_deleted_when_asked(manager: CheckpointManager) -> None:
    made = await manager.create_checkpoint("with: a colon")
    await manager.delete_checkpoint(made.id)
    assert await manager.list_checkpoints() == []
    with pytest.raises(lastgood.NotFound):
        await manager.rollback(made.id)


async def test_bad_input_is_refused_and_nothing_is_made(manager: CheckpointManager, tmp_path: Path) -> None:
    with pytest.raises(lastgood.NotFound):
        await manager.rollback_to_latest()
    with pytest.raises(lastgood.Usage):
        await manager.create_checkpoint("one", type="eternal")
    with pytest.raises(lastgood.Usage):
        await manager.create_checkpoint("one", context={"of": {1, 2}})
    with pytest.raises(lastgood.Usage):
        await manager.create_checkpoint("one", context={"of": float("nan")})
    for id in ("", "--all", "../../evil", "checkpoint-20200101-000000"):
        with pytest.raises(lastgood.LastgoodError):
            await manager.rollback(id)
    assert await manager.list_checkpoints() == []
    with pytest.raises(lastgood.NotFound):
        await CheckpointManager(tmp_path / "missing", store=tmp_path / "none").create_checkpoint()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", (None, [])),
        ("[", (None, [])),
        ("[[[]]]", (None, [])),
        ('{"features": [{"name": "one", "done": true}, {"title": "two"}]}', ("two", ["one"])),
        ('{"features": {"a": {"passes": true}, "b": {"passes": false}}}', ("b", ["a"])),
        ('[{"description": "first", "passes": true}, {"passes": false}]', ("2", ["1"])),
        ('{"features": 5}', (None, [])),
        (
            '{"current": "auth-003", "completed": ["auth-001", "auth-002"]}',
            ("auth-003", ["auth-001", "auth-002"]),
        ),
        ('{"current": null, "completed": ["one", {"id": "two"}, 3]}', (None, ["one", "two", "3"])),
        ('{"current": {"id": "one"}, "completed": 7}', ("one", [])),
        ('{"completed": []}', (None, [])),
    ],
)
def test_feature_lists_of_several_forms_are_read_and_garbage_harms_nothing(
    manager: CheckpointManager, project: Path, content: str, expected: tuple[str | None, list[str]]
) -> None:
    (project / "feature_list.json").write_text(content)
    state = asyncio.run(manager.create_checkpoint("read")).feature_state
    assert (state.current, state.completed) == expected


def test_an_id_of_the_skills_form_is_a_reference_of_every_verb(
    manager: CheckpointManager, project: Path, store: Path
) -> None:
    """S20: what the manager calls its checkpoint finds it, unless something else is called so."""
    lastgood_command = Command(project, store)
    (project / "app.ts").write_text("one\n")
    made = asyncio.run(manager.create_checkpoint("before-refactor"))
    (project / "app.ts").write_text("two\n")

    assert lastgood_command("show", made.id, "--json").json["checkpoint"]["id"] == made.lastgood_id
    assert lastgood_command("cat", made.id, "app.ts").out == "one\n"
    lastgood_command("restore", made.id, "--yes")
    assert (project / "app.ts").read_text() == "one\n"
    lastgood_command("show", "checkpoint-20200101-000000", expect=10)
    named = lastgood_command("save", "another", "--name", made.id, "--json").json["checkpoint"]["id"]
    assert lastgood_command("show", made.id, "--json").json["checkpoint"]["id"] == named


def test_without_a_feature_list_lastgoods_own_features_count(
    manager: CheckpointManager, project: Path, store: Path
) -> None:
    """P2."""
    with lastgood.open(project, store=store) as workspace:
        workspace.feature_start("login")
        workspace.feature_done("login")
        workspace.feature_start("logout")
    state = asyncio.run(manager.create_checkpoint("read")).feature_state
    assert dict(state) == {"current": "logout", "completed": ["login"], "snapshot_path": None}


@pytest.mark.damages
def test_a_checkpoint_of_something_else_is_of_use_though_its_features_cannot_be_read(
    manager: CheckpointManager, project: Path, store: Path
) -> None:
    """P8a, T11: they are needed for its record alone, which says null."""
    (project / "file").write_text("wanted")
    with lastgood.open(project, store=store) as workspace:
        for number in range(20):
            workspace.feature_start(f"F{number}")
            workspace.feature_done(f"F{number}")
        made = workspace.save("by hand", name="foreign", allow_empty=True).checkpoint
        workspace.feature_start("F0")
        workspace.feature_done("F0")
    (project / "file").write_text("edited")
    lose(store, f"{made.commit}:progress/completed/0000/00")
    long_list.forget()

    assert asyncio.run(manager.read("foreign", "file")) == b"wanted"
    assert asyncio.run(manager.get_checkpoint("foreign")).feature_state.completed is None
    back = asyncio.run(manager.rollback("foreign"))
    assert (back.restored, back.checkpoint.lastgood_id) == (("file",), made.id)
    asyncio.run(manager.delete_checkpoint("foreign"))


@pytest.mark.parametrize("name", ["asyncio", "trio"])
def test_it_works_under_either_event_loop(manager: CheckpointManager, project: Path, name: str) -> None:
    async def main() -> None:
        (project / "file").write_text("1")
        made = await manager.create_checkpoint("one", messages=[{"role": "user", "content": "hi"}])
        (project / "file").unlink()
        assert (await manager.rollback(made.id)).restored == ("file",)

    Loop(name).run(main)


@pytest.mark.parametrize("note", ["", "[", "[]", "{}", '{"id": 5}', "null"])
def test_records_that_are_garbage_hide_no_others(
    manager: CheckpointManager, project: Path, store: Path, note: str
) -> None:
    """K4."""
    made = asyncio.run(manager.create_checkpoint("whole"))
    with lastgood.open(project, store=store) as workspace:
        workspace.save("garbage", metadata={"checkpoint-manager": note}, allow_empty=True)
    assert asyncio.run(manager.list_checkpoints()) == [made]
    assert asyncio.run(manager.rollback_to_latest()).checkpoint == made


def test_a_pipe_in_place_of_the_feature_list_is_not_waited_for(
    manager: CheckpointManager, project: Path
) -> None:
    os.mkfifo(project / "feature_list.json")
    made = asyncio.run(asyncio.wait_for(manager.create_checkpoint("beside a pipe"), PATIENCE))
    assert made.feature_state == {"current": None, "completed": [], "snapshot_path": None}


async def test_odd_words_about_a_checkpoint_are_refused_before_one_is_made(
    manager: CheckpointManager,
) -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    odd: list[dict[str, Any]] = [
        {"name": 5},
        {"description": b"x"},
        {"type": ["manual"]},
        {"context": "abc"},
        {"context": {"deep": deep}},
    ]

    for words in odd:
        with pytest.raises(lastgood.Usage):
            await manager.create_checkpoint(**words)
    assert await manager.list_checkpoints() == []
    made = await manager.create_checkpoint(name=None, description=None)  # type: ignore[arg-type]
    assert (made.name, made.description) == ("", "")


# Words of the wrong kind are errors of ours for the manager and the recoverer, and undo nothing (K2).


NO_FLAGS: list[Any] = [None, 0, 1, float("nan"), *TEXTS[:4], *OTHERS]

NO_FUNCTIONS: list[Any] = [one for one in [*NO_TEXTS, *TEXTS] if one is not None and not callable(one)]

BROKEN = TimeoutError("slow")


@pytest.fixture
def filled(project: Path, store: Path) -> CheckpointManager:
    """Return a manager with two checkpoints, of a project that changed since."""
    made = CheckpointManager(project, store=store)

    async def main() -> None:
        for name in ("one", "two"):
            (project / "file").write_text(name)
            await made.create_checkpoint(name)

    asyncio.run(main())
    (project / "file").write_text("three")
    return made


def calls(filled: CheckpointManager) -> list[Callable[[Any], Coroutine[object, object, object]]]:
    return [
        filled.rollback,
        filled.restore_checkpoint,
        filled.get_checkpoint,
        filled.validate_checkpoint,
        filled.delete_checkpoint,
        lambda name: filled.read(name, "file"),
        lambda path: filled.read("one", path),
    ]


def test_nothing_but_a_name_or_an_id_names_a_checkpoint(filled: CheckpointManager, project: Path) -> None:
    """None is not the newest one: a program that lost its id deletes nothing."""

    async def main() -> None:
        before = await filled.list_checkpoints()
        for call in calls(filled):
            for word in [*NO_TEXTS, *TEXTS]:
                with pytest.raises(LastgoodError):
                    await call(word)
        for word in [*NO_TEXTS[1:], *TEXTS]:
            with pytest.raises(Usage):
                await filled.list_checkpoints(word)
        assert await filled.list_checkpoints() == before

    asyncio.run(main())
    assert (project / "file").read_text() == "three"


def test_what_counts_as_true_is_no_wish(filled: CheckpointManager, project: Path) -> None:
    """T17: HEAD is moved, and work overwritten, by True alone."""

    async def main() -> None:
        for word in NO_FLAGS:
            for call in (
                lambda: filled.rollback("one", git=word),  # noqa: B023 - called at once
                lambda: filled.rollback_to_latest(git=word),  # noqa: B023 - the same
                lambda: filled.restore_checkpoint("one", git=word),  # noqa: B023 - the same
                lambda: filled.undo(force=word),  # noqa: B023 - the same
                lambda: filled.undo(merge=word),  # noqa: B023 - the same
            ):
                with pytest.raises(Usage):
                    await call()

    asyncio.run(main())
    assert (project / "file").read_text() == "three"


def test_a_place_that_is_no_path_is_no_project_and_no_store(project: Path, store: Path) -> None:
    for word in [None, *NO_PATHS, b"", "", "\0", "\ud8ff"]:
        with pytest.raises(LastgoodError):
            CheckpointManager(word, store=store)
        with pytest.raises(LastgoodError):
            ErrorRecoverer(word, store=store)
        with pytest.raises(LastgoodError):
            with_recovery(project_dir=word, store=store)
        with pytest.raises(LastgoodError):
            asyncio.run(handle_error(BROKEN, project_dir=word, store=store))
        if word is not None:
            for parameter in ("store", "feature_list", "progress_file"):
                with pytest.raises(LastgoodError):
                    CheckpointManager(project, **{parameter: word})


@pytest.mark.parametrize("parameter", ["name", "description", "type", "context", "messages"])
def test_odd_words_about_a_checkpoint_make_none(filled: CheckpointManager, parameter: str) -> None:
    async def main() -> None:
        before = await filled.list_checkpoints()
        fine: dict[str, list[Any]] = {"name": [None], "description": [None], "context": [None, {}, {"a": 1}]}
        fine["messages"] = [None, [], ()]
        for word in NO_TEXTS:
            if not any(type(word) is type(one) and word == one for one in fine.get(parameter, [])):
                with pytest.raises(LastgoodError):
                    await filled.create_checkpoint(**{parameter: word})
        assert await filled.list_checkpoints() == before

    asyncio.run(main())


@pytest.mark.parametrize(
    ("parameter", "odd"),
    [
        ("retries", [*NO_NUMBERS, -1]),
        ("delay", [None, float("nan"), -1, True, *TEXTS, *OTHERS]),
        ("longest", [None, float("nan"), -1, True, *TEXTS, *OTHERS]),
        ("orders", [*OTHER_NUMBERS, *TEXTS, {"a": 1}, {"logic": "again"}, {"logic": 7}, 7]),
        ("fix", NO_FUNCTIONS),
    ],
)
def test_a_recoverer_is_made_of_what_it_can_use(
    project: Path, store: Path, parameter: str, odd: list[Any]
) -> None:
    for word in odd:
        with pytest.raises(Usage):
            ErrorRecoverer(project, store=store, **{parameter: word})


def test_a_slip_in_what_is_asked_for_ends_in_no_rollback(
    filled: CheckpointManager, project: Path, store: Path
) -> None:
    """T4: nothing is taken back for a wrong word."""
    assert filled.project_dir == str(project)
    recoverer = ErrorRecoverer(project, store=store, retries=0, delay=0)
    contexts: list[Any] = [
        *OTHER_NUMBERS,
        *[one for one in OTHERS if not hasattr(one, "__dict__") and not isinstance(one, dict)],
        object,
        print,
        *({"operation": word} for word in NO_FUNCTIONS),
        *({"fix": word} for word in NO_FUNCTIONS),
        *({"checkpoint": word} for word in NO_TEXTS if word is not None),
        *({"strategy": word} for word in [*NO_TEXTS[1:], *TEXTS] if word not in ([], ())),
    ]
    for context in contexts:
        with pytest.raises(Usage):
            recoverer.recover_now(ValueError("broken"), context)
        with pytest.raises(Usage):
            asyncio.run(recoverer.handle_error(ValueError("broken"), context))
    for error in [*NO_TEXTS, *TEXTS, KeyboardInterrupt(), ValueError]:
        with pytest.raises(Usage):
            recoverer.recover_now(error)
    for word in NO_FUNCTIONS:
        with pytest.raises(Usage):
            recoverer.with_recovery(word)
        with pytest.raises(Usage):
            recoverer.with_recovery(fix=word)
        if word not in ([], ()):
            with pytest.raises(Usage):
                recoverer.with_recovery(strategy=word)
    assert (project / "file").read_text() == "three"


def test_many_retries_do_not_overflow(project: Path, store: Path) -> None:
    recoverer = ErrorRecoverer(project, store=store, retries=1_100, delay=0, longest=float("inf"))
    tried = []

    def again() -> str:
        tried.append(1)
        if len(tried) < 1_090:
            raise BROKEN
        return "done"

    result = recoverer.recover_now(BROKEN, {"operation": again, "strategy": "backoff"})
    assert (result.recovered, result.value) == (True, "done")
