"""Checkpoints by themselves around the calls of an agent (rule P3)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Busy, Unsupported, Usage
from lastgood.integrations import Missing
from lastgood.integrations.automatic import AsyncAutomatic, Automatic
from lastgood.model.checkpoint import Actor
from lastgood.settings import AutoSettings, Settings
from lastgood.workspace import Workspace
from tools.event_loops import Loop


def kinds(workspace: Workspace) -> list[str]:
    return [one.kind for one in reversed(workspace.list())]


def test_a_risky_call_has_a_checkpoint_before_it(workspace: Workspace, project: Path) -> None:
    automatic = Automatic(workspace)

    @automatic.risky
    def drop(table: str, *, times: int = 1) -> str:
        """Drop it."""
        (project / "a.txt").write_text("dropped")
        return table * times

    (project / "a.txt").write_text("whole")
    assert drop("t", times=2) == "tt"
    assert (drop.__name__, drop.__doc__) == ("drop", "Drop it.")
    (made,) = workspace.list()
    assert (made.kind, made.message) == ("risky", "before drop")
    assert workspace.read(made.id, "a.txt") == b"whole"
    drop("t")
    assert len(workspace.list()) == 2
    drop("t")  # unchanged since
    assert len(workspace.list()) == 2


def test_a_risky_block_names_what_to_go_back_to(workspace: Workspace, project: Path) -> None:
    (project / "a.txt").write_text("whole")
    with Automatic(workspace).risky("the migration") as moment:
        (project / "a.txt").write_text("half")
    assert moment.checkpoint is not None
    assert moment.checkpoint.message == "before the migration"
    workspace.restore(moment.checkpoint.id)
    assert (project / "a.txt").read_text() == "whole"


def test_each_turn_has_a_checkpoint_after_it_and_rewind_knows_them(
    workspace: Workspace, project: Path
) -> None:
    told = [{"role": "user", "content": "hello"}]
    automatic = Automatic(
        workspace, messages=lambda: told, tokens=lambda: 7, actor=Actor(type="agent", name="coder")
    )

    @automatic.turn("a turn")
    def turn(text: str) -> None:
        (project / "a.txt").write_text(text)
        told.append({"role": "assistant", "content": text})

    turn("one")
    turn("two")
    assert kinds(workspace) == ["turn", "turn"]
    newest = workspace.get("@")
    assert (newest.message, newest.metrics.tokens, newest.actor.name) == ("a turn", 7, "coder")
    assert [one["content"] for one in workspace.conversation("@")] == ["hello", "one", "two"]
    workspace.rewind(1, only=["files"])
    assert (project / "a.txt").read_text() == "one"


def test_a_turn_that_fails_is_kept_as_an_error(workspace: Workspace, project: Path) -> None:
    (project / "a.txt").write_text("half")
    with pytest.raises(ValueError, match="broken"), Automatic(workspace).turn("work") as moment:
        raise ValueError("broken")
    assert moment.checkpoint is not None
    assert (moment.checkpoint.kind, moment.checkpoint.message) == ("error", "ValueError: broken")


def test_an_exception_that_has_no_words_is_kept_all_the_same(workspace: Workspace, project: Path) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    (project / "a.txt").write_text("half")
    with pytest.raises(Silent), Automatic(workspace).turn():
        raise Silent
    assert workspace.get("@").message == "Silent"


def test_an_interruption_is_for_the_session_to_keep(workspace: Workspace, project: Path) -> None:
    automatic = Automatic(workspace)
    with pytest.raises(KeyboardInterrupt), workspace.session(), automatic.turn():
        raise KeyboardInterrupt
    assert kinds(workspace) == ["session-start", "interrupt"]


@pytest.fixture
def quiet(project: Path, store: Path) -> Iterator[Workspace]:
    settings = Settings(auto=AutoSettings(on=("task",)))
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as opened:
        yield opened


def test_moments_that_are_switched_off_make_none(quiet: Workspace, project: Path) -> None:
    """K7."""
    automatic = Automatic(quiet)
    (project / "a.txt").write_text("one")
    with automatic.risky() as before, automatic.turn() as after:
        pass
    with pytest.raises(ValueError, match="broken"), automatic.turn():
        raise ValueError("broken")
    assert (before.checkpoint, after.checkpoint) == (None, None)
    assert quiet.list() == ()


@pytest.fixture
def locked(workspace: Workspace, project: Path) -> Iterator[Workspace]:
    (project / "a.txt").write_text("one")
    workspace.save("one")
    (project / "a.txt").write_text("two")
    workspace._use(workspace._context.replace(wait=0.02))
    context = workspace._context
    with context.locks.hold_workspace(context.key, wait=0):
        yield workspace


def test_a_risky_call_without_its_checkpoint_is_not_begun(locked: Workspace) -> None:
    begun = []
    call = Automatic(locked).risky(lambda: begun.append("begun"))
    with pytest.raises(Busy):
        call()
    assert begun == []


def test_a_turn_without_its_checkpoint_is_told_and_stays_done(locked: Workspace) -> None:
    with pytest.warns(RuntimeWarning, match="lastgood made no checkpoint"):
        assert Automatic(locked).turn(lambda: "done")() == "done"


def test_a_turn_that_failed_without_its_checkpoint_says_both(locked: Workspace) -> None:
    with pytest.raises(ValueError, match="broken") as caught, Automatic(locked).turn():
        raise ValueError("broken")
    assert "lastgood made no checkpoint" in caught.value.__notes__[0]


def test_one_decorated_function_may_call_itself(workspace: Workspace, project: Path) -> None:
    automatic = Automatic(workspace)

    @automatic.risky
    def deeper(level: int) -> int:
        (project / "a.txt").write_text(str(level))
        return 1 + deeper(level - 1) if level else 0

    assert deeper(2) == 2
    assert len(workspace.list()) == 3


async def test_coroutines_are_awaited_between_their_checkpoints(
    loop: Loop, project: Path, store: Path
) -> None:
    async with lastgood.open_async(project, store=store, maintenance="off") as workspace:
        automatic = AsyncAutomatic(workspace, tokens=lambda: 3)

        @automatic.risky
        async def drop(table: str) -> str:
            await loop.sleep(0)
            write(project, "dropped")
            return table

        @automatic.turn("a turn")
        async def turn() -> str:
            return await drop("t")

        write(project, "whole")
        assert await turn() == "t"
        assert [one.kind for one in await workspace.list()] == ["turn", "risky"]
        async with automatic.risky("more") as moment:
            write(project, "more")
        assert moment.checkpoint is not None
        with pytest.raises(ValueError, match="broken"):
            async with automatic.turn():
                raise ValueError("broken")
        newest = await workspace.get("@")
        assert (newest.kind, newest.metrics.tokens) == ("error", 3)


def write(project: Path, text: str) -> None:
    (project / "a.txt").write_text(text)


def test_each_face_takes_its_own_kind_of_function(workspace: Workspace, project: Path, store: Path) -> None:
    async def awaited() -> None:
        raise AssertionError

    def plain() -> None:
        raise AssertionError

    def generating() -> Iterator[None]:
        yield

    with pytest.raises(Usage, match="awaited is awaited, and its workspace is not"):
        Automatic(workspace).turn(awaited)
    with pytest.raises(Usage, match="generating is a generator"):
        Automatic(workspace).turn(generating)

    async def main() -> None:
        async with lastgood.open_async(project, store=store, maintenance="off") as opened:
            with pytest.raises(Usage, match="plain is not awaited, and its workspace is"):
                AsyncAutomatic(opened).turn(plain)  # type: ignore[arg-type]

    Loop("asyncio").run(main)


def test_a_turn_stays_done_though_what_was_said_in_it_cannot_be_told(
    workspace: Workspace, project: Path
) -> None:
    automatic = Automatic(workspace, messages=lambda: [{}][1:2][0])

    @automatic.turn
    def turn(fault: str) -> str:
        if fault:
            raise KeyError(fault)
        return "done"

    with pytest.warns(RuntimeWarning, match=r"messages\(\) failed: IndexError"):
        assert turn("") == "done"
    with pytest.raises(KeyError, match="its own") as caught:
        turn("its own")
    assert "messages() failed" in caught.value.__notes__[0]
    with (
        pytest.raises(Usage, match=r"tokens\(\) failed"),
        Automatic(workspace, tokens=lambda: 1 // 0).risky(),
    ):
        (project / "a.txt").write_text("begun")
    assert not (project / "a.txt").exists()


def test_an_object_that_is_awaited_when_it_is_called_is_known_as_one(
    workspace: Workspace, project: Path, store: Path
) -> None:
    class Agent:
        async def __call__(self, text: str) -> str:
            (project / "a.txt").write_text(text)
            return text

    with pytest.raises(Usage, match="is awaited"):
        Automatic(workspace).turn(Agent())
    with workspace.session("once") as session, pytest.raises(Usage, match="coroutine function"):
        session.once("agent")(Agent())

    async def main() -> bytes:
        async with lastgood.open_async(project, store=store, maintenance="off") as awaited:
            assert await AsyncAutomatic(awaited).turn(Agent())("done") == "done"
            return await awaited.read("@", "a.txt")

    assert Loop("asyncio").run(main) == b"done"


# Doors whose own package is not installed say what to install.


_PROGRAM = """
import sys
sys.modules[sys.argv[1]] = None
try:
    __import__(sys.argv[2])
except ImportError as error:
    print(error.code, "|", error, "|", error.hint)
"""


@pytest.mark.parametrize(
    ("package", "door", "extra"),
    [
        ("langgraph", "langgraph", "langgraph"),
        ("langchain_core", "langgraph", "langgraph"),
        ("ormsgpack", "langgraph", "langgraph"),
        ("claude_agent_sdk", "claude_agent_sdk", "claude-agent-sdk"),
    ],
)
def test_a_door_without_its_package_says_what_to_install(package: str, door: str, extra: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM, package, f"lastgood.integrations.{door}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    code, message, hint = told.split(" | ")
    assert (code, hint) == ("unsupported", f"pip install 'lastgood[{extra}]'")
    assert message.startswith(package)
    assert message.endswith(f"is not installed: {hint}")


def test_a_missing_package_is_unsupported_and_an_import_error() -> None:
    assert issubclass(Missing, Unsupported)
    assert issubclass(Missing, ImportError)
