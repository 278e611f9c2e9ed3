"""What the JSON documents say, the values of the Python API answer as attributes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from lastgood.documents import record

if TYPE_CHECKING:
    from lastgood.workspace import Workspace

# What sessions will fill; the documents hold null for them.
LATER = {
    "session",
    "position",
    "progress",
    "conversation",
    "tasks",
    "unknown_effects",
    "live_processes",
    "irreversible",
}


def _answers(document: dict[str, object], value: object) -> None:
    for field in set(document) - LATER - {"schema"}:
        # `from` is a word of the language.
        assert hasattr(value, "from_" if field == "from" else field), field


@pytest.fixture
def saved(workspace: Workspace) -> Workspace:
    with open(workspace.path + "/a.txt", "w", encoding="utf-8") as file:
        file.write("one\n")
    workspace.save("first", name="one", metadata={"k": "v"})
    with open(workspace.path + "/a.txt", "w", encoding="utf-8") as file:
        file.write("two\n")
    return workspace


def test_a_checkpoint_answers_every_field_of_its_record(saved: Workspace) -> None:
    checkpoint = saved.get("one")
    _answers(record(checkpoint), checkpoint)
    assert (checkpoint.files, checkpoint.bytes, checkpoint.ignored) == (1, 4, 0)
    assert (checkpoint.workspace, checkpoint.previous, checkpoint.session) == (saved.path, None, None)
    assert (checkpoint.changes.added, checkpoint.metadata) == (1, {"k": "v"})
    assert (checkpoint.actor.type, checkpoint.git, len(checkpoint.tree)) == ("unknown", None, 40)
    assert checkpoint.metrics.stored_bytes > 0


def test_the_moment_of_a_checkpoint_is_aware_of_its_zone(saved: Workspace) -> None:
    made = saved.get("one").created_at
    assert made.tzinfo is UTC
    assert abs((datetime.now(UTC) - made).total_seconds()) < 600
    said = record(saved.get("one"))
    assert made.isoformat(timespec="milliseconds").replace("+00:00", "Z") == said["created_at"]


def test_reports_answer_every_field_of_their_documents(saved: Workspace) -> None:
    plan = saved.plan_restore("one")
    diff = saved.diff()
    _answers(record(diff), diff)
    _answers(record(diff.files[0]), diff.files[0])
    status = saved.status()
    _answers(record(status), status)
    restored = saved.apply(plan)
    _answers(record(restored), restored)
    assert restored.plan == plan.id
    assert restored.counts["write"] == len(restored.files) == 1
    undone = saved.undo()
    _answers(record(undone), undone)
    assert [one.path for one in undone.files] == [b"a.txt"]
    save = saved.save("second")
    _answers(record(save), save)
    recovered = saved.recover()
    _answers(record(recovered), recovered)
    verified = saved.verify()
    _answers(record(verified), verified)
    deleted = saved.delete("one")
    _answers(record(deleted), deleted)
