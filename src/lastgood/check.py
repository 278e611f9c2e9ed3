"""check: a command's verdict on a checkpoint; @good is the newest that passed."""

from __future__ import annotations

import signal

from lastgood.errors import Busy, NotFound, Storage, Unsafe
from lastgood.model.checkpoint import Check, CheckReport
from lastgood.model.tree import DIRECTORY, compare, same_content
from lastgood.paths import printable, to_text
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import MarkTransaction, ReadTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lastgood.context import Context
    from lastgood.model.checkpoint import CheckOrder, Checkpoint, CommandResult
    from lastgood.trees import Files
    from lastgood.view import View
    from lastgood.worktree import Commands

    # Calls something with an empty folder that goes afterwards.
    Aside = Callable[[Callable[[bytes], "Examined"]], "Examined"]
    # What came of a command, and why it does not count, if it does not.
    Examined = tuple[CommandResult, str | None]


# --- What the end of a check command says about a checkpoint, decided from its end alone ---

# What a shell (and `env`) says of a command that it cannot find, or not execute (POSIX, 2.8.2).
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def verdict(ran: CommandResult, *, doubt: str | None, timeout: str) -> tuple[bool | None, str | None]:
    """Return whether a checkpoint is good, None if the check does not count, and the reason in words.

    ``doubt`` says why what was checked was not what the checkpoint holds. A check that did not end in
    its time, or died, has failed; one that never ran says nothing.
    """
    unrun = _unrun(ran)
    if unrun is not None or doubt is not None:
        return None, unrun or doubt
    if ran.ending == "stopped":
        return False, f"it was stopped after {timeout}"
    if ran.ending == "killed":
        return False, f"it was killed by {signal_name(ran.code)}"
    return ran.code == 0, None


def _unrun(ran: CommandResult) -> str | None:
    if ran.ending == "unstarted":
        return f"the command could not be run: {ran.fault}"
    if ran.ending == "interrupted":
        return f"it was interrupted by {signal_name(ran.code)}"
    if ran.ending != "exited" or ran.code not in {_NOT_EXECUTABLE, _NOT_FOUND}:
        return None
    what = "was not found" if ran.code == _NOT_FOUND else "cannot be executed"
    return f"the command {what} (exit code {ran.code})"


# --- check: a command's verdict on a checkpoint; @good is the newest that passed ---

_SHOWN = 3
_PARTIAL = "the checkpoint is partial: its time budget ended before everything was read"
# A sweep of a large store takes minutes, and is over at some time.
_VERDICT_WAIT = 3600.0


def check(
    context: Context,
    view: View,
    checkpoint: Checkpoint,
    *,
    order: CheckOrder,
    commands: Commands,
    aside: Aside,
    here: bool = False,
) -> CheckReport:
    """Run a command on what a checkpoint holds, outside any lock, and record its verdict.

    It runs in the workspace if that equals the checkpoint (which the caller may know: ``here``), else
    in a copy aside. The verdict counts only if what was checked is still what the checkpoint holds.
    """
    tree = view.tree(checkpoint)
    present = here or _difference(context, tree, checkpoint) is None

    def in_the_copy(folder: bytes) -> Examined:
        return _in_copy(context, checkpoint, folder, tree=tree, run=run)

    def run(folder: bytes, variables: Mapping[str, str]) -> CommandResult:
        given = {"LASTGOOD_CHECKPOINT": checkpoint.id, **variables}
        return commands.run(order.words, directory=folder, variables=given, timeout=order.timeout)

    if present:
        ran = run(context.root, {})
        doubt = _difference(context, tree, checkpoint)
    else:
        ran, doubt = aside(in_the_copy)
    if checkpoint.partial:
        doubt = _PARTIAL
    good, reason = verdict(ran, doubt=doubt, timeout=f"{order.timeout:g} s")
    record = Check(
        command=order.shown,
        exit_code=ran.code if ran.ending == "exited" else None,
        seconds=round(ran.seconds, 3),
        output_tail=ran.tail.decode("utf-8", "replace"),
        reason=reason,
    )
    record_verdict(context, checkpoint.id, good=good, check=record)
    judged = checkpoint.replace(good=good, check=record)
    return CheckReport(checkpoint=judged, good=good, check=record, aside=not present)


def record_verdict(context: Context, checkpoint: str, *, good: bool | None, check: Check) -> None:
    """Record what a check said; waits for a sweep longer than other verbs: to ask again takes another run."""
    with MarkTransaction(context, wait=_VERDICT_WAIT) as marking:
        marking.catalogue.set_verdict(checkpoint, good=good, check=check)


def _in_copy(
    context: Context,
    checkpoint: Checkpoint,
    folder: bytes,
    *,
    tree: Files,
    run: Callable[[bytes, Mapping[str, str]], CommandResult],
) -> Examined:
    """Write a copy, run the command in it, and look whether it changed what it was to judge."""
    applier = context.applier_of(folder)
    with context.locks.share_store(wait=context.wait):
        outcomes = applier.write_tree(tree.root, objects=context.engine, durability="fast")
        held = [(path, entry) for path, entry in tree.walk() if entry.kind != DIRECTORY]
    failed = [one for one in outcomes if one.result in {"failed", "skipped"}]
    if failed:
        raise Storage(
            f"a copy of {checkpoint.short_id} could not be written: {failed[0].reason or 'unknown reason'}",
            hint="is there room in the store's file system?",
        )
    # A copy has no .git: git must not take one of the folders above it for its own.
    above = to_text(folder.rpartition(b"/")[0])
    ran = run(folder, {"GIT_CEILING_DIRECTORIES": above})
    try:
        with applier.looking() as present:
            changed = [path for path, entry in held if not same_content(present(path), entry)]
    except (NotFound, Unsafe):
        return ran, "the command took the copy away"
    return ran, _changed_paths(changed, "changed by the command itself") if changed else None


def _difference(context: Context, tree: Files, checkpoint: Checkpoint) -> str | None:
    """Return in which way the workspace is not what a checkpoint holds, None if it is."""
    if checkpoint.manifest.workspace_key != context.key:
        return "it is a checkpoint of another workspace"
    try:
        with ReadTransaction(context) as reading, WorkspaceSnapshot(reading) as snapshot:
            result = snapshot.scan.result
            changed = [one.path for one in compare(tree, snapshot.files, gaps=result.gaps)]
            places = {(gap.path, gap.reason) for gap in result.gaps}
    except (Busy, NotFound, Unsafe) as error:
        return error.message
    changed += sorted(path for path, _ in places ^ {(gap.path, gap.reason) for gap in checkpoint.gaps})
    return _changed_paths(changed, "changed while it was being checked") if changed else None


def _changed_paths(paths: list[bytes], what: str) -> str:
    shown = ", ".join(printable(to_text(path)) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{what}: {shown}{more}"
