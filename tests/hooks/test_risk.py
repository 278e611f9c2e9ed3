"""Which commands get a checkpoint before them."""

from __future__ import annotations

import time

import pytest

from lastgood.hooks.risk import is_risky


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "cd src && rm *.o",
        "sudo rm x",
        "find . -name '*.pyc' -delete",
        "git reset --hard HEAD~1",
        "git clean -fdx",
        "git -C sub checkout -- .",
        "git push --force origin main",
        "ls | xargs rm",
        "sed -i s/a/b/ *.py",
        "make clean",
        "python manage.py migrate",
        "alembic downgrade -1",
        'psql -c "DROP TABLE users"',
        "sqlite3 x.db 'delete from users'",
        "terraform destroy",
        "echo a\nrm b",
        "bash -c 'rm -rf x'",
        'sh -c "rm x"',
        "/bin/rm -rf x",
        "\\rm x",
        "{rm,x} ; ls | (rm y)",
        "cp -r other/. .",
        "ls -1 | tee notes",
        "python -c 'import shutil; shutil.rmtree(\"x\")'",
        "python3 -c 'from pathlib import Path; Path(\"x\").unlink()'",
        "node -e 'fs.rmSync(\"x\")'",
        "npx rimraf dist",
        "sed --in-place s/a/b/ x",
        "perl -pi -e s/a/b/ x",
        "fd -e pyc -x cat",
        "find . -name 'a;b' -delete",
        "hg update -C",
        "jj abandon",
        "Remove-Item -Recurse -Force build",
        "Get-ChildItem *.log | Remove-Item",
        "Set-Content notes.txt ''",
        "cmd /c del x",
        "robocopy a b /MIR",
    ],
)
def test_what_may_take_more_away_than_it_says_is_risky(command: str) -> None:
    assert is_risky(command)


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat file",
        "pytest -q",
        "git status",
        "git log -3",
        "echo alarm",
        "echo digit; sort rest",
        "git diff | grep reset",
        "cargo test",
        "go build ./...",
        "Get-Content notes.txt",
        "cat docs/rm.md",
        "pip install x",
    ],
)
def test_what_only_looks_is_not(command: str) -> None:
    assert not is_risky(command)


@pytest.mark.parametrize(
    "word",
    [
        "git ",
        "sed ",
        "sed -a",
        "find ",
        "find -",
        "npm ",
        "docker ",
        "terraform ",
        "git;",
        "drop ",
        "db:;",
        " ",
    ],
)
def test_a_long_command_takes_time_in_proportion_to_its_length(word: str) -> None:
    """An agent waits for the answer, and who wrote the command may be anybody."""
    command = word * (100_000 // len(word))
    began = time.process_time()
    assert not is_risky(command)
    assert time.process_time() - began < 2
