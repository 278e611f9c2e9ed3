"""Requests and scans as plain values, to be handed from one process to another."""

from __future__ import annotations

from lastgood.adapters.scan.cache import Conditions, Details, Snapshot
from lastgood.adapters.scan.found import WorkspaceScan
from lastgood.model.checkpoint import GitState, IgnoreState, NestedRepository
from lastgood.model.scan import ScanRequest, ScanResult
from lastgood.model.settings import CaptureSettings
from lastgood.model.tree import Gap, TreeId
from lastgood.rules.ignore import UNREADABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lastgood.ports.engine import ObjectReader
    from lastgood.rules.ignore import Text

    Plain = dict[str, Any]


def plain_request(request: ScanRequest) -> Plain:
    """Return a request as plain values."""
    plain = request.as_dict()
    plain["settings"] = request.settings.as_dict()
    plain["previous"] = None if request.previous is None else request.previous.as_dict()
    return plain


def request_of(plain: Plain) -> ScanRequest:
    """Return the request that `plain_request` described."""
    previous = plain["previous"]
    fields = plain | {
        "settings": CaptureSettings(**plain["settings"]),
        "previous": None if previous is None else TreeId(**previous),
    }
    return ScanRequest(**fields)


def plain_scan(scan: WorkspaceScan) -> Plain:
    """Return a scan, with all that is needed to ask it and to keep it, as plain values."""
    conditions = scan.snapshot.conditions
    assert conditions is not None
    return {
        "result": _plain_result(scan.result),
        "conditions": conditions.as_dict(),
        "records": scan.snapshot.records,
        "name": scan.snapshot.details.name,
        "pending": scan.snapshot.details.pending,
        "rules": scan.outer_rules.as_dict(),
        "texts": {path: tuple(map(_plain_text, texts)) for path, texts in scan.fresh_texts.items()},
        "worth_keeping": scan.worth_keeping,
    }


def scan_of(plain: Plain, *, folder: bytes, objects: ObjectReader) -> WorkspaceScan:
    """Return the scan that `plain_scan` described; ``folder`` is that of the cache."""
    details = Details(folder, plain["name"])
    details.pending = plain["pending"]
    snapshot = Snapshot(Conditions(**plain["conditions"]), records=plain["records"], details=details)
    return WorkspaceScan(
        _result_of(plain["result"]),
        folder=folder,
        snapshot=snapshot,
        known={},
        listings={},
        objects=objects,
        rules=IgnoreState(**plain["rules"]),
        texts={path: (_text_of(first), _text_of(second)) for path, (first, second) in plain["texts"].items()},
        worth_keeping=plain["worth_keeping"],
    )


def _plain_result(result: ScanResult) -> Plain:
    plain = result.as_dict()
    plain["tree"] = result.tree.as_dict()
    plain["gaps"] = tuple(gap.as_dict() for gap in result.gaps)
    plain["ignore"] = result.ignore.as_dict()
    if result.git is not None:
        git = result.git.as_dict()
        plain["git"] = git | {"nested": tuple(nested.as_dict() for nested in result.git.nested)}
    return plain


def _result_of(plain: Plain) -> ScanResult:
    git = plain["git"]
    if git is not None:
        nested = tuple(NestedRepository(**one) for one in git["nested"])
        git = GitState(**(git | {"nested": nested}))
    fields = plain | {
        "tree": TreeId(**plain["tree"]),
        "gaps": tuple(Gap(**gap) for gap in plain["gaps"]),
        "ignore": IgnoreState(**plain["ignore"]),
        "git": git,
    }
    return ScanResult(**fields)


def _plain_text(text: Text) -> bytes | bool:
    """Return an ignore file's text; False if there is none, True if it is unreadable."""
    return text if isinstance(text, bytes) else text is not None


def _text_of(plain: bytes | bool) -> Text:  # noqa: FBT001 - the other half of `_plain_text`
    if isinstance(plain, bytes):
        return plain
    return UNREADABLE if plain else None
