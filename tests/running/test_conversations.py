"""The conversation of an agent program that runs under `run`: found by itself, kept, told after a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lastgood.conversation.reader import resume_command
from lastgood.workspace import Workspace
from tools import agent_program
from tools.command import COMMAND, Command
from tools.living import eventually, eventually_gone
from tools.values import not_none

HOSTS = sorted(agent_program.HOSTS)
SCRIPTS = {"claude-code": "claude.py", "codex": "codex.py", "gemini-cli": "gemini.js"}


class Agents:
    """Agent programs that write as the real ones do, in a home of their own."""

    def __init__(self, folder: Path, command: Command, workspace: Workspace) -> None:
        self.control = folder / "control"
        self.control.mkdir()
        self._folder = folder
        self._command = command
        self._workspace = workspace
        self.running: list[subprocess.Popen[bytes]] = []
        command.environment |= {"HOME": str(folder / "home"), "LASTGOOD_AUTO_INTERVAL": "1h"}
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
            command.environment.pop(name, None)

    def words(self, host: str, *more: str, control: Path | None = None) -> list[str]:
        """Return the words that start one; its script is called as the real program is."""
        script = self._folder / SCRIPTS[host]
        shutil.copy(agent_program.__file__, script)
        return [sys.executable, str(script), host, str(control or self.control), *more]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start the command with some words, in a group of its own."""
        self.running.append(
            subprocess.Popen(
                [sys.executable, COMMAND, *words],
                cwd=self._command.project,
                env=self._command.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )
        return self.running[-1]

    def beside(self, host: str, control: Path, *more: str) -> subprocess.Popen[bytes]:
        """Start one outside any run, in the same folder."""
        words = self.words(host, *more, control=control)
        process = subprocess.Popen(words, cwd=self._command.project, env=self._command.environment)
        self.running.append(process)
        assert eventually(lambda: up(control) != [])
        return process

    def kept(self) -> dict[str, Any]:
        """Wait until the session of the run keeps a conversation, and return which."""
        assert eventually(self.keeps)
        session = self._workspace.get_session().session
        return {"host": session.transcript_host, "session": session.transcript_session}

    def keeps(self) -> bool:
        sessions = self._workspace.sessions()
        return bool(sessions) and sessions[0].session.transcript is not None

    def end(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        """Let the agents end, and return how their run did."""
        (self.control / "end").touch()
        out, _ = process.communicate(timeout=600)
        return process.returncode, out.decode()


def up(control: Path) -> list[dict[str, Any]]:
    """Return the agents that have said where their files are."""
    return [json.loads(file.read_text()) for file in sorted(control.glob("up-*"))]


def whole(path: str) -> bytes:
    """Return a file up to its last whole line."""
    content = Path(path).read_bytes()
    return content[: content.rfind(b"\n") + 1]


@pytest.fixture
def agents(tmp_path: Path, lastgood: Command, workspace: Workspace) -> Iterator[Agents]:
    one = Agents(tmp_path, lastgood, workspace)
    (lastgood.project / "a.txt").write_text("one\n")
    yield one
    for process in one.running:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.parametrize("host", HOSTS)
def test_the_conversation_of_a_known_host_is_kept_with_the_checkpoints_of_its_run(
    host: str, agents: Agents, workspace: Workspace
) -> None:
    """P5, P8c."""
    run = agents.start("run", "--", *agents.words(host))
    kept = agents.kept()
    (agent,) = up(agents.control)
    assert kept == {"host": host, "session": agent["session"]}
    code, out = agents.end(run)
    assert code == 0, out
    done = next(one for one in workspace.list() if one.kind == "task")
    assert workspace.transcript(done.id) == Path(agent["path"]).read_bytes()
    assert not_none(done.conversation).form == host
    assert not_none(done.conversation).messages == 3
    assert [one["role"] for one in workspace.conversation(done.id)] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize("host", HOSTS)
def test_an_agent_below_shells_is_found_like_one_that_is_the_command(host: str, agents: Agents) -> None:
    """P8c."""
    words = " ".join(agents.words(host))
    run = agents.start("run", "--", "sh", "-c", f"sh -c '{words}; exit 0'; exit 0")
    assert agents.kept()["session"] == up(agents.control)[0]["session"]
    assert agents.end(run)[0] == 0


@pytest.mark.parametrize("host", HOSTS)
def test_what_an_agent_said_until_it_was_killed_is_kept_to_its_last_whole_line(
    host: str, agents: Agents, workspace: Workspace, lastgood: Command
) -> None:
    """P5, P7c."""
    run = agents.start("run", "--", *agents.words(host))
    agents.kept()
    (agent,) = up(agents.control)
    os.kill(agent["pid"], signal.SIGKILL)
    code, out = agents.end(run)
    assert code == 128 + signal.SIGKILL
    resume = not_none(resume_command(host, agent["session"]))
    assert f"go on with its conversation: {resume}" in out
    failed = next(one for one in workspace.list() if one.kind == "error")
    assert workspace.transcript(failed.id) == whole(agent["path"])
    assert resume in lastgood("recover", "--review").out


@pytest.mark.parametrize("host", HOSTS)
def test_what_was_said_after_the_last_checkpoint_of_a_killed_runner_is_kept_by_recover(
    host: str, agents: Agents, workspace: Workspace, lastgood: Command
) -> None:
    """P7c."""
    run = agents.start("run", "--", *agents.words(host))
    agents.kept()
    (agent,) = up(agents.control)
    run.kill()
    assert eventually_gone(agent["pid"])
    assert not any(one.conversation for one in workspace.list())
    assert lastgood("recover", "--review", "--json").json["conversation"]["messages"] == 2
    assert not any(one.conversation for one in workspace.list())
    told = lastgood("recover", "--json").json["conversation"]
    resume = resume_command(host, agent["session"])
    assert told == {"host": host, "messages": 2, "resume_command": resume, "transcript": agent["path"]}
    newest = workspace.get("latest")
    assert newest.session == workspace.get_session().id
    assert workspace.transcript(newest.id) == whole(agent["path"])


def test_recover_prints_the_hosts_own_command_that_goes_on(agents: Agents, lastgood: Command) -> None:
    """P7c."""
    run = agents.start("run", "--", *agents.words("claude-code"))
    session = agents.kept()["session"]
    run.kill()
    run.wait()
    assert eventually_gone(up(agents.control)[0]["pid"])
    assert f"conversation: claude-code {session}" in lastgood("status").out
    told = lastgood("recover").out
    assert "Conversation: 2 messages of claude-code" in told
    assert f"  go on with it: claude --resume {session}\n" in told
    assert "2 messages of claude-code" in lastgood("show", "@").out


def test_what_a_run_said_is_kept_also_if_it_is_given_up(
    agents: Agents, workspace: Workspace, lastgood: Command
) -> None:
    """P7c."""
    run = agents.start("run", "--", *agents.words("codex"))
    agents.kept()
    (agent,) = up(agents.control)
    run.kill()
    assert eventually_gone(agent["pid"])
    lastgood("recover", "--fresh")
    assert workspace.transcript("latest") == whole(agent["path"])


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_the_conversation_of_a_stranger_in_the_same_folder_is_never_taken(
    host: str, agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    control = tmp_path / "theirs"
    control.mkdir()
    agents.beside(host, control)
    run = agents.start("run", "--", *agents.words(host))
    own = agents.kept()["session"]
    assert own == up(agents.control)[0]["session"] != up(control)[0]["session"]
    agents.end(run)
    agents.beside(host, control)
    assert workspace.get_session().session.transcript_session == own


def test_where_nobody_can_tell_whose_file_grows_none_is_kept_and_that_is_said(
    agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    control = tmp_path / "theirs"
    control.mkdir()
    agents.beside("gemini-cli", control)
    run = agents.start("run", "--json", "--", *agents.words("gemini-cli"))
    line = b""
    while b"nobody can tell whose is whose" not in line:
        line = not_none(run.stdout).readline()
        assert line, "nothing was said"
    assert agents.end(run)[0] == 0
    assert workspace.get_session().session.transcript is None
    assert not any(one.conversation for one in workspace.list())


def test_what_a_stranger_wrote_before_the_agent_began_is_not_the_agents(
    agents: Agents, tmp_path: Path
) -> None:
    """P8c."""
    control, go = tmp_path / "theirs", tmp_path / "go"
    control.mkdir()
    rival = agents.beside("gemini-cli", control)
    words = " ".join(agents.words("gemini-cli", "--silent"))
    run = agents.start("run", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; exec {words}")
    time.sleep(1)
    (control / "end").touch()
    assert rival.wait() == 0
    time.sleep(0.5)
    go.touch()
    time.sleep(1)
    assert not agents.keeps()
    (agents.control / "speak").touch()
    assert agents.kept()["session"] == up(agents.control)[0]["session"]
    assert agents.end(run)[0] == 0


def test_a_conversation_found_without_a_name_is_let_go_once_a_strangers_grows_beside_it(
    agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    control = tmp_path / "theirs"
    control.mkdir()
    run = agents.start("run", "--", *agents.words("gemini-cli"))
    agents.kept()
    agents.beside("gemini-cli", control)
    assert eventually(lambda: not agents.keeps())
    code, out = agents.end(run)
    assert code == 0
    assert "nobody can tell whose is whose" in out
    assert workspace.get_session().session.transcript is None


def test_a_conversation_that_was_named_at_the_start_is_told_from_a_strangers(
    agents: Agents, tmp_path: Path
) -> None:
    """P8c."""
    control = tmp_path / "theirs"
    control.mkdir()
    agents.beside("gemini-cli", control)
    own = "e4aa09d3-e3e0-4098-81e2-362f44393299"
    run = agents.start("run", "--", *agents.words("gemini-cli", "--session-id", own))
    assert agents.kept()["session"] == own
    assert agents.end(run)[0] == 0


def test_the_last_words_of_one_conversation_are_kept_when_a_task_begins_another(
    agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P5."""
    first = tmp_path / "first"
    first.mkdir()
    both = [" ".join(agents.words("claude-code", control=one)) for one in (first, agents.control)]
    run = agents.start("run", "--", "sh", "-c", " && ".join(both))
    begun = agents.kept()["session"]
    (first / "end").touch()
    assert eventually(lambda: workspace.get_session().session.transcript_session != begun)
    assert agents.end(run)[0] == 0
    texts = [str(workspace.conversation(one.id)) for one in workspace.list() if one.conversation]
    (one,) = up(first)
    assert any(
        workspace.transcript(each.id) == Path(one["path"]).read_bytes()
        for each in workspace.list()
        if each.conversation
    ), texts


def test_a_file_that_was_named_is_kept_although_nobody_knows_its_writer(
    lastgood: Command, workspace: Workspace, tmp_path: Path
) -> None:
    """P5."""
    file = tmp_path / "talk.jsonl"
    lastgood("run", "--transcript", str(file), "--", "sh", "-c", f"echo '{{\"said\": 1}}' > {file}")
    done = next(one for one in workspace.list() if one.kind == "task")
    assert workspace.transcript(done.id) == b'{"said": 1}\n'


def test_a_plan_names_the_file_of_a_tasks_conversation_within_the_workspace(
    plan_file: Callable[..., str], lastgood: Command, workspace: Workspace
) -> None:
    """P5."""
    tasks = [
        {"id": "one", "run": "echo '{\"of\": 1}' > one.jsonl", "transcript": "one.jsonl"},
        {"id": "two", "run": "echo '{\"of\": 2}' > two.jsonl"},
    ]
    lastgood("run", plan_file(*tasks, transcript="two.jsonl"))
    kept = {one.task: workspace.transcript(one.id) for one in workspace.list() if one.kind == "task"}
    assert kept == {"one": b'{"of": 1}\n', "two": b'{"of": 2}\n'}


def test_the_environment_that_counts_is_that_of_the_agent_itself(
    agents: Agents, lastgood: Command, tmp_path: Path
) -> None:
    """P8c."""
    words = " ".join(agents.words("claude-code"))
    elsewhere = tmp_path / "elsewhere"
    run = agents.start("run", "--", "sh", "-c", f"CLAUDE_CONFIG_DIR={elsewhere} {words}; exit 0")
    agents.kept()
    assert up(agents.control)[0]["path"].startswith(str(elsewhere))
    assert agents.end(run)[0] == 0


def test_a_host_whose_files_cannot_be_read_holds_up_no_run(
    agents: Agents, lastgood: Command, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    sessions = tmp_path / "home/.claude/sessions"
    sessions.mkdir(parents=True)
    program = f'mkfifo "{sessions}/$$.json"; sleep 1'
    assert lastgood("run", "--", "sh", "-c", program).code == 0
    assert workspace.get_session().session.transcript is None


def test_an_interval_makes_a_checkpoint_of_the_conversation_so_far(
    agents: Agents, lastgood: Command, workspace: Workspace
) -> None:
    """P3, P5."""
    lastgood.environment["LASTGOOD_AUTO_INTERVAL"] = "1s"
    run = agents.start("run", "--", *agents.words("codex"))
    agents.kept()
    assert eventually(lambda: any(one.conversation for one in workspace.list()))
    newest = next(one for one in workspace.list() if one.conversation)
    assert (newest.kind, not_none(newest.conversation).messages) == ("auto", 2)
    assert workspace.transcript(newest.id) == whole(up(agents.control)[0]["path"])
    assert agents.end(run)[0] == 0


def test_an_interrupted_run_keeps_the_conversation_and_names_how_it_goes_on(
    agents: Agents, workspace: Workspace
) -> None:
    """P3, P7c."""
    run = agents.start("run", "--", *agents.words("codex"))
    session = agents.kept()["session"]
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=600)
    assert run.returncode == 128 + signal.SIGINT
    assert f"codex resume {session}" in out.decode()
    kept = next(one for one in workspace.list() if one.kind == "interrupt")
    assert not_none(kept.conversation).messages == 2
