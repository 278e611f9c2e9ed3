"""Gives a failed test that depends on chance or load its second run, and says so at the end.

Such a test bears `@pytest.mark.chance("what its outcome depends on")`. With `-p rerunfailures
--rerun-chance`, as in CI and `./test`, it is run once more when it fails; no other test is run twice. Each
that needed its second run is named at the end, with what the first one said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

OPTION = "--rerun-chance"
HEADING = "failed, and passed or failed again when run once more"
MEANING = """\
Each of these is a fault of the product or of the test, however rare. Find it, and report it with what the
first run said (above)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that grants second runs."""
    parser.addoption(
        OPTION, action="store_true", help="run a failed test marked chance once more, and say so at the end"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse the option where nothing could carry it out, and describe the marker."""
    config.addinivalue_line(
        "markers", "chance(source): depends on chance or load, and on what; CI runs it once more if it fails"
    )
    if config.getoption(OPTION) and not config.pluginmanager.hasplugin("rerunfailures"):
        raise pytest.UsageError(f"{OPTION} needs the plug-in that runs tests again: -p rerunfailures")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have the marked tests tell their source of chance, and run once more if that is wanted."""
    for item in items:
        if mark := item.get_closest_marker("chance"):
            item.user_properties.append(("chance", source_of(mark, item.nodeid)))
            if config.getoption(OPTION):
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Wait until the controller knows of the second run: the test may take its worker down at once.

    The plug-in's worker sends it and waits for no answer. On the same connection, the answer to a question
    shows that what was sent before it has been heard.
    """
    if item.get_closest_marker("chance") and item.config.getoption(OPTION) and _is_worker(item.config):
        item.config.failures_db.get_test_reruns(item.nodeid)  # type: ignore[attr-defined]


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def source_of(mark: pytest.Mark, test: str) -> str:
    """Return what a mark says; a mark that names no source of chance is refused."""
    if len(mark.args) == 1 and not mark.kwargs and isinstance(mark.args[0], str) and mark.args[0].strip():
        return mark.args[0]
    raise pytest.UsageError(f"{test}: chance needs one text, which names its source")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Name the tests that needed their second run, after what the first one said."""
    first = terminalreporter.stats.get("rerun", [])
    if not first:
        return
    for report in first:
        terminalreporter.write_sep("_", f"first run of {report.nodeid}")
        report.toterminal(terminalreporter._tw)
    again = {report.nodeid for report in _failed(terminalreporter)}
    terminalreporter.write_sep("=", HEADING, red=True, bold=True)
    terminalreporter.write_line(MEANING)
    for report in first:
        became = "failed again" if report.nodeid in again else "passed the second time"
        source = dict(report.user_properties).get("chance", "not marked")
        terminalreporter.write_line(f"{report.nodeid}: {became} ({source})", red=True)


def _failed(reporter: TerminalReporter) -> Iterable[pytest.TestReport]:
    return [*reporter.stats.get("failed", []), *reporter.stats.get("error", [])]
