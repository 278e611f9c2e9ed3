"""What was done that must not be done twice unawares (rule P6)."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    EffectState = Literal["running", "done", "failed", "unknown"]

EFFECT_STATES: tuple[EffectState, ...] = ("running", "done", "failed", "unknown")


class Effect(Value):
    """One step of the work, recorded before it starts and after it ends; "step" in the JSON.

    ``name`` says what it does (a task's own step bears the task's id); ``irreversible`` marks what no
    restore takes back: a push, a deployment, a mail. ``after`` is the sequence of the newest checkpoint
    when it started, by which it is placed whatever the clocks say. Times are in nanoseconds.
    ``unknown`` means that it started and nobody saw it end. ``checkpoint`` holds what was there before
    it, if that was made; ``result`` has under ``value`` what it came to, if that was asked to be kept.
    """

    id: str
    workspace_key: str
    name: str
    started_at: int
    session: str | None = None
    task: str | None = None
    attempt: int = 1
    irreversible: bool = False
    state: EffectState = "running"
    after: int = 0
    ended_at: int | None = None
    checkpoint: str | None = None
    result: Mapping[str, object] | None = None
