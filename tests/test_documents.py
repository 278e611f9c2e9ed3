"""What the documents say is there, complete, and true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lastgood import errors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOUSE_FILES = (
    "README.md",
    "LICENSE",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "AGENTS.md",
    "GLOSSARY.md",
    "ARCHITECTURE.md",
    "justfile",
    "CHANGELOG.md",
    "docs/performance.md",
    "docs/testing.md",
    "docs/errors.md",
)


def documents() -> list[str]:
    found = [os.path.join(ROOT, name) for name in os.listdir(ROOT) if name.endswith(".md")]
    for folder in ("docs", "changes"):
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.join(place, name) for name in names if name.endswith(".md")]
    return sorted(found)


def read(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def with_examples() -> list[str]:
    """Return the documents whose examples scripts/transcript runs."""
    names = ["README.md", *(f"docs/{name}" for name in os.listdir(os.path.join(ROOT, "docs")))]
    marked = re.compile("^<!-- (transcript|runs)", re.MULTILINE)
    return sorted(name for name in names if name.endswith(".md") and marked.search(read(name)))


def anchors(text: str) -> set[str]:
    """Return the anchors of headings, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(document: str) -> Iterator[tuple[str, str]]:
    """Yield file and anchor of each relative link."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", read(document), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield (
                os.path.normpath(os.path.join(os.path.dirname(document), file)) if file else document,
                anchor,
            )


@pytest.mark.parametrize("document", documents(), ids=lambda path: os.path.relpath(path, ROOT))
def test_every_link_leads_somewhere(document: str) -> None:
    for file, anchor in links(document):
        assert os.path.exists(file), file
        assert not anchor or anchor in anchors(read(file)), (file, anchor)


@pytest.mark.parametrize("name", HOUSE_FILES)
def test_the_house_is_complete(name: str) -> None:
    assert read(name).strip()


def test_the_architecture_fits_a_sitting() -> None:
    assert read("ARCHITECTURE.md").count("\n") < 150


def test_every_error_code_is_documented() -> None:
    text = read("docs/errors.md")
    for error in errors.LastgoodError.__subclasses__():
        assert re.search(rf"^\| `{error.code}` \|.*\| {error.exit_code} \|", text, re.MULTILINE), error


def program(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, os.path.join(ROOT, "scripts", words[0]), *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_what_measures_the_house_explains_itself() -> None:
    done = program("house", "--help")
    assert (done.returncode, done.stdout[:13]) == (0, "usage: house ")


@pytest.mark.parametrize("words", [["--forward"], ["nowhere"], [".", "."]])
def test_wrong_words_to_what_measures_the_house_end_with_its_usage(words: list[str]) -> None:
    done = program("house", *words)
    assert (done.returncode, done.stdout[:13]) == (2, "usage: house ")


def test_the_page_of_the_command_line_says_what_help_says() -> None:
    done = program("reference", "--check")
    assert done.returncode == 0, done.stdout


def test_every_decision_has_its_number_and_its_parts() -> None:
    folder = os.path.join(ROOT, "docs", "decisions")
    names = sorted(name for name in os.listdir(folder) if name != "README.md")
    # Some may be missing: changes that are made at the same time each take a number beforehand.
    assert len({int(name[:3]) for name in names}) == len(names)
    for name in names:
        text = read(os.path.join(folder, name))
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
            "Forces",
            "Choice",
            "Alternatives",
            "Consequences",
        ], name


def test_the_changelog_begins_with_what_is_unreleased_and_sorts_it_by_kind() -> None:
    text = read("CHANGELOG.md")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == "Unreleased"
    kinds = re.findall(r"^### (.+)$", text, re.MULTILINE)
    assert kinds == ["Added", "Changed", "Fixed", "Security"][: len(kinds)]


@pytest.mark.parametrize("document", with_examples())
def test_the_examples_of_the_documents_do_what_they_say(document: str) -> None:
    done = program("transcript", "--check", os.path.join(ROOT, document))
    assert done.returncode == 0, done.stdout
