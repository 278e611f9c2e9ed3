"""Commands of the caller, run apart; nothing that a workspace holds is ever run by itself (rule S12)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from lastgood.model.verdict import Ran
else:
    Protocol = object


class Commands(Protocol):
    """Runs commands; when a call returns, nothing that it started is left."""

    def run(
        self, words: Sequence[str], *, directory: bytes, variables: Mapping[str, str], timeout: float
    ) -> Ran:
        """Run a program with its arguments in a folder, standard input empty.

        ``variables`` are added to the caller's environment, ``timeout`` is in seconds.
        """
