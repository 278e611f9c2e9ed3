"""Values as callers give them: of the right type, or a `Usage` that says what was meant."""

from __future__ import annotations

from lastgood.errors import Usage
from lastgood.model.checkpoint import Actor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypedDict

    from lastgood.model.checkpoint import Kind
    from lastgood.model.settings import Settings
    from lastgood.transaction.saving import Draft
    from lastgood.workspace.paths import PathLike

    class SaveOptions(TypedDict, total=False):
        """What may be said about a checkpoint beside its message."""

        name: str | None
        kind: Kind
        metadata: Mapping[str, str] | None
        allow_empty: bool
        budget: float | None
        pin: bool
        actor: Actor | None
        task: str | None
        tokens: int | None
        check: str | Sequence[str] | None
        check_timeout: float | None
        messages: Iterable[Mapping[str, object]] | None
        transcript: PathLike | None


_ACTORS = ("agent", "tool", "person", "lastgood", "unknown")


def expect(value: object, *kinds: type, what: str) -> None:
    """Refuse a value that is of none of some types."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise Usage(f"{what} is {type(value).__name__}, not {wanted}", hint=f"give {what} as {wanted}")


def check_settings(settings: Settings) -> None:
    """Refuse settings with a value of a wrong type: what nobody looks at would end on it, unseen."""
    from lastgood.model.settings import AutoSettings, CaptureSettings, LimitSettings, Rungs, Settings

    expect(settings, Settings, what="settings")
    capture, limits, auto = settings.capture, settings.limits, settings.auto
    expect(capture, CaptureSettings, what="settings.capture")
    expect(limits, LimitSettings, what="settings.limits")
    expect(auto, AutoSettings, what="settings.auto")
    _whole(capture.max_file_size, what="settings.capture.max_file_size")
    for name in ("built_in", "exclude", "include", "state_files"):
        _texts(getattr(capture, name), what=f"settings.capture.{name}")
    expect(capture.global_excludes, str, type(None), what="settings.capture.global_excludes")
    _whole(limits.max_checkpoints, what="settings.limits.max_checkpoints")
    _whole(limits.max_store_size, what="settings.limits.max_store_size")
    expect(auto.enabled, bool, what="settings.auto.enabled")
    expect(auto.interval, int, float, what="settings.auto.interval")
    _texts(auto.on, what="settings.auto.on")
    expect(settings.session_expires_after, int, float, what="settings.session_expires_after")
    if settings.durability not in ("full", "fast"):
        raise Usage(f"{settings.durability!r} is no durability", hint='"full", or "fast"')
    if not hasattr(settings.retention, "items"):
        raise Usage("settings.retention is no mapping", hint='for example {"turn": Rungs(last=100)}')
    for kind, rungs in settings.retention.items():
        expect(rungs, Rungs, what=f"settings.retention[{kind!r}]")
        for name, number in rungs.as_dict().items():
            _whole(number, what=f"settings.retention[{kind!r}].{name}")


def _whole(number: object, *, what: str) -> None:
    expect(number, int, what=what)
    if number < 0:  # type: ignore[operator]  # a whole number it is
        raise Usage(f"{what} is {number}", hint=f"give {what} as a whole number from 0 on")


def _texts(texts: object, *, what: str) -> None:
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise Usage(f"{what} is no sequence of texts", hint='for example ("data/*.bin",)')


def pairs(metadata: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return metadata as a mapping of our own."""
    try:
        return {} if metadata is None else dict(metadata)
    except (TypeError, ValueError):
        raise Usage("the metadata are no pairs", hint="give a dict of texts") from None


def check_draft(draft: Draft) -> None:
    """Refuse what could be written into a checkpoint, but not read again."""
    expect(draft.kind, str, what="the kind")
    expect(draft.message, str, what="the message")
    expect(draft.name, str, type(None), what="the name")
    expect(draft.actor, Actor, what="the actor")
    expect(draft.actor.name, str, type(None), what="the actor's name")
    expect(draft.actor.call, str, type(None), what="the actor's call")
    expect(draft.task, str, type(None), what="the task")
    expect(draft.pinned, bool, what="pin")
    if draft.tokens is not None:
        check_count(draft.tokens, least=0, what="the number of tokens")
    if draft.actor.type not in _ACTORS:
        raise Usage(f"{draft.actor.type!r} is no type of actor", hint="types: " + ", ".join(_ACTORS))
    for key, value in draft.metadata.items():
        expect(key, str, what="a key of the metadata")
        expect(value, str, what=f"the metadata {key!r}")


def check_count(value: object, *, least: int, what: str) -> None:
    """Refuse what is no whole number, or too small a one."""
    expect(value, int, what=what)
    if isinstance(value, int) and value < least:
        raise Usage(f"{what} is {value}", hint=f"give a number from {least} on")


def check_budget(value: object) -> None:
    """Refuse what is no number of seconds; None is no budget."""
    if value is None:
        return
    expect(value, int, float, what="the budget")
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        raise Usage(f"the budget is {value}", hint="give a number of seconds")
