"""The feature list and the progress file of a project, as autonomous coding agents keep them."""

from __future__ import annotations

import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lastgood.model.progress import Features

FEATURE_LISTS = ("feature_list.json", ".claude/feature_list.json")
PROGRESS_FILES = (
    "progress.md",
    "claude-progress.txt",
    "claude-progress.md",
    ".claude/progress.md",
    ".claude/progress.json",
)
_COMPLETE = frozenset({"complete", "completed", "done", "passed", "passing", "verified"})
_CURRENT = frozenset({"active", "current", "in-progress", "in_progress", "in progress", "started"})
_LARGEST = 8 << 20


def feature_state(root: str, lists: Sequence[str], known: Features) -> dict[str, object]:
    """Return the feature being built, those complete, and the path of the list.

    The list is read as it lies in the project; where there is none that can be read, ``known`` counts.
    """
    for path in lists:
        features = _read(os.path.join(root, path))
        if features is not None:
            return {**_standing(features), "snapshot_path": path}
    return {"current": known.current, "completed": list(known.completed), "snapshot_path": None}


def _read(path: str) -> list[Mapping[str, object]] | None:
    """Return the features of a list; None if there is none, or it is no such list."""
    try:
        given = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):
        return None
    found = given.get("features") if isinstance(given, dict) else given
    if isinstance(found, dict):
        found = [{"id": key, **(one if isinstance(one, dict) else {})} for key, one in found.items()]
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else None


def _content(path: str) -> bytes:
    """Return what a list holds; none is waited for, as the end of a pipe would be."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(_LARGEST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""


def _standing(features: Sequence[Mapping[str, object]]) -> dict[str, object]:
    named = list(_named(features))
    open_ones = [(id, one) for id, one in named if not _is_complete(one)]
    under_way = [id for id, one in open_ones if str(one.get("status", "")).lower() in _CURRENT]
    return {
        "current": next(iter((*under_way, *(id for id, _ in open_ones))), None),
        "completed": [id for id, one in named if _is_complete(one)],
    }


def _named(features: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, Mapping[str, object]]]:
    for place, one in enumerate(features, start=1):
        given = next((one[key] for key in ("id", "feature_id", "name", "title") if one.get(key)), place)
        yield str(given), one


def _is_complete(feature: Mapping[str, object]) -> bool:
    told = feature.get("passes", feature.get("completed", feature.get("done")))
    return told is True or str(feature.get("status", "")).lower() in _COMPLETE
