"""What counts where a configuration file is broken: no save waits for it, nothing is pruned by guesses."""

from __future__ import annotations

from lastgood.configuration.rules import LIMITED_KINDS
from lastgood.model.checkpoint import HealthNote
from lastgood.paths import to_text
from lastgood.settings import BUILT_IN_EXCLUDES, LimitSettings, Rungs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.context import CatalogueReader
    from lastgood.errors import Invalid
    from lastgood.model.checkpoint import IgnoreState
    from lastgood.settings import CaptureSettings, Settings


# Any number of checkpoints or bytes.
_ALL = 1 << 62


def sound_settings(
    settings: Settings, faults: Sequence[Invalid], catalogue: CatalogueReader, *, key: str
) -> Settings:
    """Return what the sound parts of the files say, with what the newest checkpoint was made by.

    What was left out then stays left out, and what was taken in although ignored still is. How much the
    user's own file lets stay is not known while it is broken: everything does.
    """
    facts = catalogue.latest_facts(key)
    newest = None if facts is None else catalogue.get(facts.newest.id)
    if newest is not None:
        capture = _as_then(settings.capture, newest.manifest.ignore, own=_is_own(faults))
        settings = settings.replace(capture=capture)
    if not _is_own(faults):
        return settings
    return settings.replace(
        limits=LimitSettings(max_checkpoints=_ALL, max_store_size=_ALL),
        retention={kind: Rungs(last=_ALL) for kind in LIMITED_KINDS},
    )


def remarks(faults: Sequence[Invalid], catalogue: CatalogueReader, *, key: str) -> tuple[HealthNote, ...]:
    """Return what is to be said of broken files, a note each fault."""
    known = catalogue.latest_facts(key) is not None
    return tuple(_remark(error, known=known) for error in faults)


def _remark(error: Invalid, *, known: bool) -> HealthNote:
    kept = ", and nothing is pruned by a policy" if _is_own((error,)) else ""
    then = "what the last checkpoint went by still counts" if known else "that counts for nothing"
    return HealthNote(
        code="broken-configuration",
        message=f"{error.message}; going on without that",
        hint=f"{error.hint}; until then {then}{kept}",
    )


def _is_own(faults: Sequence[Invalid]) -> bool:
    return any(error.details.get("scope") == "user" for error in faults)


def _as_then(capture: CaptureSettings, then: IgnoreState, *, own: bool) -> CaptureSettings:
    excludes = [one for one in then.excludes if one not in BUILT_IN_EXCLUDES]
    # Patterns from the workspace's top are those of state files: no other may begin so.
    state = (one[1:] for one in then.includes if one.startswith("/"))
    built_in, included = capture.built_in, capture.built_in_includes
    if own:  # it may be what switches one of them off
        built_in = tuple(one for one in built_in if one in then.excludes)
        included = tuple(one for one in included if one not in then.built_in_off)
        if capture.global_excludes is None:  # it may be what named a file of patterns for all workspaces
            lines = to_text(then.global_exclude).splitlines()
            excludes = [*(one for one in lines if one.strip() and not one.startswith("#")), *excludes]
    return capture.replace(
        built_in=built_in,
        built_in_includes=included,
        exclude=_both(capture.exclude, excludes),
        include=_both(capture.include, then.includes),
        state_files=_both(capture.state_files, state),
    )


def _both(first: Sequence[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
