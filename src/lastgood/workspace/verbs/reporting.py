"""What was done, and what it takes up."""

from __future__ import annotations

from lastgood.errors import Usage
from lastgood.model.activity import PERIODS
from lastgood.workspace.arguments import expect
from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.activity import Activity, Period
    from lastgood.model.finding import Finding


class Reports(Door):
    """Verbs that add up."""

    def report(self, period: Period = "all", *, session: str | None = None) -> Activity:
        """Return what was done in the last day, week or month (30 days), or in all time (rule K5).

        Of one session only, if its id or the beginning of it is given. Local time decides where
        a day begins.
        """
        from lastgood.actions.report import report

        if period not in PERIODS:
            raise Usage(f"{period!r} is no period", hint="periods: " + ", ".join(PERIODS))
        expect(session, str, type(None), what="the session")
        return report(self._context, period=period, session=session, offset=_offset())

    def report_page(self, activity: Activity) -> str:
        """Return a report as one HTML page with plots: no script in it, nothing loaded from elsewhere.

        Raises `Unsupported` if the libraries of ``lastgood[report]`` are not installed.
        """
        from lastgood.adapters.report.page import page

        return page(activity, offset=_offset())

    def examine(self) -> tuple[Finding, ...]:
        """Look at what everything relies upon: disk, locks, privacy, clocks, leases."""
        from lastgood.actions.session import listed
        from lastgood.workspace.examination import examine_leases, examine_store

        living = [one for one in listed(self._context) if one.state != "ended"]
        return (*examine_store(self._context), *examine_leases(self._context, living))


def _offset() -> int:
    """Return how far local time is from UTC, in seconds."""
    import time

    return time.localtime().tm_gmtoff
