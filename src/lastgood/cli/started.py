"""How the program is called where it was started, so that what a hint says can be typed there."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "lastgood"
# Beside letters and digits, what no shell takes for anything else.
_PLAIN = frozenset("@%+=:,./-_")


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
        return NAME if _is_found(installed, path) else f"{_quoted(interpreter)} -m {NAME}"
    if os.path.basename(script) != NAME or "-m" in words[: words.index(script)] or _is_found(script, path):
        return NAME
    shown = _quoted(script if "/" in script else f"./{script}")
    return shown if os.access(script, os.X_OK) else f"{_quoted(interpreter)} {shown}"


def _is_found(file: str, path: str) -> bool:
    """Tell whether a file is what a shell runs by the program's name: the first of that name on ``path``."""
    for folder in path.split(os.pathsep):
        candidate = f"{folder}/{NAME}"
        if candidate == file:
            return True
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return os.path.realpath(candidate) == os.path.realpath(file)
    return False


def _quoted(word: str) -> str:
    if word and word.isascii() and all(one.isalnum() or one in _PLAIN for one in word):
        return word
    from shlex import quote  # lazily: it takes as long to import as Python to start

    return quote(word)
