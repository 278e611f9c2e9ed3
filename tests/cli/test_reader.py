""""""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.cli.reader import read
from lastgood.cli.table import all_verbs
from lastgood.documents import record
from lastgood.errors import Usage
from lastgood.paths import printable, quoted
from lastgood.workspace import Workspace
from tools.values import not_none


def refused(*words: str) -> Usage:
    with pytest.raises(Usage) as caught:
        read(words)
    return caught.value


def test_options_arguments_and_paths_are_told_apart() -> None:
    call = not_none(read(["-C", "dir", "restore", "@", "--only=files", "-n", "--", "a", "-b"]))
    assert (call.verb.name, call.arguments, call.paths) == ("restore", ("@",), ("a", "-b"))
    assert call.text("directory") == "dir"
    assert call.texts("only") == ("files",)
    assert call.has("dry-run")


@pytest.mark.parametrize(
    ("spelled", "verb"),
    [("create", "save"), ("ls", "list"), ("rollback", "restore"), ("resume", "recover")],
)
def test_other_spellings_mean_the_same_verb(spelled: str, verb: str) -> None:
    call = not_none(read([spelled]))
    assert call.verb.name == verb


def test_the_word_checkpoint_may_stand_before_a_verb() -> None:
    call = not_none(read(["checkpoint", "list", "--limit", "20"]))
    assert (call.verb.name, call.text("limit")) == ("list", "20")


def test_options_of_every_verb_may_stand_on_either_side_of_it() -> None:
    for words in (["--json", "status"], ["status", "--json"], ["status", "-q", "--json"]):
        call = not_none(read(words))
        assert call.has("json")


def test_short_options_take_their_value_attached_or_apart() -> None:
    for words in (["list", "-n5"], ["list", "-n", "5"], ["list", "--limit=5"]):
        call = not_none(read(words))
        assert call.text("limit") == "5"


def test_a_message_that_begins_with_a_dash_comes_after_two() -> None:
    call = not_none(read(["save", "--", "-x"]))
    assert call.arguments == ("-x",)


def test_an_unknown_verb_is_answered_with_the_nearest() -> None:
    assert refused("svae").hint == "did you mean `lastgood save`?"
    assert "lastgood help" in refused("frobnicate").hint


@pytest.mark.parametrize("verb", ["ui", "push"])
def test_verbs_that_do_not_exist_yet_are_unknown(verb: str) -> None:
    assert refused(verb).message == f"unknown verb {verb!r}"


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    assert refused("restore", "@", "--dry-rnu").hint == "did you mean --dry-run?"


def test_an_option_before_its_verb_is_answered_with_the_right_order() -> None:
    assert refused("--limit", "3", "list").hint == "write for example: lastgood list --limit"


@pytest.mark.parametrize(
    "words",
    [
        ("show", "-x"),
        ("delete", "--", "-x"),
        ("delete", "@", "--force"),
        ("diff", "--previous=-x"),
        ("pin", "--good"),
    ],
)
def test_a_ref_is_never_taken_as_an_option_nor_an_option_as_a_ref(words: tuple[str, ...]) -> None:
    assert "a REF never begins with '-'" in refused(*words).message


def test_another_scope_is_answered_with_those_that_there_are_and_how_a_path_is_given() -> None:
    """T11."""
    error = refused("restore", "@", "--only", "metrics")
    assert (error.message, error.hint) == (
        "--only cannot be 'metrics'",
        "it can be: files, conversation, progress, git\na path stands alone: lastgood restore @ metrics",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pin",), "`pin` needs REF"),
        (("name", "@"), "`name` needs NAME"),
        (("delete",), "`delete` needs REF"),
        (("completion",), "`completion` needs SHELL"),
        (("completion", "tcsh"), "SHELL cannot be 'tcsh'"),
        (("list", "--limit"), "--limit needs a value: --limit N"),
        (("list", "--limit", "--good"), "--limit needs a value: --limit N"),
        (("save", "--pin=yes"), "--pin takes no value"),
        (("save", "two", "words"), "`save` does not know what to do with 'words'"),
        (("restore", "@", ""), "a path is empty"),
        (("rewind", "2", ""), "a path is empty"),
        (("restore", "@", "--"), "no path follows --"),
        (("restore", "@", "--", ""), "a path is empty"),
        (("restore", "@", "--to", ""), "--to has an empty value"),
        (("-C", "", "save"), "-C has an empty value"),
        (("restore", "@", "--plan="), "--plan has an empty value"),
        (("list", "--limit", "3", "--limit", "4"), "--limit is given twice, with different values"),
        (("save", "--kind", "lunch"), "--kind cannot be 'lunch'"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(words: tuple[str, ...], message: str) -> None:
    assert refused(*words).message == message


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("session_start", "session-start"),
        ("task_complete", "task"),
        ("sprint_complete", "sprint"),
        ("error_recovery", "error"),
    ],
)
def test_a_kind_may_be_called_as_the_guide_of_another_system_does(theirs: str, ours: str) -> None:
    for verb in ("list", "save"):
        assert not_none(read([verb, "--kind", theirs])).text("kind") == ours


def test_help_is_understood_although_the_rest_is_missing() -> None:
    call = not_none(read(["restore", "--help"]))
    assert call.help
    call = not_none(read(["show", "-h"]))
    assert call.help


def test_a_command_may_stand_in_the_place_of_an_argument() -> None:
    call = not_none(read(["run", "--check", "true", "--", "make", "-q", "--json"]))
    assert (call.arguments, call.paths, call.has("json")) == ((), ("make", "-q", "--json"), False)
    call = not_none(read(["run", "plan.yaml"]))
    assert (call.arguments, call.paths) == (("plan.yaml",), None)


@pytest.mark.parametrize("words", [("ls", "-la"), ("make", "test"), ("pytest", "--maxfail=1")])
def test_a_command_without_the_two_dashes_is_answered_with_them(words: tuple[str, ...]) -> None:
    assert "a command comes after --: lastgood run -- COMMAND..." in refused("run", *words).hint


def test_every_example_of_the_help_can_be_read() -> None:
    import shlex

    for verb in all_verbs():
        assert verb.examples, verb.name
        for command, _ in verb.examples:
            words = shlex.split(command.removeprefix('eval "$(').removesuffix(')"'))
            words = words[: words.index(">")] if ">" in words else words
            assert words[0] == "lastgood"
            assert read(words[1:]) is not None


def test_no_two_verbs_or_options_share_a_spelling() -> None:
    names = [word for verb in all_verbs() for word in (verb.name, *verb.spellings)]
    assert len(names) == len(set(names))
    for verb in all_verbs():
        letters = [option.short for option in verb.options if option.short] + ["C", "q", "h"]
        assert len(letters) == len(set(letters)), verb.name


# A command that is shown can be typed, whatever the names in it are, and does nothing to the terminal.


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("plan.yaml", "plan.yaml"),
        ("a plan's.yaml", "'a plan'\\''s.yaml'"),
        ("~", "'~'"),
        ("a=~b", "'a=~b'"),
        ("=ls", "'=ls'"),
        ("{a,b}", "'{a,b}'"),
        ("{1..3}", "'{1..3}'"),
        ("@~1", "@~1"),
        ("@{2h}", "@{2h}"),
        ("", "''"),
        ("übung", "übung"),
        ("a\n\x1b[31m'\\\udcff", "$'a\\x0a\\x1b[31m\\'\\\\\\xff'"),
    ],
)
def test_a_word_is_quoted_where_a_shell_would_read_it_otherwise(word: str, shown: str) -> None:
    assert quoted(word) == shown


@settings(max_examples=25)
@given(st.lists(st.binary(max_size=12).filter(lambda word: b"\0" not in word), min_size=1, max_size=20))
def test_a_shell_reads_back_every_word_as_it_was(words: list[bytes]) -> None:
    texts = [quoted(os.fsdecode(word)) for word in words]
    assert all(printable(text) == text for text in texts)
    script = b"printf '%s\\0' " + os.fsencode(" ".join(texts))
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == words


# What the JSON documents say, the values of the Python API answer as attributes.


# What sessions will fill; the documents hold null for them.
LATER = {
    "session",
    "position",
    "progress",
    "conversation",
    "tasks",
    "unknown_effects",
    "live_processes",
    "irreversible",
}


def _answers(document: dict[str, object], value: object) -> None:
    for field in set(document) - LATER - {"schema"}:
        # `from` is a word of the language.
        assert hasattr(value, "from_" if field == "from" else field), field


@pytest.fixture
def saved(workspace: Workspace) -> Workspace:
    with open(workspace.path + "/a.txt", "w", encoding="utf-8") as file:
        file.write("one\n")
    workspace.save("first", name="one", metadata={"k": "v"})
    with open(workspace.path + "/a.txt", "w", encoding="utf-8") as file:
        file.write("two\n")
    return workspace


def test_a_checkpoint_answers_every_field_of_its_record(saved: Workspace) -> None:
    checkpoint = saved.get("one")
    _answers(record(checkpoint), checkpoint)
    assert (checkpoint.files, checkpoint.bytes, checkpoint.ignored) == (1, 4, 0)
    assert (checkpoint.workspace, checkpoint.previous, checkpoint.session) == (saved.path, None, None)
    assert (checkpoint.changes.added, checkpoint.metadata) == (1, {"k": "v"})
    assert (checkpoint.actor.type, checkpoint.git, len(checkpoint.tree)) == ("unknown", None, 40)
    assert checkpoint.metrics.stored_bytes > 0


def test_the_moment_of_a_checkpoint_is_aware_of_its_zone(saved: Workspace) -> None:
    made = saved.get("one").created_at
    assert made.tzinfo is UTC
    assert abs((datetime.now(UTC) - made).total_seconds()) < 600
    said = record(saved.get("one"))
    assert made.isoformat(timespec="milliseconds").replace("+00:00", "Z") == said["created_at"]


def test_reports_answer_every_field_of_their_documents(saved: Workspace) -> None:
    plan = saved.plan_restore("one")
    diff = saved.diff()
    _answers(record(diff), diff)
    _answers(record(diff.files[0]), diff.files[0])
    status = saved.status()
    _answers(record(status), status)
    restored = saved.apply(plan)
    _answers(record(restored), restored)
    assert restored.plan == plan.id
    assert restored.counts["write"] == len(restored.files) == 1
    undone = saved.undo()
    _answers(record(undone), undone)
    assert [one.path for one in undone.files] == [b"a.txt"]
    save = saved.save("second")
    _answers(record(save), save)
    recovered = saved.recover()
    _answers(record(recovered), recovered)
    verified = saved.verify()
    _answers(record(verified), verified)
    deleted = saved.delete("one")
    _answers(record(deleted), deleted)


def test_an_option_that_lifts_a_refusal_is_never_proposed() -> None:
    assert "allow-root" not in refused("restore", "@", "--all").hint


def test_undo_takes_no_number_and_says_so() -> None:
    assert "one at a time; what there is: lastgood undo --list" in refused("undo", "2").hint
