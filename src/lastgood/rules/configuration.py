"""What may be configured, by whom, and how layers of it add up (rule K7); reading is the adapter's."""

from __future__ import annotations

from lastgood.errors import Invalid
from lastgood.model.checkpoint import KINDS
from lastgood.model.settings import (
    BUILT_IN_EXCLUDES,
    TRIGGERS,
    AutoSettings,
    CaptureSettings,
    LimitSettings,
    Rungs,
    Settings,
)
from lastgood.names import printable
from lastgood.rules.nearest import nearest
from lastgood.rules.quantity import parse_duration, parse_size
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    from lastgood.model.settings import Durability

    Form = Literal["texts", "text", "size", "duration", "count", "flag", "choice", "choices", "rungs"]
    Scope = Literal["user", "project", "environment"]

RUNGS = ("last", "hourly", "daily")

# Rule K7: all that the file of a repository may say. Everything else is for the user to decide.
OPEN_TO_PROJECTS = frozenset({"capture.exclude", "capture.include", "capture.state_files", "auto.on"})


class Key(Value):
    """One setting: its form, its default as shown, and what it may be where that is limited."""

    form: Form
    default: object
    choices: tuple[str, ...] = ()


KEYS: dict[str, Key] = {
    "capture.exclude": Key(form="texts", default=()),
    "capture.include": Key(form="texts", default=()),
    "capture.state_files": Key(form="texts", default=()),
    "capture.max_file_size": Key(form="size", default=CaptureSettings().max_file_size),
    "capture.built_in_off": Key(form="choices", default=(), choices=BUILT_IN_EXCLUDES),
    "capture.global_excludes": Key(form="text", default=None),
    "durability": Key(form="choice", default="full", choices=("full", "fast")),
    "auto.enabled": Key(form="flag", default=True),
    "auto.interval": Key(form="duration", default=900.0),
    "auto.on": Key(form="choices", default=TRIGGERS, choices=TRIGGERS),
    "retention.max_checkpoints": Key(form="count", default=LimitSettings().max_checkpoints),
    "retention.max_store_size": Key(form="size", default=LimitSettings().max_store_size),
    "session.expires_after": Key(form="duration", default=86_400.0),
    **{f"retention.{kind}": Key(form="rungs", default=None) for kind in KINDS},
}


class Layer(Value):
    """The settings of one source, by full key (``capture.exclude``), as written there.

    ``texts`` tells that values are texts only (environment variables), to be read by their form.
    """

    scope: Scope
    source: str
    values: Mapping[str, object]
    texts: bool = False


class Setting(Value):
    """One setting as it counts: its value, and the sources it comes from (``default`` where none)."""

    key: str
    value: object
    sources: tuple[str, ...]


class Configuration(Value):
    """The settings that count, and where each comes from."""

    settings: Settings
    origins: tuple[Setting, ...]
    added_by_project: tuple[str, ...] = ()


def flattened(table: Mapping[str, object], *, source: str) -> dict[str, object]:
    """Return a parsed file's values by full key; `Invalid` names the file, the key and the nearest one."""
    values: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict) and name not in KEYS:
            if not any(key.startswith(f"{name}.") for key in KEYS):
                raise _unknown(name, source=source)
            for below, item in value.items():
                values[f"{name}.{below}"] = item
        else:
            values[name] = value
    return values


def configured(layers: Iterable[Layer]) -> Configuration:
    """Add layers up, the later ones over the earlier, and return what counts.

    Lists extend; the default of a list stands only where no layer names it. Raises `Invalid` for
    unknown keys, wrong types, and what a project's file may not say.
    """
    found: dict[str, Setting] = {}
    added: list[str] = []
    for layer in layers:
        for key, raw in layer.values.items():
            value = _checked(key, raw, layer)
            before = found.get(key)
            if before is not None and isinstance(value, tuple):
                earlier = cast("tuple[str, ...]", before.value)
                found[key] = Setting(
                    key=key,
                    value=tuple(dict.fromkeys((*earlier, *value))),
                    sources=(*before.sources, layer.source),
                )
            else:
                found[key] = Setting(key=key, value=value, sources=(layer.source,))
            if layer.scope == "project" and isinstance(value, tuple):
                added += [f"{key}: {item}" for item in value]
    origins = tuple(
        found.get(key) or Setting(key=key, value=known.default, sources=("default",))
        for key, known in KEYS.items()
    )
    return Configuration(settings=_settings(origins), origins=origins, added_by_project=tuple(added))


def _settings(origins: Sequence[Setting]) -> Settings:
    value = {one.key: one.value for one in origins}
    off = cast("tuple[str, ...]", value["capture.built_in_off"])
    state = cast("tuple[str, ...]", value["capture.state_files"])
    return Settings(
        capture=CaptureSettings(
            built_in=tuple(one for one in BUILT_IN_EXCLUDES if one not in off),
            exclude=cast("tuple[str, ...]", value["capture.exclude"]),
            # Rule P2: named state files are captured even if ignored.
            include=(*cast("tuple[str, ...]", value["capture.include"]), *state),
            global_excludes=cast("str | None", value["capture.global_excludes"]),
            state_files=state,
            max_file_size=cast("int", value["capture.max_file_size"]),
        ),
        limits=LimitSettings(
            max_checkpoints=cast("int", value["retention.max_checkpoints"]),
            max_store_size=cast("int", value["retention.max_store_size"]),
        ),
        auto=AutoSettings(
            enabled=cast("bool", value["auto.enabled"]),
            interval=cast("float", value["auto.interval"]),
            on=cast("tuple[str, ...]", value["auto.on"]),
        ),
        retention={
            kind: Rungs(**dict.fromkeys(RUNGS, 0) | cast("dict[str, int]", rungs))
            for kind in KINDS
            if (rungs := value[f"retention.{kind}"]) is not None
        },
        durability=cast("Durability", value["durability"]),
        session_expires_after=cast("float", value["session.expires_after"]),
    )


def _checked(key: str, raw: object, layer: Layer) -> object:
    known = KEYS.get(key)
    if layer.scope == "project" and key not in OPEN_TO_PROJECTS:
        if known is None and not key.startswith("store"):
            raise _unknown(key, source=layer.source)
        raise Invalid(
            f"{layer.source}: '{printable(key)}' is not for a repository to decide (rule K7)",
            hint="a repository may set "
            + ", ".join(sorted(OPEN_TO_PROJECTS))
            + "; put the rest into your own file",
        )
    if known is None:
        raise _unknown(key, source=layer.source)
    value = _typed(known, _from_text(raw, known) if layer.texts else raw)
    if value is None:
        raise Invalid(
            f"{layer.source}: {key} cannot be {printable(repr(raw))}", hint=f"{key} is {_wanted(known)}"
        )
    if key in {"capture.include", "capture.state_files"}:
        _stay_inside(cast("tuple[str, ...]", value), key=key, source=layer.source)
    return value


def _stay_inside(patterns: Sequence[str], *, key: str, source: str) -> None:
    for pattern in patterns:
        if pattern.startswith(("/", "~", "!")) or ".." in pattern.split("/"):
            raise Invalid(
                f"{source}: {key} cannot have '{printable(pattern)}': that is outside the workspace",
                hint="write it relative to the workspace, without a leading '/', '~' or '!' and without '..'",
            )


def _from_text(raw: object, known: Key) -> object:
    text = str(raw)
    if known.form in {"texts", "choices"}:
        return [item.strip() for item in text.split(",") if item.strip()]
    if known.form == "count":
        return int(text) if text.isascii() and text.isdigit() else text
    if known.form == "flag":
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(
            text.lower(), text
        )
    return text


def _typed(known: Key, raw: object) -> object | None:
    """Return a value in its own type, None if it is of a wrong one."""
    form = known.form
    if form in {"texts", "choices"}:
        return _texts(raw, known.choices)
    if form in {"size", "duration"}:
        return _quantity(raw, form=form)
    if form == "count":
        return raw if isinstance(raw, int) and not isinstance(raw, bool) and raw > 0 else None
    if form == "flag":
        return raw if isinstance(raw, bool) else None
    if form == "rungs":
        return _rungs(raw)
    allowed = isinstance(raw, str) and raw and (not known.choices or raw in known.choices)
    return raw if allowed else None


def _texts(raw: object, choices: Sequence[str]) -> object | None:
    if not isinstance(raw, list) or not all(isinstance(item, str) and item for item in raw):
        return None
    if choices and not set(raw) <= set(choices):
        return None
    return tuple(raw)


def _quantity(raw: object, *, form: str) -> object | None:
    if isinstance(raw, int) and not isinstance(raw, bool) and form == "size":
        return raw if raw > 0 else None
    if not isinstance(raw, str):
        return None
    try:
        amount = parse_size(raw) if form == "size" else parse_duration(raw)
    except Invalid:
        return None
    return amount if amount > 0 else None


def _rungs(raw: object) -> object | None:
    if not isinstance(raw, dict) or not set(raw) <= set(RUNGS):
        return None
    good = all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in raw.values())
    return dict(raw) if good else None


def _wanted(known: Key) -> str:
    return {
        "texts": "a list of texts",
        "text": "a text",
        "size": 'a size above 0, for example "32MiB"',
        "duration": 'a duration above 0, for example "15m"',
        "count": "a whole number above 0",
        "flag": "true or false",
        "choice": "one of: " + ", ".join(known.choices),
        "choices": "a list of some of: " + ", ".join(known.choices),
        "rungs": "a table of whole numbers: " + ", ".join(RUNGS),
    }[known.form]


def _unknown(key: str, *, source: str) -> Invalid:
    sections = {one.partition(".")[0] for one in KEYS if "." in one}
    section = nearest(key, sorted(sections)) if "." not in key else ()
    if section:
        return Invalid(
            f"{source}: there is no setting '{printable(key)}'", hint=f"did you mean [{section[0]}]?"
        )
    close = nearest(key, KEYS) or nearest(key.rpartition(".")[2], [one.rpartition(".")[2] for one in KEYS])
    nearest_key = close[0] if close else ""
    whole = next((one for one in KEYS if one == nearest_key or one.endswith(f".{nearest_key}")), "")
    hint = f"did you mean {whole}?" if close else "all keys: lastgood config"
    return Invalid(f"{source}: there is no setting '{printable(key)}'", hint=hint)
