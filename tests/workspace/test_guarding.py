"""Nothing is overwritten or deleted of which no copy is kept (rules T2, T4)."""

from __future__ import annotations

import errno
import mmap
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.check import record_verdict
from lastgood.errors import Busy, Conflict, Damaged, LastgoodError, NotFound, Usage
from lastgood.locks import FlockLocks
from lastgood.model.checkpoint import Check
from lastgood.model.operation import RestorePlan
from lastgood.restore.apply import DescriptorApplier
from lastgood.restore.restore import RestoreRequest, restore
from lastgood.retention import prune
from lastgood.retention.verify import readopt
from lastgood.transaction import MaintenanceTransaction, SaveTransaction
from lastgood.workspace import Workspace
from lastgood.workspace.arguments import JOURNAL
from tools.harm import flip, packs_of
from tools.living import times_open
from tools.unlocked import writers
from tools.values import not_none


def test_a_plan_is_refused_when_what_it_deletes_became_ignored(workspace: Workspace, project: Path) -> None:
    """T2, T4: what a save leaves out by now is neither lost nor deleted."""
    (project / "kept").write_text("kept")
    saved = workspace.save("one").checkpoint
    (project / "new").write_text("precious")
    plan = workspace.plan_restore(saved.id)
    (project / ".gitignore").write_text("new\n")

    with pytest.raises(Conflict) as caught:
        workspace.apply(plan)

    assert caught.value.details["paths"] == ["new"]
    assert (project / "new").read_text() == "precious"


@pytest.mark.parametrize("read_anew", [False, True])
def test_a_restore_is_refused_when_the_store_cannot_give_back_what_it_overwrites(
    workspace: Workspace, project: Path, store: Path, *, read_anew: bool
) -> None:
    """T2: a guard that names rotten bytes holds nothing; what a repair sets aside is stored again."""
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    precious = os.urandom(100_000)
    (project / "file").write_bytes(precious)
    workspace.save("two")
    workspace.close()
    flip(max(packs_of(store), key=os.path.getsize), 50_000)
    if read_anew:
        os.utime(project / "file")

    with lastgood.open(project, store=store, maintenance="off") as again:
        with pytest.raises(Damaged, match="cannot hold"):
            again.restore(first.id)
        assert (project / "file").read_bytes() == precious
        again.verify(repair=True)
        again.restore(first.id)
        again.undo()

    assert (project / "file").read_bytes() == precious


def test_what_a_guard_keeps_lies_in_the_store_as_it_is_and_a_save_is_compressed(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """Nothing is changed before it was written and read again, so that takes as little as it can."""
    line = b"a line like all others\n"
    (project / "file").write_bytes(b"saved\n" + line * 1000)
    saved = workspace.save("one").checkpoint
    (project / "file").write_bytes(b"edited\n" + line * 1000)

    workspace.restore(saved.id)

    packs = [pack.read_bytes() for pack in packs_of(store)]
    assert any(b"edited\n" + line in pack for pack in packs)
    assert not any(b"saved\n" + line in pack for pack in packs)
    workspace.undo()
    assert (project / "file").read_bytes() == b"edited\n" + line * 1000
    assert workspace.verify().faults == ()


def test_a_damaged_store_does_not_bar_saving_once_it_is_repaired(
    workspace: Workspace, project: Path, spoil: Callable[[], None], store: Path
) -> None:
    """K4, S14: what is there now is stored again, and can be had back."""
    (project / "a").write_text("a")
    (project / "b").write_text("b")
    workspace.save("one")
    workspace.close()
    spoil()
    with lastgood.open(project, store=store, maintenance="off", repair=True) as again:
        assert not again.verify(repair=True).ok
        (project / "a").write_text("changed")

        again.status()
        saved = again.save("two").checkpoint

        assert again.verify(saved.id, deep=True).damaged == ()


def test_an_unchanged_workspace_is_not_said_to_be_in_a_damaged_checkpoint(
    workspace: Workspace, project: Path, spoil: Callable[[], None], store: Path
) -> None:
    """S10, S14: "unchanged since" names something that can be had back."""
    (project / "a").write_text("a")
    workspace.save("one")
    workspace.close()
    spoil()
    with lastgood.open(project, store=store, maintenance="off", repair=True) as again:
        again.verify(repair=True)

        report = again.save()
        (project / "b").write_text("b")
        later = again.save("three")

        assert report.checkpoint.damaged is None
        for one in (report, later):
            assert again.verify(one.checkpoint.id, deep=True).damaged == ()


@pytest.mark.damages
def test_a_save_does_not_rely_on_what_a_proof_found_damaged(
    workspace: Workspace, project: Path, spoil: Callable[[], None], store: Path
) -> None:
    """S14, K4: also before the damage is set aside."""
    (project / "folder").mkdir()
    (project / "folder" / "a").write_text("a")
    (project / "a").write_text("a")
    time.sleep(0.1)  # so that the scan cache knows these files for certain
    first = workspace.save("one").checkpoint
    workspace.close()
    spoil()
    with lastgood.open(project, store=store, maintenance="off") as again:
        assert [one.id for one in again.verify().damaged] == [first.id]
        (project / "b").write_text("b")

        second = again.save("two").checkpoint

        assert again.verify(second.id, deep=True).damaged == ()
        assert again.read(second.id, "folder/a") == b"a"


def test_a_save_stores_again_what_the_store_lost_without_notice(
    workspace: Workspace, project: Path, spoil: Callable[[], None], store: Path
) -> None:
    """Invariant 4, S14: also when the tree is that of the newest checkpoint, which is not there any more."""
    (project / "a").write_text("a")
    first = workspace.save("one").checkpoint
    workspace.close()
    for pack in (store / "objects.git" / "objects" / "pack").iterdir():
        pack.unlink()
    with lastgood.open(project, store=store, maintenance="off") as again:
        writers(again._context).catalogue.set_generation("another")

        report = again.save()
        (project / "b").write_text("b")
        later = again.save("three").checkpoint

        assert report.checkpoint.id != first.id
        assert again.verify(report.checkpoint.id, deep=True).damaged == ()
        assert again.verify(later.id, deep=True).damaged == ()


def test_a_manual_save_is_not_left_to_a_guard(workspace: Workspace, project: Path) -> None:
    """S10: a guard goes in a week, and `@` passes over it."""
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    workspace.restore(first.id)
    workspace.undo()

    report = workspace.save()

    assert report.created
    assert workspace.get("@").id == report.checkpoint.id


def test_a_git_file_of_a_submodule_stays(workspace: Workspace, project: Path) -> None:
    """T4: a `.git` that is a file, too."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    nested = project / "nested"
    nested.mkdir()
    (nested / ".git").write_text("gitdir: ../.git/modules/nested\n")
    (nested / "code").write_text("code")

    workspace.restore(saved.id)

    assert (nested / ".git").read_text() == "gitdir: ../.git/modules/nested\n"


def test_a_partial_checkpoint_takes_nothing_away(workspace: Workspace, project: Path) -> None:
    """S9, T4: what it lacks are gaps, and gaps stay."""
    (project / "deep").mkdir()
    (project / "deep" / "file").write_text("file")
    (project / "top").write_text("top")
    saved = workspace.save("one", budget=0.0).checkpoint
    assert saved.partial

    workspace.restore(saved.id)

    assert (project / "deep" / "file").read_text() == "file"
    assert (project / "top").read_text() == "top"


def test_a_restore_to_a_guard_brings_ignored_files_back(workspace: Workspace, project: Path) -> None:
    """T2: a guard is a checkpoint like any other."""
    (project / "build").write_text("captured")
    saved = workspace.save("one").checkpoint
    (project / "build").unlink()
    (project / ".gitignore").write_text("build\n")
    workspace.save("two")
    (project / "build").write_text("ignored and precious")
    guard = not_none(workspace.restore(saved.id).guard)

    workspace.restore(guard)

    assert (project / "build").read_text() == "ignored and precious"


def _unseen(path: Path, workspace: Workspace, *, before: bytes) -> None:
    """Make a file begin with ``work`` by a mapping, and the scan cache believe that it holds what it held."""
    for _ in range(20):
        path.write_bytes(before)
        with path.open("r+b") as file, mmap.mmap(file.fileno(), len(before)) as mapped:
            mapped[:4] = before[:4]
            time.sleep(0.06)  # longer than a file counts as just changed
            workspace.save("before")
            mapped[:4] = b"work"
        if not workspace.save().created:
            return
    pytest.skip("here every store through a mapping changes a file's times")


def test_what_was_stored_through_a_mapping_is_in_the_guard(workspace: Workspace, project: Path) -> None:
    """T2: such stores need not change a file's times, so that a save does not see them (S1)."""
    (project / "file").write_bytes(b"zero" * 2048)
    first = workspace.save("zero").checkpoint
    _unseen(project / "file", workspace, before=b"." * 8192)

    guard = workspace.restore(first.id).guard
    assert (project / "file").read_bytes()[:4] == b"zero"
    assert guard is not None
    assert workspace.read(guard, b"file")[:4] == b"work"

    workspace.undo()
    assert (project / "file").read_bytes()[:4] == b"work"


def test_a_plan_reads_what_it_overwrites(workspace: Workspace, project: Path) -> None:
    """T1, T2: carried out later, it is not refused for what the scan cache did not know."""
    (project / "file").write_bytes(b"zero" * 2048)
    first = workspace.save("zero").checkpoint
    _unseen(project / "file", workspace, before=b"." * 8192)

    report = workspace.apply(workspace.plan_restore(first.id))

    assert report.complete
    assert workspace.read(not_none(report.guard), b"file")[:4] == b"work"


def test_an_undo_reads_what_it_overwrites(workspace: Workspace, project: Path) -> None:
    """T8: what was stored through a mapping since refuses it like any other change."""
    (project / "file").write_bytes(b"." * 8192)
    saved = workspace.save("one").checkpoint
    (project / "file").write_bytes(b"_" * 8192)
    workspace.restore(saved.id)
    _unseen(project / "file", workspace, before=b"." * 8192)

    with pytest.raises(Conflict):
        workspace.undo()
    workspace.undo(force=True)
    assert any(workspace.read(one.id, b"file")[:4] == b"work" for one in workspace.list())


def test_what_a_failing_disk_leaves_behind_is_named_and_recover_clears_it(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T12b: the path is restored all the same, and nothing is refused until then."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    unlink = os.unlink

    def failing(path: bytes, *, dir_fd: int | None = None) -> None:
        if path.endswith(b".old"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing)
        (outcome,) = workspace.restore(saved.id).outcomes
    assert outcome.result == "restored"
    assert outcome.left is not None
    assert os.fsdecode(outcome.left) in (outcome.reason or "")
    assert (project / os.fsdecode(outcome.left)).read_text() == "two"
    assert [note.code for note in workspace.status().health] == ["left-over"]

    workspace.recover()
    assert workspace.status().health == ()
    assert [one.name for one in project.iterdir()] == ["file"]
    assert (project / "file").read_text() == "one"
    workspace.undo()
    assert (project / "file").read_text() == "two"


def test_what_a_program_has_open_for_writing_goes_on_outside(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """T12b, T12: in the store, and the report says where."""
    (project / "log").write_text("one")
    saved = workspace.save("one").checkpoint
    with (project / "log").open("a") as log:
        log.write("two")
        log.flush()
        report = workspace.restore(saved.id)
        log.write(" and more")
    (outcome,) = report.outcomes
    assert report.complete
    assert (project / "log").read_text() == "one"
    kept = Path(os.fsdecode(not_none(outcome.kept)))
    assert kept.read_text() == "onetwo and more"
    assert store in kept.parents


def test_what_cannot_be_copied_is_lost_only_on_request(workspace: Workspace, project: Path) -> None:
    """T2: the restore refuses and names it, unless told to discard."""
    (project / "thing").write_text("file")
    saved = workspace.save("one").checkpoint
    (project / "thing").unlink()
    os.mkfifo(project / "thing")

    with pytest.raises(lastgood.Unsafe) as caught:
        workspace.restore(saved.id)
    assert caught.value.details["paths"] == ["thing"]
    workspace.restore(saved.id, discard=True)

    assert (project / "thing").read_text() == "file"


def test_a_path_that_changes_its_kind_all_the_time_can_be_looked_at(project: Path) -> None:
    """T12: whoever swaps links in while a restore looks gets no failure out of it that is not ours."""
    applier = DescriptorApplier(os.fsencode(project))
    place, link = project / "place", project / "link"
    place.mkdir()
    link.symlink_to("nowhere")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            place.rename(project / "aside")
            link.rename(place)
            place.rename(link)
            (project / "aside").rename(place)

    racer = threading.Thread(target=swap)
    racer.start()
    try:
        kinds = {None if (seen := applier.present(b"place")) is None else seen.kind for _ in range(5000)}
    finally:
        done.set()
        racer.join()

    assert kinds <= {None, "file", "link", "directory"}


def test_a_checkpoint_deleted_while_it_is_restored_is_restored(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """T15: the target's bytes stay while the plan is carried out."""
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    workspace.save("two")
    with lastgood.open(project, store=store, maintenance="off") as other:
        other.delete(first.id)
        other.maintain()
        with pytest.raises(LastgoodError):
            workspace.restore(first.id)

    assert (project / "file").read_text() == "two"


def test_a_look_at_a_store_that_lost_bytes_changes_nothing_in_it(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """Only a save declares that no scan cache proves anything any more: it may write."""
    (project / "a").write_text("a")
    workspace.save("one")
    workspace.close()
    for pack in (store / "objects.git" / "objects" / "pack").iterdir():
        pack.unlink()
    with lastgood.open(project, store=store, maintenance="off") as again:
        catalogue = again._context.catalogue
        before = catalogue.generation()
        again.status()
        assert catalogue.generation() == before

        (project / "b").write_text("b")
        again.save("two")

        assert catalogue.generation() != before


def test_a_transaction_that_is_over_hands_nothing_out(workspace: Workspace) -> None:
    with SaveTransaction(workspace._context) as saving:
        assert saving.catalogue.workspaces() == []
    with pytest.raises(AssertionError, match="while it holds its locks"):
        saving.catalogue.empty_log()


def test_a_verdict_waits_for_a_sweep_longer_than_other_verbs_do(workspace: Workspace, project: Path) -> None:
    """What a check said cannot be had again without running it again."""
    (project / "a").write_text("a")
    saved = workspace.save("one").checkpoint
    context = workspace._context.replace(wait=0.0)
    verdict = Check(command="true", exit_code=0, seconds=0.1, output_tail="", reason=None)
    with context.locks.hold_store(wait=0):
        recording = threading.Thread(
            target=lambda: record_verdict(context, saved.id, good=True, check=verdict)
        )
        recording.start()
        with pytest.raises(lastgood.Busy):
            prune.pin(context, saved, pinned=True)
        assert workspace.get(saved.id).good is None
    recording.join()
    assert workspace.get(saved.id).good


def test_no_row_is_brought_back_while_bytes_are_freed(workspace: Workspace) -> None:
    """Invariant 1: a sweep could free the bytes that the row would be for."""
    context = workspace._context.replace(wait=0.0)
    with (
        context.locks.hold_store(wait=0),
        MaintenanceTransaction(context) as upkeep,
        pytest.raises(lastgood.Busy),
    ):
        readopt(upkeep)


def test_a_pin_waits_until_bytes_are_freed(workspace: Workspace, project: Path) -> None:
    (project / "a").write_text("a")
    saved = workspace.save("one").checkpoint
    context = workspace._context.replace(wait=0.0)
    with context.locks.hold_store(wait=0), pytest.raises(lastgood.Busy):
        prune.pin(context, saved, pinned=True)
    assert not workspace.get(saved.id).pinned
    with context.locks.hold_workspace(context.key, wait=0):  # a restore is not waited for
        assert prune.pin(context, saved, pinned=True).pinned


def test_who_is_refused_holds_no_lock_while_the_error_is_looked_at(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """S16: its traceback keeps alive what was at work."""
    workspace.save("one")
    context = workspace._context
    (store / "workspaces" / context.key / os.fsdecode(JOURNAL)).write_bytes(b"torn")

    with pytest.raises(LastgoodError) as caught:
        workspace.save("two")

    with context.locks.hold_store(wait=0):
        assert caught.value.__traceback__ is not None


def test_a_restore_closes_what_it_reads_the_lost_to(workspace: Workspace, project: Path) -> None:
    """T2: what goes is read whole, to nowhere."""
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    before = times_open(os.devnull)

    workspace.restore(first.id)

    assert times_open(os.devnull) == before


def test_a_restore_leaves_nothing_of_the_workspace_open(workspace: Workspace, project: Path) -> None:
    """T5: what it opened to write in, to read and to sync is closed when it is over."""
    (project / "folder").mkdir()
    (project / "folder" / "file").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "folder" / "file").write_text("two")
    (project / "new").write_text("new")

    workspace.restore(first.id)

    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    assert [one for one in targets if one.startswith(str(project))] == []


# --- A plan that its caller is told before anything is changed (rules T1, T16) ---


def test_what_is_raised_when_the_plan_is_told_leaves_all_as_it_is(
    workspace: Workspace, project: Path
) -> None:
    (project / "file").write_text("then")
    saved = workspace.save().checkpoint
    (project / "file").write_text("now")
    told: list[RestorePlan] = []

    def refuse(plan: RestorePlan) -> None:
        told.append(plan)
        raise KeyError(plan.id)

    with pytest.raises(KeyError):
        workspace.restore(saved.id, consent=refuse)
    assert (project / "file").read_text() == "now"
    assert [*workspace.list(kind="guard"), *workspace.operations()] == []

    assert workspace.restore(saved.id, consent=told.append).planned == told[1] == told[0]
    assert (project / "file").read_text() == "then"


def test_a_checkpoint_that_is_deleted_before_its_restore_has_the_locks_is_not_restored(
    workspace: Workspace, project: Path
) -> None:
    """As of one that was named after it was deleted; what it held may be freed."""
    (project / "file").write_text("then")
    request = RestoreRequest(target=workspace.save().checkpoint)
    (project / "file").write_text("now")
    workspace.save()
    workspace.delete(request.target.id)
    with pytest.raises(NotFound):
        restore(workspace._context, workspace._view, request)
    assert (project / "file").read_text() == "now"
    assert workspace.list(kind="guard") == ()


def test_a_consent_that_answers_instead_of_raising_leaves_all_as_it_is(
    workspace: Workspace, project: Path
) -> None:
    """A no as `False`, or what would have to be awaited, is not to be taken for a yes."""

    def no(_plan: RestorePlan) -> Any:
        return False

    (project / "file").write_text("then")
    saved = workspace.save().checkpoint
    (project / "file").write_text("now")
    with pytest.raises(Usage, match="consent returned"):
        workspace.restore(saved.id, consent=no)
    assert (project / "file").read_text() == "now"


def test_what_a_consent_asks_of_the_workspace_that_its_own_restore_holds_is_refused_at_once(
    workspace: Workspace, project: Path
) -> None:
    (project / "file").write_text("then")
    saved = workspace.save().checkpoint
    (project / "file").write_text("now")

    def ask(_plan: RestorePlan) -> None:
        assert workspace.status().drift is None  # it tells all but that
        workspace.save("within")

    with pytest.raises(Busy, match="held by the verb that asks this here") as caught:
        workspace.restore(saved.id, consent=ask)
    assert "a consent is told the plan" in caught.value.hint
    assert (project / "file").read_text() == "now"


def test_a_consent_is_told_the_plan_beside_somebody_who_saves(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """Who is only told that nothing is to be done waits for nobody."""
    (project / "file").write_text("then")
    saved = workspace.save().checkpoint
    (project / "file").write_text("now")
    told: list[RestorePlan] = []

    def refuse(plan: RestorePlan) -> None:
        told.append(plan)
        raise KeyError(plan.id)

    key = saved.manifest.workspace_key
    with FlockLocks(os.fsencode(store)).share_workspace(key, wait=0), pytest.raises(KeyError):
        workspace.restore(saved.id, consent=refuse)
    assert told == [workspace.plan_restore(saved.id)]

    with ExitStack() as saving:
        saving.enter_context(FlockLocks(os.fsencode(store)).share_workspace(key, wait=0))
        workspace.restore(saved.id, consent=lambda _plan: saving.close())
    assert (project / "file").read_text() == "then"


def test_a_plan_that_has_changed_while_a_save_was_waited_for_is_told_again_and_carried_out(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """T1, T16: who agrees to any plan is not told that it has changed."""
    (project / "file").write_text("then")
    saved = workspace.save().checkpoint
    (project / "file").write_text("now")
    told: list[RestorePlan] = []
    saving = ExitStack()

    def agree(plan: RestorePlan) -> None:
        told.append(plan)
        if len(told) == 1:
            (project / "file").write_text("edited beside the save")
            saving.close()

    with saving:
        key = saved.manifest.workspace_key
        saving.enter_context(FlockLocks(os.fsencode(store)).share_workspace(key, wait=0))
        report = workspace.restore(saved.id, consent=agree)
    assert (len(told), report.planned) == (2, told[1])
    assert (project / "file").read_text() == "then"
    assert workspace.read(not_none(report.guard), "file") == b"edited beside the save"


def test_a_checkpoint_that_was_deleted_while_a_save_was_waited_for_is_not_restored(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """T15: it is kept for nobody by then."""
    (project / "file").write_text("then")
    saved = workspace.save().checkpoint
    (project / "file").write_text("now")
    workspace.save()
    saving = ExitStack()

    def agree(_plan: RestorePlan) -> None:
        with lastgood.open(project, store=store, maintenance="off") as beside:
            beside.delete(saved.id)
        saving.close()

    with saving:
        key = saved.manifest.workspace_key
        saving.enter_context(FlockLocks(os.fsencode(store)).share_workspace(key, wait=0))
        with pytest.raises(NotFound, match="no checkpoint"):
            workspace.restore(saved.id, consent=agree)
    assert (project / "file").read_text() == "now"


def test_a_consent_is_not_passed_over_where_there_is_no_plan(
    workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    (project / "file").write_text("then")
    saved = workspace.save().checkpoint
    with pytest.raises(Usage, match="has no plan"):
        workspace.restore(saved.id, to=tmp_path / "aside", consent=lambda _plan: None)
    assert not (tmp_path / "aside").exists()
