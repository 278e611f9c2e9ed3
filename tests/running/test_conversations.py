"""The conversation of an agent program that runs under `run`: found by itself, kept, told after a kill."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastgood.conversation.files import TranscriptFiles
from lastgood.conversation.hosts import Chosen, FoundConversation, claude_folder
from lastgood.conversation.reader import resume_command
from lastgood.conversation.search import _works_beside
from lastgood.errors import Storage
from lastgood.model.checkpoint import Checkpoint
from lastgood.sessions import conversation
from lastgood.workspace import Workspace
from lastgood.workspace.running.context import RunContext
from tools import agent_program
from tools.command import COMMAND, Command
from tools.living import eventually, eventually_gone
from tools.opencode_database import OpencodeDatabase
from tools.values import not_none

HOSTS = sorted(agent_program.HOSTS)
# Those that do not say which conversation they have.
SILENT = ["gemini-cli", "opencode"]
IN_FILES = [host for host in HOSTS if host != "opencode"]
SCRIPTS = {
    "claude-code": "claude.py",
    "codex": "codex.py",
    "gemini-cli": "gemini.js",
    "opencode": "opencode",
}
# A script is called as the real program is.
SCRIPT = """import sys
from pathlib import Path

sys.path.insert(0, {tests!r})
from tools import agent_program

agent_program.main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
"""


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
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME"):
            command.environment.pop(name, None)

    def words(self, host: str, *more: str, control: Path | None = None) -> list[str]:
        """Return the words that start one."""
        script = self._folder / SCRIPTS[host]
        script.write_text(SCRIPT.format(tests=str(Path(agent_program.__file__).parents[1])))
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
        """Wait until the run keeps the conversation of an agent that has said so, and return which."""
        assert eventually(lambda: self.keeps() and self.named() in self.said())
        return {"host": self._workspace.get_session().session.transcript_host, "session": self.named()}

    def named(self) -> str | None:
        """Return what its host calls the conversation that is kept."""
        return self._workspace.get_session().session.transcript_session

    def said(self) -> set[str]:
        """Return what all agents call theirs."""
        return {one["session"] for file in self._folder.glob("*/up-*") for one in up(file.parent)}

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


def goes_round(run: subprocess.Popen[bytes]) -> None:
    """Wait until a run has gone to sleep so often that it has looked at all processes anew meanwhile."""
    file, before = Path(f"/proc/{run.pid}/status"), list[int]()

    def has_slept() -> bool:
        times = next(line for line in file.read_text().splitlines() if line.startswith("voluntary_ctxt"))
        before.append(int(times.split()[1]))
        return before[-1] > before[0] + 20

    assert eventually(has_slept)


def whole(path: str) -> bytes:
    """Return a transcript up to its last whole line."""
    file = TranscriptFiles(b"/nonexistent").open(os.fsencode(path))
    try:
        content = file.read(0, file.place().size)
    finally:
        file.close()
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
    assert workspace.transcript(done.id) == whole(agent["path"])
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
    newest = workspace.get("latest")
    assert told == {
        "host": host,
        "messages": 2,
        "resume_command": resume,
        "transcript": agent["path"],
        "readable": True,
        "checkpoint": newest.id,
    }
    assert newest.session == workspace.get_session().id
    assert workspace.transcript(newest.id) == whole(agent["path"])


def killed_agent(agents: Agents, host: str) -> dict[str, Any]:
    """Run an agent that is killed once its conversation is kept, and return what it said of itself."""
    run = agents.start("run", "--", *agents.words(host))
    agents.kept()
    (agent,) = up(agents.control)
    os.kill(agent["pid"], signal.SIGKILL)
    agents.end(run)
    return agent


@pytest.mark.parametrize("whole_home", [False, True])
@pytest.mark.parametrize("host", IN_FILES)
def test_a_host_that_lost_the_transcript_goes_on_after_the_printed_restore(
    host: str, whole_home: object, agents: Agents, tmp_path: Path, lastgood: Command
) -> None:
    """P7c: what cannot be gone on with is not printed as if it could; a home that is gone is made again."""
    agent = killed_agent(agents, host)
    file = Path(agent["path"])
    content = whole(agent["path"])
    if whole_home:
        (home,) = (tmp_path / "home").glob(f".{host.partition('-')[0]}")
        shutil.rmtree(home)
    else:
        file.unlink()
    told = lastgood("-C", str(lastgood.project), "recover", "--review").out
    resume = not_none(resume_command(host, agent["session"]))
    assert resume not in told
    (line,) = [line for line in told.splitlines() if "gone" in line]
    restoring = shlex.split(line.partition("bring it back: ")[2])
    assert restoring[:3] == ["lastgood", "-C", str(lastgood.project)]
    done = lastgood(*restoring[1:], "--yes", "--json").json
    command = shlex.split(done["conversation"]["resume_command"])
    assert command[:-1] == shlex.split(resume)[:-1]
    copy = Path(done["conversation"]["transcript"])
    assert copy.parent == file.parent
    assert copy.read_bytes().replace(command[-1].encode(), agent["session"].encode()) == content


def test_recover_names_the_transcript_that_a_restore_brought_back(agents: Agents, lastgood: Command) -> None:
    """P7c: nobody is sent to make another copy; once that is taken back, the restore is named again."""
    agent = killed_agent(agents, "claude-code")
    Path(agent["path"]).unlink()
    back = lastgood("restore", "@", "--only", "conversation", "--yes", "--json").json["conversation"]
    with open(back["transcript"], "ab") as copy:
        said = {"type": "user", "sessionId": "x", "message": {"role": "user", "content": "on"}}
        copy.write(json.dumps(said).encode() + b"\n")
    told = lastgood("recover", "--review")
    assert f"go on with it: {back['resume_command']}\n" in told.out
    assert f"Conversation: 3 messages of claude-code, from\n  {back['transcript']}\n" in told.out
    assert "bring it back" not in told.out
    Path(back["transcript"]).unlink()
    assert "bring it back" in lastgood("recover", "--review").out


def test_recover_names_the_restore_again_once_a_copy_is_taken_back(agents: Agents, lastgood: Command) -> None:
    """P7c, T8."""
    Path(killed_agent(agents, "codex")["path"]).unlink()
    lastgood("restore", "@", "--only", "conversation", "--yes")
    assert "bring it back" not in lastgood("recover", "--review").out
    lastgood("undo")
    assert "bring it back" in lastgood("recover", "--review").out


def test_a_session_that_was_deleted_in_opencode_comes_back_by_the_printed_lines(
    agents: Agents, lastgood: Command
) -> None:
    """P7c: the restore, then the import and the session that it makes."""
    agent = killed_agent(agents, "opencode")
    database = sqlite3.connect(Path(agent["path"]).parent)
    database.execute("DELETE FROM session")
    database.commit()
    database.close()
    told = lastgood("recover", "--review").out
    assert "opencode --session" not in told
    (line,) = [line for line in told.splitlines() if "gone" in line]
    restoring = shlex.split(line.partition("bring it back: ")[2])
    back = lastgood(*restoring[1:], "--yes", "--json").json["conversation"]
    session = Path(back["transcript"]).stem
    assert back["resume_command"] == f"opencode import {back['transcript']} && opencode --session {session}"
    said = json.loads(Path(back["transcript"]).read_text())["messages"]
    assert [part["text"] for one in said for part in one["parts"] if part["type"] == "text"] == [
        agent_program.PROMPT,
        agent_program.BEGUN,
    ]
    told = lastgood("recover", "--review").out
    assert "Conversation: 2 messages of opencode" in told
    assert f"go on with it: {back['resume_command']}\n" in told


def test_a_transcript_that_is_gone_before_anything_was_kept_is_said_to_be(
    agents: Agents, lastgood: Command
) -> None:
    """P7c."""
    run = agents.start("run", "--", *agents.words("codex"))
    agents.kept()
    (agent,) = up(agents.control)
    run.kill()
    run.wait()
    assert eventually_gone(agent["pid"])
    Path(agent["path"]).unlink()
    told = lastgood("recover")
    assert "codex resume" not in told.out
    assert "gone, or cannot be read, and no checkpoint holds it" in told.out


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


@pytest.mark.parametrize("host", SILENT)
def test_where_nobody_can_tell_whose_file_grows_none_is_kept_and_that_is_said(
    host: str, agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    control = tmp_path / "theirs"
    control.mkdir()
    agents.beside(host, control)
    run = agents.start("run", "--json", "--", *agents.words(host))
    line = b""
    while b"nobody can tell whose is whose" not in line:
        line = not_none(run.stdout).readline()
        assert line, "nothing was said"
    assert agents.end(run)[0] == 0
    assert workspace.get_session().session.transcript is None
    assert not any(one.conversation for one in workspace.list())


@pytest.mark.parametrize("host", SILENT)
def test_what_a_stranger_wrote_before_the_agent_began_is_not_the_agents(
    host: str, agents: Agents, tmp_path: Path
) -> None:
    """P8c."""
    control, go = tmp_path / "theirs", tmp_path / "go"
    control.mkdir()
    rival = agents.beside(host, control)
    words = " ".join(agents.words(host, "--silent"))
    run = agents.start("run", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done; exec {words}")
    time.sleep(1)
    (control / "end").touch()
    assert rival.wait() == 0
    goes_round(run)
    go.touch()
    time.sleep(1)
    assert not agents.keeps()
    (agents.control / "speak").touch()
    assert agents.kept()["session"] == up(agents.control)[0]["session"]
    assert agents.end(run)[0] == 0


def test_what_a_command_began_while_it_was_looked_at_is_no_stranger(
    agents: Agents, project: Path, tmp_path: Path
) -> None:
    """P8c: Gemini CLI starts itself anew, and each child is called as it is until it is another program."""
    control = tmp_path / "control"
    agents.beside("gemini-cli", control)
    assert list(_works_beside(str(project), {os.getpid()})) == []
    assert list(_works_beside(str(project), set())) == [("gemini-cli", str(project))]


@pytest.mark.parametrize("host", SILENT)
def test_a_conversation_found_without_a_name_is_let_go_once_a_strangers_grows_beside_it(
    host: str, agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    control = tmp_path / "theirs"
    control.mkdir()
    run = agents.start("run", "--", *agents.words(host))
    agents.kept()
    agents.beside(host, control)
    assert eventually(lambda: not agents.keeps())
    code, out = agents.end(run)
    assert code == 0
    assert "nobody can tell whose is whose" in out
    assert workspace.get_session().session.transcript is None


def test_a_conversation_is_not_taken_for_mere_words_of_a_program_that_is_not_its_host(
    lastgood: Command, agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    one = "e4aa09d3-e3e0-4098-81e2-362f44393299"
    line = json.dumps({"type": "user", "sessionId": one, "cwd": "/home/other", "message": {}})
    for folder in ("-home-other", claude_folder(str(lastgood.project))):
        projects = tmp_path / "home/.claude/projects" / folder
        projects.mkdir(parents=True)
        (projects / f"{one}.jsonl").write_text(line + "\n")
    lastgood("run", "--", "sh", "-c", "sleep 1; echo x > b", "viewer", "--session", one)
    assert workspace.get_session().session.transcript is None


@pytest.mark.parametrize("inside", [False, True])
def test_a_named_conversation_of_another_folder_needs_to_be_of_the_workspace(
    inside: object, lastgood: Command, agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    one = "e4aa09d3-e3e0-4098-81e2-362f44393299"
    where = str(lastgood.project / "sub") if inside else "/home/other"
    line = json.dumps({"type": "user", "sessionId": one, "cwd": where, "message": {}})
    file = tmp_path / "home/.claude/projects/-home-other" / f"{one}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"type":"summary"}\n' + line + "\n")
    claude = tmp_path / "claude"
    waits = f"until [ -e {agents.control}/end ]; do sleep 0.05; done"
    claude.write_text(f"{waits if inside else 'sleep 1'}; echo x > b")
    run = agents.start("run", "--", "sh", str(claude), "--resume", one)
    assert not inside or eventually(agents.keeps)
    assert agents.end(run)[0] == 0
    assert workspace.get_session().session.transcript == (str(file) if inside else None)


def test_a_record_that_another_process_left_gives_a_plain_shell_no_conversation(
    lastgood: Command, agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c."""
    one = "e4aa09d3-e3e0-4098-81e2-362f44393299"
    home = tmp_path / "home/.claude"
    file = home / "projects" / claude_folder(str(lastgood.project)) / f"{one}.jsonl"
    for folder in (file.parent, home / "sessions"):
        folder.mkdir(parents=True)
    file.write_text(json.dumps({"type": "user", "sessionId": one}) + "\n")
    record = json.dumps({"pid": 0, "sessionId": one, "cwd": str(lastgood.project)}).replace("0", "$$", 1)
    program = f"cat > '{home}/sessions/'$$.json <<END\n{record}\nEND\nsleep 1; echo x > b"
    lastgood("run", "--", "sh", "-c", program)
    assert list((home / "sessions").iterdir())
    assert workspace.get_session().session.transcript is None


def test_the_agent_of_a_check_does_not_take_the_place_of_the_tasks_conversation(
    agents: Agents, plan_file: Callable[..., str]
) -> None:
    """P8c."""
    check = " ".join(agents.words("claude-code"))
    run = agents.start("run", plan_file({"id": "one", "run": "echo x > b", "check": check}))
    assert eventually(lambda: up(agents.control) != [])
    time.sleep(1)
    kept = agents.keeps()
    assert agents.end(run)[0] == 0
    assert not kept
    assert not agents.keeps()


def test_that_a_conversation_cannot_be_kept_is_said_once_and_tried_less_and_less_often() -> None:
    """P5."""
    now, tried, said = [0.0], [0], []

    def refuse(*_words: object, **_named: object) -> None:
        tried[0] += 1
        raise Storage("the disk is full")

    found = FoundConversation(host="codex", session="one", transcript="/one", pid=7)
    context: Any = RunContext.__new__(RunContext)
    context.workspace = SimpleNamespace(
        monotonic=lambda: now[0], said_more=lambda: False, keep_conversation=refuse
    )
    context.events = SimpleNamespace(notice=lambda reason, **_: said.append(reason))
    context._search = SimpleNamespace(look=lambda **_: Chosen(conversation=found))
    context._doubts, context._transcript, context._failed, context._follows = set(), None, {}, True
    task = SimpleNamespace(id="one", transcript=None)
    for _ in range(600):
        context.follow_conversation(task)
        now[0] += 0.1
    assert said == ["the conversation is not kept: the disk is full"]
    assert 1 < tried[0] < 10
    context.follow_conversation(task, over=True)
    assert tried[0] < 11


def test_counting_the_messages_of_a_long_conversation_takes_no_memory_by_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P7c."""
    line = b'{"role": "user", "content": "%s"}\n'
    lines: Any = (line % (b"%d" % number * 200) for number in range(20_000))
    monkeypatch.setattr(conversation, "_whole_lines", lambda *_: lines)
    monkeypatch.setattr(conversation, "_goes_on", lambda *_: True)
    tracemalloc.start()
    try:
        assert conversation._messages(None, b"/one", None) == 20_000  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


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


def test_of_two_files_of_a_conversation_of_gemini_the_one_that_goes_on_is_kept(
    agents: Agents, workspace: Workspace, tmp_path: Path
) -> None:
    """P8c: resumed in another minute it begins a second file."""
    own = "e4aa09d3-e3e0-4098-81e2-362f44393299"
    chats = tmp_path / "home/.gemini/tmp/project/chats"
    chats.mkdir(parents=True)
    for stamp in ("2026-11-23T01-00", "2026-11-23T02-00"):
        head = json.dumps({"sessionId": own, "projectHash": "1", "kind": "main"})
        said = json.dumps({"type": "user", "content": "before " * 500}) if "01-00" in stamp else ""
        (chats / f"session-{stamp}-{own[:8]}.jsonl").write_text(f"{head}\n{said}\n")
    run = agents.start("run", "--", *agents.words("gemini-cli", "--session-id", own))
    assert agents.kept()["session"] == own
    session = workspace.get_session().session
    assert session.transcript == str(chats / f"session-2026-11-23T01-00-{own[:8]}.jsonl")
    assert agents.end(run)[0] == 0


def test_of_two_conversations_that_opencode_has_one_after_the_other_the_last_one_is_kept(
    agents: Agents, lastgood: Command, workspace: Workspace
) -> None:
    """P8c: each with what was said until the other went on; a sub-agent's, or another folder's, is none."""
    run = agents.start("run", "--", *agents.words("opencode"))
    first = agents.kept()["session"]
    database = OpencodeDatabase(
        Path(up(agents.control)[0]["path"]).parents[2],
        directory=str(lastgood.project),
        now=time.time_ns() // 1_000_000,
    )
    second = database.begin()
    database.user("something new")
    assert eventually(lambda: agents.named() == second)
    database.begin(parent=second)
    database.user("of a sub-agent")
    database.begin(directory="/elsewhere")
    database.user("of another folder")
    database.close()
    time.sleep(1)
    assert agents.named() == second
    assert agents.end(run)[0] == 0
    said = [str(workspace.conversation(one.id)) for one in workspace.list() if one.conversation]
    assert any("something new" in one for one in said)
    assert agent_program.DONE in said[0]
    assert agents.named() == first


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


@pytest.mark.parametrize(
    ("host", "variable"), [("claude-code", "CLAUDE_CONFIG_DIR"), ("opencode", "XDG_DATA_HOME")]
)
def test_the_environment_that_counts_is_that_of_the_agent_itself(
    host: str, variable: str, agents: Agents, tmp_path: Path
) -> None:
    """P8c."""
    words = " ".join(agents.words(host))
    elsewhere = tmp_path / "elsewhere"
    run = agents.start("run", "--", "sh", "-c", f"{variable}={elsewhere} {words}; exit 0")
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

    def whole_ones() -> list[Checkpoint]:
        """Return those with all that was said; one may have been made before."""
        found = [(one, one.conversation) for one in workspace.list()]
        return [one for one, said in found if said is not None and said.messages == 2]

    assert eventually(lambda: whole_ones() != [])
    newest, *_ = whole_ones()
    assert newest.kind == "auto"
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
