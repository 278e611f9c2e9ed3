"""The partner of the checkpoint manager: what is done after an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import LastgoodError, Usage
from lastgood.integrations.checkpoint_manager import (
    CheckpointManager,
    ErrorCategory,
    ErrorRecoverer,
    RecoveryStrategy,
    handle_error,
    with_recovery,
)
from lastgood.integrations.checkpoint_manager.recovery import ORDERS, category_of
from lastgood.integrations.praisonai import (
    CheckpointConfig,
    CheckpointDiff,
    CheckpointEvent,
    CheckpointService,
    SessionCheckpointManager,
)
from tools.event_loops import Loop
from tools.odd import NO_NUMBERS, NO_PATHS, NO_TEXTS, TEXTS


class RateLimitError(Exception):
    """As the libraries of models raise it."""


class ApiError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class Flaky:
    """An operation that fails some times, and leaves the project changed each time."""

    def __init__(self, project: Path, *errors: Exception) -> None:
        self.project = project
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, *args: object) -> object:
        self.calls += 1
        (self.project / "file").write_text(f"attempt {self.calls}")
        if self.errors:
            raise self.errors.pop(0)
        return args or "done"


@pytest.fixture
def recoverer(project: Path, store: Path) -> ErrorRecoverer:
    """Return one that does not wait long."""
    (project / "file").write_text("good")
    return ErrorRecoverer(project, store=store, delay=0.001)


def good_point(project: Path, store: Path) -> str:
    return asyncio.run(CheckpointManager(project, store=store).create_checkpoint("good")).id


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (TimeoutError(), "transient"),
        (ConnectionResetError(), "transient"),
        (RateLimitError(), "transient"),
        (ApiError(503), "transient"),
        (ApiError(429), "transient"),
        (lastgood.Busy("held"), "transient"),
        (caused(RuntimeError("wrapped"), TimeoutError()), "transient"),
        (FileNotFoundError(), "resource"),
        (PermissionError(), "resource"),
        (SyntaxError(), "syntax"),
        (json.JSONDecodeError("x", "", 0), "syntax"),
        (AssertionError(), "logic"),
        (ApiError(404), "logic"),
        (KeyError("x"), "logic"),
        (ModuleNotFoundError(), "environment"),
        (OSError(28, "No space left on device"), "unrecoverable"),
        (MemoryError(), "unrecoverable"),
        (lastgood.Storage("full"), "unrecoverable"),
    ],
)
def test_errors_are_told_apart(error: Exception, category: str) -> None:
    assert category_of(error).value == category


def test_a_ring_of_causes_is_looked_at_once() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert category_of(one) is ErrorCategory.LOGIC


def test_strategies_have_the_skills_names_and_every_category_an_order() -> None:
    assert {one.name: one.value for one in RecoveryStrategy} == {
        "RETRY": "retry",
        "RETRY_BACKOFF": "backoff",
        "ROLLBACK": "rollback",
        "FIX_AND_RETRY": "fix_retry",
        "SKIP": "skip",
        "ESCALATE": "escalate",
    }
    assert set(ORDERS) == set(ErrorCategory)
    assert {order[-1] for order in ORDERS.values()} == {RecoveryStrategy.ESCALATE}


def test_what_passes_is_tried_again_with_pauses(recoverer: ErrorRecoverer, project: Path) -> None:
    operation = Flaky(project, TimeoutError(), TimeoutError())
    result = asyncio.run(recoverer.handle_error(TimeoutError(), {"operation": operation}))
    assert (result.recovered, result.strategy, result.value) == (True, RecoveryStrategy.RETRY_BACKOFF, "done")
    assert operation.calls == 3
    assert f"Recovered via: {result.strategy}" == "Recovered via: backoff"


def test_what_does_not_pass_is_rolled_back(recoverer: ErrorRecoverer, project: Path, store: Path) -> None:
    id = good_point(project, store)
    operation = Flaky(project, *(TimeoutError(str(number)) for number in range(9)))
    context = {"operation": operation, "checkpoint": id}
    result = asyncio.run(recoverer.handle_error(TimeoutError(), context))
    assert (result.recovered, result.strategy, result.checkpoint) == (True, RecoveryStrategy.ROLLBACK, id)
    assert operation.calls == 3
    assert (project / "file").read_text() == "good"
    assert [one.strategy.value for one in result.attempts] == ["backoff", "rollback"]


def test_without_a_checkpoint_named_the_newest_counts(
    recoverer: ErrorRecoverer, project: Path, store: Path
) -> None:
    id = good_point(project, store)
    (project / "file").write_text("ruined")
    result = asyncio.run(recoverer.handle_error(AssertionError("a test failed")))
    assert (result.strategy, result.checkpoint) == (RecoveryStrategy.ROLLBACK, id)
    assert (project / "file").read_text() == "good"


def test_a_fix_is_called_with_the_error_before_the_operation_is_done_again(
    recoverer: ErrorRecoverer, project: Path
) -> None:
    told: list[Exception] = []

    async def fix(error: Exception) -> None:
        told.append(error)

    error = AssertionError("first")
    context = {"operation": Flaky(project), "fix": fix}
    result = asyncio.run(recoverer.handle_error(error, context))
    assert (result.recovered, result.strategy.value, result.value) == (True, "fix_retry", "done")
    assert told == [error]


def test_what_cannot_be_recovered_is_escalated_at_once_with_a_report(
    recoverer: ErrorRecoverer, project: Path, store: Path
) -> None:
    good_point(project, store)
    (project / "file").write_text("kept for a person to look at")
    operation = Flaky(project)
    result = asyncio.run(recoverer.handle_error(MemoryError("out"), {"operation": operation}))
    assert (result.recovered, result.strategy) == (False, RecoveryStrategy.ESCALATE)
    assert (operation.calls, (project / "file").read_text()) == (0, "kept for a person to look at")
    assert "MemoryError: out" in result.reason
    assert json.loads(json.dumps(result.report))["category"] == "unrecoverable"


def test_where_there_is_no_way_back_it_says_so(recoverer: ErrorRecoverer) -> None:
    result = asyncio.run(recoverer.handle_error(ValueError("broken")))
    assert result.recovered is False
    assert "there is no checkpoint to roll back to" in result.reason
    unknown = asyncio.run(recoverer.handle_error(ValueError("broken"), {"checkpoint": "checkpoint-0"}))
    assert unknown.recovered is False


@pytest.mark.parametrize(
    ("strategy", "calls"), [("retry", 2), ("skip", 0), (["retry", "skip"], 2), ("escalate", 0)]
)
def test_the_caller_may_choose_the_strategy(
    recoverer: ErrorRecoverer, project: Path, strategy: Any, calls: int
) -> None:
    operation = Flaky(project, ValueError("again"))
    context = {"operation": operation, "strategy": strategy}
    result = asyncio.run(recoverer.handle_error(ValueError(), context))
    assert (operation.calls, result.recovered) == (calls, strategy != "escalate")


def test_a_context_may_be_an_object_or_nothing_of_use(recoverer: ErrorRecoverer) -> None:
    class Context:
        def __init__(self) -> None:
            self.strategy = "skip"

    assert asyncio.run(recoverer.handle_error(ValueError(), Context())).recovered
    assert asyncio.run(recoverer.handle_error(MemoryError(), "while building")).recovered is False


def test_an_unknown_strategy_is_refused(recoverer: ErrorRecoverer) -> None:
    with pytest.raises(lastgood.Usage, match="no strategy"):
        asyncio.run(recoverer.handle_error(ValueError(), {"strategy": "pray"}))
    with pytest.raises(lastgood.Usage):
        recoverer.with_recovery(strategy="pray")(print)


def test_a_disk_that_fills_up_meanwhile_ends_the_retries(recoverer: ErrorRecoverer, project: Path) -> None:
    operation = Flaky(project, OSError(28, "No space left on device"), TimeoutError())
    context = {"operation": operation, "strategy": ["backoff", "retry", "skip"]}
    result = asyncio.run(recoverer.handle_error(TimeoutError(), context))
    assert (operation.calls, result.recovered) == (1, False)
    escalated = asyncio.run(recoverer.handle_error(ValueError(), {"strategy": ["escalate", "skip"]}))
    assert escalated.recovered is False


def test_the_way_back_of_an_operation_stays_while_others_come_and_go(
    recoverer: ErrorRecoverer, project: Path
) -> None:
    @recoverer.with_recovery
    async def inner(number: int) -> None:
        (project / "file").write_text(str(number))

    @recoverer.with_recovery
    async def outer() -> None:
        (project / "file").write_text("outer")
        for number in range(7):
            await inner(number)
        raise AssertionError("in the end")

    with pytest.raises(AssertionError, match="in the end"):
        asyncio.run(outer())
    assert (project / "file").read_text() == "good"
    assert len(recoverer.keeper.list_checkpoints("automatic")) == 6
    asyncio.run(inner(8))
    assert len(recoverer.keeper.list_checkpoints("automatic")) == 5


@pytest.mark.parametrize("name", ["asyncio", "trio"])
def test_a_decorated_operation_is_recovered_under_either_loop(
    recoverer: ErrorRecoverer, project: Path, name: str
) -> None:
    operation = Flaky(project, TimeoutError())

    @recoverer.with_recovery
    async def risky(*args: int) -> object:
        return operation(*args)

    async def main() -> None:
        assert await risky(1, 2) == (1, 2)

    Loop(name).run(main)
    assert operation.calls == 2
    assert risky.__name__ == "risky"


def test_a_decorated_operation_that_stays_broken_is_rolled_back_and_raises_its_own_error(
    recoverer: ErrorRecoverer, project: Path
) -> None:
    @recoverer.with_recovery
    async def risky() -> None:
        (project / "file").write_text("ruined")
        (project / "new").write_text("left over")
        raise AssertionError("a test failed")

    with pytest.raises(AssertionError, match="a test failed") as caught:
        asyncio.run(risky())
    assert "rolled back to checkpoint-" in caught.value.__notes__[0]
    assert (project / "file").read_text() == "good"
    assert not (project / "new").exists()


def test_a_plain_function_is_decorated_too(recoverer: ErrorRecoverer, project: Path) -> None:
    passing = Flaky(project, TimeoutError())
    assert recoverer.with_recovery(passing)("x") == ("x",)

    @recoverer.with_recovery(strategy="skip")
    def skipped() -> str:
        raise ValueError

    assert skipped() is None
    failing = recoverer.with_recovery(Flaky(project, ValueError("broken")))
    with pytest.raises(ValueError, match="broken"):
        failing()
    assert (project / "file").read_text() == "attempt 2"
    assert recoverer.recover_now(ValueError(), {"strategy": "skip"}).recovered


async def test_an_interruption_is_not_an_error_to_recover_from(
    recoverer: ErrorRecoverer, project: Path
) -> None:
    begun = asyncio.Event()

    @recoverer.with_recovery(strategy=["skip"])
    async def interrupted() -> None:
        (project / "file").write_text("half done")
        begun.set()
        await asyncio.sleep(60)

    task = asyncio.ensure_future(interrupted())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (project / "file").read_text() == "half done"


async def test_a_pause_between_retries_can_be_cancelled(project: Path, store: Path) -> None:
    slow = ErrorRecoverer(project, store=store, delay=1000)
    operation = Flaky(project)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(slow.handle_error(TimeoutError(), {"operation": operation}), 0.05)
    assert operation.calls == 0


def test_there_is_a_function_and_a_decorator_of_their_own(project: Path, store: Path) -> None:
    result = asyncio.run(handle_error(ValueError(), {"strategy": "skip"}, project_dir=project, store=store))
    assert result.recovered

    @with_recovery(project_dir=project, store=store, strategy="skip")
    def skipped() -> str:
        raise ValueError

    assert skipped() is None


def test_a_coroutine_that_nobody_awaits_is_no_recovery(recoverer: ErrorRecoverer) -> None:
    async def again() -> str:
        return "never done"

    context = {"operation": again, "strategy": "retry"}
    result = recoverer.recover_now(TimeoutError(), context)
    assert (result.recovered, result.value) == (False, None)
    assert "not awaited" in result.reason


def test_a_generator_is_no_operation(recoverer: ErrorRecoverer) -> None:
    def stream() -> Iterator[int]:
        yield 1

    async def streamed() -> AsyncIterator[int]:
        yield 1

    for function in (stream, streamed):
        with pytest.raises(lastgood.Usage, match="generator"):
            recoverer.with_recovery(function)


@pytest.mark.parametrize("odd", ["boom", ValueError, KeyboardInterrupt(), None])
def test_what_is_no_error_is_not_recovered_from(recoverer: ErrorRecoverer, odd: Any) -> None:
    with pytest.raises(lastgood.Usage):
        recoverer.recover_now(odd)


class HostileError(Exception):
    """An error that answers no question."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]

    @property
    def status_code(self) -> int:
        raise RuntimeError


def test_an_error_that_answers_no_question_goes_on_as_itself(
    recoverer: ErrorRecoverer, project: Path
) -> None:
    @recoverer.with_recovery
    def broken() -> None:
        (project / "file").write_text("ruined")
        raise HostileError from HostileError()

    with pytest.raises(HostileError) as caught:
        broken()
    assert "rolled back" in caught.value.__notes__[0]
    assert (project / "file").read_text() == "good"


# Words of the wrong kind get the answer that the surface promises, and nothing is lost by them (K2).


@pytest.fixture
def kept(service: CheckpointService, project: Path) -> CheckpointService:
    """Return a service with checkpoints of the steps 0 to 8."""

    async def main() -> None:
        assert await service.initialize()
        for step in range(9):
            (project / "file").write_text(str(step))
            assert (await service.save("step", step=step)).success

    asyncio.run(main())
    return service


def test_nothing_but_the_start_of_an_id_names_a_checkpoint(kept: CheckpointService, project: Path) -> None:
    async def main() -> None:
        before = await kept.list()
        for word in [*NO_TEXTS, *TEXTS]:
            if word not in (None, ""):
                assert (await kept.diff(word)).error, word
                assert (await kept.diff(None, word)).error, word
            assert await kept.get(word) is None, word
            assert await kept.get_checkpoint(word) is None, word
            assert await kept.conversation(word) == [], word
            assert await kept.delete(word) is False, word
            result = await kept.restore(word)
            assert (result.success, result.checkpoint) == (False, None), word
            assert result.error, word
        assert await kept.list() == before

    asyncio.run(main())
    assert (project / "file").read_text() == "8"


def test_nothing_but_a_number_names_a_step_or_counts_them(kept: CheckpointService, project: Path) -> None:
    async def main() -> None:
        before = await kept.list()
        for word in [*NO_NUMBERS, -1, 10**30]:
            assert await kept.get_checkpoint_by_step(word) is None, word
            assert not (await kept.restore(step=word)).success, word
            assert not (await kept.rewind(word)).success, word
            if word not in (None, 10**30):
                failed = await kept.save("x", True, step=word)
                assert failed.error == "step must be a non-negative integer", word
            if word not in (None, -1, 10**30):
                assert await kept.list(word) == await kept.list_checkpoints(word) == [], word
        assert await kept.list() == before

    asyncio.run(main())
    assert (project / "file").read_text() == "8"


def test_a_message_is_any_text_and_nothing_else(kept: CheckpointService) -> None:
    async def main() -> None:
        for word in NO_TEXTS:
            result = await kept.save(word, allow_empty=True)
            assert result.error == "message must be a string", word
            if not isinstance(word, (list, tuple, type(None))):
                assert (await kept.save("x", allow_empty=True, messages=word)).error, word
        for word in TEXTS:
            assert (await kept.save(word, allow_empty=True)).success, word
        long = await kept.save("x" * 100_000, allow_empty=True, step=3)
        assert long.checkpoint is not None
        assert long.checkpoint.message.startswith("[step-3] xxx")
        assert long.checkpoint.message.endswith("x…")

    asyncio.run(main())


@pytest.mark.parametrize("parameter", ["max_checkpoints", "max_file_size"])
def test_a_bound_that_is_no_whole_number_is_refused(project: Path, storage: Path, parameter: str) -> None:
    for word in NO_NUMBERS:
        with pytest.raises(Usage, match=f"{parameter} is "):
            CheckpointService(str(project), str(storage), **{parameter: word})
        with pytest.raises(Usage, match=f"{parameter} is "):
            CheckpointConfig(str(project), **{parameter: word})


@pytest.mark.parametrize("most", [0, -1, 10**30])
async def test_no_bound_and_an_absurd_one_let_nothing_go(project: Path, storage: Path, most: int) -> None:
    """K2: a number that means no limit elsewhere does not delete all but one."""
    service = CheckpointService(str(project), str(storage), max_checkpoints=most, max_file_size=most)

    assert await service.initialize()
    for number in range(21):  # once the store is tidied
        (project / "file").write_text(str(number))
        assert (await service.save("one")).success
    assert len(await service.list()) == 22
    assert await service.initialize()
    assert (await service.save("one more", allow_empty=True)).success


def test_a_place_that_is_no_path_is_refused(project: Path, storage: Path) -> None:
    for word in [*NO_PATHS, "\0", "\ud8ff"]:
        with pytest.raises(LastgoodError):
            CheckpointService(word, str(storage))
        with pytest.raises(LastgoodError):
            CheckpointService(str(project), word)
    with pytest.raises(LastgoodError):
        CheckpointService(None, str(storage))  # type: ignore[arg-type]
    for word in [*NO_PATHS, b"", "x", "\0"]:
        with pytest.raises(Usage, match="the config is"):
            CheckpointService(str(project), config=word)


def test_a_place_may_be_given_as_bytes(project: Path, storage: Path) -> None:
    odd: Any = [bytes(project), bytes(storage)]
    service = CheckpointService(*odd)
    assert asyncio.run(service.initialize())
    assert service.store == CheckpointService(str(project), str(storage)).store


async def test_an_empty_name_does_not_mean_the_current_folder(
    project: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    here = CheckpointService(".", str(storage))
    nowhere = CheckpointService("", str(storage))

    assert await here.initialize()
    assert not await nowhere.initialize()
    assert not (await nowhere.save("x")).success
    assert not await nowhere.delete_all()
    assert len(await here.list()) == 1


def test_what_cannot_be_called_is_no_handler(service: CheckpointService) -> None:
    for word in [*NO_TEXTS, "x"]:
        if not callable(word):
            with pytest.raises(Usage, match="the handler is"):
                service.on(CheckpointEvent.ERROR, word)


def test_a_tool_is_never_kept_from_running(kept: CheckpointService, project: Path) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError

    class Call:
        def __init__(self, name: object) -> None:
            self.tool_name = name

    odd = [None, Unspeakable(), Call(Unspeakable()), *map(Call, [*TEXTS, 7, b"7"])]
    for number, word in enumerate(odd):
        (project / "file").write_text(f"changed {number}")
        kept.before_tool(word)
    assert len(asyncio.run(kept.list())) == 10 + len(odd)


@pytest.fixture
def turned(project: Path, storage: Path) -> SessionCheckpointManager:
    """Return a session of three turns."""
    made = SessionCheckpointManager(str(project), enabled=True, storage_dir=str(storage))
    for number in range(3):
        assert made.checkpoint_turn("turn")
        (project / "file").write_text(str(number))
    return made


def test_nothing_but_a_number_takes_turns_back(
    turned: SessionCheckpointManager, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in NO_NUMBERS:
        assert turned.revert(word) is None, word
        assert turned.dropped_message_count(word) is None, word
        turned.preview(word)
    assert (len(turned.turns), (project / "file").read_text()) == (3, "2")
    assert capsys.readouterr().out == ""


def test_a_turn_is_kept_whatever_was_said_in_it(turned: SessionCheckpointManager) -> None:
    odd: list[Any] = [None, 7, b"7", ["a"], object(), *TEXTS]
    for word in odd:
        assert turned.checkpoint_turn(word), word
    assert len(turned.turns) == 3 + len(odd)


def test_differences_of_odd_paths_and_of_what_is_none(turned: SessionCheckpointManager) -> None:
    for word in NO_TEXTS[1:]:
        assert turned.diff(path=word) is None, word
    for word in [*NO_TEXTS[1:], *TEXTS]:
        assert turned.render_diff(word) == "No file changes this session.", word
    for word in TEXTS[1:]:
        assert (turned.diff(path=word) or CheckpointDiff("", "", [])).files == [], word


class Telling:
    """A conversation that answers anything."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def get_messages(self, _session_id: str) -> object:
        return self.answer


def test_odd_places_and_odd_conversations_break_no_turn(project: Path, storage: Path) -> None:
    for word in [*NO_PATHS, "\0", ""]:
        lost = SessionCheckpointManager(word, enabled=True, storage_dir=str(storage))
        assert lost.checkpoint_turn("turn") is None
        if word != "":
            lost = SessionCheckpointManager(str(project), enabled=True, storage_dir=word)
            assert lost.checkpoint_turn("turn") is None
            assert lost.revert() is None
    odd: list[Any] = [7, float("nan"), b"7", {"a": 1}, object()]
    for word in odd:
        for talk in (word, Telling(word)):
            made = SessionCheckpointManager(str(project), True, False, str(storage), talk, "session")
            assert made.checkpoint_turn("turn")
            assert made.revert()


def test_a_configuration_of_another_kind_is_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRAISONAI_CHECKPOINTS", raising=False)
    for word in [*NO_TEXTS, *TEXTS]:
        assert SessionCheckpointManager.from_config(str(project), word).enabled is False
        assert SessionCheckpointManager.from_config(str(project), {"checkpoints": word}).enabled is False
