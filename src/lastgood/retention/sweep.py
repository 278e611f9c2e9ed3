"""The sweep: a new generation first, then bytes that no commit reaches are freed."""

from __future__ import annotations

from lastgood.catalogue import Query
from lastgood.elapsed import RealTime, look
from lastgood.errors import Damaged, LastgoodError, Storage
from lastgood.host import instant_of
from lastgood.model.checkpoint import decode
from lastgood.retention.policy import GRACE
from lastgood.transaction import Transaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from lastgood.context import Catalogue, Context
    from lastgood.engine import Engine
    from lastgood.host import ExclusiveHold
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Instant

_DIGITS = 40
_HEX = frozenset("0123456789abcdef")
# How long the bytes of a commit without a row stay, in nanoseconds: thirty days.
STRANGER_LIFE = 30 * 24 * 3600 * 1_000_000_000


def real_time(context: Context) -> RealTime:
    """Return the present, as it is to be told from what maintenance saw of the time."""
    now = instant_of(context.clock)
    return RealTime(now=now, seen=look(context.catalogue.time_seen(), now))


def past_grace(context: Context) -> Callable[[Instant], bool]:
    """Return what tells of a deletion whether it can no longer be undone (rule K3)."""
    real = real_time(context)
    return lambda deleted: real.age(deleted) > GRACE


class Roots(Value):
    """The commits that bytes are kept for; of the ``wounded`` ones only what is left of them."""

    live: tuple[bytes, ...]
    wounded: tuple[bytes, ...]


class Inventory(Value):
    """What the store has, read once for several questions: commits of rows, checkpoints, other commits."""

    commits: frozenset[str]
    checkpoints: tuple[Checkpoint, ...]
    strangers: tuple[bytes, ...]


def inventory(
    context: Context, *, deleted_after: int | None = None, checkpoints: Sequence[Checkpoint] | None = None
) -> Inventory:
    """Take stock of all that exists, and what was deleted and is not dropped; `Damaged` if a row was altered.

    With a time only of what was deleted after it.
    ``checkpoints`` are all of the store, deleted ones too, where the caller has them already.
    """
    commits = context.catalogue.commits(deleted_after=deleted_after)
    known = context.catalogue.find(Query(deleted=True)) if checkpoints is None else checkpoints
    return Inventory(
        commits=frozenset(commits), checkpoints=tuple(known), strangers=tuple(_strangers(context))
    )


def kept_of(stock: Inventory, *, without: Collection[str] = ()) -> Roots:
    """Return what has to be kept; ``without`` are checkpoints that do not count."""
    known = stock.checkpoints
    spared = {one.commit for one in known if one.id in without} - {
        one.commit for one in known if one.id not in without
    }
    wounded = {one.commit for one in known if one.damaged is not None}
    kept = stock.commits - spared
    return Roots(
        live=tuple(bytes.fromhex(commit) for commit in kept - wounded),
        wounded=(*(bytes.fromhex(commit) for commit in kept & wounded), *stock.strangers),
    )


def roots(context: Context, *, deleted_after: int | None = None) -> Roots:
    """Return what has to be kept of the store: all that exists, and what was deleted and is not dropped.

    With a time only what was deleted after it. Raises `Damaged` if a row was altered from outside.
    """
    return kept_of(inventory(context, deleted_after=deleted_after))


def _strangers(context: Context) -> Iterator[bytes]:
    """Yield the commits that no row names and nobody deleted, if they are not old.

    They are of saves that were killed, or of rows that the catalogue lost (its log deleted, an older
    copy of it put back) and that `verify --repair` can bring back: nobody can tell which.
    """
    known = {*context.catalogue.commits(), *context.catalogue.freed()}
    horizon = real_time(context).believed - STRANGER_LIFE
    for commit in context.engine.commits(besides=ids_of(known)):
        try:
            manifest = decode(context.engine.contents(commit).manifest)
        except LastgoodError:
            continue  # nothing could be brought back of it
        if manifest.created_at > horizon:
            yield commit


def ids_of(commits: Collection[str]) -> set[bytes]:
    """Return commits as the engine names them; what is no commit's id stands for none."""
    return {bytes.fromhex(one) for one in commits if len(one) == _DIGITS and _HEX.issuperset(one)}


def refuse_older(context: Context) -> None:
    """Refuse to free anything while the catalogue is older than its backup; `Damaged`."""
    if context.catalogue.is_older():
        raise Damaged(
            "the catalogue is older than its backup, which names more checkpoints: nothing is freed",
            hint="bring back what it has: lastgood verify --repair",
        )


class SweepTransaction(Transaction):
    """Holds the store alone: the only place from which bytes can be freed.

    `Damaged` where the catalogue is older than its own backup: what only that one names would be freed.
    """

    def _locks(self) -> Iterator[AbstractContextManager[ExclusiveHold]]:
        yield self.context.locks.hold_store(wait=self._wait)

    @property
    def catalogue(self) -> Catalogue:
        """All facts."""
        return self._writers.catalogue

    @property
    def engine(self) -> Engine:
        """What keeps the bytes, and frees them."""
        return self._writers.engine_of()

    def _admit(self) -> None:
        """Have what killed saves left be seen, so that nothing it may need is freed under it."""
        refuse_older(self.context)
        try:  # noqa: SIM105 - contextlib costs start-up time
            self.engine.collect_leftovers()
        except Storage:
            pass  # a full disk, which needs what is freed here; what is left of no save has no row
        self.engine.refresh()

    def sweep(self, kept: Roots) -> int:
        """Free what no commit reaches, and return how many bytes that were (invariant 4)."""
        self.catalogue.set_generation(self.context.clock.random().hex())
        freed = self.engine.sweep(kept.live, wounded=kept.wounded)
        self.catalogue.clear_freed()
        return freed
