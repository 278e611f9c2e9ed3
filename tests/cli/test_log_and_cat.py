"""log and cat at the command line: when a file changed, and its bytes as they were."""

from __future__ import annotations

import base64

from tools.command import Command


def save(lastgood: Command, content: str | bytes, message: str) -> None:
    raw = content.encode() if isinstance(content, str) else content
    (lastgood.project / "src").mkdir(exist_ok=True)
    (lastgood.project / "src" / "app.py").write_bytes(raw)
    lastgood("save", message)


def test_the_checkpoints_of_a_file_are_listed_with_size_and_lines(lastgood: Command) -> None:
    save(lastgood, "one\n", "first")
    save(lastgood, "one\ntwo\n", "second")
    header, second, first = lastgood("log", "src/app.py").out.splitlines()
    assert header.split() == ["ID", "Name", "Date", "Kind", "Change", "Size", "Lines"]
    assert [second.split()[1], *second.split()[-5:]] == ["second", "modified", "8", "B", "+1", "-0"]
    assert [first.split()[1], *first.split()[-5:]] == ["first", "added", "4", "B", "+1", "-0"]


def test_a_log_is_one_document(lastgood: Command) -> None:
    save(lastgood, "one\n", "first")
    document = lastgood("log", "src/app.py", "--json").json
    (change,) = document["changes"]
    assert (document["schema"], document["path"]) == ("lastgood.log/1", "src/app.py")
    assert set(change) == {
        "checkpoint",
        "status",
        "size",
        "files",
        "additions",
        "deletions",
        "binary",
        "occurrences",
    }
    assert (change["status"], change["size"], change["additions"]) == ("added", 4, 1)
    assert change["checkpoint"]["message"] == "first"


def test_a_path_means_what_it_means_in_the_folder_where_it_is_typed(lastgood: Command) -> None:
    save(lastgood, "one\n", "first")
    assert "first" in lastgood("log", "app.py", cwd=lastgood.project / "src").out
    assert lastgood("cat", "@", "app.py", cwd=lastgood.project / "src").out == "one\n"


def test_a_path_that_was_never_held_ends_as_not_found(lastgood: Command) -> None:
    save(lastgood, "one\n", "first")
    error = lastgood("log", "src/ap.py", "--json", expect=10).json["error"]
    assert (error["code"], error["hint"]) == ("not-found", "did you mean src/app.py?")


def test_a_file_is_printed_byte_for_byte(lastgood: Command) -> None:
    content = bytes(range(256)) * 3
    save(lastgood, content, "first")
    save(lastgood, "other", "second")
    assert lastgood("cat", "@~1", "src/app.py").out_bytes == content


def test_on_a_terminal_control_characters_of_a_file_are_escaped(lastgood: Command) -> None:
    save(lastgood, "a\x1b[31mred\n", "first")
    assert "\x1b[31m" not in lastgood.terminal("cat", "@", "src/app.py").out


def test_the_content_of_a_file_is_in_the_document(lastgood: Command) -> None:
    save(lastgood, "grün\n", "first")
    document = lastgood("cat", "@", "src/app.py", "--json").json
    assert (document["schema"], document["path"], document["size"]) == ("lastgood.cat/1", "src/app.py", 6)
    assert document["content"] == "grün\n"
    save(lastgood, b"\xff", "second")
    raw = lastgood("cat", "@", "src/app.py", "--json").json["content"]
    assert base64.b64decode(raw["bytes"]) == b"\xff"


def test_a_folder_has_no_bytes_to_print(lastgood: Command) -> None:
    save(lastgood, "one\n", "first")
    error = lastgood("cat", "@", "src", "--json", expect=10).json["error"]
    assert error["code"] == "not-found"


def secretive(lastgood: Command) -> None:
    (lastgood.project / ".gitignore").write_text(".env\n")
    (lastgood.project / ".env").write_text("KEY=first\n")
    save(lastgood, "one\n", "first")
    (lastgood.project / ".env").write_text("KEY=second\n")


def test_a_private_file_is_printed_only_if_asked_for(lastgood: Command) -> None:
    """S5."""
    secretive(lastgood)
    refused = lastgood("cat", "@", ".env", expect=15)
    assert "KEY" not in refused.out + refused.err
    assert " .env --private" in refused.err
    assert lastgood("cat", "@", ".env", "--private").out == "KEY=first\n"


def test_a_comparison_names_private_files_and_says_how_to_see_what_changed(lastgood: Command) -> None:
    """S5."""
    secretive(lastgood)
    told = lastgood("diff")
    assert told.out == "# a/.env and b/.env differ: private\n"
    assert "1 private file named, not shown; to see what changed: --private" in told.err
    assert lastgood("diff", "--stat").out.startswith(" .env | private, modified\n")
    assert "KEY" not in lastgood("diff", "--json").out
    assert "+KEY=second" in lastgood("diff", "--private").out


def test_every_other_look_at_a_private_file_names_it_and_shows_nothing_of_it(lastgood: Command) -> None:
    """S5."""
    secretive(lastgood)
    lastgood("save", "second")
    for words in (
        ("show", "@", "--files"),
        ("show", "@", "--stat"),
        ("log", ".env"),
        ("restore", "@~1", "--dry-run"),
    ):
        told = lastgood(*words)
        assert "KEY" not in told.out + told.err
        assert ".env" in told.out or words[0] == "log"


def uncoloured(lastgood: Command, *words: str) -> list[str]:
    lastgood.environment |= {"NO_COLOR": "1"}
    return lastgood.terminal(*words).out.splitlines()


def test_where_a_text_went_the_last_with_it_is_named(lastgood: Command) -> None:
    save(lastgood, "def total(): pass\n", "with")
    save(lastgood, "pass\n", "without")
    holder = lastgood("list", "with", "--json").json["checkpoints"][-1]["short_id"]
    header, gone, came, *said = uncoloured(lastgood, "log", "-S", "def total(")
    assert header.split() == ["ID", "Name", "Date", "Kind", "Times", "Path"]
    assert gone.split()[-4:] == ["1", "->", "0", "src/app.py"]
    assert came.split()[-4:] == ["0", "->", "1", "src/app.py"]
    assert said == [
        f"the last with it is {holder} (with):",
        f"  lastgood restore {holder} src/app.py",
    ]


def test_a_log_without_path_and_text_lists_all_checkpoints_and_names_both_forms(lastgood: Command) -> None:
    save(lastgood, "pass\n", "the first")
    assert lastgood("log", "--json").json == lastgood("list", "--json").json
    *rows, of_path, of_text = uncoloured(lastgood, "log")
    assert "the first" in rows[1]
    assert of_path == "when a file changed: lastgood log PATH"
    assert of_text == "when a text came or went: lastgood log -S TEXT"
