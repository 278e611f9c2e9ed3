"""status: where the workspace stands."""

from __future__ import annotations

import os
import time

from lastgood.cli.folding import row_of, worked_by
from lastgood.cli.hints import hint_lines, note_lines
from lastgood.cli.opening import CHANGES, STATES, ProgressLine
from lastgood.cli.plans import going_on, owner
from lastgood.cli.progress import standing
from lastgood.cli.wording import (
    ago,
    called,
    changes,
    pairs,
    path_text,
    path_within,
    place,
    size,
    words_named,
)
from lastgood.configuration import NOTHING
from lastgood.errors import Unsafe, count
from lastgood.paths import printable, to_text
from lastgood.status import first_of_each
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import Checkpoint, GitState
    from lastgood.model.report import ChangedPath, StatusReport

_GAPS_SHOWN = 5
_GONE_SHOWN = 3
# Of what changed so much is shown however small the window is; a shell's prompt needs a line.
_LEAST_CHANGED, _PROMPT = 3, 1
# What a line of status has before the path of a change.
_BEFORE_PATH = 25
# Said of a file that holds the other version of a conflict.
_BESIDE = "(the other version: put it in its place, or delete it)"
_LEFT = {
    "rolled back": "was taken back, and waits",
    "set aside": "was left unfinished for another session",
}
# Among so many of the newest is looked for what an agent did.
_LOOKED_AT = 50
# Why a workspace is not watched although somebody wanted that.
_UNEXPECTED = frozenset({"failed", "other-version"})


def status_verb(call: Call, console: Console) -> int:
    """Report the status; always exit code 0 (rule P8)."""
    with console.open(call, OpenWorkspace, purpose="find") as workspace, ProgressLine(console, "looking"):
        console.have_watched(workspace, call)
        report = workspace.status()
        rows = {} if console.json else _rows(report, workspace)
    if not console.answer("status", report):
        console.lines(_fitting(report, call, console, rows=rows))
    return 0


def status_without_a_verb(call: Call, console: Console) -> int:
    """Report the status to a person who typed no verb, and what can be typed next."""
    try:
        return _told_with_ways(call, console)
    except Unsafe as error:
        if "gone" not in error.details:
            raise
        # Nothing was refused that was asked for: what is gone from this folder is the answer (rule T12a).
        console.sentences((printable(error.message), *(f"  {line}" for line in console.hints(error.hint))))
        return 0


def _told_with_ways(call: Call, console: Console) -> int:
    with console.open(call, OpenWorkspace, purpose="find") as workspace, ProgressLine(console, "looking"):
        report = workspace.status()
        rows = _rows(report, workspace)
        latest = workspace.list(limit=_LOOKED_AT, guards=False, brief=True)
        ways = _ways_back(workspace)
    after: list[str] = []
    if not call.has("quiet"):
        after = _next(report, call, console, worked=worked_by(latest), ways=ways)
    console.lines((*_fitting(report, call, console, rows=rows, after=len(after)), *after))
    return 0


def _fitting(
    report: StatusReport, call: Call, console: Console, *, rows: Mapping[str, Checkpoint], after: int = 0
) -> list[str]:
    """Return the status as lines; of what changed what a window has room for, with what comes after."""
    lines = console.facts(_facts(report, call, console, rows=rows))
    over = len(lines) + after + _PROMPT - console.rows()
    if over <= 0 or not console.out_is_terminal or len(report.changed) <= _LEAST_CHANGED:
        return lines
    # One more goes for the line that counts the rest.
    most = max(_LEAST_CHANGED, len(report.changed) - over - 1)
    shortened = report.replace(changed=tuple(first_of_each(report.changed, most)))
    return console.facts(_facts(shortened, call, console, rows=rows))


def _rows(report: StatusReport, workspace: OpenWorkspace) -> dict[str, Checkpoint]:
    """Return the rows of `list` that stand for where one is and for the latest, by the ids of these."""

    def newest(limit: int) -> Sequence[Checkpoint]:
        return workspace.list(limit=limit, guards=False, brief=True)

    told = {one.id: one for one in (report.at, report.latest) if one is not None}
    return {id: row_of(one, newest) for id, one in told.items()}


def _ways_back(workspace: OpenWorkspace) -> list[tuple[str, str]]:
    """Return how the last restore, say, is taken back; after an undo how that is done again."""
    undone, done = workspace.operations(can="redo"), workspace.operations(can="undo")
    if undone:
        return [("redo", f"do the {undone[0].type} again that was taken back")]
    return [("undo", f"take the last {done[0].type} back")] if done else []


def _next(
    report: StatusReport,
    call: Call,
    console: Console,
    *,
    worked: str | None,
    ways: Sequence[tuple[str, str]],
) -> list[str]:
    """Return what to type next, for who typed no verb; what an agent ``worked`` by, turns or runs.

    ``ways`` are those back from the last restore or undo.
    """
    rows = []
    if report.state == "incomplete":
        rows.append(("recover", "go on with what was interrupted, or take it back"))
    if report.state == "interrupted":
        rows += [
            ("recover", "finish the restore that was interrupted"),
            ("recover --rollback", "take it back"),
            ("list", "see the checkpoints"),
        ]
    elif report.at is not None and _is_gone(report):
        rows += [
            ("restore", "make the folder again: pick a checkpoint from a list"),
            ("restore @", "make it again as it last was"),
            ("list", "see the checkpoints"),
        ]
    elif report.at is None:
        rows += [
            ('save "before the agent"', "make the first checkpoint"),
            ("run -- COMMAND", "let an agent work, with a way back"),
            ("install HOST", "have Claude Code, Codex … save by themselves"),
        ]
    else:
        if report.drift is None or any((report.drift.added, report.drift.modified, report.drift.deleted)):
            rows += [("diff", "see what changed since"), ("save MESSAGE", "keep everything as it is now")]
        rows += [
            ("restore", "go back: pick a checkpoint from a list"),
            ("restore PATH", "bring one file or folder back"),
            ("restore PATH 1h", "the same, as it was an hour ago"),
            *([("rewind N", f"go back to before an agent's last N {worked}s")] if worked else ()),
            *ways,
            ("list", "see all checkpoints; of one file: log PATH"),
        ]
    typed = [(f"  {call.command(words)}", says) for words, says in (*rows, ("help", "all else"))]
    return ["", *pairs(typed, limit=console.columns())]


def _is_gone(report: StatusReport) -> bool:
    return not os.path.isdir(report.workspace)


def _facts(
    report: StatusReport, call: Call, console: Console, *, rows: Mapping[str, Checkpoint]
) -> list[tuple[str, str]]:
    at, latest = (None if one is None else rows[one.id] for one in (report.at, report.latest))
    whole = call.has("verbose")
    stored = f"{printable(report.store)} ({size(report.store_bytes)}{_reserve(report)})"
    facts = [("workspace", printable(report.workspace))]
    facts += [("store", stored)] if whole else ()
    if whole or report.state != "idle":
        facts.append(("state", console.styled(report.state, STATES[report.state])))
    facts += _watched(report, call)
    facts += _sessions(report, call)
    facts.append(("checkpoints", _checkpoints(report, call)))
    if report.checkpoints or at is not None:
        facts.append(("you are at", _told(at, call, console)))
    if report.at is not None:
        facts += _drift(report, call, console)
        facts += _gaps(report, call)
    if (latest and latest.id) != (at and at.id):
        facts.append(("latest", _told(latest, call, console)))
    facts += _git(report, call)
    facts += _ignored(report, call)
    if whole or report.durability != "full":
        facts.append(("durability", report.durability))
    if whole and not report.health:
        facts.append(("health", console.styled("good", "green")))
    for said, first in note_lines(report.health, call):
        facts.append(("health", console.styled(said, "red")) if first else ("", f"  {said}"))
    adds = (one for one in report.project_settings if not one.startswith(NOTHING))  # of that health tells
    return [*facts, *(("project adds", printable(one)) for one in adds)]


def _watched(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    """Tell whether a process watches, and what does not go as somebody who wanted that expects."""
    note = report.resident_note
    if report.resident:
        is_usual = note is None or note.code != "on-demand"
        said = "lastgood watch makes checkpoints by itself" if is_usual or note is None else note.message
        rest = [] if note is None or note.code == "on-demand" else [("", note.message)]
        return [("watched", said), *rest]
    if note is None or not (call.has("verbose") or note.code in _UNEXPECTED):
        return []
    return [
        ("watched", f"no: {printable(note.message)}"),
        *(("", f"  {one}") for one in hint_lines(note.hint, call)),
    ]


def _sessions(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    """Tell of the sessions under way, and of every incomplete one (rule P8)."""
    facts = []
    for one in report.sessions:
        beaten = ago(one.session.heartbeat_at, now=time.time_ns())
        facts.append(("session", f"{one.id} is active: {owner(one.session)}, heartbeat {beaten}"))
        facts += [("", f"  {line}") for line in standing(one)]
    for one in report.incomplete:
        why = _LEFT.get(one.session.ended_by or "", "stopped without finishing")
        facts.append(("session", f"{one.id} is incomplete: it {why}"))
        facts += [("", f"  {line}") for line in standing(one)]
        facts.append(("", f"  {going_on(one, call)}"))
    if not report.sessions and not report.incomplete and report.position is not None:
        facts.append(("position", place(report.position) or "-"))
    return facts


def _git(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    """Tell where the project's HEAD is, and where it was at the checkpoint: where that is elsewhere."""
    now, then = report.git, None if report.at is None else report.at.manifest.git
    if now is None:
        return []
    under_way = "" if now.operation is None else f", a {now.operation} under way"
    was = ""
    if then is not None and (then.head, then.branch) != (now.head, now.branch):
        was = f"; at {report.at.short_id if report.at else '?'} it was {_head(then)}"
    if not (was or under_way or call.has("verbose")):
        return []
    return [("git", f"{_head(now)}{under_way}{was}")]


def _reserve(report: StatusReport) -> str:
    """Say how much of a store is given up when its disk is full: of a small one most."""
    held = report.store_parts.reserve
    return f", of which {size(held)} for a full disk" if held * 2 > report.store_bytes else ""


def _head(git: GitState) -> str:
    branch = "on no branch" if git.branch is None else f"on {printable(git.branch)}"
    return f"{branch}, {'before the first commit' if git.head is None else git.head[:12]}"


def _told(checkpoint: Checkpoint | None, call: Call, console: Console) -> str:
    if checkpoint is None:
        return f"none; make one: {call.command('save')}"
    made = ago(checkpoint.manifest.created_at, now=time.time_ns())
    said = checkpoint.manifest.conversation
    spoken = "" if said is None else f", {count(said.messages, 'message')}"
    files = count(checkpoint.manifest.files, "file")
    name = called(checkpoint).removeprefix(checkpoint.short_id)
    id = console.styled(checkpoint.short_id, "bold")
    return f"{id}{name}, {checkpoint.kind}, {made}, {files}{spoken}"


def _checkpoints(report: StatusReport, call: Call) -> str:
    """Return how many checkpoints `list` shows or says it leaves out, and how many only `list --all` has."""
    if not report.checkpoints:
        return f"none yet; make the first: {call.command('save')}"
    listed = f"{report.checkpoints - report.guards:,}"
    if not report.guards:
        return listed
    return f"{listed}, and {report.guards:,} made before restores ({call.command('list --all')})"


def _drift(report: StatusReport, call: Call, console: Console) -> list[tuple[str, str]]:
    """Tell what changed since the checkpoint at which the workspace stands, the first paths of each kind."""
    if report.drift is None:
        return [("since then", "the folder is gone" if _is_gone(report) else "not looked at")]
    facts = [("since then", changes(report.drift))]
    columns = console.columns()
    room = None if columns is None else columns - _BEFORE_PATH
    for one in report.changed:
        status = console.styled(f"{one.status:8}", CHANGES.get(one.status, "yellow"))
        facts.append(("", f"  {status} {path_within(one.path, room)}"))
        facts += [("", f"             {_BESIDE}")] if _is_of_merge(one) else ()
    drift = report.drift
    more = drift.added + drift.modified + drift.deleted - len(report.changed)
    if more:
        facts.append(("", f"  and {more:,} more: {call.command('diff --stat')}"))
    return facts


def _is_of_merge(change: ChangedPath) -> bool:
    """Tell whether a file was put beside another by a merge in which both had changed (rule T17)."""
    name, put, ref = change.path.rpartition(b".lastgood-ckpt_")
    return bool(name and put) and change.status == "added" and ref.partition(b"-")[0].isalnum()


def _ignored(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    """Tell how much is not held because rules leave it out, and what if that was asked for.

    A cache that was cleared is no loss.
    """
    facts = _ignored_now(report, call)
    named, unnamed = _gone_of(report), _unnamed_gone(report)
    number = max(len(named), unnamed)  # what is new makes up for some of them
    if number:
        verb = "is" if number == 1 else "are"
        says = f"{count(number, 'entry')} that the checkpoint did not hold {verb} gone"
        facts.append(("" if facts else "ignored", says + _first_of(named, number)))
    return facts


def _unnamed_gone(report: StatusReport) -> int:
    """Return how many fewer entries are left out, where the checkpoint did not name all: one may be gone.

    Where it named all, one that is still there is held by now, or left out no more.
    """
    then, now = report.at, report.ignored_count
    if then is None or now is None or report.drift is None:
        return 0
    held = then.manifest
    if held.ignored <= len(held.ignored_paths):
        return 0
    return max(0, held.ignored - _caches(held.ignored_paths) - (now - _caches(report.ignored)))


def _gone_of(report: StatusReport) -> list[bytes]:
    """Return what is gone, as far as the checkpoint named what it left out."""
    told = report.at is not None and report.drift is not None
    left_out = _but_caches(report.at.manifest.ignored_paths) if told and report.at is not None else ()
    root = os.fsencode(report.workspace)
    return [one for one in left_out if not os.path.lexists(os.path.join(root, one.rstrip(b"/")))]


def _first_of(named: Sequence[bytes], number: int) -> str:
    if not named:
        return ", not among those that it named"
    shown = [path_text(path) for path in named[:_GONE_SHOWN]]
    more = number - len(shown)
    return f": {words_named(shown) if not more else ', '.join(shown)}" + (
        f" and {more:,} more" if more else ""
    )


def _caches(ignored: Sequence[bytes]) -> int:
    return len(ignored) - len(_but_caches(ignored))


def _but_caches(ignored: Sequence[bytes]) -> list[bytes]:
    from lastgood.ignore import is_cache  # lazily: most that is asked leaves nothing out

    return [path for path in ignored if not is_cache(path)]


def _ignored_now(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    if not report.ignored_count:
        return [("ignored", "nothing that is here is left out")] if call.has("ignored") else []
    if not call.has("ignored"):
        which = f"not held; which: {call.command('status --ignored')}"
        return [("ignored", f"{count(report.ignored_count, 'entry')} {which}")]
    facts = [("ignored", f"{count(report.ignored_count, 'entry')} not held")]
    facts += [("", f"  {path_text(path)}") for path in report.ignored]
    more = report.ignored_count - len(report.ignored)
    return facts + ([("", f"  and {more:,} more, below these or beside them")] if more else [])


def _gaps(report: StatusReport, call: Call) -> list[tuple[str, str]]:
    if not report.gaps:
        return [("missing", "nothing")] if call.has("verbose") else []
    facts = [("missing", f"{count(len(report.gaps), 'path')} not in it")]
    facts += [("", f"  {printable(to_text(gap.path))} ({gap.reason})") for gap in report.gaps[:_GAPS_SHOWN]]
    if len(report.gaps) > _GAPS_SHOWN:
        facts.append(("", f"  and {len(report.gaps) - _GAPS_SHOWN:,} more: {call.command('show @')}"))
    return facts
