from __future__ import annotations

import pytest

from lastgood.cli.reader import read
from lastgood.cli.table import all_verbs
from lastgood.errors import Usage


def refused(*words: str) -> Usage:
    with pytest.raises(Usage) as caught:
        read(words)
    return caught.value


def test_options_arguments_and_paths_are_told_apart() -> None:
    call = read(["-C", "dir", "restore", "@", "--only=files", "-n", "--", "a", "-b"])
    assert call is not None
    assert (call.verb.name, call.arguments, call.paths) == ("restore", ("@",), ("a", "-b"))
    assert call.text("directory") == "dir"
    assert call.texts("only") == ("files",)
    assert call.has("dry-run")


@pytest.mark.parametrize(
    ("spelled", "verb"),
    [("create", "save"), ("ls", "list"), ("rollback", "restore"), ("resume", "recover")],
)
def test_other_spellings_mean_the_same_verb(spelled: str, verb: str) -> None:
    call = read([spelled])
    assert call is not None
    assert call.verb.name == verb


def test_the_word_checkpoint_may_stand_before_a_verb() -> None:
    call = read(["checkpoint", "list", "--limit", "20"])
    assert call is not None
    assert (call.verb.name, call.text("limit")) == ("list", "20")


def test_options_of_every_verb_may_stand_on_either_side_of_it() -> None:
    for words in (["--json", "status"], ["status", "--json"], ["status", "-q", "--json"]):
        call = read(words)
        assert call is not None
        assert call.has("json")


def test_short_options_take_their_value_attached_or_apart() -> None:
    for words in (["list", "-n5"], ["list", "-n", "5"], ["list", "--limit=5"]):
        call = read(words)
        assert call is not None
        assert call.text("limit") == "5"


def test_a_message_that_begins_with_a_dash_comes_after_two() -> None:
    call = read(["save", "--", "-x"])
    assert call is not None
    assert call.arguments == ("-x",)


def test_an_unknown_verb_is_answered_with_the_nearest() -> None:
    assert refused("svae").hint == "did you mean `lastgood save`?"
    assert "lastgood help" in refused("frobnicate").hint


@pytest.mark.parametrize("verb", ["watch", "hook", "mcp"])
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


def test_another_scope_is_answered_with_those_that_there_are() -> None:
    """T11."""
    error = refused("restore", "@", "--only", "metrics")
    assert (error.message, error.hint) == (
        "--only cannot be 'metrics'",
        "it can be: files, conversation, progress, git",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show",), "`show` needs REF"),
        (("name", "@"), "`name` needs NAME"),
        (("delete",), "`delete` needs REF"),
        (("completion",), "`completion` needs SHELL"),
        (("completion", "tcsh"), "SHELL cannot be 'tcsh'"),
        (("list", "--limit"), "--limit needs a value: --limit N"),
        (("list", "--limit", "--good"), "--limit needs a value: --limit N"),
        (("save", "--pin=yes"), "--pin takes no value"),
        (("save", "two", "words"), "`save` does not know what to do with 'words'"),
        (("restore", "@", "a.txt"), "`restore` does not know what to do with 'a.txt'"),
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


def test_help_is_understood_although_the_rest_is_missing() -> None:
    call = read(["restore", "--help"])
    assert call is not None
    assert call.help
    call = read(["show", "-h"])
    assert call is not None
    assert call.help


def test_a_command_may_stand_in_the_place_of_an_argument() -> None:
    call = read(["run", "--check", "true", "--", "make", "-q", "--json"])
    assert call is not None
    assert (call.arguments, call.paths, call.has("json")) == ((), ("make", "-q", "--json"), False)
    call = read(["run", "plan.yaml"])
    assert call is not None
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
