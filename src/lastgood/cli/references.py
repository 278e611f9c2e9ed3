"""The checkpoint and the paths that the words of a call mean."""

from __future__ import annotations

import os

from lastgood.cli.grammar import quoted
from lastgood.errors import Invalid, LastgoodError, NotFound, Usage
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.workspace.opened import OpenWorkspace

_SHOWN_OTHERS = 5


def paths_of(call: Call, workspace: OpenWorkspace) -> tuple[str, ...]:
    """Return the paths after ``--`` relative to the workspace.

    As typed they are relative to the folder of ``-C``, else to the current folder if that lies in
    the workspace, else to the workspace.
    """
    return tuple(path_of(path, call, workspace) for path in call.paths or ())


def path_of(path: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return a path as it was typed, relative to the workspace (see `paths_of`)."""
    return _relative(path, start=_start(call, workspace), root=workspace.path)


def _start(call: Call, workspace: OpenWorkspace) -> str:
    """Return the folder that a path as it was typed is relative to (see `paths_of`)."""
    here = current()
    in_it = call.text("directory") is None and _inside(here, workspace.path)
    return here if in_it else workspace.path


def current() -> str:
    """Return the current folder, or where it was before it was deleted; nothing where that is not known."""
    from lastgood.workspace.arguments import current_folder

    try:
        return current_folder(os.environ)
    except NotFound:
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


def looked_up(ref: str, call: Call, workspace: OpenWorkspace) -> Checkpoint:
    """Return the checkpoint of a REF; a path given in its place is answered with the right form.

    Of a message that several bear the others are named.
    """
    try:
        found = workspace.get(ref)
    except (NotFound, Invalid) as error:
        _refuse_path(ref, call, workspace, error=error)
        raise
    if found.name != ref and found.message.strip() == ref.strip():
        _name_others(found, workspace)
    return found


def as_meant(call: Call, workspace: OpenWorkspace) -> Call:
    """Return a call as the person meant it who typed a path or a bare time where its REF belongs.

    Only for one who is shown it before anything is done: a program is told the right form instead.
    """
    ref, paths = call.arguments[0], call.paths or ()
    try:
        workspace.get(ref)
    except (NotFound, Invalid) as error:
        if (swapped := _swapped(call, workspace)) is not None:
            return call.replace(arguments=(swapped,), paths=(ref,))
        holder = _holder(ref, call, workspace)
        if holder is not None:
            return call.replace(arguments=(holder,), paths=tuple(dict.fromkeys((ref, *paths))))
        if "meant" in error.details:
            return call.replace(arguments=(str(error.details["meant"]),))
        return call
    if not paths:
        _tell_path(ref, call, workspace)
    return call


def time_meant(ref: str, workspace: OpenWorkspace) -> str:
    """Return the REF of a bare time, said so beside what is shown; any other word as it is.

    Only for one who is at a terminal: a program is told the right form instead.
    """
    try:
        workspace.get(ref)
    except (NotFound, Invalid) as error:
        if "meant" in error.details:
            meant = str(error.details["meant"])
            _beside(f"'{printable(ref)}' is taken as {meant}")
            return meant
    return ref


def apart(call: Call, workspace: OpenWorkspace, *, terminal: bool) -> Call:
    """Return a call that only looks, with the paths typed among its REFs where paths belong.

    Of one path alone the REF is that of the newest checkpoint that holds it, unless `@` does. On a
    terminal a bare time is taken as one.
    """
    refs: list[str] = []
    paths: list[str] = []
    holders: list[str | None] = []
    for word in call.arguments:
        try:
            workspace.get(word)
        except (NotFound, Invalid):
            holder = _holder(word, call, workspace)
            if holder is None and not _is_there(word, call, workspace):
                # What is none is told when it is looked up.
                refs.append(time_meant(word, workspace) if terminal else word)
                continue
            paths.append(word)
            holders.append(holder)
        else:
            refs.append(word)
            if not call.paths:
                _tell_path(word, call, workspace)
    for more in (call.paths or ()) if len(refs) > 1 else ():
        nowhere = not _is_there(more, call, workspace) and _holder(more, call, workspace) is None
        if nowhere and _is_ref(more, workspace):
            raise Usage("`diff` compares one pair", hint=f"write: {call.command('diff A B PATH')}")
    if not paths:
        return call.replace(arguments=tuple(refs))
    if not refs and len(holders) == 1 and holders[0] not in {None, "@"} and not call.paths:
        refs.append(str(holders[0]))
        _beside(f"'{printable(paths[0])}' is compared with {holders[0]}, the newest with it")
    return call.replace(arguments=tuple(refs), paths=(*paths, *(call.paths or ())))


def held_where(path: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return the REF that a path alone is meant of, `@` if nothing ever held it.

    Raises `Usage` for a REF alone.
    """
    holder = _holder(path, call, workspace)
    if holder is None and (joined := _joined(path, call, workspace)) is not None:
        raise _ref_first(path, joined, call, what="a REF and a path in one", kind=NotFound)
    if holder is None and _is_ref(path, workspace):
        typed = call.command(f"{call.verb.name} {quoted(path)} PATH")
        raise Usage(f"`{call.verb.name}` needs a PATH", hint=f"write: {typed}")
    return holder or "@"


def _tell_path(ref: str, call: Call, workspace: OpenWorkspace) -> None:
    """Say of a REF that a path is called so too."""
    if _is_there(ref, call, workspace):
        path = call.command(f"{call.verb.name} @ -- {quoted(ref)}")
        _beside(f"'{printable(ref)}' is a checkpoint here, and a path too; for the path: {path}")


def _beside(text: str) -> None:
    os.write(2, f"lastgood: {text}\n".encode("utf-8", "replace"))


def _is_ref(word: str, workspace: OpenWorkspace) -> bool:
    try:
        workspace.get(word)
    except (NotFound, Invalid):
        return False
    return True


def _swapped(call: Call, workspace: OpenWorkspace) -> str | None:
    """Return the REF that was typed after its only path, None if it was not."""
    path, *after = (*call.arguments, *(call.paths or ()))
    if len(after) != 1 or not _is_ref(after[0], workspace) or _is_there(after[0], call, workspace):
        return None
    return after[0] if _holder(path, call, workspace) is not None else None


def _joined(word: str, call: Call, workspace: OpenWorkspace) -> tuple[str, str] | None:
    """Return the REF and the path of a word such as git takes: ``@~1:a.txt``, or ``a.txt@{1h}``."""
    ref, colon, path = word.partition(":") if "}:" not in word else word.partition("}:")
    if colon and path and _is_ref(ref := ref + colon[:-1], workspace):
        return ref, path
    path, at, rest = word.rpartition("@")
    if path and at and rest[:1] in {"", "~", "{"} and _holder(path, call, workspace) is not None:
        return at + rest, path
    return None


def _name_others(found: Checkpoint, workspace: OpenWorkspace) -> None:
    """Name the others that bear the message by which a checkpoint was found."""
    bearers = workspace.list(message=found.message, brief=True)
    others = [one.short_id for one in bearers if one.id != found.id]
    if others:
        shown = ", ".join(others[:_SHOWN_OTHERS])
        more = f" and {len(others) - _SHOWN_OTHERS:,} more" if len(others) > _SHOWN_OTHERS else ""
        _beside(f"the newest of that message is {found.short_id}; others: {shown}{more}")


def _refuse_path(ref: str, call: Call, workspace: OpenWorkspace, *, error: LastgoodError) -> None:
    """Answer a path that was given where a REF belongs with the right form."""
    joined = _joined(ref, call, workspace)
    swapped = None if joined else _swapped(call, workspace)
    if joined is not None:
        raise _ref_first(ref, joined, call, what="a REF and a path in one", kind=type(error)) from error
    if swapped is not None:
        raise _ref_first(ref, (swapped, ref), call, what="a path", kind=Usage) from error
    holder = _holder(ref, call, workspace)
    is_path = holder is not None or _is_there(ref, call, workspace)
    if not call.verb.paths:
        if not is_path:
            return
        raise type(error)(
            f"'{printable(ref)}' is a path, and `{call.verb.name}` takes a checkpoint",
            hint=f"what became of that path: {call.command(f'log {quoted(ref)}')}"
            f"\nthe checkpoints: {call.command('list')}",
            details=error.details,
        ) from error
    if holder is not None:
        words = " ".join(quoted(one) for one in dict.fromkeys((ref, *(call.paths or ()))))
        where = "where you stand" if holder == "@" else f"{holder}, the newest with it"
        raise Usage(
            f"'{printable(ref)}' is a path, and a checkpoint belongs here",
            hint=f"for this path from {where}: {call.command(f'{call.verb.name} {holder} -- {words}')}",
        ) from error
    if "is gone and has" in error.hint:
        return
    none_meant = is_path or ref.startswith("@") or "meant" in error.details
    near = "" if none_meant else same_name(ref, call, workspace)
    error.hint = near + error.hint
    if is_path or ("/" in ref and not set(ref) & set(" \t\n")):
        why = "git ignores it, and " if _is_ignored(ref, call, workspace) else ""
        raise NotFound(
            f"{why}no checkpoint holds the path '{printable(ref)}'",
            hint=f"{near}what one holds: {call.command('show @ --files')}"
            f"\nthe checkpoints: {call.command('list')}",
        ) from error


def same_name(typed: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return lines with paths of the same name as one that nothing holds, as commands; none if none are."""
    try:
        # Of the last change alone it would not be looked for.
        workspace.log(path_of(typed, call, workspace), limit=2, guards=call.verb.name != "log")
    except NotFound as error:
        return same_name_lines(error, call, workspace)
    except (LastgoodError, ValueError):
        pass
    return ""


def same_name_lines(error: LastgoodError, call: Call, workspace: OpenWorkspace) -> str:
    """Return lines with the paths of the same name that a `log` found, as commands; none if none are."""
    found = error.details.get("same_name", ())
    start = _start(call, workspace)
    lines = []
    for one in found if isinstance(found, list | tuple) else ():
        path = os.path.relpath(f"{workspace.path}/{one}", start)
        path = f"./{path}" if path.startswith("-") else path
        lines.append(f"there is {printable(path)}: {call.command(f'{call.verb.name} {quoted(path)}')}\n")
    return "".join(lines)


def _ref_first(
    typed: str, right: tuple[str, str], call: Call, *, what: str, kind: type[LastgoodError]
) -> LastgoodError:
    ref, path = map(quoted, right)
    words = f"{call.verb.name} {ref} -- {path}" if call.verb.paths else f"cat {ref} {path}"
    return kind(
        f"'{printable(typed)}' is {what}, and the REF comes first", hint=f"write: {call.command(words)}"
    )


def _is_there(ref: str, call: Call, workspace: OpenWorkspace) -> bool:
    """Tell whether the workspace has a path now."""
    try:
        return os.path.lexists(f"{workspace.path}/{path_of(ref, call, workspace)}")
    except (LastgoodError, ValueError):
        return False


def _is_ignored(ref: str, call: Call, workspace: OpenWorkspace) -> bool:
    """Tell whether rules left a path, or what it lies in, out of the checkpoint where one stands."""
    try:
        path = path_of(ref, call, workspace)
        left_out = [to_text(one).rstrip("/") for one in workspace.get("@").manifest.ignored_paths]
    except LastgoodError:
        return False
    return any(_inside(path, one) for one in left_out)


def _holder(ref: str, call: Call, workspace: OpenWorkspace) -> str | None:
    """Return the REF that a path alone is meant of: `@` if that holds it, else the newest that does.

    A guard counts where nothing else ever held it. None if nothing did.
    """
    try:
        path = path_of(ref, call, workspace)
    except LastgoodError:
        return None
    try:
        beside = workspace.entries("@", folder=os.path.dirname(path) or ".")
        if path == "." or any(to_text(one.path) == path for one in beside):
            return "@"
    except LastgoodError:
        pass  # of what cannot be read others may tell
    for guards in (False, True):  # what is deleted is what one most wants back
        try:
            newest, *_ = workspace.log(path, limit=1, guards=guards).changes
            gone = newest.status == "deleted"
            holder = workspace.previous(newest.checkpoint.id) if gone else newest.checkpoint
        except (LastgoodError, ValueError):
            continue
        if holder is not None:
            return holder.short_id
    return None
