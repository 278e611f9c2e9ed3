"""The surface of `praisonaiagents.checkpoints`: what its code has, and what its guide names."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pickle
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import Usage
from lastgood.integrations.praisonai import (
    ChangedFiles,
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    CheckpointEvent,
    CheckpointResult,
    CheckpointService,
    FileDiff,
)
from lastgood.integrations.praisonai.service import PROTECTED_PATHS
from tools.listening import Heard, is_there, names_in
from tools.values import not_none

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_the_constructor_takes_the_originals_parameters_in_its_order() -> None:
    signature = inspect.signature(CheckpointService)
    expected = {
        "workspace_dir": inspect.Parameter.empty,
        "storage_dir": None,
        "enabled": True,
        "auto_checkpoint": True,
        "max_checkpoints": 100,
        "user_name": "PraisonAI Checkpoints",
        "user_email": "checkpoints@praison.ai",
        "max_file_size": 2097152,
    }
    positional = [one for one in signature.parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert {one.name: one.default for one in positional} == expected
    assert [one.name for one in positional] == list(expected)


CONFIG = (
    "workspace_dir storage_dir enabled auto_checkpoint max_checkpoints user_name user_email max_file_size"
)


@pytest.mark.parametrize(
    ("type", "names"),
    [
        (CheckpointConfig, f"{CONFIG} exclude_patterns"),
        (Checkpoint, "id short_id message timestamp files_changed insertions deletions step"),
        (FileDiff, "path absolute_path status additions deletions before_content after_content"),
        (CheckpointDiff, "from_checkpoint to_checkpoint files total_additions total_deletions"),
        (CheckpointResult, "success checkpoint error"),
    ],
)
def test_values_take_the_originals_fields_in_its_order(type: Any, names: str) -> None:
    assert [one.name for one in fields(type) if not one.kw_only] == names.split()


def test_what_needs_no_value_is_what_the_original_or_its_guide_leaves_out() -> None:
    needed = {
        type: [one.name for one in fields(type) if one.default is MISSING and one.default_factory is MISSING]
        for type in (CheckpointConfig, Checkpoint, FileDiff, CheckpointDiff, CheckpointResult)
    }
    assert list(needed.values()) == [
        [],
        ["id"],
        ["path", "absolute_path", "status"],
        ["from_checkpoint", "to_checkpoint"],
        ["success"],
    ]


def test_events_have_the_originals_names_and_values() -> None:
    assert {one.name: one.value for one in CheckpointEvent} == {
        "INITIALIZED": "initialized",
        "CHECKPOINT_CREATED": "checkpoint_created",
        "CHECKPOINT_RESTORED": "checkpoint_restored",
        "CHECKPOINTS_PRUNED": "checkpoints_pruned",
        "ERROR": "error",
        "DELETED": "checkpoint_deleted",  # the guide's, as are CREATED and RESTORED, names of two others
    }
    assert [CheckpointEvent.CREATED.name, CheckpointEvent.RESTORED.name] == [
        "CHECKPOINT_CREATED",
        "CHECKPOINT_RESTORED",
    ]
    assert str.__eq__(CheckpointEvent.ERROR, "error")


def test_the_default_configuration_is_the_originals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = CheckpointConfig("~/work")
    assert config.workspace_dir == f"{tmp_path}/work"
    assert config.storage_dir == f"{tmp_path}/.praisonai/checkpoints"
    assert config.exclude_patterns == [
        ".git",
        ".praisonai",
        "__pycache__",
        "*.pyc",
        ".env",
        "node_modules",
        ".venv",
        "venv",
        "*.log",
    ]
    assert CheckpointConfig("x").exclude_patterns is not CheckpointConfig("x").exclude_patterns


@pytest.mark.parametrize(
    ("environment", "folder", "expected"),
    [
        ({"PRAISONAI_HOME": "~/own"}, None, "own/checkpoints"),
        ({}, ".praison", ".praison/checkpoints"),
        ({"XDG_DATA_HOME": "/data"}, None, "/data/praisonai/checkpoints"),
        ({"XDG_DATA_HOME": "data"}, None, ".praisonai/checkpoints"),
    ],
)
def test_the_users_folder_is_found_as_the_original_finds_it(
    environment: dict[str, str],
    folder: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if folder is not None:
        (tmp_path / folder).mkdir()
    assert CheckpointConfig("x").storage_dir == os.path.join(tmp_path, expected)


def test_git_identities_come_from_the_environment_as_in_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRAISONAI_GIT_USER_NAME", "Ada")
    monkeypatch.setenv("PRAISONAI_GIT_USER_EMAIL", "ada@example.org")
    assert (CheckpointConfig("x").user_name, CheckpointConfig("x").user_email) == ("Ada", "ada@example.org")


def test_a_checkpoint_comes_from_a_git_commit() -> None:
    made = Checkpoint.from_git_commit("abcdef0123456789", "message", "2026-11-21T10:00:00Z")
    assert (made.id, made.short_id, made.message) == ("abcdef0123456789", "abcdef01", "message")
    assert made.timestamp == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert Checkpoint.from_git_commit("a", "m", NOW).timestamp is NOW


def test_a_checkpoint_as_a_dict_has_the_originals_keys_and_is_json() -> None:
    made = Checkpoint("id", "short", "message", NOW, ChangedFiles(["a", "b"]), 3, 4, 5)
    assert json.loads(json.dumps(made.to_dict())) == {
        "id": "id",
        "short_id": "short",
        "message": "message",
        "timestamp": "2026-11-21T00:00:00+00:00",
        "files_changed": 2,
        "insertions": 3,
        "deletions": 4,
        "step": 5,
    }
    assert Checkpoint("id", "short", "message", NOW).to_dict()["files_changed"] == 0


def test_changed_files_are_a_list_that_reads_as_its_length() -> None:
    files = ChangedFiles(["a", "b"])
    assert isinstance(files, list)
    assert list(files) == ["a", "b"]
    assert files == ["a", "b"]
    assert files == 2
    assert files != 3
    assert 1 < files <= 2
    assert files >= 2
    assert f"{files} files, {files:>3}" == "2 files,   2"
    assert "%d" % files == "2"  # noqa: UP031 - how older programs format
    assert int(files) == 2
    assert files + 1 == 3
    assert sum([files, files]) == 4
    assert [*files, "c"] == files + ["c"]  # noqa: RUF005 - the sum is what is tested
    assert not ChangedFiles()
    assert pickle.loads(pickle.dumps(files)) == ["a", "b"]


def test_totals_of_a_difference_are_counted_whatever_is_given() -> None:
    files = [FileDiff("a", "/a", "added", 2, 0), FileDiff("b", "/b", "deleted", 0, 3)]
    made = CheckpointDiff("from", None, files, 100, 100)
    assert (made.total_additions, made.total_deletions) == (2, 3)
    assert made.to_dict() == {
        "from_checkpoint": "from",
        "to_checkpoint": None,
        "files": [one.to_dict() for one in files],
        "total_additions": 2,
        "total_deletions": 3,
    }
    assert sorted(files[0].to_dict()) == ["absolute_path", "additions", "deletions", "path", "status"]


def test_a_difference_has_the_fields_of_the_guide() -> None:
    files = [FileDiff("a", "/a", "added"), FileDiff("m", "/m", "modified"), FileDiff("d", "/d", "deleted")]
    made = CheckpointDiff("from", "to", files)
    assert (made.from_id, made.to_id, made.diff_content) == ("from", "to", "")
    assert (made.added_files, made.modified_files, made.deleted_files) == (["a"], ["m"], ["d"])


def test_a_result_reads_as_the_id() -> None:
    made = Checkpoint("0123456789abcdef", "01234567", "message", NOW)
    result = CheckpointResult.ok(made)
    assert (str(result), result.id, f"{result}") == (made.id, made.id, made.id)
    assert result == made.id
    assert result == CheckpointResult(success=True, checkpoint=made)
    failed = CheckpointResult.fail("why")
    assert (failed.success, failed.checkpoint, failed.error, failed.id) == (False, None, "why", "")
    assert failed != ""


def test_the_package_exports_the_service_lazily() -> None:
    assert lastgood.CheckpointService is CheckpointService
    assert lastgood.CheckpointDiff is CheckpointDiff
    assert lastgood.CheckpointConfig is CheckpointConfig
    assert lastgood.CheckpointEvent is CheckpointEvent


async def test_nothing_goes_before_it_begins(service: CheckpointService, heard: Heard) -> None:
    assert service.is_initialized is False
    for result in (
        await service.save("early"),
        await service.restore("abcd"),
        await service.rewind(),
    ):
        assert (result.success, result.error) == (False, "Service not initialized")
    assert (await service.diff()).to_dict() == CheckpointDiff("", "").to_dict()
    assert await service.list_checkpoints() == []
    assert await service.list() == []
    assert await service.get_checkpoint("abcd") is None
    assert await service.get_checkpoint_by_step(1) is None
    assert await service.delete("abcd") is False
    assert heard.events == []


def test_texts_of_failures_are_the_originals(service: CheckpointService, project: Path) -> None:
    async def main() -> dict[str, str | None]:
        await service.initialize()
        (project / "a").write_text("1")
        return {
            "step": (await service.save("x", step=-1)).error,
            "both": (await service.restore("abcd", step=1)).error,
            "neither": (await service.restore()).error,
            "unknown step": (await service.restore(step=9)).error,
            "steps": (await service.rewind(0)).error,
            "far": (await service.rewind(7)).error,
            "unchanged": (await service.save("a") and await service.save("b")).error,
        }

    texts = asyncio.run(main())
    assert texts["step"] == "step must be a non-negative integer"
    assert texts["both"] == "Provide either checkpoint_id or step, not both"
    assert texts["neither"] == "No checkpoint id or step provided"
    assert texts["unknown step"] == "No checkpoint found for step 9"
    assert texts["steps"] == "steps must be >= 1"
    assert texts["far"] == "Cannot rewind 7 step(s): only 1 checkpoint(s) available"
    assert texts["unchanged"] == "No changes to checkpoint"


async def test_events_are_told_in_the_originals_order(
    service: CheckpointService, project: Path, heard: Heard
) -> None:
    service.config.max_checkpoints = 2
    await service.initialize()
    for number in range(3):
        (project / "a").write_text(str(number))
        await service.save(f"save {number}")
    (project / "a").write_text("unsaved")
    await service.restore("0123456789")
    await service.rewind(1)
    assert heard.names == [
        "initialized",
        "checkpoint_created",
        "checkpoint_created",
        "checkpoints_pruned",
        "checkpoint_created",
        "error",
        "checkpoints_pruned",
        "checkpoint_created",
        "checkpoint_restored",
    ]
    said = dict(heard.events)
    assert said["initialized"] == {"workspace": str(project)}
    assert said["checkpoints_pruned"] == {"action": "pruned", "removed_count": 1}
    assert said["checkpoint_created"].message == "[pre-restore] auto-save"
    assert said["checkpoint_restored"].message == "save 1"
    assert "0123456789" in said["error"]["error"]


def test_a_handler_is_registered_by_the_event_or_its_text(service: CheckpointService) -> None:
    service.on("error", print)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        service.on("unheard of", print)  # type: ignore[arg-type]


def test_coroutine_handlers_are_awaited_and_faulty_ones_harm_nothing(
    service: CheckpointService, project: Path
) -> None:
    told: list[str] = []

    async def later(said: Checkpoint) -> None:
        await asyncio.sleep(0)
        told.append(said.message)

    def faulty(said: Checkpoint) -> None:
        raise RuntimeError(said.message)

    async def main() -> CheckpointResult:
        service.on(CheckpointEvent.CHECKPOINT_CREATED, faulty)
        service.on(CheckpointEvent.CHECKPOINT_CREATED, later)
        await service.initialize()
        (project / "a").write_text("1")
        result = await service.save("told")
        assert told == ["told"]
        return result

    assert asyncio.run(main()).success


async def test_folders_are_where_the_original_has_them(
    service: CheckpointService, project: Path, storage: Path
) -> None:
    assert await service.initialize()
    assert os.path.dirname(service.checkpoint_dir) == str(storage)
    assert len(os.path.basename(service.checkpoint_dir)) == 12
    assert service.git_dir == f"{service.checkpoint_dir}/.git"
    assert is_there(service.git_dir)
    assert service.workspace_dir == str(project)
    assert await service.delete_all()
    assert not is_there(service.checkpoint_dir)
    assert service.is_initialized is False


def test_protected_and_missing_folders_and_a_disabled_service_do_not_begin(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S11."""

    async def begins(folder: str, *, enabled: bool = True) -> bool:
        service = CheckpointService(folder, str(storage), enabled)
        return await service.initialize() or service.is_initialized

    assert {"/", "/tmp", "/var", "/etc", os.path.expanduser("~root")} - set(PROTECTED_PATHS) <= {"/root"}
    for folder in ("/", "/tmp", "/var", "/etc", "~", str(tmp_path / "missing"), "/usr/lib"):
        assert asyncio.run(begins(folder)) is False
    assert asyncio.run(begins(str(tmp_path), enabled=False)) is False
    assert not storage.exists()


async def test_the_words_of_the_guide_work_as_it_shows_them(
    service: CheckpointService, project: Path
) -> None:
    await service.initialize()
    (project / "app.py").write_text("one\n")
    first = await service.save("Before refactoring")
    (project / "app.py").write_text("two\n")
    (project / "new.py").write_text("new\n")
    second = await service.save("After refactoring")
    names = [one.message for one in await service.list()]
    assert names == ["After refactoring", "Before refactoring", "Initial checkpoint"]
    assert (await service.get(second)) == second.checkpoint

    diff = await service.diff(first, second)
    assert (diff.from_id, diff.to_id) == (first.id, second.id)
    assert (diff.added_files, diff.modified_files, diff.deleted_files) == (["new.py"], ["app.py"], [])
    assert "+two" in diff.diff_content
    made = not_none(second.checkpoint)
    assert made.files_changed == ["app.py", "new.py"]
    assert (made.insertions, made.deletions) == (2, 1)

    assert (await service.restore(first)).success
    assert (project / "app.py").read_text() == "one\n"
    assert await service.delete(second.id)
    assert [one.message for one in await service.list()] == ["Before refactoring", "Initial checkpoint"]
    assert await service.delete(second.id) is False


def test_exclude_patterns_are_chosen_by_the_user(project: Path, storage: Path) -> None:
    """S5."""

    async def held(patterns: list[str] | None) -> set[str]:
        folder = str(storage / str(patterns is None))
        service = CheckpointService(str(project), folder, exclude_patterns=patterns)
        await service.initialize()
        saved = await service.save("all", allow_empty=True)
        for name in (".env", "a.log", "a.tmp"):
            (project / name).unlink()
        await service.restore(saved)
        await service.cleanup()
        return set(names_in(project))

    for patterns, expected in ((None, {"a.tmp"}), (["*.tmp"], {".env", "a.log"})):
        for name in (".env", "a.log", "a.tmp"):
            (project / name).write_text(name)
        assert asyncio.run(held(patterns)) == expected


# What only the guide of `praisonaiagents.checkpoints` shows, and what its programs may get wrong.


def test_a_configuration_of_the_guide_names_no_workspace_and_is_handed_over(project: Path) -> None:
    config = CheckpointConfig(auto_checkpoint=False, max_checkpoints=50, exclude_patterns=["*.tmp"])
    service = CheckpointService(workspace_dir=str(project), config=config)
    assert service.workspace_dir == str(project)
    assert service.config.root == str(project)
    assert (service.config.auto_checkpoint, service.config.max_checkpoints) == (False, 50)
    assert service.config.exclude_patterns == ["*.tmp"]
    assert CheckpointService(str(project), "elsewhere", config=config).storage_dir == "elsewhere"
    assert CheckpointService(str(project), config=config, exclude_patterns=["x"]).config.exclude_patterns == [
        "x"
    ]


def test_a_checkpoint_of_the_guide_has_no_short_id() -> None:
    files = ChangedFiles(["a", "b"])
    made = Checkpoint(id="abc1234567", message="by hand", timestamp=NOW, files_changed=files)
    assert (made.short_id, made.files_changed) == ("abc12345", ["a", "b"])


@pytest.mark.parametrize("patterns", ["*.log", b"*.log", 5, [None]])
def test_one_text_in_place_of_patterns_is_refused_lest_its_star_leave_everything_out(
    patterns: Any, project: Path
) -> None:
    with pytest.raises(Usage, match="exclude_patterns"):
        CheckpointService(str(project), exclude_patterns=patterns)
    with pytest.raises(Usage, match="exclude_patterns"):
        CheckpointConfig(str(project), exclude_patterns=patterns)


async def test_a_checkpoint_that_is_deleted_is_told_of(
    service: CheckpointService, project: Path, heard: Heard
) -> None:
    await service.initialize()
    (project / "a").write_text("1")
    made = await service.save("to be deleted")
    assert await service.delete(made) is True
    assert await service.delete(made) is False
    assert heard.names == ["initialized", "checkpoint_created", "checkpoint_deleted"]
    assert dict(heard.events)["checkpoint_deleted"].message == "to be deleted"


async def test_odd_numbers_are_answered_by_results(service: CheckpointService) -> None:
    await service.initialize()
    far = await service.rewind(10**30)
    assert not_none(far.error).startswith("Cannot rewind 1000000")
    assert (await service.save("x", step=True)).error == "step must be a non-negative integer"
    odd = await service.save("x", messages=5)  # type: ignore[arg-type]
    assert odd.error == "the messages are no list (give a list of dicts)"
