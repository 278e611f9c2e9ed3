"""save: make a checkpoint."""

from __future__ import annotations

import os
import time

from lastgood.cli import opening
from lastgood.cli.opening import OMISSIONS, ProgressLine
from lastgood.cli.wording import (
    beside_or_below,
    changes,
    milliseconds,
    path_text,
    size,
    where_it_stands,
)
from lastgood.errors import Usage, count
from lastgood.ids import AGENTS, SESSION_VARIABLE
from lastgood.lease import is_agents
from lastgood.model.checkpoint import PROGRAMS, Actor
from lastgood.paths import printable, to_text
from lastgood.value import cast
from lastgood.workspace.opened import OpenWorkspace, Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.literals import Kind
    from lastgood.model.checkpoint import CheckReport, HealthNote, Manifest, SaveReport
    from lastgood.model.tree import Gap

_GAPS_SHOWN = 10
_IGNORED_SHOWN = 3


def save_verb(call: Call, console: Console) -> int:
    """Save and tell what came of it; exit code 3 when there are new gaps (rule S7), or no good verdict."""
    order = _order(call)
    kind = cast("Kind", call.text("kind") or "manual")
    budget = opening.seconds_option(call, "budget")
    metadata = opening.pairs_option(call, "meta")
    message = call.argument(0) or call.text("message") or ""
    if call.text("message") not in {None, message}:
        raise Usage("two messages are given", hint='write: lastgood save "MESSAGE"')
    # Rule S10: a check, made after the save here, says something about a moment, as a message does.
    judged = kind == "manual" and order is not None
    with console.open(call, OpenWorkspace, purpose="make") as workspace:
        workspace.proposal = Proposal(console.proposed)
        with _Watched(console, workspace), ProgressLine(console, "saving"):
            report = workspace.save(
                message,
                name=call.text("name"),
                kind=kind,
                metadata=metadata,
                allow_empty=True if judged or call.has("allow-empty") else None,
                budget=budget,
                pin=call.has("pin"),
                task=call.text("task"),
                tokens=opening.count_option(call, "tokens"),
                transcript=call.text("transcript"),
                actor=_actor(console, workspace) if kind not in PROGRAMS else Actor(),
            )
        _tell(report, console, known=workspace.remarks)
        _tell_path(call, console)
        console.have_watched(workspace, call)
        verdict = None if order is None else _judged(report, order, console, workspace=workspace)
    if verdict is not None:
        report = report.replace(checkpoint=verdict.checkpoint)
    console.answer("save", report)
    failed = verdict is not None and not verdict.good
    return OMISSIONS if report.new_gaps or failed else 0


def _actor(console: Console, workspace: OpenWorkspace) -> Actor:
    """Return who saves: an agent that says so in its environment, a session's, or a person on a terminal.

    Below the process whose session it is an agent works, or a person in a terminal of their own.
    """
    for variable, name in AGENTS.items():
        if console.environment.get(variable):
            return Actor(type="agent", name=name)
    if console.environment.get(SESSION_VARIABLE) or is_agents(workspace._context):  # noqa: SLF001 - no verb says
        return Actor(type="agent")
    return Actor(type="person") if console.is_attended else Actor()


class _Watched:
    """Notes of a save that is interrupted whether a checkpoint came of it all the same."""

    def __init__(self, console: Console, workspace: OpenWorkspace) -> None:
        self._console = console
        self._workspace = workspace
        self._began = time.time_ns()

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is KeyboardInterrupt:
            since = self._workspace.list(since=self._began, limit=1, brief=True)
            self._console.left = "" if since else "nothing was saved"


def _order(call: Call) -> tuple[str, float | None] | None:
    """Return the check that was asked for, with its time limit; refused before anything is saved."""
    command, timeout = call.text("check"), opening.seconds_option(call, "timeout")
    if command is None:
        if timeout is not None:
            raise Usage("--timeout belongs to a check", hint="name one: --check CMD")
        return None
    from lastgood.workspace.opened import order_of

    order_of(command, timeout=timeout)
    return command, timeout


def _judged(
    report: SaveReport, order: tuple[str, float | None], console: Console, *, workspace: OpenWorkspace
) -> CheckReport:
    from lastgood.cli.verbs.check import judged, tell_verdict

    command, timeout = order
    console.flush()
    verdict = judged(workspace, report.checkpoint.id, command, timeout=timeout, console=console)
    if not console.json and not console.quiet:
        tell_verdict(verdict, console, note=console.note)
    return verdict


def _tell(report: SaveReport, console: Console, *, known: Sequence[HealthNote]) -> None:
    """Tell what came of it; what is ``known`` was told when the workspace was opened."""
    checkpoint = report.checkpoint
    if console.json:
        return
    if console.quiet:
        console.line(checkpoint.id)
        return
    for note in report.notes:
        if note not in known:
            console.warn(printable(note.message))
            for line in console.hints(note.hint) if note.code == "moved-here" else ():
                console.warn(f"  {line}")
    if not report.created:
        console.line(f"unchanged since {checkpoint.short_id}: no checkpoint made")
        return
    _tell_made(report, console)


def _tell_path(call: Call, console: Console) -> None:
    """Say of a message that is a path what it was taken for: a save is of everything."""
    word = call.argument(0) or ""
    if word and not console.json and not set(word) & set(" \t\n") and os.path.lexists(word):
        console.note(f"'{printable(word)}' is the message; everything was saved, as ever")


def _tell_made(report: SaveReport, console: Console) -> None:
    """Tell of a new checkpoint, and of what it does not hold."""
    checkpoint, manifest = report.checkpoint, report.checkpoint.manifest
    named = f" ({printable(checkpoint.name)})" if checkpoint.name else ""
    made = f"saved {console.styled(checkpoint.short_id, 'green')}{named}:"
    console.lines(beside_or_below(made, counted(manifest), limit=console.columns()))
    if not any(note.code == "mostly-ignored" for note in report.notes):
        _tell_ignored(manifest, console)
    if checkpoint.position is not None:
        console.sentence(where_it_stands(checkpoint.position))
    if manifest.partial:
        console.warn("the time budget ended the save early: the checkpoint is partial")
    if report.new_gaps:
        _tell_gaps(report.new_gaps, console)
    known = [gap for gap in manifest.gaps if gap not in report.new_gaps]
    if known:
        more = f" and {len(known) - _IGNORED_SHOWN:,} more; which: lastgood show @"
        named = ", ".join(f"{path_text(gap.path)} ({gap.reason})" for gap in known[:_IGNORED_SHOWN])
        rest = more if len(known) > _IGNORED_SHOWN else ""
        for line in console.hints(f"not saved, as before: {named}{rest}"):
            console.note(line)


def _tell_ignored(manifest: Manifest, console: Console) -> None:
    """Name the first of what rules leave out: no restore brings that back (rule S5)."""
    named = [path_text(path) for path in manifest.ignored_paths[:_IGNORED_SHOWN]]
    if named:
        more = manifest.ignored - len(named)
        rest = f" and {more:,} more; which: lastgood status --ignored" if more > 0 else ""
        for line in console.hints(f"not saved, being ignored: {', '.join(named)}{rest}"):
            console.note(line)


def counted(manifest: Manifest) -> str:
    """Return what a checkpoint holds, in words."""
    words = [count(manifest.files, "file"), changes(manifest.changes)]
    if manifest.gaps:
        words.append(f"{len(manifest.gaps):,} not saved")
    if manifest.ignored:
        words.append(f"{manifest.ignored:,} ignored")
    return ", ".join((*words, milliseconds(manifest.metrics.save_ms)))


def _tell_gaps(gaps: tuple[Gap, ...], console: Console) -> None:
    console.warn(f"{count(len(gaps), 'path')} not saved:")
    for gap in gaps[:_GAPS_SHOWN]:
        amount = "" if gap.size is None else f", {size(gap.size)}"
        console.warn(f"  {printable(to_text(gap.path))} ({gap.reason}{amount})")
    if len(gaps) > _GAPS_SHOWN:
        console.warn(f"  and {len(gaps) - _GAPS_SHOWN} more: lastgood show @")
