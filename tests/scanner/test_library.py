"""What compiles the library in C says what is wrong, and leaves no half of one (decision 059)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCANNER = Path("src/lastgood/scanner")


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
    assert (checkout / SCANNER / "libstates.so.2").is_file()


@pytest.mark.parametrize("compiler", ["false", "/nowhere/cc", "cc '"], ids=["fails", "missing", "no words"])
def test_what_is_wrong_with_a_compiler_is_said_and_the_library_stays(checkout: Path, compiler: str) -> None:
    library = checkout / SCANNER / "libstates.so.2"
    library.write_bytes(b"the one before")
    done = compiled(checkout, compiler=compiler)
    assert (done.returncode, done.stderr.startswith("hatch_build: ")) == (1, True)
    assert [path.name for path in library.parent.iterdir() if path != library] == ["states.c"]
    assert library.read_bytes() == b"the one before"
