"""Spans and metrics of what happens in a workspace, for OpenTelemetry; needs ``lastgood[otel]``.

>>> from lastgood.integrations.opentelemetry import Telemetry
>>> with lastgood.open(project, store=store) as workspace:
...     end = workspace.subscribe(Telemetry())
...     workspace.save("before the refactor").created
True

Spans (operations that failed have status ERROR): ``lastgood.save``, ``lastgood.restore``, ``lastgood.undo``,
``lastgood.delete``, ``lastgood.prune``, ``lastgood.task`` and ``lastgood.session`` (from their start to their
end). Metrics: ``lastgood.operations``, ``lastgood.operation.duration``, ``lastgood.checkpoints``,
``lastgood.stored``, ``lastgood.gaps``, ``lastgood.paths``, ``lastgood.tasks``. File names, messages, commands
and conversations are in neither.
"""

from __future__ import annotations

from lastgood.errors import LastgoodError
from lastgood.integrations import missing
from lastgood.model.checkpoint import Checkpoint, SaveReport
from lastgood.model.operation import Event
from lastgood.model.report import (
    DeleteReport,
    ProgressReport,
    RestoreReport,
    SessionEnded,
    SessionStarted,
    UndoReport,
)

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider
    from opentelemetry.trace import (
        Span,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
        get_current_span,
        set_span_in_context,
    )
except ModuleNotFoundError as _absent:
    raise missing(_absent, extra="otel") from _absent

Attributes = dict[str, str | int | bool]


_OPERATIONS = {
    "saved": "save",
    "restored": "restore",
    "undone": "undo",
    "deleted": "delete",
    "pruned": "prune",
    "session_started": "session",
    "session_ended": "session",
    "task_changed": "task",
}
_ENDED_TASK = {"done", "failed", "skipped"}


class Telemetry:
    """An observer that writes spans and metrics, by the providers given or the program's own.

    Hand it to ``subscribe`` of any workspace; one may observe several. A span's parent is the
    span that was current where the verb was called; of tasks and saves of a session that began before
    its eyes it is the session's, unless the caller opened a span of its own in between.
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        self._spans = _Spans(trace.get_tracer("lastgood", tracer_provider=tracer_provider))
        self._metrics = _Metrics(metrics.get_meter("lastgood", meter_provider=meter_provider))

    def __call__(self, event: Event) -> None:
        """Tell of an event."""
        self._spans.tell(event)
        self._metrics.tell(event)


class _Spans:
    """Writes what happened as spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        # The sessions that began before our eyes and last, each with what was current when it began.
        self._sessions: dict[str, tuple[Span, Span]] = {}

    def tell(self, event: Event) -> None:
        """Write the span of an event, if it has one."""
        report = event.report
        if isinstance(report, SessionStarted):
            self._begin(event, report)
        elif isinstance(report, ProgressReport):
            self._tell_of_task(event, report)
        elif isinstance(report, SessionEnded):
            self._end(event, report)
        else:
            began, ended = _times(event)
            session = report.checkpoint.session if isinstance(report, SaveReport) else None
            span = self._start(_operation(event), began, _attributes(event), session=session)
            _finish(span, ended, error=_error(event))

    def _begin(self, event: Event, report: SessionStarted) -> None:
        session, around = report.session.session, get_current_span()
        begun = (report.continued and event.began) or session.started_at
        span = self._start("session", begun, _place(event, session=session.id))
        self._sessions[session.id] = (span, around)

    def _end(self, event: Event, report: SessionEnded) -> None:
        session = report.session.session
        attributes = _place(event, session=session.id)
        attributes["lastgood.session.state"] = report.session.state
        if session.ended_by is not None:
            attributes["lastgood.session.ended_by"] = session.ended_by
        error = None if report.session.state == "ended" else f"session {report.session.state}"
        span, _ = self._sessions.pop(session.id, (None, None))
        if span is None:
            span = self._start("session", session.started_at, attributes)
        span.set_attributes(attributes)
        _finish(span, session.ended_at, error=error)

    def _tell_of_task(self, event: Event, report: ProgressReport) -> None:
        task = report.task
        if task is None or task.state not in _ENDED_TASK:
            return
        attributes: Attributes = {"lastgood.task.id": task.id, "lastgood.task.state": task.state}
        attributes |= {"lastgood.task.attempts": task.attempts, **_place(event, session=report.session)}
        began = task.started_at or task.ended_at
        span = self._start("task", began, attributes, session=report.session)
        _finish(span, task.ended_at, error="task failed" if task.state == "failed" else None)

    def _start(
        self, operation: str, began: int | None, attributes: Attributes, *, session: str | None = None
    ) -> Span:
        """Begin a span: in that of its session, unless the caller opened one since that began."""
        known = self._sessions.get(session) if session is not None else None
        within = None
        if known is not None and get_current_span() is known[1]:
            within = set_span_in_context(known[0])
        name = f"lastgood.{operation}"
        return self._tracer.start_span(name, context=within, start_time=began, attributes=attributes)


def _finish(span: Span, ended: int | None, *, error: str | None) -> None:
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(end_time=ended)


class _Metrics:
    """Counts and measures what happened."""

    def __init__(self, meter: Meter) -> None:
        self._operations = _counter(meter, "operations", "Operations, by outcome.")
        self._duration: Histogram = meter.create_histogram(
            "lastgood.operation.duration", unit="s", description="How long operations took."
        )
        self._checkpoints = _counter(meter, "checkpoints", "Checkpoints made, by kind.")
        self._stored = _counter(meter, "stored", "Bytes that checkpoints added to the store.", unit="By")
        self._gaps = _counter(meter, "gaps", "Paths that checkpoints do not hold, and earlier ones did.")
        self._paths = _counter(meter, "paths", "Paths of restores and undos, by what became of them.")
        self._tasks = _counter(meter, "tasks", "Tasks that ended, by how.")

    def tell(self, event: Event) -> None:
        """Count an event."""
        labels = {"lastgood.operation": _operation(event)}
        if isinstance(event.report, LastgoodError):
            labels["error.type"] = event.report.code
        self._operations.add(1, labels)
        began, ended = _times(event)
        if began is not None and ended is not None:
            self._duration.record((ended - began) / 1e9, labels)
        report = event.report
        if isinstance(report, SaveReport):
            self._tell_of_checkpoint(report)
        elif isinstance(report, RestoreReport | UndoReport):
            for outcome in report.outcomes:
                self._paths.add(1, {"lastgood.result": outcome.result})
        elif isinstance(report, ProgressReport) and report.task and report.task.state in _ENDED_TASK:
            self._tasks.add(1, {"lastgood.task.state": report.task.state})

    def _tell_of_checkpoint(self, report: SaveReport) -> None:
        if not report.created:
            return
        kind = {"lastgood.checkpoint.kind": report.checkpoint.kind}
        self._checkpoints.add(1, kind)
        self._stored.add(report.checkpoint.metrics.stored_bytes, kind)
        self._gaps.add(len(report.new_gaps), kind)


def _counter(meter: Meter, name: str, description: str, *, unit: str = "1") -> Counter:
    return meter.create_counter(f"lastgood.{name}", unit=unit, description=description)


def _operation(event: Event) -> str:
    return _OPERATIONS.get(event.attempted or event.type, event.type)


def _times(event: Event) -> tuple[int | None, int | None]:
    """Return when an operation began and ended; of a checkpoint that came of another verb by its own word."""
    if event.began is None and isinstance(event.report, SaveReport) and event.ended is not None:
        return event.ended - round(event.report.checkpoint.metrics.save_ms * 1e6), event.ended
    return event.began, event.ended


def _error(event: Event) -> str | None:
    return event.report.code if isinstance(event.report, LastgoodError) else None


def _attributes(event: Event) -> Attributes:
    """Return what a span says of an operation."""
    report = event.report
    found: Attributes = _place(event, session=None)
    if isinstance(report, LastgoodError):
        found["error.type"] = report.code
    elif isinstance(report, SaveReport):
        found |= _checkpoint(report.checkpoint)
        found |= {"lastgood.created": report.created, "lastgood.gaps.new": len(report.new_gaps)}
    elif isinstance(report, RestoreReport):
        found |= {f"lastgood.paths.{action}": count for action, count in report.counts.items() if count}
        found |= {"lastgood.checkpoint.id": report.target, "lastgood.complete": report.complete}
    elif isinstance(report, UndoReport):
        found["lastgood.complete"] = report.complete
    elif isinstance(report, DeleteReport):
        found["lastgood.checkpoints"] = len(report.checkpoints)
    return found


def _place(event: Event, *, session: str | None) -> Attributes:
    found: Attributes = {"lastgood.workspace": event.workspace}
    if session is not None:
        found["lastgood.session.id"] = session
    return found


def _checkpoint(checkpoint: Checkpoint) -> Attributes:
    found: Attributes = {
        "lastgood.checkpoint.id": checkpoint.id,
        "lastgood.checkpoint.kind": checkpoint.kind,
        "lastgood.files": checkpoint.files,
        "lastgood.bytes": checkpoint.bytes,
        "lastgood.stored": checkpoint.metrics.stored_bytes,
    }
    if checkpoint.session is not None:
        found["lastgood.session.id"] = checkpoint.session
    if checkpoint.task is not None:
        found["lastgood.task.id"] = checkpoint.task
    return found
