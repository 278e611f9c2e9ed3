"""What a caller wants restored, checked: scopes, paths and a merge that fit together (rules T11, T17)."""

from __future__ import annotations

from lastgood.errors import Usage
from lastgood.model.part import DEFAULT_SCOPES, SCOPES
from lastgood.names import printable
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypedDict

    from lastgood.actions.merging import Merge
    from lastgood.actions.restore import Wish
    from lastgood.actions.reverting import Way
    from lastgood.model.part import Scope
    from lastgood.model.plan import Favour
    from lastgood.view import View
    from lastgood.workspace.paths import PathLike

    class Options(TypedDict, total=False):
        """What may be said about a restore beside its target."""

        paths: Sequence[PathLike]
        only: Sequence[Scope] | None
        git: bool
        merge: bool
        base: str | None
        conflict: Favour | None
        discard: bool
        force: bool


FAVOURS: tuple[Favour, ...] = ("ours", "theirs", "markers")


class Extent(Value):
    """How far a restore goes: the arguments of a verb as they were given."""

    only: Sequence[Scope] | None = None
    git: bool = False
    merge: bool = False
    base: str | None = None
    conflict: Favour | None = None

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        return self != Extent()


def wish_of(
    view: View, ref: str, *, paths: tuple[bytes, ...], extent: Extent, discard: bool, force: bool
) -> Wish:
    """Return what is to be restored; `Usage` for what does not go together."""
    from lastgood.actions.restore import Wish

    scopes = scopes_of(extent, paths=bool(paths))
    return Wish(
        target=view.resolve(ref),
        paths=paths,
        scopes=scopes,
        merge=_merge_of(view, extent, scopes=scopes),
        discard=discard,
        force=force,
    )


def scopes_of(extent: Extent, *, paths: bool) -> tuple[Scope, ...]:
    """Return what is to come back, in order: by default files, conversation and progress together."""
    only = extent.only
    listed = isinstance(only, (list, tuple, set, frozenset))
    if only is not None and not (listed and only and all(one in SCOPES for one in only)):
        shown = ", ".join(str(one) for one in only) if listed else str(only)
        raise Usage(
            f"'{printable(shown)}' is not what a restore can be limited to",
            hint="give some of: " + ", ".join(SCOPES),
        )
    if paths and (extent.git or (only and tuple(only) != ("files",))):
        raise Usage("paths mean files, and nothing beside them", hint="leave out the paths, or what else")
    chosen = set(only or (("files",) if paths else DEFAULT_SCOPES)) | ({"git"} if extent.git else set())
    return tuple(scope for scope in SCOPES if scope in chosen)


def _merge_of(view: View, extent: Extent, *, scopes: Sequence[Scope]) -> Merge | None:
    if not extent.merge:
        if extent.base is not None or extent.conflict is not None:
            raise Usage("a base and a choice for conflicts belong to a merge", hint="add --merge")
        return None
    if "files" not in scopes:
        raise Usage("a merge is of files", hint="leave out --merge, or add --only files")
    if extent.conflict not in {None, *FAVOURS}:
        raise Usage(
            f"'{printable(str(extent.conflict))}' is no way to settle a conflict",
            hint="ways: " + ", ".join(FAVOURS),
        )
    from lastgood.actions.merging import Merge

    base = view.resolve("@" if extent.base is None else extent.base)
    return Merge(base=base, favour=extent.conflict)


def way_of(*, force: bool, merge: bool) -> Way | None:
    """Return how an undo treats what changed since: by default it refuses."""
    if force and merge:
        raise Usage("--force and --merge do not go together", hint="--merge keeps what changed since")
    return "force" if force else "merge" if merge else None
