"""Looking: nothing is changed by any of these."""

from __future__ import annotations

from lastgood.catalogue import Query
from lastgood.errors import Invalid, NotFound
from lastgood.model.checkpoint import KINDS
from lastgood.paths import printable
from lastgood.workspace.arguments import check_count, expect, inside
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint, Kind
    from lastgood.model.operation import Operation
    from lastgood.model.report import (
        DiffReport,
        ListedEntry,
        StatusReport,
    )
    from lastgood.workspace.arguments import PathLike


class Looks(OpenWorkspace):
    """Verbs that only read."""

    def list(
        self,
        *,
        limit: int | None = None,
        kind: Kind | None = None,
        session: str | None = None,
        since: int | None = None,
        name: str | None = None,
        good: bool = False,
        all_workspaces: bool = False,
    ) -> tuple[Checkpoint, ...]:
        """Return checkpoints, newest first. ``since`` is in nanoseconds, ``name`` a glob."""
        if limit is not None:
            check_count(limit, least=0, what="the limit")
        expect(since, int, type(None), what="since when")
        expect(name, str, type(None), what="the name")
        expect(session, str, type(None), what="the session")
        if kind is not None and kind not in KINDS:
            raise Invalid(f"'{printable(str(kind))}' is no kind", hint="kinds: " + ", ".join(KINDS))
        query = Query(
            workspace_key=None if all_workspaces else self._context.key,
            limit=limit,
            kind=kind,
            session=None if session is None else self._session_meant(session),
            since=since,
            name=name,
            good=good,
        )
        return tuple(self._view.find(query))

    def _session_meant(self, text: str) -> str:
        """Return the whole id of a session named by some digits; of another workspace it is given whole."""
        from lastgood.sessions.session import session_of

        try:
            return session_of(self._context, text).id
        except NotFound:
            return text

    def get(self, ref: str) -> Checkpoint:
        """Return the checkpoint that a REF names."""
        return self._view.resolve(ref)

    def previous(self, ref: str) -> Checkpoint | None:
        """Return the newest complete checkpoint before the one that a REF names."""
        return self._view.previous(self._view.resolve(ref))

    def entries(self, ref: str) -> tuple[ListedEntry, ...]:
        """Return every path that a checkpoint holds."""
        from lastgood.show import entries

        return entries(self._context, self._view, self._view.resolve(ref))

    def read(self, ref: str, path: PathLike) -> bytes:
        """Return the content of one file of a checkpoint (of a link, its target)."""
        from lastgood.show import content

        wanted = inside(path, self._context.root)
        return content(self._context, self._view, self._view.resolve(ref), path=wanted)

    def conversation(self, ref: str, *, redacted: bool = False) -> tuple[dict[str, object], ...]:
        """Return the messages that a checkpoint holds, exactly, or without known secrets.

        Of a host's transcript these are the messages to and from the model; `NotFound` if the
        checkpoint holds no conversation.
        """
        from lastgood.show import messages

        return messages(self._context, self._view.resolve(ref), redacted=redacted)

    def transcript(self, ref: str) -> bytes:
        """Return a checkpoint's conversation byte for byte as it was captured."""
        from lastgood.show import transcript

        return transcript(self._context, self._view.resolve(ref))

    def diff(
        self,
        a: str | None = None,
        b: str | None = None,
        *,
        paths: Sequence[PathLike] = (),
        patch: bool = True,
    ) -> DiffReport:
        """Compare two checkpoints, or one (the latest, if none is named) with the workspace."""
        from lastgood import diff

        before = self._view.resolve("@" if a is None else a)
        chosen = self._paths(paths)
        if b is not None:
            after = self._view.resolve(b)
            return diff.between(self._context, self._view, before, after, paths=chosen, patch=patch)
        return diff.with_workspace(self._context, self._view, before, paths=chosen, patch=patch)

    def operations(self) -> tuple[Operation, ...]:
        """Return what was restored, deleted, undone and redone, newest first."""
        return tuple(self._context.catalogue.operations(self._context.key))

    def status(self) -> StatusReport:
        """Return where the workspace stands."""
        from lastgood.status import status
        from lastgood.workspace.health import exposures, kept_edits

        context = self._context
        report = status(context, self._view)
        exposed = (one for one in exposures(context.store) if one not in report.health)
        kept = kept_edits(context.store, [context.key])
        return report.replace(health=(*report.health, *kept, *exposed))
