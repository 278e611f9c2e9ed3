"""report: as text, as a document, as a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from lastgood.cli.activity import duration
from lastgood.cli.table import spellings
from lastgood.model.activity import PERIODS
from tools.command import COMMAND, Command, told, told_as_document

FIELDS = (
    "workspace store period session sessions tasks features checkpoints operations tokens saves sizes"
    " buckets notes"
)


@pytest.fixture
def worked(lastgood: Command) -> Command:
    """Return the command in a project with a session that did one task and failed another."""
    lastgood("session", "start", "--goal", "build the shop")
    for number, (name, end) in enumerate((("T01", "done"), ("T02", "fail"))):
        lastgood("task", "start", name)
        (lastgood.project / f"{name}.py").write_text("x" * 500)
        lastgood("save", f"turn {number}", "--kind", "turn", "--tokens", str(1000 * (number + 1)))
        lastgood("task", end, name)
    lastgood("session", "end")
    return lastgood


def test_a_report_says_in_words_what_was_done(worked: Command) -> None:
    """Rule K5."""
    shown = worked("report").out
    assert "Sessions\n  total   1 (1 ended)" in shown
    assert re.search(r"^  tokens +2,000$", shown, re.MULTILINE)
    assert re.search(r"^  total +2 \(1 done, 1 failed\)$", shown, re.MULTILINE)
    assert re.search(r"^  success +50%$", shown, re.MULTILINE)
    assert re.search(r"^  prune frees +\d", shown, re.MULTILINE)
    assert "build the shop" not in shown


def test_a_detailed_report_names_sessions_and_tasks(worked: Command) -> None:
    """Rule K5."""
    shown = worked("report", "--detailed", "--period", "week").out
    assert "the last 7 days, since " in shown
    assert re.search(r"^  sess_\w{16}  ended .*build the shop$", shown, re.MULTILINE)
    assert re.search(r"^  T02 +failed +1 ", shown, re.MULTILINE)


def test_a_report_as_a_document_has_its_fields(worked: Command) -> None:
    """Rule K5."""
    document = worked("report", "--json").json
    assert document["schema"] == "lastgood.report/1"
    assert set(FIELDS.split()) - set(document) == set()
    assert document["tasks"]["success_ratio"] == 0.5
    assert document["tokens"] == 2000
    assert document["sessions"]["list"][0]["goal"] == "build the shop"
    assert document["sizes"]["workspace"] > 0
    detailed = worked("report", "--json", "--detailed").json
    assert [one["id"] for one in detailed["tasks_list"]] == ["T01", "T02"]
    assert len(detailed["timeline"]) == detailed["checkpoints"]["total"]


def test_a_report_on_nothing_is_told(lastgood: Command) -> None:
    shown = lastgood("report", "--detailed").out
    assert "Sessions\n  total  none" in shown
    assert lastgood("report", "--json").json["buckets"] == []


def test_one_session_can_be_named_by_its_beginning(worked: Command) -> None:
    name = worked("report", "--json").json["sessions"]["list"][0]["id"]
    assert worked("report", "--session", name[:10], "--json").json["session"] == name
    told(worked("report", "--session", "sess_nowhere", expect=None), 10)


def test_a_session_left_incomplete_is_named(lastgood: Command) -> None:
    """Rules K5, P8: what a CI job greps for."""
    with subprocess.Popen(["sleep", "600"]) as owner:
        lastgood("session", "start", "--owner-pid", str(owner.pid))
        owner.kill()
    shown = lastgood("report").out
    assert "1 incomplete" in shown
    assert "lastgood recover" in shown


@pytest.mark.parametrize("words", [("--period", "year"), ("--period", ""), ("x",), ("--html",)])
def test_a_wrong_call_is_a_usage_error(worked: Command, words: tuple[str, ...]) -> None:
    told(worked("report", *words, expect=None), 2)


def test_the_periods_of_the_table_are_those_of_the_model() -> None:
    option = next(one for one in spellings()["report"].options if one.name == "period")
    assert option.choices == PERIODS


def test_a_page_is_written_privately_and_replaced_when_asked_again(worked: Command) -> None:
    """Rule K5."""
    path = worked.project.parent / "report.html"
    assert (
        "wrote report.html"
        in worked(
            "report",
            "--html",
            "report.html",
            cwd=path.parent,
            env={"LASTGOOD_WORKSPACE": str(worked.project)},
        ).out
    )
    first = path.read_text()
    assert first.startswith("<!doctype html>")
    assert path.stat().st_mode & 0o777 == 0o600
    worked("report", "--html", str(path), "--json")
    assert path.read_text().startswith("<!doctype html>")
    assert os.listdir(path.parent).count("report.html") == 1


def test_a_page_never_takes_the_place_of_another_file(worked: Command) -> None:
    """Losing a user's work must be hard."""
    mine = worked.project / "index.html"
    mine.write_text("<!doctype html><p>mine")
    told(worked("report", "--html", str(mine), expect=None), 13)
    told_as_document(worked("report", "--html", str(mine), "--json", expect=None), 13)
    told(worked("report", "--html", str(worked.project), expect=None), 13)
    assert mine.read_text() == "<!doctype html><p>mine"


def test_a_page_that_cannot_be_written_is_told(worked: Command) -> None:
    told(worked("report", "--html", "/nowhere/at/all.html", expect=None), 1)
    told(worked("report", "--html", "/dev/full/x", expect=None), 1)


def test_without_the_libraries_it_says_what_to_install(worked: Command) -> None:
    words = [sys.executable, "-S", COMMAND, "report"]
    run = {"cwd": worked.project, "env": worked.environment, "capture_output": True, "text": True}
    done = subprocess.run([*words, "--html", "x.html"], check=False, **run)  # type: ignore[call-overload] # the same for both runs
    assert done.returncode == 17
    assert "pip install 'lastgood[report]'" in done.stderr
    assert not (worked.project / "x.html").exists()
    assert subprocess.run(words, check=False, **run).returncode == 0  # type: ignore[call-overload] # text needs none


def test_secrets_do_not_leave_with_a_report(lastgood: Command) -> None:
    """Rule S17."""
    secret = "AKIA" + "QZ7WX2RT5MNB4KLP"
    lastgood("session", "start", "--goal", f"rotate {secret}")
    lastgood("task", "start", secret)
    for words in (("--detailed",), ("--detailed", "--json")):
        shown = lastgood("report", *words).out
        assert "redacted" in shown
        assert secret not in shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0s"),
        (0.44, "0.4s"),
        (59.6, "59s"),
        (9.96, "10.0s"),
        (60, "1m 0s"),
        (3661, "1h 1m"),
        (90_000, "1d 1h"),
    ],
)
def test_durations_are_told_in_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
