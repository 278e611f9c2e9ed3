"""Opens the workspace that a call means, and the paths it names."""

from __future__ import annotations

import os

from lastgood.cli.grammar import quoted
from lastgood.errors import Invalid, LastgoodError, NotFound, Usage
from lastgood.ids import SESSION_VARIABLE
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.workspace import Workspace
    from lastgood.workspace.opening import Opened, Purpose
    from lastgood.workspace.verbs.door import Door
    from lastgood.workspace.verbs.looking import Looks


def open_anywhere(call: Call, *, purpose: Purpose = "find") -> Workspace:
    """Return the workspace of a call that is about the store: any folder will do, whatever its file says."""
    from lastgood.workspace import Workspace

    return _open(call, Workspace, purpose=purpose, anywhere=True)


def open_for(call: Call, *, purpose: Purpose = "make") -> Workspace:
    """Return the workspace of a call, with all verbs."""
    from lastgood.workspace import Workspace

    return open_group(call, Workspace, purpose=purpose)


def open_existing(call: Call) -> Workspace:
    """Return the workspace of a call that needs what is there already: no store is made for it."""
    return open_for(call, purpose="find")


def open_at_work(call: Call) -> Workspace:
    """Return the workspace of a call that tells of work: where a session is named, it is there already."""
    return open_for(call, purpose="find" if os.environ.get(SESSION_VARIABLE) else "make")


def open_group(call: Call, group: type[Opened], *, purpose: Purpose) -> Opened:
    """Return the workspace of a call with the verbs of one group: others are not even loaded.

    To ``find`` or ``need`` one makes no store; to ``repair`` mends first what keeps it from being opened.
    """
    return _open(call, group, purpose=purpose, anywhere=False)


def _open(call: Call, group: type[Opened], *, purpose: Purpose, anywhere: bool) -> Opened:
    """Open a workspace; a configuration file with a fault in it is told of, and stops nothing.

    An agent may have broken that very file, or a merge has.
    """
    from lastgood.workspace.opening import open_door

    opened = open_door(
        group,
        call.text("directory"),
        store=call.text("store"),
        allow_root=anywhere or call.has("allow-root"),
        environment=os.environ,
        flags=call.texts("set"),
        purpose=purpose,
        project=not anywhere,
    )
    # What reads the configuration itself refuses what is wrong with it, and says so.
    for note in () if call.verb.name == "config" else opened.remarks:
        text = f"lastgood: {printable(note.message)}\n  {printable(note.hint)}\n"
        os.write(2, text.encode("utf-8", "replace"))
    return opened


def paths_of(call: Call, workspace: Door) -> tuple[str, ...]:
    """Return the paths after ``--`` relative to the workspace.

    As typed they are relative to the folder of ``-C``, else to the current folder if that lies in
    the workspace, else to the workspace.
    """
    if call.paths is None:
        return ()
    start = workspace.path
    here = _current_folder()
    if call.text("directory") is None and _inside(here, workspace.path):
        start = here
    return tuple(_relative(path, start=start, root=workspace.path) for path in call.paths)


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _relative(path: str, *, start: str, root: str) -> str:
    full = os.path.normpath(os.path.join(start, path))
    if not _inside(full, root):
        # Another spelling of the workspace (through a link) means the same place.
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
    if not _inside(full, root):
        raise Invalid(
            f"'{printable(path)}' is outside the workspace {printable(root)}",
            hint="give a path inside it, or -C DIR for another workspace",
        )
    return "." if full == root else full[len(root.rstrip("/")) + 1 :]


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def looked_up(ref: str, call: Call, workspace: Looks) -> Checkpoint:
    """Return the checkpoint of a REF; a path given in its place is answered with the right form."""
    try:
        return workspace.get(ref)
    except (NotFound, Invalid) as error:
        if not call.verb.paths:
            if not _is_path(ref, workspace):
                raise
            raise type(error)(
                f"'{printable(ref)}' is a path, and `{call.verb.name}` takes a checkpoint",
                hint=f"what became of that path: {call.command(f'diff @ -- {quoted(ref)}')}"
                f"    the checkpoints: {call.command('list')}",
                details=error.details,
            ) from error
        if "/" not in ref and not _is_path(ref, workspace):
            raise
        right = call.command(f"{call.verb.name} @ -- {quoted(ref)}")
        raise Usage(
            f"'{printable(ref)}' is a path, and a checkpoint belongs here",
            hint=f"for this path from the latest checkpoint: {right}",
        ) from error


def _is_path(ref: str, workspace: Looks) -> bool:
    if os.path.lexists(ref) or os.path.lexists(f"{workspace.path}/{ref}"):
        return True
    try:
        workspace.read("@", ref)  # a deleted file is what one most wants back
    except LastgoodError:
        return False
    return True
