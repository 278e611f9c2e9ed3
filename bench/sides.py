"""Whoever is measured: lastgood, git's own commands, and the peers, all behind the same few verbs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from functools import cache
from importlib.util import find_spec
from typing import Protocol

import bare
from peak import measured

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PEERS = os.path.join(ROOT, ".cache", "bench-venv", "bin", "python")
# With what `pip install lastgood` brings: ISA-L, most of all.
PYTHON = sys.executable
# As lastgood runs git: nothing of the user's configuration counts.
GIT_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@localhost",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@localhost",
}


def python_alone() -> str:
    """Return a Python as an installed command has it: with ISA-L, which saves use, and no others' packages.

    What lies beside the interpreter beneath may run code of its own (``.pth`` files) at each start.
    """
    place = os.path.join(ROOT, ".cache", "bench-alone")
    python = os.path.join(place, "bin", "python")
    packages = os.path.join(
        place, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages"
    )
    isal = find_spec("isal")
    if not os.path.exists(python):
        base = os.path.realpath(PYTHON)
        subprocess.run([base, "-m", "venv", "--without-pip", "--clear", place], check=True)
    if isal is not None and isal.origin is not None and not os.path.exists(f"{packages}/isal"):
        shutil.copytree(os.path.dirname(isal.origin), f"{packages}/isal")
    return python


class Side(Protocol):
    """One of those measured. Every verb returns seconds; a restore goes back to the save called `ref`."""

    name: str

    @property
    def available(self) -> bool:
        """Whether it is installed."""

    def open(self, workspace: str, store: str) -> None:
        """Begin with an empty store."""

    def first(self) -> float:
        """Save a workspace never seen before."""

    def save(self) -> float:
        """Save a changed workspace."""

    def unchanged(self) -> float:
        """Save a workspace in which nothing changed."""

    def restore(self) -> float:
        """Bring the newest save back."""

    def close(self) -> None:
        """End."""


class Driven:
    """A Python library in a process of its own; ``opening`` says how it is opened."""

    def __init__(self, name: str, *, python: str, script: str, **opening: str) -> None:
        self.name = name
        self._opening = opening
        self._command = [python, os.path.join(HERE, script)]
        self._program: subprocess.Popen[str] | None = None
        self._ref = ""

    @property
    def available(self) -> bool:
        return os.path.exists(self._command[0])

    def open(self, workspace: str, store: str) -> None:
        self.close()
        shutil.rmtree(store, ignore_errors=True)
        shutil.rmtree(os.path.join(workspace, ".stepback"), ignore_errors=True)
        self.start(workspace, store)

    def start(self, workspace: str, store: str) -> None:
        """Start the process with a store that may be there already."""
        self._program = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": os.path.dirname(store), "GIT_CONFIG_GLOBAL": "/dev/null"},
        )
        self.ask("open", workspace=workspace, store=store, **self._opening)

    def ask(self, verb: str, **request: str) -> tuple[float, object]:
        """Send one request and return its seconds and its result."""
        self.send(verb, **request)
        return self.receive(verb)

    def send(self, verb: str, **request: str) -> None:
        """Send one request."""
        assert self._program is not None
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps({"do": verb, "message": "a save", **request}) + "\n")
        self._program.stdin.flush()

    def receive(self, verb: str) -> tuple[float, object]:
        """Return the seconds and the result of a request sent before."""
        assert self._program is not None
        assert self._program.stdout is not None
        line = self._program.stdout.readline()
        if not line:
            message = f"{self.name} failed at {verb}"
            raise RuntimeError(message)
        answer = json.loads(line)
        return answer["seconds"], answer["ref"]

    def first(self) -> float:
        return self.save()

    def save(self) -> float:
        seconds, ref = self.ask("save")
        self._ref = str(ref)
        return seconds

    def unchanged(self) -> float:
        return self.ask("unchanged")[0]

    def restore(self) -> float:
        return self.ask("restore", ref=self._ref)[0]

    def close(self) -> None:
        if self._program is not None:
            assert self._program.stdin is not None
            assert self._program.stdout is not None
            self._program.stdin.close()
            self._program.wait()
            self._program.stdout.close()
            self._program = None


class Git:
    """The commands of a shadow commit. Nothing here is durable: git syncs no loose object by default."""

    name = "git"
    available = True

    def open(self, workspace: str, store: str) -> None:
        shutil.rmtree(store, ignore_errors=True)
        self._environment = {
            **GIT_ENVIRONMENT,
            "GIT_DIR": store,
            "GIT_WORK_TREE": workspace,
            "GIT_INDEX_FILE": store + "/index",
        }
        self._workspace = workspace
        self._commit: list[str] = []
        subprocess.run(["git", "init", "-q", "--bare", store], env=GIT_ENVIRONMENT, check=True)
        self.git("config", "core.bare", "false")
        self.git("config", "gc.auto", "0")

    def git(self, *arguments: str) -> str:
        """Run one git command and return what it prints."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self._workspace,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def first(self) -> float:
        seconds = self.unchanged()
        self._finish()
        return seconds

    def unchanged(self) -> float:
        before = time.perf_counter()
        self.git("add", "-A")
        self.git("write-tree")
        return time.perf_counter() - before

    def save(self) -> float:
        before = time.perf_counter()
        self.git("add", "-A")
        self._finish()
        return time.perf_counter() - before

    def _finish(self) -> None:
        tree = self.git("write-tree")
        self._commit = [self.git("commit-tree", "-m", "a save", *parents(self._commit), tree)]
        self.git("update-ref", "refs/heads/saves", *self._commit)

    def restore(self) -> float:
        before = time.perf_counter()
        self.git("add", "-A")
        self.git("read-tree", "-u", "--reset", *self._commit)
        return time.perf_counter() - before

    def close(self) -> None:
        """Nothing stays open."""


class Opencode(Git):
    """What opencode does at each step: a tree in a shadow repository whose index stays, and no commit."""

    name = "opencode"

    def unchanged(self) -> float:
        before = time.perf_counter()
        self.git("add", ".")
        self._tree = self.git("write-tree")
        return time.perf_counter() - before

    def first(self) -> float:
        return self.unchanged()

    def save(self) -> float:
        return self.unchanged()

    def restore(self) -> float:
        before = time.perf_counter()
        self.git("read-tree", self._tree)
        self.git("checkout-index", "-a", "-f")
        return time.perf_counter() - before


def parents(commits: list[str]) -> list[str]:
    """Return the options that name a commit's parents."""
    return [word for commit in commits for word in ("-p", commit)]


class Backup:
    """A backup program, one process a save."""

    def __init__(self, name: str, *, setup: list[str], save: list[str]) -> None:
        self.name = name
        self._setup = setup
        self._save = save

    @property
    def available(self) -> bool:
        return shutil.which(self._setup[0]) is not None

    def open(self, workspace: str, store: str) -> None:
        shutil.rmtree(store, ignore_errors=True)
        home = store + "-home"
        shutil.rmtree(home, ignore_errors=True)
        self._workspace = workspace
        self._words = {"STORE": store}
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": home,
            "LC_ALL": "C.UTF-8",
            "RESTIC_PASSWORD": "bench",
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        }
        self._run(self._setup)

    def _run(self, command: list[str]) -> float:
        words = [word.replace("STORE", self._words["STORE"]) for word in command]
        before = time.perf_counter()
        subprocess.run(
            words,
            cwd=self._workspace,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        return time.perf_counter() - before

    def first(self) -> float:
        return self._run(self._save)

    def save(self) -> float:
        return self._run(self._save)

    def unchanged(self) -> float:
        return self._run(self._save)

    def restore(self) -> float:
        message = "not measured: a backup program restores everything, elsewhere"
        raise RuntimeError(message)

    def close(self) -> None:
        """Nothing stays open."""


class OneShot:
    """`lastgood save` as a process of its own, seen from the one who starts it.

    ``peak`` is the most memory that the first one took, in bytes, that of its processes apart.
    """

    name = "lastgood"
    available = True

    def open(self, workspace: str, store: str) -> None:
        shutil.rmtree(store, ignore_errors=True)
        self._python = python_alone()
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.path.dirname(store),
            "LASTGOOD_STORE": store,
            # A resident carries out what is asked with its own settings only.
            "LASTGOOD_WATCH_ON_DEMAND": "never",
        }
        self._workspace = workspace

    def run(self, *arguments: str) -> float:
        """Run `lastgood` with some arguments and return its seconds."""
        return self._spawn(*self._lastgood(*arguments))

    def _lastgood(self, *arguments: str) -> list[str]:
        return [self._python, os.path.join(ROOT, "lastgood"), "-C", self._workspace, *arguments]

    def bare(self) -> float:
        """Return the seconds of the same Python that does nothing."""
        return self._spawn(self._python, "-c", "pass")

    def told(self, payload: str) -> float:
        """Have a hook told what a file says, as Claude Code does, and return its seconds."""
        return self._spawn(*self._hook(), given=payload, CLAUDE_PID=str(os.getpid()))

    @cache  # noqa: B019 - there are two of them
    def _hook(self) -> list[str]:
        """Return what `lastgood install` has Claude Code start."""
        command = [self._python, os.path.join(ROOT, "lastgood"), "install", "claude-code", "--print"]
        done = subprocess.run(command, env=self._environment, capture_output=True, check=True)
        entered = json.loads(done.stdout)["hooks"]["PreToolUse"][0]["hooks"][0]
        assert self._python in (entered["command"], *entered["args"]), entered
        return [str(word) for word in (entered["command"], *entered["args"])]

    def _spawn(self, *command: str, given: str = os.devnull, **variables: str) -> float:
        before = time.perf_counter()
        spawned = os.posix_spawn(
            command[0],
            command,
            self._environment | variables,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, given, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            ],
        )
        _, status = os.waitpid(spawned, 0)
        code = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - before
        assert code == 0, (code, command)
        return seconds

    def first(self) -> float:
        _, seconds, self.peak = measured(
            self._lastgood("save", "a save", "--allow-empty"), environment=self._environment
        )
        return seconds

    def save(self) -> float:
        return self.run("save", "a save", "--allow-empty")

    def unchanged(self) -> float:
        return self.run("save")

    def restore(self) -> float:
        return self.run("restore", "@", "--yes")

    def close(self) -> None:
        """Nothing stays open."""


# Asks the resident again and again in one process, and prints how long each answer took.
_ASKING = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import lastgood
from lastgood import client
client._GREETING_SECONDS = 60.0
words = ["-C", sys.argv[3], "save"]
for _ in range(int(sys.argv[2])):
    before = time.perf_counter()
    answer = client.asked(client.socket_of(words), words, id=os.urandom(8).hex())
    print(time.perf_counter() - before)
    assert answer[:1] == client.DONE, "it declined"
"""


class Resident(OneShot):
    """`lastgood save` as a process, carried out by the one that watches."""

    def open(self, workspace: str, store: str) -> None:
        super().open(workspace, store)
        self.save()
        command = [self._python, os.path.join(ROOT, "lastgood"), "-C", workspace, "watch", "--rest", "1h"]
        self._watching = subprocess.Popen(command, env=self._environment, stderr=subprocess.DEVNULL)
        self.asked(5)  # files that are young have to be looked at once more

    def asked(self, times: int) -> list[float]:
        """Return the seconds that each of some saves without a change took at the socket."""
        while not os.path.exists(self._environment["LASTGOOD_STORE"] + "/resident.sock"):
            assert self._watching.poll() is None
            time.sleep(0.01)
        words = [os.path.join(ROOT, "src"), str(times), self._workspace]
        done = subprocess.run(
            [self._python, "-c", _ASKING, *words], env=self._environment, capture_output=True, check=True
        )
        return [float(line) for line in done.stdout.split()]

    def memory(self) -> int:
        """Return the bytes of memory that the one that watches has just now."""
        with open(f"/proc/{self._watching.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        self._watching.terminate()
        self._watching.wait()


# Saves, and ends: where its modules lie, the workspace, and the store.
_SAVING = """
import gc, sys
gc.disable()
sys.path.insert(0, sys.argv[1])
import promised
promised.save(*sys.argv[2:])
"""


class Bare(OneShot):
    """A hook that hands on what it is told, and no more."""

    def asks(self, server: str, told: str) -> float:
        """Have a hook hand on what a file says, and return its seconds."""
        return self._spawn(self._python, "-c", bare.CLIENT, server, given=told)


class LeastOneShot(OneShot):
    """The least that a save takes as a process of its own."""

    name = "promised"

    def first(self) -> float:
        return self.run()

    def run(self, *_arguments: str) -> float:
        """Save, and return the seconds."""
        store = self._environment["LASTGOOD_STORE"]
        return self._spawn(self._python, "-c", _SAVING, HERE, self._workspace, store)


def ours() -> Driven:
    """Return lastgood in process."""
    return Driven("lastgood", python=PYTHON, script="drive_lastgood.py")


def watching() -> Driven:
    """Return lastgood in process, opened to watch its folder itself."""
    return Driven("watching", python=PYTHON, script="drive_lastgood.py", watch="yes")


def promised() -> Driven:
    """Return the least that a save or a restore takes which keeps what is promised."""
    return Driven("promised", python=PYTHON, script="drive_least.py")


def asking() -> Driven:
    """Return the same which asks what it leaves out of a save without a change, too."""
    return Driven("asking", python=PYTHON, script="drive_least.py", asking="yes")


def praisonai() -> Driven:
    """Return PraisonAI's checkpoints."""
    return Driven("PraisonAI", python=PEERS, script="drive_praisonai.py")


def stepback() -> Driven:
    """Return stepback, which keeps its store inside the workspace."""
    return Driven("stepback", python=PEERS, script="drive_stepback.py")


def borg() -> Backup:
    """Return BorgBackup."""
    return Backup(
        "borg",
        setup=["borg", "init", "-e", "none", "STORE"],
        save=["borg", "create", "STORE::{utcnow:%Y%m%dT%H%M%S.%f}", "."],
    )


def restic() -> Backup:
    """Return restic."""
    return Backup(
        "restic", setup=["restic", "init", "-r", "STORE"], save=["restic", "-q", "backup", "-r", "STORE", "."]
    )
