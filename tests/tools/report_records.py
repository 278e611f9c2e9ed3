"""Facts to make reports from, of which only some matter."""

from __future__ import annotations

from typing import Any

from lastgood.model.activity import Activity, Records, Sizes
from lastgood.model.checkpoint import Checkpoint, Metrics
from lastgood.model.session import Features, Owner, Progress, Session, SessionReport, Task
from lastgood.model.tree import Gap
from lastgood.reporting.activity import summarised
from tools import manifests

SECOND = 10**9
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
NOW = 1_790_000_000 * SECOND

# Texts that would do harm if a page took them for more than text.
HOSTILE = (
    "<script>document.title='harmed'</script>",
    "</title><script>document.title='harmed'</script>",
    "</style></svg><img src=x onerror=\"document.title='harmed'\">",
    '"><svg onload="document.title=\'harmed\'">',
    "' onmouseover='harm()' x='",
    "<!--<script>--><a href=\"javascript:document.title='harmed'\">]]>",
    "{{ 7 * 7 }}{% raw %}&lt;b&gt;&amp;",
    "\x00\x1b[31m\ud800\udcff\u202e\r\n\ufffe",
)


def checkpoint(number: int, *, at: int = NOW, **facts: Any) -> Checkpoint:
    metrics = Metrics(**{name: facts.pop(name) for name in tuple(facts) if name in Metrics._fields})
    return manifests.checkpoint(number, created_at=at, metrics=metrics, **facts)


def session(
    name: str, *, started: int, beat: int | None = None, tasks: tuple[Task, ...] = (), **facts: Any
) -> SessionReport:
    state = facts.pop("state", "ended")
    completed = facts.pop("completed", ())
    made = Session(
        id=name,
        workspace_key="w",
        owner=Owner(host="h"),
        started_at=started,
        heartbeat_at=started if beat is None else beat,
        **facts,
    )
    progress = Progress(tasks=tasks, features=Features(completed=completed))
    return SessionReport(session=made, state=state, progress=progress)


def task(name: str, state: Any = "done", *, start: int | None = None, end: int | None = None) -> Task:
    return Task(id=name, state=state, attempts=1, started_at=start, ended_at=end)


def activity(*checkpoints: Checkpoint, **facts: Any) -> Activity:
    """Sum up; the facts that are no argument of the rule are records."""
    given: dict[str, Any] = {
        name: facts.pop(name) for name in ("period", "session", "offset", "now") if name in facts
    }
    sizes = facts.pop("sizes", Sizes())
    records = Records(checkpoints=checkpoints[::-1], sessions=facts.pop("sessions", ()), **facts)
    workspace = "/w"
    return summarised(records, workspace=workspace, store="/s", sizes=sizes, **({"now": NOW} | given))


def busy() -> Activity:
    """Return a report in which everything occurs."""
    tasks = (
        task("T01 schema", start=NOW - 5 * HOUR, end=NOW - 4 * HOUR),
        task("T02 tests", "failed", start=NOW - 4 * HOUR, end=NOW - 3 * HOUR),
        task("T03 docs", "running", start=NOW - HOUR),
    )
    ran = task("command", start=NOW - 20 * MINUTE, end=NOW - 10 * MINUTE)
    return activity(
        *(
            checkpoint(
                number,
                at=NOW - (40 - number) * 9 * MINUTE,
                kind=kind,
                session="sess_1",
                stored_bytes=number * 3000,
                save_ms=20.0 + number,
                tokens=number * 700,
                message=f"turn {number}",
                good=True if number % 9 == 0 else None,
            )
            for number, kind in enumerate(("turn", "tool", "task", "manual", "guard", "error") * 6, start=1)
        ),
        sessions=(
            session(
                "sess_1", started=NOW - 6 * HOUR, beat=NOW, state="incomplete", tasks=tasks, goal="a goal"
            ),
            session("sess_2", started=NOW - HOUR, tasks=(ran,), goal="claude -p 'fix the tests'"),
        ),
        commands=frozenset({"sess_2"}),
        sizes=Sizes(workspace=5 << 20, deleted=1 << 20, store=9 << 20, prunable=2 << 20),
    )


def hostile() -> Activity:
    """Return a report whose every free text is hostile."""
    texts = tuple(enumerate(HOSTILE, start=1))
    return activity(
        *(
            checkpoint(number, at=NOW - number * HOUR, message=text, session=f"s{number}", gaps=GAPS)
            for number, text in texts
        ),
        *(checkpoint(100 + number, at=NOW - number * HOUR, name=text) for number, text in texts),
        sessions=tuple(
            session(
                f"s{number}",
                started=NOW - 2 * HOUR,
                state="incomplete",
                goal=text,
                tasks=(task(text, start=NOW - HOUR, end=NOW),),
            )
            for number, text in texts
        )
        + tuple(
            session(f"c{number}", started=NOW - HOUR, goal=text, tasks=(task("command", end=NOW),))
            for number, text in texts
        ),
        commands=frozenset(f"c{number}" for number, _ in texts),
    ).replace(workspace=f"/w/{HOSTILE[0]}", session=HOSTILE[2])


GAPS = (Gap(path=b"<script>", reason="too-large", size=1),)
