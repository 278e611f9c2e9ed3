"""report: what was done in a period, as text, JSON or a page with plots (rule K5)."""

from __future__ import annotations

import os

from lastgood.cli.activity import sections
from lastgood.cli.opening import ProgressLine, open_for
from lastgood.errors import Conflict, LastgoodError, Storage
from lastgood.paths import printable
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.literals import Period


def report_verb(call: Call, console: Console) -> int:
    """Report."""
    period = cast("Period", call.text("period") or "all")
    target = call.text("html")
    page = None
    with open_for(call) as workspace, ProgressLine(console, "adding up"):
        activity = workspace.report(period, session=call.text("session"))
        if target is not None:
            page = workspace.report_page(activity)
    if target is not None and page is not None:
        _write(target, page)
    if console.json:
        from lastgood.documents import report_document

        document = report_document(activity, detailed=call.has("detailed"))
        console.document(document | ({} if target is None else {"html": _shown(target)}))
        return 0
    if target is not None:
        console.line(f"wrote {printable(target)} ({len(page or '') >> 10} KiB; open it in any browser)")
        return 0
    console.lines(sections(activity, console, detailed=call.has("detailed")))
    return 0


def _shown(path: str) -> object:
    from lastgood.documents import folder_value

    return folder_value(path)


def _write(path: str, page: str) -> None:
    """Write the page beside its place and rename it there; only what is no page of ours is in the way."""
    if os.path.lexists(path) and not _is_page(path):
        raise Conflict(
            f"{printable(path)} exists and is no report of lastgood",
            hint="choose another name, or remove it first",
        )
    beside = f"{path}.lastgood-{os.getpid()}"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(page)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except (OSError, ValueError) as error:
        raise _unwritten(path, error) from error


def _unwritten(path: str, error: OSError | ValueError) -> LastgoodError:
    reason = getattr(error, "strerror", None) or error
    return Storage(f"{printable(path)} could not be written: {reason}", hint="choose another place")


def _is_page(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return b'content="lastgood' in os.read(descriptor, 1024)
        finally:
            os.close(descriptor)
    except OSError:
        return False
