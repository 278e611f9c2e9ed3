"""What a host's events come to, each told to a process of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess

import pytest

from hooks.conftest import Agent, payload
from lastgood.settings import TRIGGERS
from tools.command import Command

START = ("session-start", "session start")


def test_a_turn_is_kept_under_what_was_asked_for(agent: Agent) -> None:
    """S20: before a prompt nothing is kept where nobody changed anything."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.turn("write it\n\nonce more", "two")
    agent.quietly("SessionEnd")

    assert agent.told()[:3] == [START, ("turn", "write it"), ("turn", "write it once more")]
    assert [one["state"] for one in agent.lastgood("session", "list", "--json").json["sessions"]] == ["ended"]


def test_what_a_person_changed_between_turns_is_kept_before_the_next(agent: Agent) -> None:
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    (agent.project / "file").write_text("by hand")
    agent.turn("again", "two")

    assert agent.told() == [START, ("turn", "write it"), ("auto", "before: again"), ("turn", "again")]


def test_the_last_words_of_a_turn_are_kept_before_the_next(agent: Agent) -> None:
    """P5: a host writes them when it has told of the end, and a rewind is to bring them back."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.says("assistant", "that was all")
    agent.turn("again", "two")

    target = agent.lastgood("rewind", "1", "--yes", "--json").json["target"]
    assert "that was all" in agent.lastgood("show", target, "--conversation").out


def test_a_call_of_a_tool_that_changed_no_file_is_none_to_keep(agent: Agent) -> None:
    """S10: the conversation goes on with each."""
    agent.lastgood.environment["LASTGOOD_AUTO_ON"] = ",".join((*TRIGGERS, "tool"))
    agent.quietly("SessionStart")
    agent.asked("look at it")
    own = {"transcript_path": str(agent.transcript), "cwd": str(agent.project)}
    agent.sends(json.dumps(payload("PostToolBatch") | own), "--tools")
    assert agent.told() == [START]


def test_a_rewind_goes_by_turns_whatever_was_kept_within_them(agent: Agent) -> None:
    """T15: to where the turn began."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.asked("tidy up")
    (agent.project / "file").write_text("half")
    agent.quietly("PreToolUse")
    (agent.project / "file").write_text("two")
    agent.answered()
    assert agent.told()[2:] == [("risky", "before: rm -rf notes.txt; false"), ("turn", "tidy up")]

    agent.lastgood("rewind", "1", "--yes")
    assert (agent.project / "file").read_text() == "one"
    agent.lastgood("undo")
    agent.lastgood("rewind", "2", "--yes")
    assert (agent.project / "file").read_text() == "as it was"


def test_a_rewind_to_where_a_session_began_says_once_what_was_asked_for(agent: Agent) -> None:
    """Its goal, and so its first checkpoint, is called as the prompt that began it."""
    agent.turn("mend the parser", "one")
    shown = agent.lastgood("rewind", "1", "--dry-run").out
    assert "(before: mend the parser)" in shown


def test_a_rewind_to_before_a_long_prompt_says_it_once(agent: Agent) -> None:
    """Where it is cut short differs, which makes no other title of it."""
    agent.turn("write it", "one")
    (agent.project / "mine").write_text("mine\n")
    agent.turn("mend the parser and all that calls it, then run the tests of both again", "two")
    shown = agent.lastgood("rewind", "1", "--dry-run").out
    assert shown.count("before: mend the parser") == 1


def test_a_turn_of_which_all_was_kept_before_it_ended_is_one_all_the_same(agent: Agent) -> None:
    """T15: hosts write the last words of a turn when it is over, so nothing may be new then."""
    agent.quietly("SessionStart")
    agent.asked("write it")
    (agent.project / "file").write_text("one")
    agent.quietly("PreToolUse")
    agent.quietly("Stop")
    assert agent.told()[1:] == [("risky", "before: rm -rf notes.txt; false"), ("turn", "write it")]

    agent.lastgood("rewind", "1", "--yes")
    assert (agent.project / "file").read_text() == "as it was"


def test_what_a_dead_run_said_is_kept_once_however_often_it_is_recovered(agent: Agent) -> None:
    """S10, P7c: also while nobody is at work in its session."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.asked("go on")
    agent.process.kill()
    agent.process.wait()
    for how in ("--rollback", "--rollback", "--continue"):
        agent.lastgood("recover", how)
    assert [kind for kind, _ in agent.told()].count("interrupt") == 1


def test_a_rewind_says_how_to_keep_what_a_person_changed_between_turns(agent: Agent) -> None:
    """T15, T17."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    (agent.project / "mine").write_text("mine")
    agent.turn("tidy up", "two")
    said = agent.lastgood("rewind", "2", "--dry-run").err
    assert re.search(r"last 2 turns:\n  tidy up, .*\n  write it, ", said)
    assert "(what was changed before: tidy up)" in said
    [words] = re.findall("to keep it: lastgood (.*)", said)
    agent.lastgood(*words.split(), "--yes")
    assert (agent.project / "file").read_text() == "as it was"
    assert (agent.project / "mine").read_text() == "mine"


def test_a_command_that_takes_nothing_away_makes_no_checkpoint(agent: Agent) -> None:
    agent.quietly("SessionStart")
    agent.asked("look")
    (agent.project / "file").write_text("half")
    agent.quietly("PreToolUse", tool_input={"command": "cat file"})

    assert agent.told() == [START]


def test_before_a_command_that_takes_nothing_away_not_even_the_store_is_opened(agent: Agent) -> None:
    """What happens most often in a turn costs least."""
    agent.quietly("PreToolUse", tool_input={"command": "cat file"})
    agent.quietly("PreToolUse", tool_name="Write", tool_input={"file_path": "x"})

    assert not agent.lastgood.store.exists()


def test_a_folder_that_is_no_project_is_told_of_once_and_never_kept(agent: Agent) -> None:
    """S11: a person who works in the home folder need not read that at each prompt."""
    agent.lastgood.environment["HOME"] = str(agent.project)

    assert "it is a home folder" in json.loads(agent.tells("SessionStart").stdout)["systemMessage"]
    agent.turn("write it", "one")
    agent.quietly("PreToolUse")
    agent.quietly("SessionEnd")

    assert not agent.lastgood.store.exists()
    text = json.dumps(payload("PreToolUse") | {"cwd": str(agent.project)})
    assert "permissionDecision" in json.loads(agent.sends(text, "--block").stdout)["hookSpecificOutput"]


def test_a_turn_that_was_interrupted_is_one_all_the_same(agent: Agent) -> None:
    """P6: the host tells nothing of it, until the next begins."""
    agent.quietly("SessionStart")
    agent.asked("write it")
    (agent.project / "file").write_text("half")
    agent.turn("do it otherwise", "whole")

    assert agent.told() == [START, ("turn", "interrupted: write it"), ("turn", "do it otherwise")]
    agent.lastgood("rewind", "2", "--yes")
    assert (agent.project / "file").read_text() == "as it was"


def test_a_host_that_was_killed_is_known_dead_and_its_turn_can_be_taken_back(agent: Agent) -> None:
    """P7: at once, since it named its own process; what its agent left running is named."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.asked("break it")
    (agent.project / "file").write_text("broken")
    words = ["sleep", "600"]
    mark = {"CLAUDECODE": "1"}
    with (
        subprocess.Popen(words, cwd=agent.project) as mine,
        subprocess.Popen(words, cwd=agent.project, env=os.environ | mark) as left,
    ):
        agent.dies()
        assert agent.lastgood("status", "--json").json["state"] == "incomplete"
        told = [agent.lastgood("recover", how, "--json").json for how in ("--review", "--rollback")]
        for one in mine, left:
            one.kill()

    assert [[one["pid"] for one in said["live_processes"]] for said in told] == [[left.pid]] * 2
    assert (agent.project / "file").read_text() == "one"


def test_a_conversation_that_is_resumed_goes_on_with_its_session(agent: Agent) -> None:
    """P7a: what the turn left in which the host died is kept as that turn."""
    agent.quietly("SessionStart")
    agent.asked("write it")
    (agent.project / "file").write_text("half")
    agent.dies()
    agent.lives_again()

    agent.quietly("SessionStart", source="resume")

    assert ("turn", "interrupted: write it") in agent.told()
    agent.turn("go on", "whole")
    agent.lastgood("rewind", "2", "--yes")
    assert (agent.project / "file").read_text() == "as it was"
    (session,) = agent.lastgood("session", "list", "--json").json["sessions"]
    assert (session["state"], session["owner"]["pid"]) == ("active", agent.process.pid)


def test_a_host_that_resumes_what_was_continued_by_hand_owns_it(agent: Agent) -> None:
    """P1: else nobody would see that it died again."""
    agent.quietly("SessionStart")
    agent.asked("write it")
    agent.dies()
    agent.lastgood("recover", "--continue")
    agent.quietly("Stop")  # told late, when its host was gone
    agent.lives_again()
    agent.quietly("SessionStart", source="resume")
    agent.dies()

    assert agent.lastgood("status", "--json").json["state"] == "incomplete"


@pytest.mark.parametrize("how", ["--continue", "--fresh"])
def test_a_turn_whose_host_died_is_the_last_one_after_a_recovery_too(agent: Agent, how: str) -> None:
    """T15: a rewind by one leaves the turn before it as it is."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.asked("break it")
    (agent.project / "file").write_text("broken")
    agent.dies()
    agent.lastgood("recover", how)

    said = agent.lastgood("rewind", "1", "--yes")

    assert "break it (not ended)" in said.out + said.err
    assert (agent.project / "file").read_text() == "one"


def test_a_turn_whose_host_died_counts_where_a_rewind_had_led_to_before_it_began(agent: Agent) -> None:
    """T15: that restore came before the turn, and took nothing of it back."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.quietly("UserPromptSubmit", prompt="do it badly")
    (agent.project / "file").write_text("two")
    agent.quietly("Stop")
    agent.lastgood("rewind", "1", "--yes")
    agent.tells("UserPromptSubmit", prompt="break it")
    (agent.project / "file").write_text("broken")
    agent.dies()
    agent.lastgood("recover", "--continue")

    said = agent.lastgood("rewind", "1", "--yes")

    assert "break it (not ended)" in said.out + said.err
    assert (agent.project / "file").read_text() == "one"


def test_a_turn_that_a_recovery_took_back_is_none_to_take_back(agent: Agent) -> None:
    """T15: what was done by hand since then is not that turn's."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.asked("break it")
    (agent.project / "file").write_text("broken")
    agent.dies()
    agent.lastgood("recover", "--rollback")
    (agent.project / "by hand").write_text("mine")

    said = agent.lastgood("rewind", "1", "--dry-run")

    assert "break it" not in said.out + said.err
    assert "write it" in said.out + said.err


def test_a_host_that_was_killed_in_its_first_turn_is_named(agent: Agent) -> None:
    """P7, P7c: though no checkpoint holds yet what its agent was asked, nor says whose it is."""
    name = payload("Stop")["session_id"]
    agent.transcript = agent.transcript.parent / "projects" / "x" / f"{name}.jsonl"
    agent.transcript.parent.mkdir(parents=True)
    agent.asked("write it")
    agent.dies()

    told = agent.lastgood("recover", "--review").out
    assert "of Claude Code (write it): stopped without finishing" in told
    assert f"claude --resume {name}" in told


def test_the_conversation_is_in_the_checkpoint_of_its_turn(agent: Agent) -> None:
    agent.quietly("SessionStart")
    agent.turn("write it", "one")

    newest = agent.lastgood("show", "@", "--json").json["checkpoint"]
    assert newest["conversation"]["messages"] == 2


def test_a_turn_of_words_alone_is_kept_for_them(agent: Agent) -> None:
    agent.quietly("SessionStart")
    agent.asked("explain it")
    agent.answered()

    assert agent.told() == [START, ("turn", "explain it")]


def test_within_a_run_the_run_s_session_is_the_host_s(agent: Agent) -> None:
    """P1: `lastgood run -- claude`, with the hooks installed."""
    started = agent.lastgood("session", "start", "--json").json["session"]["id"]
    agent.lastgood.environment["LASTGOOD_SESSION"] = started
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.quietly("SessionEnd")

    (session,) = agent.lastgood("session", "list", "--json").json["sessions"]
    assert (session["id"], session["state"]) == (started, "active")
    assert agent.told()[-1] == ("turn", "write it")


def test_where_checkpoints_by_themselves_are_switched_off_none_is_made(agent: Agent) -> None:
    agent.lastgood.environment["LASTGOOD_AUTO_ENABLED"] = "false"
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.quietly("PreToolUse")

    assert agent.told() == []


def test_before_the_conversation_is_compacted_it_is_kept(agent: Agent) -> None:
    agent.quietly("SessionStart")
    agent.asked("write it")
    (agent.project / "file").write_text("half")
    agent.quietly("SessionStart", hook_event_name="PreCompact", trigger="auto")

    assert agent.told()[-1] == ("compaction", "before the conversation is compacted")


def test_what_hosts_tell_beside_that_is_passed_over(agent: Agent) -> None:
    agent.quietly("Stop", hook_event_name="Notification")
    agent.quietly("Stop", hook_event_name="OfNextYear", more=[1, 2])

    assert not agent.lastgood.store.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "\0", '{"hook_event_name": 3}', '{"hook_event_name": "Stop"}']
)
def test_nothing_that_it_is_told_breaks_an_agent(agent: Agent, text: str) -> None:
    done = agent.sends(text)

    assert done.returncode == 0
    assert not done.stderr
    if done.stdout:
        assert json.loads(done.stdout)["systemMessage"].startswith("lastgood made no checkpoint: ")


def test_why_nothing_was_kept_is_told_in_the_host_s_own_way(agent: Agent, lastgood: Command) -> None:
    """The agent goes on; with --block what is risky waits."""
    lastgood.environment["LASTGOOD_STORE"] = str(lastgood.project / "file" / "store")

    reply = json.loads(agent.tells("UserPromptSubmit").stdout)
    assert set(reply) == {"systemMessage"}
    assert "lastgood made no checkpoint" in reply["systemMessage"]

    own = {"transcript_path": str(agent.transcript), "cwd": str(agent.project)}
    text = json.dumps(payload("PreToolUse") | own)
    decided = json.loads(agent.sends(text, "--block").stdout)["hookSpecificOutput"]
    assert decided["permissionDecision"] == "deny"


def test_an_agent_that_is_asked_to_take_its_work_back_is_told_how(agent: Agent) -> None:
    """T15: with no more than the hooks; another prompt is carried out without a word."""
    agent.turn("write it", "wrecked")
    agent.turn("undo the typo in this text:" + " of long standing" * 30, "wrecked twice")

    said = agent.tells("UserPromptSubmit", prompt="Undo what you did in the last two prompts").stdout
    told = json.loads(said)["hookSpecificOutput"]["additionalContext"]
    commands = [shlex.split(one) for one in re.findall(r"`([^`]*)`", told)]
    look, go = (one[one.index("-C") :] for one in commands)
    shown = agent.lastgood(*("2" if word == "N" else word for word in look)).out
    agent.answered()
    agent.asked("yes, do it")  # by now the last two turns are others
    named = {word: re.findall(rf"{word[:4].lower()}_\w+", shown)[0] for word in ("CKPT", "PLAN")}
    known = {"CHECKPOINT": named["CKPT"], "ID": named["PLAN"]}
    agent.lastgood(*(known.get(word, word) for word in go))

    assert (agent.project / "file").read_text() == "as it was"
