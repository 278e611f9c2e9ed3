"""Which commands may take away more than they say, so that a checkpoint is made before them.

One that is taken for risky and is not costs a look at the workspace. What is asked of a command, which an
agent may have made long, takes time in proportion to its length: nothing looks further on from each place.
"""

from __future__ import annotations

import re

_GIT = (
    "reset|clean|restore|checkout|switch|stash|rebase|merge|pull|revert|cherry-pick|am|apply|bisect|worktree"
    "|submodule|filter-branch|filter-repo|push|branch|gc|prune|rm|mv|read-tree|checkout-index|update-ref"
)
_PROGRAMS = (
    r"rm|rmdir|unlink|shred|srm|truncate|dd|mkfs[.\w]*|mv|cp|ln|rsync|rclone|tar|bsdtar|unzip|7z|cpio"
    "|patch|rename|tee|sponge|gunzip|bunzip2|unxz|rimraf|trash|chmod|chown"
)
_POWERSHELL = (
    "(?:remove|clear|move|rename|set|copy)-(?:item|content|itemproperty)|out-file|expand-archive|del|erase|rd"
    "|ri|robocopy|xcopy"
)
# At the beginning of a word, wherever its program lies and whatever quotes are before it.
_BEGIN = r"(?:^|(?<![\w.-]))"

_WORDS = (
    rf"{_BEGIN}(?:{_PROGRAMS}|{_POWERSHELL})(?=\s|$)",
    r"\bxargs\b",
    r"\b(?:rmtree|rmsync|unlinksync|remove_dir_all|os\.(?:remove|unlink|removedirs|rename|replace))\b",
    r"\.unlink\(|\.rm\(",
    r"\b(?:migrate|migration|migrations|alembic|flyway|liquibase|prisma|db:[a-z])",
    r"\b(?:drop|truncate)\s+(?:table|database|schema|index|view)\b|\bdelete\s+from\b",
    r"\b(?:dropdb|pg_restore|redis-cli|mongorestore)\b",
)
# A word, and one that makes it risky somewhere after it in the same part of the command line.
_PAIRS = (
    (r"\bgit\b", rf"\s(?:{_GIT})\b"),
    (r"\b(?:sed|perl|ruby|g?awk)\b", r"\s(?:-[a-z]*i|--in-place)"),
    (
        r"\b(?:make|ninja|npm|pnpm|yarn|cargo|gradle|gradlew|mvn|bazel|dotnet|go)\b",
        r"\b(?:clean|prune|ci|distclean)\b",
    ),
    (
        r"\b(?:terraform|pulumi|kubectl|helm)\b",
        r"\b(?:apply|destroy|delete|uninstall|up|rollback|replace|drain)\b",
    ),
    (r"\b(?:docker|podman)\b", r"\b(?:prune|rm|rmi|down|kill)\b"),
    (r"\b(?:hg|svn|jj)\b", r"\s(?:update|up|revert|purge|strip|restore|abandon|undo|cleanup|switch)\b"),
)
_APART = re.compile(r"[;&|]")
_FIND, _FOUND = (
    re.compile(r"\bfd?(?:ind)?\b"),
    re.compile(r"\s(?:-(?:delete|exec|execdir|ok|okdir|x)|--exec)\b"),
)


def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_ANY = _any(_WORDS)
_FIRSTS = _any(tuple(first for first, _then in _PAIRS))
_THENS = tuple((re.compile(first, re.IGNORECASE), re.compile(then, re.IGNORECASE)) for first, then in _PAIRS)


def is_risky(command: str) -> bool:
    """Tell whether a shell command may overwrite, delete or move more than an edit does."""
    if _ANY.search(command) or _follows(command, _FIND, _FOUND):
        return True
    return any(
        _follows(part, first, then)
        for part in _APART.split(command)
        if _FIRSTS.search(part)
        for first, then in _THENS
    )


def _follows(text: str, first: re.Pattern[str], then: re.Pattern[str]) -> bool:
    """Tell whether something of one pattern has something of another after it."""
    found = first.search(text)
    return found is not None and then.search(text, found.end()) is not None
