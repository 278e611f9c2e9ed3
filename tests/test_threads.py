"""A test has no threads of earlier ones beside it: verbs would go other ways."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

OF_TRIO = """
import trio
from lastgood.worker import is_sound

def test_of_a_loop():
    trio.run(trio.to_thread.run_sync, int)

def test_of_who_counts():
    assert is_sound(1 << 60)
"""

THAT_END_LATE = """
import threading, time
from lastgood.worker import is_sound

def test_of_a_thread():
    threading.Thread(target=time.sleep, args=(0.3,)).start()
    assert not is_sound(1 << 60)

def test_of_who_counts():
    assert is_sound(1 << 60)
"""

THAT_STAY = """
import threading
from tools import threads
from lastgood.worker import is_sound

over = threading.Event()
threads._PATIENCE = 0.1

def test_of_a_thread():
    threading.Thread(target=over.wait, daemon=True).start()
    assert not is_sound(1 << 60)

def test_of_who_counts():
    assert is_sound(1 << 60)
    thread = threading.Thread(target=over.wait)
    thread.start()
    assert not is_sound(1 << 60)
    over.set()
    thread.join()
"""


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="no process is forked where there is one processor"
)
@pytest.mark.parametrize("program", [OF_TRIO, THAT_END_LATE, THAT_STAY], ids=["trio", "late", "staying"])
def test_threads_of_an_earlier_test_are_not_counted_in_the_next(tmp_path: Path, program: str) -> None:
    """Trio keeps idle ones for ten seconds, of which others heard: a scan was done elsewhere."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tools.threads"]\n')
    (tmp_path / "test_generated.py").write_text(program)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    words = ["-p", "no:cacheprovider", "-c", str(HERE.parent / "pyproject.toml"), "--rootdir", "."]
    words += ["--basetemp", "temporary", "-p", "xdist", "-W", "ignore:Module already imported", "-n", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_generated.py"],
        cwd=tmp_path,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
