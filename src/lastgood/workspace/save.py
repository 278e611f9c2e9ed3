"""Saving."""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.workspace.arguments import check_budget, check_draft, pairs
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lastgood.conversation.capture import GivenConversation
    from lastgood.model.checkpoint import Actor, CheckOrder, Checkpoint, CheckReport, Kind, Moment
    from lastgood.model.report import SaveReport
    from lastgood.transaction import Draft
    from lastgood.workspace.arguments import PathLike


# --- Checking: what a command says about a checkpoint ---


class Checks(OpenWorkspace):
    """Verbs that find out what is good."""

    def check(self, ref: str, command: str | Sequence[str], *, timeout: float | None = None) -> CheckReport:
        """Run a command on what a checkpoint holds, and record whether it passed.

        A text goes to ``/bin/sh -c``, a list is a program with its arguments. It runs in the workspace
        if that equals the checkpoint, else in a copy aside; after ``timeout`` seconds (600 unless given)
        it is stopped, and with it all that it started.
        """
        order = order_of(command, timeout=timeout)
        return self._judge(self._view.resolve(ref), order)

    def _judge(self, checkpoint: Checkpoint, order: CheckOrder, *, here: bool = False) -> CheckReport:
        # Lazily: a save without a check has no use for processes.
        from lastgood.cancellation import check_cancelled
        from lastgood.check import check
        from lastgood.command import GuardedCommands
        from lastgood.workspace.scratch import in_copy

        return check(
            self._context,
            self._view,
            checkpoint,
            order=order,
            commands=GuardedCommands(os.environ, tick=check_cancelled),
            aside=in_copy(self._context.store, name=os.path.basename(self._context.root) or b"copy"),
            here=here,
        )


def order_of(command: str | Sequence[str], *, timeout: float | None) -> CheckOrder:
    """Return a check to be made; `Usage` for what is no command or no number of seconds."""
    from lastgood.model.checkpoint import CHECK_TIMEOUT, CheckOrder

    words, shown = _read(command)
    return CheckOrder(words=words, shown=shown, timeout=_limit(CHECK_TIMEOUT if timeout is None else timeout))


def _limit(timeout: float) -> float:
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 < timeout < float("inf"):
        return timeout
    raise Usage(f"the time limit of a check is {timeout!r}", hint="give a number of seconds above 0")


def _read(command: str | Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the words to run, and how they are shown."""
    if isinstance(command, str):
        words, shown = ("/bin/sh", "-c", command), command
    elif isinstance(command, (list, tuple)) and all(isinstance(word, str) for word in command):
        from shlex import join

        words, shown = tuple(command), join(command)
    else:
        raise Usage(f"{command!r} is no command", hint="give a text for the shell, or a list of words")
    if not shown.strip():
        raise Usage("the check command is empty", hint="name a command, for example: pytest -q")
    if any("\0" in word for word in words):
        raise Usage("the check command holds a NUL", hint="no argument of a program can")
    try:
        os.fsencode(shown)
    except UnicodeEncodeError:
        raise Usage("the check command is no Unicode text", hint="write it as UTF-8") from None
    return words, shown


# --- Saving ---

_MOMENTS: dict[str, Moment] = {"task": "after", "risky": "before"}


class Saves(Checks):
    """Verbs that make checkpoints."""

    def save(  # noqa: PLR0913 - the words of the interface, all but the message by keyword
        self,
        message: str = "",
        *,
        name: str | None = None,
        kind: Kind = "manual",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        budget: float | None = None,
        pin: bool = False,
        actor: Actor | None = None,
        task: str | None = None,
        tokens: int | None = None,
        check: str | Sequence[str] | None = None,
        check_timeout: float | None = None,
        messages: Iterable[Mapping[str, object]] | None = None,
        transcript: PathLike | None = None,
    ) -> SaveReport:
        """Make a checkpoint; when it returns, the checkpoint survives a power cut.

        ``budget`` bounds the scan, in seconds; past it the checkpoint is partial. An unchanged
        workspace makes no checkpoint unless something is said about it, or ``allow_empty``. ``task``
        is the id of the task that it is for, ``tokens`` how many were used so far. ``check`` is a command
        whose verdict it then carries (see `check`). ``messages`` are the conversation so far,
        ``transcript`` the file that a host keeps it in.
        """
        from lastgood.model.checkpoint import Actor
        from lastgood.transaction import Draft

        draft = Draft(
            kind=kind,
            message=message,
            name=name,
            pinned=pin,
            metadata=pairs(metadata),
            actor=Actor() if actor is None else actor,
            task=task,
            moment=_MOMENTS.get(kind) if task else None,
            tokens=tokens,
        )
        order = None if check is None else order_of(check, timeout=check_timeout)
        # Rule S10: a check says something about a moment, as a name does.
        wanted = allow_empty or (order is not None and kind == "manual")
        given = _speech(messages, transcript)
        report = self._saved(draft, allow_empty=wanted, budget=budget, given=given)
        if order is None:
            return report
        return report.replace(checkpoint=self._judge(report.checkpoint, order, here=True).checkpoint)

    def _saved(
        self, draft: Draft, *, allow_empty: bool, budget: float | None, given: GivenConversation | None
    ) -> SaveReport:
        from lastgood.save import save

        check_draft(draft)
        check_budget(budget)
        report = self._told(
            "saved",
            lambda: save(self._context, draft, allow_empty=allow_empty, budget=budget, given=given),
        )
        self._state.upkeep.after_save(self._context)
        return report


def _speech(
    messages: Iterable[Mapping[str, object]] | None, transcript: PathLike | None
) -> GivenConversation | None:
    if messages is None and transcript is None:
        return None
    from lastgood.workspace.conversation import given_conversation  # lazily: a plain save has no use for it

    return given_conversation(messages, transcript)
