"""workspace: list the workspaces of the store, attach a moved one, forget one (rules S19, K8)."""

from __future__ import annotations

from lastgood.cli.opening import DECLINED, open_for
from lastgood.cli.restoring import agreed
from lastgood.cli.verbs import checkpoints as delete
from lastgood.cli.wording import oldest_of, size, table
from lastgood.errors import Usage, count
from lastgood.paths import printable, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import WorkspaceSummary

_HEADER = ("Workspace", "Checkpoints", "Size", "Latest", "Folder", "Session")
# Other columns give way to so much of each path.
_PATH_ROOM = 40


def workspace_verb(call: Call, console: Console) -> int:
    """List, attach or forget."""
    action, path = call.arguments[0], call.argument(1)
    if action == "list":
        if path is not None:
            raise Usage("`workspace list` takes no path", hint="write: lastgood workspace list")
        return _list(call, console)
    if path is None:
        raise Usage(f"`workspace {action}` needs PATH", hint="see: lastgood help workspace")
    return _attach(path, call, console) if action == "attach" else _forget(path, call, console)


def _list(call: Call, console: Console) -> int:
    with open_for(call, anywhere=True) as workspace:
        summaries = workspace.workspaces()
    if console.answer("workspace", {"workspaces": summaries}):
        return 0
    if not summaries:
        console.note("the store knows no workspace yet")
        return 0
    oldest = oldest_of(one.latest for one in summaries if one.latest is not None)
    rows = [_HEADER, *(_row(one, console, oldest=oldest) for one in summaries)]
    lines = table(
        rows,
        flexible=(0,),
        limit=console.columns(),
        optional=(5,),
        expendable=(2, 3, 1),
        room=_PATH_ROOM,
        paths=(0,),
        paint=console.painter({}),
    )
    console.lines(lines)
    return 0


def _row(summary: WorkspaceSummary, console: Console, *, oldest: int | None) -> tuple[str, ...]:
    made = None if summary.latest is None else summary.latest.manifest.created_at
    latest = "-" if made is None else console.moment(made, oldest=oldest)
    folder = "present" if summary.present else "not there now"
    amount = size(summary.stored_bytes)
    session = summary.session or "-"
    return printable(summary.path), str(summary.checkpoints), amount, latest, folder, session


def _attach(old: str, call: Call, console: Console) -> int:
    with open_for(call, purpose="need") as workspace:
        summary = workspace.attach(old)
    if not console.answer("workspace", {"workspaces": [summary]}):
        what = count(summary.checkpoints, "checkpoint")
        console.line(f"{printable(summary.path)} took over {what} of {printable(old)}")
    return 0


def _forget(path: str, call: Call, console: Console) -> int:
    with open_for(call, anywhere=True) as workspace:
        checkpoints = workspace.plan_forget(path)
        if call.has("dry-run"):
            return _preview(checkpoints, path, console)
        if not call.has("yes"):
            if not console.can_ask:
                raise Usage(
                    "without a terminal `workspace forget` needs --yes",
                    hint=f"look first: {call.command(f'workspace forget {quoted(path)} --dry-run')}",
                )
            _preview(checkpoints, path, console)
            if not agreed("Delete them?", console):
                return DECLINED
        report = workspace.forget(path)
    if not console.answer("workspace", report):
        delete.tell(report, call, console)
    return 0


def _preview(checkpoints: Sequence[Checkpoint], path: str, console: Console) -> int:
    if console.answer("workspace", {"dry_run": True, "checkpoints": checkpoints}):
        return 0
    from lastgood.cli.verbs.list import lines

    amount = size(sum(one.metrics.stored_bytes for one in checkpoints))
    console.line(f"would delete {count(len(checkpoints), 'checkpoint')} ({amount}) of {printable(path)}")
    console.lines(lines(checkpoints, console) if checkpoints else ())
    return 0
