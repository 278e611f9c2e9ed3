"""What people say in words around a REF and paths: ``all``, ``file a.txt``, ``a.txt from 2 hours ago``."""

from __future__ import annotations

from lastgood.cli.grammar import quoted
from lastgood.cli.opening import number as whole_number
from lastgood.cli.references import as_ref, is_part, is_path, looked_up
from lastgood.cli.table import verb_of
from lastgood.errors import Usage
from lastgood.paths import printable
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.cli.grammar import Call, Verb
    from lastgood.literals import RewindUnit
    from lastgood.workspace.restore import Restores

_EVERYTHING = frozenset({"all", "everything"})
# What stands before a path, a time or a number, and says nothing beside it.
_BEFORE = frozenset({"at", "directory", "file", "files", "folder", "from", "of", "the", "to"})
_NUMBERS = {"last": "1", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}
# What a rewind may be said to count; nothing where that says no more than the number.
_COUNTED: dict[str, RewindUnit | None] = {
    "turn": "turn",
    "prompt": "turn",
    "message": "turn",
    "run": "run",
    "command": "run",
    "state": "state",
    "save": "state",
    "checkpoint": "state",
    "step": None,
    "time": None,
}
_TIMES = frozenset({"minute", "minutes", "min", "mins", "hour", "hours", "day", "days", "week", "weeks"})


def in_our_words(call: Call, workspace: Restores) -> Call:
    """Return a restore as it is meant by words: a time as its REF, without what only people say.

    The call itself where nothing in it is of that kind. A word that is a REF, or a path, stands for itself.
    """
    given = (*call.arguments, *(call.paths or ()))
    if not call.arguments or (len(given) == 1 and given[0].lower() not in _EVERYTHING):
        return call
    if as_ref(given[0], workspace) == given[0]:  # written as it is to be: nothing more is looked up
        return call
    message, paths = _message_apart(given, call, workspace)
    if message is not None:
        return call.replace(arguments=(message,), paths=paths or None)
    ref, rest = _time_apart(_plain(given, call, workspace), call, workspace)
    whole = " ".join(given)
    if ref is None and is_part(whole, workspace) and not any(is_path(one, call, workspace) for one in given):
        return call.replace(arguments=(whole,), paths=None)
    if rest and rest[0].lower() in _EVERYTHING and not _stands(rest[0], call, workspace):
        rest = rest[1:]
        ref = ref or (None if rest else "@")
    said = rest if ref is None else (ref, *rest)
    return call if said == given else call.replace(arguments=said[:1], paths=said[1:] or None)


def _message_apart(
    given: tuple[str, ...], call: Call, workspace: Restores
) -> tuple[str | None, tuple[str, ...]]:
    """Return a message of several words that was typed without its quotes, and the paths beside it."""
    for begin, end in (
        *((place, len(given)) for place in range(len(given) - 1)),
        *((0, place) for place in range(len(given) - 1, 1, -1)),
    ):
        message, paths = " ".join(given[begin:end]), (*given[:begin], *given[end:])
        if _stands(given[begin], call, workspace) or as_ref(message, workspace) != message:
            continue
        if begin or all(is_path(one, call, workspace) for one in paths):
            return message, paths
    return None, ()


def refuse_said(said: Call, workspace: Restores) -> None:
    """Refuse what was said in words where nobody is shown what they are taken for (rule K2)."""
    ref, paths = said.arguments[0], said.paths or ()
    looked_up(ref, said, workspace)  # which refuses a path, and says how it is written
    words = " ".join(map(quoted, (ref, *(("--", *paths) if paths else ()))))
    raise _in_words_only(said, f"restore {words}")


def _in_words_only(call: Call, words: str) -> Usage:
    return Usage(
        "such words are understood only where a person is shown what would happen",
        hint=f"write: {call.command(words)}",
    )


def _plain(words: Sequence[str], call: Call, workspace: Restores) -> tuple[str, ...]:
    """Return words without those that say nothing beside the next one."""
    return tuple(
        word
        for place, word in enumerate(words)
        if word.lower() not in _BEFORE or place + 1 == len(words) or _stands(word, call, workspace)
    )


def _stands(word: str, call: Call, workspace: Restores) -> bool:
    """Tell whether a word is a REF or a path itself."""
    return as_ref(word, workspace) == word or is_path(word, call, workspace)


def _time_apart(
    words: tuple[str, ...], call: Call, workspace: Restores
) -> tuple[str | None, tuple[str, ...]]:
    """Return the REF of a time that is said in several words, before or after all others, and these."""
    for length, place in ((3, 0), (3, len(words) - 3), (2, 0), (2, len(words) - 2)):
        said, rest = words[place:][:length], (*words[:place], *words[place + length :])
        # Only what can be meant as nothing else: `5 d` may be a checkpoint and a path.
        if place < 0 or len(said) != length or not _is_time(said):
            continue
        if any(is_path(one, call, workspace) for one in said):
            continue
        ref = as_ref(" ".join(said), workspace)
        if ref is not None:
            return ref, rest
    return None, words


def _is_time(said: Sequence[str]) -> bool:
    if said[-1] == "ago":
        return True
    return len(said) == 2 and (said[0] == "last" or (said[0].isdigit() and said[1] in _TIMES))


# --- rewind: how far, in words ---


def counted(call: Call, workspace: Restores) -> Call:
    """Return a rewind whose number stands alone, as it is meant by words (``2 turns``, ``a.txt``).

    One to a checkpoint, or to a time, comes as the `restore` that it is. The call itself where it is written
    so already.
    """
    given = (*call.arguments, *(call.paths or ()))
    is_number = bool(call.arguments) and given[0].isdigit()
    if not call.arguments or (is_number and (len(given) == 1 or is_path(given[1], call, workspace))):
        return call
    if not is_number and is_path(given[0], call, workspace):
        last = given[-1:] if given[-1].isdigit() and not is_path(given[-1], call, workspace) else ()
        return call.replace(arguments=last, paths=given[: len(given) - len(last)])
    message, _ = _message_apart(given, call, workspace)
    if message is not None:
        return _as_restore(call, (message,))
    ref, rest = _time_apart(_plain(given, call, workspace), call, workspace)
    if ref is not None:
        return _as_restore(call, (ref, *rest))
    number, *words = _numbered(given, workspace)
    if number.isdigit():
        if words and not is_path(words[0], call, workspace) and _unit_of(words[0]) in _COUNTED:
            _refuse_other_unit(whole_number(number, what="N"), words.pop(0), call, workspace)
        return (
            call if (number, *words) == given else call.replace(arguments=(number,), paths=(*words,) or None)
        )
    ref = as_ref(number, workspace)
    if ref is not None:
        return _as_restore(call, (ref, *words))
    raise Usage(
        f"N is a whole number of at least 1, not '{printable(number)}'",
        hint=f"to before the last two turns or runs: {call.command('rewind 2')}"
        f"\nto a checkpoint, or to bring back a file: {call.command(f'restore {quoted(number)}')}",
    )


def refuse_counted(said: Call) -> None:
    """Refuse the same where nobody is shown what it is taken for."""
    paths = ("--", *(said.paths or ())) if said.paths else ()
    number = said.arguments or ("1",)
    raise _in_words_only(said, " ".join((said.verb.name, *map(quoted, (*number, *paths)))))


def _as_restore(call: Call, words: Sequence[str]) -> Call:
    verb = cast("Verb", verb_of("restore"))
    return call.replace(verb=verb, arguments=tuple(words[:1]), paths=tuple(words[1:]) or None)


def _numbered(given: Sequence[str], workspace: Restores) -> list[str]:
    """Return words that begin with a number, where they say one: ``the last two turns``, ``last turn``."""
    words = list(given)
    while len(words) > 1 and words[0].lower() in {"the", "last"}:
        del words[0]
    words[0] = _NUMBERS.get(words[0].lower(), words[0])
    if _unit_of(words[0]) in _COUNTED and as_ref(words[0], workspace) is None:
        words.insert(0, "1")
    return words


def _unit_of(word: str) -> str:
    return word.lower().removesuffix("s")


def _refuse_other_unit(number: int, word: str, call: Call, workspace: Restores) -> None:
    """Refuse to count anything but what a rewind counts here."""
    wanted = _COUNTED[_unit_of(word)]
    unit = workspace.preview_rewind(number).unit
    if wanted in {None, unit} or (wanted, unit) == ("turn", "run"):  # where there are no turns, runs are
        return
    counts = {"turn": "an agent's turns", "run": "runs", "state": "saved states"}[unit]
    hint = f"so many of these: {call.command(f'rewind {number}')}"
    if wanted == "state":
        hint = f"to so many checkpoints before this one: {call.command(f'restore @~{number}')}\n{hint}"
    raise Usage(f"a rewind counts {counts} here, no {printable(word)}", hint=hint)
