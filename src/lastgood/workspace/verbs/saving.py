"""Saving."""

from __future__ import annotations

from lastgood.workspace.arguments import check_budget, check_draft, pairs
from lastgood.workspace.verbs.checking import Checks, order_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lastgood.actions.conversing import Speech
    from lastgood.model.checkpoint import Actor, Kind, Moment
    from lastgood.model.report import (
        SaveReport,
    )
    from lastgood.transaction.saving import Draft
    from lastgood.workspace.paths import PathLike

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
        from lastgood.transaction.saving import Draft

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
        speech = _speech(messages, transcript)
        report = self._saved(draft, allow_empty=wanted, budget=budget, speech=speech)
        if order is None:
            return report
        return report.replace(checkpoint=self._judge(report.checkpoint, order, here=True).checkpoint)

    def _saved(
        self, draft: Draft, *, allow_empty: bool, budget: float | None, speech: Speech | None
    ) -> SaveReport:
        from lastgood.actions.save import save

        check_draft(draft)
        check_budget(budget)
        report = self._told(
            "saved",
            lambda: save(self._context, draft, allow_empty=allow_empty, budget=budget, speech=speech),
        )
        self._commons.upkeep.after_save(self._context)
        return report


def _speech(messages: Iterable[Mapping[str, object]] | None, transcript: PathLike | None) -> Speech | None:
    if messages is None and transcript is None:
        return None
    from lastgood.workspace.speech import speech_of  # lazily: a plain save has no use for it

    return speech_of(messages, transcript)
