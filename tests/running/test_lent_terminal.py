"""A command that has the terminal itself, driven from real shells (rule P8c)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.command import COMMAND, PATIENCE, Command
from tools.living import descendants, eventually, eventually_gone, lives, state, written
from tools.terminal import Shell, Terminal
from tools.values import not_none

RUN = f"{sys.executable} {COMMAND} run"
# Ctrl-C may come while a shell forks: bash then waits for a child that has not heard it.
SLEEPS = "exec sleep 1000"
# Raw mode: no echo, no keys that send signals; what is typed comes as it is.
RAW = (
    "import os, time, tty; tty.setraw(0); open({pid!r}, 'w').write('%d\\n' % os.getpid());"
    " print('raw', flush=True); time.sleep(1000)"
)


@pytest.fixture
def shell(lastgood: Command) -> Iterator[Shell]:
    """Return an interactive shell in the project."""
    with Shell(cwd=lastgood.project, environment=lastgood.environment) as seen:
        yield seen


@pytest.fixture
def direct(lastgood: Command) -> Callable[..., Terminal]:
    """Return a call that runs a command by lastgood on a terminal of its own."""

    def start(*words: str, options: tuple[str, ...] = ()) -> Terminal:
        program = [sys.executable, COMMAND, "run", *options, "--", *words]
        return Terminal(program, cwd=lastgood.project, environment=lastgood.environment, columns=200)

    return start


def python(program: str) -> str:
    """Return the words of a Python program for a shell."""
    return f"{sys.executable} -c {json.dumps(program)}"


def test_what_is_typed_goes_to_the_command(direct: Callable[..., Terminal]) -> None:
    """P8c."""
    with direct("sh", "-c", 'echo "name?"; read name; test -t 1 && test -t 2 && echo "hello $name"') as seen:
        seen.until("name?")
        seen.type("Ada\n")
        assert seen.end() == 0
        assert "hello Ada" in seen.shown


def test_nothing_of_ours_is_shown_while_the_command_has_the_terminal(
    direct: Callable[..., Terminal], lastgood: Command, tmp_path: Path
) -> None:
    """P8c: checkpoints by interval go on."""
    lastgood.environment["LASTGOOD_AUTO_INTERVAL"] = "1s"

    def several_were_made() -> bool:
        kinds = [one["kind"] for one in lastgood("list", "--json").json["checkpoints"]]
        return kinds.count("auto") >= 2

    works = f"until [ -e {tmp_path}/enough ]; do date +%N > file; sleep 0.1; done"
    with direct("sh", "-c", f"clear; {works}; tput cup 0 0; printf x; read word") as seen:
        assert eventually(several_were_made)
        (tmp_path / "enough").touch()
        seen.until(lambda: seen.shown == ["x"])
        seen.type("\n")
        seen.end()


def test_that_its_output_is_not_recorded_is_said(direct: Callable[..., Terminal], lastgood: Command) -> None:
    """P8c."""
    with direct("echo", "hello") as seen:
        assert seen.end() == 0
        assert "(the command's output is not recorded)" in seen.everything[0]
    (log,) = lastgood.store.glob("workspaces/*/runs/*/*.log")
    assert log.read_text() == "[it had the terminal: what it printed is not recorded]\n"


def test_it_reaches_the_terminal_by_its_name(direct: Callable[..., Terminal]) -> None:
    """P8c."""
    with direct("sh", "-c", 'read word < /dev/tty; echo "got $word" > /dev/tty') as seen:
        seen.until("not recorded")
        seen.type("it\n")
        assert seen.end() == 0
        assert "got it" in seen.shown


def test_a_window_that_changes_its_size_tells_the_command(direct: Callable[..., Terminal]) -> None:
    """P8c."""
    with direct(
        "bash", "-c", "trap 'stty size; echo told' WINCH; echo ready; while :; do read -t 0.1; done"
    ) as seen:
        seen.until("ready")
        seen.resize(60, 12)
        seen.until("12 60")
        seen.until("told")  # bash lets a Ctrl-C pass while a program of its own ends well
        seen.type("\x03")
        assert seen.end() == 130


def test_ctrl_c_is_the_commands_own(direct: Callable[..., Terminal]) -> None:
    """P8c: one that goes on after it goes on."""
    with direct("bash", "-c", "trap 'echo caught' INT; echo ready; read line; echo after $line") as seen:
        seen.until("ready")
        seen.type("\x03")
        seen.until("caught")
        seen.type("all\n")
        assert seen.end() == 0
        assert "after all" in seen.shown


def test_a_command_that_ends_by_ctrl_c_was_interrupted(
    direct: Callable[..., Terminal], lastgood: Command
) -> None:
    """P8c, P8: no retry follows."""
    with direct("sh", "-c", f"echo ready; {SLEEPS}", options=("--retries", "3")) as seen:
        seen.until("ready")
        seen.type("\x03")
        assert seen.end() == 130
        assert any("interrupted by SIGINT" in line for line in seen.shown)
        assert seen.shown.count("ready") == 1
    assert lastgood("status", "--json").json["state"] == "incomplete"


HANDLES = "trap 'exit 2' INT; echo ready; while :; do sleep 0.1; done"


def test_a_command_that_handles_ctrl_c_and_fails_was_interrupted(
    direct: Callable[..., Terminal], lastgood: Command
) -> None:
    """P8c: whatever code it ends with, no retry follows."""
    with direct("sh", "-c", HANDLES, options=("--retries", "2")) as seen:
        seen.until("ready")
        seen.type("\x03")
        assert seen.end() == 130
        assert seen.shown.count("ready") == 1
    assert lastgood("status", "--json").json["state"] == "incomplete"


def test_ctrl_c_takes_nothing_back_and_starts_no_other_task(
    shell: Shell, lastgood: Command, plan_file: Callable[..., str]
) -> None:
    """P8c."""
    work = f"echo work > made-by-hand; {HANDLES}"
    plan = plan_file(
        {"id": "tests", "run": work, "terminal": True, "on_failure": "rollback"},
        {"id": "deploy", "run": "touch deployed"},
    )
    shell.type(f"{RUN} {plan}\n")
    shell.says("ready")
    shell.type("\x03")
    shell.until("interrupted by SIGINT")
    shell.at_prompt()
    assert (lastgood.project / "made-by-hand").exists()
    assert not (lastgood.project / "deployed").exists()


def test_a_code_of_130_without_ctrl_c_near_is_a_failure(
    direct: Callable[..., Terminal], lastgood: Command
) -> None:
    """P8c: as of a shell that saw Ctrl-C at its prompt long before."""
    caught = "trap 'date +caught' INT; echo ready; read line; sleep 3.2; exit 130"
    with direct("bash", "-c", caught) as seen:
        seen.until("ready")
        seen.type("\x03")
        seen.until("caught")
        # Whoever else hears the key has heard it, and waits again.
        assert eventually(lambda: {state(one) for one in descendants(seen.pid)} == {"S"})
        seen.type("line\n")
        assert seen.end() == 130
        assert any("it ended with exit code 130" in line for line in seen.shown)
    assert lastgood("status", "--json").json["state"] != "incomplete"


def test_what_hears_the_keys_outlasts_signals_of_the_command_and_is_not_left(
    direct: Callable[..., Terminal],
) -> None:
    """P8c."""
    work = (
        "trap '' TERM USR1; trap 'exit 4' INT; kill -TERM 0; kill -USR1 0; kill -TSTP 0; echo ready; read x"
    )
    with direct("bash", "-c", f"trap '' TSTP; {work}") as seen:
        seen.until("ready")
        seen.type("\x03")
        assert seen.end() == 130
        assert any("interrupted by SIGINT" in line for line in seen.shown)
        assert not any("running" in line for line in seen.shown)


def test_a_command_that_kills_its_group_ends(direct: Callable[..., Terminal]) -> None:
    """P8c."""
    with direct("sh", "-c", "kill -KILL 0") as seen:
        assert seen.end() == 137


@pytest.mark.parametrize("work", [f"echo ready; {SLEEPS}", HANDLES])
def test_ctrl_c_reaches_who_called_lastgood_too(
    shell: Shell, lastgood: Command, tmp_path: Path, work: str
) -> None:
    """P8c: once the run is told and the terminal is back."""
    (tmp_path / "work").write_text(work)
    script = tmp_path / "script"
    script.write_text(f"{RUN} -q -- sh {tmp_path}/work\ntouch went-on\n")
    shell.type(f"sh {script}\n")
    shell.says("ready")
    shell.type("\x03")
    shell.until("interrupted by SIGINT")
    shell.at_prompt()
    shell.type("echo code $?\n")
    shell.says("code 130")
    assert not (lastgood.project / "went-on").exists()
    assert lastgood("status", "--json").json["state"] == "incomplete"


@pytest.mark.parametrize(
    "work", ["sleep 1000", "trap 'exit 3' HUP; while :; do sleep 0.1; done", "read line; exit 5"]
)
def test_a_window_that_is_closed_interrupts_the_run(lastgood: Command, work: str) -> None:
    """P8c: nothing is taken back."""
    made = lastgood.project / "made"
    with Shell(cwd=lastgood.project, environment=lastgood.environment) as seen:
        (lastgood.project.parent / "work").write_text(f"echo work > made; echo ready; {work}")
        seen.type(f"{RUN} --on-failure rollback -- sh {lastgood.project.parent}/work\n")
        seen.says("ready")
        seen.hang_up()
        assert eventually(lambda: lastgood("status", "--json").json["state"] == "incomplete")
    assert made.read_text() == "work\n"
    assert lastgood("recover", "--review", "--json").json["session"]


def test_ctrl_z_and_fg_are_those_of_the_shell(shell: Shell) -> None:
    """P8c."""
    shell.type(f"{RUN} -- sh -c 'echo ready; read line; echo got $line'\n")
    shell.says("ready")
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("clear; ps -o stat= --ppid $(jobs -p) | cut -c1; fg\n")
    shell.until(lambda: bool(shell.shown) and shell.shown[-1].startswith(sys.executable))
    shell.type("line\n")
    shell.until("done in")
    assert "got line" in shell.shown
    shell.at_prompt()
    shell.type("echo code $?\n")
    shell.says("code 0")


def test_all_of_a_stopped_command_stands_still(shell: Shell, tmp_path: Path) -> None:
    """P8c."""
    pid = tmp_path / "pid"
    shell.type(f"{RUN} -- sh -c 'sleep 1000 & echo $! > {pid}; echo ready; wait'\n")
    shell.says("ready")
    shell.type("\x1a")
    shell.until("Stopped")
    assert eventually(lambda: state(int(written(pid))) == "T")
    shell.type("kill %1\n")
    assert eventually_gone(int(written(pid)))


def test_a_command_in_the_background_does_not_take_the_terminal(shell: Shell) -> None:
    """P8c: what it reads it gets when it is brought to the foreground."""
    shell.type(f"{RUN} -- sh -c 'read line; echo got $line' &\n")
    shell.has_stopped()
    shell.type("echo mine\n")
    shell.says("mine")
    shell.type("fg\n")
    shell.until(lambda: bool(shell.shown) and shell.shown[-1].startswith(sys.executable))
    shell.type("line\n")
    shell.until("done in")
    assert "got line" in shell.shown


def test_a_command_in_a_pipeline_leaves_the_terminal_to_the_others(shell: Shell) -> None:
    """P8c."""
    reader = python("input('first? '); tty = open('/dev/tty'); print('read', tty.readline())")
    shell.type(f"{RUN} -- echo from the command | {reader}\n")
    shell.until("not recorded")
    shell.type("typed\n")
    shell.until("read typed")


def test_a_command_in_a_pipeline_gets_the_terminal_when_it_asks(shell: Shell) -> None:
    """P8c."""
    shell.type(f"{RUN} -- sh -c 'read line; echo got $line' | cat\n")
    shell.until("not recorded")
    shell.type("typed\n")
    shell.until("got typed")


def test_a_shell_as_the_command_has_jobs_of_its_own(shell: Shell) -> None:
    """P8c."""
    shell.type(f"{RUN} -- bash --norc --noprofile -i\n")
    shell.until("not recorded")
    shell.at_prompt()
    shell.type("sh -c 'echo ready; exec sleep 1000'\n")
    shell.says("ready")
    shell.type("\x1a")
    shell.until(lambda: any("Stopped" in line and "sleep" in line for line in shell.shown))
    shell.type("exit 7\n")
    shell.until("There are stopped jobs.")
    shell.type("exit 7\n")
    shell.until("failed in")
    shell.at_prompt()
    shell.type("echo code $?\n")
    shell.says("code 7")


def test_how_a_command_sets_the_terminal_stays_when_it_ends_by_itself(shell: Shell, tmp_path: Path) -> None:
    """P8c: as it would without us."""
    shell.type(f"{RUN} -- stty erase ^H\n")
    shell.until("done in")
    shell.at_prompt()
    assert "erase = ^H" in shell.settings(tmp_path / "after")


def test_a_killed_command_leaves_the_terminal_as_it_found_it(shell: Shell, tmp_path: Path) -> None:
    """P8c."""
    before = shell.settings(tmp_path / "before")
    pid = tmp_path / "pid"
    # A shell without job control in between: nobody but us sets the terminal anew.
    raw = python(RAW.format(pid=str(pid))).replace('"', '\\"').replace("$", "\\$")
    shell.type(f'sh -c "{RUN} -- {raw}; stty -a > {tmp_path}/between"\n')
    shell.says("raw")
    os.kill(int(written(pid)), signal.SIGKILL)
    shell.until("killed by SIGKILL")
    shell.at_prompt()
    assert re.search(r" icanon .* echo ", (tmp_path / "between").read_text().replace("\n", " "))
    assert shell.settings(tmp_path / "after") == before


def test_a_killed_runner_leaves_nothing_running_and_the_terminal_usable(shell: Shell, tmp_path: Path) -> None:
    """P8c."""
    before = shell.settings(tmp_path / "before")
    pid = tmp_path / "pid"
    shell.type(f"{RUN} -- {python(RAW.format(pid=str(pid)))} & echo $! > runner; fg\n")
    shell.says("raw")
    runner = int((tmp_path / "project" / "runner").read_text())
    os.kill(runner, signal.SIGKILL)
    assert eventually_gone(int(written(pid)))
    shell.until("Killed")
    shell.type("\n")
    shell.at_prompt()
    assert shell.settings(tmp_path / "after") == before


def test_a_killed_supervisor_leaves_nothing_running_and_the_terminal_usable(
    shell: Shell, tmp_path: Path
) -> None:
    """P8c."""
    before = shell.settings(tmp_path / "before")
    pid = tmp_path / "pid"
    shell.type(f"{RUN} -- {python(RAW.format(pid=str(pid)))}\n")
    shell.says("raw")
    with open(f"/proc/{written(pid)}/stat", encoding="ascii") as file:
        supervisor = int(file.read().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    shell.until("what watched over it was killed")
    assert not lives(int(written(pid)))
    shell.at_prompt()
    assert shell.settings(tmp_path / "after") == before


def test_a_task_of_a_plan_has_the_terminal_only_if_the_plan_says_so(
    shell: Shell, plan_file: Callable[..., str]
) -> None:
    """P8c."""
    ask = 'read word; test -t 0 && echo "got $word"'
    plan = plan_file(
        {"id": "without", "run": "read word; test $? = 1 && test ! -t 0 && test ! -t 1"},
        {"id": "with", "run": ask, "terminal": True},
        {"id": "later", "run": "true"},
    )
    shell.type(f"{RUN} {plan}\n")
    shell.until("not recorded")
    shell.type("typed\n")
    shell.until("done: 3 tasks")
    assert "got typed" in shell.shown
    assert any(line.startswith("with: done in") for line in shell.shown)


def test_the_terminal_is_not_lent_where_documents_are_wanted(
    direct: Callable[..., Terminal],
) -> None:
    """P8c."""
    with direct("sh", "-c", "test ! -t 0 && read word || echo none", options=("--json",)) as seen:
        assert seen.end() == 0
        assert b'"line":"none"' in seen.written


# Standard input that is no terminal


def test_what_is_piped_goes_to_the_command_and_its_output_is_recorded(lastgood: Command) -> None:
    """P8c."""
    done = lastgood("run", "--", "tr", "a-z", "A-Z", stdin=b"the prompt\n")
    assert done.out == "THE PROMPT\n"
    (log,) = lastgood.store.glob("workspaces/*/runs/*/*.log")
    assert log.read_bytes() == b"THE PROMPT\n"


def test_an_attempt_after_a_failed_one_is_given_the_same_input_again(lastgood: Command) -> None:
    """P8c: what came through a pipe too."""
    run = 'echo "$LASTGOOD_ATTEMPT $(cat)"; test $LASTGOOD_ATTEMPT = 2'
    done = lastgood("run", "--retries", "1", "--", "sh", "-c", run, stdin=b"the prompt")
    assert done.out == "1 the prompt\n2 the prompt\n"


def test_a_file_is_given_again_from_where_it_stood(lastgood: Command, tmp_path: Path) -> None:
    """P8c."""
    (tmp_path / "prompt").write_text("first\nsecond\n")
    run = f"{RUN} --retries 1 -- sh -c 'cat; test $LASTGOOD_ATTEMPT = 2'"
    with Terminal(
        ["bash", "-c", f"exec < {tmp_path}/prompt; read line; {run} > out"],
        cwd=lastgood.project,
        environment=lastgood.environment,
    ) as seen:
        assert seen.end() == 0
    assert (lastgood.project / "out").read_text() == "second\nsecond\n"


def test_only_tasks_that_ask_for_it_read_the_input_of_the_run(
    lastgood: Command, plan_file: Callable[..., str]
) -> None:
    """P8c."""
    plan = plan_file(
        {"id": "without", "run": "cat > without"},
        {"id": "with", "run": "cat > with", "terminal": True},
    )
    lastgood("run", plan, stdin=b"the prompt")
    assert (lastgood.project / "without").read_bytes() == b""
    assert (lastgood.project / "with").read_bytes() == b"the prompt"


@pytest.mark.parametrize(
    ("redirection", "read"),
    [("< /dev/null", ""), ("0> /dev/null", ""), ("< /dev/zero", "\0\0"), ("0> fifo", ""), ("<&-", "")],
)
def test_what_is_no_pipe_or_cannot_be_read_goes_to_the_command_as_it_is(
    lastgood: Command, tmp_path: Path, redirection: str, read: str
) -> None:
    """P8c: nohup gives a command a standard input that can only be written to."""
    os.mkfifo(tmp_path / "fifo")
    holder = os.open(tmp_path / "fifo", os.O_RDWR)
    script = f"cd {tmp_path}; {RUN.replace(' run', f' -C {lastgood.project} run')} --retries 1"
    done = subprocess.run(
        ["sh", "-c", f"{script} -- sh -c 'head -c 2 2> /dev/null || true' {redirection}"],
        env=lastgood.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    os.close(holder)
    assert done.stdout == read
    assert "could not be kept" not in done.stderr


@contextmanager
def waiting(command: Command, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command with retries whose standard input does not end, and that makes a file."""
    words = [sys.executable, COMMAND, "run", "--retries", "1", *options, "--", "sh", "-c", "cat > got"]
    with subprocess.Popen(
        words,
        cwd=command.project,
        env=command.environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        yield running
        running.kill()


def test_that_the_end_of_standard_input_is_waited_for_is_told_before_the_first_attempt(
    lastgood: Command,
) -> None:
    """P8c."""
    with waiting(lastgood) as running:
        said = not_none(running.stderr)
        line = said.readline()
        while b"waiting for the end of standard input" not in line:
            assert line
            line = said.readline()
        assert not (lastgood.project / "got").exists()
        running.communicate(b"the prompt", timeout=PATIENCE)
        assert running.returncode == 0
    assert (lastgood.project / "got").read_bytes() == b"the prompt"


def test_standard_input_that_does_not_end_within_the_timeout_ends_the_run(lastgood: Command) -> None:
    """P8c: no attempt was made, so that nothing is left to go on with."""
    with waiting(lastgood, "--timeout", "1s") as running:
        said = not_none(running.stderr).read().decode()
        assert running.wait() == 14
    assert "lastgood: standard input did not end within 1 s\n" in said
    assert not (lastgood.project / "got").exists()
    assert lastgood("status", "--json").json["state"] == "idle"


def test_more_than_can_be_kept_for_another_attempt_is_refused_before_the_first(lastgood: Command) -> None:
    """P8c: without retries nothing has to be kept."""
    prompt = bytes((64 << 20) + 1)
    done = lastgood("run", "--retries", "1", "--", "sh", "-c", "cat > got", stdin=prompt, expect=12)
    assert "more than 64 MiB came through standard input" in done.err
    assert "leave out the retries" in done.err
    assert not (lastgood.project / "got").exists()
    assert lastgood("run", "--", "wc", "-c", stdin=prompt).out.split() == [str(len(prompt))]
