"""Agents killed at random moments go on, and come to what an uninterrupted run comes to (P5 to P8).

The long form, ``scripts/torture agents``, kills a hundred times, the short one twelve. The seed is
printed, and LASTGOOD_AGENT_SEED repeats it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from agents.agent import DEPLOYING, STEP, TASKS, edit
from agents.conftest import Site
from tools.values import not_none

KILLS = int(os.environ.get("LASTGOOD_AGENT_KILLS", "12"))
# The short form takes the same chances each time: whether a commit is sound must not depend on them.
_CHANCE = random.SystemRandom().getrandbits(20) if KILLS > 12 else 7
SEED = int(os.environ.get("LASTGOOD_AGENT_SEED", "0")) or _CHANCE
KILLS_OF_ONE_RUN = 4


@pytest.mark.chance("how far an agent is when it is killed")
@pytest.mark.parametrize("mode", ["keep", "rollback"])
def test_a_killed_agent_comes_to_what_an_uninterrupted_one_does(
    site: Callable[[str], Site], mode: str
) -> None:
    """P6, P7."""
    print(f"seed {SEED}")
    chance = random.Random(f"{SEED} {mode}")
    calm = site("calm")
    lasts = calm.run(tag="shop", mode=mode)
    expected = calm.tree()
    left, turn = KILLS // 2, 0
    while left > 0:
        turn += 1
        harassed = site(f"harassed-{turn}")
        for _ in range(chance.randint(1, KILLS_OF_ONE_RUN)):
            after = chance.uniform(0.1, lasts)
            killed = harassed.run_and_kill(tag="shop", mode=mode, after=after)
            print(f"run {turn}: {'killed' if killed else 'ended'} after {after:.3f} s")
            left -= killed
            if not killed:
                break
        harassed.run(tag="shop", mode=mode)
        assert harassed.tree() == expected
        judge(harassed)


def judge(site: Site) -> None:
    """Nothing was done twice, nothing was concealed, nothing is left over."""
    assert site.lines("deployed") == ["shop"]
    reports = [json.loads(line) for line in site.lines("reports")]
    with lastgood.open(site.project, store=site.store, maintenance="off") as workspace:
        (session,) = workspace.sessions()
        assert (session.session.state, session.session.ended_by) == ("ended", "finished")
        assert [(one.id, one.state) for one in session.progress.tasks] == [(id, "done") for id in TASKS]
        deployments = [one for one in workspace.steps(session.id) if one.name == STEP]
        assert sum(one.state == "done" for one in deployments) <= 1
        for one in deployments:
            assert one.state in {"done", "unknown"}
            assert one.state == "done" or any(STEP in report["unknown"] for report in reports)
        for report in reports:
            running = [id for id, state in report["tasks"].items() if state == "running"]
            assert running == []
            if STEP in report["unknown"]:
                assert report["tasks"][DEPLOYING] != "done"
        latest = workspace.get("latest")
        assert latest.kind == "session-end"
        spoken = site.lines("transcript.jsonl")
        assert not_none(latest.conversation).messages == len(spoken)
        assert workspace.verify().ok
        assert workspace.recover().session is None
    assert "incomplete" not in workspace_status(site)


def workspace_status(site: Site) -> str:
    with lastgood.open(site.project, store=site.store, maintenance="off") as workspace:
        return workspace.status().state


@pytest.mark.chance("how far the agents are when three are killed")
def test_eight_agents_in_eight_worktrees_share_one_store(
    site: Callable[..., Site], git: Callable[..., str], tmp_path: Path
) -> None:
    """S16, P1: some of them are killed, and nobody minds."""
    print(f"seed {SEED}")
    chance = random.Random(f"{SEED} worktrees")
    main, store = tmp_path / "main", tmp_path / "shared"
    main.mkdir()
    git(main, "init", "-q")
    (main / "README").write_text("shared\n")
    git(main, "add", "README")
    git(main, "commit", "-q", "-m", "one")
    sites = []
    for number in range(8):
        tree = tmp_path / f"tree-{number}"
        git(main, "worktree", "add", "-q", "-b", f"agent-{number}", str(tree))
        sites.append(site(f"agent-{number}", project=tree, store=store))

    killed = {number: chance.uniform(0.5, 6) for number in chance.sample(range(8), 3)}
    print(f"to be killed: {killed}")
    agents = [one.start(tag=f"agent {number}", mode="rollback") for number, one in enumerate(sites)]
    began = time.monotonic()
    for number, after in sorted(killed.items(), key=lambda pair: pair[1]):
        time.sleep(max(0.0, began + after - time.monotonic()))
        agents[number].kill()
    said = [agent.communicate(timeout=300)[0].decode() for agent in agents]
    for number, agent in enumerate(agents):
        assert agent.returncode == 0 or number in killed, said[number]
    for number in killed:
        sites[number].run(tag=f"agent {number}", mode="rollback")

    for number, one in enumerate(sites):
        alone = tmp_path / f"alone-{number}"
        alone.mkdir()
        (alone / "README").write_text("shared\n")
        for task in TASKS:
            edit(alone, task, tag=f"agent {number}", mode="rollback")
        assert one.tree() == type(one)(tmp_path / f"expected-{number}", project=alone).tree()
        assert one.lines("deployed") == [f"agent {number}"]
        assert git(one.project, "rev-parse", "HEAD") == git(main, "rev-parse", "HEAD")
    with lastgood.open(sites[0].project, store=store, maintenance="off") as workspace:
        assert workspace.verify().ok
        assert len(workspace.workspaces()) == 8


def test_an_agent_is_a_program_of_its_own(site: Callable[[str], Site]) -> None:
    """What the other tests rest upon: without a kill it works to the end, and once only."""
    calm = site("calm")
    calm.run(tag="shop", mode="keep")
    before = calm.tree()
    calm.run(tag="shop", mode="keep")
    assert calm.tree() == before
    judge(calm)
    assert subprocess.run(["sh", calm.project / "run.sh"], check=True).returncode == 0
