"""help: explain a verb or a topic."""

from __future__ import annotations

from lastgood.cli.help import show_topic
from lastgood.cli.table import GLOBAL_OPTIONS, all_verbs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call, Option, Verb
    from lastgood.cli.opening import Console


def help_verb(call: Call, console: Console) -> int:
    """Explain."""
    return show_topic(call.argument(0), console)


# --- Completion scripts for shells, made from the table; the shell runs nothing of ours to complete ---


def script(shell: str) -> str:
    """Return the completion script for bash, zsh or fish."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _listed() -> list[Verb]:
    return [verb for verb in all_verbs() if not verb.hidden]


def _words(verb: Verb) -> list[str]:
    return [verb.name, *verb.spellings]


def _flags(options: tuple[Option, ...]) -> list[str]:
    flags = []
    for option in options:
        if option.name != "directory":
            flags.append(f"--{option.name}")
        if option.short:
            flags.append(f"-{option.short}")
    return flags


def _plain_arguments(verb: Verb) -> list[str]:
    words = [word for argument in verb.arguments for word in argument.choices]
    if verb.name == "help":
        words += [one.name for one in _listed()] + ["refs", "exit-codes", "environment"]
    if any(argument.form == "ref" for argument in verb.arguments):
        words += ["@", "@~1", "@good", "latest"]
    return words


def _bash() -> str:
    every = sorted(word for verb in _listed() for word in _words(verb))
    values: dict[str, str] = {}
    cases = []
    for verb in _listed():
        for option in verb.options:
            if option.choices:
                values[f"{'|'.join(_words(verb))}:--{option.name}"] = " ".join(option.choices)
        words = " ".join([*_flags(verb.options), *_flags(GLOBAL_OPTIONS), *_plain_arguments(verb)])
        cases.append(f"        {'|'.join(_words(verb))}) words='{words}' ;;")
    chosen = []
    for key, choices in values.items():
        names, option_name = key.rsplit(":", 1)
        patterns = "|".join(f"{name}:{option_name}" for name in names.split("|"))
        chosen.append(f"        {patterns}) words='{choices}' ;;")
    return _BASH.format(
        verbs=" ".join(every),
        flags=" ".join(_flags(GLOBAL_OPTIONS)),
        cases="\n".join(cases),
        values="\n".join(chosen),
    )


_BASH = """\
# bash completion for lastgood
_lastgood() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    local verb= word words= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        case $word in
        --) return ;;
        -C|--store) ((i++)) ;;
        -*|checkpoint) ;;
        *) [[ -z $verb ]] && verb=$word ;;
        esac
    done
    case $previous in
        -C|--store|--to) COMPREPLY=($(compgen -d -- "$current")); return ;;
    esac
    case $verb:$previous in
{values}
    esac
    if [[ -z $words ]]; then
        case $verb in
        '') words='{verbs} checkpoint {flags}' ;;
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _lastgood lastgood
"""


def _zsh() -> str:
    described = []
    cases = []
    for verb in _listed():
        says = verb.says.translate(_ZSH_SAYS)
        described += [f"    {word}:{says}" for word in _words(verb)]
        specs = [_zsh_option(option) for option in (*verb.options, *GLOBAL_OPTIONS)]
        arguments = _plain_arguments(verb)
        if arguments:
            specs.append(f"'*:argument:({' '.join(arguments)})'")
        elif verb.paths or any(argument.form == "folder" for argument in verb.arguments):
            specs.append("'*:path:_files'")
        lines = " \\\n            ".join(specs)
        cases.append(
            f"        {'|'.join(_words(verb))})\n            _arguments -s \\\n            {lines} ;;"
        )
    return _ZSH.format(
        described="\n".join(f"    '{line.strip()}'" for line in described), cases="\n".join(cases)
    )


_ZSH = """\
#compdef lastgood
# zsh completion for lastgood
_lastgood() {{
    local -a verbs
    local state line
    verbs=(
{described}
    )
    _arguments -C '-C[work on this workspace]:folder:_files -/' \\
        '--store[keep checkpoints here]:folder:_files -/' '1: :->verb' '*:: :->rest'
    case $state in
    verb) _describe verb verbs ;;
    rest)
        case $words[1] in
{cases}
        esac ;;
    esac
}}
if [[ $funcstack[1] == _lastgood ]]; then _lastgood "$@"; else compdef _lastgood lastgood; fi
"""


_ZSH_SAYS = str.maketrans({"'": None, "`": None, "[": "(", "]": ")", ":": "\\:"})


def _zsh_option(option: Option) -> str:
    name = f"-{option.short}" if option.name == "directory" else f"--{option.name}"
    repeated = "*" if option.repeated else ""
    value = ""
    if option.choices:
        value = f":{option.value}:({' '.join(option.choices)})"
    elif option.form == "folder":
        value = f":{option.value}:_files -/"
    elif option.value:
        value = f":{option.value}:"
    return f"'{repeated}{name}[{option.says.translate(_ZSH_SAYS)}]{value}'"


def _fish() -> str:
    lines = ["# fish completion for lastgood", "complete -c lastgood -f"]
    lines += [_fish_option(option, condition="") for option in GLOBAL_OPTIONS]
    every = " ".join(word for verb in _listed() for word in _words(verb))
    for verb in _listed():
        lines += _fish_verb(verb, first=f"not __fish_seen_subcommand_from {every}")
    return "\n".join(lines) + "\n"


def _fish_verb(verb: Verb, *, first: str) -> list[str]:
    says = verb.says.translate(_FISH_SAYS)
    lines = [f"complete -c lastgood -n '{first}' -a {word} -d '{says}'" for word in _words(verb)]
    seen = f"__fish_seen_subcommand_from {' '.join(_words(verb))}"
    lines += [_fish_option(option, condition=seen) for option in verb.options]
    arguments = _plain_arguments(verb)
    if arguments:
        lines.append(f"complete -c lastgood -n '{seen}' -a '{' '.join(arguments)}'")
    if verb.paths or any(argument.form == "folder" for argument in verb.arguments):
        lines.append(f"complete -c lastgood -n '{seen}' -F")
    return lines


_FISH_SAYS = str.maketrans({"\\": "\\\\", "'": "\\'"})


def _fish_option(option: Option, *, condition: str) -> str:
    words = ["complete -c lastgood"]
    if condition:
        words.append(f"-n '{condition}'")
    if option.name != "directory":
        words.append(f"-l {option.name}")
    if option.short:
        words.append(f"-s {option.short}")
    if option.choices:
        words.append(f"-x -a '{' '.join(option.choices)}'")
    elif option.form == "folder":
        words.append("-r -F")
    elif option.value:
        words.append("-x")
    words.append(f"-d '{option.says.translate(_FISH_SAYS)}'")
    return " ".join(words)


# --- completion: a script for a shell ---


def completion_verb(call: Call, console: Console) -> int:
    """Print the script."""
    shell = call.arguments[0]
    if not console.answer("completion", {"shell": shell, "script": script(shell)}):
        console.send(script(shell).encode())
    return 0
