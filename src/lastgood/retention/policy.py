"""What is kept, and why: the policy by kind, the limits, and what was asked for (rules K1, K2)."""

from __future__ import annotations

from lastgood.errors import Invalid, Usage, count
from lastgood.model.checkpoint import KINDS
from lastgood.model.report import StoreSize
from lastgood.paths import printable
from lastgood.quantities import parse_duration
from lastgood.rewind import BEGAN
from lastgood.settings import Rungs
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lastgood.literals import Kind
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.value import Text, Timestamp


# --- What a prune decides of every checkpoint, with the reason, and what it did ---


class Decision(Value):
    """What becomes of one checkpoint. A ``firm`` one is kept whatever the limits say."""

    id: str
    keep: bool
    reason: Text
    firm: bool = False


class PrunePlan(Value):
    """What a prune would do; times in nanoseconds.

    ``decisions`` are of one workspace, newest first. ``freed_bytes`` is what the packs hold that
    only the removed ones need. ``lost`` are checkpoints deleted earlier that an immediate prune
    (``now``) would put beyond undo as well.
    """

    workspace_key: str
    decisions: tuple[Decision, ...]
    freed_bytes: int = 0
    free_after: Timestamp | None = None
    now: bool = False
    lost: tuple[str, ...] = ()

    @property
    def keep(self) -> tuple[Decision, ...]:
        """The checkpoints that stay."""
        return tuple(one for one in self.decisions if one.keep)

    @property
    def remove(self) -> tuple[Decision, ...]:
        """The checkpoints that go."""
        return tuple(one for one in self.decisions if not one.keep)

    @property
    def removed(self) -> tuple[str, ...]:
        """The ids of those that go."""
        return tuple(one.id for one in self.decisions if not one.keep)


class PruneReport(Value):
    """What a prune did, or would do (``dry_run``).

    ``freed_bytes`` are freed already if ``free_after`` is None, else not before that time
    (nanoseconds). ``set_aside`` are the damaged ones that a verification marked. ``waiting_bytes`` could
    not be freed at once: the disk has no room to write anew what lies in one pack with them.
    """

    keep: tuple[Decision, ...] = ()
    remove: tuple[Decision, ...] = ()
    set_aside: tuple[str, ...] = ()
    freed_bytes: int = 0
    free_after: Timestamp | None = None
    dry_run: bool = False
    operation: Operation | None = None
    lost: tuple[str, ...] = ()
    faults: tuple[Text, ...] = ()
    waiting_bytes: int = 0


class StoreSizes(Value):
    """How many bytes checkpoints added to the store when they were saved, by workspace and session.

    ``deleted`` counts those that wait for the end of the grace time. ``store`` is what the store takes
    of the disk, with all that is in it, and ``parts`` says what that is.
    """

    store: int
    workspaces: dict[str, int]
    sessions: dict[str, int]
    deleted: int = 0
    parts: StoreSize = StoreSize()


# --- What is kept, and why: the policy by kind, the limits, and what was asked for (rules K1, K2) ---

HOUR = 3600 * 1_000_000_000
DAY = 24 * HOUR
# For so long a guard keeps its restore undoable.
GUARD_LIFE = 7 * DAY
# Rule K3: bytes are freed this long after they lost their last checkpoint.
GRACE = DAY
# A size limit leaves at least so many of what was saved by hand.
LEAST = 10

_SESSION_MARKS: tuple[Kind, ...] = ("session-start", "session-end")
_STANDS = "where the workspace stands"
_MARK = "its session still has checkpoints"
_BEGINNING = "a turn that is kept began there"
_UNSEEN = "what it did not see is in one that is kept"
_WORKERS = frozenset({"agent", "tool"})
_LONGEST_AGE_TEXT = 20


class Keeping(Value):
    """How checkpoints of a kind are kept: by rungs, and all of the last ``whole`` nanoseconds."""

    rungs: Rungs
    whole: int = 0


_MOMENTS = Keeping(rungs=Rungs(last=20), whole=DAY)
POLICY: Mapping[str, Keeping] = {
    "turn": Keeping(rungs=Rungs(last=100, hourly=24, daily=14)),
    "tool": Keeping(rungs=Rungs(last=50, hourly=24, daily=14)),
    "auto": Keeping(rungs=Rungs(last=10, hourly=24, daily=14)),
    **dict.fromkeys(("risky", "task", "sprint", "iteration", "error", "interrupt", "compaction"), _MOMENTS),
    **dict.fromkeys(_SESSION_MARKS, Keeping(rungs=Rungs(last=3))),
    "guard": Keeping(rungs=Rungs(last=0), whole=GUARD_LIFE),
    "manual": Keeping(rungs=Rungs(last=200)),
}


class Conditions(Value):
    """What a decision depends on beside the checkpoints.

    ``retention`` holds what is configured, by kind, and takes the place of a kind's row; ``limit``
    is how many that are not permanent may stay. ``needed`` gives the reason why some must stay, ``stands``
    is where the workspace stands. ``believed`` is what time it surely is, where the clock may be ahead.
    """

    now: int
    believed: int | None = None
    retention: Mapping[str, Rungs] = {}
    limit: int
    needed: Mapping[str, str] = {}
    stands: str | None = None


def decide(checkpoints: Sequence[Checkpoint], conditions: Conditions) -> tuple[Decision, ...]:
    """Return what the policy makes of one workspace's checkpoints, which are newest first."""
    firm = _firm(checkpoints, conditions)
    kept = dict(firm)
    ages = _sure_ages(checkpoints, conditions)
    for kind in KINDS:
        if kind not in _SESSION_MARKS:
            _by_kind(kind, checkpoints, ages=ages, retention=conditions.retention, kept=kept)
    for one in checkpoints:
        if one.kind not in KINDS:
            kept.setdefault(one.id, "its kind is not known")
    for id in _beginnings(checkpoints, kept):
        kept.setdefault(id, _BEGINNING)
    kept |= dict.fromkeys(_broken_off(checkpoints, kept).keys() - firm.keys(), _UNSEEN)
    lasting = _sessions(checkpoints, kept)
    for kind in _SESSION_MARKS:
        _by_kind(kind, checkpoints, ages=ages, retention=conditions.retention, kept=kept)
    for one in _marks(checkpoints, lasting):
        kept.setdefault(one.id, _MARK)
    kept |= dict.fromkeys(_broken_off(checkpoints, kept).keys() - firm.keys(), _UNSEEN)
    decisions = tuple(
        Decision(id=one.id, keep=True, reason=kept[one.id], firm=one.id in firm)
        if one.id in kept
        else Decision(id=one.id, keep=False, reason=_beyond(one.kind, conditions.retention))
        for one in checkpoints
    )
    return _limited(checkpoints, decisions, limit=conditions.limit)


def explicit_decisions(
    checkpoints: Sequence[Checkpoint],
    *,
    keep: int | None,
    older_than: int | None,
    conditions: Conditions,
) -> tuple[Decision, ...]:
    """Return what an explicit request makes of one workspace's checkpoints, which are newest first.

    With both ``keep`` and ``older_than`` (nanoseconds) only what both let go goes. Spares what is
    permanent or needed, which does not count among those kept, and where the workspace stands. Nor does a
    guard count: nobody asked for it, so it pushes nothing out, and a number of checkpoints says nothing
    about it: its kind's row does.
    """
    ages = ages_of(checkpoints, now=conditions.now)
    numbered = {} if keep is None else _numbered(checkpoints, keep, ages=ages, conditions=conditions)
    decisions = []
    for one, age in zip(checkpoints, ages, strict=True):
        reason = permanent(one) or conditions.needed.get(one.id)
        if reason is not None:
            decisions.append(Decision(id=one.id, keep=True, reason=reason, firm=True))
            continue
        said = [numbered[one.id]] if keep is not None else []
        if older_than is not None:
            young = age <= older_than
            said.append((young, f"{'not ' if young else ''}older than {_span(older_than)}"))
        stays = any(fits for fits, _ in said)
        reason = ", ".join(words for fits, words in said if fits is stays)
        if not stays and one.id == conditions.stands:
            stays, reason = True, _STANDS
        decisions.append(Decision(id=one.id, keep=stays, reason=reason))
    unseen = _broken_off(checkpoints, {one.id for one in decisions if one.keep})
    return tuple(
        one.replace(keep=True, reason=_UNSEEN) if one.id in unseen and not one.keep else one
        for one in decisions
    )


def _numbered(
    checkpoints: Sequence[Checkpoint], keep: int, *, ages: Sequence[int], conditions: Conditions
) -> dict[str, tuple[bool, str]]:
    """Tell of each checkpoint that can go whether a number to keep keeps it, and the words for it."""
    guards: dict[str, str] = {}
    _by_kind("guard", checkpoints, ages=ages, retention=conditions.retention, kept=guards)
    found: dict[str, tuple[bool, str]] = {}
    place = 0
    for one in checkpoints:
        if permanent(one) is not None or one.id in conditions.needed:
            continue
        if one.kind == "guard":
            found[one.id] = one.id in guards, guards.get(one.id) or _beyond("guard", conditions.retention)
            continue
        place += 1
        found[one.id] = place <= keep, f"{'' if place <= keep else 'not '}{_newest(keep)}"
    return found


def _newest(number: int) -> str:
    return "the newest" if number == 1 else f"among the {number} newest"


def eviction(checkpoints: Sequence[Checkpoint], decisions: Sequence[Decision]) -> tuple[str, ...]:
    """Return what a limit takes of that which is kept, first to go first.

    Automatic ones go before those made by hand, and of each the middle before the ends. A look that was
    broken off goes with the one that has what it did not see.
    """
    kind = {one.id: one.kind for one in checkpoints}
    loose = [one.id for one in decisions if one.keep and not one.firm and one.reason != _UNSEEN]
    unseen = {one.id for one in decisions if one.keep and not one.firm and one.reason == _UNSEEN}
    needed = _broken_off(checkpoints, {one.id for one in decisions if one.keep})
    with_it = {of: id for id, of in needed.items() if id in unseen}
    automatic = [id for id in loose if kind[id] != "manual"]
    by_hand = [id for id in loose if kind[id] == "manual"]
    order = (*_middle_first(automatic), *_middle_first(by_hand))
    return tuple(each for id in order for each in (id, with_it.get(id)) if each is not None)


def without(
    checkpoints: Sequence[Checkpoint], decisions: Sequence[Decision], *, going: Iterable[str], reason: str
) -> tuple[Decision, ...]:
    """Return decisions by which some more go.

    So do the marks of a session of which nothing stays, and where a turn began that goes. A look that was
    broken off stays as long as one that has what it did not see.
    """
    gone = set(going)
    changed = {
        one.id: Decision(id=one.id, keep=False, reason=reason) if one.id in gone else one for one in decisions
    }
    turns = {one.id for one in changed.values() if one.keep and one.reason != _BEGINNING}
    begun = _beginnings(checkpoints, turns)
    for one in checkpoints if gone else ():
        if changed[one.id].reason == _BEGINNING and one.id not in begun:
            changed[one.id] = Decision(id=one.id, keep=False, reason="no turn that is kept began there")
    unseen = _broken_off(checkpoints, {one.id for one in changed.values() if one.keep}) if gone else {}
    for one in checkpoints if gone else ():
        if one.id in unseen and not changed[one.id].firm:
            changed[one.id] = Decision(id=one.id, keep=True, reason=_UNSEEN)
        elif changed[one.id].reason == _UNSEEN:
            changed[one.id] = Decision(
                id=one.id, keep=False, reason="what it did not see is in none that is kept"
            )
    lasting = _sessions(checkpoints, {one.id for one in changed.values() if one.keep})
    for one in checkpoints if gone else ():
        found = changed[one.id]
        if found.reason == _MARK and one.manifest.session not in lasting:
            changed[one.id] = Decision(id=one.id, keep=False, reason="nothing else of its session is kept")
    return tuple(changed[one.id] for one in decisions)


def ages_of(checkpoints: Sequence[Checkpoint], *, now: int) -> list[int]:
    """Return how old checkpoints (newest first by number) are, never more than their numbers prove.

    Clocks jump: one that seems older than one before it is as old as the next one that does not, or as good
    as new where there is none, and so is one from the future.
    """
    believed: list[int | None] = []
    reached: int | None = None
    for one in reversed(checkpoints):
        made = one.manifest.created_at
        is_believed = made <= now and (reached is None or reached <= made)
        believed.append(made if is_believed else None)
        reached = made if is_believed else reached
    ages: list[int] = []
    later = now
    for one, moment in zip(checkpoints, reversed(believed), strict=True):
        later = later if moment is None else moment
        ages.append(0 if one.manifest.created_at > now else now - later)
    return ages


def _sure_ages(checkpoints: Sequence[Checkpoint], conditions: Conditions) -> list[int]:
    """Return how old checkpoints are by the clock, and by the time that is believed where that is less."""
    ages = ages_of(checkpoints, now=conditions.now)
    if conditions.believed is None:
        return ages
    return [*map(min, ages, ages_of(checkpoints, now=conditions.believed))]


def age_of(text: str) -> int:
    """Return an age in nanoseconds: a plain number means days; `Usage` if it is none, or not above 0."""
    given = text.strip()[:_LONGEST_AGE_TEXT]
    plain = given.replace(".", "", 1)
    try:
        seconds = parse_duration(given + "d" if plain.isascii() and plain.isdigit() else given)
    except Invalid:
        seconds = 0.0
    if len(text.strip()) > _LONGEST_AGE_TEXT:
        seconds = 0.0
    if seconds <= 0:
        raise Usage(
            f"an age is a number of days above 0, or a duration, not '{printable(text)}'",
            hint="for example 7 (days), 7d or 12h",
        )
    return int(seconds * 1_000_000_000)


def _firm(checkpoints: Sequence[Checkpoint], conditions: Conditions) -> dict[str, str]:
    """Return what stays whatever is configured, with the reasons."""
    firm: dict[str, str] = {}
    sessions: set[str | None] = set()
    for one in checkpoints:
        reason = permanent(one) or conditions.needed.get(one.id)
        if one.good and one.manifest.session not in sessions:
            sessions.add(one.manifest.session)
            reason = reason or "the newest good one of its session"
        if one.id == conditions.stands:
            reason = reason or _STANDS
        if reason is not None:
            firm[one.id] = reason
    complete = [one for one in checkpoints if not one.partial and one.kind != "guard"]
    sound = [one for one in complete if one.damaged is None]
    for one in (*complete[:1], *sound[:1], *(() if complete else checkpoints[:1])):
        firm.setdefault(one.id, "the newest complete one" if complete else "the newest one")
    return firm


def permanent(checkpoint: Checkpoint) -> str | None:
    """Return why no policy lets a checkpoint go; None if one may."""
    if checkpoint.pinned:
        return "pinned"
    if checkpoint.name is not None:
        return "named"
    return "a feature, kept for ever" if checkpoint.kind == "feature" else None


def _by_kind(
    kind: str,
    checkpoints: Sequence[Checkpoint],
    *,
    ages: Sequence[int],
    retention: Mapping[str, Rungs],
    kept: dict[str, str],
) -> None:
    """Add what the policy keeps of one kind."""
    keeping = _keeping(kind, retention)
    if keeping is None:
        return
    rungs = keeping.rungs
    hours: set[int] = set()
    days: set[int] = set()
    line = [(one, age) for one, age in zip(checkpoints, ages, strict=True) if one.kind == kind]
    for place, (one, age) in enumerate(line):
        if place < rungs.last:
            kept.setdefault(one.id, f"{_newest(rungs.last)} of kind {kind}")
            continue
        reasons = []
        if keeping.whole and age <= keeping.whole:
            reasons.append(f"of the last {_span(keeping.whole)}")
        made = one.manifest.created_at
        if rungs.hourly and age <= rungs.hourly * HOUR and made // HOUR not in hours:
            hours.add(made // HOUR)
            reasons.append("the newest of its hour")
        if rungs.daily and age <= rungs.daily * DAY and made // DAY not in days:
            days.add(made // DAY)
            reasons.append("the newest of its day")
        if reasons:
            kept.setdefault(one.id, f"{reasons[0]}, of kind {kind}")


def _keeping(kind: str, retention: Mapping[str, Rungs]) -> Keeping | None:
    configured = retention.get(kind)
    return POLICY.get(kind) if configured is None else Keeping(rungs=configured)


def _beginnings(checkpoints: Sequence[Checkpoint], kept: Iterable[str]) -> set[str]:
    """Return where the turns began that are kept: what is before a turn and after the one before it."""
    ids = set(kept)
    found = {one.manifest.metadata.get(BEGAN) for one in checkpoints if one.kind == "turn" and one.id in ids}
    return {one.id for one in checkpoints if one.id in found}


def _broken_off(checkpoints: Sequence[Checkpoint], kept: Collection[str]) -> dict[str, str]:
    """Return the partial ones by which is known that nobody knows whose changes are, with whose id needs it.

    Of those between two complete ones that are kept, the newer one an agent's, the newest.
    """
    found: dict[str, str] = {}
    later: Checkpoint | None = None
    between: str | None = None
    for one in checkpoints:
        if one.kind == "guard":
            continue
        if one.partial:
            between = between or one.id
        elif one.id in kept:
            if later is not None and between is not None and later.actor.type in _WORKERS:
                found[between] = later.id
            later, between = one, None
    return found


def _sessions(checkpoints: Sequence[Checkpoint], kept: Iterable[str]) -> set[str]:
    """Return the sessions of which something is kept beside their marks."""
    ids = set(kept)
    return {
        one.manifest.session
        for one in checkpoints
        if one.id in ids and one.kind not in _SESSION_MARKS and one.manifest.session is not None
    }


def _marks(checkpoints: Sequence[Checkpoint], sessions: set[str]) -> list[Checkpoint]:
    return [one for one in checkpoints if one.kind in _SESSION_MARKS and one.manifest.session in sessions]


def _beyond(kind: str, retention: Mapping[str, Rungs]) -> str:
    keeping = _keeping(kind, retention)
    assert keeping is not None
    rungs = keeping.rungs
    parts = [
        f"the {rungs.last} newest" if rungs.last else "",
        f"those of the last {_span(keeping.whole)}" if keeping.whole else "",
        f"one an hour for {rungs.hourly} hours" if rungs.hourly else "",
        f"one a day for {rungs.daily} days" if rungs.daily else "",
        "those of sessions that still have checkpoints" if kind in _SESSION_MARKS else "",
    ]
    told = ", ".join(part for part in parts if part)
    return f"beyond what is kept of kind {kind}: {told or 'none'}"


def _limited(
    checkpoints: Sequence[Checkpoint], decisions: tuple[Decision, ...], *, limit: int
) -> tuple[Decision, ...]:
    lasting = {one.id for one in checkpoints if permanent(one) is not None}
    excess = sum(one.keep and one.id not in lasting for one in decisions) - limit
    if excess <= 0:
        return decisions
    going = eviction(checkpoints, decisions)[:excess]
    return without(
        checkpoints, decisions, going=going, reason=f"over the limit of {count(limit, 'checkpoint')}"
    )


def _middle_first(ids: Sequence[str]) -> list[str]:
    """Return a line so ordered that what is farthest from both its ends comes first."""
    last = len(ids) - 1
    places = sorted(range(len(ids)), key=lambda place: (-min(place, last - place), -place))
    return [ids[place] for place in places]


def _span(nanoseconds: int) -> str:
    for unit, word in ((DAY, "day"), (HOUR, "hour"), (HOUR // 60, "minute"), (HOUR // 3600, "second")):
        if nanoseconds >= unit and nanoseconds % unit == 0:
            amount = nanoseconds // unit
            return word if amount == 1 and unit == DAY else count(amount, word)
    return f"{nanoseconds / 1e9:g} seconds"


def refuse_pinned(checkpoints: Sequence[Checkpoint]) -> None:
    """Refuse to delete what is pinned."""
    pinned = [one for one in checkpoints if one.pinned]
    if pinned:
        raise Invalid(
            f"{pinned[0].short_id} is pinned and is not deleted",
            hint=f"unpin it first: lastgood unpin {pinned[0].short_id}",
            details={"pinned": [one.id for one in pinned]},
        )
