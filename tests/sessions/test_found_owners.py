"""Sessions whose owner nobody named, with real processes: whose they are, and when they are over (P1)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.command import COMMAND, Command
from tools.living import written

LASTGOOD = f"'{sys.executable}' '{COMMAND}'"
START = f"{LASTGOOD} session start -q --goal prices"

# An agent that opens a new shell for each line that it is told, and says when that is done.
AGENT = """
import subprocess, sys
for line in sys.stdin:
    subprocess.run(["sh", "-c", line], check=True)
    print("done", flush=True)
"""


class Agent:
    """A process that does as it is told."""

    def __init__(self, lastgood: Command) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT],
            cwd=lastgood.project,
            env=lastgood.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{{ {line}; }} > /dev/null\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def die(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def agent(lastgood: Command) -> Iterator[Agent]:
    one = Agent(lastgood)
    yield one
    one.die()


@contextmanager
def living(lastgood: Command, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have a shell carry out a script and then wait, and kill it at the end."""
    with subprocess.Popen(
        ["sh", "-c", f"{script}; read line"],
        cwd=lastgood.project,
        env=lastgood.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as running:
        yield running
        running.kill()


def shell(lastgood: Command, script: str, *, before: tuple[str, ...] = ()) -> int:
    done = subprocess.run(
        [*before, "sh", "-c", script],
        cwd=lastgood.project,
        env=lastgood.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


def state(lastgood: Command) -> str:
    found: str = lastgood("session", "list", "--json").json["sessions"][0]["state"]
    return found


def owner(lastgood: Command) -> int | None:
    found: int | None = lastgood("session", "list", "--json").json["sessions"][0]["owner"]["pid"]
    return found


@pytest.mark.parametrize(
    "death", ["kill -KILL $$", "kill -TERM $$", "kill -HUP $$", "exit 0", "false || exit 3"]
)
def test_a_shell_that_ends_in_mid_task_leaves_its_session_incomplete(lastgood: Command, death: str) -> None:
    shell(lastgood, f"{START}; {LASTGOOD} task start T1; echo 1 > one; {death}")
    assert state(lastgood) == "incomplete"
    assert "incomplete" in lastgood("status").out


def test_a_script_that_lives_holds_its_session(lastgood: Command, tmp_path: Path) -> None:
    """P1: and refuses a second one, with its number."""
    with living(lastgood, f"{START}; {LASTGOOD} task start T1; echo $$ > {tmp_path}/pid"):
        pid = int(written(tmp_path / "pid"))
        assert (state(lastgood), owner(lastgood)) == ("active", pid)
        refused = lastgood("session", "start", expect=13)
        assert f"process {pid} (" in refused.err
    assert state(lastgood) == "incomplete"


def test_of_one_verb_alone_nobody_knows_whose_it_was(lastgood: Command) -> None:
    """P1: its shell is gone, but whoever began that may be at work."""
    shell(lastgood, f"{START}; exit 0")
    assert (state(lastgood), owner(lastgood)) == ("active", None)
    refused = lastgood("session", "start", expect=13)
    assert "a session is already active" in refused.err


def test_beside_a_session_without_task_and_checkpoint_another_is_refused(lastgood: Command) -> None:
    """P1: of one that automatic checkpoints are switched off for."""
    without = ("session", "start", "--set", "auto.enabled=false")
    lastgood(*without)
    assert "a session is already active" in lastgood(*without, expect=13).err


def test_an_agent_that_opens_a_new_shell_for_each_call_is_its_owner(lastgood: Command, agent: Agent) -> None:
    agent.do(START)
    agent.do(f"{LASTGOOD} task start T1")
    assert (state(lastgood), owner(lastgood)) == ("active", agent.process.pid)
    agent.do(f"{LASTGOOD} task done T1")
    assert (state(lastgood), owner(lastgood)) == ("active", agent.process.pid)
    agent.die()
    assert state(lastgood) == "incomplete"


def test_verbs_in_one_shell_do_not_hide_the_agent_above(lastgood: Command, agent: Agent) -> None:
    """P1: it is found with the next one."""
    id = "$(cat ../session)"
    agent.do(f"{START} > ../session; {LASTGOOD} task start T1; true")
    agent.do(f"LASTGOOD_SESSION={id} {LASTGOOD} task done T1")
    assert (state(lastgood), owner(lastgood)) == ("active", agent.process.pid)


def test_an_agent_that_works_on_is_not_dead_with_the_shell_of_its_first_verbs(
    lastgood: Command, agent: Agent
) -> None:
    """P1: the shell is gone; nobody takes over from whoever began it, until that one is gone too."""
    both = f"S=$({START}); export LASTGOOD_SESSION=$S; echo $S > ../session; {LASTGOOD} task start T1; true"
    agent.do(both)
    assert state(lastgood) == "active"
    lastgood("session", "start", expect=13)
    told = lastgood("recover", expect=2)
    assert "its owner is unknown" in told.err
    agent.do(f"LASTGOOD_SESSION=$(cat ../session) {LASTGOOD} task done T1")
    assert (state(lastgood), owner(lastgood)) == ("active", agent.process.pid)
    agent.die()
    assert state(lastgood) == "incomplete"


def test_a_verb_from_elsewhere_changes_nothing(lastgood: Command, agent: Agent) -> None:
    """P1."""
    agent.do(START)
    agent.do(f"{LASTGOOD} task start T1")
    lastgood("progress", "set", "--phase", "Testing")
    assert owner(lastgood) == agent.process.pid
    agent.die()
    assert state(lastgood) == "incomplete"


def test_a_save_counts_if_it_names_the_session(lastgood: Command, agent: Agent) -> None:
    """P1: one that names none is anybody's."""
    agent.do(f"{START} > ../session")
    agent.do(f"{LASTGOOD} save -q one")
    assert owner(lastgood) is None
    agent.do(f"LASTGOOD_SESSION=$(cat ../session) {LASTGOOD} save -q two")
    assert owner(lastgood) == agent.process.pid


def test_a_named_owner_stays_whoever_works(lastgood: Command, agent: Agent) -> None:
    lastgood("session", "start", "--owner-pid", str(os.getpid()))
    agent.do(f"{LASTGOOD} task start T1")
    agent.do(f"{LASTGOOD} task done T1")
    assert owner(lastgood) == os.getpid()


def test_a_session_without_a_terminal_is_that_of_its_script(lastgood: Command) -> None:
    """P1: as under ssh without one."""
    script = f"{START}; {LASTGOOD} task start T1; kill -9 $$"
    assert shell(lastgood, script, before=("setsid", "-w")) != 0
    assert state(lastgood) == "incomplete"


def _has_namespaces() -> bool:
    return subprocess.run(["unshare", "-rpf", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has_namespaces(), reason="no PID namespace can be made here")
def test_of_what_a_container_did_nothing_is_known_from_outside(lastgood: Command) -> None:
    """P1: nor who its first process is."""
    shell(
        lastgood,
        f"{START}; {LASTGOOD} task start T1; kill -9 $$",
        before=("unshare", "-rpf", "--mount-proc"),
    )
    assert (state(lastgood), owner(lastgood)) == ("active", None)


def test_the_caller_is_not_refused_by_itself(lastgood: Command) -> None:
    """P1: what it had begun waits, and is told."""
    script = f"{START}; {LASTGOOD} task start T1; {LASTGOOD} session start --goal next 2> ../told"
    assert shell(lastgood, script) == 0
    first, second = lastgood("session", "list", "--json").json["sessions"][::-1]
    assert (first["state"], first["goal"], second["goal"]) == ("incomplete", "prices", "next")
    assert f"session {first['id']} did not finish" in (lastgood.project / "../told").read_text()


def test_a_living_owner_keeps_its_session_under_many_shells(lastgood: Command, tmp_path: Path) -> None:
    """P1: at no moment does anybody take it for dead."""
    each = 'sh -c "$ONE $n; true"'
    calls = f"(for n in 1 2 3 4; do {each}; done) & (for n in 5 6 7 8; do {each}; done) & wait"
    script = f"{START}; ONE='{sys.executable} {COMMAND} progress set --step'; export ONE; {calls}"
    with living(lastgood, f"{script}; echo over > {tmp_path}/over") as running:
        states, is_over = set(), False
        while not is_over:
            is_over = (tmp_path / "over").exists() or running.poll() is not None
            states |= {one["state"] for one in lastgood("session", "list", "--json").json["sessions"]}
        assert states == {"active"}
        assert owner(lastgood) == running.pid
    assert state(lastgood) == "incomplete"
