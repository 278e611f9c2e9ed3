"""What an examination of the machine and the store found (`lastgood doctor`)."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    FindingState = Literal["good", "note", "bad"]


class Finding(Value):
    """One thing that was looked at: fine, worth knowing, or what keeps lastgood from working."""

    code: str
    state: FindingState
    message: str
    hint: str = ""
