"""show: everything a checkpoint holds."""

from __future__ import annotations

import time
from io import BytesIO

from lastgood.cli.opening import CHANGES, OMISSIONS, ProgressLine, open_group
from lastgood.cli.references import apart, looked_up, time_meant
from lastgood.cli.typed_paths import paths_of
from lastgood.cli.wording import ago, changes, moment, padded, path_within, size, table, width
from lastgood.errors import NotFound, Usage, count
from lastgood.ids import is_checkpoint_id, short
from lastgood.paths import printable, to_text
from lastgood.rewind import BEGAN
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.literals import DiffStatus
    from lastgood.model.checkpoint import Check, Checkpoint, Conversation, GitState, Manifest
    from lastgood.model.report import DiffReport, FileDiff, ListedEntry, Unmatched


# --- Comparisons as text: one line a file, or a patch ---

LETTERS: dict[DiffStatus, str] = {
    "added": "A",
    "modified": "M",
    "deleted": "D",
    "renamed": "R",
    "mode": "M",
    "kind": "T",
}
_MARKS, _LEAST_MARKS = 40, 10
_COLOURS = (
    (b"+++", "1"),
    (b"---", "1"),
    (b"@@", "36"),
    (b"diff ", "1"),
    (b"# ", "1"),
    (b"+", "32"),
    (b"-", "31"),
)


def name_status_lines(files: Sequence[FileDiff], console: Console) -> list[str]:
    """Return a letter and the path (old and new where renamed) per file."""
    lines = []
    for one in files:
        old = "" if one.old_path is None else printable(to_text(one.old_path)) + "\t"
        letter = console.styled(LETTERS[one.status], CHANGES.get(one.status, "yellow"))
        lines.append(f"{letter}\t{old}{printable(to_text(one.path))}")
    return lines


def stat_lines(files: Sequence[FileDiff], console: Console) -> list[str]:
    """Return the lines added and removed per file, and the sum; on a terminal within its columns."""
    if not files:
        return ["no changes"]
    limit = console.columns()
    marks = _MARKS if limit is None else max(_LEAST_MARKS, min(_MARKS, limit * 3 // 8))
    most = max(one.additions + one.deletions for one in files)
    amounts = [_amount(one, console, scale=min(1.0, marks / most) if most else 1.0) for one in files]
    room = None if limit is None else limit - max(map(width, amounts)) - len("  | ")
    names = [path_within(one.path, room) for one in files]
    widest = max(map(width, names))
    lines = [f" {padded(name, widest)} | {amount}" for name, amount in zip(names, amounts, strict=True)]
    added, removed = sum(one.additions for one in files), sum(one.deletions for one in files)
    lines.append(f" {count(len(files), 'file')}, {count(added, 'line')} added, {removed:,} removed")
    return lines


def _amount(one: FileDiff, console: Console, *, scale: float) -> str:
    if one.private:
        return f"private, {one.status}"
    if one.damaged:
        return f"damaged, {one.status}"
    if one.binary:
        return f"{'large' if one.large else 'binary'}, {one.status}"
    total = one.additions + one.deletions
    if not total:
        return one.status
    plus = max(1, round(one.additions * scale)) if one.additions else 0
    minus = max(1, round(one.deletions * scale)) if one.deletions else 0
    return f"{total} {console.styled('+' * plus, 'green')}{console.styled('-' * minus, 'red')}".rstrip()


def print_bytes(content: bytes, console: Console) -> None:
    """Print exact bytes, but escaped on a terminal."""
    if not console.out_is_terminal:
        console.send(content)
        return
    for line in BytesIO(content):
        console.line(_escaped(line))


def _escaped(line: bytes) -> str:
    return "\t".join(printable(part) for part in to_text(line.rstrip(b"\n")).split("\t"))


def print_patch(patch: bytes, console: Console) -> None:
    """Print a patch: its exact bytes, but escaped (and coloured) on a terminal."""
    if not console.out_is_terminal:
        console.send(patch)
        return
    console.page(_coloured(line, console) for line in BytesIO(patch))


def _coloured(line: bytes, console: Console) -> str:
    text = _escaped(line)
    style = next((code for start, code in _COLOURS if line.startswith(start)), None)
    return f"\x1b[{style}m{text}\x1b[0m" if style and console.colour else text


def unmatched_line(one: Unmatched) -> str:
    """Return what to say of a path that was asked for and that neither side holds."""
    shown = printable(to_text(one.path))
    if one.left_out:
        return f"lastgood: {shown} is left out of checkpoints: ignored, or not to be saved"
    near = "" if one.near is None else f"; did you mean {printable(to_text(one.near))}?"
    return f"lastgood: neither side has {shown}{near}"


# --- show: everything a checkpoint holds ---


def show_verb(call: Call, console: Console) -> int:
    """Show one checkpoint."""
    with open_group(call, OpenWorkspace, purpose="find") as workspace:
        ref = call.argument(0)
        ref = "@" if ref is None else ref
        ref = time_meant(ref, workspace) if console.can_ask else ref
        checkpoint = looked_up(ref, call, workspace)
        entries = workspace.entries(checkpoint.id) if call.has("files") else None
        changed = _changed(workspace, checkpoint) if call.has("stat") else None
        spoken = workspace.conversation(checkpoint.id, redacted=True) if call.has("conversation") else None
    files = None if changed is None else changed.files
    said = {"checkpoint": checkpoint, "entries": entries, "messages": spoken, "stat": files}
    if console.answer("show", {key: one for key, one in said.items() if one is not None}):
        return 0
    lines = console.facts(_facts(checkpoint))
    for more in (
        None if files is None else stat_lines(files, console),
        None if entries is None else _listing(entries),
        None if spoken is None else _conversation(spoken),
    ):
        lines += ["", *more] if more else []
    console.page(lines)
    return 0


def _conversation(messages: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the lines of a conversation, every message under the name of who speaks."""
    from lastgood.conversation.text import message_text, speaker
    from lastgood.redaction import redact

    lines: list[str] = []
    for message in messages:
        lines.append(f"{printable(speaker(message))}:")
        # Once more, as the text that it has become: an escaped quote may have hidden something.
        lines += ["  " + printable(line) for line in redact(message_text(message)).splitlines()]
    return lines


def _changed(workspace: OpenWorkspace, checkpoint: Checkpoint) -> DiffReport | None:
    before = workspace.previous(checkpoint.id)
    return None if before is None else workspace.diff(before.id, checkpoint.id)


def _facts(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    manifest = checkpoint.manifest
    created = f"{moment(manifest.created_at)} ({ago(manifest.created_at, now=time.time_ns())})"
    facts = [
        ("checkpoint", checkpoint.id),
        ("name", printable(checkpoint.name or "-")),
        ("kind", checkpoint.kind + (", pinned" if checkpoint.pinned else "")),
        ("made", created),
        ("by", _actor(checkpoint)),
        ("workspace", printable(manifest.workspace)),
        ("holds", f"{count(manifest.files, 'file')}, {size(manifest.size)}"),
        ("changes", changes(manifest.changes)),
        ("left out", _left_out(manifest)),
        ("previous", manifest.previous or "-"),
        ("commit", f"{checkpoint.commit}, in the store"),
    ]
    facts += [("message", printable(line)) for line in manifest.message.split("\n") if line]
    if manifest.partial:
        facts.append(("partial", "yes: a time budget ended the save early"))
    facts += _work(checkpoint)
    if checkpoint.good is not None:
        facts.append(("good", "yes" if checkpoint.good else "no"))
    if checkpoint.check is not None:
        facts.append(("check", _check(checkpoint.check)))
    if manifest.conversation is not None:
        facts.append(("conversation", _spoken(manifest.conversation)))
    if manifest.git is not None:
        facts.append(("git", _git(manifest.git)))
    for key, value in manifest.metadata.items():
        is_turns = key == BEGAN and is_checkpoint_id(value)
        said = f"began at {short(value)}" if is_turns else f"{printable(key)} = {printable(value)}"
        facts.append(("turn" if is_turns else "note", said))
    if checkpoint.damaged:
        facts.append(("damaged", printable(checkpoint.damaged)))
    facts += [("missing", f"{printable(to_text(gap.path))} ({gap.reason})") for gap in manifest.gaps]
    return facts


def _left_out(manifest: Manifest) -> str:
    missing = f", {count(len(manifest.gaps), 'path')} missing" if manifest.gaps else ""
    return count(manifest.ignored, "ignored entry") + missing


def _work(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """Return what work the checkpoint belongs to, and how far that had come."""
    from lastgood.cli.progress import progress_facts

    manifest, metrics = checkpoint.manifest, checkpoint.manifest.metrics
    facts = [] if manifest.session is None else [("session", manifest.session)]
    if manifest.task is not None:
        facts.append(("task", " ".join(word for word in (manifest.moment, printable(manifest.task)) if word)))
    facts += progress_facts(manifest.progress)
    used = [
        "" if metrics.tokens is None else count(metrics.tokens, "token"),
        "" if metrics.memory_bytes is None else f"{size(metrics.memory_bytes)} of memory",
        "" if metrics.cpu_seconds is None else f"{metrics.cpu_seconds:.1f} s of processor time",
        "" if metrics.session_seconds is None else f"{metrics.session_seconds:.1f} s since the session began",
    ]
    words = ", ".join(word for word in used if word)
    return [*facts, ("used", words)] if words else facts


def _check(check: Check) -> str:
    ended = "no exit code" if check.exit_code is None else f"exit code {check.exit_code}"
    why = "" if check.reason is None else f": {printable(check.reason)}"
    return f"`{printable(check.command)}`, {ended}, {check.seconds:.1f} s{why}"


def _actor(checkpoint: Checkpoint) -> str:
    actor = checkpoint.manifest.actor
    return printable(" ".join(word for word in (actor.type, actor.name, actor.call) if word))


def _spoken(conversation: Conversation) -> str:
    whose = {"messages": "", "lines": ""}.get(conversation.form, f" of {conversation.form}")
    words = [count(conversation.messages, "message") + whose, size(conversation.size)]
    if conversation.source is not None:
        words.append(f"from {printable(to_text(conversation.source))}")
    return ", ".join(words)


def _git(git: GitState) -> str:
    words = [git.head[:12] if git.head else "no commit yet"]
    words.append(f"on {printable(git.branch)}" if git.branch else "detached")
    if git.dirty is not None:
        words.append("clean" if not git.dirty else count(len(git.dirty), "changed file"))
    if git.operation is not None:
        words.append(f"during a {git.operation}")
    if git.nested:
        words.append(count(len(git.nested), "nested repository"))
    return ", ".join(words)


def _listing(entries: Sequence[ListedEntry]) -> list[str]:
    rows = [
        (
            entry.kind,
            f"{entry.mode:04o}",
            "lost" if entry.lost else str(entry.size),
            printable(to_text(entry.path)),
        )
        for entry in entries
    ]
    return table(rows, flexible=(3,), limit=None)


# --- diff: compare checkpoints, or one with the workspace ---


def diff_verb(call: Call, console: Console) -> int:
    """Compare, and print a patch or a summary."""
    summary = call.has("stat") or call.has("name-status")
    with open_group(call, OpenWorkspace, purpose="find") as workspace:
        call = apart(call, workspace, terminal=console.can_ask)
        before, after = _sides(call, workspace)
        paths = paths_of(call, workspace)
        with ProgressLine(console, "comparing"):
            report = workspace.diff(
                before, after, paths=paths, patch=not call.has("name-status"), private=call.has("private")
            )
    if not console.answer("diff", report.replace(patch=None) if summary else report):
        _print(report, call, console)
    if report.patch is not None and not summary and not console.json:
        _warn_of_told(report, console)
    for one in report.unmatched:
        console.warn(unmatched_line(one))
    return _told_damage(report, call, console)


def _told_damage(report: DiffReport, call: Call, console: Console) -> int:
    """Return the exit code of a comparison, after a word on what of it cannot be read."""
    damaged = [one for one in report.files if one.damaged]
    if not damaged:
        return 0
    console.warn(
        f"lastgood: {count(len(damaged), 'file')} of a checkpoint cannot be read: {call.command('verify')}"
    )
    return OMISSIONS


def _warn_of_told(report: DiffReport, console: Console) -> None:
    """Say of what a patch that goes elsewhere has none: whoever applies it would not see that."""
    told = [one for one in report.files if one.binary]
    if told and not console.out_is_terminal:
        console.warn(f"lastgood: {count(len(told), 'file')} told, not patched: binary, or over 8 MiB")
    private = [one for one in report.files if one.private]
    if private:
        console.note(
            f"{count(len(private), 'private file')} named, not shown; to see what changed: --private"
        )


def _print(report: DiffReport, call: Call, console: Console) -> None:
    if call.has("stat"):
        lines = stat_lines(report.files, console)
    elif call.has("name-status"):
        lines = name_status_lines(report.files, console)
    else:
        print_patch(report.patch or b"", console)
        return
    console.page(lines)


def _sides(call: Call, workspace: OpenWorkspace) -> tuple[str | None, str | None]:
    previous = call.text("previous")
    if len(call.arguments) + (previous is not None) * 2 + call.has("since-start") > 2 or (
        call.has("since-start") and call.arguments
    ):
        raise Usage("`diff` compares one pair", hint="give REFs, or --previous REF, or --since-start")
    if call.has("since-start"):
        return "@start", None
    if previous is not None:
        after = looked_up(previous, call, workspace)
        before = workspace.previous(after.id)
        if before is None:
            raise NotFound(
                f"{after.short_id} is the first checkpoint: there is none before it",
                hint=f"what it holds: {call.command(f'show {after.short_id} --files')}",
            )
        return before.id, after.id
    sides = [looked_up(ref, call, workspace).id for ref in call.arguments]
    return (sides[0] if sides else None), (sides[1] if len(sides) > 1 else None)
