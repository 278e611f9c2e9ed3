from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lastgood.cli.help import EXIT_CODES, VERSION
from lastgood.cli.opening import bar
from lastgood.cli.table import all_verbs
from lastgood.cli.verbs.completion import script
from lastgood.libraries import install_command
from tools.command import COMMAND, ROOT, Command

LISTED = [verb for verb in all_verbs() if not verb.hidden]


def test_the_overview_names_every_verb_but_the_hidden(lastgood: Command) -> None:
    shown = lastgood("help").out
    assert [verb.name for verb in LISTED if f"\n  {verb.name} " not in shown] == []
    assert [verb.name for verb in all_verbs() if verb.hidden and f"\n  {verb.name} " in shown] == []


def test_a_verb_of_the_overview_takes_one_line_of_80_columns() -> None:
    assert [one.name for one in all_verbs() if not one.hidden and len(one.says) > 66] == []


def test_the_manual_page_renders_without_a_warning_and_has_every_verb_and_option(
    lastgood: Command, tmp_path: Path
) -> None:
    page = tmp_path / "lastgood.1"
    page.write_text(lastgood("help", "--man").out, encoding="ascii")
    rendered = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c", "-rLL=80n", page],
        capture_output=True,
        text=True,
        check=True,
    )
    assert rendered.stderr == ""
    text = re.sub(r".\x08", "", rendered.stdout)
    assert [verb.name for verb in LISTED if f"   lastgood {verb.name}" not in text] == []
    missing = [one.name for verb in LISTED for one in verb.options if f"--{one.name}" not in text]
    assert missing == []
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "lastgood - checkpoints of a workspace, and safe ways back to them\n" in text
    assert "\n       LASTGOOD_MAINTENANCE=off\n              do not tidy the store after saves" in text


def test_the_manual_page_takes_no_topic(lastgood: Command) -> None:
    assert "write: lastgood help --man" in lastgood("help", "save", "--man", expect=2).err


@pytest.mark.parametrize(
    ("file", "has_pip", "command"),
    [
        ("pipx_metadata.json", True, "pipx inject lastgood isal"),
        ("uv-receipt.toml", False, "uv tool install --with isal /src/lastgood"),
        (None, True, "'{0}/a python' -m pip install isal"),
        (None, False, "uv pip install --python '{0}/a python' isal"),
    ],
)
def test_what_is_missing_is_installed_by_what_installed_lastgood(
    tmp_path: Path, file: str | None, *, has_pip: bool, command: str
) -> None:
    """As pipx, uv tool, pip and uv venv leave their environments."""
    prefix = tmp_path / "lastgood"
    prefix.mkdir()
    if file is not None:
        (prefix / file).write_text(
            '[tool]\nrequirements = [{ name = "lastgood", directory = "/src/lastgood" }]\n'
        )
    found = install_command(["isal"], prefix=str(prefix), python=f"{tmp_path}/a python", has_pip=has_pip)
    assert found == command.format(tmp_path)


def test_doctor_names_the_python_that_runs_lastgood(lastgood: Command) -> None:
    """What is typed comes to where it is looked for."""
    done = lastgood("doctor", "--json", expect=None).json
    for finding in done["findings"]:
        if " pip install " in (finding["hint"] or ""):
            assert sys.executable in finding["hint"]


@pytest.mark.parametrize("verb", [verb.name for verb in all_verbs()])
def test_help_on_a_verb_shows_its_options_examples_and_exit_codes(lastgood: Command, verb: str) -> None:
    by_help = lastgood("help", verb)
    assert lastgood(verb, "--help").out == by_help.out
    entry = next(one for one in all_verbs() if one.name == verb)
    assert [one.name for one in entry.options if f"--{one.name}" not in by_help.out] == []
    assert [command for command, _ in entry.examples if command not in by_help.out] == []
    said = " ".join(by_help.out.split())
    assert [code for code in entry.codes if EXIT_CODES[code] not in said] == []


@pytest.mark.parametrize("topic", ["refs", "exit-codes", "environment"])
def test_there_is_help_on_topics(lastgood: Command, topic: str) -> None:
    assert len(lastgood("help", topic).out.splitlines()) > 5


def test_what_help_lists_keeps_its_column_in_a_narrow_terminal(lastgood: Command) -> None:
    lines = lastgood("help", "session", env={"COLUMNS": "40"}).out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("  start "))
    assert lines[first + 1].startswith(" " * 13)


def test_help_on_what_is_not_there_suggests(lastgood: Command) -> None:
    assert "did you mean `lastgood help restore`?" in lastgood("help", "restor", expect=2).err


def test_without_a_verb_it_is_a_usage_error(lastgood: Command) -> None:
    done = lastgood(expect=2)
    assert done.out == ""
    assert done.err == "lastgood: no verb given\n  see all verbs: lastgood help\n"


def test_the_version_is_that_of_the_project(lastgood: Command) -> None:
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        assert tomllib.load(file)["project"]["version"] == VERSION
    assert lastgood("--version").out == f"lastgood {VERSION}\n"


def test_the_script_works_through_a_link_and_from_anywhere(tmp_path: Path) -> None:
    link = tmp_path / "lg"
    link.symlink_to(os.path.join(ROOT, "lastgood"))
    done = subprocess.run([sys.executable, link, "--version"], cwd="/", capture_output=True, check=True)
    assert done.stdout.startswith(b"lastgood ")


def test_the_module_can_be_run() -> None:
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "src"))
    done = subprocess.run(
        [sys.executable, "-m", "lastgood", "--version"], env=environment, capture_output=True, check=True
    )
    assert done.stdout.startswith(b"lastgood ")


def offered(command: Command, *words: str) -> dict[str, str]:
    """Return what may stand in the place of the last word, with what is said of it."""
    lines = command("complete", "--", *words).out.splitlines()
    return {word: says for word, _, says in (line.partition("\t") for line in lines)}


def test_verbs_are_completed_and_other_spellings_where_no_verb_begins_so(kept: Command) -> None:
    assert list(offered(kept, "res")) == ["restore"]
    assert list(offered(kept, "resu")) == ["resume"]
    assert offered(kept, "checkpoint", "li") == {"list": "list checkpoints, newest first"}
    assert set(offered(kept, "")) == {verb.name for verb in LISTED}


def test_options_are_completed_once_and_with_their_choices(kept: Command) -> None:
    assert "--dry-run" in offered(kept, "restore", "--")
    assert "--dry-run" not in offered(kept, "restore", "--dry-run", "--d")
    assert list(offered(kept, "save", "--kind", "man")) == ["manual"]
    assert list(offered(kept, "-C", "/", "rollback", "--pl")) == ["--plan"]
    assert list(offered(kept, "workspace", "a")) == ["attach"]


def test_checkpoints_are_completed_by_id_and_name_with_their_age(kept: Command) -> None:
    refs = offered(kept, "restore", "")
    assert {"@", "@~1", "@good", "latest", "one", "two"} <= set(refs)
    listed = kept("list").out.splitlines()[1:]
    assert {line.split()[0] for line in listed} <= set(refs)
    assert refs["one"].startswith("one, ")
    assert set(offered(kept, "diff", "one", "tw")) == {"two"}
    assert set(offered(kept, "restore", "--base", "o")) == {"one"}


def test_paths_are_completed_though_they_are_gone(kept: Command) -> None:
    """What one wants back is mostly not there any more."""
    (kept.project / "src" / "b.py").unlink()
    (kept.project / "src").rmdir()
    (kept.project / "late.txt").write_text("late", encoding="utf-8")
    assert {"a.txt", "late.txt", "new.txt", "src/"} <= set(offered(kept, "restore", "@", ""))
    assert list(offered(kept, "restore", "one", "src/")) == ["src/b.py"]
    assert list(offered(kept, "cat", "@", "src/")) == ["src/b.py"]
    assert list(offered(kept, "diff", "@", "--", "src/")) == ["src/b.py"]
    assert ".git/" not in offered(kept, "log", "")


def test_a_path_that_may_stand_alone_is_completed_where_a_ref_may_stand(kept: Command) -> None:
    (kept.project / "new.txt").unlink()
    for verb in ("restore", "diff", "cat"):
        assert "new.txt" in offered(kept, verb, "ne"), verb


def test_tasks_sessions_and_settings_are_completed(kept: Command) -> None:
    kept("session", "start", "--goal", "migrate")
    kept("task", "start", "T01")
    assert offered(kept, "task", "done", "T") == {"T01": "running"}
    assert offered(kept, "restore", "task:") == {"task:T01": "running"}
    (session,) = offered(kept, "session", "show", "sess").values()
    assert session.endswith(", migrate")
    assert "retention.max_checkpoints" in offered(kept, "config", "get", "ret")
    kept("task", "done", "T01")
    kept("session", "end")
    kept("run", "--", "true")
    assert offered(kept, "restore", "task:") == {"task:T01": "done"}


def test_how_far_a_rewind_goes_is_completed_with_what_it_takes_back(kept: Command) -> None:
    assert offered(kept, "rewind", "")["1"].startswith("to before two, ")
    for number in (1, 2):
        (kept.project / "a.txt").write_text(f"by an agent {number}\n", encoding="utf-8")
        kept("save", f"prompt {number}", "--kind", "turn")
    steps = offered(kept, "rewind", "")
    assert list(steps) == ["1", "2"]
    assert steps["2"].startswith("to before prompt 1, ")
    assert list(offered(kept, "rewind", "--m")) == ["--merge"]


def test_hosts_and_what_an_agent_did_are_completed(kept: Command) -> None:
    assert list(offered(kept, "install", "c")) == ["claude-code", "codex", "cline", "cursor"]
    assert list(offered(kept, "uninstall", "o")) == ["opencode"]
    assert "--project" in offered(kept, "install", "codex", "--")
    assert list(offered(kept, "restore", "--only-")) == ["--only-agent"]
    kept("session", "start", "--goal", "migrate")
    (session,) = offered(kept, "restore", "--only-agent", "--session", "")
    assert session.startswith("sess_")
    assert "one" in offered(kept, "restore", "--only-agent", "o")
    assert "a.txt" in offered(kept, "blame", "a")
    assert list(offered(kept, "mc")) == ["mcp"]


def test_runs_that_stopped_and_folders_of_the_store_are_completed(kept: Command) -> None:
    with subprocess.Popen(["sleep", "60"]) as owner:
        kept("session", "start", "--owner-pid", str(owner.pid), "--goal", "migrate")
        owner.kill()
    (session,) = [one for one in offered(kept, "recover", "") if one.startswith("sess_")]
    assert offered(kept, "recover", session) == {session: "incomplete, migrate"}
    assert str(kept.project) in offered(kept, "workspace", "attach", "")
    assert list(offered(kept, "config", "set", "durability", "")) == ["full", "fast"]


def test_a_folder_and_a_file_are_left_to_the_shell(kept: Command) -> None:
    assert list(offered(kept, "-C", "/t")) == [":folders"]
    assert list(offered(kept, "export", "x")) == [":files"]
    assert list(offered(kept, "run", "--", "m")) == [":files"]


def test_nothing_is_offered_where_nothing_is_known(lastgood: Command) -> None:
    assert offered(lastgood, "nonsense", "") == {verb.name: verb.says for verb in LISTED}
    assert offered(lastgood, "task", "done", "T") == {}
    assert offered(lastgood, "--store", "/nowhere/at/all", "restore", "ckpt") == {}
    assert offered(lastgood, "list", "") == {}


def test_a_name_that_no_line_can_hold_is_not_offered(kept: Command) -> None:
    (kept.project / "two\nlines").write_text("x", encoding="utf-8")
    assert [word for word in offered(kept, "log", "") if "two" in word or "lines" in word] == []


def in_bash(command: Command, *words: str) -> list[str]:
    """Return what bash puts in the place of the last word."""
    line = " ".join(f"'{word}'" for word in ("lastgood", *words))
    program = (
        f"lastgood() {{ '{sys.executable}' '{COMMAND}' \"$@\"; }}\ncompopt() {{ :; }}\n{script('bash')}\n"
        f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _lastgood; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=command.project,
        env=command.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_bash_offers_words_quoted_and_takes_colons_for_part_of_a_word(kept: Command) -> None:
    kept("session", "start")
    kept("task", "start", "T01")
    (kept.project / "two words").write_text("x", encoding="utf-8")
    assert in_bash(kept, "resto") == ["restore"]
    (kept.project / "a b").mkdir()
    (kept.project / "a b" / "c").write_text("x", encoding="utf-8")
    assert in_bash(kept, "log", "two") == ["two\\ words"]
    assert in_bash(kept, "log", "a\\ b/") == ["a\\ b/c"]
    assert in_bash(kept, "restore", "task", ":") == ["T01"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_sound(shell: str) -> None:
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script(shell).encode(), check=True)


def test_the_bar_moves_to_and_fro_and_keeps_its_width() -> None:
    shown = [bar(tick) for tick in range(30)]
    assert {len(one) for one in shown} == {18}
    assert shown[0] == shown[24] == "[====            ]"
    assert shown[12] == "[            ====]"
