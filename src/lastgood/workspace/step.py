"""Functions as steps that are done once in a session, however often their program starts (rule P6)."""

from __future__ import annotations

from _thread import RLock
from functools import wraps
from typing import ParamSpec, TypeVar

from lastgood.errors import Conflict, Invalid, LastgoodError, Usage
from lastgood.paths import printable
from lastgood.tasks import STATE_LIMIT, TEXT_LIMIT
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from lastgood.model.session import Effect
    from lastgood.workspace import Workspace


Words = ParamSpec("Words")
Result = TypeVar("Result")
_VALUE = "value"


class Once:
    """Makes functions steps of one session that are done once: a decorator, made by `OpenSession.once`.

    ``turns`` keeps threads of a session from doing one step at once.
    """

    def __init__(
        self,
        workspace: Workspace,
        name: str | None,
        *,
        task: str | None,
        irreversible: bool,
        turns: dict[str, AbstractContextManager[object]],
    ) -> None:
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise Usage(f"{name!r} is no name of a step", hint='for example session.once("deploy")')
        self._workspace = workspace
        self._name = name
        self._task = task
        self._irreversible = irreversible
        self._turns = turns

    def __call__(self, function: Callable[Words, Result]) -> Callable[Words, Result]:
        """Return a function as a step that is done once."""
        from inspect import (
            iscoroutinefunction,  # lazily: it is slow to load, and whoever reads hints loads this
        )

        if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
            raise Usage(
                "a coroutine function cannot be a step of a synchronous session",
                hint="open the workspace by lastgood.open_async",
            )

        @wraps(function)
        def once(*words: Words.args, **named: Words.kwargs) -> Result:
            name = self.named(function, words, named)
            with self._turns.setdefault(name, RLock()):
                step = self.begin(name)
                if step.state == "running":
                    try:
                        result = function(*words, **named)
                    except BaseException as error:
                        self.break_off(step, error)
                        raise
                    step = self.end(step, result)
            return cast("Result", recorded(step))

        return once

    def named(self, function: object, words: tuple[object, ...], named: Mapping[str, object]) -> str:
        """Return the name of a step: the one that was given or the function's, with its arguments."""
        name = self._name or getattr(function, "__name__", None)
        if name is None:
            raise Usage("the function has no name", hint='name the step: session.once("deploy")')
        if name == self._task:
            raise Usage(f"the step has the name of its task, {printable(name)}", hint="name it otherwise")
        return _with_arguments(name, words, named)

    def begin(self, name: str) -> Effect:
        """Return the step as one that has been done, or as one that is to be done now.

        Raises `Conflict` if it is irreversible and may have been done.
        """
        found = self._workspace.last_step(name, task=self._task)
        if found is not None and found.state == "done":
            return found
        if found is not None and found.irreversible and found.state in {"unknown", "running"}:
            raise _unseen(found)
        if found is not None and found.state == "running":
            self._workspace.step_end(found, state="unknown")
        return self._workspace.step_start(name, task=self._task, irreversible=self._irreversible)

    def end(self, effect: Effect, result: object) -> Effect:
        """Record that a step has been done, with its result if that can be kept."""
        from json import loads

        text = _json(result)
        kept = effect if text is None else effect.replace(result={_VALUE: loads(text)})
        return self._workspace.step_end(kept, state="done")

    def break_off(self, effect: Effect, error: BaseException) -> None:
        """Record that a step failed, or that nobody saw its end; the exception goes on in any case."""
        try:
            self._workspace.step_end(effect, state="failed" if isinstance(error, Exception) else "unknown")
        except LastgoodError as failure:
            error.add_note(f"lastgood could not record this: {failure.message} ({failure.hint})")


def _with_arguments(name: str, words: tuple[object, ...], named: Mapping[str, object]) -> str:
    """Return the name of a step with its arguments, if it has any."""
    if not words and not named:
        return name
    told = [_json(one) for one in words]
    told += [None if (text := _json(named[key])) is None else f"{key}={text}" for key in sorted(named)]
    if None in told:
        raise Invalid(
            f"an argument of the step {printable(name)} cannot be written as JSON",
            hint="give texts, numbers, lists, dicts; the rest can come from outside the function",
        )
    whole = f"{name}({', '.join(str(one) for one in told)})"
    if len(whole) <= TEXT_LIMIT:
        return whole
    from hashlib import sha256

    return f"{name}(sha256 {sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()})"


def _json(value: object) -> str | None:
    """Return a value as JSON; None if it cannot be, or is too large to be kept."""
    from json import dumps

    try:
        text = dumps(value, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if len(text) <= STATE_LIMIT else None


def recorded(effect: Effect) -> object:
    """Return the result of a step that ended well."""
    if effect.result is None or _VALUE not in effect.result:
        raise Invalid(
            f"the step {printable(effect.name)} was done, but its result could not be kept",
            hint="return what JSON can hold (texts, numbers, lists, dicts), and not much of it",
            details={"step": effect.id},
        )
    return effect.result[_VALUE]


def _unseen(effect: Effect) -> Conflict:
    return Conflict(
        f"nobody saw the end of the step {printable(effect.name)}, which cannot be taken back",
        hint="look whether it happened, then say so: workspace.step_end(step, state='done') or 'failed';"
        " error.details['step'] is its id, workspace.steps() has it",
        details={"step": effect.id, "name": effect.name, "session": effect.session},
    )
