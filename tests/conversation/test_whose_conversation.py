"""Whose a conversation is, judged by what the processes of a command prove."""

from __future__ import annotations

import pytest

from lastgood.conversation.hosts import (
    FoundConversation,
    HostProcess,
    chosen,
    claude_folder,
    claude_session,
    codex_session,
    gemini_session,
    is_claude,
    is_gemini,
    is_opencode,
    is_opencode_database,
    is_rollout,
    is_server,
    named_session,
    one_of_grown,
)
from lastgood.conversation.reader import form_of, message_in, parsed, resume_command
from lastgood.paths import lies_in

ONE, OTHER = "550e8400-e29b-41d4-a716-446655440000", "01a1feb9-521d-79e1-a95c-74cf5d4e1555"
ROOT = "ses_df77eedfdffeObJ0hERteKYFoT"
PROCESS = HostProcess(pid=7, started="3616428")


def found(session: str, *, pid: int) -> FoundConversation:
    return FoundConversation(host="claude-code", session=session, transcript=f"/{session}", pid=pid)


def test_a_record_is_that_of_the_process_that_bears_its_number_and_began_then() -> None:
    """P8c."""
    record = {"pid": 7, "sessionId": ONE, "cwd": "/w", "procStart": "3616428"}
    assert claude_session(PROCESS, record) == (ONE, "/w")
    assert claude_session(PROCESS, {**record, "procStart": "1"}) is None
    assert claude_session(PROCESS, {**record, "pid": 8}) is None
    assert claude_session(PROCESS, {**record, "sessionId": "../../etc"}) is None
    assert claude_session(PROCESS, {**record, "cwd": 5}) is None


def test_a_record_that_does_not_say_when_its_process_began_needs_the_programs_name_and_to_be_newer() -> None:
    """P8c."""
    record = {"pid": 7, "sessionId": ONE, "cwd": "/w"}
    claude = HostProcess(pid=7, started="3616428", words=("claude", "-p", "x"))
    assert claude_session(claude, record, newer=True) == (ONE, "/w")
    assert claude_session(claude, record) is None
    shell = HostProcess(pid=7, started="3616428", words=("sh", "-c", "claude"))
    assert claude_session(shell, record, newer=True) is None


@pytest.mark.parametrize(
    ("words", "so"),
    [
        (["claude", "--resume", ONE], True),
        (["node", "/opt/node_modules/@anthropic-ai/claude-code/cli.js"], True),
        (["sh", "-c", "sleep 1", "viewer", "--session", ONE], False),
        (["viewer", "claude"], False),
    ],
)
def test_claude_is_told_by_the_program_and_not_by_what_it_was_given(words: list[str], so: object) -> None:
    """P8c."""
    assert is_claude(words) == so


def test_the_folder_of_a_project_is_named_as_claude_code_names_it() -> None:
    """P8c."""
    assert claude_folder("/home/ada/my_shop.v2") == "-home-ada-my-shop-v2"


@pytest.mark.parametrize(
    ("words", "session"),
    [
        (["claude", "--resume", ONE], ONE),
        (["claude", f"--session-id={ONE}", "-p"], ONE),
        (["claude", "-r", "latest"], None),
        (["claude", "--resume"], None),
        (["claude", "--resume", ONE, "--fork-session"], None),
        (["claude", "-p", ONE], None),
        (["opencode", "run", "--session", ROOT, "go on"], ROOT),
        (["opencode", "-s", ROOT, "--fork"], None),
    ],
)
def test_a_conversation_is_named_by_the_options_that_name_one(words: list[str], session: str | None) -> None:
    """P8c."""
    assert named_session(words) == session


def test_a_rollout_is_told_by_its_place_and_name() -> None:
    """P8c."""
    assert is_rollout(f"/home/ada/.codex/sessions/2026/11/23/rollout-2026-11-23T01-33-42-{ONE}.jsonl")
    assert not is_rollout(f"/home/ada/.codex/sessions/2026/11/rollout-{ONE}.jsonl")
    assert not is_rollout("/home/ada/.codex/sessions/2026/11/23/notes.jsonl")


def test_the_transcript_of_a_sub_agent_is_not_the_conversation() -> None:
    """P8c."""
    said = {"id": ONE, "cwd": "/w", "source": "exec", "thread_source": "user"}
    assert codex_session({"type": "session_meta", "payload": said}) == (ONE, "/w")
    for inner in ({"source": {"subagent": "review"}}, {"thread_source": "subagent"}):
        assert codex_session({"type": "session_meta", "payload": {**said, **inner}}) is None
    assert codex_session({"type": "response_item", "payload": said}) is None
    assert gemini_session({"sessionId": ONE, "kind": "main"}) == ONE
    assert gemini_session({"sessionId": ONE, "kind": "subagent"}) is None


@pytest.mark.parametrize(
    ("words", "so"),
    [
        (["gemini", "-p", "x"], True),
        (["node", "--max-old-space-size=8192", "/usr/bin/gemini"], True),
        (["node", "/opt/node_modules/@google/gemini-cli/bundle/index.js"], True),
        (["python3", "lastgood", "run", "--", "node", "gemini.js"], False),
        (["grep", "-r", "gemini-cli"], False),
        ([], False),
    ],
)
def test_gemini_is_told_by_the_program_and_not_by_what_it_was_given(words: list[str], so: object) -> None:
    """P8c."""
    assert is_gemini(words) == so


@pytest.mark.parametrize(
    ("words", "so"),
    [
        (["opencode", "run", "x"], True),
        (["/opt/node_modules/opencode-linux-x64/bin/opencode"], True),
        (["node", "/opt/node_modules/opencode-ai/bin/opencode.js"], True),
        (["python3", "lastgood", "run", "--", "opencode"], False),
        (["vi", "opencode.json"], False),
    ],
)
def test_opencode_is_told_by_the_program_and_not_by_what_it_was_given(words: list[str], so: object) -> None:
    """P8c."""
    assert is_opencode(words) == so


def test_an_opencode_that_serves_works_for_whoever_asks() -> None:
    """P8c."""
    assert is_server(["opencode", "serve", "--port", "4096"])
    assert not is_server(["opencode", "run", "please"])
    assert not is_server(["python3", "serve"])


def test_the_database_of_opencode_is_told_by_its_place_and_name() -> None:
    """P8c."""
    assert is_opencode_database("/home/ada/.local/share/opencode/opencode.db")
    assert is_opencode_database("/data/opencode/opencode-dev.db")
    assert not is_opencode_database("/home/ada/.local/share/opencode/opencode.db-wal")
    assert not is_opencode_database("/home/ada/shop/opencode.db")


def test_of_several_of_one_process_the_last_counts_unless_a_stranger_may_have_written_it() -> None:
    """P8c: opencode begins another conversation in the same process."""
    grown = {ONE: "a", OTHER: "b"}
    told = one_of_grown(grown, named=None, known=ONE, strangers=False, last=OTHER)
    assert told == (OTHER, None)
    assert one_of_grown(grown, named=ONE, known=None, strangers=True, last=OTHER) == (ONE, None)
    session, doubt = one_of_grown(grown, named=None, known=ONE, strangers=True, last=OTHER)
    assert (session, doubt is None) == (None, False)


@pytest.mark.parametrize(
    ("grown", "named", "known", "strangers", "session"),
    [
        ({ONE: "a"}, None, None, False, ONE),
        ({ONE: "a"}, None, None, True, None),
        ({ONE: "a", OTHER: "b"}, None, None, False, None),
        ({ONE: "a", OTHER: "b"}, OTHER, None, True, OTHER),
        ({ONE: "a"}, None, ONE, True, ONE),
        ({ONE: "a", OTHER: "b"}, None, ONE, True, None),
        ({ONE: "a", OTHER: "b"}, None, ONE, False, None),
        ({ONE: "a"}, OTHER, None, False, None),
        ({}, None, None, True, None),
    ],
)
def test_a_file_that_grew_is_taken_only_if_nobody_else_could_have_written_it(
    grown: dict[str, str], named: str | None, known: str | None, strangers: object, session: str | None
) -> None:
    """P8c."""
    told, doubt = one_of_grown(grown, named=named, known=known, strangers=bool(strangers))
    assert told == session
    assert (doubt is not None) == (session is None and bool(grown) and named is None)


def test_an_agent_below_another_is_that_ones_own() -> None:
    """P8c."""
    picked = chosen([found(ONE, pid=5), found(OTHER, pid=9)], above={9: [8, 5, 2], 5: [2]}, known=None)
    assert picked.conversation == found(ONE, pid=5)
    assert picked.doubt is None


def test_of_two_at_once_the_one_that_is_kept_stays_and_the_other_is_named() -> None:
    """P8c."""
    both = [found(ONE, pid=5), found(OTHER, pid=9)]
    assert chosen(both, above={}, known=None).conversation == both[0]
    picked = chosen(both, above={}, known=OTHER)
    assert picked.conversation == both[1]
    assert ONE in str(picked.doubt)
    assert chosen([], above={}, known=ONE).conversation is None


def test_a_folder_lies_in_the_workspace_or_is_it() -> None:
    """P8c."""
    assert lies_in("/w", "/w")
    assert lies_in("/w/sub", "/w")
    assert not lies_in("/wide", "/w")


def test_every_host_has_its_own_words_to_go_on() -> None:
    """P7c."""
    assert [
        resume_command(host, "ID") for host in ("claude-code", "codex", "gemini-cli", "opencode", "x")
    ] == [
        "claude --resume ID",
        "codex resume ID",
        "gemini --resume ID",
        "opencode --session ID",
        None,
    ]


def test_the_form_of_gemini_cli_is_told_by_its_head_and_its_patches_are_no_messages() -> None:
    """P5."""
    head = b'{"sessionId":"%s","projectHash":"15fe","kind":"main"}' % ONE.encode()
    call = b'{"name":"run_shell_command","args":{"command":"ls"}}'
    lines = (
        b'{"$set":{"messages":[{"type":"user","content":"x"}]}}',
        b'{"id":"1","type":"user","content":[{"text":"please do it"}]}',
        b'{"id":"2","type":"gemini","content":"","thoughts":[]}',
        b'{"id":"2","type":"gemini","content":"","toolCalls":[%s]}' % call,
    )
    assert form_of([parsed(head)]) == "gemini-cli"
    said = [message_in("gemini-cli", parsed(line) or {}) for line in lines]
    assert said == [
        None,
        {"role": "user", "content": [{"text": "please do it"}]},
        None,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "name": "run_shell_command", "input": {"command": "ls"}}],
        },
    ]
