"""The command line of `run`, as a program and as a person meet it."""

from __future__ import annotations

import array
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.workplan.schema import plan_schema
from tools.command import COMMAND, ROOT, Command, told_as_document
from tools.command import told as refused
from tools.living import eventually
from tools.runs import catches, wait_for
from tools.values import not_none


def task(id: str, run: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "run": run, **fields}


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def started(command: Command, *words: str) -> subprocess.Popen[bytes]:
    """Start the command without a terminal, in a group of its own."""
    return subprocess.Popen(
        [sys.executable, COMMAND, *words],
        cwd=command.project,
        env=command.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_a_command_that_takes_the_workspace_away_is_told_with_the_way_back(lastgood: Command) -> None:
    """T12a: it is no success, nor proposed to be run again."""
    (lastgood.project / "file").write_text("kept\n")
    done = lastgood("run", "--", "sh", "-c", f"rm -rf {lastgood.project}", expect=10)
    way_back = f"lastgood -C {lastgood.project} restore @"
    assert f"the workspace {lastgood.project} is gone" in done.err
    assert way_back in done.err
    there = ("-C", str(lastgood.project))
    status = lastgood(*there, "status", cwd=lastgood.store)
    assert way_back in status.out
    assert "run --" not in status.out
    (session,) = lastgood(*there, "session", "list", "--json", cwd=lastgood.store).json["sessions"]
    assert (session["state"], session["progress"]["tasks"][0]["state"]) == ("ended", "failed")
    lastgood(*way_back.split()[1:], "--yes", cwd=lastgood.store)
    assert (lastgood.project / "file").read_text() == "kept\n"


# Plans, without a terminal


def test_a_plan_is_told_in_plain_lines(lastgood: Command, plan_file: Callable[..., str]) -> None:
    """P3."""
    tasks = task("T01", "echo hello; echo one > one.txt", check="test -s one.txt"), task("T02", "true")
    done = lastgood("run", plan_file(*tasks))
    said = [line.partition("ckpt_")[0].partition(" in ")[0].rstrip(" ,") for line in done.out.splitlines()]
    assert said[0].startswith("started session sess_")
    assert said[1:] == [
        "checkpoint",
        "T01: started, from",
        "  | hello",
        "T01: checking",
        "T01: done",
        "T02: started, from",
        "T02: done",
        "checkpoint",
        "done: 2 tasks",
        "  1 file changed: lastgood diff",
        "  take it back: lastgood restore",
    ]
    assert done.err == ""
    way_back = done.out.splitlines()[-1].split()[-1]
    lastgood("restore", way_back, "--yes")
    assert os.listdir(lastgood.project) == []


def test_a_failed_task_gives_code_3_and_says_how_to_go_on(
    lastgood: Command, plan_file: Callable[..., str]
) -> None:
    """P7."""
    plan = plan_file(
        task("A", "exit 4", on_failure="keep"), task("B", "true", needs=["A"]), task("C", "true")
    )
    done = lastgood("run", plan, expect=3)
    assert "A: attempt 1 failed after " in done.out
    assert "B: skipped: it needs A, which failed" in done.out
    assert "failed: 1 of 3 tasks done" in done.out
    assert f"go on with it: lastgood run {plan} --continue" in done.out
    (outputs,) = [line for line in done.out.splitlines() if "what the tasks printed" in line]
    assert "A.1.log" in os.listdir(outputs.split(": ")[1])


def test_what_is_done_is_not_done_again(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> None:
    """P6, P7: without a terminal a single run that did not finish is continued."""
    lasting = task("A", f"echo a >> {outside}/a")
    lastgood("run", plan_file(lasting, task("B", f"test -f {outside}/go")), expect=3)
    (outside / "go").touch()
    again = lastgood("run", plan_file(lasting, task("B", f"test -f {outside}/go")))
    assert again.out.startswith("going on with session sess_")
    assert "1 of 2 tasks done" in again.out
    assert "A: " not in again.out
    assert (outside / "a").read_text() == "a\n"


def test_what_was_settled_since_is_no_open_question(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> None:
    """P6."""
    plan = plan_file(task("A", f"touch {outside}/began; test -e {outside}/go || sleep 600"))
    one = started(lastgood, "run", plan)
    wait_for(outside / "began")
    one.kill()
    one.communicate()
    (outside / "go").touch()
    done = lastgood("run", plan)
    assert "effect unknown: nobody saw the end of task A" in done.out
    assert "Effect unknown" not in done.out.partition("\ndone: ")[2]


def test_a_plan_is_looked_for_in_the_folder_of_the_workspace_too(lastgood: Command, tmp_path: Path) -> None:
    (lastgood.project / "plan.yaml").write_text("tasks: [{id: A, run: 'true'}]\n", encoding="utf-8")
    lastgood("-C", str(lastgood.project), "run", "plan.yaml", cwd=tmp_path)


def test_what_to_type_after_a_rollback_is_for_the_workspace_that_was_named(
    lastgood: Command, plan_file: Callable[..., str], tmp_path: Path
) -> None:
    plan = plan_file(task("A", "echo bad > made; false", on_failure="rollback"))
    there = ("-C", str(lastgood.project))
    done = lastgood(*there, "run", plan, cwd=tmp_path, expect=3)
    assert f"comes back with: lastgood -C {lastgood.project} restore ckpt_" in done.out


def test_quiet_leaves_out_what_goes_well(lastgood: Command, plan_file: Callable[..., str]) -> None:
    done = lastgood("run", "-q", plan_file(task("A", "echo hello"), task("B", "true")))
    assert [line.partition(" in ")[0] for line in done.out.splitlines()] == [
        "A: done",
        "B: done",
        "done: 2 tasks",
    ]


def test_the_output_of_tasks_is_shown_escaped(lastgood: Command, plan_file: Callable[..., str]) -> None:
    run = "printf 'up\\033[A\\a \\033[31mred\\033[0m \\377\\n50%%\\r100%%\\n'"
    done = lastgood("run", plan_file(task("A", run)))
    assert "  | up\\x1b[A\\x07 red \ufffd\n  | 50%\n  | 100%\n" in done.out


def test_json_lines_tell_what_happens_and_end_with_the_report(
    lastgood: Command, plan_file: Callable[..., str]
) -> None:
    done = lastgood("run", plan_file(task("A", "echo hello"), goal="all"), "--json")
    told = events(done.out)
    assert {one["schema"] for one in told} == {"lastgood.run/1"}
    assert [one["event"] for one in told] == [
        "started",
        "checkpoint",
        "task-started",
        "output",
        "checkpoint",
        "task-done",
        "checkpoint",
        "finished",
    ]
    assert {(one["session"], one["at"][-1]) for one in told} == {(told[0]["session"], "Z")}
    assert told[3]["line"] == "hello"
    report = told[-1]["report"]
    assert (report["state"], report["goal"], report["exit_code"]) == ("done", "all", 0)
    assert [(one["id"], one["state"], one["attempts"]) for one in report["tasks"]] == [("A", "done", 1)]
    assert (report["unknown_effects"], report["live_processes"]) == ([], [])
    assert os.listdir(report["outputs"]) == ["A.1.log"]
    assert done.err == ""


def test_json_lines_come_as_things_happen(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> None:
    one = started(
        lastgood,
        "run",
        plan_file(task("A", f"echo waits; until [ -e {outside}/go ]; do sleep 0.05; done")),
        "--json",
    )
    assert one.stdout is not None
    line = b""
    while b"waits" not in line:
        line = one.stdout.readline()
    (outside / "go").touch()
    out, err = one.communicate(timeout=120)
    assert (one.returncode, err) == (0, b"")
    assert events(out.decode())[-1]["report"]["state"] == "done"


def test_a_failure_before_anything_ran_is_one_error_document(lastgood: Command) -> None:
    told_as_document(lastgood("run", "nowhere.yaml", "--json", expect=None), 10)


def test_a_run_that_has_finished_already_is_told_so(lastgood: Command, plan_file: Callable[..., str]) -> None:
    plan = plan_file(task("A", "true"))
    lastgood("run", plan)
    assert "nothing to do: this plan finished" in lastgood("run", plan, "--continue").out
    told = events(lastgood("run", plan, "--continue", "--json").out)
    assert [(one["event"], one["report"]["state"]) for one in told] == [("finished", "done")]


def test_a_review_says_where_a_run_stood_and_changes_nothing(
    lastgood: Command, plan_file: Callable[..., str]
) -> None:
    plan = plan_file(task("A", "true"), task("B", "false"), task("C", "true"))
    lastgood("run", plan, expect=3)
    before = lastgood("list", "--json").json
    done = lastgood("run", plan, "--review")
    assert "did not finish." in done.out
    assert "  A: done, 1 attempt\n  B: failed, 1 attempt\n  C: pending\n" in done.out
    assert f"lastgood run {plan} --fresh" in done.err
    (told,) = events(lastgood("run", plan, "--review", "--json").out)
    assert (told["event"], told["report"]["state"]) == ("reviewed", "interrupted")
    assert lastgood("list", "--json").json == before


def test_signals_leave_the_run_to_be_continued_with_a_code_of_their_own(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> None:
    """P7."""
    plan = plan_file(task("A", f"touch {outside}/began; sleep 600"))
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        one = started(lastgood, "run", plan)
        wait_for(outside / "began")
        one.send_signal(number)
        out, err = one.communicate(timeout=120)
        assert (one.returncode, err) == (code, b"")
        assert f"A: interrupted by {number.name}".encode() in out
        assert b"\n  interrupted: A\n" in out
        assert f"go on with it: lastgood run {plan} --continue".encode() in out
        (outside / "began").unlink()
    assert lastgood("status", "--json").json["state"] == "incomplete"


def test_an_irreversible_task_of_unknown_effect_is_told_with_both_ways_on(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> None:
    """P6."""
    plan = plan_file(task("push", f"echo pushed >> {outside}/log; sleep 600", irreversible=True))
    one = started(lastgood, "run", plan)
    wait_for(outside / "log")
    one.kill()
    one.communicate()
    done = lastgood("run", plan, expect=3)
    assert "Effect unknown: task push, irreversible" in done.out
    assert f"it did happen: lastgood run {plan} --done push" in done.out
    assert f"do it again: lastgood run {plan} --redo push" in done.out
    lastgood("run", plan, "--done", "push")
    assert (outside / "log").read_text() == "pushed\n"


# One command


def test_a_command_keeps_its_output_and_its_exit_code(lastgood: Command) -> None:
    done = lastgood("run", "--", "sh", "-c", "printf 'a\\n\\n\\377\\0b'; echo x > x; exit 7", expect=7)
    assert done.out_bytes == b"a\n\n\xff\0b"
    lines = done.err.splitlines()
    assert lines[0].startswith("saved first: ckpt_")
    assert "attempt 1 failed after " in lines[1]
    assert lines[2].startswith("failed in ")
    lastgood("restore", lines[-1].split()[-1], "--yes")
    assert os.listdir(lastgood.project) == []


def test_checkpoints_of_a_command_say_before_or_after_which(lastgood: Command) -> None:
    """S20: also what it left when it failed."""
    lastgood("run", "--", "sh", "-c", "echo x > x")
    lastgood("run", "--", "sh", "-c", "echo y > x; exit 3", expect=3)
    said = [one["message"] for one in lastgood("list", "--json").json["checkpoints"]]
    first, second = "sh -c echo x > x", "sh -c echo y > x; exit 3"
    assert said[::-1] == [
        f"before: {first}",
        f"after: {first}",
        f"session end: {first}",
        f"before: {second}",
        f"after: {second} (it ended with exit code 3)",
        f"session end: {second}",
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("no-such-program",), 127),
        (("--check", "false", "--", "true"), 3),
        (("--timeout", "100ms", "--", "sleep", "60"), 3),
    ],
)
def test_a_command_ends_with_the_code_that_a_shell_would_give(
    lastgood: Command, words: tuple[str, ...], code: int
) -> None:
    lastgood("run", *(words if "--" in words else ("--", *words)), expect=code)


def test_a_command_is_tried_again_until_its_check_passes(lastgood: Command) -> None:
    words = (
        "--check",
        "test $LASTGOOD_ATTEMPT = 2",
        "--retries",
        "3",
        "--on-failure",
        "rollback",
        "--goal",
        "good",
    )
    done = lastgood("run", *words, "--", "sh", "-c", "echo $LASTGOOD_ATTEMPT >> log; ls")
    assert done.out == "log\nlog\n"
    assert "1 path taken back" in done.err
    assert (lastgood.project / "log").read_text() == "2\n"
    assert lastgood("show", "@good", "--json").json["checkpoint"]["good"] is True
    assert lastgood("session", "list", "--json").json["sessions"][0]["goal"] == "good"


def test_the_line_that_goes_on_has_every_option_that_was_given(lastgood: Command, outside: Path) -> None:
    """P7: so that it is the same command, which goes on with its own run."""
    options = ["--check", "test -e 'made it'", "--retries", "1", "--timeout", "9m"]
    options += ["--on-failure", "keep", "--goal", "be good"]
    work = f"touch {outside}/began; test $LASTGOOD_ATTEMPT = 1 && sleep 600; touch 'made it'"
    one = started(lastgood, "run", *options, "--", "sh", "-c", work)
    wait_for(outside / "began")
    one.send_signal(signal.SIGINT)
    said = one.communicate(timeout=120)[1].decode()
    (line,) = (line for line in said.splitlines() if "go on with it: lastgood " in line)
    words = shlex.split(line.partition("lastgood ")[2])
    assert words == ["run", "--continue", *options, "--", "sh", "-c", work]
    lastgood(*words)
    assert [one["state"] for one in lastgood("session", "list", "--json").json["sessions"]] == ["ended"]


def test_what_a_check_prints_is_kept_apart_from_what_the_command_prints(lastgood: Command) -> None:
    done = lastgood("run", "--check", "echo judged", "--", "echo", "result")
    assert done.out == "result\n"
    assert "  | judged\n" in done.err


def test_a_command_may_print_faster_than_anybody_reads(lastgood: Command) -> None:
    done = lastgood("run", "--", "sh", "-c", "yes | head -n 300000")
    assert done.out_bytes == b"y\n" * 300_000
    assert "too fast" not in done.err


# Bad input, and output that cannot be written


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("",), 2),
        (("--",), 2),
        (("--", ""), 12),
        (("nowhere.yaml",), 10),
        ((".",), 12),
        (("/dev/zero",), 12),
        (("empty.yaml",), 12),
        (("plan.yaml", "--", "true"), 2),
        (("plan.yaml", "other.yaml"), 2),
        (("plan.yaml", "--continue", "--fresh"), 2),
        (("plan.yaml", "--retries", "1"), 2),
        (("plan.yaml", "--redo", "B"), 2),
        (("plan.yaml", "--done", "A", "--redo", "A"), 2),
        (("plan.yaml", "--continue"), 10),
        (("plan.yaml", "--review"), 10),
        (("--retries", "x", "--", "true"), 2),
        (("--timeout", "0", "--", "true"), 2),
        (("--on-failure", "explode", "--", "true"), 2),
        (("--schema", "plan.yaml"), 2),
    ],
)
def test_bad_input_is_refused_before_anything_is_done(
    lastgood: Command, words: tuple[str, ...], code: int
) -> None:
    (lastgood.project / "plan.yaml").write_text("tasks: [{id: A, run: 'touch ran'}]\n", encoding="utf-8")
    (lastgood.project / "empty.yaml").touch()
    refused(lastgood("run", *words, expect=None), code)
    assert not (lastgood.project / "ran").exists()
    assert lastgood("list", "--json").json["checkpoints"] == []


def test_the_schema_is_the_published_one(lastgood: Command) -> None:
    assert lastgood("run", "--schema").json == plan_schema()


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_a_full_disk_under_the_output_stops_nothing_and_is_told(
    lastgood: Command, plan_file: Callable[..., str], option: str
) -> None:
    plan = plan_file(task("A", "echo a > a"), task("B", "echo b > b"))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, COMMAND, "run", option, plan],
            cwd=lastgood.project,
            env=lastgood.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"lastgood: the output could not be written: No space left on device")
    assert sorted(os.listdir(lastgood.project)) == ["a", "b"]
    assert lastgood("status", "--json").json["state"] == "idle"


@pytest.mark.parametrize("option", ["--allow-root", "--json"])
def test_a_reader_that_goes_away_stops_nothing(
    lastgood: Command, plan_file: Callable[..., str], option: str
) -> None:
    one = started(lastgood, "run", option, plan_file(task("A", "seq 500"), task("B", "echo b > b")))
    assert one.stdout is not None
    assert one.stdout.readline()
    one.stdout.close()
    assert one.stderr is not None
    assert one.stderr.read() == b""
    one.stderr.close()
    assert one.wait(timeout=120) == 0
    assert os.listdir(lastgood.project) == ["b"]


# A run that is asked to end, and asked again: it says what came of it, unless somebody insists (P7).


# As many tasks as no pipe holds the report of.
MANY = 3000

_PIPE = 65_536


def started_program(command: Command, *words: str) -> subprocess.Popen[bytes]:
    """Start a program in the project, without a terminal, in a group of its own."""
    return subprocess.Popen(
        words,
        cwd=command.project,
        env=command.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.fixture
def stuck(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> Callable[[int], subprocess.Popen[bytes]]:
    """Return a call that starts a run and asks it to end, and lets it say only a part of what came of it."""
    tasks: list[dict[str, Any]] = [{"id": "first", "run": f"touch {outside}/began; sleep 600"}]
    tasks += [{"id": f"T{number:05}", "run": "true"} for number in range(MANY)]

    def ask(number: int) -> subprocess.Popen[bytes]:
        one = started_program(lastgood, sys.executable, COMMAND, "run", plan_file(*tasks), "--json")
        output, told = not_none(one.stdout).fileno(), b""
        fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _PIPE)
        while b'"event":"task-started"' not in told:
            told += os.read(output, _PIPE)
        wait_for(outside / "began")
        one.send_signal(number)
        # A page that is half read counts as a whole one.
        assert eventually(lambda: _waiting(output) >= _PIPE / 2)
        return one

    return ask


def _waiting(descriptor: int) -> int:
    """Return how many bytes a pipe holds."""
    amount = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, amount)
    return amount[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_came_of_a_run_is_told_whole_though_it_is_asked_to_end_again(
    lastgood: Command, stuck: Callable[[int], subprocess.Popen[bytes]], number: signal.Signals
) -> None:
    one = stuck(number)
    one.send_signal(number)
    out, err = one.communicate(timeout=120)
    assert (one.returncode, err) == (128 + number, b"")
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["report"]["state"], last["report"]["signal"]) == (
        "finished",
        "interrupted",
        number,
    )
    assert lastgood("status", "--json").json["state"] == "incomplete"


def test_a_run_that_is_asked_to_end_again_and_again_is_killed(
    lastgood: Command, stuck: Callable[[int], subprocess.Popen[bytes]]
) -> None:
    one = stuck(signal.SIGINT)
    while one.poll() is None:
        one.send_signal(signal.SIGINT)
        time.sleep(0.2)
    one.communicate()
    assert one.returncode == -signal.SIGINT
    assert lastgood("status", "--json").json["state"] == "incomplete"


def test_a_signal_that_comes_twice_at_once_was_meant_once(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> None:
    """As timeout(1) sends it, to the process and to its group: the task has its time to end.

    What counts as at once is long here: a busy machine may stop either of them in between.
    """
    tidies = f"trap 'sleep 0.5; touch {outside}/tidied; exit 1' TERM"
    plan = plan_file({"id": "A", "run": f"{tidies}; touch {outside}/began; sleep 600 & wait"})
    program = (
        "from lastgood.workspace.running import context as signals; signals._ECHO = 600.0;"
        " from lastgood.cli.main import run; run()"
    )
    lastgood.environment["PYTHONPATH"] = os.path.join(ROOT, "src")
    one = started_program(lastgood, "timeout", "600", sys.executable, "-c", program, "run", plan)
    wait_for(outside / "began")
    one.send_signal(signal.SIGTERM)
    out, _ = one.communicate(timeout=120)
    assert b"A: interrupted by SIGTERM" in out
    assert (outside / "tidied").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_waits_for_what_another_left_ends_with_the_code_of_the_signal(
    lastgood: Command, plan_file: Callable[..., str], outside: Path, number: signal.Signals
) -> None:
    """P7: nothing has begun yet; what is left here does not end by itself."""
    plan = plan_file({"id": "A", "run": f"touch {outside}/began; sleep 600"})
    one = started_program(lastgood, sys.executable, COMMAND, "run", plan)
    wait_for(outside / "began")
    one.kill()
    one.communicate()
    (session,) = lastgood("session", "list", "--json").json["sessions"]
    environment = lastgood.environment | {"LASTGOOD_SESSION": session["id"]}
    with subprocess.Popen(["sleep", "600"], env=environment) as orphan:
        second = started_program(lastgood, sys.executable, COMMAND, "run", plan, "--continue")
        assert eventually(lambda: catches(second.pid, signal.SIGTERM))
        second.send_signal(number)
        _, err = second.communicate(timeout=120)
        assert (second.returncode, err.splitlines()[0]) == (128 + number, b"lastgood: interrupted")
        orphan.kill()
    assert lastgood("session", "show", session["id"], "--json").json["session"]["state"] == "incomplete"
