"""Small pure rules: references, refused roots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.cli.wording import brief_moment
from lastgood.errors import Invalid, LastgoodError, Usage
from lastgood.ids import name_fault
from lastgood.view import last_date, last_time_of_day, parse, timestamp
from lastgood.workspace.arguments import refusal
from tools.values import not_none

HOUR = 3600 * 10**9


@pytest.mark.parametrize(
    ("ref", "form"),
    [
        ("@", "back"),
        ("latest", "latest"),
        ("@~3", "back"),
        ("@good", "good"),
        ("@start", "start"),
        ("@{2h}", "ago"),
        ("@{2026-11-21T10:00}", "at"),
        ("@{14:20}", "clock"),
        ("@{9:05:32}", "clock"),
        ("@{Nov 21 09:38}", "date"),
        ("@{nov 21}", "date"),
        ("@{yesterday}", "ago"),
        ("@{1 hour ago}", "ago"),
        ("@{1hour}", "ago"),
        ("ckpt_0123456789abcdef", "id"),
        ("ckpt_0123", "name"),
        ("0123", "name"),
        ("before-refactor", "name"),
        ("task:T01", "task"),
        ("before:task:T01", "before-task"),
        ("step:4", "step"),
    ],
)
def test_every_form_of_a_reference_is_known(ref: str, form: str) -> None:
    assert parse(ref).form == form


@pytest.mark.parametrize("ref", ["", "-x", "--quiet"])
def test_an_empty_reference_or_an_option_is_a_usage_error(ref: str) -> None:
    with pytest.raises(Usage):
        parse(ref)


@pytest.mark.parametrize("ref", ["a..b", "a\nb", "a\0b", "x" * 200, "fix: the parser", ".x"])
def test_what_can_be_no_name_is_looked_for_as_a_message(ref: str) -> None:
    assert parse(ref).form == "message"


@pytest.mark.parametrize(
    "ref",
    [
        "@{Nov 32 10:00}",
        "@{Nov 1 25:00}",
        "@{",
        "@{x}",
        "@{24:00}",
        "@{14:60}",
        "@{14:2}",
        "@{2 mo}",
        "@~",
        "@~-1",
        "@x",
        "task:",
        "step:",
    ],
)
def test_what_no_checkpoint_could_match_is_invalid(ref: str) -> None:
    with pytest.raises(Invalid):
        parse(ref)


@given(st.text(max_size=30))
def test_no_text_makes_a_reference_fail_in_another_way(ref: str) -> None:
    try:
        parse(ref)
    except LastgoodError as error:
        assert error.exit_code in {2, 12}
        assert error.hint


@pytest.mark.parametrize("text", ["2h", "2 hours", "2hours ago", "2 hrs ago"])
def test_two_hours_are_two_hours(text: str) -> None:
    assert parse(f"@{{{text}}}").number == 2 * HOUR


@pytest.mark.parametrize(
    ("time_of_day", "meant"),
    [
        ("14:20:32", "2026-11-23T14:20:32"),
        ("14:20:33", "2026-11-22T14:20:33"),
        ("00:00", "2026-11-23T00:00"),
        ("23:59:59", "2026-11-22T23:59:59"),
    ],
)
def test_a_time_of_day_is_the_last_that_is_not_in_the_future(time_of_day: str, meant: str) -> None:
    """By local time."""
    now = not_none(timestamp("2026-11-23T14:20:32.5"))
    found = last_time_of_day(parse(f"@{{{time_of_day}}}").number, now=now)
    assert found == timestamp(meant)


@pytest.mark.parametrize(
    ("date", "meant"),
    [
        ("Nov 21 09:38", "2026-11-21T09:39"),
        ("Nov 21", "2026-11-22T00:00"),
        ("Dec 24 18:00", "2025-12-24T18:01"),
        ("Feb 29 00:00", "2024-02-29T00:01"),
    ],
)
def test_a_date_without_a_year_is_the_last_that_is_not_in_the_future(date: str, meant: str) -> None:
    """To the end of the minute that a list shows of a checkpoint's time."""
    now = not_none(timestamp("2026-11-23T14:20:32.5"))
    assert last_date(parse(f"@{{{date}}}").number, now=now) == not_none(timestamp(meant)) - 1


def test_what_a_list_shows_of_a_time_leads_back_to_it() -> None:
    made = not_none(timestamp("2026-09-03T11:59:58.7"))
    for now in ("2026-09-03T13:00", "2026-11-23T14:20", "2028-01-01T00:00"):
        present = not_none(timestamp(now))
        shown = parse(f"@{{{brief_moment(made, now=present)}}}")
        until = shown.number
        if shown.form == "date":
            until = last_date(shown.number, now=present)
        elif shown.form == "clock":
            until = last_time_of_day(shown.number, now=present) + 999_999_999
        assert made <= until < made + 86_400 * 1_000_000_000


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("1970-01-01T00:00:05Z", 5_000_000_000, 5_999_999_999),
        ("1970-01-01T00:00:05.184Z", 5_184_000_000, 5_184_999_999),
        ("1970-01-01T01:00:05.184+01:00", 5_184_000_000, 5_184_999_999),
        ("1970-01-01T00:00:05.184012+00:00", 5_184_012_000, 5_184_012_999),
    ],
)
def test_a_moment_as_it_is_shown_reaches_to_the_end_of_what_is_shown(
    text: str, first: int, last: int
) -> None:
    """What a list or a document shows of a checkpoint's time finds that checkpoint again."""
    assert timestamp(text) == first
    assert parse(f"@{{{text}}}").number == last


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-x",
        ".x",
        "a:b",
        "a@b",
        "a..b",
        "a\tb",
        "latest",
        "ckpt_0123",
        "x" * 101,
        "\u202ex",
        "0123456789abcdef",
    ],
)
def test_names_that_could_be_mistaken_are_refused(name: str) -> None:
    assert name_fault(name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "v1.2",
        "before refactor",
        "Ünïcode",
        "0",
        "x" * 100,
        "cafe",
        "20261121",
        "a" * 15,
        "a" * 17,
        "A" * 16,
    ],
)
def test_ordinary_names_are_fine(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/home",
        "/home/ada",
        "/home/ada/Desktop",
        "/home/ada/Downloads",
        "/tmp",
        "/etc",
        "/usr",
        "/etc/ssl",
        "/scratch",
    ],
)
def test_home_system_and_temporary_roots_are_refused(path: str) -> None:
    """S11: each with its reason."""
    assert refusal(path, homes=["/home/ada"], temporary=["/scratch"], bare_mount=False)


@pytest.mark.parametrize(
    "path", ["/home/ada/project", "/tmp/project", "/srv/app", "/home/ada/Desktop/project"]
)
def test_projects_are_not_refused(path: str) -> None:
    assert refusal(path, homes=["/home/ada"], temporary=["/scratch"], bare_mount=False) is None


def test_a_bare_mount_is_refused() -> None:
    """S11: a disk is no project unless it says so."""
    assert refusal("/data/disk", homes=[], temporary=[], bare_mount=True)
