"""Which commands may take away more than they say, so that a checkpoint is made before them.

One that is taken for risky and is not costs a look at the workspace.
"""

from __future__ import annotations

import re

_GIT = (
    "reset|clean|restore|checkout|switch|stash|rebase|merge|pull|revert|cherry-pick|am|apply|bisect|worktree"
    "|submodule|filter-branch|filter-repo|push|branch|gc|prune|rm|mv"
)
_RISKY = (
    r"(?:^|[\s;&|(`$])(?:rm|rmdir|unlink|shred|truncate|dd|mkfs[.\w]*|mv|rsync|tar|unzip|patch)\s",
    rf"\bgit\b[^;&|]*\s(?:{_GIT})\b",
    r"\bfind\b.*\s-(?:delete|exec|execdir)\b",
    r"\bxargs\b",
    r"\b(?:sed|perl)\b[^;&|]*\s-[a-zA-Z]*i",
    r"\b(?:make|ninja|npm|pnpm|yarn|cargo|gradle|mvn|bazel)\b[^;&|]*\b(?:clean|prune|ci|distclean)\b",
    r"\b(?:migrate|migration|migrations|alembic|flyway|liquibase|prisma|db:[a-z:]+)\b",
    r"\b(?:drop|truncate)\s+(?:table|database|schema|index|view)\b|\bdelete\s+from\b",
    r"\b(?:dropdb|pg_restore|redis-cli|mongorestore)\b",
    r"\b(?:terraform|pulumi|kubectl|helm)\b[^;&|]*\b(?:apply|destroy|delete|uninstall|up)\b",
    r"\bdocker\b[^;&|]*\b(?:prune|rm|down)\b",
)
_ANY = re.compile("|".join(f"(?:{one})" for one in _RISKY), re.IGNORECASE | re.DOTALL)


def is_risky(command: str) -> bool:
    """Tell whether a shell command may overwrite, delete or move more than an edit does."""
    return _ANY.search(command) is not None
