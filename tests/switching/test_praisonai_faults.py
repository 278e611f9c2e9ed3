"""Faults that PraisonAI's own checkpoints were shown to have, one test each, named after the fault."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood
from faults.disks import tmpfs
from lastgood.integrations.praisonai import CheckpointResult, CheckpointService
from tools.alike import AlikeClock
from tools.command import started
from tools.listening import Heard
from tools.values import not_none
from tools.wreckage import picture


def run(work: Coroutine[object, object, CheckpointResult]) -> CheckpointResult:
    result = asyncio.run(work)
    assert result.success, result.error
    return result


def begun(service: CheckpointService) -> CheckpointService:
    assert asyncio.run(service.initialize())
    return service


def messages(service: CheckpointService) -> list[str]:
    return [one.message for one in asyncio.run(service.list_checkpoints())]


def test_a_large_file_is_stored_and_comes_back(service: CheckpointService, project: Path) -> None:
    """S7."""
    begun(service)
    (project / "big").write_bytes(b"1" * 1_000_000)
    small = run(service.save("small"))
    (project / "big").write_bytes(b"3" * 3_000_000)
    large = run(service.save("large"))
    run(service.restore(small))
    assert (project / "big").stat().st_size == 1_000_000
    run(service.restore(large))
    assert (project / "big").read_bytes() == b"3" * 3_000_000


def test_a_file_over_a_limit_that_was_set_is_told_and_never_taken_for_deleted(
    project: Path, storage: Path
) -> None:
    """S7, T2, T4."""
    service = begun(CheckpointService(str(project), str(storage), max_file_size=1000))
    (project / "big").write_text("small")
    small = run(service.save("small"))
    (project / "big").write_text("x" * 2000)
    (project / "other").write_text("1")
    large = run(service.save("large"))
    assert not_none(large.checkpoint).metadata["gaps"] == [
        {"path": "big", "reason": "too-large", "size": 2000}
    ]
    run(service.restore(small))
    assert (project / "big").read_text() == "small"
    run(service.restore(large))
    assert (project / "big").exists()
    with lastgood.open(project, store=service.store) as workspace:
        workspace.undo()
        workspace.undo(force=True)
        assert (project / "big").read_text() == "x" * 2000


def test_what_the_projects_own_ignore_rules_leave_out_is_never_lost(
    service: CheckpointService, project: Path
) -> None:
    """T2: a restore that has to overwrite an ignored file keeps a copy of it."""
    begun(service)
    (project / "secret.cfg").write_text("captured\n")
    before = run(service.save("before"))
    (project / ".gitignore").write_text("/new.cfg\nbuild/\n")
    (project / "new.cfg").write_text("ignored\n")
    (project / "build").mkdir()
    (project / "build" / "out.o").write_text("built\n")
    run(service.save("ignoring"))
    (project / "secret.cfg").write_text("overwritten\n")
    run(service.restore(before))
    assert (project / "secret.cfg").read_text() == "captured\n"
    assert (project / "new.cfg").read_text() == "ignored\n"
    assert (project / "build" / "out.o").read_text() == "built\n"


def test_the_users_global_excludes_have_no_effect(
    service: CheckpointService, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5."""
    excludes = tmp_path / "excludes"
    excludes.write_text("*.md\n")
    config = tmp_path / "gitconfig"
    config.write_text(f"[core]\nexcludesFile = {excludes}\nautocrlf = true\n[commit]\ngpgsign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (project / "README.md").write_bytes(b"one\r\ntwo\n")
    begun(service)
    before = run(service.save("before"))
    (project / "README.md").unlink()
    run(service.restore(before))
    assert (project / "README.md").read_bytes() == b"one\r\ntwo\n"


def test_an_ignored_file_under_a_folder_that_becomes_a_file_can_be_had_back(
    service: CheckpointService, project: Path
) -> None:
    """T2, T4, T8."""
    begun(service)
    (project / "thing").write_text("a file\n")
    before = run(service.save("before"))
    (project / "thing").unlink()
    (project / "thing").mkdir()
    (project / "thing" / "run.log").write_text("ignored\n")
    (project / "thing" / "kept").write_text("captured\n")
    asyncio.run(service.restore(before))
    with lastgood.open(project, store=service.store) as workspace:
        if not (project / "thing").is_dir():
            workspace.undo(force=True)
    assert (project / "thing" / "run.log").read_text() == "ignored\n"


def test_nested_repositories_with_and_without_a_commit_are_plain_files(
    service: CheckpointService, project: Path, git: Callable[..., str]
) -> None:
    """S4."""
    for name in ("with", "without"):
        (project / name).mkdir()
        git(project / name, "init", "-q")
        (project / name / "file").write_text("one\n")
    git(project / "with", "add", "file")
    git(project / "with", "commit", "-q", "-m", "one")
    begun(service)
    before = run(service.save("before"))
    for name in ("with", "without"):
        (project / name / "file").write_text("clobbered\n")
    run(service.save("clobbered"))
    run(service.restore(before))
    for name in ("with", "without"):
        assert (project / name / "file").read_text() == "one\n"
        assert (project / name / ".git").is_dir()


def test_later_checkpoints_stay_after_a_restore(service: CheckpointService, project: Path) -> None:
    """T15."""
    begun(service)
    for number in (1, 2, 3):
        (project / "file").write_text(str(number))
        run(service.save(f"edit {number}", step=number))
    run(service.restore(step=1))
    assert messages(service)[:3] == ["[step-3] edit 3", "[step-2] edit 2", "[step-1] edit 1"]
    run(service.restore(step=3))
    assert (project / "file").read_text() == "3"


def test_nothing_depends_on_the_projects_own_objects(
    service: CheckpointService, project: Path, git: Callable[..., str]
) -> None:
    git(project, "init", "-q")
    (project / "file").write_text("one\n")
    git(project, "add", "file")
    git(project, "commit", "-q", "-m", "one")
    begun(service)
    before = run(service.save("before"))
    subprocess.run(["rm", "-rf", ".git"], cwd=project, check=True)
    (project / "file").write_text("two\n")
    run(service.save("after"))
    run(service.restore(before))
    assert (project / "file").read_text() == "one\n"


def test_modes_links_empty_folders_and_odd_names_come_back(service: CheckpointService, project: Path) -> None:
    """S3, T3."""
    (project / "key").write_text("private\n")
    (project / "key").chmod(0o600)
    (project / "fixed").write_text("read only\n")
    (project / "fixed").chmod(0o444)
    (project / "empty").mkdir()
    (project / "link").symlink_to("nowhere")
    (project / '-rf é\n\t"name"').write_bytes(bytes(range(256)))
    before = picture(project)
    begun(service)
    saved = run(service.save("before"))
    for path in (project / "key", project / "fixed"):
        path.chmod(0o644)
    subprocess.run(["rm", "-rf", "empty", "link", "--", '-rf é\n\t"name"'], cwd=project, check=True)
    run(service.restore(saved))
    assert picture(project) == before


def test_statuses_are_true(service: CheckpointService, project: Path) -> None:
    for name in ("grows", "shrinks", "goes", "moves", "mode"):
        (project / name).write_text(f"{name}\nsecond line of {name}\n")
    (project / "binary").write_bytes(b"\0binary")
    begun(service)
    before = run(service.save("before"))
    (project / "grows").write_text("grows\nsecond line of grows\nthird\n")
    (project / "shrinks").write_text("shrinks\n")
    (project / "goes").unlink()
    (project / "moves").rename(project / "môved\there")
    (project / "mode").chmod(0o755)
    (project / "binary").unlink()
    (project / "new and empty").touch()
    diff = asyncio.run(service.diff(before))
    assert {one.path: (one.status, one.additions, one.deletions) for one in diff.files} == {
        "grows": ("modified", 1, 0),
        "shrinks": ("modified", 0, 1),
        "goes": ("deleted", 0, 2),
        "moves": ("deleted", 0, 2),
        "môved\there": ("added", 2, 0),
        "mode": ("modified", 0, 0),
        "binary": ("deleted", 0, 0),
        "new and empty": ("added", 0, 0),
    }
    found = {one.path: one for one in diff.files}
    assert all(os.path.exists(one.absolute_path) for one in diff.files if one.status != "deleted")
    assert found["grows"].before_content == "grows\nsecond line of grows\n"
    assert found["grows"].after_content == "grows\nsecond line of grows\nthird\n"
    assert found["goes"].after_content is None
    assert found["binary"].before_content is None
    assert diff.to_checkpoint is None


def test_the_patch_of_a_difference_can_be_applied(service: CheckpointService, project: Path) -> None:
    (project / "file").write_text("one\ntwo\n")
    begun(service)
    before = run(service.save("before"))
    (project / "file").write_text("one\n2\n")
    (project / "latin").write_bytes(b"caf\xe9\n")
    after = run(service.save("after"))
    diff = asyncio.run(service.diff(before, after))
    run(service.restore(before))
    patch = diff.diff_content.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "-"], cwd=project, input=patch, check=True)
    assert (project / "file").read_text() == "one\n2\n"
    assert (project / "latin").read_bytes() == b"caf\xe9\n"


def test_a_bad_id_is_no_silent_empty_difference(service: CheckpointService) -> None:
    begun(service)
    diff = asyncio.run(service.diff("0123456789"))
    assert diff.files == []
    assert "0123456789" in (diff.error or "")


@pytest.mark.parametrize("message", ["a | b", "first\nsecond", "", "[step-7] not tagged", "%H é \x1b[31m"])
def test_messages_of_any_text_are_kept(service: CheckpointService, project: Path, message: str) -> None:
    begun(service)
    (project / "file").write_text("1")
    saved = run(service.save(message))
    found = asyncio.run(service.list_checkpoints())
    assert [one.message for one in found] == [message, "Initial checkpoint"]
    assert found[0] == saved.checkpoint
    assert found[0].step is None
    assert asyncio.run(service.get_checkpoint_by_step(7)) is None


def test_checkpoints_of_another_process_are_found(service: CheckpointService, project: Path) -> None:
    begun(service)
    (project / "file").write_text("1")
    program = (
        "import asyncio, sys\n"
        "from lastgood.integrations.praisonai import CheckpointService\n"
        "async def main():\n"
        "    service = CheckpointService(sys.argv[1], sys.argv[2])\n"
        "    assert await service.initialize()\n"
        "    print((await service.save('elsewhere', step=4)).id)\n"
        "asyncio.run(main())\n"
    )
    with started(program, project, service.storage_dir) as other:
        id = not_none(other.stdout).read().strip()
    assert other.returncode == 0
    found = not_none(asyncio.run(service.get_checkpoint(id[:6])))
    assert (found.message, found.step) == ("[step-4] elsewhere", 4)
    assert found == asyncio.run(service.get_checkpoint_by_step(4))
    assert found == asyncio.run(service.get_checkpoint(found.short_id))
    again = begun(CheckpointService(str(project), service.storage_dir))
    assert asyncio.run(again.get_checkpoint(id)) == found


def test_an_empty_id_names_nothing(service: CheckpointService) -> None:
    begun(service)
    assert asyncio.run(service.get_checkpoint("")) is None
    assert asyncio.run(service.restore("")).success is False


def test_an_id_that_fits_several_names_none(service: CheckpointService, project: Path) -> None:
    begun(service)
    with lastgood.open(project, store=service.store, maintenance="off", clock=AlikeClock()) as workspace:
        ids = [workspace.save(allow_empty=True).checkpoint.id for _ in range(2)]
    for few in ("abcd", "ckpt_abcdab"):
        assert asyncio.run(service.get_checkpoint(few)) is None
        assert asyncio.run(service.delete(few)) is False
        assert "fits 2 checkpoints" in str(asyncio.run(service.restore(few)).error)
    assert [asyncio.run(service.get_checkpoint(id)) is None for id in ids] == [False, False]


@pytest.mark.parametrize("id", ["ffffffffffff", "--quiet", "HEAD", "../../etc", "a\0b", "@{u}", "x" * 5000])
def test_a_restore_of_what_is_not_there_changes_nothing(
    service: CheckpointService, project: Path, heard: Heard, id: str
) -> None:
    begun(service)
    (project / "file").write_text("unsaved")
    result = asyncio.run(service.restore(id))
    assert result.success is False
    assert messages(service) == ["Initial checkpoint"]
    assert heard.names == ["initialized", "error"]
    assert (project / "file").read_text() == "unsaved"


def test_the_number_to_keep_bounds_what_is_kept(project: Path, storage: Path) -> None:
    """K1."""
    service = begun(CheckpointService(str(project), str(storage), max_checkpoints=3))

    async def many() -> list[str]:
        for number in range(20):
            (project / "file").write_text(str(number))
            await service.save(f"save {number}", step=number if number % 2 else None)
        return [one.message for one in await service.list_checkpoints()]

    kept = asyncio.run(many())
    assert kept[0] == "[step-19] save 19"
    assert kept[-1] == "Initial checkpoint"
    assert len(kept) <= 7


def test_two_services_of_one_workspace_do_not_hinder_each_other(project: Path, storage: Path) -> None:
    """S16."""

    async def main() -> list[bool]:
        services = [CheckpointService(str(project), str(storage)) for _ in range(2)]
        assert all([await one.initialize() for one in services])
        (project / "file").write_text("1")
        results = await asyncio.gather(
            *(one.save(f"save {number}", allow_empty=True) for one in services for number in range(4))
        )
        assert len(await services[0].list()) == 9
        return [one.success for one in results]

    assert asyncio.run(main()) == [True] * 8


def test_of_two_saves_at_once_one_finds_nothing_changed(service: CheckpointService, project: Path) -> None:
    async def main() -> list[str | None]:
        await service.initialize()
        (project / "file").write_text("1")
        results = await asyncio.gather(service.save("one"), service.save("two"))
        return [one.error for one in results]

    assert sorted(asyncio.run(main()), key=str) == ["No changes to checkpoint", None]


def test_a_stale_lock_file_of_git_does_no_harm(
    service: CheckpointService, project: Path, git: Callable[..., str]
) -> None:
    git(project, "init", "-q")
    (project / ".git" / "index.lock").touch()
    begun(service)
    (project / "file").write_text("1")
    before = run(service.save("one"))
    (project / "file").write_text("2")
    run(service.restore(before))


def test_one_workspace_has_one_store_however_it_is_spelled(
    project: Path, storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S19."""
    (tmp_path / "link").symlink_to(project)
    monkeypatch.chdir(project.parent)
    spellings = [f"{project}", f"{project}/", f"{project}/.", "project", "./project", f"{tmp_path}/link"]
    folders = {CheckpointService(one, str(storage)).checkpoint_dir for one in spellings}
    assert len(folders) == 1


def test_a_relative_workspace_stays_where_it_was(
    project: Path, storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "file").write_text("first")
    service = begun(CheckpointService(".", str(storage)))
    saved = run(service.save("first"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("other")
    monkeypatch.chdir(other)
    second = begun(CheckpointService(".", str(storage)))
    assert second.checkpoint_dir != service.checkpoint_dir
    assert asyncio.run(second.restore(saved)).success is False
    (project / "file").write_text("changed")
    run(service.restore(saved))
    assert (project / "file").read_text() == "first"
    assert (other / "file").read_text() == "other"


def test_the_store_is_private(service: CheckpointService) -> None:
    """S18."""
    begun(service)
    assert os.stat(service.store).st_mode & 0o777 == 0o700


def test_a_folder_of_checkpoints_inside_the_workspace_is_not_captured(project: Path) -> None:
    service = begun(CheckpointService(str(project), str(project / "kept")))
    (project / "file").write_text("1")
    saved = run(service.save("one"))
    assert not_none(saved.checkpoint).files_changed == ["file"]
    assert asyncio.run(service.save("two")).error == "No changes to checkpoint"
    (project / "file").write_text("2")
    run(service.restore(saved))
    assert messages(service)[-2:] == ["one", "Initial checkpoint"]


def test_a_repository_of_praisonais_own_is_left_alone(
    service: CheckpointService, project: Path, git: Callable[..., str]
) -> None:
    theirs = os.path.join(service.checkpoint_dir, ".git")
    os.makedirs(service.checkpoint_dir)
    git(project.parent, "init", "-q", "--bare", theirs)
    before = picture(project.parent / "storage")
    begun(service)
    (project / "file").write_text("1")
    run(service.save("one"))
    again = begun(CheckpointService(str(project), service.storage_dir))
    assert messages(again) == ["one", "Initial checkpoint"]
    assert asyncio.run(service.delete_all())
    assert picture(project.parent / "storage") == before


async def test_words_of_the_wrong_kind_are_failures_and_no_exceptions(service: CheckpointService) -> None:
    await service.initialize()
    odd: Any = 7
    none: Any = None
    text: Any = "1"
    assert (await service.save(none)).error == "message must be a string"
    assert (await service.save("x", step=text)).error == "step must be a non-negative integer"
    assert (await service.restore(odd)).success is False
    assert (await service.rewind(text)).error == "steps must be >= 1"
    assert await service.get_checkpoint(none) is None
    assert (await service.diff(odd)).error
    for digit in range(16):
        assert await service.get(f"{digit:x}") is None
        assert await service.delete(f"{digit:x}") is False
        assert await service.delete(digit) is False  # type: ignore[arg-type]
    assert len(await service.list_checkpoints(none)) == 1
    assert await service.list_checkpoints(0) == await service.list_checkpoints(-1) == []


def test_folders_and_pipes_in_a_difference_are_told_without_being_read(
    service: CheckpointService, project: Path
) -> None:
    """S3."""
    begun(service)
    (project / "file").write_text("1")
    before = run(service.save("before"))
    (project / "empty").mkdir()
    (project / "file").unlink()
    os.mkfifo(project / "file")
    (project / "link").symlink_to("/etc/passwd")
    diff = asyncio.run(service.diff(before))
    found = {one.path: (one.status, one.after_content) for one in diff.files}
    assert found["empty"] == ("added", None)
    assert found["link"] == ("added", "/etc/passwd")
    assert diff.error is None


def test_a_workspace_or_a_store_that_goes_away_is_a_failure_and_no_exception(
    service: CheckpointService, project: Path, tmp_path: Path
) -> None:
    begun(service)
    (project / "file").write_text("1")
    before = run(service.save("before"))
    project.rename(tmp_path / "elsewhere")
    assert asyncio.run(service.save("late")).success is False
    assert asyncio.run(service.restore(before)).success is False
    assert messages(service)[0] == "before"
    (tmp_path / "elsewhere").rename(project)
    assert asyncio.run(service.restore(before)).success
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    assert asyncio.run(CheckpointService(str(project), str(blocked)).initialize()) is False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of two megabytes."""
    with tmpfs(tmp_path / "small", size=2 << 20, inodes=100_000) as disk:
        yield disk.place


def test_a_full_disk_is_a_failure_that_leaves_no_checkpoint(project: Path, small_disk: Path) -> None:
    """S14."""
    service = begun(CheckpointService(str(project), str(small_disk / "storage")))
    heard = Heard(service)
    (project / "file").write_text("1")
    before = run(service.save("before"))
    (project / "noise").write_bytes(os.urandom(4_000_000))
    assert asyncio.run(service.save("too much")).success is False
    (project / "file").write_text("2")
    assert asyncio.run(service.restore(before)).success is False
    assert (project / "file").read_text() == "2"
    (project / "noise").unlink()
    run(service.restore(before))
    assert (project / "file").read_text() == "1"
    assert heard.names.count("error") == 2


def test_metadata_of_others_are_read_with_care(service: CheckpointService, project: Path) -> None:
    begun(service)
    with lastgood.open(project, store=service.store) as workspace:
        for key in ("praisonai.step", "praisonai.parent", "praisonai.role"):
            workspace.save(key, metadata={key: "garbage"}, allow_empty=True)
    assert len(messages(service)) == 4
    assert asyncio.run(service.rewind()).success


def test_the_root_of_a_mounted_disk_can_be_a_workspace_as_in_containers(
    small_disk: Path, storage: Path
) -> None:
    """S11: whoever names it means it."""
    service = begun(CheckpointService(str(small_disk), str(storage)))
    (small_disk / "file").write_text("1")
    before = run(service.save("one"))
    (small_disk / "file").unlink()
    run(service.restore(before))
    assert (small_disk / "file").read_text() == "1"


def test_a_service_can_begin_again_after_everything_was_deleted(
    service: CheckpointService, project: Path
) -> None:
    begun(service)
    (project / "file").write_text("1")
    run(service.save("one"))
    assert asyncio.run(service.delete_all())
    assert asyncio.run(service.delete_all())
    assert asyncio.run(service.save("late")).error == "Service not initialized"
    begun(service)
    assert messages(service) == ["Initial checkpoint"]
    run(service.save("one again"))


def test_a_project_file_of_lastgood_is_heeded(service: CheckpointService, project: Path) -> None:
    """K7."""
    (project / ".lastgood.toml").write_text('[capture]\nexclude = ["*.bin"]\n')
    begun(service)
    (project / "a.bin").write_text("1")
    assert asyncio.run(service.save("first")).checkpoint is not None
    (project / "a.bin").write_text("2")
    assert asyncio.run(service.save("again")).error == "No changes to checkpoint"
