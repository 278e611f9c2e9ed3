"""Pruning real stores: what goes, what stays, what can be had back, and when bytes are free."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.catalogue import Query
from lastgood.errors import Busy
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.operation import Instant
from lastgood.retention import prune
from lastgood.settings import LimitSettings, Rungs, Settings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.command import module, started
from tools.harm import flip, packs_of
from tools.living import until_tidied
from tools.unlocked import writers

HOUR = 3600.0
DAY = 24 * HOUR
MANY = 50


@pytest.fixture
def kept(project: Path, store: Path, clock: FakeClock) -> Iterator[Workspace]:
    """A workspace whose clock the test moves."""
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as opened:
        yield opened


def save(workspace: Workspace, content: object, **more: Any) -> Checkpoint:
    Path(workspace.path, "file").write_text(str(content))
    return workspace.save(str(content), **more).checkpoint


def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(50_000)


def pack_bytes(store: Path) -> int:
    return sum(path.stat().st_size for path in (store / "objects.git" / "objects" / "pack").iterdir())


def ids(workspace: Workspace) -> list[str]:
    return [one.id for one in workspace.list()]


def test_a_prune_removes_what_its_plan_says_and_undo_brings_it_back(kept: Workspace) -> None:
    """K1, T8: the dry run is what happens, and the prune is on the stack."""
    for number in range(8):
        save(kept, number)
    before = ids(kept)
    plan = kept.plan_prune(keep=3)

    report = kept.prune(keep=3)

    assert report.remove == plan.remove
    assert (prune.dry(plan).dry_run, report.dry_run) == (True, False)
    assert ids(kept) == before[:3]
    assert [one.id for one in report.remove] == before[3:]
    assert all(one.reason for one in (*report.keep, *report.remove))
    kept.undo()
    assert ids(kept) == before
    kept.redo()
    assert ids(kept) == before[:3]


def test_the_bytes_are_really_free_after_a_day(kept: Workspace, store: Path, clock: FakeClock) -> None:
    """K3: and the plan says about how many."""
    for number in range(6):
        Path(kept.path, "large").write_bytes(noise(number))
        save(kept, number)
    full = pack_bytes(store)
    report = kept.prune(keep=1)
    clock.advance(0.9 * DAY)
    kept.maintain()
    waiting = pack_bytes(store)

    clock.advance(0.2 * DAY)
    kept.maintain()

    left = pack_bytes(store)
    assert waiting > full * 0.9
    assert left < full / 4
    assert abs((waiting - left) - report.freed_bytes) < 0.1 * report.freed_bytes
    assert kept.verify(deep=True).ok


def test_prune_now_frees_at_once_and_leaves_nothing_to_undo(kept: Workspace, store: Path) -> None:
    """K3: what was deleted before goes as well, and the report says so."""
    saved = []
    for number in range(6):
        Path(kept.path, "large").write_bytes(noise(number))
        saved.append(save(kept, number).id)
    kept.prune(keep=6, now=True)  # frees nothing; the file that says who holds the store's lock stays
    kept.delete(saved[0])
    full, taken = pack_bytes(store), kept.status().store_bytes

    report = kept.prune(keep=2, now=True)

    assert report.lost == (saved[0],)
    assert taken - kept.status().store_bytes == report.freed_bytes > full / 3
    assert report.waiting_bytes == 0
    assert pack_bytes(store) < full / 2
    assert ids(kept) == saved[:3:-1]
    with pytest.raises(lastgood.NotFound):
        kept.undo()
    assert kept.verify(deep=True).ok


@pytest.mark.parametrize(
    "asked",
    [
        {"keep": 0},
        {"keep": -1},
        {"keep": "abc"},
        {"keep": True},
        {"keep": 2.5},
        {"older_than": "x"},
        {"older_than": -1},
        {"older_than": 0},
        {"older_than": float("nan")},
        {"older_than": float("inf")},
        {"older_than": ""},
        {"verify": True, "keep": 1},
    ],
)
def test_a_bad_argument_deletes_nothing(kept: Workspace, clock: FakeClock, asked: dict[str, Any]) -> None:
    """K2."""
    for number in range(4):
        save(kept, number)
    clock.advance(90 * DAY)
    before = ids(kept)

    with pytest.raises(lastgood.Usage):
        kept.prune(**asked)

    assert ids(kept) == before


@pytest.mark.parametrize(
    "words",
    [
        ["--keep", "abc"],
        ["--keep", "0"],
        ["--keep", "-1"],
        ["--keep=-1"],
        ["--keep", ""],
        ["--older-than", "x"],
        ["--older-than", "-1"],
        ["--older-than=-1"],
        ["--older-than", "0"],
        ["--now"],
    ],
)
def test_a_bad_command_line_deletes_nothing(
    workspace: Workspace, project: Path, store: Path, words: list[str]
) -> None:
    """K2: usage, exit code 2."""
    for number in range(4):
        save(workspace, number)

    done = module(project, store, "clean", *words)

    assert done.returncode == 2, done
    assert len(ids(workspace)) == 4


def test_the_command_line_says_the_same_in_a_dry_run_as_afterwards(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """K1: in the words of the AIWF guide."""
    for number in range(7):
        save(workspace, number)

    planned = module(project, store, "checkpoint", "clean", "--keep", "5", "--dry-run").stdout
    assert len(ids(workspace)) == 7
    done = module(project, store, "checkpoint", "clean", "--keep", "5").stdout

    reasons = [line.split("ckpt_")[1] for line in planned.splitlines() if "ckpt_" in line]
    assert reasons == [line.split("ckpt_")[1] for line in done.splitlines() if "ckpt_" in line]
    assert len(reasons) == 7
    assert len(ids(workspace)) == 5


def test_a_plain_number_is_an_age_in_days(kept: Workspace, clock: FakeClock) -> None:
    """K1: `clean --older-than 7`."""
    old = save(kept, "old")
    named = save(kept, "named", name="named")
    clock.advance(7 * DAY + 1)
    new = save(kept, "new")

    kept.prune(older_than="7")

    assert ids(kept) == [new.id, named.id]
    assert old.id not in ids(kept)


def test_the_guard_of_a_restore_that_can_be_undone_is_needed(
    project: Path, store: Path, clock: FakeClock
) -> None:
    """T8 before K1: also against an explicit wish, for as long as a guard lives."""
    settings = Settings(retention={"guard": Rungs(last=0), "manual": Rungs(last=0)})
    with lastgood.open(project, store=store, maintenance="off", clock=clock, settings=settings) as opened:
        first = save(opened, "first")
        for number in range(5):
            save(opened, number)
        guard = opened.restore(first.id).guard
        clock.advance(6 * DAY)

        opened.maintain()
        opened.undo()
        assert Path(opened.path, "file").read_text() == "4"
        opened.redo()
        assert Path(opened.path, "file").read_text() == "first"
        opened.prune(keep=1)
        assert guard in ids(opened)
        clock.advance(2 * DAY)
        save(opened, "later")
        opened.prune(keep=1)
        assert guard not in ids(opened)


def test_of_an_undone_restore_the_target_is_needed_and_no_guard(
    project: Path, store: Path, clock: FakeClock
) -> None:
    """T8 before K1: for as long as a guard lives it can be done again."""
    settings = Settings(retention={"guard": Rungs(last=0)})
    with lastgood.open(project, store=store, maintenance="off", clock=clock, settings=settings) as opened:
        target = save(opened, "target").id
        save(opened, "later")
        opened.restore(target)
        opened.undo()
        newest = save(opened, "newest").id

        opened.prune(keep=1)
        assert ids(opened) == [newest, target]
        clock.advance(8 * DAY)
        opened.prune(keep=1)
        assert ids(opened) == [newest]


def test_the_policy_applies_by_itself_and_is_not_on_the_stack(
    project: Path, store: Path, clock: FakeClock
) -> None:
    """K1, T8: automatic prunes."""
    settings = Settings(retention={"turn": Rungs(last=4)})
    with lastgood.open(project, store=store, maintenance="off", clock=clock, settings=settings) as opened:
        for number in range(12):
            save(opened, number, kind="turn")

        opened.maintain()

        assert len(ids(opened)) == 4
        assert opened.operations() == ()
        with pytest.raises(lastgood.NotFound):
            opened.undo()


def test_automatic_ones_never_exceed_the_limit_of_the_store(
    project: Path, store: Path, clock: FakeClock
) -> None:
    """K1: a size; what is named does not go, and the newest stays."""
    settings = Settings(limits=LimitSettings(max_store_size=260_000))
    with lastgood.open(project, store=store, maintenance="off", clock=clock, settings=settings) as opened:
        Path(opened.path, "large").write_bytes(noise(99))
        named = save(opened, "named", name="named")
        for number in range(12):
            Path(opened.path, "large").write_bytes(noise(number))
            newest = save(opened, number, kind="turn")

        opened.maintain()
        clock.advance(2 * DAY)
        opened.maintain()

        assert pack_bytes(store) <= 300_000
        assert {named.id, newest.id} <= set(ids(opened))
        assert 3 <= len(ids(opened)) <= 6
        assert opened.verify(deep=True).ok


def test_a_prune_that_verifies_removes_nothing_and_marks_what_is_damaged(
    kept: Workspace, store: Path, request: pytest.FixtureRequest
) -> None:
    """K4: without blocking work."""
    request.node.add_marker(pytest.mark.damages)
    for number in range(5):
        save(kept, number)
    before = ids(kept)
    flip(min(packs_of(store), key=os.path.getsize))

    report = kept.prune(verify=True)

    assert report.remove == ()
    assert report.set_aside
    assert ids(kept) == before
    assert save(kept, "goes on").id == ids(kept)[0]


@pytest.mark.damages
def test_after_damage_that_hits_no_checkpoint_no_scan_cache_is_believed(kept: Workspace, store: Path) -> None:
    """K4: the mark at the end of a pack; what saves rely on is looked for anew."""
    save(kept, "one")
    flip(packs_of(store)[0], -1)
    before = kept._context.catalogue.generation()

    report = kept.verify()

    assert (report.ok, report.damaged) == (False, ())
    assert kept._context.catalogue.generation() != before


def test_damage_does_not_keep_bytes_from_being_freed_for_ever(
    kept: Workspace, store: Path, clock: FakeClock, request: pytest.FixtureRequest
) -> None:
    """K4: once what is damaged was set aside, the rest is pruned and freed as ever."""
    request.node.add_marker(pytest.mark.damages)
    for number in range(6):
        Path(kept.path, "large").write_bytes(noise(number))
        save(kept, number, pin=number == 0)
        if number == 0:
            (pinned,) = packs_of(store)
    pinned.chmod(0o600)
    pinned.write_bytes(pinned.read_bytes()[:-3000])
    kept.verify(repair=True)
    full = pack_bytes(store)

    kept.prune(keep=1)
    clock.advance(2 * DAY)
    kept.maintain()

    assert pack_bytes(store) < full / 2
    assert len(ids(kept)) == 2


def test_a_sweep_that_was_killed_is_made_good_by_the_next_maintenance(kept: Workspace, store: Path) -> None:
    """K3: rows dropped, bytes still there."""
    for number in range(3):
        Path(kept.path, "large").write_bytes(noise(number))
        save(kept, number)
    kept.delete(*ids(kept)[1:])
    catalogue = writers(kept._context).catalogue
    catalogue.drop([one.id for one in catalogue.find(Query(deleted=True))])
    full = pack_bytes(store)

    kept.maintain()

    assert pack_bytes(store) < full / 2
    assert kept.verify(deep=True).ok


def test_what_was_pinned_meanwhile_does_not_go(kept: Workspace) -> None:
    """K1: between the decision and the deletion."""
    first = save(kept, "first")
    save(kept, "second")
    catalogue = writers(kept._context).catalogue
    known = [kept.get(first.id)]
    kept.pin(first.id)

    assert catalogue.delete_unchanged(known, at=Instant(at=1)) == []
    assert first.id in ids(kept)


def test_what_was_freed_since_it_was_looked_up_is_not_found(kept: Workspace) -> None:
    first = save(kept, "first")
    save(kept, "second")
    kept.delete(first.id)
    kept.prune(keep=2, now=True)

    with pytest.raises(lastgood.NotFound, match="is gone"):
        prune.delete(kept._context, [first])


def test_sizes_are_told_by_workspace_and_by_session(kept: Workspace, store: Path) -> None:
    """K5."""
    Path(kept.path, "large").write_bytes(noise(1))
    gone = save(kept, "one")
    save(kept, "two")
    kept.delete(gone.id)

    found = kept.store_sizes()

    assert list(found.workspaces) == [kept._context.key]
    assert found.deleted > 50_000 > found.workspaces[kept._context.key] > 0
    assert found.store == found.parts.total > found.parts.objects > pack_bytes(store)


def test_eight_savers_beside_prunes_and_frees_lose_nothing(project: Path, store: Path) -> None:
    """K3, C3: every acknowledged checkpoint that no prune named can be restored."""
    saver = (
        "import lastgood, os, sys\n"
        "root, store, number = sys.argv[1:]\n"
        "with lastgood.open(root, store=store, maintenance='off') as workspace:\n"
        "    for turn in range(12):\n"
        "        open(f'{root}/by-{number}', 'w').write(f'{number} {turn}' * 300)\n"
        "        name = f'n{number}-{turn}' if turn % 3 == 0 else None\n"
        "        made = workspace.save(f'{number} {turn}', name=name)\n"
        "        print(made.checkpoint.id if made.created and made.checkpoint.name else '', flush=True)\n"
    )
    (project / "file").write_text("first")
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("first")
        running = [started(saver, project, store, number) for number in range(8)]
        while any(one.poll() is None for one in running):
            with suppress(Busy):  # on a machine so slow that the savers are never all between two saves
                workspace.prune(keep=4, now=True)
        named = [line for one in running for line in one.communicate()[0].split()]
        assert [one.returncode for one in running] == [0] * 8
        assert len(named) == 8 * 4
        assert set(named) <= set(ids(workspace))
        assert workspace.verify(deep=True).ok


def test_what_is_clearly_over_the_limit_is_pruned_beside_the_saves(
    project: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1: by a process of its own, which is bound by the same settings."""
    settings = tmp_path / "configuration" / "lastgood"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text("[retention]\nmax_checkpoints = 5\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    with lastgood.open(project, store=store, maintenance="background") as workspace:
        assert workspace.settings.limits.max_checkpoints == 5
        saved: list[str] = []
        # Not every save asks: so it goes on until one has pruned.
        while len(ids(workspace)) == len(saved) < MANY:
            saved.append(save(workspace, len(saved), kind="turn").id)
            until_tidied(store)

        assert set(ids(workspace)) < set(saved)
        assert len(saved) > 5


def test_a_repository_cannot_lower_what_is_kept(project: Path, store: Path) -> None:
    """K7: what it says of that is not heard, and told."""
    (project / ".lastgood.toml").write_text("[retention]\nmax_checkpoints = 1\n")

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert workspace.settings == Settings(watch=workspace.settings.watch)
        (note,) = workspace.remarks
    assert "retention.max_checkpoints' is not for a repository to decide" in note.message


def test_a_week_of_turns_over_many_workspaces_stays_under_the_limit(
    store: Path, tmp_path: Path, clock: FakeClock
) -> None:
    """K1: whatever the number of worktrees; nothing pinned goes, and each keeps its newest."""
    limit = 600_000
    settings = Settings(limits=LimitSettings(max_store_size=limit, max_checkpoints=30))
    pinned: dict[int, str] = {}
    newest: dict[int, str] = {}
    for day in range(7):
        for number in range(6):
            folder = tmp_path / f"worktree-{number}"
            folder.mkdir(exist_ok=True)
            with lastgood.open(
                folder, store=store, maintenance="off", clock=clock, settings=settings
            ) as workspace:
                for turn in range(8):
                    (folder / "file").write_bytes(noise(day * 1000 + number * 100 + turn)[:3000])
                    clock.advance(1000)
                    made = workspace.save(str(turn), kind="turn", pin=day == turn == 0).checkpoint
                    pinned.setdefault(number, made.id)
                    newest[number] = made.id
        clock.advance(DAY)
        with lastgood.open(tmp_path / "worktree-0", store=store, clock=clock, settings=settings) as workspace:
            workspace.maintain()
            every = [(one.id, one.workspace) for one in workspace._context.catalogue.find(Query())]
        left = {id for id, _ in every}
        assert {*newest.values(), *pinned.values()} <= left
        assert all(sum(path == where for _, where in every) <= 30 + 1 for _, path in every)
    with lastgood.open(tmp_path / "worktree-0", store=store, clock=clock, settings=settings) as workspace:
        clock.advance(2 * DAY)
        workspace.maintain()
        assert pack_bytes(store) <= limit
        assert workspace.verify(deep=True).ok


def test_what_a_policy_of_the_callers_own_lets_go_is_not_on_the_undo_stack(
    workspace: Workspace, project: Path
) -> None:
    """T8, K1."""
    ids = []
    for number in range(4):
        (project / "a").write_text(str(number))
        ids.append(workspace.save(f"save {number}", kind="risky").checkpoint.id)
    workspace.name(ids[0], "kept")
    workspace.restore(ids[1])
    (project / "a").write_text("later")
    workspace.save("later")
    assert workspace.delete_unkept(*ids[:3]) == (ids[1], ids[2])
    assert workspace.delete_unkept() == ()
    assert workspace.operations()[0].type == "restore"
    assert [one.id for one in workspace.list(kind="risky")] == [ids[3], ids[0]]
