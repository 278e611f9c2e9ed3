"""What a command line may say: verbs, arguments, options, a call; how one is written that is to be typed."""

from __future__ import annotations

import os
import sys

from lastgood.paths import quoted
from lastgood.settings import SCOPES
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    Form = Literal["text", "number", "ref", "duration", "moment", "pair", "folder", "held", "path", "plan"]

NAME = "lastgood"


class Option(Value):
    """One option. ``value`` is what help calls its value (empty: a flag); ``form`` how it is read.

    ``spellings`` are other words for some of its ``choices``.
    """

    name: str
    says: str
    value: str = ""
    form: Form = "text"
    short: str = ""
    repeated: bool = False
    choices: tuple[str, ...] = ()
    spellings: Mapping[str, str] = {}


class Argument(Value):
    """One argument. ``many`` takes all that are left; those of form ``path`` count as paths of the call.

    One of form ``held`` is a path that checkpoints hold, in the workspace or gone. ``spellings`` are other
    words for some of its ``choices``.
    """

    name: str
    form: Form = "text"
    required: bool = True
    many: bool = False
    choices: tuple[str, ...] = ()
    spellings: Mapping[str, str] = {}


class Verb(Value):
    """One verb.

    ``says`` is its line in the overview, ``about`` what its own help adds. ``paths`` tells that
    ``-- PATHS`` may follow, ``command`` that ``-- COMMAND`` has to; if the arguments can be left out,
    it takes their place. ``module`` is where it is carried out, if not in the module of its name.
    """

    name: str
    says: str
    about: str = ""
    spellings: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    paths: bool = False
    command: bool = False
    examples: tuple[tuple[str, str], ...] = ()
    codes: tuple[int, ...] = ()
    module: str = ""
    hidden: bool = False

    @property
    def usage(self) -> str:
        """The verb with its arguments, as help and errors show it."""
        words = [self.name]
        for argument in self.arguments:
            word = argument.name + ("..." if argument.many else "")
            words.append(word if argument.required else f"[{word}]")
        if self.paths and not any(argument.form == "path" for argument in self.arguments):
            words.append("[-- PATHS]")
        if self.instead:
            arguments = " ".join(argument.name for argument in self.arguments)
            return f"{self.name} {arguments}, or lastgood {self.name} -- COMMAND..."
        if self.command:
            words.append("-- COMMAND...")
        return " ".join(words)

    @property
    def instead(self) -> bool:
        """Whether a command may stand in the place of the arguments."""
        return self.command and bool(self.arguments) and not any(one.required for one in self.arguments)


class Call(Value):
    """A command line that was read: every option as it was given, nothing looked up yet.

    ``paths`` is None where no path was given; for a verb that takes a command it holds its words. The last of
    them, as many as ``literal`` says, came after ``--``: nothing but paths. What is ``guessed`` is what words
    were taken for that say something else, or nothing: it is asked about before anything changes. ``past`` is
    what a rewind leads to before, as it is told.
    """

    verb: Verb
    arguments: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = {}
    paths: tuple[str, ...] | None = None
    help: bool = False
    literal: int = 0
    guessed: bool = False
    past: str | None = None

    def has(self, option: str) -> bool:
        """Tell whether an option was given."""
        return option in self.options

    def text(self, option: str) -> str | None:
        """Return the value of an option, the last one if it was given repeatedly."""
        given = self.options.get(option)
        return given[-1] if given else None

    def texts(self, option: str) -> tuple[str, ...]:
        """Return all values of a repeatable option."""
        return self.options.get(option, ())

    def argument(self, index: int) -> str | None:
        """Return an argument, None if it was left out."""
        return self.arguments[index] if index < len(self.arguments) else None

    def command(self, words: str, *, folder: str | None = None) -> str:
        """Return a command to be typed next, for the same store and workspace, or for a quoted ``folder``.

        Who reads JSON knows how it started the program.
        """
        parts = [NAME if self.has("json") else program()]
        directory, store = self.text("directory"), self.text("store")
        if folder is None and directory is not None:
            folder = quoted(directory)
        parts += [] if folder is None else ["-C", folder]
        parts += [] if store is None else ["--store", quoted(store)]
        return " ".join([*parts, words])


# --- How a command is written that is to be typed, where the program was started ---


class Started:
    """What is known of how this process, or the client that it serves, was started.

    ``client`` has the words of a client, where its shell looks, and its interpreter.
    """

    name: str | None = None
    client: tuple[Sequence[str], str, str] | None = None


def program() -> str:
    """Return what to type for the program, as it was started."""
    if Started.name is None:
        mine = (sys.orig_argv, os.environ.get("PATH", ""), sys.executable)
        words, path, python = Started.client or mine
        Started.name = typed_name(words, path, python=python)
    return Started.name


def serve(words: Sequence[str], path: str, *, python: str) -> None:
    """Take it for a client from now on, which was started so: nothing is looked up before somebody asks."""
    Started.name, Started.client = None, (words, path, python)


def typed_name(words: Sequence[str], path: str, *, python: str = "") -> str:
    """Return what to type for the program: its name where a shell finds it by that, else how it was called.

    ``words`` are those of the process, Python's own among them; ``path`` is where a shell looks, ``python``
    the interpreter. Of other ways to start it nothing is known, and its name is what is left.
    """
    interpreter, script = words[0], next((word for word in words[1:] if not word.startswith("-")), "")
    if words[1:3] == ["-m", NAME]:
        installed = os.path.join(os.path.dirname(python), NAME)
        return NAME if _is_found(installed, path) else f"{quoted(interpreter)} -m {NAME}"
    if os.path.basename(script) != NAME or "-m" in words[: words.index(script)] or _is_found(script, path):
        return NAME
    shown = quoted(script if "/" in script else f"./{script}")
    return shown if os.access(script, os.X_OK) else f"{quoted(interpreter)} {shown}"


def _is_found(file: str, path: str) -> bool:
    """Tell whether a file is what a shell runs by the program's name: the first of that name on ``path``."""
    for folder in path.split(os.pathsep):
        candidate = f"{folder}/{NAME}"
        if candidate == file:
            return True
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return os.path.realpath(candidate) == os.path.realpath(file)
    return False


# --- Arguments and options that several verbs have ---

GLOBAL_OPTIONS: tuple[Option, ...] = (
    Option(
        name="directory",
        short="C",
        value="DIR",
        form="folder",
        says="work on this workspace instead of looking for one",
    ),
    Option(name="store", value="DIR", form="folder", says="keep and find checkpoints here"),
    Option(name="allow-root", says="accept a home, system or temporary folder as workspace"),
    Option(
        name="set",
        value="KEY=VALUE",
        form="pair",
        repeated=True,
        says="decide a setting of `lastgood config` for this call",
    ),
    Option(name="json", says="print one JSON document"),
    Option(name="quiet", short="q", says="print only what was asked for"),
    Option(name="help", short="h", says="explain, and do nothing"),
)

REF = Argument(name="REF", form="ref")
YES = Option(name="yes", short="y", says="do not ask (without a terminal, this or --plan is needed)")
DRY_RUN = Option(name="dry-run", short="n", says="show the plan and its id, change nothing")
PRIVATE = Option(name="private", says="what private files hold too: those that git ignores, such as .env")
TIMEOUT = Option(
    name="timeout", value="T", form="duration", says="stop the check after this time (default: 10m)"
)
PLAN = Option(name="plan", value="ID", form="plan", says="carry out exactly the plan that a dry run showed")
FORCE_UNDO = Option(name="force", says="also where files have changed since (what is there is saved first)")
MERGE_UNDO = Option(name="merge", says="keep what has changed since, file by file")
RESTORING = (
    Option(
        name="only",
        value="SCOPE",
        choices=SCOPES,
        repeated=True,
        says="bring back only this (without it: files, conversation and progress)",
    ),
    Option(name="git", says="put HEAD and the index back too; no branch is moved"),
    Option(
        name="to",
        value="DIR",
        form="folder",
        says="write to a new or empty folder, leave the workspace alone",
    ),
    DRY_RUN,
    YES,
    PLAN,
    Option(name="merge", says="keep what has changed since the base, file by file"),
    Option(name="base", value="REF", form="ref", says="what --merge goes by (default: @)"),
    Option(
        name="conflict",
        value="C",
        choices=("ours", "theirs", "markers"),
        says="where both changed: keep it as it is now, take it as it was, or mark it",
    ),
    Option(name="discard", says="go on although something that would be lost cannot be kept"),
    Option(name="force", says="go on although another session is at work"),
)
