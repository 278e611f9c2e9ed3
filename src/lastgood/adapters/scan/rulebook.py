"""The ignore rules in force, directory by directory, worked out only where they are asked for."""

from __future__ import annotations

from lastgood.names import unknown
from lastgood.rules.ignore import workspace_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.checkpoint import IgnoreState
    from lastgood.rules.ignore import Rules, Text


class RuleBook:
    """The rules of every directory that is not ignored. ``texts`` returns a directory's ignore files."""

    def __init__(self, state: IgnoreState, *, texts: Callable[[bytes], tuple[Text, Text]]) -> None:
        self._state = state
        self._texts = texts
        self._known: dict[bytes, Rules] = {}

    def at(self, path: bytes) -> Rules:
        """Return the rules in force in a directory."""
        known = self._known.get(path)
        if known is not None:
            return known
        if b"" not in self._known:
            self.enter(b"", self._texts(b""))
        # The way down may be longer than the interpreter's stack is deep.
        for each in unknown(path, self._known):
            self.enter(each, self._texts(each))
        return self._known[path]

    def enter(self, path: bytes, texts: tuple[Text, Text]) -> Rules:
        """Return the rules in force in a directory, given what its ignore files say."""
        gitignore, lastgoodignore = texts
        if path:
            above, _, name = path.rpartition(b"/")
            known = self._known.get(above)
            rules = (self.at(above) if known is None else known).child(
                name, gitignore, lastgoodignore=lastgoodignore
            )
        else:
            rules = workspace_rules(self._state, gitignore, lastgoodignore=lastgoodignore)
        self._known[path] = rules
        return rules
