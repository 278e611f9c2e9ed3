"""What a restore changes beside files: the progress, the conversation, the project's HEAD and index."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Scope = Literal["files", "conversation", "progress", "git"]
    PartScope = Literal["conversation", "progress", "git"]

SCOPES: tuple[Scope, ...] = ("files", "conversation", "progress", "git")
# Rule T11: what comes back together unless something else is asked for.
DEFAULT_SCOPES: tuple[Scope, ...] = ("files", "conversation", "progress")


class Part(Value):
    """One thing beside files that a restore changes, as plain JSON that its own module understands.

    ``before`` is how it stood when the plan was made, ``after`` how it is to stand; both say enough
    to bring either state about again, after a crash too, so that undo is the part turned round.
    """

    scope: PartScope
    before: Mapping[str, object]
    after: Mapping[str, object]

    def turned(self) -> Part:
        """Return the way back."""
        return Part(scope=self.scope, before=self.after, after=self.before)


class PartOutcome(Value):
    """What became of a part. ``reason`` says why it was not restored; ``details`` is for reports."""

    scope: PartScope
    result: Literal["restored", "kept", "failed", "planned"]
    reason: str | None = None
    details: Mapping[str, object] = {}
