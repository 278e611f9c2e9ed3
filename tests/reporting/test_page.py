"""The page as a text: whole, closed to the world, and with every text a text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lastgood.reporting import page as page_module
from lastgood.reporting.page import page
from tools.report_records import DAY, MINUTE, NOW, activity, busy, checkpoint, hostile, session, task

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
    assert read.tags.count("figure") == read.tags.count("figcaption") == 6
    assert read.tags.count("table") >= 5
    assert set(re.findall(r'scope="(\w+)"', whole)) == {"row", "col"}
    assert ("aria-hidden", "true") in read.attributes  # plots: the tables say the same
    assert '<meta name="viewport"' in whole


def test_a_plot_says_what_each_mark_is(whole: str) -> None:
    assert "<title>ckpt_00000000 turn turn 1</title>" in whole
    assert "<title>T01 schema: 3,600 s, done</title>" in whole


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
