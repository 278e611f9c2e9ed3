"""The command: from the words typed to the exit code."""

from __future__ import annotations

import os
import sys

from lastgood.cli import opening
from lastgood.cli.opening import Console
from lastgood.cli.reader import read
from lastgood.errors import Internal, LastgoodError, Usage, crowded
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from lastgood.cli.grammar import Call


def run(*, proposed: str | None = None, given: bytes | None = None) -> NoReturn:
    """Carry out the command line of this process and end it.

    ``proposed`` are the digits of the checkpoint that a resident may have made for it before it broke down,
    ``given`` is what came on standard input, if that has been read.
    """
    code = main(sys.argv[1:], proposed=proposed, given=given)
    # Everything is closed and written by now: the interpreter's own farewell takes 3 ms more.
    os._exit(code)


def main(words: Sequence[str], *, proposed: str | None = None, given: bytes | None = None) -> int:
    """Carry out a command line (without the program's name) and return the exit code."""
    console = Console(os.environ)
    console.proposed, console.given = proposed, given
    before = words[: words.index("--")] if "--" in words else words
    console.json = "--json" in before
    try:
        code = _guarded(words, console)
        console.flush()
    except LastgoodError as error:  # the output itself could not be written
        console.json = False
        return _exit_code_of(error, console)
    return code


def interrupted(words: Sequence[str]) -> int:
    """Tell that a person stopped a command, of which nobody knows how far it came."""
    from lastgood.cli.faults import tell_interrupted

    console = Console(os.environ)
    console.json = "--json" in words
    code = tell_interrupted(console)
    console.flush()
    return code


def unwritten(error: OSError) -> int:
    """Tell that what a resident said could not be written."""
    return _exit_code_of(opening.unwritten(error), Console(os.environ))


def _guarded(words: Sequence[str], console: Console) -> int:
    try:
        return _carry_out(words, console)
    except LastgoodError as error:
        return _exit_code_of(crowded(error) or error, console)
    except KeyboardInterrupt:
        from lastgood.cli.faults import tell_interrupted

        return tell_interrupted(console)
    except Exception as fault:  # noqa: BLE001 - the edge: whatever it is, it is told and has an exit code
        busy = crowded(fault)  # also where a module could not be loaded
        if busy is not None:
            return _exit_code_of(busy, console)
        if os.environ.get("LASTGOOD_TRACE"):
            from traceback import format_exc

            console.warn(format_exc())
        from lastgood.cli.faults import internal

        hint = "please report it, with what LASTGOOD_TRACE=1 adds"
        return _exit_code_of(Internal(internal(fault), hint=hint), console)


def _exit_code_of(error: LastgoodError, console: Console) -> int:
    from lastgood.cli.faults import tell

    return tell(error, console)


def _carry_out(words: Sequence[str], console: Console) -> int:
    if words and words[0] in {"--version", "-V"}:
        from lastgood.cli.help import show_version

        return show_version(console)
    call = read(words)
    if call is None:
        from lastgood.cli.help import show_overview

        if "--help" in words or "-h" in words:
            return show_overview(console)
        if not console.out_is_terminal or console.json:
            raise Usage("no verb given", hint="see all verbs: lastgood help")
        console.call = call = read([*words, "status"])
        from lastgood.cli.verbs.status import status_without_a_verb

        return status_without_a_verb(cast("Call", call), console)
    console.take(call)
    if call.help:
        from lastgood.cli.help import show_verb

        return show_verb(call.verb, console)
    return _verb(call)(call, console)


# Where the verbs stand that are not in a module of their own name.
_MODULES = {
    "complete": "completion",
    "cat": "log",
    "config": "doctor",
    "delete": "checkpoints",
    "diff": "show",
    "export": "exchange",
    "import": "exchange",
    "maintain": "retention",
    "name": "checkpoints",
    "pin": "checkpoints",
    "progress": "work",
    "prune": "retention",
    "rewind": "restore",
    "session": "work",
    "task": "work",
    "undo": "restore",
    "uninstall": "install",
    "verify": "retention",
}


def _verb(call: Call) -> Callable[[Call, Console], int]:
    """Return what carries out a verb; only its own module is loaded."""
    name = call.verb.module or call.verb.name
    function = f"{name}_verb"
    module = __import__(f"lastgood.cli.verbs.{_MODULES.get(name, name)}", fromlist=(function,))
    found: Callable[[Call, Console], int] = getattr(module, function)
    return found
