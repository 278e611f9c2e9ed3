"""Words that are none of ours: what other tools call what we do, answered with what to type here."""

from __future__ import annotations

import os

from lastgood.cli.table import spellings
from lastgood.errors import Usage
from lastgood.paths import printable, quoted
from lastgood.view import meant_by, time_meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_RESTORE = "to bring back a checkpoint, or a file of it: lastgood restore REF [PATH...]"
_SAVE = "to make a checkpoint: lastgood save MESSAGE"
_BACK = "to go back: lastgood restore   (there is a list to pick from; the last one is @)"
_LIST = "the checkpoints: lastgood list"
_LOG = "when a file changed: lastgood log PATH"
_TEXT = "when a text came into a file, or went: lastgood log -S TEXT"
_WORDS = "what has a word in its name, message or paths: lastgood list WORD"
_UNDO = "to take back the last restore: lastgood undo"
_STATUS = "where things stand: lastgood status"
_DONE = "what was done and can be taken back: lastgood undo --list"
_TIDY = "the store is tidied by itself; to do it now: lastgood maintain"
_GITS = "that is git's own affair; branches and commits are never changed"
_AWAY = "to take checkpoints elsewhere: lastgood export FILE"
_ASIDE = "to write a checkpoint into another folder: lastgood restore REF --to DIR"
_FILES = "what a checkpoint holds: lastgood show REF --files"
_DELETE = "to delete checkpoints: lastgood delete REF"
_RUN = "to have checkpoints made around a command: lastgood run -- COMMAND"
_HELP = "all verbs: lastgood help"
_HOSTS = "to have an agent's program make checkpoints by itself: lastgood install HOST"
_DIFF = "what changed since where you are, or between two: lastgood diff [A] [B] [PATH...]"
_NAME = "to name a checkpoint: lastgood name REF NAME"
_TURNS = "an agent's turns: lastgood list --kind turn\nto before the last two of them: lastgood rewind 2"
_KEEP = "to keep a checkpoint for ever: lastgood pin REF"

_ANSWERS = {
    # git
    "annotate": "whose each line is: lastgood blame PATH",
    "add": f"nothing has to be added; {_SAVE}",
    "bisect": f"{_LIST}\nto try one: lastgood check REF -- COMMAND",
    "branch": f"{_GITS}\n{_NAME}",
    "checkout": _RESTORE,
    "cherry-pick": "to bring back some paths: lastgood restore REF PATH...",
    "clone": _ASIDE,
    "ls-files": _FILES,
    "fetch": "to take in an export: lastgood import FILE",
    "commit": _SAVE,
    "gc": _TIDY,
    "grep": f"{_TEXT}\n{_FILES}",
    "init": "nothing has to be set up; to make the first checkpoint: lastgood save",
    "merge": "to keep what changed since: lastgood restore REF --merge",
    "mv": _NAME,
    "pull": "to take in an export: lastgood import FILE",
    "push": _AWAY,
    "rebase": _GITS,
    "reflog": f"{_DONE}\n{_LIST}",
    "remote": _AWAY,
    "reset": _RESTORE,
    "revert": f"{_RESTORE}\n{_UNDO}",
    "rm": _DELETE,
    "st": _STATUS,
    "stash": "to keep what is there: lastgood save\nto go back to it later: lastgood restore REF",
    "switch": _RESTORE,
    "tag": _NAME,
    "version": "lastgood --version",
    # restic, Borg
    "backup": _SAVE,
    **dict.fromkeys(("copy", "cp"), _ASIDE),
    "dump": "a file as a checkpoint holds it: lastgood cat REF PATH",
    "extract": _ASIDE,
    "find": f"{_LOG}\n{_TEXT}",
    "forget": f"{_DELETE}\nall of a folder: lastgood workspace forget PATH",
    "info": f"{_STATUS}\none checkpoint: lastgood show REF",
    "mount": _ASIDE,
    "snapshot": f"{_SAVE}\n{_LIST}",
    "snapshots": _LIST,
    "stats": "sessions, tasks, sizes: lastgood report",
    "unlock": "nothing stays locked; what was interrupted: lastgood recover",
    # jj
    "abandon": _DELETE,
    "describe": _NAME,
    "edit": _RESTORE,
    "evolog": _LIST,
    "file": f"{_FILES}\na file of one: lastgood cat REF PATH",
    "new": _SAVE,
    "op": f"{_DONE}\n{_UNDO}",
    "squash": "nothing has to be joined: lastgood prune keeps to the limits",
    # a person at a keyboard
    "back": f"{_BACK}\nto before the last turn: lastgood rewind 1",
    **dict.fromkeys(("browse", "files", "tree"), _FILES),
    **dict.fromkeys(("bring", "go", "take"), _BACK),
    **dict.fromkeys(("changes", "compare"), _DIFF),
    **dict.fromkeys(("continue", "retry"), "to go on with what was interrupted: lastgood recover"),
    "del": _DELETE,
    "dir": f"{_LIST}\n{_FILES}",
    "enable": _HOSTS,
    "goto": _BACK,
    "history": f"{_LIST}\n{_LOG}",
    "mark": f"{_NAME}\nto have a command judge it: lastgood check REF -- COMMAND",
    "keep": f"{_SAVE}\n{_KEEP}",
    "label": _NAME,
    "load": _BACK,
    "open": _BACK,
    "remove": _DELETE,
    "rename": _NAME,
    "repair": "to mend the store: lastgood verify --repair\nwhat was interrupted: lastgood recover",
    "rescue": f"{_BACK}\nafter a crash: lastgood recover",
    "return": _BACK,
    "search": f"{_TEXT}\n{_WORDS}",
    "settings": "lastgood config",
    "setup": f"nothing has to be set up; {_SAVE}\n{_HOSTS}",
    "start": f"{_RUN}\nto say that work begins: lastgood session start --goal TEXT",
    "stop": "to say that work is over: lastgood session end",
    **dict.fromkeys(("ui", "tui", "gui"), _BACK),
    "where": _STATUS,
    "view": "what a checkpoint holds: lastgood show REF",
    "good": f"the newest that passed its check: lastgood restore @good\n{_LIST}",
    "last": "to go back to the newest: lastgood restore latest\nwhat it holds: lastgood show latest",
    "phase": "where the work stands: lastgood progress set --phase PHASE",
    **dict.fromkeys(("prompts", "turns"), _TURNS),
    **dict.fromkeys(("unrestore", "undorestore"), _UNDO),
    "why": "what is not held, and why: lastgood status --ignored\nwho changed a file: lastgood blame PATH",
    # asking for help
    "?": _HELP,
    "/?": _HELP,
    "/h": _HELP,
    "/help": _HELP,
    "man": "the manual page: lastgood help --man",
    "usage": _HELP,
    # a file that is missed
    **dict.fromkeys(("get", "undelete", "unrm"), _RESTORE),
    "versions": _LOG,
}
# An id may be typed without its prefix, and so short.
_LEAST_DIGITS, _HEX = 4, frozenset("0123456789abcdef")
_GOING_BACK = frozenset({"checkout", "edit", "reset", "revert", "switch"})
_SWITCHING = frozenset({"checkout", "switch"})
# What stands before what is meant: `go back`, `bring back a.txt`, `take a.txt back`.
_BRINGING = frozenset({"back", "bring", "go", "goto", "take"})
# What takes paths there, with the verb that does here.
_OF_PATHS = {
    **dict.fromkeys(("get", "undelete", "unrm"), "restore"),
    **dict.fromkeys(("history", "versions"), "log"),
    **dict.fromkeys(("changes", "compare"), "diff"),
}


def unknown_verb(word: str, after: Sequence[str] = ()) -> Usage:
    """Return what is said of a word that is no verb, with what to type for what it and its words mean."""
    return Usage(f"unknown verb '{printable(word)}'", hint=answer(word, after) or _nearest(word, after))


def answer(word: str, after: Sequence[str] = ()) -> str | None:
    """Return what to type for what another tool calls so, None if none is known."""
    if word in _ANSWERS:
        return _exact(word, after) or _ANSWERS[word]
    if word.startswith(("ckpt_", "@")) or " " in word:
        return _about(word)
    if "/" in word or os.path.lexists(word):
        return (
            f"to bring it back: lastgood restore {quoted(word)}\nwhen it changed: lastgood log {quoted(word)}"
        )
    is_id = len(word) >= _LEAST_DIGITS and not set(word) - _HEX and not word.isalpha()
    return _about(word) if is_id else None


def _about(ref: str) -> str:
    return f"what it holds: lastgood show {quoted(ref)}\nto go back to it: lastgood restore {quoted(ref)}"


def _exact(word: str, after: Sequence[str]) -> str | None:
    """Return the whole command for what was typed, where it has one."""
    plain = [one for one in after if not one.startswith("-")]
    command = None
    if word in _GOING_BACK | _BRINGING and plain:
        return _going_back(word, plain, after)
    if word in _OF_PATHS and plain:
        command = f"{_OF_PATHS[word]} {' '.join(map(quoted, plain))}"
    elif word == "reset" and "--hard" in after:
        command = "restore @"
    elif word == "commit" and plain:
        command = f"save {quoted(plain[-1])}"
    elif word == "op" and plain == ["log"]:
        command = "undo --list"
    elif word in {"grep", "search"} and plain:
        return _searching(plain[0], plain[1:2])
    elif word == "find" and plain:
        return f"when that file changed: lastgood log {quoted(plain[0])}\n{_searching(plain[0])}"
    if command is not None:
        return f"write: lastgood {command}"
    return f"{_BACK}\n{_UNDO}" if word == "stash" and plain in (["pop"], ["apply"]) else None


def _going_back(word: str, plain: Sequence[str], after: Sequence[str]) -> str | None:
    """Return what to type to go back so far, or to that, as another tool's verb says."""
    number = number_said(plain)
    if number is not None and _as_ref(plain[0]) is None:
        return f"write: lastgood rewind {number}"
    command = _restoring(word, plain, after)
    if command is not None:
        return f"write: lastgood {command}"
    if word == "reset" and "--hard" in after:
        return "write: lastgood restore @"
    if word not in _SWITCHING:
        return None
    named = quoted(" ".join(plain))
    return (
        f"to go to a branch, which is git's affair: git switch {named}"
        f"\nto go back to a checkpoint that is called so: lastgood restore {named}"
    )


def _restoring(word: str, plain: Sequence[str], after: Sequence[str]) -> str | None:
    """Return the restore that is meant by what goes back, or brings something back; None if none is clear."""
    if word in _BRINGING:
        said = [one for one in plain if one not in {"back", "to"}]
        return f"restore {' '.join(map(quoted, said))}" if said else None
    ref = _as_ref(plain[0])
    if ref is None and "--" not in after and not all(os.path.lexists(one) for one in plain):
        return None
    return f"restore {' '.join(map(quoted, [ref or plain[0], *plain[1:]]))}"


_NUMBERS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}
_COUNTED = frozenset(
    {"ago", "back", "by", "last", "prompt", "prompts", "run", "runs", "the", "turn", "turns"}
)


def number_said(words: Sequence[str]) -> str | None:
    """Return how many turns words say, and nothing else: ``2``, ``the last two turns``, ``last turn``."""
    numbers = [_NUMBERS.get(one, one) for one in words if one not in _COUNTED]
    if not numbers and words[-1:] and words[-1].removesuffix("s") in {"prompt", "run", "turn"}:
        return "1"
    is_number = len(numbers) == 1 and numbers[0].isascii() and numbers[0].isdigit()
    return numbers[0] if is_number and len(numbers[0]) < _LEAST_DIGITS else None


def _searching(text: str, path: Sequence[str] = ()) -> str:
    """Return the commands that look for a text: in files, and in what is said of checkpoints."""
    words = " ".join(map(quoted, (text, *path)))
    return (
        f"when that came into a file, or went: lastgood log -S {words}"
        f"\nwhat has it in its name, message or paths: lastgood list {quoted(text)}"
    )


def _as_ref(word: str) -> str | None:
    return meant_by(word) if word.startswith("HEAD") else word if word.startswith(("@", "ckpt_")) else None


def _nearest(word: str, after: Sequence[str]) -> str:
    from lastgood.suggestions import nearest

    close = nearest(word, [name for name, verb in spellings().items() if not verb.hidden])
    if close:
        said = "".join(f" {quoted(one)}" for one in after) if len(close) == 1 else ""
        return "did you mean " + " or ".join(f"`lastgood {name}{said}`" for name in close) + "?"
    return "see all verbs: lastgood help"


# --- Options of other tools ---

_WHOLE = "all files come back of themselves: lastgood restore @"
_ASKED = "to be asked nothing: --yes"
_TIME = "a time is a REF: lastgood restore @{1h}"
_MERGE = "to keep what changed since: --merge"
_HEAD = "HEAD and the index come back too with --git: lastgood restore @ --git"
_PERIOD = "of the last day: lastgood report --period day"
_PLOTS = "a page with plots: lastgood report --html FILE"
_PATCH = "what changed then: lastgood diff --previous REF PATH"
_OPTIONS = {
    ("restore", "-f"): _ASKED,
    ("restore", "--all"): _WHOLE,
    ("restore", "--hard"): _WHOLE,
    ("restore", "--staged"): "the index comes back with HEAD: lastgood restore REF --git",
    ("restore", "--target"): _ASIDE,
    ("list", "--last"): "the newest five: lastgood list -n 5",
    **dict.fromkeys((("restore", f"-{word}") for word in ("i", "-interactive", "-list")), _BACK),
    **dict.fromkeys(
        (("restore", f"--{word}") for word in ("keep", "keep-mine", "no-delete", "soft")), _MERGE
    ),
    ("restore", "--preview"): "what would happen: --dry-run",
    ("restore", "--only-files"): "no conversation and no progress: --only files",
    ("list", "-a"): "those made before restores, too: lastgood list --all",
    ("list", "--today"): "of the last day: lastgood list --since 24h",
    ("diff", "--cached"): "what changed since the last checkpoint: lastgood diff",
    ("diff", "--name-only"): "the paths alone: lastgood diff --stat",
    ("log", "--stat"): _PATCH,
    ("report", "--today"): _PERIOD,
    ("restore", "--latest"): "the newest is a REF: lastgood restore latest",
    ("restore", "--last"): "the newest is a REF: lastgood restore latest",
    ("restore", "-p"): "some paths of it: lastgood restore REF PATH...",
    ("restore", "--patch"): "some paths of it: lastgood restore REF PATH...",
    ("log", "-p"): _PATCH,
    ("log", "--patch"): _PATCH,
    ("log", "-G"): _TEXT,
    **{("report", f"--{word}"): _PLOTS for word in ("plot", "plots", "chart", "charts", "graph")},
    **dict.fromkeys((("restore", one) for one in ("--branch", "-b", "--head", "--index")), _HEAD),
    **dict.fromkeys(
        (("restore", f"--{one}") for one in ("ignored", "include-ignored", "no-ignore")),
        "what is not held, being ignored: lastgood status --ignored",
    ),
    **dict.fromkeys(
        (("restore", f"--{one}") for one in ("deleted", "missing", "untracked")),
        "these come back with all else: lastgood restore @\nwhich they are: lastgood diff --stat",
    ),
    ("restore", "--undo"): _UNDO,
    **dict.fromkeys(
        (("undo", f"--{one}") for one in ("except", "exclude", "keep", "keep-mine")),
        "to keep what changed since: lastgood undo --merge",
    ),
    **dict.fromkeys(
        (("recover", one) for one in ("--yes", "-y")),
        "leave it out: with --continue, --rollback or --fresh it asks nothing",
    ),
    ("", "-v"): "lastgood --version",
    ("", "-?"): _HELP,
}


# What `progress set` takes of these is often said with the verbs that change it, and with what keeps it.
_PLACES = frozenset(f"--{word}" for word in ("phase", "iteration", "step", "artifact", "state"))
_WHERE = "where the work stands: lastgood progress set --phase PHASE --iteration N --step n/m"
_LOOKING = frozenset({"list", "ls", "show", "status"})
_ACTIONS = {
    **{
        (verb, word): "how far the work has come: lastgood progress"
        for verb in ("feature", "sprint", "task")
        for word in _LOOKING
    },
    **{("progress", word.removeprefix("--")): _WHERE for word in _PLACES},
    **{
        ("workspace", word): "to make a folder again that is gone: lastgood -C FOLDER restore @"
        for word in ("recover", "restore", "undelete")
    },
    ("config", "list"): "all settings: lastgood config show",
    ("session", "stop"): "to say that work is over: lastgood session end",
    **{
        ("session", word): "to go on with what was interrupted: lastgood recover"
        for word in ("continue", "resume")
    },
}


def answer_action(verb: str, word: str) -> str | None:
    """Return what to type for an action that a verb does not have, None if none is known."""
    if verb == "config" and "." in word:
        return f"to set it: lastgood config set {quoted(word)} VALUE"
    return _ACTIONS.get((verb, word))


_TIMED = frozenset(f"--{word}" for word in ("time", "date", "at", "since", "before", "ago"))
_PATHS = frozenset(f"--{word}" for word in ("dir", "file", "files", "folder", "include", "path", "paths"))
_SOURCES = frozenset({"--source", "-s", "--from"})
_REFS = _SOURCES | frozenset(
    {"-r", *(f"--{word}" for word in ("checkpoint", "id", "name", "ref", "rev", "snapshot"))}
)
_VERSIONS = frozenset({"-i", "-l", "--interactive", "--list", "--version", "--versions", "--history"})
_TEXTS = frozenset({"-S", "--grep", "--search", "--text", "--message", "-m"})
_COUNTING = frozenset(
    f"--{word}" for word in ("turns", "prompts", "messages", "runs", "steps", "count", "last")
)


def answer_option(verb: str, word: str, after: Sequence[str], *, before: Sequence[str] = ()) -> str | None:
    """Return what to type for an option of another tool (as typed, with its value), None if none is known.

    ``before`` and ``after`` are the words around it.
    """
    option, _, value = word.partition("=")
    if word[1:].isascii() and word[1:].isdigit():
        return _number_told(verb, word[1:], [one for one in (*before, *after) if not one.startswith("-")])
    if option in _PLACES:
        return f"where the work stands comes first: lastgood progress set {_places_told((word, *after))}"
    return _valued(verb, option, value, after, before=before) or _OPTIONS.get((verb, option))


def _places_told(words: Sequence[str]) -> str:
    """Return the options of a place in the work that words say, each with its value."""
    told = []
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in _PLACES:
            told.append(f"{option} {quoted(value if equals else next(iter(words[place + 1 :]), 'VALUE'))}")
    return " ".join(told)


def _number_told(verb: str, number: str, others: Sequence[str]) -> str | None:
    """Return what to type for a number that was given as an option: ``-2``."""
    if verb in {"list", "log"}:
        return f"write: lastgood {verb} -n {number}" + (" PATH" if verb == "log" else "")
    if verb in {"restore", "show", "diff", "cat"}:
        words = " ".join((verb, f"@~{number}", *map(quoted, others)))
        return f"that many before where you stand: lastgood {words}"
    return f"write: lastgood rewind {number}" if verb == "rewind" else None


def _valued(verb: str, option: str, value: str, after: Sequence[str], *, before: Sequence[str]) -> str | None:
    """Return the whole command for an option with its value; None if there is none."""
    given = value or next(iter(after), "")
    if verb == "list" and option in _PATHS and given:
        return f"at which it changed: lastgood list {quoted(given)}"
    if verb == "list" and option == "-S":
        return _searching(given or "TEXT")
    if (verb == "log" and option == "--grep") or (verb == "list" and option in {"--message", "-m"}):
        return saying(given or "WORD")
    if verb in {"rewind", "undo"} and option in _COUNTING:
        return f"the number stands alone: lastgood rewind {quoted(given or 'N')}"
    others = [one for one in (*before, *after[0 if value else 1 :]) if not one.startswith("-")]
    if verb == "restore" and (option in _TIMED or time_meant(option[1:]) is not None):
        return _at_time(given if option in _TIMED else option[1:], others, option)
    return _told_of_paths(option, given, others) if verb == "restore" else None


def _told_of_paths(option: str, given: str, others: Sequence[str]) -> str | None:
    """Return what is meant by an option of a restore that has to do with paths, None if it has not."""
    if option in _REFS:
        said = " ".join(map(quoted, (given or "REF", *others))) + (
            " PATH..." if option in _SOURCES and not others else ""
        )
        return f"the REF comes first: lastgood restore {said}"
    if option in _PATHS:
        words = " ".join(map(quoted, (*others, given or "PATH")))
        return f"a path stands alone, or after its checkpoint: lastgood restore {words}"
    named = [one for one in (*others, given) if one and not one.isdigit() and not one.startswith("-")]
    if option in _VERSIONS and named:
        return f"its versions: lastgood log {quoted(named[0])}"
    if option == "--previous" and named:
        return f"write: lastgood restore @~1 {' '.join(map(quoted, dict.fromkeys(named)))}"
    if option in _TEXTS and given:
        return f"{_searching(given, others[:1])}\nto go back to one: lastgood restore ID"
    return None


def _at_time(said: str, paths: Sequence[str], option: str) -> str:
    meant = time_meant(said)
    if meant is None and option == "--before" and said:
        return f"write: lastgood restore before {' '.join(map(quoted, (said, *paths)))}"
    if meant is None:
        return _TIME
    return f"a time is a REF: lastgood restore {' '.join(map(quoted, (f'@{{{meant}}}', *paths)))}"


def saying(word: str) -> str:
    """Return the command that lists the checkpoints with a word in what their names or messages say."""
    return f"with that in their name or message: lastgood list --grep {quoted(word)}"
