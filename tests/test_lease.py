"""When a session still holds its workspace (rule P1)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lastgood import lease
from lastgood.model.session import Owner, Session
from tools.command import with_source

HOUR = 3600 * 10**9
DAY = 86_400.0
SESSION = Session(
    id="sess_00",
    workspace_key="k",
    owner=Owner(host="h"),
    started_at=0,
    heartbeat_at=1000 * HOUR,
    heartbeat_uptime=5 * HOUR,
    heartbeat_boot="b",
)


def state(session: Session = SESSION, *, alive: bool | None = None, **moment: object) -> str:
    given: dict[str, object] = {"now": 1001 * HOUR, "uptime": 6 * HOUR, "boot": "b", **moment}
    return lease.judge_lease(session, alive=alive, expires_after=DAY, **given)  # type: ignore[arg-type]


def test_a_proven_death_ends_a_lease_at_once() -> None:
    assert state(alive=False) == "incomplete"


def test_a_living_owner_is_never_robbed_however_old_its_heartbeat() -> None:
    assert state(alive=True, now=10**6 * HOUR, uptime=10**6 * HOUR) == "active"


def test_without_proof_a_lease_lives_until_it_expires() -> None:
    assert state(now=1024 * HOUR, uptime=29 * HOUR) == "active"
    assert state(now=1024 * HOUR + 1, uptime=29 * HOUR + 1) == "incomplete"


@pytest.mark.parametrize("years", [10, -10])
def test_a_clock_that_jumps_robs_nobody(years: int) -> None:
    assert state(now=1001 * HOUR + years * 8766 * HOUR) == "active"


def test_a_clock_that_was_set_back_keeps_no_dead_session_alive() -> None:
    assert state(now=0, uptime=30 * HOUR) == "incomplete"


def test_where_the_uptime_went_back_the_wall_clock_counts() -> None:
    """A virtual machine that goes on from a picture of its memory is still in the same run."""
    assert state(uptime=4 * HOUR) == "active"
    assert state(uptime=4 * HOUR, now=1025 * HOUR) == "incomplete"


def test_while_the_machine_sleeps_no_lease_grows_old() -> None:
    """P1: in a sleep its owner could not beat either."""
    program = (
        "import time; from lastgood.host import SystemClock as C; print(C().monotonic(), time.monotonic())"
    )
    slept = ["unshare", "--time", "--boottime", "1000000", sys.executable, "-c", program]
    done = subprocess.run(slept, env=with_source(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("no namespace of time can be made here")

    told, awake = map(float, done.stdout.split())

    assert 0 <= awake - told < DAY


def test_after_a_restart_of_the_machine_the_wall_clock_counts() -> None:
    for uptime in (1, 6 * HOUR):
        assert state(boot="c", uptime=uptime) == "active"
        assert state(boot="c", uptime=uptime, now=1025 * HOUR) == "incomplete"


@pytest.mark.parametrize("recorded", ["ended", "incomplete"])
def test_what_ended_stays_ended(recorded: str) -> None:
    assert state(SESSION.replace(state=recorded), alive=True) == recorded


def test_a_heartbeat_of_a_moment_ago_is_not_written_again() -> None:
    def wants(up: int, **more: float) -> bool:
        given = {"now": 0, "expires_after": DAY, **more}
        return lease.wants_beat(SESSION, uptime=5 * HOUR + up, boot="b", **given)  # type: ignore[arg-type]

    assert not wants(59 * 10**9)
    assert wants(60 * 10**9)
    assert wants(6 * 10**9, expires_after=60.0)
