"""What rules leave out of checkpoints: it does not come back, and how it is held from now on (rule S5)."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from lastgood.cli.wording import path_text
from lastgood.errors import LastgoodError
from lastgood.paths import printable, quoted, to_text
from lastgood.settings import BUILT_IN_EXCLUDES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.cli.grammar import Call
    from lastgood.model.report import RestoreReport

_SHOWN = 10
# So many paths are named in the command that has them held.
_TYPED = 3
# What means something else in a pattern, or in a list of them.
_SPECIAL = frozenset("*?[]\\!#, ")
_IGNORED = "git is told to ignore"
_LEFT_OUT = "git or lastgood is told to ignore"
_INCLUDE = "capture.include"


def left_out_lines(report: RestoreReport, call: Call, *, root: str, asks: bool = False) -> list[str]:
    """Return which ignored paths a restore cannot bring back and why; unless it ``asks``, what to do then."""
    paths = [one.path for one in report.not_held if one.reason == "ignored" and not one.changed]
    unnamed = report.not_held_unnamed
    made = [path for path in paths if _is_made_anew(path)]
    others = [path for path in paths if path not in made]
    lines = []
    if made:
        why = f"tools make {_them(made)} anew, and no checkpoint has {_them(made)}"
        lines.append(f"{_named(made)} {_not_back(made)}: {why}")
    if others:
        why = f"{why_ignored(root)} {_them(others)}, so no checkpoint has {_them(others)}"
        lines.append(_not_back_with(others, unnamed, all_gone=report.folder_made) + why)
    if others and not asks:
        few = len(others) <= _TYPED and not unnamed
        named = _named(others) if few else "such"
        typed = holding([to_text(one) for one in others] if few else [], call, root=root)
        lines.append(f"to have {named} held from now on: {typed}")
    return lines


def why_ignored(root: str) -> str:
    """Return who is told to ignore what a project's checkpoints do not have, as far as its files tell."""
    own = os.path.lexists(f"{root}/.lastgoodignore") or "capture.exclude" in _said(root)
    return _LEFT_OUT if own else _IGNORED


def holding(paths: Sequence[str], call: Call, *, root: str) -> str:
    """Return the command by which a project has paths held, beside what its file names already.

    Without paths, or where one would be read as a pattern, it says where they belong.
    """
    plain = bool(paths) and all(one.isprintable() and not set(one) & _SPECIAL for one in paths)
    known = _said(root).get(_INCLUDE, ())
    before = [str(one) for one in known] if isinstance(known, list | tuple) else []
    value = ",".join(dict.fromkeys((*before, *(paths if plain else ("PATTERN",)))))
    return call.command(f"config set {_INCLUDE} {quoted(printable(value))} --project")


def _said(root: str) -> Mapping[str, object]:
    """Return what the project's own file says; nothing where it cannot be read."""
    from lastgood.configuration.edit import project_place, read_text

    try:
        place = project_place(root)
        return place.said(read_text(place.path))
    except LastgoodError:
        return {}


def _is_made_anew(path: bytes) -> bool:
    name = to_text(path.rpartition(b"/")[2])
    return any(fnmatchcase(name, pattern) for pattern in BUILT_IN_EXCLUDES)


def _not_back_with(paths: Sequence[bytes], unnamed: int, *, all_gone: bool) -> str:
    """Return that paths do not come back, and of how many more that is so, as far as anybody knows."""
    beyond = max(0, len(paths) - _SHOWN) + (unnamed if all_gone else 0)
    if not unnamed or all_gone:
        return f"{_named(paths, more=beyond)} {_not_back(paths)}: "
    if beyond:
        return f"{_named(paths[:_SHOWN])} and at least {beyond:,} more do not come back: "
    return f"{_named(paths)} {_not_back(paths)}, nor perhaps {unnamed:,} that are not named: "


def _named(paths: Sequence[bytes], *, more: int | None = None) -> str:
    beyond = max(0, len(paths) - _SHOWN) if more is None else more
    return ", ".join(path_text(path) for path in paths[:_SHOWN]) + (f" and {beyond:,} more" if beyond else "")


def _not_back(paths: Sequence[bytes]) -> str:
    return "does not come back" if len(paths) == 1 else "do not come back"


def _them(paths: Sequence[bytes]) -> str:
    return "it" if len(paths) == 1 else "them"
