"""doctor: check that lastgood can work here, and say what to do where it cannot."""

from __future__ import annotations

import os

from lastgood.cli.help import VERSION
from lastgood.cli.opening import open_for
from lastgood.cli.wording import pairs, size, span, table, wrapped
from lastgood.configuration import read_configuration, user_file
from lastgood.configuration.rules import KEYS
from lastgood.documents import folder_value, text_value
from lastgood.errors import LastgoodError, Usage
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.configuration.edit import Place
    from lastgood.configuration.import_ import Imported
    from lastgood.configuration.rules import Configuration, Setting
    from lastgood.model.report import Finding, StatusReport
    from lastgood.workspace import Workspace


def doctor_verb(call: Call, console: Console) -> int:
    """Examine; the exit code is that of the first thing that does not work."""
    from lastgood.workspace.doctor import examine_machine, finding

    findings = [finding("lastgood", VERSION), *examine_machine()]
    code = 0
    try:
        with open_for(call) as workspace:
            findings += _place(workspace)
    except LastgoodError as error:
        code = error.exit_code
        findings.append(finding(f"workspace-{error.code}", error.message, error.hint, state="bad"))
    code = code or (1 if any(one.state == "bad" for one in findings) else 0)
    if console.answer("doctor", {"ok": code == 0, "findings": findings}):
        return code
    widest = max(len(one.code) for one in findings)
    rows = [(f"{one.state:4}  {one.code:{widest}}", printable(one.message)) for one in findings]
    console.lines(pairs(rows, limit=console.columns(), prose=True))
    for one in findings:
        if one.hint:
            console.sentences(f"{one.code}: {line}" for line in console.hints(one.hint))
    return code


def _place(workspace: Workspace) -> list[Finding]:
    from lastgood.workspace.doctor import examine_git, finding, noted

    report = workspace.status()
    return [
        finding("workspace", workspace.path),
        finding("store", f"{workspace.store} ({size(report.store_bytes)})"),
        finding("checkpoints", f"{report.checkpoints:,}"),
        _watch(report),
        examine_git(os.environ, workspace.path),
        *_hooks(workspace.path),
        *workspace.examine(),
        *map(noted, report.health),
    ]


def _hooks(folder: str) -> list[Finding]:
    """Tell which hosts have our hooks, which of them in more than one place, and which do not start."""
    from lastgood.cli.table_of_work import HOSTS
    from lastgood.cli.verbs.install import places, twice, unstarted_of
    from lastgood.hooks.table import host_named
    from lastgood.workspace.doctor import finding

    found = [(host, places(host, os.environ, folder=folder)) for host in map(host_named, HOSTS)]
    named = ", ".join(host.TITLE for host, each in found if each)
    notes = [
        finding("hooks-twice", said, "keep one, take out the others:\n" + "\n".join(p.remedy for p in each))
        for host, each in found
        if (said := twice(each, host=host))
    ]
    for host, each in found:
        why = unstarted_of(host, os.environ) if each else None
        if why is not None:
            message = f"those of {host.TITLE} do not start, so no checkpoint is made: {why}"
            hint = f"enter them anew: lastgood install {host.NAME}"
            notes.append(finding("hooks-start", message, hint, state="bad"))
    return [finding("hooks", f"in {named}" if named else "in no agent's host"), *notes]


def _watch(report: StatusReport) -> Finding:
    """Tell whether a process watches, and why none does; that none was started is nothing amiss."""
    from lastgood.workspace.doctor import finding

    note = report.resident_note
    if note is None:
        return finding("watch", "a process watches this workspace, and makes checkpoints by itself")
    if report.resident and note.code == "on-demand":
        return finding("watch", f"a process watches this workspace: {note.message}")
    said = (
        "a process watches this workspace, but" if report.resident else "no process watches this workspace:"
    )
    is_usual = note.code in {"not-started", "switched-off", "other-workspace"}
    return finding("watch", f"{said} {note.message}", note.hint, state="good" if is_usual else "note")


# --- config: every setting, its value, where it comes from (rules S6, K7), and how it is changed ---


def config_verb(call: Call, console: Console) -> int:
    """Show the configuration, or change it."""
    action = call.argument(0) or "show"
    key, value = call.argument(1), call.argument(2)
    if ((key is None) is not (action == "show")) or ((value is None) is (action == "set")):
        raise Usage(_NEEDS[action], hint="see: lastgood help config")
    changes = action in {"set", "unset", "import"}
    if not changes and (call.has("print") or call.has("project")):
        raise Usage("--print and --project belong to what changes a file", hint="see: lastgood help config")
    if call.has("replace") and action != "import":
        raise Usage("--replace belongs to `config import`", hint="see: lastgood help config")
    if not changes:
        return _show(call, console, key)
    place = _file_to_change(call)
    assert key is not None
    return _import(call, console, key, place) if action == "import" else _change(call, console, key, place)


_NEEDS = {
    "show": "`config show` takes neither KEY nor VALUE",
    "get": "`config get` needs KEY, and no more",
    "set": "`config set` needs KEY and VALUE",
    "unset": "`config unset` needs KEY, and no more",
    "import": "`config import` needs FILE, and no more",
}


def _file_to_change(call: Call) -> Place:
    from lastgood.configuration.edit import own_place, project_place

    if not call.has("project"):
        return own_place(os.environ)
    with open_for(call) as workspace:
        return project_place(workspace.path)


def _change(call: Call, console: Console, key: str, place: Place) -> int:
    """Set or unset one setting in a file."""
    from lastgood.configuration.edit import set_value, unset_value, write

    text, planned = call.argument(2), call.has("print")
    value: object = None
    if text is None:
        change = unset_value(place, key)
    else:
        change, value = set_value(place, key, text)
    if not planned:
        write(change)
    written = [] if text is None else [{"key": key, "value": value, "from": None}]
    record: dict[str, object] = {"file": folder_value(place.path), "dry_run": planned, "written": written}
    record |= {"removed": [key] if text is None else [], "kept": [], "left": []}
    if console.answer("config", record):
        return 0
    if planned:
        console.line(printable_lines(change.content).rstrip("\n"))
        return 0
    did = f"{key} = {_shown_value(value)}" if text is not None else f"{key} is no longer set"
    console.note(f"{did}, in {printable(place.path)}{_reach(place)}")
    return 0


def _reach(place: Place) -> str:
    return ", for all your projects" if place.scope == "user" else ""


def _import(call: Call, console: Console, file: str, place: Place) -> int:
    from lastgood.configuration.import_ import import_configuration

    planned = call.has("print")
    imported = import_configuration(file, place=place, replace=call.has("replace"), write=not planned)
    if console.answer("config", _import_record(imported, planned=planned)):
        return 0
    if planned:
        console.line(printable_lines(imported.content).rstrip("\n"))
    word = "would write" if planned else "wrote"
    for one in imported.written:
        console.note(f"{word} {one.key} = {_shown_value(one.value)}  (from {printable(one.source)})")
    for one in imported.kept:
        console.note(f"kept what the file says of {one.key}  (not taken: {printable(one.source)})")
    for key, reason in imported.translation.left:
        console.warn(f"not taken over: {key}: {reason}")
    if imported.kept:
        console.note("take those over too: --replace")
    if imported.written and not planned:
        console.note(f"into {printable(imported.path)}{_reach(place)}")
    if any(one.key == "auto.enabled" and one.value is False for one in imported.written):
        console.warn("no checkpoint is made by itself then, in none of your projects: auto.enabled is false")
    return 0


def printable_lines(text: str) -> str:
    """Return text of several lines with everything but its line breaks and tabs made visible."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.splitlines())


def _shown_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) or "(none)" if isinstance(value, list) else str(value)


def _import_record(imported: Imported, *, planned: bool) -> dict[str, object]:
    return {
        "file": folder_value(imported.path),
        "dry_run": planned,
        "written": [
            {"key": one.key, "value": one.value, "from": text_value(one.source)} for one in imported.written
        ],
        "kept": [{"key": one.key, "from": text_value(one.source)} for one in imported.kept],
        "left": [{"key": text_value(key), "reason": reason} for key, reason in imported.translation.left],
    }


def _show(call: Call, console: Console, key: str | None) -> int:
    with open_for(call) as workspace:
        path, store = workspace.path, workspace.store
    found = read_configuration(path, environment=os.environ, flags=call.texts("set"))
    if key is not None:
        found = found.replace(origins=(found.setting(key),))
    said = {"workspace": folder_value(path), "store": folder_value(store), **_settings_record(found)}
    if console.answer("config", said):
        return 0
    if key is not None:
        console.line(_shown(found.origins[0]) if _worth(found.origins[0]) else "(none)")
        return 0
    rows = [("Setting", "From", "Value")]
    rows += [(one.key, ", ".join(one.sources), _shown(one)) for one in found.origins if _worth(one)]
    console.lines(table(rows, flexible=(2,), limit=console.columns()))
    console.line()
    capture, room = found.settings.capture, console.columns()
    for heading, patterns in (
        ("Left out of every checkpoint", (".git", *capture.built_in)),
        ("Captured although git ignores them, and private (up to 256 KiB)", capture.built_in_includes),
    ):
        console.line(f"{heading}:")
        for line in wrapped(" ".join(patterns), room and room - 2):
            console.line("  " + line)
    console.line("capture.built_in_off switches any of them off, but .git.")
    mine = user_file(os.environ)
    if mine is not None:
        console.note(f"\nyour own settings go into {printable(mine)}")
    return 0


def _worth(setting: Setting) -> bool:
    """Leave out what is neither set nor has a default."""
    return setting.value is not None or setting.sources != ("default",)


def _shown(setting: Setting) -> str:
    value = setting.value
    if isinstance(value, tuple):
        return printable(", ".join(map(str, value))) if value else "(none)"
    if isinstance(value, bool):
        return "true" if value else "false"
    form = KEYS[setting.key].form
    if form == "size" and isinstance(value, int):
        return size(value)
    if form == "duration" and isinstance(value, int | float):
        return span(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {amount}" for key, amount in value.items())
    return printable(str(value))


def _settings_record(found: Configuration) -> dict[str, object]:
    settings = [
        {"key": one.key, "value": _plain(one.value), "from": [text_value(source) for source in one.sources]}
        for one in found.origins
    ]
    capture = found.settings.capture
    return {
        "settings": settings,
        "built_in_excludes": [".git", *capture.built_in],
        "built_in_includes": [*capture.built_in_includes],
    }


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [text_value(str(item)) for item in value]
    return text_value(value) if isinstance(value, str) else value
