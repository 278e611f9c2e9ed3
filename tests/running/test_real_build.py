"""A plan that builds a real package: unpack, patch, test, break on purpose, roll back, go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from real.hosts import CACHE
from tools.command import Command, Done
from tools.wreckage import picture

pytestmark = pytest.mark.real

OURS = """\
diff --git a/idna/package_data.py b/idna/package_data.py
--- a/idna/package_data.py
+++ b/idna/package_data.py
@@ -1 +1,2 @@
 __version__ = "3.10"
+patched = True
diff --git a/tests/test_ours.py b/tests/test_ours.py
new file mode 100644
--- /dev/null
+++ b/tests/test_ours.py
@@ -0,0 +1,7 @@
+import unittest
+from idna import package_data
+
+
+class Ours(unittest.TestCase):
+    def test_it_is_patched(self):
+        self.assertTrue(package_data.patched)
"""
BREAK = "rm -rf idna/uts46data.py tools && mv README.rst LIESMICH.rst && chmod 600 LICENSE.md && touch scrap"
# Of the package's own tests, all but six thousand of one table.
SOME = (
    "tests.test_idna tests.test_idna_codec tests.test_idna_compat tests.test_idna_other tests.test_intranges"
)
PLAN = f"""\
goal: build a package with a patch of our own
env:
  PYTHON: {json.dumps(sys.executable)}
  PYTHONDONTWRITEBYTECODE: 1
  SOURCE_DATE_EPOCH: 1700000000            # equal sources make equal wheels
risky: [rm -rf]
sprints:
  - id: source
    tasks:
      - id: unpack
        run: tar xzf "$ARCHIVE" --strip-components=1
        check: '"$PYTHON" -m unittest -q {SOME}'
      - id: patch
        run: git apply ours.patch
        check: '"$PYTHON" -m unittest -q {SOME} tests.test_ours'
        needs: [unpack]
  - id: wheel
    tasks:
      - id: simplify
        run: {BREAK}
        check: '"$PYTHON" -m unittest -q {SOME} tests.test_ours'
        retries: 1
        on_failure: rollback
        needs: [patch]
      - id: announce
        run: touch announced
        needs: [simplify]
      - id: build
        run: PYTHONPATH="$BACKEND" "$PYTHON" -m flit_core.wheel
        check: >-
          PYTHONPATH=$(echo dist/*.whl) "$PYTHON" -P -c
          'import idna, idna.package_data as of; assert of.patched and ".whl" in idna.__file__'
        timeout: 20m
        needs: [patch]
"""


@pytest.fixture
def lastgood(project: Path, store: Path) -> Command:
    """Return the command, with the plan and the patch in the project."""
    folder = os.path.join(CACHE, "build")
    if not os.path.isdir(folder):
        pytest.skip(f"the package to build is not in {CACHE}: run scripts/real_trees")
    command = Command(project, store)
    for name in os.listdir(folder):
        command.environment["ARCHIVE" if name.endswith(".gz") else "BACKEND"] = os.path.join(folder, name)
    (project / "plan.yaml").write_text(PLAN)
    (project / "ours.patch").write_text(OURS)
    return command


def events(done: Done, type: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert {line["schema"] for line in lines} == {"lastgood.run/1"}
    return [line for line in lines if line["event"] == type]


def states(done: Done) -> dict[str, tuple[str, int]]:
    (last,) = events(done, "finished")
    return {task["id"]: (task["state"], task["attempts"]) for task in last["report"]["tasks"]}


def built_by_hand(lastgood: Command, folder: Path) -> None:
    """Do what the plan's good tasks do, without lastgood."""
    folder.mkdir()
    for name in ("plan.yaml", "ours.patch"):
        (folder / name).write_bytes((lastgood.project / name).read_bytes())
    script = (
        'tar xzf "$ARCHIVE" --strip-components=1 && git apply ours.patch'
        f' && PYTHONPATH="$BACKEND" {sys.executable} -m flit_core.wheel'
    )
    variables = {"SOURCE_DATE_EPOCH": "1700000000", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = lastgood.environment | variables
    subprocess.run(script, shell=True, cwd=folder, env=environment, check=True, capture_output=True)


def test_a_package_is_built_around_a_task_that_breaks_it(lastgood: Command, tmp_path: Path) -> None:
    """P3, P6, T17: the broken task is taken back twice, and nothing of it is lost."""
    ran = lastgood("run", "plan.yaml", "--json", expect=3)
    assert states(ran) == {
        "unpack": ("done", 1),
        "patch": ("done", 1),
        "simplify": ("failed", 2),
        "announce": ("skipped", 0),
        "build": ("done", 1),
    }
    good = {event["task"]: event["good"] for event in events(ran, "task-done")}
    assert good == {"unpack": True, "patch": True, "build": True}
    assert [event["task"] for event in events(ran, "rolled-back")] == ["simplify", "simplify"]

    # The broken tree is kept: each attempt has its own checkpoint.
    failed = events(ran, "attempt-failed")
    assert [event["attempt"] for event in failed] == [1, 2]
    aside = tmp_path / "aside"
    lastgood("restore", failed[1]["checkpoint"], "--to", str(aside), "--yes")
    assert (aside / "scrap").exists()
    assert (aside / "LIESMICH.rst").exists()
    assert not (aside / "idna" / "uts46data.py").exists()

    # What stands now is what the good tasks make without lastgood, byte for byte.
    built_by_hand(lastgood, tmp_path / "by-hand")
    assert picture(lastgood.project) == picture(tmp_path / "by-hand")

    kinds = [one["kind"] for one in lastgood("list", "--json").json["checkpoints"]]
    assert kinds.count("task") >= 3
    assert kinds.count("sprint") == 1
    assert kinds.count("error") >= 1
    assert kinds.count("risky") >= 1
    assert "session-start" in kinds
    assert "incomplete" in lastgood("status").out


def test_an_edited_plan_goes_on_where_the_first_one_stopped(lastgood: Command) -> None:
    """P6, P7: what is done is not done again."""
    lastgood("run", "plan.yaml", "--json", expect=3)
    wheel = next((lastgood.project / "dist").iterdir())
    made = wheel.stat().st_mtime_ns
    (lastgood.project / "plan.yaml").write_text(PLAN.replace(BREAK, "echo '# simpler' >> idna/core.py"))

    refused = lastgood("run", "plan.yaml", expect=13)
    assert "simplify" in refused.err
    assert "--rebase" in refused.err

    ran = lastgood("run", "plan.yaml", "--continue", "--rebase", "--json")
    assert {id: state for id, (state, _) in states(ran).items()} == dict.fromkeys(
        ["unpack", "patch", "simplify", "announce", "build"], "done"
    )
    assert [event["task"] for event in events(ran, "task-started")] == ["simplify", "announce"]
    assert (lastgood.project / "announced").exists()
    assert (lastgood.project / "idna" / "core.py").read_text().endswith("# simpler\n")
    assert wheel.stat().st_mtime_ns == made
    assert "incomplete" not in lastgood("status").out
    assert lastgood("verify", "--json").json["ok"]
