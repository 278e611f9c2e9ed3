"""How failures are told: what, why, and the next command to type."""

from __future__ import annotations

from lastgood.cli.hints import completed
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.opening import Console
    from lastgood.errors import LastgoodError

INTERRUPTED = 130
_SHOWN = 10


def tell(error: LastgoodError, console: Console) -> int:
    """Tell a failure and return its exit code."""
    error.hint = completed(error.hint, console.call)
    if console.json:
        from lastgood.documents import error_document

        console.document(error_document(error))
        return error.exit_code
    lines = [f"lastgood: {_escaped(error.message)}"]
    if "candidates" in error.details:
        lines += _listed(error.details["candidates"], told=error.message)
    elif "finds" in error.details:
        lines += _listed(error.details["finds"])
    elif error.exit_code == 13:
        lines += _listed(error.details.get("paths"), told=error.message)
    if error.hint:
        lines.append(f"  {_escaped(error.hint)}")
    console.warn("\n".join(lines))
    return error.exit_code


def tell_interrupted(console: Console) -> int:
    """Tell that the person stopped it and return the exit code."""
    hint = completed(console.left_hint or "see where things stand: lastgood status", console.call)
    word = "interrupted"
    message = f"{word}; {console.left}" if console.left else word
    said = {"code": word, "message": message, "hint": hint, "details": {}}
    if not console.answer("error", {"error": said}):
        console.warn(f"lastgood: {message}\n  {_escaped(hint)}")
    return INTERRUPTED


def internal(fault: BaseException) -> str:
    """Return where a fault of lastgood itself happened, in one line."""
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "?"
    if trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"internal fault: {type(fault).__name__} at {place}: {fault}"


def _listed(items: object, *, told: str = "") -> list[str]:
    """Return the first items, a line each, unless the message has told them all."""
    if not isinstance(items, list | tuple) or all(_text(item) in told for item in items):
        return []
    lines = [f"    {printable(_text(item))}" for item in items[:_SHOWN]]
    if len(items) > _SHOWN:
        lines.append(f"    and {len(items) - _SHOWN} more")
    return lines


def _text(item: object) -> str:
    if isinstance(item, dict) and "line" in item:  # a place in a file, and what was found there
        return f"{item['path']}:{item['line']}  {item['kind']}"
    return item if isinstance(item, str) else str(item)


def _escaped(text: str) -> str:
    return "\n  ".join(printable(line) for line in text.split("\n"))
