"""Reads a command line by the table of verbs."""

from __future__ import annotations

from lastgood.cli.grammar import Call
from lastgood.cli.table import GLOBAL_OPTIONS, all_verbs, verb_of
from lastgood.errors import Usage
from lastgood.paths import printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.cli.grammar import Argument, Option, Verb

_PREFIX = "checkpoint"


def read(words: Sequence[str]) -> Call | None:
    """Return what a command line says (without the program's name), None if it names no verb.

    Raises `Usage` for anything the table does not allow.
    """
    reading = _Reading(words)
    verb = reading.verb()
    if verb is None:
        return None
    reading.rest(verb)
    for argument, word in zip(verb.arguments, reading.arguments, strict=False):
        if word in argument.spellings:
            reading.arguments[verb.arguments.index(argument)] = argument.spellings[word]
    if not reading.asked_for_help:
        _check_arguments(verb, reading.arguments, has_command=reading.paths is not None)
    options = {name: tuple(values) for name, values in reading.options.items()}
    arguments, paths = _apart(verb, reading)
    return Call(
        verb=verb,
        arguments=arguments,
        options=options,
        paths=paths,
        help=reading.asked_for_help,
        literal=len(reading.paths or ()) if verb.paths else 0,
    )


def _apart(verb: Verb, reading: _Reading) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the arguments, and the paths: those after ``--``, and before them those in the place of some."""
    fixed = sum(1 for argument in verb.arguments if argument.form != "path")
    given = tuple(reading.arguments)
    if fixed == len(verb.arguments) or len(given) <= fixed:
        return given, None if reading.paths is None else tuple(reading.paths)
    return given[:fixed], (*given[fixed:], *(reading.paths or ()))


class _Reading:
    """Goes through the words once, from left to right."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self._verb: Verb | None = None
        self.arguments: list[str] = []
        self.options: dict[str, list[str]] = {}
        self.paths: list[str] | None = None

    @property
    def asked_for_help(self) -> bool:
        return "help" in self.options

    def verb(self) -> Verb | None:
        prefixed = False
        while self._words:
            word = self._words.pop(0)
            if _is_option(word):
                self._option(word)
            elif word == _PREFIX and not prefixed:
                prefixed = True
            else:
                self._verb = verb_of(word)
                if self._verb is None:
                    from lastgood.cli.other_words import unknown_verb

                    raise unknown_verb(word, self._words)
                return self._verb
        return None

    def rest(self, verb: Verb) -> None:
        while self._words:
            word = self._words.pop(0)
            if word == "--":
                self._after_dashes(verb)
            elif _is_option(word):
                self._option(word)
            else:
                self.arguments.append(word)

    def _after_dashes(self, verb: Verb) -> None:
        if verb.paths or verb.command:
            self.paths = list(self._words)
            if not self.paths:
                what = "path" if verb.paths else "command"
                raise Usage(f"no {what} follows --", hint=f"write: lastgood {verb.usage}")
            if verb.paths and "" in self.paths:
                raise _empty_path()
        else:
            self.arguments += self._words
        self._words.clear()

    def _option(self, word: str) -> None:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            option = self._named(name, word)
            self._take(option, shown=f"--{name}", attached=value if equals else None)
            return
        letters = word[1:]
        while letters:
            option = self._lettered(letters[0], word)
            if option.value:
                self._take(option, shown=f"-{letters[0]}", attached=letters[1:] or None)
                return
            self._take(option, shown=f"-{letters[0]}", attached=None)
            letters = letters[1:]

    def _known(self) -> tuple[Option, ...]:
        own = () if self._verb is None else self._verb.options
        return (*own, *GLOBAL_OPTIONS)

    def _named(self, name: str, word: str) -> Option:
        for option in self._known():
            if option.name == name and name != "directory":
                return option
        raise self._unknown_option(word, name)

    def _lettered(self, letter: str, word: str) -> Option:
        for option in self._known():
            if option.short == letter:
                return option
        raise self._unknown_option(word, "")

    def _take(self, option: Option, *, shown: str, attached: str | None) -> None:
        values = self.options.setdefault(option.name, [])
        if not option.value:
            if attached is not None:
                raise Usage(f"{shown} takes no value", hint=self._help_hint())
            return
        value = attached if attached is not None else self._next_value(option, shown)
        value = option.spellings.get(value, value)
        if option.choices and value not in option.choices:
            hint = f"it can be: {', '.join(option.choices)}"
            if option.name == "only":
                hint += f"\na path stands alone: lastgood restore {_quoted((*self.arguments, value))}"
            raise Usage(f"{shown} cannot be '{printable(value)}'", hint=hint)
        if option.form == "ref" and value.startswith("-"):
            raise _dashed_ref(value)
        if not value and option.form != "text":
            raise Usage(f"{shown} has an empty value", hint="is a variable of the shell empty?")
        if values and not option.repeated and values[-1] != value:
            raise Usage(f"{shown} is given twice, with different values", hint="give it once")
        values.append(value)

    def _next_value(self, option: Option, shown: str) -> str:
        if not self._words or (self._words[0].startswith("-") and len(self._words[0]) > 1):
            attached = "-C./-DIR" if option.name == "directory" else f"--{option.name}=VALUE"
            raise Usage(
                f"{shown} needs a value: {shown} {option.value}",
                hint=f"a value that begins with '-' is written {attached}",
            )
        return self._words.pop(0)

    def _unknown_option(self, word: str, name: str) -> Usage:
        from lastgood.suggestions import nearest

        shown = printable(word.partition("=")[0])
        close = nearest(name, [one.name for one in self._known() if one.name not in _NEVER_MEANT])
        verb = self._verb
        if verb is None:
            after = [one.name for one in all_verbs() if any(option.name == name for option in one.options)]
            if after:
                return Usage(
                    f"{shown} comes after the verb", hint=f"write for example: lastgood {after[0]} {shown}"
                )
            message = f"there is no option {shown}"
        else:
            message = f"`{verb.name}` has no option {shown}"
            if any(argument.form == "ref" for argument in verb.arguments):
                message += " (and a REF never begins with '-')"
        from lastgood.cli.other_words import answer_option

        answer = answer_option("" if verb is None else verb.name, word, self._words, before=self.arguments)
        if answer is not None:
            return Usage(message, hint=answer)
        if close:
            return Usage(message, hint="did you mean --" + " or --".join(close) + "?")
        if verb is not None and verb.instead and self.arguments:
            return Usage(message, hint=_command_hint(verb))
        return Usage(message, hint=self._help_hint())

    def _help_hint(self) -> str:
        return "see: lastgood help" + ("" if self._verb is None else f" {self._verb.name}")


# What may be said of an operation: there is one at a time.
_OPERATIONS = frozenset({"all", "delete", "everything", "last", "of", "prune", "restore", "rewind", "the"})
# Options that no slip of the fingers leads to: one has no name, the other lifts a refusal.
_NEVER_MEANT = frozenset({"directory", "allow-root"})


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in {"-", "--"}


def _dashed_ref(word: str) -> Usage:
    return Usage(
        f"'{printable(word)}' cannot be a checkpoint: a REF never begins with '-'",
        hint="see: lastgood help refs",
    )


def _check_arguments(verb: Verb, given: Sequence[str], *, has_command: bool) -> None:
    wanted = verb.arguments
    if len(given) == 1 and len(wanted) > 1 and not wanted[0].required and wanted[1].required:
        wanted = wanted[1:]
    for index, argument in enumerate(wanted):
        if index < len(given) and argument.choices:
            _check_choice(verb, argument, given[index])
        if index >= len(given) and argument.required:
            raise _missing(verb, argument)
    if verb.command and not has_command and not verb.instead:
        raise Usage(f"`{verb.name}` needs -- COMMAND", hint=f"write: lastgood {verb.usage}")
    many = bool(wanted) and wanted[-1].many
    for index, word in enumerate(given):
        if index >= len(wanted) and not many:
            raise _too_many(verb, given, place=index)
        _check_argument(wanted[min(index, len(wanted) - 1)], word)


def _empty_path() -> Usage:
    # It would mean the whole folder: more than anybody asked for.
    return Usage("a path is empty", hint="for all of the current folder write .")


def _check_argument(argument: Argument, word: str) -> None:
    if argument.form == "path" and not word:
        raise _empty_path()
    if argument.form == "ref" and word.startswith("-"):
        raise _dashed_ref(word)


def _check_choice(verb: Verb, argument: Argument, word: str) -> None:
    if word in argument.choices:
        return
    from lastgood.cli.other_words import answer_action

    hint = f"it can be: {', '.join(argument.choices)}"
    if (meant := answer_action(verb.name, word)) is not None:
        hint += f"\n{meant}"
    raise Usage(f"{argument.name} cannot be '{printable(word)}'", hint=hint)


def _missing(verb: Verb, argument: Argument) -> Usage:
    hint = f"write: lastgood {verb.usage}"
    if argument.choices:
        hint = f"{argument.name} is one of: {', '.join(argument.choices)}"
    elif argument.form == "ref":
        hint += "   (the latest checkpoint is @; `lastgood list` shows all)"
    return Usage(f"`{verb.name}` needs {argument.name}", hint=hint)


def _too_many(verb: Verb, given: Sequence[str], *, place: int) -> Usage:
    word = given[place]
    hint = f"write: lastgood {verb.usage}"
    if verb.paths:
        hint += "   (paths come after --)"
    elif verb.instead:
        hint = _command_hint(verb)
    elif verb.name in {"undo", "redo"}:
        hint = _one_at_a_time(verb, given[place:])
    elif verb.name == "status":
        hint = f"what changed there: lastgood diff --stat {_quoted(given[place:])}"
    elif verb.name == "show":
        hint = f"a file as that has it: lastgood cat {_quoted(given[: place + 1])}"
        hint += f"\na name of several words: lastgood show {quoted(' '.join(given))}"
    elif verb.name == "log":
        text = _quoted((" ".join(given[1:]), given[0]))
        hint = f"{hint}\nwhen that text came into it, or went: lastgood log -S {text}"
    elif verb.name == "recover":
        hint = f"to bring these back: lastgood restore {_quoted(given)}"
    elif verb.name == "save":
        hint = "put a message of several words in quotes"
    elif verb.arguments and verb.arguments[0].form == "ref":
        hint += f"\na checkpoint's name of several words is put in quotes: lastgood {verb.name} "
        hint += quoted(" ".join(given[: len(given) - len(verb.arguments) + 1]))
        hint += "".join(f" {quoted(one)}" for one in given[len(given) - len(verb.arguments) + 1 :])
    return Usage(f"`{verb.name}` does not know what to do with '{printable(word)}'", hint=hint)


def _one_at_a_time(verb: Verb, given: Sequence[str]) -> str:
    """Return what may be meant by words after `undo`: so many, a file, a checkpoint, a list."""
    from lastgood.cli.other_words import number_said

    last = f"the last restore, delete or prune, and again for the one before: lastgood {verb.name}"
    listed = f"one at a time; what there is: lastgood {verb.name} --list"
    number = number_said(given)
    if number is not None:
        turns = "1 turn or run" if number == "1" else f"{number} turns or runs"
        back = f"to go back {turns}: lastgood rewind {number}"
        return f"{back}\n{last}\n{listed}"
    if given[0] == "list":
        return f"write: lastgood {verb.name} --list"
    named = [one for one in given if one not in _OPERATIONS]
    if {"edits", "keep", "merge", "mine"} & set(given):
        return f"to keep what changed since: lastgood {verb.name} --merge\n{last}\n{listed}"
    if "agent" in named:
        named, last = [], f"to before an agent's last turn: lastgood rewind 1\n{last}"
    meant = [f"to bring that back as it was saved: lastgood restore {_quoted(named)}"] if named else []
    return "\n".join((last, *meant, listed))


def _quoted(words: Sequence[str]) -> str:
    return " ".join(map(quoted, words))


def _command_hint(verb: Verb) -> str:
    return f"a command comes after --: lastgood {verb.name} -- COMMAND..."
