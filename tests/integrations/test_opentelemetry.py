"""What OpenTelemetry is told, by its own SDK's account."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import DataPointT, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import lastgood
from lastgood.errors import Conflict
from lastgood.integrations.opentelemetry import Telemetry
from lastgood.workspace import Workspace
from tools.values import not_none


class Collector:
    """Keeps what a program would export."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.telemetry = Telemetry(
            tracer_provider=self.tracers, meter_provider=MeterProvider(metric_readers=[self._reader])
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def counts(self, name: str) -> dict[tuple[tuple[str, object], ...], float]:
        """Return the points of a metric by their labels; of a histogram how many there were."""
        collected = not_none(self._reader.get_metrics_data())
        return {
            tuple(sorted((point.attributes or {}).items())): amount(point)
            for resource in collected.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }


def amount(point: DataPointT) -> float:
    return point.value if isinstance(point, NumberDataPoint) else point.count


@pytest.fixture
def collector() -> Collector:
    return Collector()


def said(span: ReadableSpan) -> Mapping[str, object]:
    return not_none(span.attributes)


def test_operations_are_spans_with_their_own_times(
    workspace: Workspace, project: Path, collector: Collector
) -> None:
    workspace.subscribe(collector.telemetry)
    (project / "a.txt").write_text("one")
    first = workspace.save("a secret plan").checkpoint
    (project / "a.txt").write_text("two")
    workspace.restore(first.id)
    workspace.undo()
    workspace.delete(first.id)
    workspace.prune()
    names = ["save", "restore", "save", "undo", "delete", "prune"]
    assert [span.name for span in collector.spans] == [f"lastgood.{name}" for name in names]
    save, restore, guard = collector.spans[:3]
    assert said(guard)["lastgood.checkpoint.kind"] == "guard"
    assert said(save)["lastgood.checkpoint.id"] == first.id
    assert said(save)["lastgood.checkpoint.kind"] == "manual"
    assert said(restore)["lastgood.paths.write"] == 1
    for span in collector.spans:
        assert not_none(span.start_time) < not_none(span.end_time)
        assert span.status.status_code is not StatusCode.ERROR
        assert "secret" not in span.to_json()
        assert "a.txt" not in span.to_json()


def test_sessions_and_tasks_are_spans_over_their_whole_life(
    workspace: Workspace, project: Path, collector: Collector
) -> None:
    workspace.subscribe(collector.telemetry)
    with workspace.session() as session:
        with session.task("T01"):
            (project / "a.txt").write_text("one")
        with pytest.raises(ValueError, match="broken"), session.task("T02"):
            raise ValueError("broken")
    (of_session,) = collector.named("lastgood.session")
    assert said(of_session)["lastgood.session.id"] == session.id
    assert of_session.start_time == session.started.session.session.started_at
    done, failed = collector.named("lastgood.task")
    assert (said(done)["lastgood.task.id"], said(done)["lastgood.task.state"]) == ("T01", "done")
    assert failed.status.status_code is StatusCode.ERROR
    assert collector.counts("lastgood.tasks") == {
        (("lastgood.task.state", "done"),): 1,
        (("lastgood.task.state", "failed"),): 1,
    }
    saves = collector.named("lastgood.save")
    assert [said(span)["lastgood.checkpoint.kind"] for span in saves] == [
        one.kind for one in reversed(workspace.list())
    ]
    assert all(span.start_time < span.end_time for span in saves if span.start_time and span.end_time)


def test_a_session_that_was_broken_off_is_an_error(workspace: Workspace, collector: Collector) -> None:
    workspace.subscribe(collector.telemetry)
    with pytest.raises(KeyboardInterrupt), workspace.session():
        raise KeyboardInterrupt
    (span,) = collector.named("lastgood.session")
    assert said(span)["lastgood.session.ended_by"] == "interrupted"
    assert span.status.status_code is StatusCode.ERROR


def test_a_sessions_span_is_the_parent_of_its_tasks_and_saves(
    workspace: Workspace, project: Path, collector: Collector
) -> None:
    workspace.subscribe(collector.telemetry)
    tracer = collector.tracers.get_tracer("agent")
    with tracer.start_as_current_span("request"), workspace.session() as session:
        with session.task("T01"):
            (project / "a.txt").write_text("one")
        session.save("between")
    (of_session,) = collector.named("lastgood.session")
    (request,) = collector.named("request")
    inner = [*collector.named("lastgood.task"), *collector.named("lastgood.save")[:-1]]
    assert {not_none(span.parent).span_id for span in inner} == {not_none(of_session.context).span_id}
    assert not_none(of_session.parent).span_id == not_none(request.context).span_id


def test_a_span_that_the_caller_opens_within_a_session_stays_the_parent(
    workspace: Workspace, project: Path, collector: Collector
) -> None:
    workspace.subscribe(collector.telemetry)
    tracer = collector.tracers.get_tracer("agent")
    with workspace.session() as session, tracer.start_as_current_span("turn"), session.task("T01"):
        (project / "a.txt").write_text("one")
    (turn,), (task,) = collector.named("turn"), collector.named("lastgood.task")
    assert not_none(task.parent).span_id == not_none(turn.context).span_id


def test_a_reference_to_nothing_is_a_failure_that_is_told(workspace: Workspace, collector: Collector) -> None:
    workspace.subscribe(collector.telemetry)
    with pytest.raises(lastgood.NotFound):
        workspace.restore("nowhere")
    with pytest.raises(lastgood.NotFound):
        workspace.delete("nowhere")
    assert [span.name for span in collector.spans] == ["lastgood.restore", "lastgood.delete"]
    assert [said(span)["error.type"] for span in collector.spans] == ["not-found", "not-found"]


def test_failures_say_what_they_would_have_been(workspace: Workspace, collector: Collector) -> None:
    workspace.subscribe(collector.telemetry)
    with pytest.raises(lastgood.NotFound):
        workspace.undo()
    with pytest.raises(Conflict):
        workspace.task_done("T99")
    assert [span.name for span in collector.spans] == ["lastgood.undo", "lastgood.task"]
    assert [said(span)["error.type"] for span in collector.spans] == ["not-found", "conflict"]
    assert collector.counts("lastgood.operations") == {
        (("error.type", "not-found"), ("lastgood.operation", "undo")): 1,
        (("error.type", "conflict"), ("lastgood.operation", "task")): 1,
    }


def test_what_is_counted(workspace: Workspace, project: Path, collector: Collector) -> None:
    workspace.subscribe(collector.telemetry)
    (project / "a.txt").write_text("one")
    first = workspace.save("one").checkpoint
    workspace.save()
    (project / "a.txt").write_text("two")
    workspace.restore(first.id)
    manual = (("lastgood.checkpoint.kind", "manual"),)
    guard = (("lastgood.checkpoint.kind", "guard"),)
    assert collector.counts("lastgood.checkpoints") == {manual: 1, guard: 1}
    assert collector.counts("lastgood.stored")[manual] == first.metrics.stored_bytes
    assert collector.counts("lastgood.paths") == {(("lastgood.result", "restored"),): 1}
    assert collector.counts("lastgood.operation.duration") == {
        (("lastgood.operation", "save"),): 3,
        (("lastgood.operation", "restore"),): 1,
    }


@pytest.mark.parametrize("face", ["synchronous", "asynchronous"])
def test_the_callers_span_is_the_parent(project: Path, store: Path, collector: Collector, face: str) -> None:
    tracer = collector.tracers.get_tracer("agent")

    async def main() -> None:
        async with lastgood.open_async(project, store=store, maintenance="off") as workspace:
            workspace.subscribe(collector.telemetry)
            with tracer.start_as_current_span("turn"):
                await workspace.save("one")

    if face == "asynchronous":
        asyncio.run(main())
    else:
        with lastgood.open(project, store=store, maintenance="off") as workspace:
            workspace.subscribe(collector.telemetry)
            with tracer.start_as_current_span("turn"):
                workspace.save("one")
    save, turn = collector.spans
    assert not_none(save.parent).span_id == not_none(turn.context).span_id


def test_without_opentelemetry_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "try: from lastgood.integrations.opentelemetry import Telemetry\n"
        "except ImportError as error: print(type(error).__name__, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "Missing pip install 'lastgood[otel]'\n"
