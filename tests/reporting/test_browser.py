"""The page in a real browser: nothing runs, it fits a phone, and it is dark at night."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.reporting.page import page
from tools.report_records import busy, hostile

pytestmark = pytest.mark.browser

POLICY = re.compile(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>\n")
PROBE = """
<script>
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentWindow;
  const every = (name) => [...page.document.querySelectorAll(name)];
  const seen = (name) => every(name).filter((one) => one.getClientRects().length);
  const bar = seen("svg [aria-roledescription='rect mark']").at(-1);
  document.title = JSON.stringify({
    width: page.document.documentElement.scrollWidth,
    wide: seen(".wide").length,
    narrow: seen(".narrow").length,
    paper: page.getComputedStyle(page.document.body).backgroundColor,
    bar: bar ? page.getComputedStyle(bar).fill : null,
    letters: Math.min(...seen("svg text").map((one) => one.getBoundingClientRect().height)),
  });
});
</script>
"""


@pytest.fixture(scope="session")
def browser() -> str:
    names = (os.environ.get("LASTGOOD_BROWSER", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("there is no Chromium: run scripts/browser, which finds, installs or names it")
    return found


@pytest.fixture
def titled(browser: str, tmp_path: Path) -> Callable[..., str]:
    """Return a call that opens a page, lets it do what it does, and returns its title."""

    def open_page(text: str, *flags: str) -> str:
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [
                browser,
                "--headless",
                "--disable-gpu",
                "--no-first-run",
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=2000",
                *flags,
                "--dump-dom",
                f"file://{tmp_path / 'page.html'}",
            ],
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        found = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
        assert found is not None, done.stderr
        return html.unescape(found.group(1))

    return open_page


def framed(text: str, *, width: int) -> str:
    """Return a page that shows another one in a frame so wide, and measures it."""
    frame = f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{html.escape(text)}"></iframe>'
    return f"<!doctype html><title>not measured</title>{PROBE}{frame}"


def test_a_browser_runs_nothing_of_what_checkpoints_are_called(titled: Callable[..., str]) -> None:
    """Rule K5."""
    text = page(hostile(), offset=0)
    assert titled(text).startswith("lastgood: report on")
    # Also without the policy that forbids scripts: there is none to forbid.
    assert POLICY.search(text)
    open_to_all = POLICY.sub("", text)
    assert titled(open_to_all).startswith("lastgood: report on")
    # And this browser would have run it.
    assert titled(open_to_all + "<script>document.title='harmed'</script>") == "harmed"
    assert titled(text + "<script>document.title='harmed'</script>") != "harmed"


@pytest.mark.parametrize(("width", "shown"), [(390, "narrow"), (1000, "wide")])
def test_the_page_fits_a_phone_and_a_desk(titled: Callable[..., str], width: int, shown: str) -> None:
    """Rule K5."""
    import json

    seen = json.loads(titled(framed(page(busy(), offset=0), width=width), "--window-size=1400,1000"))
    assert seen["width"] <= width
    assert {name: seen[name] for name in ("wide", "narrow")} == {"wide": 0, "narrow": 0} | {shown: 7}
    assert seen["letters"] >= 9


def test_the_page_is_dark_for_who_wants_it_dark(titled: Callable[..., str]) -> None:
    """Rule K5: one drawing is right by day and by night."""
    import json

    text = framed(page(busy(), offset=0), width=1000)
    light = json.loads(titled(text, "--window-size=1400,1000"))
    dark = json.loads(titled(text, "--window-size=1400,1000", "--blink-settings=preferredColorScheme=0"))
    assert (light["paper"], dark["paper"]) == ("rgb(246, 247, 249)", "rgb(16, 20, 27)")
    assert (light["bar"], dark["bar"]) == ("rgb(154, 92, 0)", "rgb(240, 169, 74)")
