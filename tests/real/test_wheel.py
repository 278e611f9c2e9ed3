"""Our wheel, installed as people do: what hosts are told to start is there, and makes checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tools.command import ROOT

pytestmark = pytest.mark.real

INSTALLERS = os.environ.get("LASTGOOD_TEST_INSTALLERS")
PAYLOAD = Path(ROOT, "tests/hooks/payloads/claude-code/UserPromptSubmit.json")


def run(*words: str | Path, environment: Mapping[str, str], stdin: str = "", cwd: str | Path = "/") -> str:
    """Run a command with no more of an environment than it is given, and return what it says."""
    done = subprocess.run(
        [str(one) for one in words],
        cwd=cwd,
        env=dict(environment),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built once, by what builds it for everybody."""
    place = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        place,
        environment=os.environ,
        cwd=ROOT,
    )
    (found,) = place.glob("lastgood-*.whl")
    return found


def test_it_holds_the_library_in_c_and_is_for_any_python(wheel: Path) -> None:
    assert "lastgood/scanner/libstates.so.2" in zipfile.ZipFile(wheel).namelist()
    assert wheel.name.split("-")[2:4] == ["py3", "none"]
    assert not wheel.name.endswith("-any.whl")


def test_without_a_compiler_it_is_for_any_machine(tmp_path: Path) -> None:
    run(
        *(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path),
        environment=os.environ | {"CC": "/nowhere/cc"},
        cwd=ROOT,
    )
    (found,) = tmp_path.glob("lastgood-*.whl")
    assert found.name.endswith("-py3-none-any.whl")
    assert "lastgood/scanner/libstates.so.2" not in zipfile.ZipFile(found).namelist()
    assert "lastgood/scanner/states.py" in zipfile.ZipFile(found).namelist()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home with a blank"
    place.mkdir()
    return place


def by_pip(wheel: Path, home: Path) -> Path:
    """Install into a virtual environment, without an index: what it needs beside it can wait."""
    place = home / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", place, environment={})
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--quiet"]
    run(*pip, "--no-index", "--no-deps", "--no-compile", wheel, environment={"HOME": str(home)})
    return place / "bin" / "lastgood"


def by_installer(name: str, wheel: Path, home: Path) -> Path:
    """Install for the user, as pipx and uv do: the program is linked to from ~/.local/bin."""
    if INSTALLERS is None:
        pytest.skip(f"{name} is tried by scripts/wheel")
    program = Path(INSTALLERS, "bin", name)
    words = ["tool", "install", "--python", sys.executable] if name == "uv" else ["install"]
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_"))}
    run(program, *words, wheel, environment=kept | {"HOME": str(home), "PATH": os.defpath})
    return home / ".local" / "bin" / "lastgood"


@pytest.mark.parametrize("how", ["pip", "pipx", "uv"])
def test_what_a_host_is_told_to_start_makes_checkpoints(
    how: str, wheel: Path, home: Path, project: Path, tmp_path: Path
) -> None:
    """By its whole path, so that it matters neither where it runs nor what is in the PATH there."""
    program = by_pip(wheel, home) if how == "pip" else by_installer(how, wheel, home)
    (project / "file").write_text("as it was")
    environment = {"HOME": str(home), "PATH": f"{program.parent}:{os.defpath}"}
    environment["LASTGOOD_WATCH_ON_DEMAND"] = "never"
    settings = json.loads(run("sh", "-c", "lastgood install claude-code --print", environment=environment))
    (group,) = settings["hooks"]["UserPromptSubmit"]
    (handler,) = group["hooks"]
    assert f'["{program}"]' in handler["args"][-3]
    line = json.loads(run(program, "install", "codex", "--print", environment=environment))
    (codex,) = line["hooks"]["Stop"][0]["hooks"]

    told: dict[str, Any] = json.loads(PAYLOAD.read_text()) | {"cwd": str(project)}
    told["transcript_path"] = str(tmp_path / "conversation.jsonl")
    own = {"HOME": str(home), "LASTGOOD_WATCH_ON_DEMAND": "never"}
    said = run(handler["command"], *handler["args"], environment=own, stdin=json.dumps(told))
    assert said == ""
    assert run("sh", "-c", codex["command"], environment=own, stdin="{}") == ""
    elsewhere = [
        word.replace("/site-packages", "/gone") for word in handler["args"]
    ]  # after another Python came
    assert run(handler["command"], *elsewhere, environment=own, stdin="{}") == ""
    kept = json.loads(run(program, "-C", project, "list", "--json", environment=own))["checkpoints"]
    assert [one["message"] for one in kept] == [told["prompt"]]
