"""A hook's client in Perl asks as the one in Python does, and becomes that where nobody answers."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from lastgood import resident
from lastgood.cli.verbs.install import QUICK
from lastgood.errors import Storage
from lastgood.hooks.entries import PERL
from lastgood.resident.server import Answer, Declined, Listener, Request
from tools.command import COMMAND, SOURCE, Command
from tools.forks import be_nobody, ended, forked
from tools.watcher import answering

pytestmark = pytest.mark.skipif(not os.access(PERL[0], os.X_OK), reason="there is no Perl")

CLIENT = Path(SOURCE) / "lastgood" / "client.pl"
WORDS = ["hook", "claude-code"]
# In the place of the Python that the client becomes: what it is handed on.
INSTEAD = ["/bin/sh", "-c", 'printf "%s|" "$LASTGOOD_PROPOSED"; exec cat', *WORDS]
DONE = Answer(code=3, said=((1, b"for the host \xff\n"), (2, b"as an error\n"), (1, b"more" * 50_000)))
PROPOSED = "LASTGOOD_PROPOSED"
PAYLOADS_OF_HOST = Path(__file__).parent / "payloads" / "claude-code"
PAYLOADS = {"empty": b"", "page": b"x" * 4096, "pipe": b"\0\xff" * 70_000, "large": b"x" * (5 << 20)}


@pytest.fixture
def entry(lastgood: Command) -> list[str]:
    """Return what a host is told to start."""
    shown = json.loads(lastgood("install", "claude-code", "--print", env={"HOME": "/nowhere"}).out)
    ((group,),) = [groups for event, groups in shown["hooks"].items() if event == "Stop"]
    (handler,) = group["hooks"]
    return [handler["command"], *handler["args"]]


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    """Answers as a resident does, by whatever `answers` gives it; its store lies far down."""
    store = tmp_path / ("far" * 40)
    store.mkdir()
    answering = Listener(os.fsencode(store), greeting=lambda: resident.greeting() + b"h", answer=_unset)
    with closing(answering):
        yield answering


def _unset(request: Request) -> Answer:
    raise AssertionError(request)


def liar(store: Path, *, then: Callable[[], None]) -> tuple[int, int]:
    """Have a process greet as a resident does; return it, and where it says what it was told."""
    reading, writing = os.pipe()

    def lie() -> None:
        os.chdir(store)  # an address is short
        if then is be_nobody:
            be_nobody()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(resident.SOCKET)
            server.listen()
            os.write(writing, b"r")
            client, _ = server.accept()
            with client, suppress(ConnectionError):  # closed before it took the greeting
                client.sendall(resident.greeting() + b"h")
                os.write(writing, b"told" if client.recv(1 << 16) else b"nothing")
                then()

    process = forked(lie)
    os.close(writing)
    assert os.read(reading, 1) == b"r"
    return process, reading


def asks(
    words: Sequence[str], store: Path, *, given: bytes = b"{}", env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a hook, and give it all that it is told."""
    file = os.memfd_create("given")
    os.pwrite(file, given, 0)
    pipe, environment = subprocess.PIPE, os.environ | {"LASTGOOD_STORE": str(store)} | (env or {})
    process = subprocess.Popen(words, cwd=store, env=environment, stdin=file, stdout=pipe, stderr=pipe)
    os.close(file)
    return process


def answers(
    listener: Listener, process: subprocess.Popen[bytes], answer: Callable[[Request], Answer]
) -> None:
    """Answer the next who connects, unless the process does without."""
    listener._answer = answer
    while not select.select([listener.descriptor], [], [], 0.05)[0]:
        if process.poll() is not None:
            return
    listener.serve()


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate()
    return process.returncode, out, err


def patient(entry: Sequence[str], tmp_path: Path) -> list[str]:
    """Return an entry whose client waits to be greeted however busy the machine is."""
    text = CLIENT.read_text()
    assert "(0.05, 0.5, 5)" in text
    copy = tmp_path / "client.pl"
    copy.write_text(text.replace("(0.05, 0.5, 5)", "(60, 60, 60)"))
    return [word.replace("@at/client.pl", str(copy)) for word in entry]


def become(entry: Sequence[str]) -> list[str]:
    """Return an entry that starts something else in the place of Python."""
    return [*entry[: entry.index(sys.executable)], *INSTEAD]


def in_python() -> list[str]:
    """Return what `install` enters where there is no Perl, with a client that is as patient."""
    by = f'"{sys.executable}", "{COMMAND}"'
    code = QUICK.format(folder=SOURCE, program=by).replace("run_for(by)", "")
    waits = "import lastgood.client as client; client._GREETING_SECONDS = 60; run_for(by)"
    return [sys.executable, "-ES", "-c", code + waits, *WORDS]


def test_it_says_the_words_of_the_protocol() -> None:
    text = CLIENT.read_text()
    said = f"({resident.PROTOCOL}, '{resident.SOCKET}', {resident.LARGEST >> 20} << 20, "
    assert f"my ($PROTOCOL, $SOCKET, $LARGEST, $LONGEST_NAME) = {said}" in text
    names = [one.decode() for one in (resident.DECLINED, resident.DONE, resident.BROKEN)]
    assert f"my ($DECLINED, $DONE, $BROKEN) = {tuple(names)};" in text
    assert resident.HEAD.decode() + "$PROTOCOL " in text
    assert f"my $STORAGE = {Storage.exit_code};" in text
    assert re.findall(r"^\s*(?:use|require)\b", text, re.MULTILINE) == []


def test_it_asks_as_the_other_does_and_tells_what_it_is_told(
    entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """Where all that is asked is the same, so is what is done."""
    store, heard, told = tmp_path / ("far" * 40), [], []
    more = {"ODD": os.fsdecode(b"\xfe \n"), "PERL5LIB": "/nowhere", "LC_ALL": "C.UTF-8"}

    def answer(request: Request) -> Answer:
        heard.append(request)
        return DONE

    for words in (patient(entry, tmp_path), in_python()):
        process = asks(words, store, given=PAYLOADS["pipe"], env=more)
        answers(listener, process, answer)
        told.append(outcome(process))
    perl, python = heard
    shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    theirs, ours = ({k: v for k, v in one.environment.items() if k not in shell} for one in heard)
    assert theirs == ours
    assert len(perl.id) == len(python.id) == 16
    asked = [one.replace(id="", pid=0, environment={}, started=one.started[-4:]) for one in heard]
    assert asked[0] == asked[1]
    assert perl.started == (sys.executable, COMMAND, *WORDS)
    assert told[0] == told[1] == (3, b"for the host \xff\n" + b"more" * 50_000, b"as an error\n")


@pytest.mark.parametrize("size", PAYLOADS)
@pytest.mark.parametrize("is_there", [True, False])
def test_what_it_was_given_is_handed_on(
    size: str, *, is_there: bool, entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """Whether somebody declined, or none is there."""
    store = tmp_path / ("far" * 40) if is_there else tmp_path
    process = asks(become(patient(entry, tmp_path)), store, given=PAYLOADS[size])

    def answer(request: Request) -> Answer:
        raise Declined(request)

    if is_there and size != "large":  # of which nothing is said
        answers(listener, process, answer)
    assert outcome(process) == (0, b"|" + PAYLOADS[size], b"")


def test_what_it_was_given_is_handed_on_where_no_process_can_be_added(
    entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """Nothing of it is left behind."""
    alone, kept = tmp_path / "alone.pl", tmp_path / "kept"
    text = CLIENT.read_text()
    assert text.count("= fork") == 1
    alone.write_text(text.replace("= fork", "= undef"))
    kept.mkdir()
    words = [word.replace("@at/client.pl", str(alone)) for word in become(entry)]

    def answer(request: Request) -> Answer:
        raise Declined(request)

    process = asks(words, tmp_path / ("far" * 40), given=PAYLOADS["pipe"], env={"TMPDIR": str(kept)})
    answers(listener, process, answer)
    assert outcome(process) == (0, b"|" + PAYLOADS["pipe"], b"")
    assert not list(kept.iterdir())


def test_without_one_who_answers_all_is_read_of_an_input_that_does_not_block(tmp_path: Path) -> None:
    """By Python, which gets it as the host made it: it comes in parts."""
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(tmp_path), "tool_name": "Read"}
    host, own = socket.socketpair()
    own.setblocking(False)
    with host, own:
        pipe, environment = subprocess.PIPE, os.environ | {"LASTGOOD_STORE": str(tmp_path / "none")}
        process = subprocess.Popen(in_python(), env=environment, stdin=own.fileno(), stdout=pipe, stderr=pipe)
        own.close()
        host.sendall(json.dumps(event | {"tool_input": {"text": "x" * (1 << 20)}}).encode())
    assert outcome(process) == (0, b"", b"")


@pytest.mark.parametrize("fault", [ValueError, SystemExit])
def test_what_nobody_knows_how_far_it_came_is_handed_on_with_its_id(
    fault: type[BaseException], entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """It failed, or was killed: of a checkpoint that may have been made no second one is."""
    drawn = []

    def answer(request: Request) -> Answer:
        drawn.append(request.id)
        raise fault

    process = asks(become(patient(entry, tmp_path)), tmp_path / ("far" * 40))
    with suppress(SystemExit):
        answers(listener, process, answer)
    assert outcome(process) == (0, f"{drawn[0]}|{{}}".encode(), b"")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (str(resident.PROTOCOL), str(resident.PROTOCOL + 1)),
        (str(os.stat(resident.__path__[0]).st_dev), "1"),
        ("h", "ours"),
        ("lastgood", "another"),
    ],
)
def test_one_that_greets_otherwise_is_told_nothing(
    before: str, after: str, entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """Of another version, or another installation."""
    said = resident.greeting() + b"h"
    changed = said.replace(f" {before} ".encode(), f" {after} ".encode(), 1)
    if changed == said:
        changed = said.replace(before.encode(), after.encode(), 1)
    assert changed != said
    listener._greeting = lambda: changed
    process = asks(become(patient(entry, tmp_path)), tmp_path / ("far" * 40))
    answers(listener, process, _unset)
    assert outcome(process) == (0, b"|{}", b"")


@pytest.mark.parametrize("is_told", [True, False])
def test_ctrl_c_stops_what_is_done_for_it(
    *, is_told: bool, entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """It says how far it came, or the hook ends as Ctrl-C has a program end."""

    def answer(request: Request) -> Answer:
        try:
            os.kill(request.pid, signal.SIGINT)
            while True:
                select.select([], [], [], 1)
        except KeyboardInterrupt:
            if is_told:
                return DONE
            raise

    process = asks(become(patient(entry, tmp_path)), tmp_path / ("far" * 40))
    answers(listener, process, answer)
    code, out, err = outcome(process)
    assert code == (3 if is_told else -signal.SIGINT)
    assert (bool(out), bool(err)) == (is_told, is_told)


def test_one_that_is_stopped_keeps_nobody(entry: list[str], tmp_path: Path) -> None:
    process, reading = liar(tmp_path, then=lambda: os.kill(os.getpid(), signal.SIGSTOP))
    words = [word.replace("client.pl", "quick.pl") for word in patient(entry, tmp_path)]
    (tmp_path / "quick.pl").write_text(CLIENT.read_text().replace("(0.05, 0.5, 5)", "(60, 0.05, 60)"))
    try:
        code, out, err = outcome(asks(become(words), tmp_path))
        assert os.read(reading, 9) == b"told"
        assert (code, out[16:], err) == (0, b"|{}", b"")
    finally:
        os.kill(process, signal.SIGKILL)
        ended(process)
        os.close(reading)


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user takes root")
def test_a_socket_of_another_user_is_told_nothing(entry: list[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    process, reading = liar(tmp_path, then=be_nobody)
    try:
        assert outcome(asks(become(patient(entry, tmp_path)), tmp_path)) == (0, b"|{}", b"")
        assert os.read(reading, 9) in {b"nothing", b""}
    finally:
        ended(process)
        os.close(reading)


def test_what_is_set_for_other_perls_and_other_places_changes_nothing(
    entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """No module is looked for, nothing said of a locale that is not there; a PATH is a person's own."""
    (tmp_path / "strict.pm").write_text("die 'run'")
    more = {
        "PERL5OPT": "-MNoSuchModule",
        "PERL5LIB": str(tmp_path),
        "PERL_UNICODE": "x",
        "PERL_SIGNALS": "x",
        "PERLIO": ":utf8",
        "LC_ALL": "xx",
        "IFS": "e",
        "PATH": f".:/tmp:{os.environ['PATH']}",
    }
    process = asks(become(patient(entry, tmp_path)), tmp_path / ("far" * 40), env=more)
    answers(listener, process, lambda _: Answer(code=0, said=((1, "ü".encode()),)))
    assert outcome(process) == (0, "ü".encode(), b"")
    assert outcome(asks(become(entry), tmp_path, env=more)) == (0, b"|{}", b"")


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        (PERL[0], "/gone/perl"),
        ("client.pl", "gone.pl"),
        ("@at/client.pl", "/"),
        ("exec /bin", "exec /bin"),
    ],
)
def test_without_it_python_is_started(word: str, instead: str, entry: list[str], listener: Listener) -> None:
    """Nothing answers, as nobody asks."""
    words = [one.replace(word, instead) for one in become(entry)]
    store = Path(os.fsdecode(os.readlink(f"/proc/self/fd/{listener._folder}")))
    more = {} if word != instead else {"LASTGOOD_TRACE": "1"}
    assert outcome(asks(words, store, env=more)) == (0, b"|{}", b"")


@pytest.mark.parametrize(("streams", "code"), [("<&-", 3), (">&-", 1), ("2>&-", 3)])
def test_a_standard_stream_that_is_closed_changes_nothing_else(
    streams: str, code: int, entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    words = ["/bin/sh", "-c", f'exec "$@" {streams}', "sh", *become(patient(entry, tmp_path))]
    process = asks(words, tmp_path / ("far" * 40))
    answers(listener, process, lambda _: DONE)
    found, out, err = outcome(process)
    assert (found, bool(out), bool(err)) == (code, streams != ">&-", streams != "2>&-")


def test_with_all_standard_streams_closed_python_is_started(
    entry: list[str], listener: Listener, tmp_path: Path
) -> None:
    """What it opens would be taken for them, and what is to be said be sent to who answered."""
    words, seen = become(patient(entry, tmp_path)), tmp_path / "seen"
    words[words.index(INSTEAD[2])] = f"echo started >{seen}"
    process = asks(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], tmp_path / ("far" * 40))
    answers(listener, process, lambda _: DONE)
    assert outcome(process) == (0, b"", b"")
    assert seen.read_text() == "started\n"


def test_a_real_one_carries_out_what_a_host_sent(entry: list[str], lastgood: Command, tmp_path: Path) -> None:
    """Recorded payloads; where it broke down, Python makes the checkpoint that was asked for."""
    words, digits = become(patient(entry, tmp_path)), "00112233445566ff"
    (lastgood.project / "a.txt").write_text("first\n")
    own = {"cwd": str(lastgood.project)}
    more = lastgood.environment | {"CLAUDE_PROJECT_DIR": own["cwd"]}
    with answering(lastgood):
        for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"):
            text = json.dumps(json.loads((PAYLOADS_OF_HOST / f"{event}.json").read_text()) | own)
            (lastgood.project / "a.txt").write_text(event)
            done = asks(words, lastgood.store, given=text.encode(), env=more)
            assert outcome(done) == (0, b"", b"")
    (lastgood.project / "a.txt").write_text("since")
    text = json.dumps(json.loads(text) | {"hook_event_name": "UserPromptSubmit", "prompt_id": "next"})
    again = asks(in_python(), lastgood.store, given=text.encode(), env=more | {PROPOSED: digits})
    assert outcome(again) == (0, b"", b"")
    made = lastgood("list", "--json").json["checkpoints"]
    assert made[0]["id"] == f"ckpt_{digits}"
    assert {"session-start", "risky", "turn"} <= {one["kind"] for one in made}
