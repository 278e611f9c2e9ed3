"""How much time has really passed, as far as a machine can tell whose clock may be set."""

from __future__ import annotations

from lastgood.model.canonical import Form
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.operation import Instant, Operation
    from lastgood.value import Timestamp


# So long (in nanoseconds) a clock has to stand before it is believed within one boot: an hour.
STANDS = 3600 * 1_000_000_000
# A clock that moved by less (in nanoseconds) was slewed, not set.
_SLEWED = 1_000_000_000
# Of so many boots that are over is known by which clock they ended.
_BOOTS = 16


class EndedBoot(Value):
    """A run of the machine that is over; ``began`` by the clock as it stood when that was looked at last."""

    id: str
    began: Timestamp


class TimeSeen(Value):
    """What maintenance saw of the clock, as of ``uptime`` in ``boot``.

    ``believed`` is the time that two looks agree upon: an hour apart, or in two boots. ``said`` is what
    the clock has said at least since ``since`` (an uptime). ``ended`` are earlier boots, the last first.
    """

    boot: str
    uptime: int
    believed: Timestamp
    said: Timestamp
    since: int
    ended: tuple[EndedBoot, ...] = ()


class RealTime(Value):
    """The present, and what was seen of the time up to it; ``seen`` is None where only the clock tells."""

    now: Instant
    seen: TimeSeen | None

    @property
    def believed(self) -> int:
        """What time it is, as far as that is sure: never later than the clock says."""
        return self.now.at if self.seen is None else min(self.now.at, self.seen.believed)

    def age(self, instant: Instant | Operation) -> int:
        """Return the nanoseconds that have passed since an instant, or an operation, as far as that is sure.

        Within one boot that is known. Beyond it the clock counts, but none that was set just now.
        """
        now, seen = self.now, self.seen
        if seen is None:
            return now.at - instant.at
        if now.boot == instant.boot and now.uptime is not None and instant.uptime is not None:
            passed = now.uptime - instant.uptime
            if passed >= 0:  # less where the machine itself was taken back to an earlier moment
                return passed
        return self.believed - _by_last_clock(instant, seen.ended, believed=self.believed)


def look(seen: TimeSeen | None, now: Instant) -> TimeSeen | None:
    """Return what is seen of the time after one more look; None where only the clock tells."""
    if now.boot is None or now.uptime is None:
        return None
    if seen is None:
        return TimeSeen(boot=now.boot, uptime=now.uptime, believed=0, said=now.at, since=now.uptime)
    passed = now.uptime - seen.uptime
    if now.boot != seen.boot or passed < 0:
        over = EndedBoot(id=seen.boot, began=seen.said - seen.uptime)
        others = (one for one in seen.ended if one.id != over.id)
        return TimeSeen(
            boot=now.boot,
            uptime=now.uptime,
            believed=min(seen.said, now.at),
            said=now.at,
            since=now.uptime,
            ended=(over, *others)[:_BOOTS],
        )
    said = min(seen.said + passed, now.at)
    if now.uptime - seen.since >= STANDS:
        return seen.replace(uptime=now.uptime, believed=said, said=now.at, since=now.uptime)
    return seen.replace(uptime=now.uptime, believed=min(seen.believed + passed, now.at), said=said)


def is_news(seen: TimeSeen | None, found: TimeSeen) -> bool:
    """Tell whether a look found what has to be remembered, and not only that time passed."""
    if seen is None or seen.boot != found.boot:
        return True
    passed = found.uptime - seen.uptime
    moved = (found.believed - seen.believed - passed, found.said - seen.said - passed)
    return not 0 <= passed < STANDS or any(abs(by) > _SLEWED for by in moved)


def _by_last_clock(instant: Instant | Operation, ended: tuple[EndedBoot, ...], *, believed: int) -> int:
    """Return when an instant of another boot was: not before what that boot's clock came to say of it.

    Just then if it is still to come by the time that is ``believed``: the clock was ahead.
    """
    began = next((one.began for one in ended if one.id == instant.boot), None)
    if began is None or instant.uptime is None:
        return instant.at
    told = began + instant.uptime
    return told if instant.at > believed else max(instant.at, told)


TIME_SEEN = Form(TimeSeen, "what was seen of the time", EndedBoot=Form(EndedBoot))
