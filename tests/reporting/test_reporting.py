"""What facts add up to (rule K5)."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.cli.table import spellings
from lastgood.cli.wording import duration
from lastgood.model.activity import PERIODS, TaskCounts
from lastgood.model.operation import Operation
from lastgood.model.session import Effect
from lastgood.reporting import page as page_module
from lastgood.reporting.activity import steady
from lastgood.reporting.page import page
from tools.command import COMMAND, Command, told, told_as_document
from tools.living import eventually
from tools.report_records import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    activity,
    busy,
    checkpoint,
    hostile,
    session,
    task,
)


def test_a_workspace_without_any_work_gives_an_empty_report() -> None:
    empty = activity()
    assert (empty.sessions, empty.buckets, empty.marks, empty.notes) == ((), (), (), ())
    assert empty.tasks == TaskCounts()
    assert empty.tasks.success_ratio is None
    assert empty.tokens is None
    assert empty.checkpoints.total == 0


def test_tasks_are_counted_by_state_with_their_success_and_time() -> None:
    tasks = (
        task("a", start=NOW - 10 * SECOND, end=NOW),
        task("b", start=NOW - 20 * SECOND, end=NOW),
        task("c", "failed", start=NOW - 30 * SECOND, end=NOW),
        task("d", "skipped", end=NOW),
        task("e", "running", start=NOW),
        task("f", "pending"),
    )
    counted = activity(sessions=(session("s", started=NOW - HOUR, tasks=tasks),)).tasks
    assert (counted.done, counted.failed, counted.skipped, counted.running, counted.pending) == (
        2,
        1,
        1,
        1,
        1,
    )
    assert counted.total == 6
    assert counted.success_ratio == 2 / 3
    assert counted.seconds == 60


def test_tasks_outside_any_session_count_too() -> None:
    assert activity(outside=(task("a", end=NOW),)).tasks.done == 1
    assert activity(outside=(task("a", end=NOW),), session="s").tasks.done == 0


def test_a_command_that_was_run_is_no_task() -> None:
    """P8c: nobody planned any."""
    found = activity(
        sessions=(
            *(
                session(f"s_{state}", started=NOW, tasks=(task("command", state),), goal=f"echo {state}")
                for state in ("done", "failed", "pending")
            ),
            session("s_now", started=NOW, state="active", tasks=(task("command", "running"),)),
            session("s_dead", started=NOW, state="incomplete", tasks=(task("command", "pending"),)),
            session("s_back", started=NOW, ended_by="rolled back", tasks=(task("command", "pending"),)),
            session("s_tasks", started=NOW, tasks=(task("T01"),)),
        ),
        commands=frozenset({"s_done", "s_failed", "s_pending", "s_now", "s_dead", "s_back"}),
    )
    assert (found.tasks.total, [one.task.id for one in found.worked]) == (1, ["T01"])
    assert {one.session: one.state for one in found.commands} == {
        "s_done": "done",
        "s_failed": "failed",
        "s_pending": "given-up",
        "s_now": "running",
        "s_dead": "interrupted",
        "s_back": "taken-back",
    }
    assert found.commands[0].command == "echo done"
    assert [bucket.tasks_done for bucket in found.buckets] == []


def test_notes_name_a_command_by_its_words() -> None:
    step = Effect(id="e", workspace_key="w", name="command", started_at=NOW, state="unknown", task="command")
    found = activity(
        sessions=(session("s", started=NOW, goal="make it", tasks=(task("command").replace(attempts=3),)),),
        effects=(step.replace(session="s"), step.replace(session="s", name="deploy")),
        commands=frozenset({"s"}),
    )
    assert [note.message for note in found.notes] == [
        "1 command took 3 tries or more: make it",
        "2 steps started and nobody saw the end: make it, deploy",
    ]


@pytest.mark.parametrize(("period", "held"), [("day", 1), ("week", 2), ("month", 3), ("all", 4)])
def test_a_period_ends_now(period: str, held: int) -> None:
    ages = (90 * DAY, 20 * DAY, 3 * DAY, HOUR)
    found = activity(
        *(checkpoint(number, at=NOW - age) for number, age in enumerate(ages, start=1)),
        sessions=tuple(session(f"s{age}", started=NOW - age, ended_at=NOW - age + 1) for age in ages),
        outside=tuple(task(f"t{age}", start=NOW - age, end=NOW - age) for age in ages),
        operations=tuple(
            Operation(id=f"op{age}", workspace_key="w", type="restore", at=NOW - age) for age in ages
        ),
        effects=tuple(
            Effect(id=f"e{age}", workspace_key="w", name="push", started_at=NOW - age) for age in ages
        ),
        period=period,
    )
    assert found.checkpoints.total == len(found.sessions) == found.tasks.done == held
    assert found.operations == {"restore": held}
    assert len(found.effects) == held
    assert sum(bucket.checkpoints for bucket in found.buckets) == held


def test_a_session_that_reaches_into_a_period_belongs_to_it() -> None:
    found = activity(sessions=(session("s", started=NOW - 3 * DAY, beat=NOW - HOUR),), period="day")
    assert len(found.sessions) == 1


def test_one_session_alone_can_be_reported_on() -> None:
    found = activity(
        checkpoint(1, session="s", stored_bytes=5),
        checkpoint(2, session="other", stored_bytes=7),
        sessions=(session("s", started=NOW), session("other", started=NOW)),
        operations=(Operation(id="op", workspace_key="w", type="restore", at=NOW),),
        session="s",
    )
    assert [one.report.id for one in found.sessions] == ["s"]
    assert found.saves.stored_bytes == 5
    assert found.operations == {}


def test_tokens_are_a_running_total_of_each_session() -> None:
    found = activity(
        checkpoint(1, session="a", tokens=100),
        checkpoint(2, session="b", tokens=10),
        checkpoint(3, session="a", tokens=250),
        checkpoint(4, session="a"),
        checkpoint(5, session="a", tokens=30),  # counted anew, after a compaction
        sessions=(session("a", started=NOW), session("b", started=NOW)),
    )
    assert [one.tokens for one in found.sessions] == [280, 10]
    assert found.tokens == 290
    assert sum(bucket.tokens for bucket in found.buckets) == 290


def test_tokens_used_before_a_period_are_not_counted_in_it() -> None:
    found = activity(
        checkpoint(1, at=NOW - 3 * DAY, session="a", tokens=1000),
        checkpoint(2, at=NOW - HOUR, session="a", tokens=1200),
        sessions=(session("a", started=NOW - 3 * DAY, beat=NOW),),
        period="day",
    )
    assert (found.tokens, found.sessions[0].tokens, found.buckets[-1].tokens) == (200, 200, 0)
    assert sum(bucket.tokens for bucket in found.buckets) == 200


def test_deleted_checkpoints_count_in_sizes_alone() -> None:
    assert activity(checkpoint(1), checkpoint(2, deleted_at=NOW)).checkpoints.total == 1


def test_checkpoints_are_counted_by_kind_and_by_what_is_known_of_them() -> None:
    counts = activity(
        checkpoint(1, kind="turn", name="n", good=True),
        checkpoint(2, kind="turn", pinned=True, good=False),
        checkpoint(3, kind="manual", partial=True, damaged="bits"),
    ).checkpoints
    assert counts.by_kind == {"turn": 2, "manual": 1}
    assert (counts.named, counts.pinned, counts.good, counts.bad, counts.partial, counts.damaged) == (1,) * 6


def test_what_a_person_should_look_at_is_named() -> None:
    found = activity(
        checkpoint(1, damaged="bits", partial=True),
        sessions=(session("s", started=NOW, state="incomplete", tasks=(task("t").replace(attempts=4),)),),
        effects=(Effect(id="e", workspace_key="w", name="deploy", started_at=NOW, state="unknown"),),
    )
    assert [note.code for note in found.notes] == [
        "incomplete-sessions",
        "many-attempts",
        "damaged-checkpoints",
        "partial-checkpoints",
        "unknown-effects",
    ]
    assert all(note.hint for note in found.notes)


def test_a_clock_that_went_back_makes_no_negative_time() -> None:
    """Rule S15."""
    found = activity(
        checkpoint(1, at=NOW - HOUR),
        checkpoint(2, at=NOW - HOUR),
        checkpoint(3, at=0),
        checkpoint(4, at=NOW - MINUTE),
        sessions=(
            session("s", started=NOW + DAY, beat=NOW - DAY, tasks=(task("t", start=NOW, end=NOW - HOUR),)),
        ),
    )
    assert found.seconds == 0
    assert found.worked[0].seconds == 0
    assert [mark.at for mark in found.marks] == [NOW - HOUR, NOW - HOUR, NOW - HOUR, NOW - MINUTE]
    assert found.buckets[0].start > NOW - 2 * HOUR


def test_a_checkpoint_of_the_future_is_shown_where_it_was_made() -> None:
    """Rule S15."""
    found = activity(
        checkpoint(1, at=NOW - HOUR), checkpoint(2, at=(1 << 63) - 1), checkpoint(3, at=NOW - MINUTE)
    )
    assert [mark.at for mark in found.marks] == [NOW - HOUR, NOW - HOUR, NOW - MINUTE]
    assert activity(checkpoint(1, at=NOW + 50 * DAY), period="week").checkpoints.total == 1


def test_one_save_by_a_wrong_clock_leaves_the_others_where_they_are() -> None:
    """Rule S15: a clock that was a week ahead for a moment, and was set right."""
    times = [1, 2, 900, 3, 4, 5]
    assert steady(times, now=1000) == [1, 2, 2, 3, 4, 5]
    assert steady([900, 1, 2, 3], now=1000) == [1, 1, 2, 3]
    assert steady([900, 901], now=1) == [1, 1]
    assert steady([], now=1) == []


@given(st.lists(st.integers(0, 9)))
def test_as_many_times_as_possible_stay_as_they_are(times: list[int]) -> None:
    kept = sum(a == b for a, b in zip(times, steady(times, now=9), strict=True))
    longest = [1] * len(times)
    for place, at in enumerate(times):
        longest[place] = 1 + max((longest[n] for n in range(place) if times[n] <= at), default=0)
    assert kept >= max(longest, default=0)


@given(st.lists(st.integers(0, 1 << 63)), st.integers(0, 1 << 63))
def test_times_are_shown_in_order_and_never_ahead(times: list[int], now: int) -> None:
    shown = steady(times, now=now)
    assert shown == sorted(shown)
    assert all(at <= now for at in shown)
    assert len(shown) == len(times)


@given(
    st.lists(st.integers(0, (1 << 63) - 1), max_size=30),
    st.lists(st.tuples(st.integers(0, 1 << 63), st.integers(0, 1 << 63)), max_size=10),
    st.sampled_from(PERIODS),
    st.integers(-14 * 3600, 14 * 3600),
)
def test_whatever_the_clocks_said_every_bucket_holds_its_share(
    times: list[int], ends: list[tuple[int, int]], period: str, offset: int
) -> None:
    found = activity(
        *(checkpoint(number, at=at) for number, at in enumerate(times, start=1)),
        outside=tuple(task(f"t{n}", start=start, end=end) for n, (start, end) in enumerate(ends)),
        period=period,
        offset=offset,
    )
    assert len(found.buckets) <= 60
    assert sum(bucket.checkpoints for bucket in found.buckets) == found.checkpoints.total
    assert sum(bucket.tasks_done for bucket in found.buckets) == found.tasks.done
    for left, right in itertools.pairwise(found.buckets):
        assert left.end == right.start
        assert left.start < left.end


def test_days_begin_at_local_midnight() -> None:
    found = activity(*(checkpoint(n, at=NOW - (40 - n) * DAY) for n in range(40)), offset=2 * 3600)
    assert {(bucket.start // SECOND + 2 * 3600) % 86_400 for bucket in found.buckets} == {0}


def test_weeks_begin_on_monday() -> None:
    found = activity(*(checkpoint(n, at=NOW - (300 - n) * DAY) for n in range(300)))
    assert {(bucket.start // DAY + 3) % 7 for bucket in found.buckets} == {0}


def test_thousands_of_checkpoints_add_up() -> None:
    found = activity(
        *(
            checkpoint(n, at=NOW - (10_000 - n) * MINUTE, session=f"s{n % 50}", stored_bytes=1, tokens=n)
            for n in range(1, 10_001)
        ),
        sessions=tuple(session(f"s{n}", started=NOW - 9 * DAY) for n in range(50)),
    )
    assert found.saves.stored_bytes == 10_000
    assert sum(one.checkpoints for one in found.sessions) == 10_000
    assert len(found.buckets) <= 48


def test_a_report_on_everything_holds_together() -> None:
    found = busy()
    assert found.checkpoints.good == 4
    assert found.sessions[0].tokens == 36 * 700


# The page as a text: whole, closed to the world, and with every text a text.


STYLE = Path(page_module.__file__).parent / "page.css"


class Reader(HTMLParser):
    """Collects what elements and attributes a page has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


@pytest.fixture(scope="module")
def whole() -> str:
    return page(busy(), offset=0)


@pytest.fixture(scope="module")
def attacked() -> str:
    return page(hostile(), offset=0)


def test_nothing_is_loaded_from_anywhere(whole: str) -> None:
    """Rule K5: one self-contained page."""
    read = Reader(whole)
    assert {"script", "link", "img", "iframe", "object", "embed", "base", "form"}.isdisjoint(read.tags)
    leading = {"src", "srcset", "href", "xlink:href", "action", "data", "poster"}
    assert [pair for pair in read.attributes if pair[0] in leading] == []
    assert "url(" not in whole
    assert "@import" not in whole
    assert "default-src 'none'" in whole


def test_hostile_texts_stay_texts(attacked: str) -> None:
    """Rule K5: what a checkpoint is called must not run."""
    read = Reader(attacked)
    assert {"script", "img", "a", "iframe"}.isdisjoint(read.tags)
    assert [name for name, _ in read.attributes if name.startswith("on")] == []
    assert "&lt;script&gt;" in attacked
    assert "{{ 7 * 7 }}" in attacked
    assert all(ch.isprintable() or ch == "\n" for ch in attacked)


def test_the_page_has_a_title_a_language_and_tables_of_the_numbers(whole: str) -> None:
    read = Reader(whole)
    assert ("lang", "en") in read.attributes
    assert read.tags.count("h1") == read.tags.count("main") == 1
    assert read.tags.count("figure") == read.tags.count("figcaption") == 7
    assert read.tags.count("table") >= 5
    assert set(re.findall(r'scope="(\w+)"', whole)) == {"row", "col"}
    assert ("aria-hidden", "true") in read.attributes  # plots: the tables say the same
    assert '<meta name="viewport"' in whole


def test_a_plot_says_what_each_mark_is(whole: str) -> None:
    assert "<title>ckpt_00000000 turn turn 1</title>" in whole
    assert "<title>T01 schema: 3,600 s, done</title>" in whole
    assert "<title>claude -p 'fix the tests': 600 s, done</title>" in whole


def test_a_report_on_nothing_says_so() -> None:
    text = page(activity(), offset=0)
    assert "nothing to plot" in text
    assert "<figure>" not in text


def test_secrets_do_not_leave_with_a_page() -> None:
    """Rule S17."""
    secret = "AKIA" + "QZ7WX2RT5MNB4KLP"
    made = activity(
        checkpoint(1, message=f"key {secret}"),
        sessions=(session("s", started=NOW, goal=secret, tasks=(task(secret, start=NOW, end=NOW),)),),
    )
    assert secret not in page(made, offset=0)


def test_ten_thousand_checkpoints_fit_on_a_page_that_can_be_sent() -> None:
    """Rule K5."""
    kinds = ("turn", "tool", "auto", "task", "guard")
    tasks = tuple(task(f"T{n}", start=NOW - n * MINUTE, end=NOW) for n in range(5000))
    made = activity(
        *(
            checkpoint(
                n, at=NOW - (10_000 - n) * 9 * MINUTE, kind=kinds[n % 5], message="m" * 500, save_ms=9.0
            )
            for n in range(1, 10_001)
        ),
        sessions=tuple(session(f"s{n}", started=NOW - 9 * DAY, tasks=tasks[n : n + 1]) for n in range(5000)),
    )
    assert len(page(made, offset=0).encode()) < 1_500_000


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
def test_every_colour_stands_out_from_its_ground(light: bool) -> None:  # noqa: FBT001 - two cases by name
    """The contrast that the WCAG 2.2 ask for: 4.5 for text, also in the colours of the plots."""
    by_day, by_night = re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)
    known = colours(by_day if light else by_night)
    assert set(known) == {"paper", "card", "ink", "muted", "line", "blue", "green", "violet", "amber", "red"}
    for ground in ("paper", "card"):
        for name in set(known) - {"paper", "card", "line"}:
            pair = sorted((luminance(known[name]), luminance(known[ground])))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= (
                4.5 if ground == "card" or name in {"ink", "muted"} else 3
            ), (name, ground)


# report: as text, as a document, as a file.


FIELDS = (
    "workspace store period session sessions tasks commands features checkpoints operations tokens saves"
    " sizes buckets notes"
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
    with subprocess.Popen(["sleep", "60"]) as owner:
        lastgood("session", "start", "--owner-pid", str(owner.pid))
        owner.kill()
    shown = lastgood("report").out
    assert "1 incomplete" in shown
    assert "lastgood recover" in shown


def test_commands_are_told_apart_from_tasks_and_what_was_taken_back_as_that(lastgood: Command) -> None:
    """P8c: `report` told a command as a task, and one taken back as a pending task."""
    (lastgood.project / "a.txt").write_text("mine\n")
    lastgood("run", "--", "true")
    with subprocess.Popen(
        [sys.executable, COMMAND, "run", "--", "sh", "-c", "echo > started; exec sleep 60"],
        cwd=lastgood.project,
        env=lastgood.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as runner:
        assert eventually((lastgood.project / "started").exists)
        runner.kill()
    lastgood("recover", "--rollback")
    shown = lastgood("report", "--detailed").out
    assert re.search(r"^Commands\n  total +2 \(1 done, 1 taken back\)$", shown, re.MULTILINE)
    assert re.search(r"^  taken back +\d .* sh -c echo > started; exec sleep 60$", shown, re.MULTILINE)
    assert "\nTasks" not in shown
    document = lastgood("report", "--json").json
    assert document["tasks"]["total"] == 0
    assert (document["commands"]["done"], document["commands"]["taken-back"]) == (1, 1)


def test_going_back_to_before_a_command_leaves_no_task_behind(lastgood: Command) -> None:
    """P8c: the progress of a command was put back as that of the workspace."""
    (lastgood.project / "a.txt").write_text("mine\n")
    lastgood("run", "--", "sh", "-c", "echo wrecked > a.txt")
    lastgood("rewind", "--yes")
    assert (lastgood.project / "a.txt").read_text() == "mine\n"
    assert lastgood("progress", "show", "--json").json["progress"]["tasks"] == []
    document = lastgood("report", "--json").json
    assert (document["tasks"]["total"], document["commands"]["done"]) == (0, 1)
    assert "1/1" not in lastgood("session", "list").out


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
    assert "lastgood doctor" in done.stderr.partition("needs the library")[2]
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
