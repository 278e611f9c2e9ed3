"""What may be configured, by whom, and how layers of it add up (rule K7); reading is the adapter's."""

from __future__ import annotations

from lastgood.errors import Invalid
from lastgood.model.checkpoint import KINDS
from lastgood.paths import printable
from lastgood.settings import (
    BUILT_IN_EXCLUDES,
    BUILT_IN_INCLUDES,
    MORE_TRIGGERS,
    STATE_FILES,
    TRIGGERS,
    AutoSettings,
    CaptureSettings,
    LimitSettings,
    Rungs,
    Settings,
    WatchSettings,
)
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    from lastgood.literals import Durability, OnDemand

    Form = Literal["texts", "text", "size", "duration", "count", "flag", "choice", "choices", "rungs"]
    Scope = Literal["user", "project", "environment", "flags"]


# --- The forms of settings: how a value is written, and whether it is one ---

RUNGS = ("last", "hourly", "daily")
# Beyond that nothing is a setting but a slip: a century, and what SQLite counts.
_LONGEST = 100 * 365.25 * 86_400
_MOST = (1 << 63) - 1
_FLAGS = {"true": True, "1": True, "yes": True, "on": True} | {
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def from_text(raw: object, form: Form) -> object:
    """Return what a text (an environment variable) says, still to be looked at by `typed`."""
    text = str(raw)
    if form in {"texts", "choices"}:
        return [item.strip() for item in text.split(",") if item.strip()]
    if form == "count":
        return _number(text)
    if form == "flag":
        return _FLAGS.get(text.strip().lower(), text)
    if form == "rungs":
        return _rungs_from_text(text)
    return text


def _number(text: str) -> object:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def _rungs_from_text(text: str) -> object:
    """Read ``last=100,hourly=24,daily=14``; a number alone is how many of the newest stay."""
    if "=" not in text:
        return {"last": _number(text.strip())}
    pairs = [part.partition("=") for part in text.split(",")]
    names = [name.strip() for name, _, _ in pairs]
    if len(set(names)) != len(names):
        return text
    return {name.strip(): _number(amount.strip()) for name, _, amount in pairs}


def typed(form: Form, raw: object, *, choices: Sequence[str] = ()) -> object | None:
    """Return a value in its own type, None if it is of a wrong one."""
    if form in {"texts", "choices"}:
        return _texts(raw, choices)
    if form in {"size", "duration"}:
        return _quantity(raw, form=form)
    if form == "count":
        return raw if _is_count(raw, least=1) else None
    if form == "flag":
        return raw if isinstance(raw, bool) else None
    if form == "rungs":
        return _rungs(raw)
    allowed = isinstance(raw, str) and raw and _plain(raw) and (not choices or raw in choices)
    return raw if allowed else None


def wanted(form: Form, choices: Sequence[str]) -> str:
    """Say what a value of a form looks like."""
    return {
        "texts": "a list of texts",
        "text": "a text",
        "size": 'a size above 0, for example "32MiB"',
        "duration": 'a duration above 0, for example "15m"',
        "count": "a whole number above 0",
        "flag": "true or false",
        "choice": "one of: " + ", ".join(choices),
        "choices": "a list of some of: " + ", ".join(choices),
        "rungs": "a table of whole numbers, one of them above 0: " + ", ".join(RUNGS),
    }[form]


def _texts(raw: object, choices: Sequence[str]) -> object | None:
    if not isinstance(raw, list) or not all(isinstance(item, str) and item and _plain(item) for item in raw):
        return None
    if choices and not set(raw) <= set(choices):
        return None
    return tuple(raw)


def _plain(text: str) -> bool:
    """Tell whether a text is one line: a pattern with a line break would be two."""
    return not any(sign in text for sign in "\0\n\r")


def _quantity(raw: object, *, form: str) -> object | None:
    if form == "size" and _is_count(raw, least=1):
        return raw
    if not isinstance(raw, str):
        return None
    from lastgood.quantities import parse_duration, parse_size

    try:
        amount = parse_size(raw) if form == "size" else parse_duration(raw)
    except Invalid:
        return None
    return amount if 0 < amount <= (_MOST if form == "size" else _LONGEST) else None


def _rungs(raw: object) -> object | None:
    if not isinstance(raw, dict) or not set(raw) <= set(RUNGS):
        return None
    good = all(_is_count(item, least=0) for item in raw.values())
    # Nothing but zeros would mean to keep none: that is said by deleting, not by a table (rule K2).
    return dict(raw) if good and any(raw.values()) else None


def _is_count(raw: object, *, least: int) -> bool:
    return isinstance(raw, int) and not isinstance(raw, bool) and least <= raw <= _MOST


# --- What may be configured, by whom, and how layers of it add up (rule K7); reading is the adapter's ---

# Rule K7: all that the file of a repository may say. Everything else is for the user to decide.
OPEN_TO_PROJECTS = frozenset({"capture.exclude", "capture.include", "capture.state_files", "auto.on"})
_SHOWN = 80
# The layers that are files, which may be broken by somebody else, or by a merge.
_FILES = frozenset({"user", "project"})


class Key(Value):
    """One setting: its form, its default as shown, what it may be where that is limited, what it does."""

    form: Form
    default: object
    says: str
    choices: tuple[str, ...] = ()


# Rule K1: a feature's checkpoint stays for ever, so nobody can say how many.
LIMITED_KINDS = tuple(kind for kind in KINDS if kind != "feature")

KEYS: dict[str, Key] = {
    "capture.exclude": Key(
        form="texts",
        default=(),
        says="left out of checkpoints: gitignore patterns, relative to the workspace",
    ),
    "capture.include": Key(
        form="texts", default=(), says="captured although ignored, and private: such patterns"
    ),
    "capture.state_files": Key(
        form="texts",
        default=STATE_FILES,
        says="captured although ignored, and brought back with the progress",
    ),
    "capture.max_file_size": Key(
        form="size", default=CaptureSettings().max_file_size, says="a larger file is a gap"
    ),
    "capture.built_in_off": Key(
        form="choices",
        default=(),
        choices=(*BUILT_IN_EXCLUDES, *BUILT_IN_INCLUDES),
        says="built-in excludes and includes that do not count",
    ),
    "capture.global_excludes": Key(
        form="text", default=None, says="a file of gitignore patterns for all workspaces, such as git's own"
    ),
    "durability": Key(
        form="choice",
        default="full",
        choices=("full", "fast"),
        says="whether a checkpoint survives a power cut as soon as the save returns",
    ),
    "auto.enabled": Key(form="flag", default=True, says="whether any checkpoint is made by itself"),
    "auto.interval": Key(form="duration", default=900.0, says="how often, while a run or a watch is on"),
    "auto.on": Key(
        form="choices",
        default=TRIGGERS,
        choices=(*TRIGGERS, *MORE_TRIGGERS),
        says="the moments that make one",
    ),
    "watch.on_demand": Key(
        form="choice",
        default="hooks",
        choices=("hooks", "always", "never"),
        says="which commands start a process that watches, if none does",
    ),
    "watch.idle": Key(
        form="duration",
        default=WatchSettings().idle,
        says="after how long without work that process leaves",
    ),
    "retention.max_checkpoints": Key(
        form="count", default=LimitSettings().max_checkpoints, says="how many a workspace keeps"
    ),
    "retention.max_store_size": Key(
        form="size", default=LimitSettings().max_store_size, says="how large the store's packs may grow"
    ),
    "session.expires_after": Key(
        form="duration", default=86_400.0, says="when a silent session whose owner nobody can see is over"
    ),
    **{
        f"retention.{kind}": Key(
            form="rungs",
            default=None,
            says=f"how many of kind `{kind}` stay: the newest, one an hour, one a day",
        )
        for kind in LIMITED_KINDS
    },
}
# The environment variables that say one.
VARIABLES = {f"LASTGOOD_{key.replace('.', '_').replace('-', '_').upper()}": key for key in KEYS}


class Layer(Value):
    """The settings of one source, by full key (``capture.exclude``), as written there.

    ``texts`` tells that values are texts only (environment variables, flags), to be read by their form.
    ``content`` is the file's text and ``below`` the table in it that is ours, by which errors name lines.
    """

    scope: Scope
    source: str
    values: Mapping[str, object]
    texts: bool = False
    content: str = ""
    below: str = ""


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

    def setting(self, key: str) -> Setting:
        """Return one setting; `Invalid` names the nearest where there is none of that key."""
        found = next((one for one in self.origins if one.key == key), None)
        if found is None:
            raise _unknown(key, Layer(scope="flags", source="settings", values={}))
        return found


def flattened(
    table: Mapping[str, object],
    *,
    source: str,
    scope: Scope = "user",
    content: str = "",
    below: str = "",
    faults: list[Invalid] | None = None,
) -> dict[str, object]:
    """Return a parsed file's values by full key; `Invalid` names the file, the key and the nearest one.

    With ``faults`` it is added to them, and the table left out.
    """
    values: dict[str, object] = {}
    layer = Layer(scope=scope, source=source, values={}, content=content, below=below)
    for name, value in table.items():
        if not isinstance(value, dict) or name in KEYS:
            values[name] = value
        elif any(key.startswith(f"{name}.") for key in KEYS):
            values.update({f"{name}.{below_it}": item for below_it, item in value.items()})
        elif faults is None:
            raise _unknown(name, layer)
        else:
            faults.append(_unknown(name, layer))
    return values


def configured(layers: Iterable[Layer], *, faults: list[Invalid] | None = None) -> Configuration:
    """Add layers up, the later ones over the earlier, and return what counts.

    Lists extend. The default of a list stands only where no layer of the user's names it; what a
    project's file says is added to it. An empty list of the user's stays empty whatever a project's
    file adds (rule K7). Raises `Invalid` for unknown keys, wrong types, and what a project's file
    may not say; with ``faults`` those of files are added to them, and such a key is left out.
    """
    found: dict[str, Setting] = {}
    added: list[str] = []
    for layer, key, raw in ((one, key, raw) for one in layers for key, raw in one.values.items()):
        try:
            value = checked(key, raw, layer)
        except Invalid as error:
            if faults is None or layer.scope not in _FILES:
                raise
            faults.append(error)
            continue
        before = found.get(key)
        if layer.scope == "project":
            before = before or _default(key)
            if _is_off(before):
                continue
            added += [f"{key}: {item}" for item in cast("tuple[str, ...]", value)]
        found[key] = _joined(before, key, value, layer.source)
    origins = tuple(found.get(key) or _default(key) for key in KEYS)
    return Configuration(settings=_settings(origins), origins=origins, added_by_project=tuple(added))


def _joined(before: Setting | None, key: str, value: object, source: str) -> Setting:
    """Return a setting with what a further layer says of it."""
    if before is None or not isinstance(value, tuple):
        return Setting(key=key, value=value, sources=(source,))
    earlier = cast("tuple[str, ...]", before.value)
    sources = dict.fromkeys((*(before.sources if earlier else ()), source))
    return Setting(key=key, value=tuple(dict.fromkeys((*earlier, *value))), sources=tuple(sources))


def _is_off(setting: Setting) -> bool:
    """Tell whether the user emptied a list that has something in it by default."""
    return setting.value == () and bool(KEYS[setting.key].default)


def _default(key: str) -> Setting:
    return Setting(key=key, value=KEYS[key].default, sources=("default",))


def _settings(origins: Sequence[Setting]) -> Settings:
    value = {one.key: one.value for one in origins}
    off = cast("tuple[str, ...]", value["capture.built_in_off"])
    state = cast("tuple[str, ...]", value["capture.state_files"])
    return Settings(
        capture=CaptureSettings(
            built_in=tuple(one for one in BUILT_IN_EXCLUDES if one not in off),
            built_in_includes=tuple(one for one in BUILT_IN_INCLUDES if one not in off),
            exclude=cast("tuple[str, ...]", value["capture.exclude"]),
            # Rule P2: named state files are captured even if ignored.
            include=(*cast("tuple[str, ...]", value["capture.include"]), *(f"/{name}" for name in state)),
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
        watch=WatchSettings(
            on_demand=cast("OnDemand", value["watch.on_demand"]),
            idle=cast("float", value["watch.idle"]),
        ),
        retention={
            kind: Rungs(**dict.fromkeys(RUNGS, 0) | cast("dict[str, int]", rungs))
            for kind in LIMITED_KINDS
            if (rungs := value[f"retention.{kind}"]) is not None
        },
        durability=cast("Durability", value["durability"]),
        session_expires_after=cast("float", value["session.expires_after"]),
    )


def checked(key: str, raw: object, layer: Layer) -> object:
    """Return what a layer says of a setting, in its own type; `Invalid` names file, line and key."""
    known = KEYS.get(key)
    if layer.scope == "project" and key not in OPEN_TO_PROJECTS:
        if known is None and not key.startswith("store"):
            raise _unknown(key, layer)
        raise _refused(
            layer,
            key,
            f"'{printable(key)}' is not for a repository to decide (rule K7)",
            hint="a repository may set "
            + ", ".join(sorted(OPEN_TO_PROJECTS))
            + "; put the rest into your own file",
        )
    if known is None:
        raise _unknown(key, layer)
    value = typed(known.form, from_text(raw, known.form) if layer.texts else raw, choices=known.choices)
    if value is None:
        shown = printable(repr(raw))
        shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
        hint = f"{key} is {wanted(known.form, known.choices)}"
        raise _refused(layer, key, f"{key} cannot be {shown}", hint=hint)
    if key in {"capture.include", "capture.state_files"}:
        _stay_inside(cast("tuple[str, ...]", value), key=key, layer=layer)
    if key == "capture.exclude" and layer.scope == "project":
        _leave_something(cast("tuple[str, ...]", value), key=key, layer=layer)
    return value


def _stay_inside(patterns: Sequence[str], *, key: str, layer: Layer) -> None:
    for pattern in patterns:
        if pattern.startswith(("/", "~", "!")) or ".." in pattern.split("/"):
            raise _refused(
                layer,
                key,
                f"{key} cannot have '{printable(pattern)}': that is outside the workspace",
                hint="write it relative to the workspace, without a leading '/', '~' or '!' and without '..'",
            )


def _leave_something(patterns: Sequence[str], *, key: str, layer: Layer) -> None:
    for pattern in patterns:
        if not pattern.strip("*/? "):
            raise _refused(
                layer,
                key,
                f"{key} cannot have '{printable(pattern)}': a repository cannot switch capture off (rule K7)",
                hint="name what is to be left out; to keep nothing at all, do not run lastgood there",
            )


def _unknown(key: str, layer: Layer) -> Invalid:
    from lastgood.suggestions import nearest

    sections = {one.partition(".")[0] for one in KEYS if "." in one}
    section = nearest(key, sorted(sections)) if "." not in key else ()
    message = f"there is no setting '{printable(key)}'"
    if section:
        return _refused(layer, key, message, hint=f"did you mean [{section[0]}]?")
    close = nearest(key, KEYS) or nearest(key.rpartition(".")[2], [one.rpartition(".")[2] for one in KEYS])
    nearest_key = close[0] if close else ""
    whole = next((one for one in KEYS if one == nearest_key or one.endswith(f".{nearest_key}")), "")
    return _refused(
        layer, key, message, hint=f"did you mean {whole}?" if close else "all keys: lastgood config"
    )


def _refused(layer: Layer, key: str, message: str, *, hint: str) -> Invalid:
    """Return the error that names file, line and key; a line only where there is no doubt about it."""
    line = line_of(layer.content, f"{layer.below}{key}") if layer.content else None
    place = layer.source if line is None else f"{layer.source}:{line}"
    details: dict[str, object] = {
        "source": layer.source,
        "key": printable(key),
        "line": line,
        "scope": layer.scope,
    }
    return Invalid(f"{place}: {message}", hint=hint, details=details)


# --- On which line of a TOML file a key stands; the reader of the standard library keeps no places ---


def line_of(content: str, key: str) -> int | None:
    """Return the number of the line on which a key (or its table) is written, None in any doubt.

    A key is looked for as written (``capture.exclude`` or, below ``[capture]``, ``exclude``), else the
    table or inline table that it is in.
    """
    exact: list[int] = []
    around: list[int] = []
    table = ""
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.strip()
        if text.startswith("["):
            table = _dotted_key(text.partition("]")[0].lstrip("["))
            found = table
        else:
            name, equals, _ = text.partition("=")
            if not equals or text.startswith("#"):
                continue
            found = f"{table}.{_dotted_key(name)}" if table else _dotted_key(name)
        if found == key:
            exact.append(number)
        elif key.startswith(f"{found}.") and not text.startswith("["):
            around.append(number)
    places = exact or around
    return places[0] if len(places) == 1 else None


def _dotted_key(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
