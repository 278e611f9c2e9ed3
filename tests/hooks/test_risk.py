"""Which commands get a checkpoint before them."""

from __future__ import annotations

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
    ],
)
def test_what_may_take_more_away_than_it_says_is_risky(command: str) -> None:
    assert is_risky(command)


@pytest.mark.parametrize(
    "command",
    ["ls -la", "cat file", "pytest -q", "git status", "git log -3", "echo alarm"],
)
def test_what_only_looks_is_not(command: str) -> None:
    assert not is_risky(command)
