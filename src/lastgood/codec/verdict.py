"""What came of a check command, as canonical JSON."""

from __future__ import annotations

from lastgood.model.checkpoint import Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.codec.canonical import Fields


def check_of(fields: Fields) -> Check:
    """Return what came of a check from its record."""
    return Check(
        command=fields.text("command"),
        exit_code=fields.number_or_none("exit_code"),
        seconds=fields.decimal("seconds"),
        output_tail=fields.text("output_tail"),
        reason=fields.text_or_none("reason"),
    )
