"""completion: what a shell offers while a command line is typed.

Each shell's script asks ``lastgood complete`` for the candidates, so all three offer the same.
"""

from __future__ import annotations

import os

from lastgood.cli.grammar import Call
from lastgood.cli.opening import open_group
from lastgood.cli.table import GLOBAL_OPTIONS, all_verbs, verb_of
from lastgood.cli.wording import ago, label, title
from lastgood.errors import LastgoodError, count
from lastgood.model.session import COMMAND_TASK
from lastgood.paths import printable, to_bytes, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    from lastgood.cli.grammar import Argument, Option, Verb
    from lastgood.cli.opening import Console
    from lastgood.workspace import Workspace

    # What may be typed, and what is said of it.
    Candidate = tuple[str, str]
    Found = TypeVar("Found")

# Told to the script in the place of candidates: the shell knows files and folders best.
FILES, FOLDERS = ":files", ":folders"
_RECENT = 20
# So many steps of a rewind are told.
_STEPS = 5
_REFS = (
    ("@", "where the workspace stands"),
    ("@~1", "the one before it"),
    ("@good", "the newest whose check passed"),
    ("@start", "the first of the session at hand"),
    ("latest", "the newest"),
)
_TOPICS = (("refs", "how to name a checkpoint"), ("exit-codes", ""), ("environment", ""))


def completion_verb(call: Call, console: Console) -> int:
    """Print the script for a shell."""
    shell = call.arguments[0]
    if not console.answer("completion", {"shell": shell, "script": script(shell)}):
        console.send(script(shell).encode())
    return 0


def complete_verb(call: Call, console: Console) -> int:
    """Print what can follow, a line each, said after a tab; nothing where nothing is known."""
    words = list(call.paths or ("",))
    for word, says in candidates(words):
        # What a line cannot hold, or no shell shows, is typed by nobody.
        if word in {FILES, FOLDERS} or (printable(word) == word and word.startswith(words[-1])):
            console.line(f"{word}\t{printable(says)}" if says else word)
    return 0


def script(shell: str) -> str:
    """Return the completion script for bash, zsh or fish."""
    return {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]


def candidates(words: Sequence[str]) -> Iterator[Candidate]:
    """Yield what may stand in the place of the last of some words (without the program's name)."""
    typed = _Typed(words[:-1])
    current = words[-1]
    if typed.waiting is not None:
        yield from _values(typed.waiting, typed, current)
    elif typed.paths is not None:
        yield from _held(typed, current) if typed.verb and typed.verb.paths else [(FILES, "")]
    elif current.startswith("-"):
        yield from _flags(typed)
    elif typed.verb is None:
        yield from ((verb.name, verb.says) for verb in all_verbs() if not verb.hidden)
        yield from _spelled(current)
    else:
        yield from _arguments(typed.verb, typed, current)


class _Typed:
    """What was typed before the word at hand; what makes no sense yet is passed over."""

    def __init__(self, words: Sequence[str]) -> None:
        self.verb: Verb | None = None
        self.waiting: Option | None = None
        self.arguments: list[str] = []
        self.options: dict[str, tuple[str, ...]] = {}
        self.paths: list[str] | None = None
        for word in words:
            self._read(word)

    def call(self) -> Call:
        """Return the call as far as it was typed, for the workspace and the store that it names."""
        places = {name: given for name, given in self.options.items() if name in {"directory", "store"}}
        return Call(verb=self.verb or all_verbs()[0], options=places, paths=())

    def known(self) -> tuple[Option, ...]:
        """Return the options that may follow."""
        return (*(() if self.verb is None else self.verb.options), *GLOBAL_OPTIONS)

    def _read(self, word: str) -> None:
        if self.waiting is not None:
            self.options[self.waiting.name] = (word,)
            self.waiting = None
        elif self.paths is not None:
            self.paths.append(word)
        elif word == "--":
            self.paths = []
        elif word.startswith("-"):
            self._option(word)
        elif self.verb is not None:
            self.arguments.append(word)
        elif word != "checkpoint":
            self.verb = verb_of(word)

    def _option(self, word: str) -> None:
        name, equals, value = word.removeprefix("--").partition("=")
        for option in self.known():
            if word == f"-{option.short}" or (word.startswith("--") and option.name == name):
                if option.value and not equals:
                    self.waiting = option
                self.options[option.name] = (value,)


def _spelled(current: str) -> Iterator[Candidate]:
    """Yield the other spellings of verbs, once something is typed that none of their names begins with."""
    if current and not any(verb.name.startswith(current) for verb in all_verbs()):
        for verb in all_verbs():
            yield from ((word, verb.says) for word in verb.spellings)


def _flags(typed: _Typed) -> Iterator[Candidate]:
    for option in typed.known():
        if option.name not in typed.options or option.repeated:
            yield (f"-{option.short}" if option.name == "directory" else f"--{option.name}"), option.says


def _values(option: Option, typed: _Typed, current: str) -> Iterable[Candidate]:
    if option.choices:
        return [(one, "") for one in option.choices]
    if option.form == "folder":
        return [(FOLDERS if option.value == "DIR" else FILES, "")]
    offered: dict[str, Callable[[], Iterable[Candidate]]] = {
        "base": lambda: _refs(typed),
        "done": lambda: _tasks(typed),
        "artifact": lambda: _held(typed, current),
        "previous": lambda: _refs(typed),
        "redo": lambda: _tasks(typed),
        "session": lambda: _sessions(typed),
        "set": lambda: [(f"{key}=", says) for key, says in _keys()],
        "task": lambda: _tasks(typed),
        "transcript": lambda: [(FILES, "")],
    }
    return offered.get(option.name, list)()


def _arguments(verb: Verb, typed: _Typed, current: str) -> Iterable[Candidate]:
    """Return what may be the next argument."""
    place = len(typed.arguments)
    if place >= len(verb.arguments) and not (verb.arguments and verb.arguments[-1].many):
        return [("--", "what follows is the command")] if verb.command else []
    argument = verb.arguments[min(place, len(verb.arguments) - 1)]
    takes_path = any(one.form in {"path", "held"} for one in verb.arguments)
    if argument.form == "ref" and takes_path and current:  # a path may stand there alone
        return [*_refs(typed), *_held(typed, current)]
    if argument.choices:
        return [(one, "") for one in argument.choices]
    offered: dict[str, Callable[[], Iterable[Candidate]]] = {
        "ref": lambda: [*_refs(typed), *(_unfinished(typed) if verb.name == "recover" else ())],
        "path": lambda: _held(typed, current),
        "held": lambda: _held(typed, current),
        "folder": lambda: _folders(typed) if verb.name == "workspace" else [(FILES, "")],
        "number": lambda: _steps_back(typed) if verb.name == "rewind" else [],
        "text": lambda: _texts(verb, argument, typed),
    }
    return offered.get(argument.form, list)()


def _texts(verb: Verb, argument: Argument, typed: _Typed) -> Iterable[Candidate]:
    """Return the words of a verb's own that an argument without a form may be."""
    if verb.name == "help":
        return [*((one.name, one.says) for one in all_verbs() if not one.hidden), *_TOPICS]
    if verb.name == "config":
        return _settings(*typed.arguments)
    if verb.name == "task":
        return _tasks(typed)
    if verb.name == "session" and argument.name == "ID":
        return _sessions(typed)
    return []


# --- What is known of the workspace; a fault offers nothing, and says nothing in the middle of a line ---


def _refs(typed: _Typed) -> Iterator[Candidate]:
    yield from _REFS
    now, tasks = _now(), dict(_tasks(typed))
    for one in _looked(typed, lambda workspace: workspace.list(limit=_RECENT, guards=False, brief=True)):
        if one.kind == "task" and one.manifest.task is not None:
            tasks.setdefault(one.manifest.task, "done")
        says = f"{label(one)}, {ago(one.manifest.created_at, now=now)}"
        if one.name is not None:
            yield one.name, says
        yield one.short_id, says
    yield from ((f"task:{id}", says) for id, says in tasks.items() if id != COMMAND_TASK)


def _tasks(typed: _Typed) -> Iterator[Candidate]:
    yield from ((one.id, one.state) for one in _looked(typed, lambda workspace: workspace.tasks()))


def _sessions(typed: _Typed) -> Iterator[Candidate]:
    for one in _looked(typed, lambda workspace: workspace.sessions()):
        yield one.id, ", ".join(word for word in (one.state, one.session.goal or "") if word)


def _unfinished(typed: _Typed) -> Iterator[Candidate]:
    yield from ((id, says) for id, says in _sessions(typed) if says.startswith("incomplete"))


def _steps_back(typed: _Typed) -> Iterator[Candidate]:
    """Yield how many turns or runs back one can go, with the last that each takes back."""
    now = _now()
    for extent in _looked(typed, lambda workspace: workspace.preview_rewinds(_STEPS)):
        last = (extent.turns or extent.runs or extent.saves or (extent.target,))[-1]
        said, at = title(last).removeprefix("before: "), last.manifest.created_at
        if extent.under_way and not extent.turns:
            said, at = extent.under_way[-1].name, extent.under_way[-1].started_at
        yield str(extent.steps), f"to before {said}, {ago(at, now=now)}"


def _folders(typed: _Typed) -> Iterator[Candidate]:
    """Yield the folders that have checkpoints, also those not there now."""
    for one in _looked(typed, lambda workspace: workspace.workspaces()):
        yield one.path, count(one.checkpoints, "checkpoint")


def _settings(action: str, key: str | None = None) -> Iterable[Candidate]:
    """Return what may follow an action of `config`: a key, its value, or a file."""
    from lastgood.configuration.rules import KEYS

    if action == "import":
        return [(FILES, "")]
    if key is None:
        return _keys()
    return [(one, "") for one in KEYS[key].choices] if action == "set" and key in KEYS else []


def _keys() -> list[Candidate]:
    from lastgood.configuration.rules import KEYS

    return [(key, setting.says) for key, setting in KEYS.items()]


def _held(typed: _Typed, current: str) -> Iterator[Candidate]:
    """Yield what is in the folder of a path: in the workspace, and in the checkpoint, for it may be gone."""
    folder, slash, _ = current.rpartition("/")
    names: dict[bytes, bool] = {}
    try:
        with os.scandir(to_bytes(folder) if folder else b"/" if slash else b".") as entries:
            names = {entry.name: entry.is_dir() for entry in entries}
    except OSError:
        pass
    ref = next(iter(typed.arguments), "@")

    def listed(workspace: Workspace) -> Iterable[tuple[bytes, bool]]:
        from lastgood.cli.typed_paths import path_of

        place = path_of(folder or ".", typed.call(), workspace)
        try:
            found = workspace.entries(ref, folder=place)
        except LastgoodError:
            found = workspace.entries("@", folder=place)
        return [(one.path.rpartition(b"/")[2], one.kind == "directory") for one in found]

    names |= dict(_looked(typed, listed))
    names.pop(b".git", None)
    for name, is_folder in sorted(names.items()):
        yield f"{folder}{slash}{to_text(name)}" + "/" * is_folder, ""


def _looked(typed: _Typed, look: Callable[[Workspace], Iterable[Found]]) -> Iterable[Found]:
    from lastgood.workspace import Workspace

    try:
        with open_group(typed.call(), Workspace, purpose="find") as workspace:
            return list(look(workspace))
    except LastgoodError:
        return []


def _now() -> int:
    from time import time_ns

    return time_ns()


# --- The scripts ---

_BASH = r"""# bash completion for lastgood
_lastgood() {
    local line word before IFS=$'\n'
    local -a typed=()
    # bash breaks words at colons too: task:T01 is one word here
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        word=${word//\\/}
        if [[ $word == :* || $before == *: ]] && ((${#typed[@]})); then
            typed[-1]+=$word
        else
            typed+=("$word")
        fi
        before=$word
    done
    before=${typed[-1]}
    [[ $before == *:* ]] && before=${before%"${before##*:}"} || before=
    COMPREPLY=()
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        case $line in
        :files) compopt -o default; return ;;
        :folders) compopt -o dirnames; return ;;
        */|*=) compopt -o nospace ;;
        esac
        printf -v line %q "${line#"$before"}"
        COMPREPLY+=("$line")
    done < <("${COMP_WORDS[0]}" complete -- "${typed[@]}" 2>/dev/null)
}
complete -F _lastgood lastgood
"""

_ZSH = r"""#compdef lastgood
# zsh completion for lastgood
_lastgood() {
    local line word
    local -a plain said open
    for line in "${(@f)$("${words[1]}" complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        word=${line%%$'\t'*}
        case $line in
        '') ;;
        :files) _files; return ;;
        :folders) _files -/; return ;;
        */|*=) open+=("$word") ;;
        *$'\t'*) said+=("${word//:/\\:}:${line#*$'\t'}") ;;
        *) plain+=("$word") ;;
        esac
    done
    (( $#open )) && compadd -S '' -- $open
    (( $#plain )) && compadd -- $plain
    (( $#said )) && _describe lastgood said
}
if [[ $funcstack[1] == _lastgood ]]; then _lastgood "$@"; else compdef _lastgood lastgood; fi
"""

_FISH = r"""# fish completion for lastgood
function __lastgood_complete
    set -l typed (commandline -opc) (commandline -ct)
    for line in ($typed[1] complete -- $typed[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :folders
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c lastgood -f -a '(__lastgood_complete)'
"""
