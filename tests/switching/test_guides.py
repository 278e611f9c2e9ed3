"""What docs/from-other-tools.md has as files works as it is written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.command import COMMAND, ROOT, Command

PAGE = Path(ROOT, "docs", "from-other-tools.md").read_text(encoding="utf-8")
# Stands for the cloud: a folder beside the machines.
CLOUD = """#!/bin/sh
from=${3#s3://my-bucket/lastgood-backups} to=${4#s3://my-bucket/lastgood-backups}
[ "$from" = "$3" ] || from=CLOUD$from
[ "$to" = "$4" ] || to=CLOUD$to
exec cp "$from" "$to"
"""


def written(language: str) -> str:
    """Return the one file of a language that the page has."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a machine on which `lastgood`, `pip` and `aws` can be typed."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "cloud").mkdir()
    scripts = {
        "lastgood": f'#!/bin/sh\nexec {sys.executable} {COMMAND} "$@"\n',
        "pip": "#!/bin/sh\n",
        "aws": CLOUD.replace("CLOUD", str(tmp_path / "cloud")),
    }
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return dict(os.environ) | {"PATH": f"{programs}:{os.environ['PATH']}"}


def bash(script: str, *, folder: Path, environment: dict[str, str]) -> str:
    """Run a script as GitHub runs the steps of a job."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("finished", [False, True], ids=["died", "finished"])
def test_the_backup_and_the_check_in_ci_work_as_written(
    lastgood: Command, machine: dict[str, str], tmp_path: Path, *, finished: bool
) -> None:
    """AIWF's guide: a script on one machine, a workflow on a runner with a fresh checkout and no store."""
    (lastgood.project / "a.txt").write_text("mine\n")
    with subprocess.Popen(["sleep", "60"]) as owner:
        lastgood("session", "start", "--owner-pid", str(owner.pid), "--goal", "nightly")
        owner.kill()
    if finished:
        lastgood("recover", "--fresh")
    here = machine | {"LASTGOOD_STORE": str(lastgood.store)}
    assert "kept" in bash(written("bash"), folder=lastgood.project, environment=here)
    lastgood.project.rename(tmp_path / "gone")
    checkout = tmp_path / "runner" / "work"
    checkout.mkdir(parents=True)
    (checkout / "a.txt").write_text("mine\n")
    there = machine | {"HOME": str(tmp_path / "runner"), "LASTGOOD_STORE": ""}
    there.pop("LASTGOOD_STORE")
    steps = yaml.safe_load(written("yaml"))["jobs"]["check-recovery"]["steps"]
    said = [bash(one["run"], folder=checkout, environment=there) for one in steps if "run" in one]
    assert ("Found incomplete session" in said[-1]) is not finished
    assert ("1 session incomplete" in said[-1]) is not finished
