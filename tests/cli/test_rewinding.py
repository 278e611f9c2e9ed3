"""Taking back what agents did, by the number of their runs, on the command line (rule T15)."""

from __future__ import annotations

import re
import subprocess

import pytest

import lastgood as package
from tools.command import Command
from tools.harm import lose


@pytest.fixture
def ran(lastgood: Command) -> Command:
    """Return the command in a project after two runs and a save of one's own."""
    for name in ("a", "b"):
        (lastgood.project / name).write_text("0\n", encoding="utf-8")
    lastgood("save", "start")
    for name in ("a", "b"):
        lastgood("run", "--", "sh", "-c", f"echo agent > {name}")
    (lastgood.project / "notes").write_text("mine\n", encoding="utf-8")
    lastgood("save", "my notes")
    return lastgood


def files(command: Command) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8").strip() for path in command.project.iterdir()}


def test_a_rewind_takes_back_runs_and_names_what_else_goes(ran: Command) -> None:
    """T15: a save of one's own is no step."""
    asked = ran.terminal("rewind", "2", answers="n\n", expect=130).out
    said = [
        "Back to before the last 2 runs:",
        "  sh -c echo agent > b, ",
        "  sh -c echo agent > a, ",
        "Changed beside that, and goes too:",
        "(my notes), just now: notes",
        "  to keep it: lastgood rewind 2 --only-agent",
        "Go ahead?",
    ]
    places = [asked.find(one) for one in said]
    assert -1 not in places
    assert places == sorted(places)
    assert "is a turn's" not in asked
    ran.terminal("rewind", "2", answers="y\n")
    assert files(ran) == {"a": "0", "b": "0"}


def test_what_one_saved_since_can_be_kept_as_a_rewind_says(ran: Command) -> None:
    """T15, T17."""
    said = ran("rewind", "2", "--dry-run").err
    typed = next(line for line in said.splitlines() if "to keep it: " in line).partition("lastgood ")[2]
    done = ran(*typed.split(), "--yes")
    assert files(ran) == {"a": "0", "b": "0", "notes": "mine"}
    assert "goes too" not in done.err


def test_one_rewind_after_the_other_goes_on_back_by_runs(ran: Command) -> None:
    """T15: a run that was taken back is none to take back."""
    ran("rewind", "--yes")
    assert files(ran) == {"a": "agent", "b": "0"}
    (ran.project / "notes").write_text("mine\n", encoding="utf-8")
    ran("save", "again")
    done = ran("rewind", "--yes")
    assert "echo agent > a, " in done.err
    assert "echo agent > b, " not in done.err
    assert files(ran) == {"a": "0", "b": "0"}
    ran("undo", "--yes")
    assert files(ran) == {"a": "agent", "b": "0", "notes": "mine"}


def test_where_there_are_no_turns_they_are_runs(ran: Command) -> None:
    """T15."""
    said, meant = (ran("rewind", "2", *words, "--dry-run").out for words in (("turns",), ()))
    ages = r"\bmade [^(\n]*"  # which a second may lie between
    assert re.sub(ages, "", said) == re.sub(ages, "", meant)


def test_a_run_that_changed_nothing_is_passed_over(ran: Command) -> None:
    """T15."""
    ran("run", "--", "true")
    assert "echo agent > b, " in ran("rewind", "--dry-run").err


def test_more_runs_than_there_are_is_said(ran: Command) -> None:
    assert "runs before `@` that changed a file: 2" in ran("rewind", "3", "--yes", expect=10).err


def test_a_run_that_was_killed_is_taken_back_from_where_it_began(lastgood: Command) -> None:
    """T15: of what it changed no checkpoint has anything."""
    (lastgood.project / "a").write_text("0\n", encoding="utf-8")
    lastgood("save", "start")
    lastgood("run", "--", "sh", "-c", "echo agent > a; kill -9 $PPID", expect=None)
    assert files(lastgood) == {"a": "agent"}
    done = lastgood("rewind", "--yes", "--force")
    assert "Back to before the last run:" in done.err
    assert files(lastgood) == {"a": "0"}
    assert "that far back" in lastgood("rewind", "--yes", "--force", expect=10).err


def test_a_session_without_a_plan_is_no_run(lastgood: Command) -> None:
    """T15: who says that a session begins may make many saves in it."""
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        with workspace.session(goal="by hand"):
            for number in range(3):
                (lastgood.project / "a").write_text(str(number), encoding="utf-8")
                workspace.save(str(number))
        extent = workspace.preview_rewind(1)
        assert (extent.unit, extent.target.message, extent.runs) == ("state", "1", ())
        assert workspace.rewind_target(1) == extent.target


def test_progress_that_nobody_reported_is_not_told(ran: Command) -> None:
    """T11: what `run -- COMMAND` notes itself comes back in silence; what somebody said is told."""
    for words in (("rewind", "--dry-run"), ("rewind", "--yes"), ("undo",), ("redo",)):
        done = ran(*words)
        assert "progress" not in done.out + done.err
    ran("progress", "set", "--phase", "Construction")
    assert "progress: put back" in ran("rewind", "--yes").err


def test_what_one_changed_between_runs_can_be_kept_as_a_rewind_says(ran: Command) -> None:
    """T15: a merge that goes by where one stands does not keep it, and says so too."""
    ran("run", "--", "sh", "-c", "echo agent > c")
    for words in (("rewind", "2", "--dry-run"), ("rewind", "2", "--merge", "--dry-run")):
        said = ran(*words).err
        assert "Changed beside that, and goes too:" in said
        assert "(my notes), " in said
    ran("rewind", "2", "--yes")
    assert files(ran) == {"a": "agent", "b": "0"}
    ran("undo", "--yes")
    typed = next(line for line in said.splitlines() if "to keep it: " in line).partition("lastgood ")[2]
    ran(*typed.split(), "--yes")
    assert files(ran) == {"a": "agent", "b": "0", "notes": "mine"}


def test_what_one_changed_after_a_run_is_named_before_it_goes(lastgood: Command) -> None:
    """T15, T1: not saved yet or saved; the plan ends with what to type."""
    (lastgood.project / "a").write_text("0\n", encoding="utf-8")
    lastgood("save", "start")
    lastgood("run", "--", "sh", "-c", "echo agent > a")
    (lastgood.project / "notes").write_text("mine\n", encoding="utf-8")
    lastgood("save", "my notes")
    (lastgood.project / "more").write_text("mine\n", encoding="utf-8")
    said = lastgood("rewind", "--dry-run")
    assert "Edits by hand while it ran are not told from the agent's, and go too.\n" in said.err
    assert "  not saved yet: more\n" in said.err
    assert "  to keep it: lastgood rewind 1 --only-agent\n" in said.err
    assert said.out.splitlines()[-1].startswith("Nothing changed. To do it: lastgood restore ckpt_")


def test_what_a_rewind_says_to_type_does_what_it_showed_a_turn_later_too(lastgood: Command) -> None:
    """T1, T15: an agent shows it in one turn, and carries it out in the next, when a turn more counts."""
    for state in ("good", "ruined"):
        (lastgood.project / "a").write_text(f"{state}\n", encoding="utf-8")
        lastgood("save", state, "--kind", "turn")
    shown = lastgood("rewind", "1", "--dry-run").out.splitlines()[-1]
    lastgood("save", "undo what you did", "--kind", "turn", "--allow-empty")
    lastgood(*shown.partition("lastgood ")[2].split())
    assert files(lastgood)["a"] == "good"


def test_the_plan_of_turns_says_what_each_changed_how_to_go_on_and_who_still_runs(lastgood: Command) -> None:
    """T15, T1: one that changed no file is named, and is no step."""
    file = lastgood.project / "a"
    with (
        package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace,
        subprocess.Popen(["sleep", "600"]) as agent,
    ):
        file.write_text("0\n", encoding="utf-8")
        began = workspace.save("start").checkpoint.id
        workspace.session_start(owner_pid=agent.pid, exclusive=False)
        for prompt, content in (("rename it", "1\n"), ("add a test", "2\n"), ("why?", "2\n")):
            file.write_text(content, encoding="utf-8")
            turn = workspace.save(prompt, kind="turn", metadata={"began-at": began}, allow_empty=True)
            began = turn.checkpoint.id
        talked = [workspace.preview_rewind(turns, only=["progress"]) for turns in (1, 2, 3)]
        assert workspace.preview_rewinds(only=["progress"]) == tuple(talked)
        asked = lastgood.terminal("rewind", "1", answers="n\n", expect=130).out
        only = lastgood("rewind", "1", "--only", "progress", "--dry-run", expect=None).err
        shown = lastgood("show", turn.checkpoint.id).out
        assert re.search(r"\nturn +began at ckpt_\w{8}\n", shown)
        assert "began-at" not in shown
        lastgood("rewind", "1", "--yes")
        undone = lastgood("undo", "--dry-run").out + lastgood("undo").err
        agent.kill()
    asked, only = (re.sub(r"just now|\d+ \w+ ago", "AGE", one) for one in (asked, only))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", asked).replace("\r", "").splitlines()
    assert lines[:4] == [
        "Back to before the last 2 turns (1 of them changed no file):",
        "  why?, AGE: no file changed",
        "  add a test, AGE: a",
        "  to take one turn more back: lastgood rewind 2",
    ]
    said = " ".join(lines[4:])
    assert f"Still running: process {agent.pid} (sleep 600), which remembers what is taken back," in said
    assert f"Quit it before you go on, in its window or by:   kill {agent.pid} Restoring" in said
    assert re.search(
        r"Restoring ckpt_\w{8}, made AGE \(after: rename it; before: add a test\): 1 file to write\. What",
        said,
    )
    assert "What is there now is saved first: `lastgood undo` brings it back." in said
    assert "Back to before the last turn:\n  why?, AGE" in only
    assert undone.count(f"go on, in its window or by: kill {agent.pid}\n") == 2


def test_a_rewind_says_that_a_conversation_stays_where_its_target_holds_none(lastgood: Command) -> None:
    """T11: which is not to say that nothing had been said."""
    file, said = lastgood.project / "a", [{"role": "user", "content": "go on"}]
    file.write_text("0\n", encoding="utf-8")
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        workspace.save("a turn", kind="turn", messages=said)
        file.write_text("1\n", encoding="utf-8")
        mine = workspace.save("mine").checkpoint
        file.write_text("2\n", encoding="utf-8")
        workspace.save("another", kind="turn", messages=said * 2, metadata={"began-at": mine.id})
    stays = f"{mine.short_id} holds no conversation: the agent's stays, and knows what is taken back."
    assert stays in lastgood("rewind", "1", "--dry-run").err
    assert "conversation" not in lastgood("rewind", "1", "a", "--dry-run").err


def test_a_turn_under_way_is_named_in_one_line_that_commands_no_terminal(
    lastgood: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T15: a prompt may hold anything."""
    file = lastgood.project / "a"
    file.write_text("0\n", encoding="utf-8")
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        workspace.save("start")
        monkeypatch.setenv("LASTGOOD_SESSION", workspace.session_start(exclusive=False).session.id)
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        workspace.step_start("mend\x1b[2J it\nand " + "more " * 20)
    file.write_text("1\n", encoding="utf-8")
    shown = lastgood("rewind", "1", "--dry-run")
    assert "\n  mend\\x1b[2J it (not ended), " in shown.err
    assert "; before: mend\\x1b[2J it): " in shown.out


def test_an_undo_is_shown_before_it_is_done(ran: Command) -> None:
    """T8, T1: the command that does it comes last."""
    ran("rewind", "--yes")
    shown = ran("undo", "--force", "--dry-run").out.splitlines()
    assert shown[0].startswith("would take back the restore of ckpt_")
    assert "  change  b" in shown
    assert files(ran)["b"] == "0"
    plan = re.fullmatch(r"plan (plan_\w+)", shown[-2])
    assert plan is not None
    assert shown[-1] == f"Nothing changed. To do it: lastgood undo --force --plan {plan[1]}"
    (ran.project / "b").write_text("mine\n", encoding="utf-8")
    refused = ran("undo", "--force", "--plan", plan[1], expect=13).err
    assert f", not {plan[1]}: something has changed since\n  look again: lastgood undo --dry-run" in refused
    (ran.project / "b").write_text("0\n", encoding="utf-8")
    ran("undo", "--force", "--plan", plan[1])
    assert files(ran)["b"] == "agent"


def test_an_undo_of_a_delete_has_a_plan_of_its_own(ran: Command) -> None:
    """T8, T1."""
    ran("delete", "my notes")
    first = ran("undo", "--dry-run", "--json").json["plan"]
    ran("undo", "--plan", first)
    ran("delete", "my notes")
    refused = ran("undo", "--plan", first, "--json", expect=13).json["error"]["details"]
    ran("undo", "--plan", refused["plan"])
    assert ran("show", "my notes").code == 0


def test_programs_are_told_what_goes_beside_the_turns_or_runs(ran: Command) -> None:
    """T15: as people are; nothing of what stays."""
    saved = ran("show", "my notes", "--json").json["checkpoint"]["id"]
    (ran.project / "more").write_text("mine\n", encoding="utf-8")
    beside = ran("rewind", "1", "--dry-run", "--json").json["changed_beside"]
    assert [(one["path"], one["checkpoint"]) for one in beside] == [("more", None), ("notes", saved)]
    for words in (("--only-agent",), ("--merge", "--base", "@~1"), ("--", "b")):
        assert "changed_beside" not in ran("rewind", "1", "--dry-run", "--json", *words).json
    done = ran("rewind", "1", "--yes", "--json", "--", "more").json
    assert [one["path"] for one in done["changed_beside"]] == ["more"]


def test_of_many_paths_that_go_beside_runs_the_first_are_named(ran: Command) -> None:
    """T15."""
    for number in range(30):
        (ran.project / f"mine{number:02}").write_text("mine\n", encoding="utf-8")
    said = ran("rewind", "1", "--dry-run").err
    assert ", mine19 and 10 more (all of them: --json)\n" in said
    assert "mine20" not in said


def test_a_turn_that_is_taken_back_already_is_followed_by_the_one_before_it(ran: Command) -> None:
    """T17."""
    ran("rewind", "1", "--only-agent", "--yes")
    said = ran("rewind", "1", "--only-agent", "--yes").err
    typed = re.search(r"the run before, too: lastgood (rewind 2 --only-agent)\n", said)
    assert typed is not None, said
    ran(*typed[1].split(), "--yes")
    assert files(ran) == {"a": "0", "b": "0", "notes": "mine"}
    assert "before, too" not in ran("rewind", "2", "--only-agent", "--yes").err


def test_the_plan_of_what_an_agent_changed_says_all_within_eighty_columns(lastgood: Command) -> None:
    """T17, S5: what goes, where both changed one place, and what stays, each as often as it is counted."""
    text = "".join(f"line {number}\n" for number in range(1, 21))
    for name, content in (("app.py", text), (".gitignore", ".env\n"), (".env", "KEY=1\n"), ("b", "0\n")):
        (lastgood.project / name).write_text(content, encoding="utf-8")
    lastgood("save", "start")
    does = "sed -i 's/line 3$/agent/; s/line 18/agent/' app.py; echo KEY=2 > .env; echo 1 > b; echo > new"
    lastgood("run", "--", "sh", "-c", does)
    edited = (lastgood.project / "app.py").read_text(encoding="utf-8").replace("line 17", "mine")
    (lastgood.project / "app.py").write_text(edited, encoding="utf-8")

    asked = lastgood.terminal("rewind", "1", "--only-agent", answers="n\n", expect=130).out
    asked = re.sub(r"\x1b\[[0-9;]*m", "", asked)  # colours

    assert max(map(len, asked.splitlines())) <= 80
    said = " ".join(asked.split())
    for words in (
        "3 files to write, 1 file to delete, 1 private file kept.",
        "counts as the agent's: edits that you made then go too. What you changed between them stays.",
        "delete new",
        "change app.py (conflict: kept as it is where both changed it)",
        "change b",
        "create app.py.lastgood-ckpt_",
        ".env differs and stays as it is:",
    ):
        assert words in said
    assert lastgood("rewind", "1", "--only-agent", "--yes", expect=3).out.count(" kept") == 1
    again = lastgood("rewind", "1", "--only-agent", "--yes", expect=3).out
    assert "nothing to restore: what is left of what the agent changed since ckpt_" in again


def test_beside_a_run_of_which_nobody_saw_the_end_ones_own_files_can_be_had_back(lastgood: Command) -> None:
    """T15, T17: nobody knows what it changed last, so nothing of that is taken for an agent's."""
    (lastgood.project / "a").write_text("0\n", encoding="utf-8")
    lastgood("save", "start")
    lastgood("run", "--", "sh", "-c", "echo agent > a; kill -9 $(ps -o ppid= $PPID)", expect=None)
    (lastgood.project / "notes").write_text("mine\n", encoding="utf-8")
    lastgood("save", "my notes")

    said = lastgood("rewind", "--dry-run", "--force")
    assert re.search("to have it back then: lastgood restore ckpt_.* -- .*notes", said.err)
    shown = lastgood("rewind", "--only-agent", "--dry-run", "--force").out
    assert "nothing to restore: nothing is left of what the agent changed since" in shown
    assert re.search(r"keep +a +\(not taken back: ", shown)


@pytest.mark.damages
def test_a_rewind_to_a_sound_checkpoint_goes_past_a_damaged_one(ran: Command) -> None:
    """K4, T15: what was changed beside cannot be told then, and a guard keeps it."""
    commit = ran("show", "my notes", "--json").json["checkpoint"]["commit"]
    lose(ran.store, f"{commit}:workspace")
    (ran.project / "notes").write_text("mine\nmore\n", encoding="utf-8")
    said = ran("rewind", "2", "--yes").err
    assert "What else was changed, and goes too, cannot be told: " in said
    assert files(ran) == {"a": "0", "b": "0"}


def test_where_no_file_changes_none_is_said_to_go(ran: Command) -> None:
    for words in (("--only", "progress"), ("--to", str(ran.project.parent / "aside"))):
        assert "goes too" not in ran("rewind", "2", "--yes", *words).err
    assert files(ran) == {"a": "agent", "b": "agent", "notes": "mine"}


def test_a_rewind_needs_no_git_where_a_hint_would(lastgood: Command) -> None:
    """S12: to keep what one changed in the same file takes a merge, which is not what was asked for."""
    lines = [f"line {number}\n" for number in range(20)]
    (lastgood.project / "a").write_text("".join(lines), encoding="utf-8")
    lastgood("save", "start")
    lastgood("run", "--", "sed", "-i", "s/line 3$/agent/", "a")
    with (lastgood.project / "a").open("a", encoding="utf-8") as file:
        file.write("mine\n")
    said = lastgood("rewind", "--yes", env={"PATH": "/nonexistent"}).err
    assert "  not saved yet: a\n" in said
    assert (lastgood.project / "a").read_text(encoding="utf-8") == "".join(lines)


def test_what_brought_back_the_progress_alone_says_so(lastgood: Command) -> None:
    """T8, T11: no file changed, and yet it was no restore of nothing."""
    lastgood("task", "start", "T1")
    lastgood("task", "done", "T1")
    at = lastgood("save", "one done", "--json").json["checkpoint"]["id"]
    lastgood("task", "start", "T2")
    done = lastgood("restore", at, "--only", "progress", "--yes")
    assert done.out.splitlines()[0].endswith("(one done): only the progress")
    assert "  progress  op_" in lastgood("undo", "--list").out
    planned = lastgood("undo", "--dry-run").out
    assert ": only the progress\nprogress: will be put back (1 of 2 tasks done)\n" in planned
    undone = lastgood("undo")
    assert undone.out.splitlines()[0].endswith(": only the progress")
    assert undone.err == "progress: put back (1 of 2 tasks done)\n"
    assert "put back (1 of 1 task done)" in lastgood("redo").err
