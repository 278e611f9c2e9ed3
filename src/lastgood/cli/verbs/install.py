"""install, uninstall: entries in the settings of the hosts of coding agents (decision 049)."""

from __future__ import annotations

import os
import sys

from lastgood.configuration.edit import read_text, write_text
from lastgood.errors import Invalid, NotFound, Storage
from lastgood.hooks import claude_code
from lastgood.hooks.settings_text import appended, read, without
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console

_EMPTY = "{}\n"


def install_verb(call: Call, console: Console) -> int:
    """Enter the hooks into a host's settings, or say what would be entered, or whether they are there."""
    file = _file(call)
    before = read_text(file)
    content = _with_hooks(before or _EMPTY, what=printable(file))
    if call.has("print"):
        console.lines(content.splitlines())
        return 0
    if call.has("check") and content != before:
        raise NotFound(
            f"{printable(file)} does not have the hooks of this lastgood",
            hint=f"enter them: {call.command(_words('install', call))}",
        )
    changed = content != before
    if changed:
        write_text(file, content, private=not call.has("project"))
        _look_again(file, content)
    if console.answer("install", {"host": claude_code.NAME, "file": file, "changed": changed}):
        return 0
    console.sentence(f"{'entered into' if changed else 'is in'} {printable(file)}")
    if not call.has("check"):
        _tell(call, console, settings=read(content, what=printable(file)))
    return 0


def uninstall_verb(call: Call, console: Console) -> int:
    """Take the hooks out of a host's settings."""
    file = _file(call)
    before = read_text(file)
    content = _without_hooks(before, what=printable(file)) if before else before
    if call.has("print"):
        console.lines(content.splitlines())
        return 0
    changed = content != before
    if changed:
        write_text(file, content, private=not call.has("project"))
        _look_again(file, content)
    if console.answer("uninstall", {"host": claude_code.NAME, "file": file, "changed": changed}):
        return 0
    name = printable(file)
    console.sentence(f"taken out of {name}" if changed else f"nothing of lastgood is in {name}")
    return 0


def _file(call: Call) -> str:
    project = os.path.abspath(call.text("directory") or ".") if call.has("project") else None
    return claude_code.settings_file(os.environ, project=project)


def _with_hooks(text: str, *, what: str) -> str:
    """Return settings with our entries, as they are where those are just what they have to be."""
    wanted = claude_code.groups(_program())
    events = read(text, what=what).get("hooks", {})
    if not isinstance(events, dict) or not all(isinstance(one, list) for one in events.values()):
        raise Invalid(f"the hooks in {what} are of a form that nobody knows", hint="mend them by hand")
    held = {
        name: ours
        for name, groups in events.items()
        if (ours := [one for one in groups if claude_code.is_ours(one)])
    }
    if held == {name: [group] for name, group in wanted.items()}:
        return text
    content = _without_hooks(text, what=what)
    for name, group in wanted.items():
        content = appended(content, ("hooks", name), group)
    read(content, what=what)
    return content


def _without_hooks(text: str, *, what: str) -> str:
    hooks = read(text, what=what).get("hooks")
    for name in hooks if isinstance(hooks, dict) else ():
        text = without(text, ("hooks", name), claude_code.is_ours)
    return text


def _program() -> tuple[str, ...]:
    """Return how this program is started from anywhere: by its script, or by the interpreter that runs it."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script) == "__main__.py":
        return sys.executable, "-m", "lastgood"
    if not os.access(script, os.X_OK) or not _names_interpreter(script):
        return sys.executable, script
    return (script,)


def _names_interpreter(script: str) -> bool:
    """Tell whether a script says by a whole path what runs it, whatever the caller's PATH is."""
    with open(script, "rb") as file:
        first = file.readline()
    return not first.startswith(b"#!") or b"/env " not in first


def _look_again(file: str, content: str) -> None:
    if read_text(file) != content:
        raise Storage(
            f"{printable(file)} does not say what was written into it",
            hint="somebody else writes to it: close the host, then try again",
        )


def _tell(call: Call, console: Console, *, settings: dict[str, object]) -> None:
    console.note(
        "Claude Code makes checkpoints from its next session on: before a prompt, before risky commands,"
    )
    console.note("after each turn.")
    if call.has("project"):
        console.note("It asks once whether you trust the folder, and takes its hooks only then.")
    if settings.get("disableAllHooks"):
        console.warn("But disableAllHooks is set in that file: take it out.", style="red")
    console.note(f"To see them: {call.command('list')}; to go back by turns: {call.command('rewind')}")


def _words(verb: str, call: Call) -> str:
    return f"{verb} {claude_code.NAME}{' --project' if call.has('project') else ''}"
