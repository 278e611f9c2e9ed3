"""A conversation that was brought back is one that the real program resumes (T11)."""

from __future__ import annotations

from pathlib import Path

import pytest

import lastgood
from real.hosts import Host
from tools.scripted_model import ANSWER, ScriptedModel
from tools.values import not_none

pytestmark = pytest.mark.real


@pytest.mark.chance("what a real agent program does, and when")
@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_the_host_goes_on_from_the_checkpoint_in_a_session_of_its_own(
    name: str, tmp_path: Path, project: Path, store: Path
) -> None:
    """P5, T8, T11."""
    home = tmp_path / "home"
    home.mkdir()
    with (
        ScriptedModel() as model,
        lastgood.open(project, store=store, maintenance="off") as workspace,
    ):
        host = Host(name, home=home, project=project, model=model.url)
        host.say("the first question")
        (original,) = host.transcripts()
        before = original.read_bytes()
        kept = workspace.save("first", transcript=original).checkpoint
        assert not_none(kept.conversation).form == name
        assert workspace.transcript(kept.id) == before
        said = str(workspace.conversation(kept.id))
        assert "the first question" in said
        assert ANSWER in said

        host.say("the second question", resume=original.stem[-36:])
        later = original.read_bytes()
        assert later.startswith(before)
        report = workspace.restore(kept.id, only=["conversation"])
        assert report.conversation is not None
        (copy,) = host.transcripts() - {original}
        assert str(copy) == report.conversation["transcript"]
        assert copy.stat().st_mode & 0o777 == 0o600
        assert original.read_bytes() == later

        workspace.undo()
        assert not copy.exists()
        workspace.redo()
        model.asked.clear()
        resume = str(report.conversation["resume_command"]).split()[-1]
        host.say("the third question", resume=resume)
        asked = [one for one in model.asked if "the third question" in one]
        assert asked
        assert all("the first question" in one and "the second question" not in one for one in asked)
        assert original.read_bytes() == later
        assert host.transcripts() == {original, copy}

        # It was continued: an undo would lose the third question.
        outcome = workspace.undo().parts[0]
        assert (outcome.result, copy.exists()) == ("kept", True)
