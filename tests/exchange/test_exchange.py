"""Checkpoints leave one store and arrive in another: whole, proven, without what is private."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import lastgood
from lastgood.catalogue import Query
from lastgood.errors import Conflict, Damaged, Invalid, NotFound
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.exchange import ExportReport
from lastgood.model.session import Position, Progress
from lastgood.model.tree import Counts
from lastgood.settings import CaptureSettings, LimitSettings, Settings
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import Draft, Holdings, SaveTransaction
from lastgood.workspace import Workspace
from tools.command import module
from tools.harm import packs_of
from tools.parcels import facts_of, lines, members_of, rebuilt
from tools.unlocked import writers
from tools.values import not_none

SECRET = "ghp_" + "a1B2c3D4e5" * 4

INCLUDING = Settings(capture=CaptureSettings(include=(".env",)))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Where the store of another machine is."""
    return tmp_path / "other-store"


@pytest.fixture
def parcel(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.tar"


def opened(folder: Path, store: Path, **more: Any) -> Workspace:
    folder.mkdir(exist_ok=True)
    return lastgood.open(folder, store=store, maintenance="off", **more)


def fill(workspace: Workspace, *, large: int = 9 << 10) -> list[Checkpoint]:
    """Make three checkpoints of many kinds of entries, one of a size that is given."""
    root = Path(workspace.path)
    (root / "src").mkdir()
    (root / "src" / "app.py").write_text("print()\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o750)
    (root / "empty").mkdir()
    (root / "link").symlink_to("src/app.py")
    # The same at each run: in other bytes something could look like a secret.
    (root / "large").write_bytes(random.Random(9).randbytes(large))
    os.mkdir(os.fsencode(root) + b"/\xff\xfe\n")
    (root / "src" / "app.py").touch()
    made = [workspace.save("one").checkpoint]
    (root / "src" / "app.py").write_text("print(2)\n")
    made.append(workspace.save("two", name="second", pin=True, metadata={"why": "because"}).checkpoint)
    (root / "large").unlink()
    made.append(workspace.save("three").checkpoint)
    return made


def records(workspace: Workspace) -> list[Checkpoint]:
    return list(workspace._context.catalogue.find(Query()))


def test_checkpoints_arrive_as_they_were(
    workspace: Workspace, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """Invariant 7: ids, names, pins, order, commits and every byte."""
    made = fill(workspace, large=9 << 20)  # more than is held in memory as a whole
    workspace.export(parcel)

    with opened(tmp_path / "elsewhere", other) as there:
        report = there.import_file(parcel)

        assert report.checkpoints == tuple(one.id for one in made)
        assert records(there) == records(workspace)
        assert there.verify(deep=True).ok
        there.restore(made[0].id, to=tmp_path / "aside")
    assert (tmp_path / "aside" / "large").read_bytes()
    assert (tmp_path / "aside" / "run.sh").stat().st_mode & 0o777 == 0o750
    assert os.path.isdir(os.fsencode(tmp_path / "aside") + b"/\xff\xfe\n")


def test_importing_twice_adds_nothing(
    workspace: Workspace, tmp_path: Path, other: Path, parcel: Path
) -> None:
    made = fill(workspace)
    workspace.export(parcel)
    with opened(tmp_path / "elsewhere", other) as there:
        there.import_file(parcel)
        before, packs = records(there), sorted(other.rglob("*.pack"))

        again = there.import_file(parcel)

        assert again.checkpoints == ()
        assert again.known == tuple(one.id for one in made)
        assert records(there) == before
        assert sorted(other.rglob("*.pack")) == packs
    assert workspace.import_file(parcel).checkpoints == ()


def test_a_later_export_adds_what_is_new_and_keeps_the_order(
    workspace: Workspace, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """S15: also where the other store has checkpoints of its own in between."""
    first = fill(workspace)
    with opened(tmp_path / "elsewhere", other) as there:
        (tmp_path / "elsewhere" / "own").write_text("1")
        there.save("own")
        workspace.export(parcel, first[0].id, first[2].id)
        there.import_file(parcel)
        (tmp_path / "elsewhere" / "own").write_text("2")
        there.save("own again")
        (Path(workspace.path) / "more").write_text("more")
        last = workspace.save("more").checkpoint
        workspace.export(tmp_path / "later.tar")

        there.import_file(tmp_path / "later.tar")

        mine = [one.id for one in records(there) if one.manifest.workspace_key == workspace._context.key]
        assert mine == [last.id, *(one.id for one in reversed(first))]
        assert there.verify(deep=True).ok


def test_what_was_deleted_comes_back_by_an_import(workspace: Workspace, parcel: Path) -> None:
    made = fill(workspace)
    workspace.export(parcel)
    order = [one.id for one in workspace.list()]
    workspace.delete(made[0].id)
    workspace.prune(keep=1, now=True)
    workspace.delete(made[2].id)

    report = workspace.import_file(parcel)

    assert [one.id for one in workspace.list()] == order
    assert report.known == (made[1].id,)
    assert workspace.verify(deep=True).ok


def test_a_folder_goes_on_with_what_was_attached(
    workspace: Workspace, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """S19, K8: also where a folder of the same path is there, on another machine."""
    made = fill(workspace)
    workspace.export(parcel)
    members = members_of(parcel)
    facts = facts_of(members)
    facts[0]["machine"] = "another machine"
    rebuilt(parcel, members | {"facts.jsonl": lines(facts)})

    with opened(tmp_path / "elsewhere", other) as there:
        report = there.import_file(parcel, attach=True)

        assert report.attached == str(tmp_path / "elsewhere")
        assert there.get("@").id == made[2].id
        there.restore("second")
        assert (tmp_path / "elsewhere" / "src" / "app.py").read_text() == "print(2)\n"
        (tmp_path / "elsewhere" / "new").write_text("new")
        there.save("goes on")
    with opened(tmp_path / "elsewhere", other) as again:
        assert again.list()[0].message == "goes on"


def test_a_workspace_of_another_machine_is_told_as_that(
    workspace: Workspace, project: Path, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """S19: a folder here of the same path is another one."""
    fill(workspace)
    workspace.export(parcel)
    members = members_of(parcel)
    facts = facts_of(members)
    facts[0]["machine"] = "another machine"
    rebuilt(parcel, members | {"facts.jsonl": lines(facts)})

    with opened(tmp_path / "elsewhere", other) as there:
        there.import_file(parcel)

        assert [one.present for one in there.workspaces()] == [False]
        (note,) = (one for one in there.status().health if one.code == "moved-here")
        assert note.message.startswith(f"{project}, of another machine, has ")


def test_a_missing_file_is_not_found(workspace: Workspace, parcel: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        workspace.import_file(parcel)


@pytest.mark.parametrize("why", ["the folder that it comes from is there", "this folder has its own"])
def test_what_cannot_be_attached_is_not_imported_either(
    workspace: Workspace, project: Path, tmp_path: Path, other: Path, parcel: Path, why: str
) -> None:
    """S19: all of it or nothing."""
    fill(workspace)
    workspace.export(parcel)
    if why == "this folder has its own":
        project.rename(tmp_path / "moved")

    with opened(tmp_path / "elsewhere", other) as there:
        if why == "this folder has its own":
            (tmp_path / "elsewhere" / "mine").write_text("mine")
            there.save("mine")
        before = records(there)
        with pytest.raises(Conflict) as caught:
            there.import_file(parcel, attach=True)
        assert records(there) == before

    assert "nothing was imported" in (caught.value.hint or "")


def test_private_files_stay_at_home_and_are_never_taken_for_deleted(
    project: Path, store: Path, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """S5, T4: the copy says what it lacks; restoring it keeps the file that is there."""
    with opened(project, store, settings=INCLUDING) as workspace:
        (project / ".gitignore").write_text(".env\n")
        (project / ".env").write_text("CODE=very private words\n")
        (project / "deep").mkdir()
        (project / "deep" / ".env").write_text("CODE=very private words too\n")
        (project / "deep" / "plain").write_text("plain\n")
        saved = workspace.save("one").checkpoint
        report = workspace.export(parcel)
        assert report.withheld[0].paths == (b".env", b"deep/.env")
    project.rename(tmp_path / "moved")
    target = tmp_path / "elsewhere"
    with opened(target, other, settings=INCLUDING) as there:
        there.import_file(parcel, attach=True)
        arrived = there.get(saved.id)
        assert {gap.path: gap.reason for gap in arrived.gaps} == {
            b".env": "withheld",
            b"deep/.env": "withheld",
        }
        assert arrived.files == saved.files - 2
        assert there.verify(deep=True).ok
        assert _contents(there) == {"deep/plain": b"plain\n", ".gitignore": b".env\n"}
        (target / ".env").write_text("CODE=of this machine\n")
        (target / "deep").mkdir()
        (target / "deep" / ".env").write_text("")
        there.restore(saved.id)
        assert (target / ".env").read_text() == "CODE=of this machine\n"
        assert (target / "deep" / ".env").exists()
        assert (target / "deep" / "plain").read_text() == "plain\n"
        assert there.import_file(parcel).checkpoints == ()
    (tmp_path / "moved").rename(project)
    with opened(project, store) as home:
        assert home.import_file(parcel).checkpoints == ()
        assert home.read(saved.id, ".env") == b"CODE=very private words\n"


def _contents(there: Workspace) -> dict[str, bytes]:
    files = [entry.path for entry in there.entries("@") if entry.kind == "file"]
    return {os.fsdecode(path): there.read("@", path) for path in files}


def test_private_files_leave_when_asked_for(
    project: Path, store: Path, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """S5."""
    with opened(project, store, settings=INCLUDING) as workspace:
        (project / ".gitignore").write_text(".env\n")
        (project / ".env").write_text("CODE=very private words\n")
        saved = workspace.save("one").checkpoint
        assert workspace.export(parcel, private=True).withheld == ()
    with opened(tmp_path / "elsewhere", other) as there:
        there.import_file(parcel)
        assert there.read(saved.id, ".env") == b"CODE=very private words\n"
        assert there.get(saved.id).commit == saved.commit


def test_a_reduced_copy_that_stays_is_named_with_the_way_to_the_whole_one(
    project: Path, store: Path, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """Never claim what was not done: the private file of the second export does not arrive by itself."""
    with opened(project, store, settings=INCLUDING) as workspace:
        (project / ".gitignore").write_text(".env\n")
        (project / ".env").write_text("CODE=very private words\n")
        saved = workspace.save("one").checkpoint
        workspace.export(parcel)
        workspace.export(tmp_path / "whole.tar", private=True)
    project.rename(tmp_path / "moved")
    fresh = tmp_path / "elsewhere"
    fresh.mkdir()
    assert module(fresh, other, "import", str(parcel), "--attach").returncode == 0

    again = module(fresh, other, "import", str(tmp_path / "whole.tar"))

    assert "1 reduced copy" in again.stderr
    assert f"delete {saved.id}" in again.stderr
    assert module(fresh, other, "delete", saved.id).returncode == 0
    assert module(fresh, other, "prune", "--now", "--yes").returncode == 0
    last = module(fresh, other, "import", str(tmp_path / "whole.tar"), "--json")
    assert json.loads(last.stdout)["reduced"] == []
    with opened(fresh, other) as there:
        assert there.read(saved.id, ".env") == b"CODE=very private words\n"


def test_where_the_folder_of_an_import_is_there_it_is_named(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path, parcel: Path
) -> None:
    """S19: it cannot be attached to another folder, so that is not what is said to be typed."""
    saved = workspace.save("one").checkpoint
    workspace.export(parcel)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    said = module(elsewhere, store, "import", str(parcel)).stdout

    assert "attach" not in said
    assert f"-C {project} " in said
    assert saved.short_id in module(project, store, "list").stdout


def test_what_is_said_to_be_typed_after_an_import_attaches_it(
    workspace: Workspace, project: Path, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """Output: in the folder that somebody chooses, also where the import was told of another one."""
    saved = workspace.save("one").checkpoint
    workspace.export(parcel)
    workspace.close()
    project.rename(tmp_path / "moved")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    said = module(elsewhere, other, "import", str(parcel)).stdout

    command, _, words = said.splitlines()[-1].partition(" workspace ")
    assert command.endswith(f"lastgood -C FOLDER --store {other}")
    assert module(elsewhere, other, "workspace", *words.split()).returncode == 0
    assert saved.short_id in module(elsewhere, other, "list").stdout


def test_what_only_a_guard_holds_is_private_too(workspace: Workspace, project: Path, parcel: Path) -> None:
    """S5, T2: an ignored file that a restore was about to overwrite."""
    (project / "notes").write_text("first\n")
    first = workspace.save("first").checkpoint
    (project / ".gitignore").write_text("notes\n")
    (project / "notes").unlink()
    workspace.save("ignored")
    (project / "notes").write_text("words of a person\n")
    guard = not_none(workspace.restore(first.id).guard)

    report = workspace.export(parcel)

    assert {one.id: one.paths for one in report.withheld}.get(guard) == (b"notes",)


def withheld_of(report: ExportReport) -> dict[str, tuple[bytes, ...]]:
    return {one.id: one.paths for one in report.withheld}


def test_ordinary_files_leave_after_a_restore_and_an_undo(
    workspace: Workspace, project: Path, parcel: Path
) -> None:
    """S5: a guard names what an undo touches, and yet only what no save would capture is private."""
    (project / "app.py").write_text("one\n")
    first = workspace.save("one").checkpoint
    (project / "app.py").write_text("two\n")
    (project / "new.py").write_text("new\n")
    workspace.restore(first.id)
    (project / "other.py").write_text("since\n")
    undone = workspace.undo()

    report = workspace.export(parcel)

    assert report.withheld == ()
    assert workspace.get(not_none(undone.guard)).manifest.forced == ()


def test_a_file_over_the_cap_that_only_a_guard_holds_stays(project: Path, store: Path, parcel: Path) -> None:
    """S7, T2: no checkpoint holds it, and beside it ordinary files leave."""
    small = Settings(capture=CaptureSettings(max_file_size=1000))
    with opened(project, store, settings=small) as workspace:
        (project / "data").write_text("small\n")
        (project / "app.py").write_text("one\n")
        first = workspace.save("one").checkpoint
        (project / "data").write_text("x" * 5000)
        (project / "app.py").write_text("two\n")
        guard = workspace.restore(first.id, paths=["data", "app.py"]).guard

        report = workspace.export(parcel)

        assert guard is not None
        assert workspace.read(guard, "data") == b"x" * 5000
        assert withheld_of(report) == {guard: (b"data",)}
        workspace.save("after")
        assert workspace.get("@").manifest.private == ()


def test_what_older_versions_marked_as_forced_leaves_where_it_is_ordinary(
    project: Path, store: Path, parcel: Path
) -> None:
    """S5: they marked all that an undo touches; files over the cap were marked in no other way."""
    small = Settings(capture=CaptureSettings(max_file_size=1000, include=(".env",)))
    with opened(project, store, settings=small) as workspace:
        (project / ".gitignore").write_text(".env\n")
        (project / ".env").write_text("CODE=very private words\n")
        (project / "app.py").write_text("one\n")
        (project / "data").write_text("x" * 5000)
        paths = (b".env", b"app.py", b"data", b"gone")
        context = workspace._context
        with SaveTransaction(context) as saving, WorkspaceSnapshot(saving, forced=paths) as snapshot:
            result = snapshot.scan.result
            guard = saving.add(
                Draft(kind="guard"),
                scan=result.replace(private=(b".env",)),
                writer=snapshot._writer,
                changes=Counts(),
                previous=None,
                holdings=Holdings(standing=snapshot.standing),
                forced=paths,
            )

        report = workspace.export(parcel)

    assert withheld_of(report) == {guard.id: (b".env", b"data")}


class ExportHistories(RuleBasedStateMachine):
    """S5, T2: whatever was saved, restored and undone, an export leaves out just what is ignored."""

    NAMES = ("app.py", "src/lib.py", "notes", ".env", "src/.env")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.project = self.folder / "project"
        (self.project / "src").mkdir(parents=True)
        (self.project / ".gitignore").write_text(".env\nnotes\n")
        self.workspace = opened(self.project, self.folder / "store", settings=INCLUDING)
        self.write("app.py", 9)
        self.workspace.save("first")

    @rule(name=st.sampled_from(NAMES), content=st.integers(0, 3))
    def write(self, name: str, content: int) -> None:
        (self.project / name).write_text(f"{name} {content}\n")

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        (self.project / name).unlink(missing_ok=True)

    @rule()
    def save(self) -> None:
        self.workspace.save("one")

    @rule(back=st.integers(0, 3), undo=st.sampled_from(["no", "plainly", "by force"]))
    def restore(self, back: int, undo: str) -> None:
        made = self.workspace.list()
        self.workspace.restore(made[min(back, len(made) - 1)].id)
        if undo != "no":
            with suppress(Conflict, NotFound):
                self.workspace.undo(force=undo == "by force")

    def teardown(self) -> None:
        try:
            made = self.workspace.list()
            report = self.workspace.export(self.folder / "out.tar")
            left_out = withheld_of(report)
            for one in made:
                files = {entry.path for entry in self.workspace.entries(one.id) if entry.kind == "file"}
                ignored = {path for path in files if path.endswith((b".env", b"notes"))}
                assert set(left_out.get(one.id, ())) == ignored
        finally:
            self.workspace.close()
            shutil.rmtree(self.folder)


TestExportHistories = ExportHistories.TestCase

TestExportHistories.settings = hypothesis.settings(max_examples=12, stateful_step_count=12)


def test_files_that_show_secrets_stop_an_export_with_a_list(
    workspace: Workspace, project: Path, parcel: Path
) -> None:
    """S17: until allowed."""
    (project / "deploy.sh").write_text(f"export GITHUB_TOKEN={SECRET}\n")
    workspace.save("one")

    with pytest.raises(lastgood.Unsafe, match=r"1 file shows what looks like a secret") as refused:
        workspace.export(parcel)

    assert refused.value.details["finds"] == [{"path": "deploy.sh", "line": 1, "kind": "github-token"}]
    assert not parcel.exists()
    workspace.export(parcel, allow_secrets=True)
    assert parcel.exists()


def test_a_large_file_that_shows_a_secret_stops_an_export_too(
    workspace: Workspace, project: Path, parcel: Path
) -> None:
    """S17: a file that is never held in memory as a whole."""
    noise = random.Random(7).randbytes(9 << 20)
    (project / "dump").write_bytes(noise + b"\n" + SECRET.encode())
    (project / "noise").write_bytes(noise)
    workspace.save()
    with pytest.raises(lastgood.Unsafe) as caught:
        workspace.export(parcel)
    assert caught.value.details["files"] == ["dump"]


def test_texts_leave_without_secrets_unless_exact(
    workspace: Workspace, project: Path, tmp_path: Path, other: Path, parcel: Path
) -> None:
    """S17: the messages of manifests; ids stay."""
    (project / "file").write_text("1")
    saved = workspace.save(f"use {SECRET} for it").checkpoint
    assert workspace.export(parcel).withheld[0].redacted
    exact = tmp_path / "exact.tar"
    workspace.export(exact, exact=True)

    with opened(tmp_path / "elsewhere", other) as there:
        there.import_file(parcel)
        arrived = there.get(saved.id)
        assert SECRET not in arrived.message
        assert arrived.manifest.withheld == ("secrets",)
        assert arrived.manifest.copy_of == saved.commit
    with opened(tmp_path / "third", tmp_path / "third-store") as there:
        there.import_file(exact)
        assert there.get(saved.id).message == saved.message


def test_the_backup_and_the_recipe_of_the_guide_work(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path, other: Path
) -> None:
    """AIWF: an archive of today, cleaned here, imported there; an unfinished session shows."""
    (project / "file").write_text("1")
    assert module(project, store, "session", "start", "--goal", "migrate").returncode == 0
    (project / "file").write_text("2")
    workspace.save("first")
    name = tmp_path / "checkpoints-20261121.tar"

    assert module(project, store, "export", str(name)).returncode == 0
    assert module(project, store, "checkpoint", "clean", "--keep", "10").returncode == 0
    project.rename(tmp_path / "not on that machine")
    fresh = tmp_path / "ci"
    fresh.mkdir()
    done = module(fresh, other, "import", str(name), "--attach", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sessions"] == 1
    assert "incomplete" in module(fresh, other, "checkpoint", "status").stdout
    assert "first" in module(fresh, other, "checkpoint", "list").stdout


def test_the_file_is_read_by_ordinary_tools(workspace: Workspace, tmp_path: Path, parcel: Path) -> None:
    made = fill(workspace)
    workspace.export(parcel)
    folder = tmp_path / "by-hand"
    folder.mkdir()

    subprocess.run(["tar", "xf", parcel], cwd=folder, check=True)
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=folder, check=True)
    subprocess.run(["git", "init", "-q", "--bare", "r"], cwd=folder, check=True)
    with open(folder / "objects.pack", "rb") as pack:
        subprocess.run(["git", "-C", "r", "unpack-objects", "-q"], cwd=folder, stdin=pack, check=True)
    shown = subprocess.run(
        ["git", "-C", "r", "show", f"{made[1].commit}:workspace/src/app.py"],
        cwd=folder,
        check=True,
        capture_output=True,
    ).stdout
    facts = [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]

    assert shown == b"print(2)\n"
    assert [one["id"] for one in facts if one["fact"] == "checkpoint"] == [one.id for one in made]


def test_a_file_that_is_there_is_not_overwritten(workspace: Workspace, parcel: Path) -> None:
    fill(workspace)
    parcel.write_text("mine")

    with pytest.raises(lastgood.Invalid):
        workspace.export(parcel)

    assert parcel.read_text() == "mine"
    assert [path.name for path in parcel.parent.glob("checkpoints*")] == [parcel.name]


def test_an_export_to_the_same_file_leaves_one_alone_that_is_about_to_be_named(
    workspace: Workspace, tmp_path: Path, parcel: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: it clears what killed ones left, and is killed itself before it has named its own."""
    made = fill(workspace)
    link = os.link

    def killed(old: bytes, new: bytes) -> None:
        del old, new
        raise KeyboardInterrupt

    with opened(tmp_path / "beside", other) as beside:
        beside.save("beside")

        def meanwhile(old: bytes, new: bytes) -> None:
            monkeypatch.setattr(os, "link", killed)
            with suppress(KeyboardInterrupt):
                beside.export(parcel)
            link(old, new)

        monkeypatch.setattr(os, "link", meanwhile)
        report = workspace.export(parcel)

    assert set(report.checkpoints) == {one.id for one in made}
    assert parcel.exists()
    assert not list(parcel.parent.glob("*.part-*"))


def test_an_export_clears_no_pipe_whatever_its_name(workspace: Workspace, parcel: Path) -> None:
    """K3: none of ours is one, and it reads as if it were empty."""
    fill(workspace)
    pipe = parcel.with_name(f"{parcel.name}.part-0123456789ab")
    os.mkfifo(pipe)

    workspace.export(parcel)

    assert pipe.is_fifo()


# Hostile and broken files: each is refused with a typed error, and nothing is imported.


@pytest.fixture
def sound(workspace: Workspace, parcel: Path) -> dict[str, bytes]:
    """The members of a sound export."""
    root = Path(workspace.path)
    (root / "file").write_text("content\n")
    workspace.save("one")
    (root / "file").write_text("content 2\n")
    workspace.save("two", name="two")
    workspace.export(parcel)
    return members_of(parcel)


def assert_refused(file: Path, other: Path, *kinds: type[Exception]) -> None:
    with opened(other.parent / "elsewhere", other) as there:
        with pytest.raises(kinds) as caught:
            there.import_file(file)
        assert isinstance(caught.value, lastgood.LastgoodError)
        assert caught.value.hint
        assert records(there) == []
        assert there.workspaces() == ()
        assert packs_of(other, "") == []
        assert [path for path in (other / "tmp").rglob("*") if path.is_file()] == []
        assert there.verify().ok


def test_a_file_cut_off_anywhere_is_refused(sound: dict[str, bytes], parcel: Path, other: Path) -> None:
    whole = parcel.read_bytes()
    places = [0, 1, 511, 512, 700, *range(1024, len(whole), 512), len(whole) - 1025, len(whole) - 1500]
    for place in places:
        parcel.write_bytes(whole[:place])
        if place > len(whole) - 1024:
            continue
        assert_refused(parcel, other, lastgood.Damaged)


def test_a_flipped_bit_anywhere_is_refused(sound: dict[str, bytes], parcel: Path, other: Path) -> None:
    whole = parcel.read_bytes()
    for place in range(0, len(whole) - 1024, 97):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << (place % 8)
        parcel.write_bytes(bytes(flipped))
        if not _is_padding(whole, place):
            assert_refused(parcel, other, lastgood.Damaged)


def _is_padding(whole: bytes, place: int) -> bool:
    """Tell whether a byte lies between a member's end and the next block: nobody reads it."""
    import io

    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        for one in archive:
            end = one.offset_data + one.size
            if end <= place < -(-end // 512) * 512:
                return True
    return False


def _twice(facts: list[dict[str, Any]]) -> None:
    facts.append(dict(next(one for one in facts if one["fact"] == "checkpoint")))


def _swapped(facts: list[dict[str, Any]]) -> None:
    first, second = (one for one in facts if one["fact"] == "checkpoint")
    first["commit"], second["commit"] = second["commit"], first["commit"]


def _change(kind: str, key: str, value: object) -> Callable[[list[dict[str, Any]]], None]:
    def change(facts: list[dict[str, Any]]) -> None:
        next(one for one in facts if one["fact"] == kind)[key] = value

    return change


def _session(**changed: object) -> Callable[[list[dict[str, Any]]], None]:
    def change(facts: list[dict[str, Any]]) -> None:
        key = next(one["key"] for one in facts if one["fact"] == "workspace")
        from lastgood.model.session import SESSION, Owner, Session

        session = Session(
            id="sess_00", workspace_key=key, owner=Owner(host="h"), started_at=1, heartbeat_at=1
        )
        facts.append({"fact": "session", "session": json.loads(SESSION.encode(session)) | changed})

    return change


@pytest.mark.parametrize(
    "change",
    [
        _twice,
        _session(heartbeat_at=1 << 70),
        _session(id="\ud800"),
        _session(workspace_key="another"),
        _session(state="surprise"),
        _swapped,
        _change("checkpoint", "commit", "00" * 20),
        _change("checkpoint", "id", "ckpt_../../../../etc"),
        _change("checkpoint", "id", "ckpt_0123456789abcdef"),
        _change("checkpoint", "name", "../../x"),
        _change("checkpoint", "sequence", 1 << 63),
        _change("checkpoint", "sequence", -5),
        _change("checkpoint", "pinned", "yes"),
        _change("workspace", "key", "../../locks"),
        _change("workspace", "path", "relative"),
        _change("workspace", "key", "abcd"),
        _change("workspace", "fact", "surprise"),
    ],
)
def test_facts_that_lie_are_refused(
    sound: dict[str, bytes], parcel: Path, other: Path, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    facts = facts_of(sound)
    change(facts)

    assert_refused(rebuilt(parcel, sound | {"facts.jsonl": lines(facts)}), other, lastgood.Damaged)


def test_names_that_lead_elsewhere_are_refused(sound: dict[str, bytes], parcel: Path, other: Path) -> None:
    for name in ("../../evil", "/etc/passwd", "facts.jsonl/../x"):
        changed = {name if key == "facts.jsonl" else key: value for key, value in sound.items()}
        assert_refused(rebuilt(parcel, changed, reseal=False), other, lastgood.Damaged)
    with tarfile.open(parcel, "w") as archive:
        link = tarfile.TarInfo("lastgood.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert_refused(parcel, other, lastgood.Damaged)


def test_a_newer_form_is_unsupported(sound: dict[str, bytes], parcel: Path, other: Path) -> None:
    header = json.loads(sound["lastgood.json"]) | {"schema": "lastgood.export/2"}

    assert_refused(
        rebuilt(parcel, sound | {"lastgood.json": json.dumps(header).encode()}), other, lastgood.Unsupported
    )


def packed(*objects: tuple[int, int, bytes]) -> bytes:
    """Return a pack of entries: kind, claimed size, compressed bytes."""
    import hashlib
    from struct import pack

    from lastgood.objects.pack import entry_header

    body = b"PACK" + pack(">II", 2, len(objects))
    body += b"".join(entry_header(kind, size) + raw for kind, size, raw in objects)
    return body + hashlib.sha1(body).digest()


def bounded(members: dict[str, bytes], pack: bytes, **bounds: int) -> dict[str, bytes]:
    header = json.loads(members["lastgood.json"])
    header["pack"] |= {"objects": 1, "largest": 1 << 20, "total": 1 << 20} | bounds
    return members | {"objects.pack": pack, "lastgood.json": json.dumps(header).encode()}


def test_a_bomb_is_not_inflated(sound: dict[str, bytes], parcel: Path, other: Path) -> None:
    import zlib

    big = zlib.compress(bytes(300 << 20), 9)

    lying = bounded(sound, packed((3, 1 << 19, big)))
    assert_refused(rebuilt(parcel, lying), other, lastgood.Damaged)
    honest = bounded(sound, packed((3, 300 << 20, big)), largest=300 << 20, total=300 << 30)
    assert_refused(rebuilt(parcel, honest), other, lastgood.Storage)
    over = bounded(sound, packed((3, 300 << 20, big)))
    assert_refused(rebuilt(parcel, over), other, lastgood.Damaged)


def test_objects_that_are_not_what_they_say_are_refused(
    sound: dict[str, bytes], parcel: Path, other: Path
) -> None:
    """Deltas, unknown kinds, too few, garbage."""
    import zlib

    small = zlib.compress(b"x")
    for pack in (
        packed((6, 1, b"\x01" + small)),
        packed((7, 1, bytes(20) + small)),
        packed((5, 1, small)),
        packed((3, 1, small), (3, 1, small)),
        packed((3, 1, small))[:-20] + bytes(20),
        packed((3, 1, b"garbage")),
        packed((3, 1, small)),
        b"PACK",
        b"",
    ):
        assert_refused(rebuilt(parcel, bounded(sound, pack)), other, lastgood.Damaged)


def test_an_id_that_is_known_with_other_contents_is_a_conflict(
    sound: dict[str, bytes], workspace: Workspace, parcel: Path, tmp_path: Path, other: Path
) -> None:
    from lastgood.testing.clock import FakeClock

    with opened(tmp_path / "elsewhere", other, clock=FakeClock(seed=7)) as there:
        (tmp_path / "elsewhere" / "a").write_text("1")
        mine = there.save("mine").checkpoint
    with opened(tmp_path / "third", tmp_path / "third-store", clock=FakeClock(seed=7)) as third:
        (tmp_path / "third" / "b").write_text("2")
        theirs = third.save("theirs").checkpoint
        if theirs.id != mine.id:
            pytest.fail("the clocks of this test mint other ids")
        third.export(tmp_path / "third.tar")
    with opened(tmp_path / "elsewhere", other) as there:
        before = records(there)
        with pytest.raises(lastgood.Conflict):
            there.import_file(tmp_path / "third.tar")
        assert records(there) == before


def test_an_export_over_the_limit_of_the_store_is_refused(
    sound: dict[str, bytes], parcel: Path, other: Path
) -> None:
    """K1: with its size named, and before it is read."""
    settings = Settings(limits=LimitSettings(max_store_size=100))
    with opened(other.parent / "elsewhere", other, settings=settings) as there:
        with pytest.raises(lastgood.Storage, match="100"):
            there.import_file(parcel)
        assert records(there) == []


def test_garbage_is_no_export(tmp_path: Path, other: Path, parcel: Path) -> None:
    for content in (b"", b"\0" * 5000, b"hello", os.urandom(4000)):
        parcel.write_bytes(content)
        assert_refused(parcel, other, lastgood.Damaged)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert_refused(fifo, other, lastgood.Invalid)
    assert_refused(tmp_path / "nothing", other, lastgood.NotFound)
    assert_refused(tmp_path, other, lastgood.Invalid, lastgood.Storage)


def said(*texts: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": text} for text in texts]


def test_conversations_leave_without_secrets_exactly_or_not_at_all(
    workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    """S17, P5: as asked; what was left out is said in the record."""
    (project / "file").write_text("1")
    saved = workspace.save("one", messages=said("hello", f"my key is {SECRET}")).checkpoint
    ways: dict[str, dict[str, bool]] = {
        "shown": {},
        "exact": {"exact": True},
        "none": {"conversation": False},
    }
    found = {}
    for name, asked in ways.items():
        workspace.export(tmp_path / f"{name}.tar", **asked)
        with opened(tmp_path / "elsewhere", tmp_path / f"{name}-store") as there:
            there.import_file(tmp_path / f"{name}.tar")
            arrived = there.get(saved.id)
            assert there.verify(deep=True).ok
            found[name] = arrived.conversation
            raw = b"".join(there._context.engine.read_blob(oid) for oid in _segments(there, arrived))
            assert (SECRET.encode() in raw) is (name == "exact")
    assert found["none"] is None
    assert found["exact"] == saved.conversation
    assert found["shown"] is not None
    assert found["shown"].messages == 2


def _segments(there: Workspace, checkpoint: Checkpoint) -> list[bytes]:
    from lastgood.conversation.reader import blobs

    if checkpoint.conversation is None:
        return []
    return list(blobs(there._context.engine, checkpoint.conversation.tree))


def test_workspaces_are_listed_with_sizes_and_forgotten_from_anywhere(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """K8: also one whose folder is gone; the preview removes nothing."""
    (project / "file").write_bytes(os.urandom(10_000))
    workspace.save("one", pin=True)
    project.rename(tmp_path / "gone")
    away = tmp_path / "away"
    away.mkdir()

    listed = json.loads(module(away, store, "workspace", "list", "--json").stdout)["workspaces"]
    assert [(one["path"], one["present"]) for one in listed] == [(str(project), False)]
    assert listed[0]["stored_bytes"] > 10_000
    preview = module(away, store, "workspace", "forget", str(project), "--dry-run")
    assert "would delete 1 checkpoint" in preview.stdout
    assert module(away, store, "workspace", "forget", str(project)).returncode == 2
    assert len(workspace.list()) == 1
    assert module(away, store, "workspace", "forget", str(project), "--yes").returncode == 0
    assert workspace.list() == ()
    assert json.loads(module(away, store, "workspace", "list", "--json").stdout)["workspaces"] == []
    assert module(away, store, "undo").returncode == 0
    assert len(workspace.list()) == 1


def test_a_tree_that_names_more_paths_than_any_disk_holds_is_refused(workspace: Workspace) -> None:
    """A few objects, each naming the one before it ten times."""
    from lastgood.exchange.export import ObjectCopy
    from lastgood.model.tree import DIRECTORY, Entry
    from lastgood.workspace.exchange import Spool

    engine = writers(workspace._context).engine_of()
    writer = engine.writer()
    tree = writer.directory([])
    for _ in range(12):
        tree = writer.directory(
            [Entry(name=b"%d" % name, kind=DIRECTORY, mode=0o755, oid=tree.tree) for name in range(10)]
        )
    writer.publish()
    target = engine.writer()
    try:
        with pytest.raises(lastgood.Damaged):
            ObjectCopy(engine, target, spool=Spool(b"/tmp")).tree(tree)
    finally:
        target.abandon()


def test_what_is_known_to_be_damaged_does_not_keep_the_rest_from_leaving(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """K4: it is told, and exit code 3 says so."""
    request.node.add_marker(pytest.mark.damages)
    (project / "file").write_bytes(os.urandom(5000))
    hit = workspace.save("hit").checkpoint
    (pack,) = packs_of(store)
    (project / "file").write_bytes(os.urandom(5000))
    sound = workspace.save("sound").checkpoint
    pack.chmod(0o600)
    pack.write_bytes(pack.read_bytes()[:3000])
    with pytest.raises(lastgood.Damaged):
        workspace.export(tmp_path / "first.tar")
    assert not (tmp_path / "first.tar").exists()
    workspace.prune(verify=True)

    report = workspace.export(tmp_path / "second.tar")

    assert report.damaged == (hit.id,)
    assert report.checkpoints == (sound.id,)
    assert module(project, store, "export", str(tmp_path / "third.tar")).returncode == 3


def test_facts_nested_beyond_reading_are_refused(sound: dict[str, bytes], parcel: Path, other: Path) -> None:
    from lastgood.model.session import Progress, encode_progress

    key = next(one["key"] for one in facts_of(sound) if one["fact"] == "workspace")
    shallow = encode_progress(Progress(goal="x", state={"mark": 1}))
    for depth in (100_000, 5000, 900, 490, 330, 240, 100):
        record = shallow.replace('{"mark":1}', '{"a":' * depth + "1" + "}" * depth)
        assert record != shallow
        line = f'{{"fact":"progress","key":"{key}","workspace_key":"{key}","progress":{record}}}\n'
        rebuilt(parcel, sound | {"facts.jsonl": sound["facts.jsonl"] + line.encode()})
        if depth > 1000:
            assert_refused(parcel, other, lastgood.Damaged)
            continue
        # Between, it depends on the interpreter: refused, or taken in and of use.
        with opened(other.parent / "elsewhere", other.parent / f"store-{depth}") as there:
            try:
                there.import_file(parcel)
            except lastgood.Damaged:
                assert records(there) == []
            else:
                assert there._context.work.progress(key).goal == "x"
            assert there.verify(deep=True).ok


# Paths that an export brings: none that no disk can hold, none of files that are not its own (T12, S17).


NOWHERE = ("a\0b", "../outside", "/etc/passwd", "a//b")


@pytest.fixture
def parcel_of_session(workspace: Workspace, project: Path, tmp_path: Path) -> Path:
    """The export of a session with an artifact and a transcript; its folder is gone afterwards."""
    (project / "draft.md").write_text("draft\n")
    (tmp_path / "said.jsonl").write_text('{"role": "user", "content": "hello"}\n')
    with workspace.session("write", transcript=tmp_path / "said.jsonl") as session:
        session.progress(artifacts=["draft.md"])
        session.save("one", allow_empty=True)
    workspace.export(tmp_path / "out.tar")
    return tmp_path / "out.tar"


def altered(parcel_of_session: Path, key: str, value: object) -> Path:
    """Write an export in which every fact of some name says something else."""

    def alter(fact: Any) -> Any:
        if isinstance(fact, dict):
            return {name: value if name == key else alter(item) for name, item in fact.items()}
        return [alter(item) for item in fact] if isinstance(fact, list) else fact

    members = members_of(parcel_of_session)
    facts = alter(facts_of(members))
    assert json.dumps(value) in json.dumps(facts)
    return rebuilt(parcel_of_session.with_name("altered.tar"), members | {"facts.jsonl": lines(facts)})


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there").mkdir()
    return tmp_path / "there"


@pytest.mark.parametrize("path", NOWHERE)
def test_an_artifact_that_is_no_path_in_a_workspace_is_not_imported(
    parcel_of_session: Path, there: Path, tmp_path: Path, path: str
) -> None:
    with lastgood.open(there, store=tmp_path / "other", maintenance="off") as workspace:
        with pytest.raises(Damaged, match="artifact"):
            workspace.import_file(altered(parcel_of_session, "artifacts", [path]))
        assert workspace.list(all_workspaces=True) == ()


@pytest.mark.parametrize("path", ["/etc/hostname", "/a\0b"])
def test_no_transcript_is_taken_in_because_an_export_names_it(
    parcel_of_session: Path, there: Path, tmp_path: Path, path: str
) -> None:
    """S17: what lies at a path here is not the conversation of a session that was elsewhere."""
    with lastgood.open(there, store=tmp_path / "other", maintenance="off") as workspace:
        report = workspace.import_file(altered(parcel_of_session, "transcript", path))
        sessions = workspace._context.work.sessions(report.workspaces[0].key)
    assert [session.transcript for session in sessions] == [None]


@pytest.mark.parametrize("path", NOWHERE[:3])
def test_a_store_that_holds_such_an_artifact_stays_usable(workspace: Workspace, path: str) -> None:
    """T12: what an import of an earlier release brought is missing, and never made."""
    workspace.save("one", allow_empty=True)
    work, key = workspace._context.work, workspace._context.key
    work.change(
        lambda to: to.change_progress(
            key, lambda _: Progress(position=Position(artifacts=(path.encode(),))), workspace_key=key
        )
    )
    workspace.save("two", allow_empty=True)
    report = workspace.recover()
    assert [(one.path, one.state) for one in report.artifacts] == [(path.encode(), "missing")]
    assert workspace.status().state == "idle"


def test_a_transcript_that_no_disk_can_hold_costs_no_save(workspace: Workspace) -> None:
    """P5: it is as one that is not there."""
    transcripts = workspace._context.transcripts
    refused: list[tuple[type[Exception], Callable[[bytes], object]]] = [
        (Invalid, transcripts.open),
        (NotFound, transcripts.beside),
    ]
    for error, ask in refused:
        with pytest.raises(error, match="no path of a file"):
            ask(b"/a\0b")


def test_each_find_is_told_in_a_line_with_what_to_type(
    project: Path, store: Path, parcel: Path, workspace: Workspace
) -> None:
    """S17."""
    for name in ("deploy.sh", "src/keys.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(f"# {name}\nTOKEN = '{SECRET}'\n")
    workspace.save("one")

    done = module(project, store, "export", str(parcel))

    assert done.returncode == 15
    name = f"{sys.executable} -m lastgood -C {project} --store {store}"
    assert done.stderr.splitlines() == [
        "lastgood: 2 files show what looks like a secret; nothing was written",
        "    deploy.sh:2  github-token",
        "    src/keys.py:2  github-token",
        f"  if they may leave all the same: {name} export FILE --allow-secrets",
        f"  or take a file out of every checkpoint, for good: {name} purge PATH",
    ]
