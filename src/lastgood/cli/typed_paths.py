"""Paths as they were typed, and those that were meant by one that nothing holds."""

from __future__ import annotations

import os

from lastgood.errors import Invalid, LastgoodError, NotFound
from lastgood.paths import lies_in, printable, quoted, to_text
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.workspace.opened import OpenWorkspace

    # How a path is now, by what the checkpoint where one stands has of it.
    Now = Literal["deleted", "changed", "unchanged"]


def paths_of(call: Call, workspace: OpenWorkspace) -> tuple[str, ...]:
    """Return the paths after ``--`` relative to the workspace.

    As typed they are relative to the folder of ``-C``, else to the current folder if that lies in
    the workspace, else to the workspace.
    """
    return tuple(path_of(path, call, workspace) for path in call.paths or ())


def path_of(path: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return a path as it was typed, relative to the workspace (see `paths_of`)."""
    return _relative(path, start=start(call, workspace), root=workspace.path)


def start(call: Call, workspace: OpenWorkspace) -> str:
    """Return the folder that a path as it was typed is relative to (see `paths_of`)."""
    return _start(call, workspace.path)


def _start(call: Call, root: str) -> str:
    here = current()
    in_it = call.text("directory") is None and lies_in(here, root)
    return here if in_it else root


def current() -> str:
    """Return the current folder, or where it was before it was deleted; nothing where that is not known."""
    from lastgood.workspace.arguments import current_folder

    try:
        return current_folder(os.environ)
    except NotFound:
        return ""


def _relative(path: str, *, start: str, root: str) -> str:
    full = os.path.normpath(os.path.join(start, path))
    if not lies_in(full, root):
        # Another spelling of the workspace (through a link) means the same place.
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
    if not lies_in(full, root):
        raise Invalid(
            f"'{printable(path)}' is outside the workspace {printable(root)}",
            hint="give a path inside it, or -C DIR for another workspace",
        )
    return "." if full == root else full[len(root.rstrip("/")) + 1 :]


# --- Paths of a like name: what is meant by a name without its folder, by a part of one, by a pattern ---


class Alike(Value):
    """A path of a like name as one that nothing holds, relative to the workspace, and how it is now."""

    path: str
    now: Now


_ORDER: tuple[Now, ...] = ("deleted", "changed", "unchanged")


def alike(typed: str, call: Call, workspace: OpenWorkspace) -> list[Alike]:
    """Return the paths that may be meant by one that nothing holds, what one misses first."""
    shown = from_top(typed, call, workspace)
    if shown is not None:
        return [Alike(path=shown, now=_now(shown, _changed((shown,), workspace), workspace))]
    try:
        # Of the last change alone they would not be looked for.
        workspace.log(path_of(typed, call, workspace), limit=2, guards=call.verb.name != "log")
    except NotFound as error:
        return alike_of(error, call, workspace)
    except (LastgoodError, ValueError):
        pass
    return []


def alike_of(error: LastgoodError, call: Call, workspace: OpenWorkspace) -> list[Alike]:
    """Return the same of the failure of a `log` of the path."""
    told = error.details.get("same_name", ())
    paths = [one for one in told if isinstance(one, str)] if isinstance(told, list | tuple) else []
    restoring = bool(paths) and call.verb.name == "restore"
    changed = _changed(paths, workspace) if restoring else frozenset()
    if call.arguments and call.arguments[0] in paths:  # as it is called from the top, and shown
        paths = [call.arguments[0]]
    found = [Alike(path=one, now=_now(one, changed, workspace)) for one in paths]
    return sorted(found, key=lambda one: _ORDER.index(one.now))


def _changed(paths: Sequence[str], workspace: OpenWorkspace) -> frozenset[str]:
    """Return in which of some paths something changed since where the workspace stands."""
    try:
        files = workspace.diff(paths=paths, patch=False).files
    except LastgoodError:
        return frozenset()
    below = [to_text(path) for one in files for path in (one.path, one.old_path) if path is not None]
    return frozenset(one for one in paths if any(lies_in(path, one) for path in below))


def _now(path: str, changed: frozenset[str], workspace: OpenWorkspace) -> Now:
    if not os.path.lexists(f"{workspace.path}/{path}"):
        return "deleted"
    return "changed" if path in changed else "unchanged"


def from_top(typed: str, call: Call, workspace: OpenWorkspace) -> str | None:
    """Return a path that was typed as paths are shown, relative to the workspace, from elsewhere in it.

    None if nothing ever held it.
    """
    path = os.path.normpath(typed)
    if path.startswith(("/", "..")) or start(call, workspace) == workspace.path:
        return None
    try:
        workspace.log(path, limit=1)
    except (LastgoodError, ValueError):
        return None
    return path


def same_name(typed: str, call: Call, workspace: OpenWorkspace, *, ref: str | None = None) -> str:
    """Return lines with paths of a like name as one that nothing holds, as commands; none if none are."""
    return alike_lines(alike(typed, call, workspace), call, workspace, ref=ref)


def alike_lines(
    found: Sequence[Alike], call: Call, workspace: OpenWorkspace, *, ref: str | None = None
) -> str:
    """Return paths as lines of a hint, each with the command that takes it."""
    words = call.verb.name if ref is None else f"{call.verb.name} {quoted(ref)} --"
    lines = []
    for one in found:
        path = as_typed(one.path, call, workspace)
        told = "there was" if one.now == "deleted" else "there is"
        more = ", changed" if one.now == "changed" else ""
        lines.append(f"{told} {printable(path)}{more}: {call.command(f'{words} {quoted(path)}')}\n")
    return "".join(lines)


def as_typed(path: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return a path of the workspace as it is typed where the call was."""
    return typed_below(path, call, root=workspace.path)


def typed_below(path: str, call: Call, *, root: str) -> str:
    """Return a path of the workspace at ``root`` as it is typed where the call was."""
    typed = os.path.relpath(f"{root}/{path}", _start(call, root))
    return f"./{typed}" if typed.startswith("-") else typed


def for_other_programs(path: str, root: str) -> str:
    """Return a path of the workspace as any program takes it in the current folder, whatever -C says."""
    here, place = current(), f"{root}/{path}"
    typed = os.path.relpath(place, here) if lies_in(here, root) else place
    return f"./{typed}" if typed.startswith("-") else typed


def only_meant(
    typed: str, found: Sequence[Alike], call: Call, console: Console, *, workspace: OpenWorkspace
) -> str | None:
    """Return which path a person means by one that nothing holds, None if they leave.

    That is the only one, or the only one that is not as it was; of several they pick one.
    """
    missed = [one for one in found if one.now != "unchanged"]
    meant = missed if len(missed) == 1 else found if len(found) == 1 else []
    if not meant:
        return _picked(typed, found, call, console, workspace=workspace)
    path = as_typed(meant[0].path, call, workspace)
    console.warn(f"'{printable(typed)}' is taken as {printable(path)} ({meant[0].now})")
    for one in found:
        if one is not meant[0]:
            console.warn(f"  not {printable(as_typed(one.path, call, workspace))}, which is as it was")
    return path


def _picked(
    typed: str, found: Sequence[Alike], call: Call, console: Console, *, workspace: OpenWorkspace
) -> str | None:
    console.warn(f"'{printable(typed)}' may be one of these:")
    paths = [as_typed(one.path, call, workspace) for one in found]
    for number, (one, path) in enumerate(zip(found, paths, strict=True), 1):
        console.warn(f"  {number}  {one.now:9}  {printable(path)}")
    answer = console.ask(f"Which one? [1-{len(paths)}/N] ")
    place = int(answer) if answer.isascii() and answer.isdigit() else 0
    return paths[place - 1] if 1 <= place <= len(paths) else None
