"""What a restore would do to every path: computed whole, before anything is touched (rules T1 to T6)."""

from __future__ import annotations

from _sha1 import sha1

from lastgood import ids
from lastgood.errors import Unsafe
from lastgood.model.plan import DISCARDED, NOT_BACK, Step
from lastgood.model.tree import DIRECTORY
from lastgood.names import Covering, parent, printable, to_text
from lastgood.rules.evidence import Evidence, Present, alike
from lastgood.rules.hostile import refuse
from lastgood.rules.planner import Planner, action_between, is_unheld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lastgood.model.plan import Action
    from lastgood.model.tree import Entry
    from lastgood.rules.compare import Tree

__all__ = [
    "Evidence",
    "Present",
    "alike",
    "conflicts",
    "identify",
    "in_order",
    "inverse",
    "plan",
    "too_many_deletions",
]

# Rule T16.
MANY_DELETIONS = 1000
FEW_DELETIONS = 50

_TOUCHING: frozenset[Action] = frozenset({"write", "delete", "mkdir", "rmdir", "chmod"})
_ORDER: tuple[Action, ...] = ("mkdir", "write", "chmod", "delete", "rmdir", "keep", "skip")
_SHOWN = 10


def plan(
    target: Tree,
    present: Present,
    *,
    evidence: Evidence,
    paths: Iterable[bytes] = (),
    discard: bool = False,
) -> tuple[Step, ...]:
    """Return the steps that turn what is present into the target, in the order to take them.

    ``paths`` limits them to some files or directories. Raises `NotFound` for a path that neither
    side has, and `Unsafe` for a target that must not be written out, or (unless ``discard``) when
    something would be overwritten that no guard can hold.
    """
    planner = Planner(target, present, evidence=evidence, discard=discard)
    scopes = _outermost(paths)
    if scopes in ([], [b""]):
        planner.whole()
    else:
        for scope in scopes:
            planner.scope(scope)
    refuse(planner.inspection.faults)
    if planner.unheld and not discard:
        _refuse_unheld(sorted(planner.unheld))
    return in_order(planner.steps)


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps in the safe order: directories, writes, modes, deletions, then what is not touched."""
    by: dict[Action, list[Step]] = {action: [] for action in _ORDER}
    for step in steps:
        by[step.action].append(step)
    for action, bucket in by.items():
        # Shallow first, but directories are removed deep first.
        bucket.sort(key=_path, reverse=action == "rmdir")
    return tuple(step for bucket in by.values() for step in bucket)


def inverse(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps that take steps back: what was wanted is what they find, and the reverse.

    What no guard could hold (discarded on request) does not come back: a step "skip" says so.
    """
    back = []
    for step in steps:
        if step.action not in _TOUCHING:
            continue
        if is_unheld(step.have):
            back.append(Step(path=step.path, action="skip", reason="what was here could not be copied"))
            continue
        action = action_between(step.have, step.want)
        reason = NOT_BACK if step.reason == DISCARDED else None
        back.append(step.replace(action=action, want=step.have, have=step.want, reason=reason))
    return in_order(back)


def conflicts(steps: Iterable[Step], actual: Callable[[bytes], Entry | None]) -> tuple[bytes, ...]:
    """Return the paths to be touched that do not hold what the steps say they have.

    ``actual`` has to answer for paths that a scan leaves out as well; contents of directories do
    not count.
    """
    touching = (step for step in steps if step.action in _TOUCHING)
    return tuple(step.path for step in touching if not alike(step.have, actual(step.path)))


def too_many_deletions(steps: Iterable[Step], files_total: int) -> bool:
    """Tell whether a plan takes away so much that consent has to be asked for (rule T16)."""
    deletions = sum(1 for step in steps if step.action == "delete")
    return deletions > MANY_DELETIONS or (deletions >= FEW_DELETIONS and deletions * 2 > files_total)


def identify(
    steps: Iterable[Step],
    *,
    target: str,
    workspace_key: str,
    paths: Iterable[bytes] = (),
    discard: bool = False,
    beside: Iterable[bytes] = (),
) -> str:
    """Return the id of a plan: the same steps towards the same target give the same id (rule T16).

    ``beside`` is what else it covers: scopes, parts, the base of a merge.
    """
    digest = sha1(usedforsecurity=False)
    for text in (target.encode(), workspace_key.encode(), b"discard" if discard else b"", *sorted(paths)):
        digest.update(b"%d:%b" % (len(text), text))
    for text in beside:
        digest.update(b"\n%d:%b" % (len(text), text))
    digest.update(b"\n")
    for step in steps:
        facts = f"{step.action} {_facts(step.want)} {_facts(step.have)} {step.forced}"
        digest.update(b"%d:%b %b\n" % (len(step.path), step.path, facts.encode()))
    return ids.plan_id(digest.digest())


def _facts(entry: Entry | None) -> str:
    if entry is None:
        return "-"
    return f"{entry.kind} {entry.mode:o} {'' if entry.kind == DIRECTORY else entry.oid.hex()}"


def _path(step: Step) -> bytes:
    return step.path


def _outermost(paths: Iterable[bytes]) -> list[bytes]:
    """Leave out the paths that lie within others."""
    given = set(paths)
    if b"" in given:
        return [b""]
    covering = Covering(dict.fromkeys(given, "given"))
    return sorted(path for path in given if covering.of(parent(path)) is None)


def _refuse_unheld(paths: Sequence[bytes]) -> None:
    shown = ", ".join(printable(to_text(path)) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    raise Unsafe(
        f"what is there now cannot be copied, and would be lost: {shown}{more}",
        hint="move it away, or restore with --discard to lose it",
        details={"paths": [to_text(path) for path in paths]},
    )
