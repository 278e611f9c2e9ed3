"""The checkpoint and the paths that the words of a call mean."""

from __future__ import annotations

import os

from lastgood.cli.typed_paths import alike, as_typed, from_top, only_meant, path_of, same_name, start
from lastgood.errors import Damaged, Invalid, LastgoodError, NotFound, Usage
from lastgood.ids import short
from lastgood.paths import lies_in, printable, quoted, to_text
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.cli.typed_paths import Alike
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.workspace.opened import OpenWorkspace

_SHOWN_OTHERS = 5
# A number of so many digits is more likely to count something than to begin an id.
_FEW_DIGITS = 2
# So many of the last versions of a path are tried for one that can be read.
_LOOKED_AT = 16
# So wide is a terminal that does not say.
_COLUMNS = 80


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


def refuse_unquoted(call: Call, workspace: OpenWorkspace) -> None:
    """Refuse several words that are one checkpoint's name or message without its quotes."""
    if len(call.arguments) < 2 or all(as_ref(one, workspace) == one for one in call.arguments):
        return
    words = " ".join(call.arguments)
    found = part_of(words, workspace)
    if found is not None:
        ref = words if as_ref(words, workspace) == words else short(found)
        raise Usage(
            f"'{printable(words)}' is one checkpoint's name, and has no quotes",
            hint=f"write: {call.command(f'{call.verb.name} {quoted(ref)}')}",
        )


def are_alike(ref: str, workspace: OpenWorkspace) -> bool:
    """Tell whether a word is no REF, and several checkpoints have it in their names or messages."""
    try:
        workspace.get(ref)
    except (NotFound, Invalid) as error:
        return "alike" in error.details
    return False


def as_meant(call: Call, console: Console, *, workspace: OpenWorkspace) -> Call | None:
    """Return a call as the person meant it: a path or a bare time where its REF belongs, a part of a path.

    None if they were asked, and left. Only for one who is shown it before anything is done: a program is
    told the right form instead.
    """
    ref, paths = call.argument(0), call.paths or ()
    if ref is None:
        return _of_paths(paths, call, console, workspace=workspace) if paths else call
    try:
        workspace.get(ref)
    except (NotFound, Invalid) as error:
        swapped = _swapped(call, workspace, shown=console.can_ask) or _swapped_part(
            call, console, workspace=workspace
        )
        if swapped is not None:
            call = call.replace(arguments=(swapped,))
            return _with_paths(swapped, (ref, *paths[:-1]), call, console, workspace=workspace)
        if "meant" in error.details and not is_path(ref, call, workspace):
            ref = str(error.details["meant"])
            call = call.replace(arguments=(ref,))
            return _with_paths(ref, paths, call, console, workspace=workspace)
        near = error.details.get("near")
        if _holder_among((ref, *paths), call, workspace) is not None or _is_alike(
            ref, call, console, workspace=workspace, whole=near is not None
        ):
            _tell_pattern((ref, *paths), call, workspace)
            return _of_paths((ref, *paths), call, console, workspace=workspace)
        if near is None or not console.can_ask:
            return call
        _tell_part(ref, str(near))
        ref = short(str(near))
        call = call.replace(arguments=(ref,))
    else:
        if not paths:
            _tell_path(ref, call, workspace)
    return _with_paths(ref, paths, call, console, workspace=workspace)


def _is_alike(word: str, call: Call, console: Console, *, workspace: OpenWorkspace, whole: bool) -> bool:
    """Tell whether somebody is there to be asked which path is meant by a word, or by its ``whole`` name."""
    if not console.can_ask or word.startswith("@"):
        return False
    name = os.path.basename(word.rstrip("/"))
    return any(not whole or os.path.basename(one.path) == name for one in alike(word, call, workspace))


def _of_paths(paths: Sequence[str], call: Call, console: Console, *, workspace: OpenWorkspace) -> Call | None:
    """Return a call of paths alone, from where one stands or from the newest that has the first."""
    meant = _all_meant(paths, call, console, workspace=workspace)
    if meant is None:
        return None
    holder = _holder_among(meant, call, workspace)
    if holder is None:
        return call.replace(arguments=(meant[0],), paths=meant[1:])  # which is refused, and told why
    return call.replace(arguments=(holder,), paths=meant)


def _holder_among(paths: Sequence[str], call: Call, workspace: OpenWorkspace) -> str | None:
    """Return the REF that paths alone are meant of: that of the first which a checkpoint holds.

    None if none is held, or the first is not even there: it may be a REF that was mistyped.
    """
    holder = holder_of(paths[0], call, workspace)
    if holder is None and _is_there(paths[0], call, workspace):
        return next((one for path in paths[1:] if (one := holder_of(path, call, workspace))), None)
    return holder


def _tell_pattern(paths: Sequence[str], call: Call, workspace: OpenWorkspace) -> None:
    """Say of paths that a shell seems to have made of `*` what is not among them."""
    here = start(call, workspace)
    try:
        lying = sorted(one for one in os.listdir(here) if one[:1] != ".")
    except OSError:  # it is gone, most likely
        return
    if len(paths) > 1 and sorted(paths) == lying:
        whole = "restore @" if here == workspace.path else f"restore @ {quoted(os.path.curdir)}"
        _beside(f"that is what lies here now; with what is not here any more: {call.command(whole)}")


def _with_paths(
    ref: str, paths: Sequence[str], call: Call, console: Console, *, workspace: OpenWorkspace
) -> Call | None:
    """Return a call with its paths as they were meant, of those that its checkpoint holds."""
    meant = _all_meant(paths, call, console, workspace=workspace, ref=ref)
    return None if meant is None else call.replace(paths=meant) if paths else call


def _all_meant(
    paths: Sequence[str], call: Call, console: Console, *, workspace: OpenWorkspace, ref: str | None = None
) -> tuple[str, ...] | None:
    meant: list[str] = []
    for typed in paths:
        found = _missed(typed, call, workspace, ref=ref) if console.can_ask else []
        path = only_meant(typed, found, call, console, workspace=workspace) if found else typed
        if path is None:
            return None
        meant.append(path)
    return tuple(dict.fromkeys(meant))


def _missed(typed: str, call: Call, workspace: OpenWorkspace, *, ref: str | None) -> list[Alike]:
    """Return what may be meant by a path; nothing where it is one itself."""
    if _is_there(typed, call, workspace):
        return []
    if ref is None:
        return [] if holder_of(typed, call, workspace) is not None else alike(typed, call, workspace)
    try:
        held = holds(ref, path_of(typed, call, workspace), workspace)
    except LastgoodError:
        return []
    found = [] if held else alike(typed, call, workspace)
    return [one for one in found if holds(ref, one.path, workspace)]


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
    call = _with_message(call, workspace) if terminal else call
    refs: list[str] = []
    paths: list[str] = []
    holders: list[str | None] = []
    for word in call.arguments:
        try:
            workspace.get(word)
        except (NotFound, Invalid):
            word = reached(word, call, workspace) if terminal else word  # noqa: PLW2901
            holder = holder_of(word, call, workspace)
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
        nowhere = not _is_there(more, call, workspace) and holder_of(more, call, workspace) is None
        if nowhere and _is_ref(more, workspace):
            raise Usage("`diff` compares one pair", hint=f"write: {call.command('diff A B PATH')}")
    given = [reached(one, call, workspace) if terminal else one for one in call.paths or ()]
    if not paths:
        return call.replace(arguments=tuple(refs), paths=given or call.paths)
    if not refs and len(holders) == 1 and holders[0] not in {None, "@"} and not call.paths:
        refs.append(str(holders[0]))
        _beside(f"'{printable(paths[0])}' is compared with {holders[0]}, the newest with it")
    return call.replace(arguments=tuple(refs), paths=(*paths, *given))


def _with_message(call: Call, workspace: OpenWorkspace) -> Call:
    """Return a call whose words are one message, typed without its quotes, with that; any other as it is."""
    words = (*call.arguments, *(call.paths or ()))
    if len(words) < 2 or _is_ref(words[0], workspace) or is_path(words[0], call, workspace):
        return call
    message = " ".join(words)
    return call.replace(arguments=(message,), paths=None) if _is_ref(message, workspace) else call


def reached(typed: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return a path as it is typed here, of one that was typed as paths are shown: from the top.

    Only for one who is at a terminal: a program is told the right form instead.
    """
    if _is_there(typed, call, workspace) or holder_of(typed, call, workspace) is not None:
        return typed
    path = from_top(typed, call, workspace)
    if path is None:
        return typed
    meant = as_typed(path, call, workspace)
    _beside(f"'{printable(typed)}' is taken as {printable(meant)}")
    return meant


def held_where(path: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return the REF that a path alone is meant of, `@` if nothing ever held it.

    Raises `Usage` for a REF alone.
    """
    holder = holder_of(path, call, workspace)
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
    said = f"lastgood: {text}"
    if os.isatty(2):
        from lastgood.cli.wording import fitted

        said = "\n".join(fitted(said, os.get_terminal_size(2).columns or _COLUMNS))
    os.write(2, f"{said}\n".encode("utf-8", "replace"))


def _is_ref(word: str, workspace: OpenWorkspace) -> bool:
    return as_ref(word, workspace) == word


def as_ref(word: str, workspace: OpenWorkspace) -> str | None:
    """Return a word that is a REF, or the REF of a bare time; None for any other."""
    try:
        workspace.get(word)
    except (NotFound, Invalid) as error:
        return str(error.details["meant"]) if "meant" in error.details else None
    return word


def is_part(words: str, workspace: OpenWorkspace) -> bool:
    """Tell whether words are no REF, and stand in the name or message of just one checkpoint."""
    return as_ref(words, workspace) != words and part_of(words, workspace) is not None


def part_of(words: str, workspace: OpenWorkspace) -> str | None:
    """Return the id of the checkpoint of a REF, or of the only one that has these words in its title."""
    try:
        return workspace.get(words).id
    except (NotFound, Invalid) as error:
        return cast("str | None", error.details.get("near"))


def _swapped(call: Call, workspace: OpenWorkspace, *, shown: bool = False) -> str | None:
    """Return the REF, or the time, that was typed after its paths, None if it was not.

    Who is ``shown`` what they are taken for may type a part of a path.
    """
    given = (*call.arguments, *(call.paths or ()))
    if len(given) < 2 or call.literal:
        return None
    *before, last = given
    if (before[1:] and not call.verb.paths) or _is_there(last, call, workspace):
        return None
    ref = as_ref(last, workspace)
    if ref is None or (ref != last and is_path(last, call, workspace)):
        return None
    held = all(
        holder_of(one, call, workspace) is not None or (shown and alike(one, call, workspace))
        for one in before
    )
    return ref if held else None


def _swapped_part(call: Call, console: Console, *, workspace: OpenWorkspace) -> str | None:
    """Return the same of a part of one checkpoint's name or message: for a person who is shown it first."""
    *before, last = (*call.arguments, *(call.paths or ()))
    if not console.can_ask or not before or call.literal or is_path(last, call, workspace):
        return None
    try:
        workspace.get(last)
    except (NotFound, Invalid) as error:
        near = error.details.get("near")
        if near is None and last.isalnum():  # `before` says something by itself
            found = workspace.list(name=f"*{last}*", limit=2, brief=True)
            near = found[0].id if len(found) == 1 else None
        held = (holder_of(one, call, workspace) or alike(one, call, workspace) for one in before)
        if near is not None and all(held):
            _tell_part(last, str(near))
            return str(near)
    return None


def _tell_part(word: str, id: str) -> None:
    _beside(f"'{printable(word)}' is taken as {short(id)}, whose name or message has it")


def _joined(word: str, call: Call, workspace: OpenWorkspace) -> tuple[str, str] | None:
    """Return the REF and the path of a word such as git takes: ``@~1:a.txt``, ``a.txt@{1h}``, ``a.txt~1``."""
    ref, colon, path = word.partition(":") if "}:" not in word else word.partition("}:")
    if colon and path and _is_ref(ref := ref + colon[:-1], workspace):
        return ref, path
    path, at, rest = word.rpartition("@")
    if path and at and rest[:1] in {"", "~", "{"} and holder_of(path, call, workspace) is not None:
        return at + rest, path
    path, _, back = word.rpartition("~")
    is_number = path and back.isascii() and back.isdigit() and holder_of(word, call, workspace) is None
    return (f"@~{back}", path) if is_number and holder_of(path, call, workspace) is not None else None


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
        paths = (ref, *(call.paths or ())[:-1]) if call.verb.paths else (ref,)
        raise _ref_first(ref, (swapped, *paths), call, what="a path", kind=Usage) from error
    holder = _holder_among((ref, *(call.paths or ())), call, workspace)
    is_one = holder is not None or _is_there(ref, call, workspace)
    if not is_one and "instead" in error.details and "is gone and has" not in error.hint:
        error.hint = f"{_instead(ref, call, error)}the checkpoints: {call.command('list')}"
    if not call.verb.paths:
        if not is_one and is_ignored(ref, call, workspace):
            raise NotFound(
                f"no checkpoint holds the path '{printable(ref)}'{why_ignored(call)}",
                hint=ignored_hint(ref, call, workspace),
            ) from error
        if not is_one:
            return
        raise type(error)(
            f"'{printable(ref)}' is a path, and `{call.verb.name}` takes a checkpoint",
            hint="\n".join(_about_path(ref, call, workspace)),
            details=error.details,
        ) from error
    if holder is not None:
        hint = _paths_hint((ref, *(call.paths or ())), holder, call)
        raise Usage(f"'{printable(ref)}' is a path, and a checkpoint belongs here", hint=hint) from error
    if "is gone and has" in error.hint:
        return
    _refuse_unheld(ref, call, workspace, error=error, is_one=is_one)


def _refuse_unheld(
    ref: str, call: Call, workspace: OpenWorkspace, *, error: LastgoodError, is_one: bool
) -> None:
    """Answer a word that is no REF, and a path of which no checkpoint holds anything, if any."""
    if not workspace.list(limit=1, brief=True):
        workspace.get("latest")  # which says why there is none
    none_meant = is_one or ref.startswith("@") or "meant" in error.details
    near = "" if none_meant else same_name(ref, call, workspace)
    error.hint = near + error.hint
    if call.verb.name == "restore" and ref.isascii() and ref.isdigit() and len(ref) <= _FEW_DIGITS:
        error.hint = so_many_back(ref, call.paths or (), call, workspace) + error.hint
    elif call.verb.name == "restore" and not (none_meant or near or error.details):
        paths = [one for one in call.paths or () if is_path(one, call, workspace)]
        words = " ".join((ref, *(one for one in call.paths or () if one not in paths)))
        text = " ".join(map(quoted, (words, *paths[:1])))
        error.hint = versions_of(paths, call) + error.hint
        error.hint = f"where that is in a file: {call.command(f'log -S {text}')}\n{error.hint}"
    is_word = not set(ref) & set(" \t\n")
    if is_word and not (none_meant or near or error.details):
        error.message += ", and none holds such a path"
    ignored = is_ignored(ref, call, workspace)
    if is_one or ignored or ("/" in ref and is_word):
        raise NotFound(
            f"no checkpoint holds the path '{printable(ref)}'{why_ignored(call) if ignored else ''}",
            hint=ignored_hint(ref, call, workspace)
            if ignored
            else f"{near}all that the last one holds: {call.command('show @ --files')}"
            f"\nthe checkpoints: {call.command('list')}",
        ) from error


def so_many_back(number: str, paths: Sequence[str], call: Call, workspace: OpenWorkspace) -> str:
    """Return lines with what a number alone may mean: so many checkpoints back, turns, or a version."""
    words = f" -- {' '.join(map(quoted, paths))}" if paths else ""
    lines = []
    if int(number) and as_ref(f"@~{number}", workspace) is not None:
        before = f"{number} checkpoint{'s' * (number != '1')} before where you are"
        lines.append(f"{before}: {call.command(f'restore @~{number}{words}')}\n")
        turns = "turn or run" if number == "1" else f"{number} turns or runs"
        lines.append(f"to before the last {turns}: {call.command(f'rewind {number}{words}')}\n")
    return "".join(lines) + versions_of(paths, call)


def versions_of(paths: Sequence[str], call: Call) -> str:
    """Return a line with the command that lists the versions of the first of some paths."""
    return f"its versions: {call.command(f'log {quoted(paths[0])}')}\n" if paths else ""


def _instead(ref: str, call: Call, error: LastgoodError) -> str:
    """Return the whole commands for what a word may mean that is no REF; nothing where that is not known."""
    found = cast("Sequence[Mapping[str, str]]", error.details.get("instead", ()))
    lines = []
    for one in found:
        words = [one["ref"] if given == ref else quoted(given) for given in call.arguments]
        words += ["--", *map(quoted, call.paths)] if call.paths else []
        lines.append(f"{one['says']}: {call.command(' '.join((call.verb.name, *words)))}\n")
    return "".join(lines)


def _about_path(path: str, call: Call, workspace: OpenWorkspace) -> list[str]:
    """Return what can be asked of a path, a line each: first what the verb is near to."""
    typed = quoted(path)
    is_folder = os.path.isdir(f"{workspace.path}/{path_of(path, call, workspace)}")
    first = {
        "show": f"all that the last one holds: {call.command('show @ --files')}"
        if is_folder
        else f"print it as it is in the last one: {call.command(f'cat {typed}')}",
        "delete": f"to take it out of every checkpoint: {call.command(f'purge {typed}')}",
    }
    lines = [first[call.verb.name]] if call.verb.name in first else []
    lines.append(f"when it changed: {call.command(f'log {typed}')}")
    return [*lines, f"the checkpoints: {call.command('list')}"]


def why_ignored(call: Call) -> str:
    """Return in words why no checkpoint holds what rules leave out of it."""
    why = ": git ignores it, and of what git ignores only small files like .env are held"
    return f"{why}, so it cannot come back" if call.verb.name == "restore" else why


def ignored_hint(path: str, call: Call, workspace: OpenWorkspace) -> str:
    """Return what is to be done about a path that rules leave out of every checkpoint."""
    from lastgood.cli.left_out import holding  # lazily: few are missed

    command = holding([path_of(path, call, workspace)], call, root=workspace.path)
    hint = f"to have it held from now on: {command}"
    if not os.path.lexists(f"{workspace.path}/{path_of(path, call, workspace)}"):
        return hint
    return f"{hint}\nall that is left out: {call.command('status --ignored')}"


def refuse_paths_alone(call: Call, workspace: OpenWorkspace) -> None:
    """Refuse a call of paths without a REF, which nobody is shown before it is done."""
    paths = call.paths or ()
    holder = holder_of(paths[0], call, workspace)
    if holder is None:
        looked_up(paths[0], call, workspace)
    raise Usage(
        f"`{call.verb.name}` needs a REF before its paths", hint=_paths_hint(paths, holder or "@", call)
    )


def _paths_hint(paths: Sequence[str], holder: str, call: Call) -> str:
    """Return how to write what is meant of paths alone, from the checkpoint that has them."""
    words = " ".join(quoted(one) for one in dict.fromkeys(paths))
    where = "where you stand" if holder == "@" else f"{holder}, the newest with it"
    which = "this path" if len(paths) == 1 else "these paths"
    return f"for {which} from {where}: {call.command(f'{call.verb.name} {holder} -- {words}')}"


def _ref_first(
    typed: str, right: tuple[str, ...], call: Call, *, what: str, kind: type[LastgoodError]
) -> LastgoodError:
    ref, *paths = map(quoted, right)
    words = f"{call.verb.name} {ref} -- {' '.join(paths)}" if call.verb.paths else f"cat {ref} {paths[0]}"
    return kind(
        f"'{printable(typed)}' is {what}, and the REF comes first", hint=f"write: {call.command(words)}"
    )


def _is_there(ref: str, call: Call, workspace: OpenWorkspace) -> bool:
    """Tell whether the workspace has a path now."""
    try:
        return os.path.lexists(f"{workspace.path}/{path_of(ref, call, workspace)}")
    except (LastgoodError, ValueError):
        return False


def is_path(word: str, call: Call, workspace: OpenWorkspace) -> bool:
    """Tell whether the workspace has a path now, or a checkpoint holds it."""
    return _is_there(word, call, workspace) or holder_of(word, call, workspace) is not None


def is_ignored(ref: str, call: Call, workspace: OpenWorkspace) -> bool:
    """Tell whether rules left a path, or what it lies in, out of the checkpoint where one stands."""
    try:
        path = path_of(ref, call, workspace)
        left_out = [to_text(one).rstrip("/") for one in workspace.get("@").manifest.ignored_paths]
    except LastgoodError:
        return False
    return any(lies_in(path, one) for one in left_out)


def holder_of(ref: str, call: Call, workspace: OpenWorkspace) -> str | None:
    """Return the REF that a path alone is meant of: `@` if that holds it, else the newest that does.

    One of which it cannot be read is passed over for the next, where there is one. A guard counts where
    nothing else ever held it. None if nothing did.
    """
    try:
        path = path_of(ref, call, workspace)
    except LastgoodError:
        return None
    held = holds("@", path, workspace)
    if held and _can_be_read("@", path, workspace):
        return "@"
    whole = (one.short_id for one in _holders(path, workspace) if _can_be_read(one.id, path, workspace))
    holder = next(whole, None)
    if held and holder is not None:
        _beside(f"what @ has of '{printable(ref)}' is damaged: {holder} has it")
    return holder or ("@" if held else None)


def holds(ref: str, path: str, workspace: OpenWorkspace) -> bool:
    """Tell whether a checkpoint holds a path, as far as that can be read."""
    try:
        beside = workspace.entries(ref, folder=os.path.dirname(path) or ".")
    except LastgoodError:
        return False
    return path == "." or any(to_text(one.path) == path for one in beside)


def _can_be_read(ref: str, path: str, workspace: OpenWorkspace) -> bool:
    """Tell whether all that would come back of a path can be read."""
    try:
        workspace.read(ref, path)
    except Damaged:
        return False
    except LastgoodError:  # a folder: what is not as it was
        try:
            changed = workspace.diff(ref, paths=(path,), private=True).files
        except Damaged:
            return False
        except LastgoodError:
            return True
        return not any(one.damaged for one in changed)
    return True


def _holders(path: str, workspace: OpenWorkspace) -> Iterator[Checkpoint]:
    """Yield the checkpoints that hold the last versions of a path, newest first; guards after all others."""
    for guards, limit in ((False, 1), (False, _LOOKED_AT), (True, _LOOKED_AT)):
        try:
            changes = workspace.log(path, limit=limit, guards=guards).changes
        except (LastgoodError, ValueError):
            continue
        for one in changes:
            holder = one.checkpoint
            # What is deleted is what one most wants back.
            before = workspace.previous(holder.id) if one.status == "deleted" else holder
            if before is not None:
                yield before
