"""show: everything a checkpoint holds."""

from __future__ import annotations

import time

from lastgood.cli.columns import pairs, table
from lastgood.cli.differences import stat_lines
from lastgood.cli.opening import looked_up, open_group
from lastgood.cli.wording import ago, changes, count, moment, size
from lastgood.names import printable, to_text
from lastgood.workspace.verbs.looking import Looks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Check, Checkpoint, GitState
    from lastgood.model.conversation import Conversation
    from lastgood.model.report import DiffReport, ListedEntry


def carry_out(call: Call, console: Console) -> int:
    """Show one checkpoint."""
    with open_group(call, Looks, purpose="find") as workspace:
        checkpoint = looked_up(call.arguments[0], call, workspace)
        entries = workspace.entries(checkpoint.id) if call.has("files") else None
        changed = _changed(workspace, checkpoint) if call.has("stat") else None
        spoken = workspace.conversation(checkpoint.id, redacted=True) if call.has("conversation") else None
    if console.json:
        from lastgood.codec.report.documents import diff_document, show_document

        document = show_document(checkpoint, entries=entries, messages=spoken)
        if changed is not None:
            document["stat"] = diff_document(changed)["files"]
        console.document(document)
        return 0
    for line in pairs(_facts(checkpoint), limit=console.columns()):
        console.line(line)
    if changed is not None:
        _tell_all(stat_lines(changed.files), console)
    if entries is not None:
        _tell_all(_listing(entries), console)
    if spoken is not None:
        _tell_all(_conversation(spoken), console)
    return 0


def _conversation(messages: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the lines of a conversation, every message under the name of who speaks."""
    from lastgood.rules.redact import redact
    from lastgood.rules.speech import speaker, spoken

    lines: list[str] = []
    for message in messages:
        lines.append(f"{printable(speaker(message))}:")
        # Once more, as the text that it has become: an escaped quote may have hidden something.
        lines += ["  " + printable(line) for line in redact(spoken(message)).splitlines()]
    return lines


def _changed(workspace: Looks, checkpoint: Checkpoint) -> DiffReport | None:
    before = workspace.previous(checkpoint.id)
    return None if before is None else workspace.diff(before.id, checkpoint.id)


def _tell_all(lines: Sequence[str], console: Console) -> None:
    if lines:
        console.line()
    for line in lines:
        console.line(line)


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
        ("left out", f"{count(manifest.ignored, 'ignored entry')}, {count(len(manifest.gaps), 'gap')}"),
        ("previous", manifest.previous or "-"),
        ("commit", checkpoint.commit),
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
    facts += [("note", f"{printable(key)} = {printable(value)}") for key, value in manifest.metadata.items()]
    if checkpoint.damaged:
        facts.append(("damaged", printable(checkpoint.damaged)))
    facts += [("gap", f"{printable(to_text(gap.path))} ({gap.reason})") for gap in manifest.gaps]
    return facts


def _work(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    """Return what work the checkpoint belongs to, and how far that had come."""
    from lastgood.cli.verbs.progress import progress_facts

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
    words = [count(conversation.messages, "message"), size(conversation.size)]
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
    return table(rows, flexible=3, limit=None)
