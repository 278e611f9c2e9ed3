"""What compiles the library in C says what is wrong; an unusable one is passed over (decision 059)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.scanner import states
from tools.command import Command

ROOT = Path(__file__).parents[2]
SCANNER = Path("src/lastgood/scanner")
LIBRARY = SCANNER / os.path.basename(states._LIBRARY)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout of what is compiled, in which nothing is."""
    (tmp_path / SCANNER).mkdir(parents=True)
    for name in ("hatch_build.py", SCANNER / "states.c"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def compiled(checkout: Path, *, compiler: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "hatch_build.py"],
        cwd=checkout,
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("compiler", ["", " "], ids=["empty", "blank"])
def test_where_no_compiler_is_named_the_usual_one_makes_the_library(checkout: Path, compiler: str) -> None:
    assert compiled(checkout, compiler=compiler).stderr == ""
    assert (checkout / LIBRARY).is_file()


@pytest.mark.parametrize("compiler", ["false", "/nowhere/cc", "cc '"], ids=["fails", "missing", "no words"])
def test_what_is_wrong_with_a_compiler_is_said_and_the_library_stays(checkout: Path, compiler: str) -> None:
    library = checkout / LIBRARY
    library.write_bytes(b"the one before")
    done = compiled(checkout, compiler=compiler)
    assert (done.returncode, done.stderr.startswith("hatch_build: ")) == (1, True)
    assert [path.name for path in library.parent.iterdir() if path != library] == ["states.c"]
    assert library.read_bytes() == b"the one before"


def cut_off(library: Path) -> None:
    os.truncate(library, library.stat().st_size // 2)


def without_its_last_byte(library: Path) -> None:
    os.truncate(library, library.stat().st_size - 1)


def empty(library: Path) -> None:
    library.write_bytes(b"")


def no_library(library: Path) -> None:
    library.write_bytes(b"\0" * library.stat().st_size)


def for_another_processor(library: Path) -> None:
    """As told at its beginning: for SPARC."""
    known = bytearray(library.read_bytes())
    known[18:20] = (2).to_bytes(2, sys.byteorder)
    library.write_bytes(known)


def for_shorter_addresses(library: Path) -> None:
    known = bytearray(library.read_bytes())
    known[4] = 1
    library.write_bytes(known)


def for_another_c_library(library: Path) -> None:
    """Which it names; none is called so here."""
    library.write_bytes(library.read_bytes().replace(b"\0libc.so.6\0", b"\0libc.so.7\0"))


def without_a_function(library: Path) -> None:
    library.write_bytes(library.read_bytes().replace(b"\0lastgood_changed\0", b"\0lastgood_changer\0"))


def unreadable(library: Path) -> None:
    """A folder, for permissions do not keep root out."""
    library.unlink()
    library.mkdir()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a copy of lastgood, as whoever installed it has one."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "lastgood", place)
    return place


def said_by(elsewhere: Path, lastgood: Command, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, elsewhere / "lastgood", *words],
        cwd=lastgood.project,
        env=lastgood.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the library is of use on Linux alone")
@pytest.mark.parametrize(
    "harm",
    [
        cut_off,
        without_its_last_byte,
        empty,
        no_library,
        for_another_processor,
        for_shorter_addresses,
        for_another_c_library,
        without_a_function,
        unreadable,
    ],
)
def test_a_library_that_cannot_be_used_is_passed_over_and_the_doctor_says_why(
    harm: Callable[[Path], None], elsewhere: Path, lastgood: Command
) -> None:
    harm(elsewhere / LIBRARY)
    (lastgood.project / "file").write_text("as it was")
    said_by(elsewhere, lastgood, "save", "as it was")
    (lastgood.project / "file").write_text("otherwise")
    said_by(elsewhere, lastgood, "restore", "@", "--yes")
    assert (lastgood.project / "file").read_text() == "as it was"
    found = json.loads(said_by(elsewhere, lastgood, "doctor", "--json"))["findings"]
    (told,) = (one for one in found if one["code"] == "stat")
    assert "library in C, which is broken or for another machine (" in told["message"]
    assert told["hint"].startswith("install lastgood again")


@pytest.mark.skipif(sys.platform != "linux", reason="the library is of use on Linux alone")
def test_a_library_of_an_older_form_is_as_good_as_none(elsewhere: Path, lastgood: Command) -> None:
    library = elsewhere / LIBRARY
    library.rename(library.with_name("libstates.so.0"))
    found = json.loads(said_by(elsewhere, lastgood, "doctor", "--json"))["findings"]
    (told,) = (one for one in found if one["code"] == "stat")
    assert told["message"].startswith("without lastgood's library in C, so that")
