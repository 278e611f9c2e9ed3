"""status: where the workspace stands."""

from __future__ import annotations

import os
import time

from lastgood.cli.hints import hint_lines
from lastgood.cli.opening import ProgressLine, open_group
from lastgood.cli.plans import going_on, owner
from lastgood.cli.verbs.work import standing
from lastgood.cli.wording import ago, called, changes, count, pairs, path_text, place, size
from lastgood.configuration import added_by_project
from lastgood.paths import printable, to_text
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import StatusReport

_GAPS_SHOWN = 5


def status_verb(call: Call, console: Console) -> int:
    """Report the status; always exit code 0 (rule P8)."""
    with open_group(call, OpenWorkspace, purpose="find") as workspace, ProgressLine(console, "looking"):
        report = workspace.status()
    added = added_by_project(report.workspace, environment=os.environ)
    if console.json:
        from lastgood.documents import document, text_value

        console.document(
            document("status", report) | {"project_settings": [text_value(one) for one in added]}
        )
        return 0
    # Rule K7: what a repository's own file adds is shown, for nobody here may have written it.
    facts = _facts(report, call) + [("project adds", printable(one)) for one in added]
    console.lines(pairs(facts, limit=console.columns()))
    return 0


def _facts(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    facts = [
        ("workspace", printable(report.workspace)),
        (
            "store",
            f"{printable(report.store)} ({size(report.store_bytes)})",
        ),
        ("state", report.state),
        *_sessions(report, call),
        ("checkpoints", f"{report.checkpoints:,}"),
        ("stands at", _told(report.at, call)),
    ]
    if report.at is not None:
        facts += _drift(report)
        facts += _gaps(report)
    if report.latest != report.at:
        facts.append(("latest", _told(report.latest, call)))
    facts += _ignored(report, call)
    facts.append(("durability", report.durability))
    if not report.health:
        facts.append(("health", "good"))
    for note in report.health:
        facts.append(("health", printable(note.message)))
        facts += [("", f"  {line}") for line in hint_lines(note.hint, call)]
    return facts


def _sessions(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    """Tell of the sessions under way, and of every incomplete one (rule P8)."""
    facts = []
    for one in report.sessions:
        beaten = ago(one.session.heartbeat_at, now=time.time_ns())
        facts.append(("session", f"{one.id} is active: {owner(one.session)}, heartbeat {beaten}"))
        facts += [("", f"  {line}") for line in standing(one)]
    for one in report.incomplete:
        facts.append(("session", f"{one.id} is incomplete: it stopped without finishing"))
        facts += [("", f"  {line}") for line in standing(one)]
        facts.append(("", f"  {going_on(one, call)}"))
    if not report.sessions and not report.incomplete and report.position is not None:
        facts.append(("position", place(report.position) or "-"))
    return facts


def _told(checkpoint: Checkpoint | None, call: Call) -> str:
    if checkpoint is None:
        return f"none yet; make the first: {call.command('save')}"
    made = ago(checkpoint.manifest.created_at, now=time.time_ns())
    said = checkpoint.manifest.conversation
    spoken = "" if said is None else f", {count(said.messages, 'message')}"
    files = count(checkpoint.manifest.files, "file")
    return f"{called(checkpoint)}, {checkpoint.kind}, {made}, {files}{spoken}"


def _drift(report: StatusReport) -> list[tuple[str, str]]:
    """Tell what changed since the checkpoint at which the workspace stands, the first paths by name."""
    if report.drift is None:
        return [("since then", "not looked at")]
    facts = [("since then", changes(report.drift))]
    facts += [("", f"  {one.status:8} {path_text(one.path)}") for one in report.changed]
    drift = report.drift
    more = drift.added + drift.modified + drift.deleted - len(report.changed)
    if more:
        facts.append(("", f"  and {more:,} more: lastgood diff --stat"))
    return facts


def _ignored(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    """Tell how much is not held because rules leave it out, and what if that was asked for."""
    if not report.ignored_count:
        return []
    if not call.has("ignored"):
        which = f"not held; which: {call.command('status --ignored')}"
        return [("ignored", f"{count(report.ignored_count, 'entry')} {which}")]
    facts = [("ignored", f"{count(report.ignored_count, 'entry')} not held")]
    facts += [("", f"  {path_text(path)}") for path in report.ignored]
    more = report.ignored_count - len(report.ignored)
    return facts + ([("", f"  and {more:,} more, below these or beside them")] if more else [])


def _gaps(report: StatusReport) -> list[tuple[str, str]]:
    if not report.gaps:
        return [("gaps", "none")]
    facts = [("gaps", f"{len(report.gaps):,}")]
    facts += [("", f"  {printable(to_text(gap.path))} ({gap.reason})") for gap in report.gaps[:_GAPS_SHOWN]]
    if len(report.gaps) > _GAPS_SHOWN:
        facts.append(("", f"  and {len(report.gaps) - _GAPS_SHOWN:,} more: lastgood show @"))
    return facts
