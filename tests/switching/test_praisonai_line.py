"""Where a workspace stands, and the ways back from there."""

from __future__ import annotations

import asyncio
import glob
import os
import signal
import subprocess
import sys
from pathlib import Path

import lastgood
from lastgood.integrations.praisonai import CheckpointResult, CheckpointService
from lastgood.workspace.arguments import JOURNAL
from tools.command import with_source
from tools.values import not_none
from tools.wreckage import picture


async def saved(service: CheckpointService, project: Path, *texts: str) -> list[CheckpointResult]:
    """Save a file with one text after the other."""
    results = []
    for text in texts:
        (project / "file").write_text(text)
        results.append(await service.save(text))
    assert all(one.success for one in results)
    return results


def journals(service: CheckpointService) -> list[str]:
    """Return what tells of a restore that is not over."""
    return glob.glob(os.path.join(service.store, "workspaces", "*", os.fsdecode(JOURNAL)))


def present(project: Path) -> str:
    return (project / "file").read_text()


async def test_one_rewind_after_the_other_walks_back(service: CheckpointService, project: Path) -> None:
    await service.initialize()
    await saved(service, project, "one", "two", "three")
    for text in ("two", "one"):
        result = await service.rewind()
        assert result.success
        assert (not_none(result.checkpoint).message, present(project)) == (text, text)
    assert (await service.rewind()).success
    assert not (project / "file").exists()
    assert (await service.rewind()).success is False


async def test_a_rewind_after_a_restore_goes_on_from_there(service: CheckpointService, project: Path) -> None:
    await service.initialize()
    _, second, _ = await saved(service, project, "one", "two", "three")
    await service.restore(second)
    await saved(service, project, "four", "five")
    assert (await service.rewind(2)).success
    assert present(project) == "two"
    assert (await service.rewind()).success
    assert present(project) == "one"


async def test_nothing_changed_means_since_where_the_workspace_stands(
    service: CheckpointService, project: Path
) -> None:
    await service.initialize()
    first, _, third = await saved(service, project, "one", "two", "three")
    await service.restore(first)
    assert (await service.save("again")).error == "No changes to checkpoint"
    (project / "file").write_text("three")
    equal = await service.save("as the newest")
    assert equal.success
    assert equal.id != third.id
    assert not_none(equal.checkpoint).files_changed == ["file"]


async def test_what_a_save_of_nothing_new_returns_can_be_restored(
    service: CheckpointService, project: Path
) -> None:
    """Whoever takes the result for an id, as the guide does, has the way back to these files."""
    await service.initialize()
    first, second = await saved(service, project, "one", "two")

    again = await service.save("again")

    assert (again.success, again.error, str(again)) == (False, "No changes to checkpoint", second.id)
    (project / "file").write_text("ruined")
    assert (await service.restore(again)).success
    assert present(project) == "two"
    await service.restore(first)
    at_first = await service.save("again")
    assert (at_first.success, at_first.id) == (False, first.id)
    (project / "file").write_text("ruined")
    assert (await service.restore(str(at_first))).success
    assert present(project) == "one"


async def test_a_restore_that_finds_nothing_to_do_counts_too(
    service: CheckpointService, project: Path
) -> None:
    await service.initialize()
    first, _ = await saved(service, project, "one", "two")
    (project / "file").write_text("one")
    assert (await service.restore(first)).success
    assert (await service.save("again")).error == "No changes to checkpoint"
    assert (await service.rewind()).success
    assert not (project / "file").exists()


async def test_what_was_unsaved_is_saved_before_a_restore_and_can_be_had_back(
    service: CheckpointService, project: Path
) -> None:
    await service.initialize()
    first, _ = await saved(service, project, "one", "two")
    (project / "file").write_text("unsaved")
    (project / "new").write_text("unsaved too")
    await service.restore(first)
    assert not (project / "new").exists()
    rescue = (await service.list_checkpoints())[0]
    assert rescue.message == "[pre-restore] auto-save"
    assert (await service.restore(rescue.id)).success
    assert present(project) == "unsaved"
    assert (project / "new").read_text() == "unsaved too"


async def test_a_clean_workspace_needs_no_saving_before_a_restore(
    service: CheckpointService, project: Path
) -> None:
    await service.initialize()
    first, second = await saved(service, project, "one", "two")
    await service.restore(first)
    await service.restore(second)
    assert len(await service.list_checkpoints()) == 3


async def test_an_undo_by_the_command_line_moves_the_workspace_back(
    service: CheckpointService, project: Path
) -> None:
    """T8."""
    await service.initialize()
    first, _ = await saved(service, project, "one", "two")
    await service.restore(first)
    with lastgood.open(project, store=service.store) as workspace:
        workspace.undo()
    assert present(project) == "two"
    assert (await service.save("again")).error == "No changes to checkpoint"
    assert (await service.rewind()).success
    assert present(project) == "one"


async def test_files_that_were_there_before_are_kept_by_the_first_checkpoint_and_never_deleted(
    service: CheckpointService, project: Path
) -> None:
    """T4."""
    (project / "before").write_text("mine")
    await service.initialize()
    first = await service.save("first")
    assert first.success
    assert (await service.save("second")).error == "No changes to checkpoint"
    (project / "before").write_text("overwritten")
    assert (await service.rewind()).success
    assert (project / "before").read_text() == "mine"


async def test_the_default_difference_is_with_the_checkpoint_before(
    service: CheckpointService, project: Path
) -> None:
    await service.initialize()
    empty = await service.diff()
    assert (empty.files, empty.error) == ([], None)
    first, _ = await saved(service, project, "one", "two")
    (project / "new").write_text("new")
    diff = await service.diff()
    assert diff.from_checkpoint == first.id[:8]
    assert [one.path for one in diff.files] == ["file", "new"]


def test_a_service_goes_on_where_another_left_off(project: Path, storage: Path) -> None:
    async def one(*texts: str) -> None:
        service = CheckpointService(str(project), str(storage))
        await service.initialize()
        await saved(service, project, *texts)
        await service.cleanup()
        assert (await service.save("late")).error == "Service not initialized"

    async def two() -> None:
        service = CheckpointService(str(project), str(storage))
        await service.initialize()
        assert (await service.rewind()).success
        assert present(project) == "one"

    asyncio.run(one("one", "two"))
    asyncio.run(two())
    asyncio.run(one("three"))
    asyncio.run(two())


# Ends itself as a crash would, in the midst of its renames.
KILLED = """
import asyncio, os, signal, sys
from lastgood.integrations.praisonai import CheckpointService
renamed = []
def watch(event, words):
    if event == "os.rename" and os.path.basename(os.fsencode(words[1])).startswith(b"file"):
        renamed.append(words[1])
        if len(renamed) == 50:
            os.kill(os.getpid(), signal.SIGKILL)
async def main():
    service = CheckpointService(sys.argv[1], sys.argv[2])
    await service.initialize()
    sys.addaudithook(watch)
    await service.restore(sys.argv[3])
asyncio.run(main())
"""


def test_a_restore_that_was_killed_is_finished_when_a_service_begins(project: Path, storage: Path) -> None:
    """T7."""
    service = CheckpointService(str(project), str(storage))
    for number in range(100):
        (project / f"file{number}").write_text("before")
    asyncio.run(service.initialize())
    first = asyncio.run(service.save("before"))
    wanted = picture(project)
    for attempt in range(2):
        for number in range(100):
            (project / f"file{number}").write_text(f"changed {attempt}")
        child = subprocess.run(
            [sys.executable, "-c", KILLED, str(project), str(storage), first.id],
            env=with_source(),
            check=False,
        )
        assert child.returncode == -signal.SIGKILL
        assert journals(service)
        assert len(texts(project)) == 2
        # Also one that began before.
        again = service if attempt % 2 else CheckpointService(str(project), str(storage))
        assert again is service or asyncio.run(again.initialize())
        assert asyncio.run(again.save("goes on")).error in {None, "No changes to checkpoint"}
        assert texts(project) in ({"before"}, {f"changed {attempt}"})
        assert asyncio.run(again.restore(first)).success
        assert picture(project) == wanted
        assert not journals(service)


def texts(project: Path) -> set[str]:
    return {(project / f"file{number}").read_text() for number in range(100)}


async def test_a_call_that_waits_its_turn_can_be_cancelled(service: CheckpointService, project: Path) -> None:
    await service.initialize()
    (project / "file").write_text("1")
    with service.timeline._lock:
        waiting = asyncio.ensure_future(service.save("never"))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    assert len(await service.list_checkpoints()) == 1


async def test_files_and_conversation_go_back_together(service: CheckpointService, project: Path) -> None:
    """P5."""
    await service.initialize()
    talk: list[dict[str, object]] = [{"role": "user", "content": "one, please"}]
    (project / "file").write_text("one")
    first = await service.save("one", messages=talk)
    talk.append({"role": "assistant", "content": "one it is"})
    second = await service.save("said", messages=talk)
    assert second.success
    (project / "file").write_text("two")
    await service.restore(first)
    assert await service.conversation(first) == talk[:1]
    assert await service.conversation(second) == talk
    initial = (await service.list_checkpoints())[-1]
    assert await service.conversation(initial) == []
