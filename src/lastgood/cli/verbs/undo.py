"""undo, redo: take back the last restore, delete or prune, or do it again."""

from __future__ import annotations

from lastgood.cli.columns import table
from lastgood.cli.opening import open_existing
from lastgood.cli.plans import part_lines, remarks, report_counts
from lastgood.cli.progress import Progress
from lastgood.cli.wording import count, moment
from lastgood.codec.report.restoring import undo_document
from lastgood.ids import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.operation import Operation
    from lastgood.model.report import UndoReport

_OMISSIONS = 3
_STACKED = frozenset({"restore", "delete", "prune"})


def carry_out(call: Call, console: Console) -> int:
    """Undo or redo, or list what can be."""
    verb = call.verb.name
    with open_existing(call) as workspace:
        if call.has("list"):
            return _list(call, console, workspace.operations())
        with Progress(console, verb):
            act = workspace.undo if verb == "undo" else workspace.redo
            report = act(force=call.has("force"), merge=call.has("merge"))
        done = report.operation
        original = next((one for one in workspace.operations() if one.id == done.of), done)
    if console.json:
        console.document(undo_document(verb, report))
    else:
        _tell(report, original, call, console)
    return 0 if report.complete else _OMISSIONS


def _tell(report: UndoReport, operation: Operation, call: Call, console: Console) -> None:
    undoing = call.verb.name == "undo"
    effective = operation.undone is undoing
    done = ("took back" if undoing else "did again") if effective else f"nothing was {call.verb.name}ne of"
    if operation.checkpoints:
        what = count(len(operation.checkpoints), "checkpoint")
        result = f"{what} {'back' if undoing else 'deleted'}"
    else:
        result = report_counts(report.outcomes)
    console.line(f"{done} the {_named(operation)} of {moment(operation.at)}: {result}")
    for line in (*remarks(report.outcomes), *(line for part in report.parts for line in part_lines(part))):
        console.warn(line)
    if effective:
        console.line(f"the other way: {call.command('redo' if undoing else 'undo')}")


def _list(call: Call, console: Console, operations: Sequence[Operation]) -> int:
    undoing = call.verb.name == "undo"
    shown = [one for one in operations if one.type in _STACKED and one.undone is not undoing]
    if console.json:
        console.document(undo_document(call.verb.name, None, operations=shown))
        return 0
    if not shown:
        console.note(f"nothing to {call.verb.name}")
        return 0
    rows = [("Operation", "When", "What")]
    rows += [(one.id, moment(one.at), _named(one)) for one in shown]
    for line in table(rows, flexible=2, limit=console.columns()):
        console.line(line)
    return 0


def _named(operation: Operation) -> str:
    if operation.checkpoints:
        return f"{operation.type} of {count(len(operation.checkpoints), 'checkpoint')}"
    if operation.target is not None and operation.target.startswith("ckpt_"):
        return f"{operation.type} of {short(operation.target)}"
    return operation.type
