"""Second runs: granted to what is marked chance, once, said at the end; to nothing else."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MARKED_AT_MOST = 34
MARK = re.compile(r"mark\.(flaky|chance)\b")

# The others cost more to load than these tests to run.
PLUGINS = ("-p", "no:cacheprovider")
AGAIN = ("-p", "rerunfailures", "--rerun-chance")
# Not where other runs of pytest clean up after each other.
PLACES = ("-c", str(HERE.parent / "pyproject.toml"), "--rootdir", ".", "--basetemp", "temporary")
ALONE = ()
SPREAD = ("-p", "xdist", "-W", "ignore:Module already imported", "-n", "2", "--dist", "worksteal")

PROGRAM = '''
import os
import pytest

def turn(name):
    """Return which run of a test this is."""
    with open(name, "a+") as seen:
        seen.write("x")
        return seen.tell()

@pytest.mark.chance("when the other writer comes")
def test_unlucky_once():
    assert turn("once") == 2, "the first run fell"

@pytest.mark.chance("when the kill comes")
def test_unlucky_twice():
    assert turn("twice") == 0, "this run fell"

@pytest.mark.chance("when the start ends")
@pytest.mark.parametrize("number", [1, 2])
def test_lucky(number):
    turn("lucky%d" % number)

@pytest.fixture
def late():
    if turn("late") == 1:
        raise OSError("not yet")

@pytest.mark.chance("when the place is there")
def test_of_a_place_that_comes_late(late):
    pass

def test_without_a_mark():
    assert turn("plain") == 2, "never twice"
'''


def run(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest, with our hooks, on a program in a folder of its own."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tools.chance"]\n')
    (folder / "test_generated.py").write_text(program)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, *PLACES, *options, "test_generated.py"],
        cwd=folder,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def turns(folder: Path) -> dict[str, int]:
    """Return how often each test of the program ran."""
    return {
        name: (folder / name).stat().st_size
        for name in ("once", "twice", "lucky1", "lucky2", "late", "plain")
    }


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Return what the closing line counts."""
    last = done.stdout.splitlines()[-1]
    return {kind: int(number) for number, kind in re.findall(r"(\d+) (failed|passed|error|rerun)", last)}


@pytest.mark.parametrize("workers", [ALONE, SPREAD], ids=["alone", "spread"])
def test_only_a_failed_test_that_is_marked_has_a_second_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run(tmp_path, PROGRAM, *AGAIN, *workers)
    assert turns(tmp_path) == {"once": 2, "twice": 2, "lucky1": 1, "lucky2": 1, "late": 2, "plain": 1}
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert outcomes(done) == {"failed": 2, "passed": 4, "rerun": 3}
    _, _, said = done.stdout.partition("failed, and passed or failed again when run once more")
    assert "a fault of the product or of the test" in said
    file = "test_generated.py"
    assert f"{file}::test_unlucky_once: passed the second time (when the other writer comes)" in said
    assert f"{file}::test_unlucky_twice: failed again (when the kill comes)" in said
    assert (
        f"{file}::test_of_a_place_that_comes_late: passed the second time (when the place is there)" in said
    )
    assert "lucky[" not in said
    assert "the first run fell" in done.stdout  # what the first run said is what leads to the fault


DYING = PROGRAM.split("@pytest", maxsplit=1)[0] + (
    '@pytest.mark.chance("when the kill comes")\n'
    'def test_dying():\n    assert turn("dying") == 2 or os._exit(9)\n'
)
# The controller hears what a worker grants to a test long after the test has begun, and died.
SLOW_TO_HEAR = """
import time
import pytest_rerunfailures

class Slow(pytest_rerunfailures.ServerStatusDB):
    def _set(self, *told):
        time.sleep(0.5)
        super()._set(*told)

pytest_rerunfailures.ServerStatusDB = Slow
"""


def test_a_worker_that_dies_in_a_marked_test_is_a_failed_first_run(tmp_path: Path) -> None:
    done = run(tmp_path, DYING, *AGAIN, *SPREAD)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "test_generated.py::test_dying: passed the second time" in done.stdout


def test_a_second_run_is_granted_before_the_worker_can_die(tmp_path: Path) -> None:
    (tmp_path / "slow_to_hear.py").write_text(SLOW_TO_HEAR)
    done = run(tmp_path, DYING, "-p", "slow_to_hear", *AGAIN, *SPREAD)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "test_generated.py::test_dying: passed the second time" in done.stdout


def test_without_the_option_nothing_is_run_twice(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAM)
    assert set(turns(tmp_path).values()) == {1}
    assert outcomes(done) == {"failed": 3, "passed": 2, "error": 1}


def test_a_mark_without_a_source_of_chance_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "import pytest\n@pytest.mark.chance\ndef test_it(): pass\n")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_it: chance needs one text, which names its source" in done.stderr


def marks() -> dict[str, list[str]]:
    """Return what each mark of ours is on, with the texts that it was given."""
    found = {}
    for path, source in marking():
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            for mark in node.decorator_list:
                if ast.unparse(mark).startswith("pytest.mark.chance"):
                    texts = mark.args if isinstance(mark, ast.Call) else []
                    found[f"{path.name}::{node.name}"] = [ast.literal_eval(text) for text in texts]
    return found


def marking() -> list[tuple[Path, str]]:
    """Return the tests' sources that name our mark or pytest-rerunfailures' own."""
    others = [path for path in HERE.rglob("*.py") if path not in {Path(__file__), HERE / "tools/chance.py"}]
    return [(path, source) for path in others if MARK.search(source := path.read_text())]


def test_every_mark_names_its_source_and_few_tests_bear_one() -> None:
    found = marks()
    assert 0 < len(found) <= MARKED_AT_MOST
    assert not [test for test, texts in found.items() if len(texts) != 1 or len(texts[0].split()) < 4]
    assert not [test for test in found if "::test_" not in test], (
        "marked one by one, so that they can be counted"
    )


def test_second_runs_come_by_our_mark_alone() -> None:
    written = sum(len(MARK.findall(source)) for _, source in marking())
    assert written == len(marks()), "neither flaky, nor chance for a whole file or a parameter"
