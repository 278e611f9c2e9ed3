"""What is typed by those who know git, restic, jj or only a keyboard is answered with ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood.cli import other_words
from lastgood.cli.main import main
from lastgood.cli.reader import read
from lastgood.cli.table import spellings
from lastgood.errors import Usage
from lastgood.view import meant_by


def hint(*words: str) -> str:
    with pytest.raises(Usage) as caught:
        read(words)
    return caught.value.hint


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("checkout -- gone.txt", "write: lastgood restore gone.txt"),
        ("checkout HEAD~1 gone.txt", "write: lastgood restore @~1 gone.txt"),
        ("reset --hard", "write: lastgood restore @"),
        ("reset --hard HEAD~2", "write: lastgood restore @~2"),
        ("commit -am fixed", "write: lastgood save fixed"),
        ("stash pop", "lastgood restore"),
        ("op log", "write: lastgood undo --list"),
        ("reflog", "lastgood undo --list"),
        ("find a.txt", "lastgood log a.txt"),
        ("grep total src", "lastgood log -S total src"),
        ("search fixed", "lastgood list fixed"),
        ("list -S fixed", "lastgood log -S fixed"),
        ("list --last 5", "lastgood list -n 5"),
        ("recover --rollback --yes", "leave it out"),
        ("recover -y", "leave it out"),
        ("versions a.txt", "lastgood log a.txt"),
        ("undelete a.txt", "lastgood restore a.txt"),
        ("undo 2", "lastgood rewind 2"),
        ("undo a.txt", "lastgood restore a.txt"),
        ("status src", "lastgood diff --stat src"),
        ("restore --latest", "lastgood restore latest"),
        ("report --plot", "lastgood report --html FILE"),
        ("dump @ a.txt", "lastgood cat REF PATH"),
        ("mount /mnt", "lastgood restore REF --to DIR"),
        ("st", "lastgood status"),
        ("rm ckpt_0123", "lastgood delete REF"),
        ("gc", "lastgood maintain"),
        ("back", "lastgood rewind"),
        ("task list", "lastgood progress"),
        ("config capture.include build", "lastgood config set capture.include VALUE"),
        ("session stop", "lastgood session end"),
        ("restore --list", "lastgood restore   ("),
        ("restore @ --keep-mine", "--merge"),
        ("diff --cached", "lastgood diff"),
        ("ls-files", "lastgood show REF --files"),
        ("go back", "lastgood restore   ("),
        ("go back to ckpt_0123", "write: lastgood restore ckpt_0123"),
        ("bring back docs", "write: lastgood restore docs"),
        ("compare a.txt", "write: lastgood diff a.txt"),
        ("files", "lastgood show REF --files"),
        ("cp", "lastgood restore REF --to DIR"),
        ("keep", "lastgood pin REF"),
        ("5f79d1d1", "lastgood restore 5f79d1d1"),
        ("dir", "lastgood list"),
        ("/?", "lastgood help"),
        ("?", "lastgood help"),
        ("-v", "lastgood --version"),
        ("ckpt_0123abcd", "lastgood restore ckpt_0123abcd"),
        ("@~1", "lastgood show @~1"),
        ("src/app.py", "lastgood restore src/app.py"),
        ("list -5", "lastgood list -n 5"),
        ("log -5", "lastgood log -n 5 PATH"),
        ("restore -2", "lastgood restore @~2"),
        ("restore --source=@~1 a.txt", "lastgood restore @~1 a.txt"),
        ("restore -f @", "--yes"),
        ("restore --hard @", "lastgood restore @"),
        ("task done T01 --step 12/15", "lastgood progress set --step 12/15"),
        ("save --phase=build it", "lastgood progress set --phase build"),
        ("log -p a.txt", "lastgood diff --previous REF PATH"),
        ("list --phase build --step 3/9", "lastgood progress set --phase build --step 3/9"),
        ("progress phase", "lastgood progress set --phase PHASE"),
        ("restore --path docs", "lastgood restore docs"),
        ("restore @ --include=docs", "lastgood restore @ docs"),
        ("restore --only docs", "a path stands alone: lastgood restore docs"),
        ("restore --branch main", "lastgood restore @ --git"),
        ("restore --deleted", "lastgood diff --stat"),
        ("restore a.txt --list", "its versions: lastgood log a.txt"),
        ("restore a.txt --previous", "write: lastgood restore @~1 a.txt"),
        ("restore --grep refund a.txt", "lastgood log -S refund a.txt"),
        ("restore a.txt -1h", "lastgood restore @{1h} a.txt"),
        ("restore --before later a.txt", "write: lastgood restore before later a.txt"),
        ("restore --undo", "lastgood undo"),
        ("undo --keep-mine", "lastgood undo --merge"),
        ("undo last two turns", "lastgood rewind 2"),
        ("undo the restore", "again for the one before: lastgood undo"),
        ("undo but keep my edits", "lastgood undo --merge"),
        ("undo list", "write: lastgood undo --list"),
        ("undo --turns 2", "lastgood rewind 2"),
        ("back two turns", "write: lastgood rewind 2"),
        ("revert 2", "write: lastgood rewind 2"),
        ("switch main", "git switch main"),
        ("turns", "lastgood rewind 2"),
        ("log a.txt def total", "lastgood log -S 'def total' a.txt"),
        ("rewind --prompts 2", "lastgood rewind 2"),
        ("restor docs", "did you mean `lastgood restore docs`?"),
        ("restore --checkpoint good docs", "the REF comes first: lastgood restore good docs"),
        ("restore docs -1", "lastgood restore @~1 docs"),
        ("list --file docs", "lastgood list docs"),
        ("workspace restore shop", "lastgood -C FOLDER restore @"),
        ("pin before the docs", "lastgood pin 'before the docs'"),
        ("name before the docs good", "lastgood name 'before the docs' good"),
    ],
)
def test_words_of_other_tools_are_answered_with_what_to_type(typed: str, ours: str) -> None:
    assert ours in hint(*typed.split())


def test_a_file_that_is_there_is_no_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README").touch()
    assert "lastgood restore README" in hint("README")
    assert hint("checkout", "README") == "write: lastgood restore README"


def test_a_word_that_is_near_none_of_ours_is_not_guessed_at() -> None:
    assert hint("zzzz") == "see all verbs: lastgood help"
    assert hint("fork") == "see all verbs: lastgood help"


def test_every_answer_names_verbs_that_there_are() -> None:
    from lastgood.cli import other_words

    said = "\n".join([*other_words._ANSWERS.values(), *other_words._OPTIONS.values()])
    named = {line.split("lastgood ")[1].split()[0] for line in said.splitlines() if "lastgood " in line}
    assert named - set(spellings()) == {"--version"}
    assert not set(other_words._ANSWERS) & set(spellings())


def test_help_on_the_verb_of_another_tool_is_help_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "stash"]) == 2
    assert "lastgood save" in capfd.readouterr().err


def test_a_message_may_be_given_as_git_takes_it() -> None:
    call = read(["save", "-m", "before the agent"])
    assert call is not None
    assert call.text("message") == "before the agent"


def test_a_host_may_be_called_as_people_call_it() -> None:
    for typed, host in (("claude", "claude-code"), ("gemini", "gemini-cli"), ("codex", "codex")):
        call = read(["install", typed])
        assert call is not None
        assert call.arguments == (host,)


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("HEAD", "@"),
        ("HEAD~2", "@~2"),
        ("HEAD^^", "@~2"),
        ("HEAD@{1}", "@~1"),
        ("@{1}", "@~1"),
        ("@^", "@~1"),
        ("latest~1", "@~1"),
        ("last", "latest"),
        ("previous", "@~1"),
        ("good", "@good"),
        ("header", None),
        ("@{x}", None),
    ],
)
def test_what_git_calls_a_commit_has_a_ref_of_ours(typed: str, ours: str | None) -> None:
    assert meant_by(typed) == ours


def test_no_option_that_a_verb_has_is_answered_as_another_tools() -> None:
    """Nobody would ever be told it."""
    for verb, option in other_words._OPTIONS:
        if verb:
            own = spellings()[verb].options
            assert option not in {f"--{one.name}" for one in own} | {f"-{one.short}" for one in own}
