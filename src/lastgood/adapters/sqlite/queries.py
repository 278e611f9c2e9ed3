"""Questions about checkpoints, as SQL."""

from __future__ import annotations

from lastgood.adapters.sqlite.rows import CHECKPOINT, FACTS
from lastgood.adapters.sqlite.seal import broken_seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.ports.catalogue import Query

_MOST = (1 << 63) - 1
# A row that was altered from outside is no ground to build on: the one before it is.
_STANDING = (
    f"SELECT {FACTS} FROM checkpoint WHERE workspace_key = ? AND deleted_at IS NULL"  # noqa: S608 - names of columns, no input
    f" AND NOT {broken_seal('checkpoint')}"
)
NEWEST_FACTS = f"{_STANDING} ORDER BY sequence DESC LIMIT 1"
COMPLETE_FACTS = f"{_STANDING} AND partial = 0 AND kind <> 'guard' ORDER BY sequence DESC LIMIT 1"

# Whether a rescued catalogue still lacks what `mending.adopt` brings.
AWAITS_ADOPTION = "SELECT 1 FROM meta WHERE name = 'unadopted'"


def selection(query: Query) -> tuple[str, dict[str, object]]:
    """Return the statement that answers a query, and its parameters."""
    conditions = [
        condition
        for wanted, condition in (
            (query.workspace_key is not None, "workspace_key = :workspace_key"),
            (query.kind is not None, "kind = :kind"),
            (query.session is not None, "session = :session"),
            (query.task is not None, "task = :task"),
            (query.moment is not None, "moment = :moment"),
            (query.step is not None, "step = :step"),
            (query.since is not None, "created_at >= :since"),
            (query.until is not None, "created_at <= :until"),
            (query.name is not None, "name GLOB :name"),
            (query.called is not None, "name = :called"),
            (query.root is not None, "tree = :tree AND modes = :modes"),
            (query.good, "good = 1"),
            (query.complete, "partial = 0"),
            (not query.guards, "kind <> 'guard'"),
            (not query.deleted, "deleted_at IS NULL"),
        )
        if wanted
    ]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    parameters = query.as_dict() | {
        "tree": None if query.root is None else query.root.tree,
        "modes": None if query.root is None else query.root.modes,
        "limit": -1 if query.limit is None else _fit(max(query.limit, 0)),
        "offset": _fit(max(query.offset, 0)),
        "since": _fit(query.since),
        "until": _fit(query.until),
        "step": _fit(query.step),
        # SQLite negates a set by ^ alone.
        "name": None if query.name is None else query.name.replace("[!", "[^"),
    }
    statement = f"SELECT {CHECKPOINT} FROM checkpoint{where}"  # noqa: S608 - conditions are those above
    return f"{statement} ORDER BY sequence DESC LIMIT :limit OFFSET :offset", parameters


def _fit(number: int | None) -> int | None:
    """Return the nearest number that SQLite can hold."""
    return None if number is None else max(-_MOST, min(number, _MOST))
