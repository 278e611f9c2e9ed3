"""install, uninstall: entries in the settings of the hosts of coding agents (decision 049)."""

from __future__ import annotations

import os
import subprocess
import sys

from lastgood.configuration import read_settings
from lastgood.configuration.edit import read_text, write_text
from lastgood.errors import Conflict, Invalid, LastgoodError, NotFound, Storage
from lastgood.hooks.entries import (
    ASKS,
    PERL,
    PLAIN,
    has_entries,
    plugins,
    with_entries,
    without_entries,
    words_entered,
)
from lastgood.hooks.settings_text import read
from lastgood.hooks.table import host_named
from lastgood.paths import printable
from lastgood.value import Value
from lastgood.workspace.detached import PACKAGE_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.hooks.host import Host, Placed
    from lastgood.settings import Settings

# Where a user's own settings are not those of a project, but beside them.
_LOCAL = "settings.local.json"
# Starts the client in a Python that looks for nothing else that is installed (decision 067). Where the
# package is gone from there, as with another Python in the same place, the program itself finds it. Whatever
# is gone, Python ends with 1: 2, as of a script that is not there or an option not known, blocks an agent.
QUICK = (
    'import posix, sys; del sys.path[0]; at, by = "{folder}", [{program}];'
    ' posix.access(at + "/lastgood/client.py", 4)'
    ' or [posix.stat(one) for one in by if "/" in one] and posix.execv(by[0], by + sys.argv[1:]);'
    " sys.path.append(at); from lastgood.client import run_for; run_for(by)"
)
# Starts the Perl that asks first, with the words of above behind; these alone where it has gone.
_EITHER = f'[ -x {PERL[0]} ] && {PLAIN} exec {" ".join(PERL)} -e "$0" "$@"; exec "$@"'
_PERL = '@at = q"{folder}/lastgood"; @by = ({program}); ' + ASKS
# What it knows by its number, as that is on most machines.
_NUMBERS = (1, 1, 2048, 1, 17)
# Below these each version has a folder of its own; the program's name leads to the last.
_VERSIONED = ("/nix/store/", "/gnu/store/", "/Cellar/", "/snap/")
# What every file that is ours alone says, by which it is told from another's.
_OWN = "lastgood install"
# How long a hook may take that is given nothing, in seconds.
_PATIENCE = 60


class _Edit(Value):
    """A file as it is, and as it is to be; an empty ``content`` is a file of ours that is to be gone."""

    path: str
    before: str
    content: str
    executable: bool = False

    @property
    def is_change(self) -> bool:
        is_program = bool(self.before) and os.access(self.path, os.X_OK)
        return self.before != self.content or (self.executable and not is_program and bool(self.content))


def install_verb(call: Call, console: Console) -> int:
    """Enter the hooks into a host's settings, or say what would be entered, or whether they are there."""
    host, placed = _placed(call)
    edits = _entered(placed, host=host.NAME)
    if call.has("print"):
        console.lines(edits[0].content.splitlines())
        return 0
    changed = any(one.is_change for one in edits)
    if call.has("check"):
        _refuse_unstarted(placed, call, host=host)
    if call.has("check") and changed:
        raise NotFound(
            f"{printable(placed.file)} does not have the hooks of this lastgood",
            hint=f"enter them: {call.command(_words('install', call, host))}",
        )
    _write(edits, call)
    if console.answer("install", {"host": host.NAME, "file": placed.file, "changed": changed}):
        return 0
    console.sentence(f"{'hooks entered into' if changed else 'the hooks are in'} {printable(placed.file)}")
    _tell_twice(call, console, host=host)
    if not call.has("check"):
        settings = {} if placed.own else read(edits[0].content, what=printable(placed.file))
        _tell(call, console, host=host, settings=settings)
    return 0


def _refuse_unstarted(placed: Placed, call: Call, *, host: Host) -> None:
    """Refuse hooks that are entered and do not start; `NotFound`.

    In a project's settings may stand whatever others put there: nothing of that is run (rule S12).
    """
    why = None if call.has("project") or placed.own else unstarted(placed.file, host=host)
    if why is not None:
        raise NotFound(
            f"the hooks in {printable(placed.file)} do not start, so no checkpoint is made: {why}",
            hint=f"enter them anew: {call.command(_words('install', call, host))}",
        )


def unstarted(file: str, *, host: Host) -> str | None:
    """Return why what a host starts by a user's own settings does not start; None if it does, or is none.

    It is given a word of nothing, of which it makes no checkpoint.
    """
    words = words_entered(_settings(file), host=host.NAME)
    if not words:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - what the host itself starts, of the user's own
            words, cwd="/", input=b"{}", capture_output=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"nothing came of it within {_PATIENCE} s"
    except OSError as error:
        return f"{printable(words[0])}: {error.strerror}"
    if not done.returncode and not done.stderr:
        return None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"it ends with {done.returncode}" + (f" ({printable(said[-1])})" if said else "")


def unstarted_of(host: Host, environment: Mapping[str, str]) -> str | None:
    """Return the same of what stands in a user's settings of a host, wherever these are."""
    try:
        placed = host.placed(("lastgood",), environment, project=None)
    except LastgoodError:
        return None
    return None if placed.own else unstarted(placed.file, host=host)


def uninstall_verb(call: Call, console: Console) -> int:
    """Take the hooks out of a host's settings."""
    host, placed = _placed(call)
    edits = _taken_out(placed, host=host.NAME)
    if call.has("print"):
        console.lines(edits[0].content.splitlines())
        return 0
    changed = any(one.is_change for one in edits)
    _write(edits, call)
    if console.answer("uninstall", {"host": host.NAME, "file": placed.file, "changed": changed}):
        return 0
    name = printable(placed.file)
    console.sentence(f"taken out of {name}" if changed else f"nothing of lastgood is in {name}")
    if changed:
        console.note("What was saved stays. A process that watches ends by itself once idle; to end it now:")
        console.note(f"  {call.command('watch --stop')}")
    return 0


def _placed(call: Call) -> tuple[Host, Placed]:
    host = host_named(call.argument(0) or "")
    project = os.path.abspath(call.text("directory") or ".") if call.has("project") else None
    placed = host.placed(_started(), os.environ, project=project)
    settings, _ = read_settings(project, environment=os.environ, flags=call.texts("set"))
    if not _tells_tools(placed, settings):
        return host, placed
    return host, placed.replace(entries=placed.with_tools, text=placed.text_with_tools)


def _tells_tools(placed: Placed, settings: Settings) -> bool:
    """Tell whether calls of tools are to make checkpoints, and the host can tell them apart."""
    return bool(placed.with_tools or placed.text_with_tools) and settings.auto.wants("tool")


def _entered(placed: Placed, *, host: str) -> list[_Edit]:
    """Return what has to change so that the hooks are there; `Conflict` where somebody else's file is."""
    if not placed.own:
        before = read_text(placed.file)
        what = printable(placed.file)
        content = with_entries(before or placed.empty, placed.entries, host=host, what=what)
        return [_Edit(path=placed.file, before=before, content=content)]
    edits = [
        _Edit(path=one, before=read_text(one), content=placed.text, executable=placed.executable)
        for one in placed.own
    ]
    strange = next((one.path for one in edits if one.before and _OWN not in one.before), None)
    if strange is not None:
        raise Conflict(
            f"{printable(strange)} is there, and not lastgood's",
            hint="have it start this too, or move it away: see what it would say with --print",
        )
    return edits


def _taken_out(placed: Placed, *, host: str) -> list[_Edit]:
    """Return what has to change so that the hooks are gone."""
    if not placed.own:
        before = read_text(placed.file)
        content = without_entries(before, host=host, what=printable(placed.file)) if before else before
        return [_Edit(path=placed.file, before=before, content=content)]
    texts = [(one, read_text(one)) for one in placed.own]
    return [_Edit(path=one, before=text, content="" if _OWN in text else text) for one, text in texts]


def _write(edits: Sequence[_Edit], call: Call) -> None:
    """Carry out some edits, and look whether the files say so; `Storage`."""
    for one in edits:
        if one.is_change and one.content:
            write_text(one.path, one.content, private=not call.has("project"))
        if one.is_change:
            _settle(one)
    for one in edits:
        if one.is_change and read_text(one.path) != one.content:
            raise Storage(
                f"{printable(one.path)} does not say what was written into it",
                hint="somebody else writes to it: close the host, then try again",
            )


def _settle(edit: _Edit) -> None:
    """Remove a file of ours that is to be gone, or make it a program where it has to be one."""
    try:
        if not edit.content:
            os.unlink(edit.path)
        elif edit.executable:
            os.chmod(edit.path, os.stat(edit.path).st_mode & 0o777 | 0o100)
    except OSError as error:
        raise Storage(
            f"{printable(edit.path)} could not be changed: {error.strerror}", hint="see who it belongs to"
        ) from error


def _started() -> tuple[str, ...]:
    """Return what a host is to start: Python without all that a hook can do without, else the program."""
    program = _program()
    is_there = os.path.isfile(f"{PACKAGE_FOLDER}/lastgood/client.py")  # an archive has no such file
    is_plain = all(map(_is_plain, (sys.executable, PACKAGE_FOLDER, *program)))
    goes = any(one in path for one in _VERSIONED for path in (sys.executable, PACKAGE_FOLDER))
    if sys.platform != "linux" or not is_there or not is_plain or goes or "PYTHONHOME" in os.environ:
        return program
    by = ", ".join(f'"{one}"' for one in program)
    quick = sys.executable, "-ES", "-c", QUICK.format(folder=PACKAGE_FOLDER, program=by)
    if not _has_perl():
        return quick
    named = ", ".join(f'q"{one}"' for one in program)
    return "/bin/sh", "-c", _EITHER, _PERL.format(folder=PACKAGE_FOLDER, program=named), *quick


def _has_perl() -> bool:
    """Tell whether a hook can start with Perl: it is there and heeds no variables, and the numbers are so."""
    import socket  # lazily: `uninstall` does not ask

    if (socket.AF_UNIX, socket.SOCK_STREAM, os.O_NONBLOCK, socket.SOL_SOCKET, socket.SO_PEERCRED) != _NUMBERS:
        return False
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            [*PERL, "-e", "exit 3"],
            env={"PERL5OPT": "-MNoSuchModule"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 3


def _is_plain(path: str) -> bool:
    """Tell whether a path is there, and Python reads it between quotes as it is."""
    return path.isascii() and path.isprintable() and bool(path) and '"' not in path and "\\" not in path


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


class Place(Value):
    """Where hooks of ours are that a host starts, and the command that takes them out there."""

    name: str
    remedy: str


def places(host: Host, environment: Mapping[str, str], *, folder: str) -> tuple[Place, ...]:
    """Return all places in which our hooks are that a host starts in a folder."""
    found: dict[str, Place] = {}
    for project, option in ((None, ""), (folder, " --project")):
        try:
            placed = host.placed(("lastgood",), environment, project=project)
        except LastgoodError:
            continue
        if _is_entered(placed, host=host.NAME):
            remedy = f"lastgood uninstall {host.NAME}{option}"
            found.setdefault(placed.file, Place(name=printable(placed.file), remedy=remedy))
        for name, scope in () if placed.own else _plugins(placed.file, is_project=project is not None):
            remedy = f"claude plugin uninstall {name}{scope}"
            found.setdefault(name, Place(name=f"the plugin {printable(name)}", remedy=remedy))
    return tuple(found.values())


def _is_entered(placed: Placed, *, host: str) -> bool:
    if placed.own:
        return any(_OWN in _text(one) for one in placed.own)
    return has_entries(_settings(placed.file), host=host)


def _plugins(file: str, *, is_project: bool) -> Iterator[tuple[str, str]]:
    """Yield our plugins that settings switch on, each with what tells a host that it means those settings."""
    where = [(file, " --scope project" if is_project else "")]
    if is_project:
        where.append((os.path.join(os.path.dirname(file), _LOCAL), " --scope local"))
    for one, scope in where:
        for name in plugins(_settings(one)):
            yield name, scope


def _settings(file: str) -> Mapping[str, object]:
    try:
        return read(_text(file) or "{}", what=file)
    except Invalid:
        return {}


def _text(file: str) -> str:
    try:
        return read_text(file)
    except Invalid:
        return ""


def twice(found: Sequence[Place], *, host: Host) -> str:
    """Return what is said where hooks are in more than one place; "" where they are not."""
    if len(found) < 2:
        return ""
    named = " and in ".join(one.name for one in found)
    return f"{host.TITLE} tells of each event more than once: its hooks are in {named}"


def _tell(call: Call, console: Console, *, host: Host, settings: Mapping[str, object]) -> None:
    console.note(
        f"{host.TITLE} makes checkpoints from its next session on: before a prompt, before risky commands,"
        " after each turn."
    )
    for line in host.advice(project=call.has("project")):
        console.note(line)
    doubt = host.doubt(settings)
    if doubt is not None:
        console.warn(f"But {doubt}: take it out.", style="red")
    list, back = call.command("list"), call.command("rewind N")
    console.note(f"To see the checkpoints: {list}; to go back by turns: {back}")
    console.note(f"To take the hooks out: {call.command(_words('uninstall', call, host))}")


def _tell_twice(call: Call, console: Console, *, host: Host) -> None:
    found = places(host, os.environ, folder=os.path.abspath(call.text("directory") or "."))
    said = twice(found, host=host)
    if said:
        console.warn(f"{said}.")
        console.warn("The second does nothing, but takes its time. Keep one, and take out the others:")
        for one in found:
            console.warn(f"  {one.remedy}")


def _words(verb: str, call: Call, host: Host) -> str:
    return f"{verb} {host.NAME}{' --project' if call.has('project') else ''}"
