"""Edits made at every call of a restore: none is lost, and nothing of ours stays behind (rule T12b).

A restore is stopped before one of its calls, and every path of the scene is edited then, each in its
own words. Where such an edit is afterwards decides: in the workspace, in a checkpoint, or in a place
outside that the report names.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from faults.cli import Bench
from faults.injector import Blow, Injector, Mode
from faults.scenes import assert_found, opened, recover
from faults.stage import Stage, tree_of
from tools.long_form import LONG

# Edits one path in some words; raises OSError where it cannot.
Editor = Callable[[Path, bytes], None]

pytestmark = pytest.mark.faults

# What is there before and after, or neither; above and below one another too.
PATHS = (
    "plain",
    "new",
    "made/new",
    "to-directory",
    "to-directory/inside",
    "to-file",
    "to-file/inside",
    "mode",
    "gone/x",
    "free",
)
# In the short form every so many calls are tried with the rarer editors.
STRIDE = 1 if LONG else 11


def _scene(stage: Stage) -> None:
    root = stage.workspace
    _put(root / "plain", "one\n")
    _put(root / "mode", "mode\n")
    _put(root / "to-directory", "a file that becomes a directory\n")
    _put(root / "to-file" / "inside", "a directory that becomes a file\n")
    _put(root / "gone" / "x", "goes away, and comes back\n")
    with opened(stage) as workspace:
        workspace.save("the first state", name="first")
        _put(root / "plain", "two\n")
        _put(root / "new", "new\n")
        _put(root / "made" / "new", "new below\n")
        (root / "to-directory").unlink()
        _put(root / "to-directory" / "inside", "now a directory\n")
        shutil.rmtree(root / "to-file")
        _put(root / "to-file", "now a file\n")
        (root / "mode").chmod(0o600)
        shutil.rmtree(root / "gone")
        workspace.save("the second state", name="second")


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _in_place(path: Path, words: bytes) -> None:
    with path.open("r+b" if path.exists() else "xb") as file:
        file.write(words)


def _by_rename(path: Path, words: bytes) -> None:
    beside = path.with_name(path.name + "~")
    with beside.open("xb") as file:
        file.write(words)
    try:
        beside.rename(path)
    except OSError:
        beside.unlink()
        raise


def _truncating(path: Path, words: bytes) -> None:
    with path.open("wb") as file:
        file.write(words)


def _making_a_directory(path: Path, words: bytes) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "in it").write_bytes(words)


EDITORS: Mapping[str, Editor] = {
    "in place": _in_place,
    "by rename": _by_rename,
    "truncating": _truncating,
    "making a directory": _making_a_directory,
}


def _edit(stage: Stage, editor: Editor) -> set[bytes]:
    """Edit every path, and return the words that are to be found again."""
    done = set()
    for name in PATHS:
        words = f"these words of a person are for {name} alone\n".encode()
        with suppress(OSError):
            editor(stage.workspace / name, words)
            done.add(words)
    return done


def _ours(stage: Stage) -> list[bytes]:
    """Return what of ours is in the workspace."""
    return [path for path in tree_of(stage.workspace) if b".lastgood" in path]


@pytest.fixture(scope="module")
def calls(injector: Injector, stage: Stage) -> int:
    """How many calls a restore of the scene makes on the workspace (in the long form: on the store too)."""
    stage.prepare(_scene)
    clean = injector.run("restore", _order(stage), roots=_roots(stage), blow=Blow())
    assert clean.said("restored"), clean.lines
    assert _ours(stage) == []
    return clean.calls


def _order(stage: Stage) -> dict[str, object]:
    return {"workspace": str(stage.workspace), "store": str(stage.store), "ref": "first"}


def _roots(stage: Stage) -> tuple[Path, ...]:
    return stage.roots if LONG else (stage.workspace,)


def _stopped(injector: Injector, stage: Stage, numbers: range) -> Iterator[tuple[int, str]]:
    """Stop a restore before some of its calls; the caller lets it go on."""
    for at in numbers:
        stage.reset()
        injector.start("restore", _order(stage), roots=_roots(stage), blow=Blow(at, Mode.PAUSE))
        if injector.paused():
            yield at, f"stopped before call {at}"
        else:
            injector.finish()


@pytest.mark.parametrize("how", EDITORS)
def test_an_edit_at_any_call_of_a_restore_is_not_lost(
    injector: Injector, stage: Stage, calls: int, how: str
) -> None:
    usual = how in {"in place", "by rename"}
    for _, where in _stopped(injector, stage, range(1, calls + 1, 1 if usual else STRIDE)):
        assert (stage.workspace / "plain").read_text() in {"one\n", "two\n"}, f"T6, {where}"
        words = _edit(stage, EDITORS[how])
        injector.go_on()
        trial = injector.finish()
        assert trial.status == 0, f"{where}: {trial.lines}"
        assert_found(stage, words, trial, f"{how}, {where} ({trial.hit})")
        assert _ours(stage) == [], f"{where} ({trial.hit})"


@pytest.mark.parametrize("late", [False, True], ids=["then", "after the end"])
def test_what_is_written_to_a_file_held_open_at_any_call_is_not_lost(
    injector: Injector, stage: Stage, calls: int, *, late: bool
) -> None:
    """The file was opened before the restore began."""
    for at in range(1, calls + 1, STRIDE):
        stage.reset()
        with ExitStack() as held:
            files = {}
            for name in PATHS:
                with suppress(OSError):
                    files[name] = held.enter_context((stage.workspace / name).open("r+b", buffering=0))
            injector.start("restore", _order(stage), roots=_roots(stage), blow=Blow(at, Mode.PAUSE))
            paused = injector.paused()
            words = {f"these words of a person are for {name} alone\n".encode(): name for name in files}
            for text, name in words.items() if not late else ():
                files[name].write(text)
            if paused:
                injector.go_on()
            trial = injector.finish()
            for text, name in words.items() if late else ():
                files[name].write(text)
        assert trial.status == 0, trial.lines
        assert_found(stage, set(words), trial, f"held open, stopped before call {at} ({trial.hit})")
        assert _ours(stage) == [], trial.hit


@pytest.mark.parametrize("roll_back", [False, True], ids=["forward", "back"])
@pytest.mark.parametrize("how", ["in place", "by rename"])
def test_an_edit_before_a_restore_was_killed_is_not_lost_in_its_recovery(
    injector: Injector, stage: Stage, calls: int, how: str, *, roll_back: bool
) -> None:
    """T7: what is left under a temporary name may be a person's."""
    first = 1 + 2 * roll_back + (how == "by rename")
    for _, where in _stopped(injector, stage, range(first, calls + 1, 1 if LONG else 6)):
        words = _edit(stage, EDITORS[how])
        injector.go_on(kill=True)
        trial = injector.finish()
        assert trial.killed, f"{where}: {trial.lines}"
        with opened(stage) as workspace:
            recover(workspace, roll_back=roll_back)
            assert workspace.status().state == "idle", where
        assert_found(stage, words, None, f"{how}, killed, {where} ({trial.hit})")
        assert _ours(stage) == [], f"{where} ({trial.hit})"


def test_the_command_line_says_where_a_file_in_use_goes_on(bench: Bench) -> None:
    """T10, T12b: in text and in JSON; the path itself is restored."""
    (bench.workspace / "log").write_text("one\n")
    saved = bench.save("one")
    with (bench.workspace / "log").open("a") as log:
        log.write("two\n")
        log.flush()
        said = bench("restore", saved, "--yes")
        log.write("three\n")
    assert said.code == 0, said
    assert (bench.workspace / "log").read_text() == "one\n"
    (kept,) = bench.store.glob("workspaces/*/kept/*/log")
    assert kept.read_text() == "one\ntwo\nthree\n"
    name = Path("/proc/self/comm").read_text().strip()
    assert f"restored log (open for writing in {name} (pid {os.getpid()});" in said.err
    assert f"what it writes goes to {kept})" in said.err
    with (bench.workspace / "log").open("a"):
        document = bench.json("undo")
    (file,) = document["files"]
    assert Path(file["kept"]).read_text() == "one\n"
