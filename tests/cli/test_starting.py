"""The command can be started in three ways, which do the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.cli.grammar import NAME, typed_name
from lastgood.client import _BEGINNINGS
from lastgood.ids import AGENTS
from tools.command import COMMAND, ROOT, Command

pytestmark = pytest.mark.starts

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
    named = f"{sys.executable} -m lastgood ".encode()  # as the module was started, so its hints say
    return done.returncode, done.stdout, done.stderr.replace(named, b"lastgood ")


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


# What hints say can be typed where the program was started.

CHECKOUT = ROOT


def hinted(*words: str, cwd: Path, path: str) -> str:
    done = subprocess.run(
        [*words, "show", "nothing"],
        cwd=cwd,
        env={**os.environ, "PATH": path, "LASTGOOD_STORE": str(cwd.parent / "store")},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()[-1].strip().rpartition(": ")[2]


@pytest.mark.parametrize("how", ["path", "relative", "module", "name", "interpreter"])
def test_a_hint_names_the_program_as_it_was_started(kept: Command, how: str) -> None:
    away = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
    link = kept.project / "a tool" / "lastgood"
    link.parent.mkdir()
    link.symlink_to(COMMAND)
    words, path, told = {
        "path": ([COMMAND], away, COMMAND),
        "relative": (["./a tool/lastgood"], away, "'./a tool/lastgood'"),
        "module": ([sys.executable, "-m", "lastgood"], away, f"{sys.executable} -m lastgood"),
        "name": ([COMMAND], os.pathsep.join((CHECKOUT, away)), "lastgood"),
        "interpreter": ([sys.executable, COMMAND], away, COMMAND),
    }[how]
    hint = hinted(*words, cwd=kept.project, path=path)
    assert hint == f"{told} list"
    environment = {**kept.environment, "PATH": path}
    subprocess.run(hint, shell=True, cwd=kept.project, env=environment, check=True, capture_output=True)


def test_a_file_that_no_shell_runs_is_given_to_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "lastgood"
    script.write_text("")
    assert typed_name(["python3", str(script)], "") == f"python3 {script}"
    assert typed_name(["python3", "-X", "dev", str(script)], "") == NAME  # a guess would be wrong


def test_the_first_of_its_name_is_what_a_shell_finds(tmp_path: Path) -> None:
    for name in ("first", "second", "linked"):
        (tmp_path / name).mkdir()
    first, second, linked = (tmp_path / name / NAME for name in ("first", "second", "linked"))
    for script in (first, second):
        script.write_text("")
        script.chmod(0o755)
    linked.symlink_to(second)
    both = f"{tmp_path}/first:{tmp_path}/second"
    assert typed_name(["python3", str(first)], both) == NAME
    assert typed_name(["python3", str(second)], both) == str(second)
    assert typed_name(["python3", str(second)], f"{tmp_path}/linked") == NAME


def test_commands_of_status_and_of_refusals_can_be_typed_as_well(kept: Command) -> None:
    away = {"PATH": os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))}
    (kept.project / "a.txt").write_text("since\n", encoding="utf-8")
    kept("restore", "one", "--yes")
    assert f"({COMMAND} list --all)" in kept("status", env=away).out
    assert "`lastgood recover`" in kept("recoverr", expect=2).err
    assert f"`{COMMAND} recover`" in kept("recoverr", env=away, expect=2).err
    assert f"take it back with: {COMMAND} undo\n" in kept("restore", "two", "--yes", env=away).out
    assert (
        f"{COMMAND} -C {kept.project} list"
        in kept("-C", str(kept.project), "show", "x", env=away, expect=10).err
    )
    told = kept("-C", str(kept.project), "show", "x", "--json", env=away, expect=10)
    assert f"lastgood -C {kept.project} list" in told.out
    assert COMMAND not in told.out  # a program knows how it started it


def test_the_resident_is_told_every_variable_by_which_an_agent_is_known() -> None:
    """They stand in the client once more: it imports nothing for them."""
    assert [name for name in AGENTS if not f"{name}=".encode().startswith(_BEGINNINGS)] == []
