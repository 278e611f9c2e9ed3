"""The project's HEAD and index as a part of a restore, asked for with ``--git`` (rule T9)."""

from __future__ import annotations

from lastgood.errors import Conflict, Damaged, LastgoodError, Unsafe
from lastgood.host import GitPosition
from lastgood.model.canonical import TEXT, Fields, optional
from lastgood.model.operation import Part, PartOutcome
from lastgood.paths import to_text
from lastgood.snapshot import INDEX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.context import Context
    from lastgood.host import FoundGitPosition
    from lastgood.literals import LeftBranch
    from lastgood.model.checkpoint import Checkpoint, GitState
    from lastgood.transaction import RestoreTransaction

_HEADS = "refs/heads/"
# Where HEAD goes when its branch was unborn at the checkpoint and has commits by now.
_UNBORN = "refs/heads/lastgood-before-first-commit"
_CHANGED = "HEAD or the index changed since"


def plan(context: Context, target: Checkpoint) -> tuple[Part, ...]:
    """Return how HEAD and index would change; nothing if they stand as they did.

    Raises `Unsafe` or `Unsupported` where they cannot be put back.
    """
    found_position = context.project.found_position(context.root)
    if found_position is None:
        raise Unsafe("the workspace has no repository now", hint="restore without --git")
    wanted = _wanted(context, target)
    now = found_position.position
    if now == wanted:
        return ()
    git = target.manifest.git
    return (
        Part(scope="git", before=_side(now, found_position=found_position), after=_side(wanted, git=git)),
    )


def refuse(context: Context, part: Part) -> None:
    """Refuse what `plan` refuses, what is under way, objects that are gone, and another position."""
    known, wanted = _position(part.before), _position(part.after)
    context.project.refuse_realigning(context.root, wanted, _content(context, wanted))
    found_position = context.project.found_position(context.root)
    if found_position is None or not (
        _same(found_position.position, known) or _same(found_position.position, wanted)
    ):
        raise Conflict(
            _CHANGED,
            hint="look at it: git status\nthen plan anew, or leave out --git",
            details={"paths": []},
        )


def settle(restoring: RestoreTransaction, part: Part) -> PartOutcome:
    """Put HEAD and index where they are to stand, unless somebody else has moved them."""
    context = restoring.context
    known, wanted = _position(part.before), _position(part.after)
    try:
        _refuse_unheld(context, known)
        done = restoring.project.realign(
            context.root,
            known=known,
            wanted=wanted,
            content=_content(context, wanted),
            words=f"lastgood: {known.commit or 'nothing'} to {wanted.commit or 'nothing'}",
            at=context.clock.now() // 1_000_000_000,
        )
    except Conflict as error:
        return PartOutcome(scope="git", result="kept", reason=error.message)
    except LastgoodError as error:
        return PartOutcome(scope="git", result="failed", reason=error.message)
    left, was = _left_branch(context, part, done.head, wanted=wanted), _named(part.before)
    remarks = _remarks(part, left, conflicts=len(done.conflicts))
    if done.left:
        remarks.append(f"delete what could not be taken away: {', '.join(done.left)}")
    return PartOutcome(
        scope="git",
        result="restored",
        reason="; ".join(remarks) or None,
        details={
            "head": done.head,
            "kept": done.kept,
            "conflicts": [to_text(path) for path in done.conflicts],
            "conflicts_replaced": part.before.get("conflicts", []),
            **({} if left is None else {"left_branch": left}),
            **({} if was is None or was == _named(part.after) else {"branch_before": was}),
        },
    )


def left_branch(context: Context, name: str, *, commit: str | None) -> LeftBranch | None:
    """Return why HEAD cannot stand on a branch at a commit without that being moved; None if it can.

    With its repository a branch is gone.
    """
    branch = GitPosition(branch=_HEADS + name, commit=commit, index="")
    if context.project.attachable(context.root, branch):
        return None
    if context.project.is_taken(context.root, _HEADS + name):
        return "taken"
    if context.project.state(context.root) is None:
        return "gone"
    return "gone" if context.project.attachable(context.root, branch.replace(commit=None)) else "moved"


def _left_branch(context: Context, part: Part, head: str, *, wanted: GitPosition) -> dict[str, object] | None:
    """Return the branch on which HEAD could not be put back, if it is gone or taken; None if it was."""
    name = _named(part.after)
    if wanted.commit is None or head != wanted.commit or name is None:
        return None
    why = left_branch(context, name, commit=wanted.commit)
    return {"name": name, "gone": why == "gone", "taken": why == "taken"}


def _remarks(part: Part, left: Mapping[str, object] | None, *, conflicts: int) -> list[str]:
    """Return what a person would want to know of a HEAD and index that are back."""
    remarks = []
    if left is not None:
        why = "is gone, and was not made" if left["gone"] else "is not where it was, and was not moved"
        why = "is checked out in another worktree" if left["taken"] else why
        remarks.append(f"HEAD is detached: {left['name']} {why}")
    begun = part.after.get("operation")
    if begun is not None:
        remarks.append(f"the {begun} that was under way then is not begun again")
    if conflicts:
        remarks.append(
            "1 path is in conflict again, as it was"
            if conflicts == 1
            else f"{conflicts} paths are in conflict again, as they were"
        )
    lost = part.before.get("conflicts")
    if isinstance(lost, list) and lost:
        remarks.append(
            "1 path that was in conflict until now is not any more"
            if len(lost) == 1
            else f"{len(lost)} paths that were in conflict until now are not any more"
        )
    return remarks


def _wanted(context: Context, target: Checkpoint) -> GitPosition:
    git, index = target.manifest.git, target.manifest.state.get(INDEX)
    if git is None or (git.head is None and git.branch is None):
        raise Unsafe(
            f"{target.short_id} knows of no HEAD: there was no repository, or none that could be read",
            hint="restore without --git",
        )
    if index is None:
        raise Unsafe(
            f"{target.short_id} does not hold the index: it was too large, could not be read,"
            " or an older lastgood made the checkpoint",
            hint="restore without --git",
        )
    named = None if git.branch is None else _HEADS + git.branch
    position = GitPosition(branch=named, commit=git.head, index=index)
    if context.project.attachable(context.root, position) or _stands_there(context, position):
        return position
    return position.replace(branch=_UNBORN if git.head is None else None)


def _stands_there(context: Context, position: GitPosition) -> bool:
    """Tell whether HEAD stands there already, on whatever kind of branch."""
    found_position = context.project.found_position(context.root)
    return found_position is not None and (
        found_position.position.branch,
        found_position.position.commit,
    ) == (
        position.branch,
        position.commit,
    )


def _side(
    position: GitPosition, *, found_position: FoundGitPosition | None = None, git: GitState | None = None
) -> dict[str, object]:
    side: dict[str, object] = {"branch": position.branch, "commit": position.commit, "index": position.index}
    if found_position is not None and found_position.conflicts:
        side["conflicts"] = [to_text(path) for path in found_position.conflicts]
    if git is not None:
        side["named"] = git.branch
        side["operation"] = git.operation
    return side


def _position(side: Mapping[str, object]) -> GitPosition:
    fields = Fields(dict(side), what="a part of a restore")
    return GitPosition(
        branch=fields.read("branch", optional(TEXT)),
        commit=fields.read("commit", optional(TEXT)),
        index=fields.text("index"),
    )


def _named(side: Mapping[str, object]) -> str | None:
    """Return the branch on which HEAD was to stand if it could."""
    name = side.get("named") or side.get("branch")
    return name.removeprefix(_HEADS) if isinstance(name, str) else None


def _same(one: GitPosition, other: GitPosition) -> bool:
    """Tell whether two stances are one, but for a branch that HEAD may have had to leave."""
    branches = one.branch == other.branch or None in {one.branch, other.branch}
    return branches and (one.commit, one.index) == (other.commit, other.index)


def _content(context: Context, position: GitPosition) -> bytes:
    return context.engine.read_blob(bytes.fromhex(position.index))


def _refuse_unheld(context: Context, known: GitPosition) -> None:
    """Refuse to replace an index that no checkpoint could give back."""
    if context.engine.missing([bytes.fromhex(known.index)]):
        raise Damaged("the store does not hold the index that is there now", hint="save first: lastgood save")
