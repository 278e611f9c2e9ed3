"""What people say in words around a REF and paths: ``all``, ``file a.txt``, ``a.txt from 2 hours ago``."""

from __future__ import annotations

import os

from lastgood.cli.opening import number as whole_number
from lastgood.cli.references import as_ref, is_part, is_path, looked_up, part_of
from lastgood.cli.table import verb_of
from lastgood.errors import Usage
from lastgood.ids import short
from lastgood.paths import printable, quoted
from lastgood.value import cast
from lastgood.view import meant_by, time_meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lastgood.cli.grammar import Call, Verb
    from lastgood.literals import RewindUnit
    from lastgood.workspace.restore import Restores

_EVERYTHING = frozenset({"all", "entire", "everything", "my", "project", "whole", "workspace"})
# What stands before a path, a time, a name or a number, and says nothing beside it.
_BEFORE = frozenset(
    {
        "after",
        "as",
        "at",
        "back",
        "branch",
        "checkpoint",
        "directory",
        "file",
        "files",
        "folder",
        "from",
        "it",
        "of",
        "snapshot",
        "the",
        "to",
        "was",
        "were",
        "where",
    }
)
# Beside a path or a checkpoint that is named these say nothing more.
SILENT = _BEFORE | _EVERYTHING
# What says nothing more of the newest that is good.
_NEWEST = frozenset({"known", "last", "latest", "newest"})
# What may follow a word such as `last`, and says no more than that.
_AFTER = frozenset({"checkpoint", "one", "save", "snapshot", "state", "version"})
# What is said of the oldest checkpoint, for which there is no REF.
_OLDEST = frozenset({"earliest", "first", "oldest"})
# These mean what they say before they are taken for a part of a name.
_PLACES = frozenset({"earlier", "last", "latest", "newest", "older", "prev", "previous", *_OLDEST})
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
# Of these a restore may be said to go so many back.
_TURNS = frozenset({"turn", "prompt", "run"})
_LONGEST_TIME = 4


def in_our_words(call: Call, workspace: Restores) -> Call:
    """Return a restore as it is meant by words: a time as its REF, without what only people say.

    The call itself where nothing in it is of that kind. A word that is a REF, or a path, stands for itself.
    One that goes back so many turns comes as the `rewind` that it is.
    """
    return _beside_literal(call, lambda loose: _meant(loose, workspace))


def _beside_literal(call: Call, meant: Callable[[Call], Call]) -> Call:
    """Return a call as it is meant by its words; what came after ``--`` is a path, whatever it says."""
    given = call.paths or ()
    end = len(given) - call.literal
    loose = call.replace(paths=given[:end] or None)
    said = meant(loose)
    if said is loose:
        return call
    return said.replace(paths=(*(said.paths or ()), *given[end:]) or None, guessed=True)


def _meant(call: Call, workspace: Restores) -> Call:
    given = (*call.arguments, *(call.paths or ()))
    if tuple(map(str.lower, given[-2:])) == ("with", "git") and not is_path("git", call, workspace):
        options = {**call.options, "git": ()}
        call = call.replace(arguments=given[:-2][:1], paths=given[1:-2] or None, options=options)
        return _meant(call, workspace)
    if not call.arguments or as_ref(given[0], workspace) == given[0]:
        return call  # written as it is to be: nothing more is looked up
    plain = _plain(given, call, workspace)
    found = _named_apart(given, plain, call, workspace)
    if found is None:
        said = _before(given, call, workspace) or _turns_back(plain, call, workspace)
        if said is not None:
            return said
        found = _without_all(plain, call, workspace)
        if found is None:
            return call
    return call if found == given else call.replace(arguments=found[:1], paths=found[1:] or None)


def _without_all(plain: tuple[str, ...], call: Call, workspace: Restores) -> tuple[str, ...] | None:
    """Return words without those that say nothing: paths, or everything; None if that is not clear."""
    if _says_all(plain[0], call, workspace):
        paths = _paths_beside(plain[1:], call, workspace)
        if paths is None:
            return plain[1:] if as_ref(plain[1], workspace) == plain[1] else None
        return paths or ("@",)
    return plain if len(plain) == 1 or _stands(plain[0], call, workspace) else None


def _named_apart(
    given: tuple[str, ...], plain: tuple[str, ...], call: Call, workspace: Restores
) -> tuple[str, ...] | None:
    """Return the REF of a checkpoint, a time or a place in the history that words name, and the paths."""
    if len(given) == 1:
        listed = tuple(given[0].replace(",", " ").split())
        if len(listed) > 1 and all(is_path(one, call, workspace) for one in listed):
            return listed
        return _place_apart(given, call, workspace)
    found = _message_apart(given, call, workspace)
    if found is not None:
        return found
    ref, rest = _time_apart(plain, call, workspace)
    if ref is not None:
        return (ref, *(rest[1:] if rest and _says_all(rest[0], call, workspace) else rest))
    return _part_apart(given, call, workspace) or _place_apart(plain, call, workspace)


def _says_all(word: str, call: Call, workspace: Restores) -> bool:
    """Tell whether a word means all that there is: what people say, or the folder's own name."""
    is_all = word.lower() in _EVERYTHING or word.rstrip("/") == os.path.basename(workspace.path)
    return is_all and not _stands(word, call, workspace)


def _runs(words: tuple[str, ...], *, least: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what some words at the end, or the beginning, say together, the longest first, and the others."""
    for length in range(len(words), least - 1, -1):
        for begin in dict.fromkeys((len(words) - length, 0)):
            yield " ".join(words[begin : begin + length]), (*words[:begin], *words[begin + length :])


def _paths_beside(words: Sequence[str], call: Call, workspace: Restores) -> tuple[str, ...] | None:
    """Return words that are paths, without those that say nothing beside them; None if one is neither."""
    others = tuple(one for one in words if one.lower() not in SILENT or is_path(one, call, workspace))
    return others if all(is_path(one, call, workspace) for one in others) else None


def _message_apart(words: tuple[str, ...], call: Call, workspace: Restores) -> tuple[str, ...] | None:
    """Return a message of several words that was typed without its quotes, and the paths beside it."""
    for said, others in _runs(words, least=2):
        paths = _paths_beside(others, call, workspace)
        if paths is not None and as_ref(said, workspace) == said:
            return (said, *paths)
    return None


def _part_apart(words: tuple[str, ...], call: Call, workspace: Restores) -> tuple[str, ...] | None:
    """Return the id of the only checkpoint that has several words in its title, and the paths beside them."""
    if all(is_path(one, call, workspace) for one in words):
        return None
    for said, others in _runs(words, least=2):
        paths = _paths_beside(others, call, workspace)
        found = None if paths is None else part_of(said, workspace)
        if paths is None or found is None:
            continue
        one = workspace.get(found)
        if said.lower() in f"{one.name or ''}\n{one.message}".lower():  # no slip of the fingers
            return (one.short_id, *paths)
    return _words_apart(words, call, workspace)


def _words_apart(words: tuple[str, ...], call: Call, workspace: Restores) -> tuple[str, ...] | None:
    """Return the same of words that stand in its title, but not one behind the other."""
    paths = tuple(one for one in words if is_path(one, call, workspace))
    said = [one.lower() for one in words if one not in paths and one.lower() not in SILENT]
    if len(said) < 2 or any(one.isdigit() for one in said):
        return None
    titles = (
        (one, f"{one.name or ''}\n{one.message}".lower()) for one in workspace.list(guards=False, brief=True)
    )
    found = [one for one, title in titles if all(word in title for word in said)]
    return (found[0].short_id, *paths) if len(found) == 1 else None


def _place_apart(words: tuple[str, ...], call: Call, workspace: Restores) -> tuple[str, ...] | None:
    """Return the REF of what people say of a place in the history, `previous` or `good`, and the paths."""
    alone = len(words) == 1
    if words[-1].lower() == "before" and set(words[-2:-1]) & _AFTER:
        words = (*words[:-2], "previous")
    if not alone and words[-1].lower() in _AFTER and not is_path(words[-1], call, workspace):
        words = words[:-1]
    if "good" in words:
        words = tuple(one for one in words if one not in _NEWEST)
    for said, others in _runs(words, least=1):
        if " " in said or is_path(said, call, workspace) or not said.isalpha():
            continue
        paths = _paths_beside(others, call, workspace)
        if paths is None:
            continue
        part = None if said.lower() in _PLACES or alone else part_of(said, workspace)
        ref = _place(said.lower(), workspace) if part is None else short(part)
        if ref is not None:
            return (ref, *paths)
    return None


def _place(word: str, workspace: Restores) -> str | None:
    if word in _EVERYTHING or word == "head":  # which git has too
        return None
    if word in _OLDEST:
        whole = [one for one in workspace.list(guards=False, brief=True) if one.whole]
        return whole[-1].short_id if whole else None
    ref = meant_by(word)
    return ref if ref is not None and as_ref(ref, workspace) == ref else None


def _before(given: Sequence[str], call: Call, workspace: Restores) -> Call | None:
    """Return a restore to the checkpoint before one that is named: ``before 'the new prices' a.txt``."""
    words = tuple(
        one for word in given for one in (word.split() if word.lower().startswith("before") else (word,))
    )
    place = next((at for at, one in enumerate(words[:-1]) if one.lower().rstrip(":") == "before"), None)
    if place is None:
        return None
    ahead = _paths_beside([one for one in words[:place] if one not in _AFTER], call, workspace)
    if ahead is None:
        return None
    for said, others in _runs(words[place + 1 :], least=1):
        if not all(is_path(one, call, workspace) for one in others):
            continue
        found = part_of(said, workspace)
        before = None if found is None else workspace.previous(found)
        if before is not None:
            paths = (*ahead, *others)
            return call.replace(arguments=(before.short_id,), paths=paths or None)
    return None


def _turns_back(words: tuple[str, ...], call: Call, workspace: Restores) -> Call | None:
    """Return the rewind by so many turns that a restore was said to be: ``2 turns ago``."""
    length = len(words) - (words[-1:] == ("ago",))
    for begin in range(length - 1):
        number, unit = words[begin : begin + 2]
        number = _NUMBERS.get(number.lower(), number)
        said = number.isdecimal() and number.isascii() and _unit_of(unit) in _TURNS
        if said and not is_path(unit, call, workspace):
            others = (*words[:begin], *words[begin + 2 : length])
            others = tuple(one for one in others if one.lower() != "last")
            if all(is_path(one, call, workspace) for one in others):
                verb = cast("Verb", verb_of("rewind"))
                return call.replace(verb=verb, arguments=(number,), paths=others or None)
    return None


def refuse_said(said: Call, workspace: Restores) -> None:
    """Refuse what was said in words where nobody is shown what they are taken for (rule K2)."""
    if said.verb.name != "restore":
        refuse_counted(said)
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
    for said, rest in _runs(words, least=2):
        if said.count(" ") >= _LONGEST_TIME or time_meant(said) is None:
            continue
        beside = list(words)
        for one in rest:
            beside.remove(one)
        # A path stands for itself: `5 d` may be a checkpoint and a path.
        if any(is_path(one, call, workspace) for one in beside):
            continue
        ref = as_ref(said, workspace)
        if ref is not None:
            return ref, rest
    return None, words


# --- rewind: how far, in words ---


def counted(call: Call, workspace: Restores) -> Call:
    """Return a rewind whose number stands alone, as it is meant by words (``2 turns``, ``a.txt``).

    One to a checkpoint, or to a time, comes as the `restore` that it is. The call itself where it is written
    so already.
    """
    return _beside_literal(call, lambda loose: _counted(loose, workspace))


def _counted(call: Call, workspace: Restores) -> Call:
    given = (*call.arguments, *(call.paths or ()))
    is_number = bool(call.arguments) and given[0].isdigit()
    if not call.arguments or (is_number and (len(given) == 1 or is_path(given[1], call, workspace))):
        return call
    if not is_number and is_path(given[0], call, workspace):
        return _of_a_path(given, call, workspace)
    number, *words = _numbered(given, workspace)
    if not (number.isdigit() and words and _unit_of(words[0]) in _COUNTED):
        restore = _as_restore(call, given)
        said = _meant(restore, workspace)
        if said is not restore and said.verb is restore.verb:
            return said
    if number.isdigit():
        if words and not is_path(words[0], call, workspace) and _unit_of(words[0]) in _COUNTED:
            _refuse_other_unit(whole_number(number, what="N"), words.pop(0), call, workspace)
            words = words[words[:1] in (["ago"], ["back"]) :]
        return (
            call if (number, *words) == given else call.replace(arguments=(number,), paths=(*words,) or None)
        )
    ref = as_ref(number, workspace)
    if ref is None and is_part(number, workspace):
        ref = number
    if ref is not None:
        return _as_restore(call, (ref, *words))
    if "agent" in given:
        count = next((one for one in given if one.isdigit()), "2")
        raise Usage(
            "a rewind takes back turns, whoever changed the files in them",
            hint=f"only what the agent changed: {call.command(f'rewind {count} --only-agent')}",
        )
    raise Usage(
        f"N is a whole number of at least 1, not '{printable(number)}'",
        hint=f"to before the last two turns or runs: {call.command('rewind 2')}"
        f"\nto a checkpoint, or to bring back a file: {call.command(f'restore {quoted(number)}')}",
    )


def _of_a_path(given: tuple[str, ...], call: Call, workspace: Restores) -> Call:
    """Return what is meant by paths alone, or with a number, a REF or a time after them."""
    *before, last = given
    if before and not is_path(last, call, workspace):
        if last.isdigit():
            return call.replace(arguments=(last,), paths=tuple(before))
        restore = _as_restore(call, given)
        ref, said = as_ref(last, workspace), _meant(restore, workspace)
        if ref is not None:
            return _as_restore(call, (ref, *before))
        if said is not restore:
            return said
    return call.replace(arguments=(), paths=given)


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
    if words[1:2] and words[1].isdigit() and _unit_of(words[0]) in _COUNTED:  # `turns 2`
        words[:2] = [words[1], words[0]]
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
