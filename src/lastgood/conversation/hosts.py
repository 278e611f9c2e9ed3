"""Which conversation belongs to a command: what the processes below it prove, judged without looking (P5).

Claude Code says of each of its processes which conversation it has (``sessions/PID.json``), Codex has its
transcript open. Gemini CLI and opencode do neither: what grew of the conversations of its folder is its own
only if nobody else could have written it.
"""

from __future__ import annotations

import re

from lastgood.conversation.opencode import is_session
from lastgood.conversation.reader import is_uuid
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Literal

    Host = Literal["claude-code", "codex", "gemini-cli", "opencode"]

_ROLLOUT = re.compile(r"/sessions/\d{4}/\d\d/\d\d/rollout-[^/]*\.jsonl\Z")
_NO_LETTER = re.compile(r"[^A-Za-z0-9]")
_NAMED = frozenset({"--resume", "-r", "--session-id", "--session", "-s"})
_FORKING = frozenset({"--fork-session", "--fork"})
_GEMINI = ("gemini", "gemini.js")
_OPENCODE = ("opencode", ".opencode", "opencode.exe", "opencode-cli")
_SERVING = frozenset({"serve", "web", "acp"})
_DATABASE = re.compile(r"/opencode/opencode[^/]*\.db\Z")
_CLAUDE = ("claude", "claude.exe", "claude.js")
# What is given a program's script to run.
_INTERPRETERS = ("node", "bun", "deno", "python", "sh", "bash", "dash")
_GIVEN_TEXT = frozenset({"-c", "-lc", "-ec", "-e", "-m"})


class HostProcess(Value):
    """A process below the command, with the folder that it works in; ``started`` is as the kernel counts."""

    pid: int
    started: str
    words: tuple[str, ...] = ()
    folder: str = ""
    environment: Mapping[str, str] = {}


class FoundConversation(Value):
    """A conversation that a process has: its host, what that calls it, and the file it is kept in, if any."""

    host: Host
    session: str
    transcript: str | None
    pid: int


class Chosen(Value):
    """The conversation of a command, None where none can be told; ``doubt`` says why, or what is left out.

    ``withdrawn`` is one that was told before, and that nobody can tell any more.
    """

    conversation: FoundConversation | None = None
    doubt: str | None = None
    withdrawn: str | None = None


def claude_home(environment: Mapping[str, str]) -> str | None:
    """Return the folder that Claude Code keeps its files in; None if that cannot be told."""
    return _home(environment, "CLAUDE_CONFIG_DIR", ".claude")


def gemini_home(environment: Mapping[str, str]) -> str | None:
    """Return the folder that Gemini CLI keeps its files in; None if that cannot be told."""
    home = environment.get("GEMINI_CLI_HOME") or environment.get("HOME")
    return f"{home}/.gemini" if home else None


def home_of(form: str, environment: Mapping[str, str]) -> str | None:
    """Return the folder in which a host looks for transcripts of a form; None if that cannot be told."""
    if form == "codex":
        return _home(environment, "CODEX_HOME", ".codex")
    known = {"claude-code": claude_home, "gemini-cli": gemini_home}
    return known[form](environment) if form in known else None


def _home(environment: Mapping[str, str], variable: str, name: str) -> str | None:
    home = environment.get("HOME")
    return environment.get(variable) or (f"{home}/{name}" if home else None)


def claude_folder(folder: str) -> str:
    """Return the name under which Claude Code keeps the conversations of a folder."""
    return _NO_LETTER.sub("-", folder)


def is_claude(words: Sequence[str]) -> bool:
    """Tell whether a process is Claude Code: by the program's name, or by that of the script it was given."""
    program = words[0].rpartition("/")[2] if words else ""
    if program in _CLAUDE or not program.startswith(_INTERPRETERS):
        return program in _CLAUDE
    place = next((place for place, word in enumerate(words) if place and not word.startswith("-")), None)
    if place is None or not _GIVEN_TEXT.isdisjoint(words[:place]):
        return False
    return words[place].rpartition("/")[2] in _CLAUDE or "/@anthropic-ai/claude-code/" in words[place]


def claude_session(
    process: HostProcess, record: Mapping[str, object], *, newer: bool = False
) -> tuple[str, str] | None:
    """Return the conversation of a process and its folder, as its own record says; None if it is another's.

    A record that a killed process left says when that began: the number may be another one's by now. One
    that does not say so has to be ``newer`` than the process, and that to bear the program's name.
    """
    session, folder = record.get("sessionId"), record.get("cwd")
    fits = record["procStart"] == process.started if "procStart" in record else newer
    if record.get("pid") != process.pid or not fits:
        return None
    if "procStart" not in record and not is_claude(process.words):
        return None
    if not isinstance(session, str) or not isinstance(folder, str) or not is_uuid(session):
        return None
    return session, folder


def named_session(words: Sequence[str]) -> str | None:
    """Return the conversation that a host was told to go on with or to begin; None if it was told none."""
    if not _FORKING.isdisjoint(words):
        return None
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in _NAMED:
            value = value or next(iter(words[place + 1 :]), "")
            if is_uuid(value) or is_session(value):
                return value
    return None


def is_rollout(path: str) -> bool:
    """Tell whether a file is named and placed as Codex does with a transcript."""
    return _ROLLOUT.search(path) is not None


def codex_session(head: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the conversation and its folder, as its first line tells; None for that of a sub-agent."""
    said = head.get("payload")
    if head.get("type") != "session_meta" or not isinstance(said, dict):
        return None
    session, folder = said.get("id"), said.get("cwd")
    inner = isinstance(said.get("source"), dict) or said.get("thread_source") == "subagent"
    if inner or not isinstance(session, str) or not isinstance(folder, str) or not is_uuid(session):
        return None
    return session, folder


def is_gemini(words: Sequence[str]) -> bool:
    """Tell whether a process is Gemini CLI: by the program's name, or by that of the script it was given."""
    return _is_called(words, _GEMINI, "/@google/gemini-cli/")


def is_opencode(words: Sequence[str]) -> bool:
    """Tell whether a process is opencode: by the program's name, or by that of the script it was given."""
    return _is_called(words, _OPENCODE, "/opencode-ai/")


def is_server(words: Sequence[str]) -> bool:
    """Tell whether a process is an opencode that works for others, in whatever folder they name."""
    return is_opencode(words) and not _SERVING.isdisjoint(words)


def is_opencode_database(path: str) -> bool:
    """Tell whether a file is named and placed as opencode does with its database."""
    return _DATABASE.search(path) is not None


def silent_host(words: Sequence[str]) -> Host | None:
    """Return which of the hosts a process is that do not say which conversation it has."""
    return "gemini-cli" if is_gemini(words) else "opencode" if is_opencode(words) else None


def _is_called(words: Sequence[str], names: Sequence[str], package: str) -> bool:
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    return any(one.rpartition("/")[2] in names or package in one for one in (*words[:1], script))


def gemini_session(head: Mapping[str, object]) -> str | None:
    """Return the conversation that a file's first line begins; None for that of a sub-agent."""
    session = head.get("sessionId")
    if head.get("kind", "main") != "main" or not isinstance(session, str) or not is_uuid(session):
        return None
    return session


def one_of_grown(
    grown: Collection[str],
    *,
    named: str | None,
    known: str | None,
    strangers: bool,
    last: str | None = None,
) -> tuple[str | None, str | None]:
    """Return the conversation of a host that says nothing, and why none can be told.

    ``grown`` are those of its folder that were written to since it began; one of them was ``named`` when
    it was started, or ``known`` before as the only one. Beside ``strangers``, others of the same host in
    the same folder, a file that grew proves nothing; of several one that was only known may be another's.
    Of a host whose process may have several, one after the other, the ``last`` is the one that counts.
    """
    if last is not None and not strangers:
        return last, None
    if named in grown:
        return named, None
    if not grown or named is not None:
        return None, None
    if known in grown and len(grown) == 1:
        return known, None
    if strangers or len(grown) > 1:
        return None, "another of its kind works in the same folder, so that nobody can tell whose is whose"
    return next(iter(grown)), None


def chosen(
    found: Iterable[FoundConversation], *, above: Mapping[int, Sequence[int]], known: str | None
) -> Chosen:
    """Return the conversation to be kept of those that processes of one command have.

    One below another is that one's sub-agent. Of several the one that is ``known`` stays as long as it goes
    on; else it is the one that began first.
    """
    all_found = list(found)
    having = {one.pid for one in all_found}
    first: dict[str, FoundConversation] = {}
    for one in sorted(all_found, key=lambda each: each.pid):
        if not having.intersection(above.get(one.pid, ())):
            first.setdefault(one.session, one)
    if not first:
        return Chosen()
    kept = first.get(known or "") or next(iter(first.values()))
    others = [f"{one.host} {one.session}" for one in first.values() if one.session != kept.session]
    doubt = f"not kept, as only one conversation can be: {', '.join(others)}" if others else None
    return Chosen(conversation=kept, doubt=doubt)
