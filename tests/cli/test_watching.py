"""watch: checkpoints that nobody asks for, by a real process beside the work."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.command import PATIENCE, Command, told
from tools.watcher import Watcher


@pytest.fixture
def watcher(kept: Command) -> Iterator[Watcher]:
    started = Watcher(kept)
    yield started
    if started.process.poll() is None:
        started.end(signal.SIGKILL)


def put(path: Path, text: str) -> None:
    """Write a file whole at once: the process that watches may look at any moment."""
    aside = path.parent.parent / "aside"
    aside.write_text(text)
    aside.rename(path)


def test_a_change_becomes_a_checkpoint_of_the_session_at_hand(kept: Command, watcher: Watcher) -> None:
    watcher.greets()  # its first save, which may have begun before the session, is over
    session = kept("session", "start", "--goal", "work", "--json").json["session"]["id"]
    (kept.project / "src" / "b.py").write_text("print(2)\n")
    made = watcher.next()
    assert (made["kind"], made["message"], made["session"]) == ("auto", "by watch", session)
    assert kept("cat", made["id"], "src/b.py").out == "print(2)\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_it_gets_a_last_checkpoint(kept: Command, watcher: Watcher, number: signal.Signals) -> None:
    put(kept.project / "a.txt", "last\n")
    code, _, err = watcher.end(number)
    assert (code, err.splitlines()[-1]) == (0, "watched no longer: 1 checkpoint made")
    assert kept("cat", "@", "a.txt").out == "last\n"


def test_one_that_is_to_outlive_its_terminal_does(kept: Command) -> None:
    watcher = Watcher(kept, ahead=("nohup",))
    watcher.process.send_signal(signal.SIGHUP)
    (kept.project / "a.txt").write_text("after the terminal was closed\n")
    assert watcher.next()["kind"] == "auto"
    assert watcher.end()[0] == 0


def test_an_unchanged_workspace_gets_no_checkpoint(kept: Command, watcher: Watcher) -> None:
    before = kept("list", "--json").json["checkpoints"]
    assert watcher.end()[0] == 0
    assert kept("list", "--json").json["checkpoints"] == before


def test_one_process_watches_a_workspace_and_status_tells(kept: Command, watcher: Watcher) -> None:
    moments = "whenever nothing has changed for 0.1s, one every 10s at most"
    assert watcher.said == f"watching {kept.project}: a checkpoint {moments}\n"
    assert kept("status", "--json").json["resident"] is True
    assert "lastgood watch makes checkpoints by itself" in kept("status").out
    told(kept("watch", expect=14), 14)
    watcher.end(signal.SIGKILL)
    assert kept("status", "--json").json["resident"] is False
    (kept.project / "a.txt").write_text("after it was killed\n")
    kept("save")


def test_a_folder_that_is_gone_ends_it_with_the_way_back(kept: Command, watcher: Watcher) -> None:
    shutil.rmtree(kept.project)
    out, _ = watcher.process.communicate(timeout=PATIENCE)
    assert watcher.process.returncode == 10
    assert " restore @" in json.loads(out.splitlines()[-1])["error"]["hint"]


def test_what_fails_while_nothing_changes_is_tried_again_later_and_told_at_the_end(kept: Command) -> None:
    watcher = Watcher(kept, interval="200ms")
    assert watcher.process.stderr is not None
    watcher.process.stderr.readline()
    (lock,) = kept.store.glob("workspaces/*/lock")
    watcher.process.send_signal(signal.SIGSTOP)  # or it makes the file anew between the two calls
    lock.rename(lock.with_name("aside"))
    lock.mkdir()
    watcher.process.send_signal(signal.SIGCONT)
    assert "not saved, tried again soon" in watcher.process.stderr.readline()
    time.sleep(0.5)
    code, out, err = watcher.end()
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "storage"


def test_a_configuration_that_wants_none_is_told(kept: Command) -> None:
    told(kept("--set", "auto.enabled=false", "watch", expect=2), 2)
    told(kept("watch", "--rest", "2h", expect=2), 2)


def test_its_checkpoints_follow_a_configuration_that_changes(kept: Command, watcher: Watcher) -> None:
    watcher.greets()
    aside = kept.project.with_name("aside")
    aside.write_text('[capture]\nexclude = ["/src"]\n')
    aside.rename(kept.project / ".lastgood.toml")
    made = watcher.next()
    assert made["changes"] == {"added": 1, "modified": 0, "deleted": 0}, "what was held before still is"
    aside.mkdir()
    (aside / "c.py").write_text("print(3)\n")
    (kept.project / "src2").mkdir()
    (kept.project / ".lastgood.toml").write_text('[capture]\nexclude = ["/src2"]\n')
    aside.rename(kept.project / "src2" / "inside")
    made = watcher.next()
    kept("cat", made["id"], "src2/inside/c.py", expect=10)


def test_one_whose_configuration_turns_it_off_waits_until_it_is_on_again(
    kept: Command, tmp_path: Path
) -> None:
    mine = tmp_path / "own" / "lastgood" / "config.toml"
    mine.parent.mkdir(parents=True)
    kept.environment["XDG_CONFIG_HOME"] = str(tmp_path / "own")
    watcher = Watcher(kept, interval=None)
    err = watcher.process.stderr
    assert err is not None
    err.readline()
    watcher.greets()
    put(mine, "[auto]\nenabled = false\n")
    (kept.project / "a.txt").write_text("while it is off\n")
    assert "the configuration wants no more such checkpoints" in err.readline()
    put(mine, "[auto\n")
    (kept.project / "a.txt").write_text("while it is broken\n")
    assert "is not TOML" in err.readline()
    assert err.readline().startswith("  ")
    mine.unlink()
    (kept.project / "a.txt").write_text("on again\n")
    code, out, _ = watcher.end()
    assert code == 0
    made = json.loads(out.splitlines()[-1])["checkpoint"]
    assert kept("cat", made["id"], "a.txt").out == "on again\n"
