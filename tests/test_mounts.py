"""A test hears of no mounts but its own: those of others make a watch doubt all that it heard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.living import eventually

HERE = Path(__file__).parent

PROGRAM = """
import os, select, time
from pathlib import Path

def test_of_what_is_heard():
    mounts = os.open("/proc/self/mounts", os.O_RDONLY)
    changed = select.poll()
    changed.register(mounts, select.POLLPRI)
    Path("listens").touch()
    while not Path("mounted").exists():
        time.sleep(0.001)
    heard = changed.poll(0)
    os.close(mounts)
    assert not heard
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts")
def test_what_others_mount_is_not_heard_of(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tools.mounts"]\n')
    (tmp_path / "test_generated.py").write_text(PROGRAM)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    words = ["-p", "no:cacheprovider", "-c", str(HERE.parent / "pyproject.toml"), "--rootdir", "."]
    words += ["--basetemp", "temporary", "test_generated.py"]
    listening = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert eventually(lambda: (tmp_path / "listens").exists() or listening.poll() is not None)
        mounted = subprocess.run(["mount", "--bind", tmp_path, tmp_path], capture_output=True, check=False)
        if mounted.returncode:
            pytest.skip("mounting is not allowed here")
        subprocess.run(["umount", "-l", tmp_path], check=True)
    finally:
        (tmp_path / "mounted").touch()
        said, _ = listening.communicate()
    assert listening.returncode == 0, said
