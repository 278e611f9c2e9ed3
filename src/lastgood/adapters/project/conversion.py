"""Which files git would convert before it compares them: told from attributes, nothing is converted."""

from __future__ import annotations

import os

from lastgood.adapters.project.files import read_file
from lastgood.model.checkpoint import IgnoreState
from lastgood.rules.ignore import TreeRules, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.adapters.project.repository import Repository
    from lastgood.rules.ignore import Text

_LIMIT = 16 << 20
_ATTRIBUTES = b"/.gitattributes"
_PROGRAMS = frozenset({b"filter", b"ident", b"working-tree-encoding"})
_LINE_ENDS = frozenset({b"text", b"eol", b"crlf"})
_MACRO = b"[attr]"


class Conversions:
    """What the attributes of a worktree may do to its files.

    Attribute patterns are read as ignore patterns, which fit at least as much: in doubt a file counts
    as one that is converted.
    """

    def __init__(self, found: Repository, *, line_ends: bool) -> None:
        self._found = found
        self._all_line_ends = line_ends
        self._rules = {kind: self._rules_of(kind) for kind in (_PROGRAMS, _LINE_ENDS)}

    def programs(self, path: bytes) -> bool:
        """Tell whether something would have to run on a file, given by its path in the worktree."""
        return self._rules[_PROGRAMS].ignored(path, directory=False) is not False

    def line_ends(self, path: bytes) -> bool:
        """Tell whether a file's line ends may be converted."""
        return self._all_line_ends or self._rules[_LINE_ENDS].ignored(path, directory=False) is not False

    def _rules_of(self, kind: frozenset[bytes]) -> TreeRules:
        outer = _chosen(read_file(self._found.common_dir + b"/info/attributes", limit=_LIMIT), kind)
        state = IgnoreState(
            excludes=(),
            includes=(),
            info_exclude=b"*" if isinstance(outer, Unreadable) else outer or b"",
            global_exclude=b"",
            readable=True,
        )

        def texts(directory: bytes) -> tuple[Text, Text]:
            path = os.path.join(self._found.top, directory) if directory else self._found.top
            return _chosen(read_file(path + _ATTRIBUTES, limit=_LIMIT, follow=False), kind), None

        return TreeRules(state, texts)


def _chosen(text: Text, kind: Iterable[bytes]) -> Text:
    """Return the patterns of an attributes file that give attributes of a kind, one a line."""
    if text is None or isinstance(text, Unreadable):
        return text
    lines = (line.strip() for line in text.split(b"\n"))
    patterns = [_pattern(line) for line in lines if line and line[:1] != b"#" and _gives(line, kind)]
    return b"\n".join(patterns) + b"\n" if patterns else b""


def _gives(line: bytes, kind: Iterable[bytes]) -> bool:
    if line.startswith((b'"', _MACRO)):
        return any(word in line for word in kind)
    return any(word.partition(b"=")[0] in kind for word in line.split()[1:])


def _pattern(line: bytes) -> bytes:
    # Macros can be given to any file, and quoted patterns are rare enough to fit them all.
    return b"*" if line.startswith((b'"', _MACRO, b"!")) else line.split()[0]
