"""What the JSON documents say, the values of the Python API answer as attributes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lastgood import documents
from lastgood.documents import changes
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
    _answers(documents.checkpoint_record(checkpoint), checkpoint)
    assert (checkpoint.files, checkpoint.bytes, checkpoint.ignored) == (1, 4, 0)
    assert (checkpoint.workspace, checkpoint.previous, checkpoint.session) == (saved.path, None, None)
    assert (checkpoint.changes.added, checkpoint.metadata) == (1, {"k": "v"})
    assert (checkpoint.actor.type, checkpoint.git, len(checkpoint.tree)) == ("unknown", None, 40)
    assert checkpoint.metrics.stored_bytes > 0


def test_the_moment_of_a_checkpoint_is_aware_of_its_zone(saved: Workspace) -> None:
    made = saved.get("one").created_at
    assert made.tzinfo is UTC
    assert abs((datetime.now(UTC) - made).total_seconds()) < 600
    record = documents.checkpoint_record(saved.get("one"))
    assert made.isoformat(timespec="milliseconds").replace("+00:00", "Z") == record["created_at"]


def test_reports_answer_every_field_of_their_documents(saved: Workspace) -> None:
    plan = saved.plan_restore("one")
    diff = saved.diff()
    _answers(documents.diff_document(diff), diff)
    _answers(documents.file_diff_record(diff.files[0]), diff.files[0])
    status = saved.status()
    _answers(documents.status_document(status), status)
    restored = saved.apply(plan)
    _answers(changes.restore_document("restore", restored), restored)
    assert restored.plan == plan.id
    assert restored.counts["write"] == len(restored.files) == 1
    undone = saved.undo()
    _answers(changes.undo_document("undo", undone), undone)
    assert [one.path for one in undone.files] == [b"a.txt"]
    save = saved.save("second")
    _answers(documents.save_document(save), save)
    recovered = saved.recover()
    _answers(changes.recover_document(recovered), recovered)
    verified = saved.verify()
    _answers(documents.verify_document(verified), verified)
    deleted = saved.delete("one")
    _answers(documents.delete_document("delete", deleted), deleted)
