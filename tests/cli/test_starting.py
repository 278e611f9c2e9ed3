"""The command can be started in three ways, which do the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.command import COMMAND, ROOT, Command

SOURCE = os.path.join(ROOT, "src")
WAYS = {
    "script": [COMMAND],
    "module": ["-m", "lastgood"],
    "installed": ["-c", "import sys; from lastgood.cli.main import run; sys.exit(run())"],
}
WORDS = (
    ("--version",),
    ("list", "--json"),
    ("show", "one", "--json"),
    ("lst",),
    ("show", "three"),
    ("restore",),
    ("help", "save"),
)


def started(way: str, *words: str, cwd: Path, store: Path) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [sys.executable, *WAYS[way], *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE, "LASTGOOD_STORE": str(store)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_way_to_start_it_does_the_same(kept: Command, words: tuple[str, ...]) -> None:
    script, *others = (started(way, *words, cwd=kept.project, store=kept.store) for way in WAYS)
    assert others == [script] * len(others)


@pytest.mark.parametrize("way", ["script", "module"])
@pytest.mark.parametrize("name", ["fcntl", "tomllib", "zlib"])
def test_no_module_that_lies_in_the_workspace_is_run(kept: Command, way: str, name: str) -> None:
    """`python -m` puts the current folder before Python's own modules."""
    (kept.project / f"{name}.py").write_text("open('was-run', 'w').close()\n", encoding="utf-8")
    (kept.project / ".lastgood.toml").write_text("[capture]\nexclude = ['x']\n", encoding="utf-8")
    assert started(way, "save", cwd=kept.project, store=kept.store)[0] == 0
    assert not (kept.project / "was-run").exists()


def test_as_a_module_it_can_be_started_where_its_source_lies(kept: Command) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lastgood", "-C", str(kept.project), "list"],
        cwd=SOURCE,
        env={key: value for key, value in kept.environment.items() if key != "PYTHONPATH"},
        capture_output=True,
        check=False,
    )
    assert b"one" in done.stdout, done.stderr
