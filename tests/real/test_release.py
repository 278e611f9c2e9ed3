"""A release holds what it has to, and installed as people do it makes checkpoints.

Every run of the checks makes what this machine alone can; `scripts/release` has the whole of one tried.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lastgood import __version__
from lastgood.scanner import states
from tools.command import ROOT

pytestmark = pytest.mark.real

# A release that scripts/release has made, the same made again, and the installers that it has fetched.
RELEASE, AGAIN = os.environ.get("LASTGOOD_TEST_RELEASE"), os.environ.get("LASTGOOD_TEST_RELEASE_AGAIN")
INSTALLERS = os.environ.get("LASTGOOD_TEST_INSTALLERS")
PAYLOAD = Path(ROOT, "tests/hooks/payloads/claude-code/UserPromptSubmit.json")
LIBRARY = f"lastgood/scanner/{os.path.basename(states._LIBRARY)}"
HATCHLING = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d")
NO_COMPILER = {"CC": "/nowhere/cc"}


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


# --- What is in it ---


def made(place: Path, *, umask: int) -> Path:
    words = [sys.executable, os.path.join(ROOT, "scripts/release"), "--short", str(place)]
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, umask=umask, check=True)
    return place


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sources and the wheels."""
    return Path(RELEASE) if RELEASE else made(tmp_path_factory.mktemp("release"), umask=0o022)


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same, made by somebody else."""
    return Path(AGAIN) if AGAIN else made(tmp_path_factory.mktemp("again"), umask=0o077)


def found_in(release: Path, what: str) -> Path:
    """Return the wheel for this machine, that for any, or the sources."""
    system = "manylinux_2_17" if RELEASE else "linux"
    ends = {"machine": f"-{system}_{platform.machine()}.whl", "any": "-any.whl", "sources": ".tar.gz"}
    (found,) = (path for path in release.iterdir() if path.name.endswith(ends[what]))
    return found


def in_wheel(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def in_git(*under: str) -> dict[str, bytes]:
    """Return what git has, or would take: what each file holds."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *under]
    names = run(*words, environment=os.environ, cwd=ROOT).split("\0")
    return {name: Path(ROOT, name).read_bytes() for name in names if name}


def test_the_sources_are_what_git_has(release: Path) -> None:
    held = {}
    with tarfile.open(found_in(release, "sources")) as archive:
        for one in archive:
            if file := archive.extractfile(one):
                held[one.name.partition("/")[2]] = file.read()
    assert f"\nVersion: {__version__}\n".encode() in held.pop("PKG-INFO")
    assert held == in_git()


def test_a_wheel_holds_the_package_and_where_it_is_for_one_platform_the_library(release: Path) -> None:
    package = {name.removeprefix("src/"): held for name, held in in_git("src").items()}
    for wheel in release.glob("*.whl"):
        held = in_wheel(wheel)
        about = f"lastgood-{__version__}.dist-info/"
        told = {name: held.pop(name) for name in [*held] if name.startswith(about)}
        beside = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
        assert {name.removeprefix(about) for name in told} == beside
        assert f"\nVersion: {__version__}\n".encode() in told[f"{about}METADATA"]
        assert (held.pop(LIBRARY, None) is None) == wheel.name.endswith("-any.whl")
        assert held == package


def test_what_it_holds_is_for_any_python(release: Path) -> None:
    for wheel in release.glob("*.whl"):
        assert wheel.name.split("-")[1:4] == [__version__, "py3", "none"]


def test_the_library_tells_nothing_of_where_it_was_made(release: Path) -> None:
    for wheel in release.glob("*linux*.whl"):
        assert not re.search(rb"/\w+/", in_wheel(wheel)[LIBRARY])


def test_the_same_sources_make_the_same_bytes_wherever_they_lie(release: Path, again: Path) -> None:
    one, other = ({path.name: path.read_bytes() for path in place.iterdir()} for place in (release, again))
    assert [name for name in one | other if one.get(name) != other.get(name)] == []


def test_without_a_compiler_a_wheel_is_for_any_machine(tmp_path: Path) -> None:
    run(*HATCHLING, tmp_path, environment=os.environ | NO_COMPILER, cwd=ROOT)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert LIBRARY not in in_wheel(wheel)


def test_a_wheel_that_was_to_have_the_library_is_not_made_without(tmp_path: Path) -> None:
    asked = {"LASTGOOD_WHEEL": "manylinux_2_17_riscv64", **NO_COMPILER}
    done = subprocess.run(
        [*HATCHLING, tmp_path], env=os.environ | asked, cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode != 0
    assert b"for manylinux_2_17_riscv64: /nowhere/cc: No such file" in done.stdout + done.stderr
    assert [*tmp_path.iterdir()] == []


# --- Installed ---


def test_who_wants_no_binary_gets_a_library_compiled_on_the_spot(release: Path, tmp_path: Path) -> None:
    words = ["--no-binary", "lastgood", "--no-index", "--no-deps", "--no-build-isolation", "-f", str(release)]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "-w", str(tmp_path), *words]
    run(*pip, "lastgood", environment=os.environ, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith(f"-linux_{platform.machine()}.whl")
    assert LIBRARY in in_wheel(wheel)


def test_what_an_installer_chooses_here_has_the_library(release: Path) -> None:
    said = run(sys.executable, os.path.join(ROOT, "scripts/try_release"), release, environment=os.environ)
    assert said == f"lastgood {__version__} saves and restores; stat: as quick as it gets here\n"


@pytest.mark.skipif(RELEASE is None, reason="scripts/release makes wheels for other machines")
def test_elsewhere_an_installer_chooses_what_runs_there(release: Path, tmp_path: Path) -> None:
    """As uv chooses, which knows of platforms that it does not run on."""
    chosen = {
        "x86_64-manylinux_2_17": "manylinux_2_17_x86_64",
        "x86_64-manylinux_2_40": "manylinux_2_17_x86_64",
        "aarch64-unknown-linux-gnu": "manylinux_2_17_aarch64",
        "x86_64-unknown-linux-musl": "musllinux_1_2_x86_64",
        "aarch64-unknown-linux-musl": "musllinux_1_2_aarch64",
        "riscv64-unknown-linux": "any",
        "aarch64-apple-darwin": "any",
        "x86_64-apple-darwin": "any",
    }
    words = ["--quiet", "--no-config", "--no-index", "--no-deps", "-f", str(release), "lastgood"]
    for platform_name, tag in chosen.items():
        place = tmp_path / platform_name
        where = ["--python", sys.executable, "--python-platform", platform_name, "--target", str(place)]
        environment = {"HOME": str(tmp_path), "PATH": os.defpath}
        run(f"{INSTALLERS}/bin/uv", "pip", "install", *where, *words, environment=environment)
        (told,) = place.glob("lastgood-*.dist-info/WHEEL")
        assert f"Tag: py3-none-{tag}\n" in told.read_text(), platform_name


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home with a blank"
    place.mkdir()
    return place


def by_pip(what: Path, home: Path) -> Path:
    """Install into a virtual environment, without an index: what it needs beside it can wait."""
    place = home / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", place, environment={})
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--quiet"]
    run(*pip, "--no-index", "--no-deps", "--no-compile", what, environment={"HOME": str(home)})
    return place / "bin" / "lastgood"


def by_installer(name: str, what: Path, home: Path) -> Path:
    """Install for the user, as pipx and uv do: the program is linked to from ~/.local/bin."""
    program = Path(str(INSTALLERS), "bin", name)
    words = ["tool", "install", "--python", sys.executable] if name == "uv" else ["install"]
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_"))}
    run(program, *words, what, environment=kept | {"HOME": str(home), "PATH": os.defpath})
    return home / ".local" / "bin" / "lastgood"


# How it is installed, and what; without an index pip has nothing to build the sources with.
INSTALLED = [("pip", "machine")]
if INSTALLERS:
    INSTALLED += [("pip", "any")]
    INSTALLED += [(how, what) for how in ("pipx", "uv") for what in ("machine", "any", "sources")]


@pytest.mark.parametrize(("how", "what"), INSTALLED)
def test_what_a_host_is_told_to_start_makes_checkpoints(
    how: str, what: str, release: Path, home: Path, project: Path, tmp_path: Path
) -> None:
    """By its whole path, so that it matters neither where it runs nor what is in the PATH there."""
    chosen = found_in(release, what)
    program = by_pip(chosen, home) if how == "pip" else by_installer(how, chosen, home)
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
    found = json.loads(run(program, "-C", project, "doctor", "--json", environment=own))["findings"]
    (library,) = (one for one in found if one["code"] == "stat")
    assert (library["state"] == "good") == (what != "any")
