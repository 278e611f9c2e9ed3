"""PraisonAI's own package: its agent with our service in place of its own, and the two compared."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.integrations.praisonai import CheckpointService
from tools.scripted_openai import ScriptedCompletions

pytestmark = pytest.mark.real

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.environ.get("LASTGOOD_TEST_CACHE") or os.path.join(ROOT, ".cache", "real")
SOURCE = os.path.dirname(os.path.dirname(lastgood.__file__))
OURS, THEIRS = "lastgood.integrations.praisonai", "praisonaiagents.checkpoints"
_SECONDS = 600


def told(program: str, *words: str, home: Path, place: Path | None = None, model: str = "") -> Any:
    """Run a program beside the real package, and return what it printed last."""
    packages = os.path.join(CACHE, "praisonai")
    if not os.path.isdir(packages):
        pytest.skip(f"praisonaiagents is not in {CACHE}: run scripts/real_praisonai")
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, program), *words],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": os.pathsep.join([SOURCE, packages]),
            "PRAISONAI_TELEMETRY_DISABLED": "true",
            "DO_NOT_TRACK": "true",
            "NO_PROXY": "127.0.0.1",
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": model,
            "OPENAI_API_BASE": model,
            **{name: text for name, text in os.environ.items() if name.startswith("GIT_")},
        },
        cwd=home if place is None else place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home of its own."""
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


@pytest.mark.chance("what a real agent framework does, and when")
def test_the_agent_edits_files_under_our_service_and_every_edit_can_be_taken_back(
    project: Path, tmp_path: Path, home: Path
) -> None:
    prices = project / "prices.py"
    prices.write_text("RATE = 1\n")
    storage = tmp_path / "storage"
    script = [
        ("write_file", {"filepath": "prices.py", "content": text}) for text in ("RATE = 2\n", "RATE = 3\n")
    ]
    with ScriptedCompletions(*script, "all done") as model:
        report = told(
            "praisonai_program.py", str(project), str(storage), home=home, place=project, model=model.url
        )
    assert report == {
        "answer": "all done",
        "success": True,
        "told": ["Before autonomous execution", "Before write_file"],
    }
    assert prices.read_text() == "RATE = 3\n"

    async def back() -> list[str]:
        service = CheckpointService(str(project), str(storage))
        assert await service.initialize()
        newest, *_ = await service.list()
        assert (await service.restore(newest.id)).success
        seen = [prices.read_text()]
        assert (await service.rewind()).success
        return [*seen, prices.read_text()]

    assert asyncio.run(back()) == ["RATE = 2\n", "RATE = 1\n"]


def test_our_surface_holds_all_of_theirs(home: Path) -> None:
    theirs = told("praisonai_surface.py", THEIRS, home=home)
    ours = told("praisonai_surface.py", OURS, home=home)
    assert ours["events"].pop("DELETED") == "checkpoint_deleted"  # the guide's
    for what in ("events", "fields", "excludes", "storage"):
        assert ours[what] == theirs[what]
    assert set(theirs["properties"]) <= set(ours["properties"])
    assert {name: ours["methods"].get(name) for name in theirs["methods"]} == theirs["methods"]


def test_a_user_sees_the_same_of_both(tmp_path: Path, home: Path) -> None:
    seen = {}
    for package in (THEIRS, OURS):
        project = tmp_path / package / "project"
        project.mkdir(parents=True)
        storage = tmp_path / package / "storage"
        seen[package] = told("praisonai_surface.py", package, str(project), str(storage), home=home)
    assert seen[OURS] == seen[THEIRS]
