"""Where a verb's words go: data to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys

from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_BLOCK = 1 << 16


class Console:
    """The standard streams of one run of the command.

    A reader that goes away (``| head``) silences the stream and nothing else: the verb goes on.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.json = False
        self.quiet = False
        self.out_is_terminal = _is_terminal(1)
        self.err_is_terminal = _is_terminal(2)
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        self.colour = self.out_is_terminal and not plain
        self._pending: list[bytes] = []
        self._size = 0
        self._silent: set[int] = set()

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer: a terminal on both sides, and no JSON wanted."""
        return not self.json and self.err_is_terminal and _is_terminal(0)

    def line(self, text: str = "") -> None:
        """Print one line of what was asked for."""
        self.send(text.encode("utf-8", "backslashreplace") + b"\n")

    def send(self, content: bytes) -> None:
        """Print bytes of what was asked for, as they are."""
        self._pending.append(content)
        self._size += len(content)
        if self._size >= _BLOCK:
            self.flush()

    def document(self, document: dict[str, object]) -> None:
        """Print the one JSON document."""
        from lastgood.codec.canonical import dumps

        self.send(dumps(document) + b"\n")

    def note(self, text: str) -> None:
        """Say something beside the data, unless quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say something beside the data that must not be missed."""
        self.flush()
        self._write(2, text.encode("utf-8", "backslashreplace") + b"\n")

    def overwrite(self, text: str) -> None:
        """Replace the current line of the terminal on standard error."""
        self._write(2, b"\r\x1b[K" + text.encode("utf-8", "backslashreplace"))

    def ask(self, question: str) -> str:
        """Return a person's answer, stripped; empty at the end of input."""
        self.flush()
        self._write(2, question.encode("utf-8", "backslashreplace"))
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            self._write(2, b"\n")
        return answer.strip()

    def styled(self, text: str, style: str) -> str:
        """Return a text in a style where standard output shows colour."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour else text

    def columns(self) -> int | None:
        """Return the width of the terminal, None where standard output is none."""
        if not self.out_is_terminal:
            return None
        try:
            return os.get_terminal_size(1).columns or None
        except OSError:
            return None

    def flush(self) -> None:
        """Write out what is pending."""
        pending, self._pending, self._size = self._pending, [], 0
        if pending:
            self._write(1, b"".join(pending))

    def _write(self, descriptor: int, content: bytes) -> None:
        if descriptor in self._silent:
            return
        view = memoryview(content)
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                _wait_until_writable(descriptor)
            except OSError as error:
                self._silent.add(descriptor)
                if descriptor == 1 and not isinstance(error, BrokenPipeError):
                    raise Storage(f"the output could not be written: {error.strerror}") from error
                return


def _wait_until_writable(descriptor: int) -> None:
    from select import select  # lazily: only a stream that does not block pays for it

    select([], [descriptor], [])


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
