"""A workspace that is somewhere else now: its row, and the plans that lay in its folder."""

from __future__ import annotations

from lastgood.adapters.sqlite.seal import broken_seal, is_broken, reseal
from lastgood.codec.canonical import dumps
from lastgood.codec.workplan import decode_plan, encode_plan
from lastgood.errors import NotFound
from lastgood.names import to_bytes, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_PLANS = (
    f"SELECT id, payload FROM run WHERE workspace_key = ? AND instr(payload, ?) AND NOT {broken_seal('run')}"  # noqa: S608 - names of columns
)


def move(connection: sqlite3.Connection, key: str, *, path: str, machine: str | None) -> None:
    """Give a workspace another path, and another machine if one is given; its runs find their plans there."""
    row = connection.execute("SELECT path FROM workspace WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise NotFound(f"the store knows no workspace {key}", details={"id": key})
    sound = not is_broken(connection, "workspace", key)
    connection.execute(
        "UPDATE workspace SET machine = coalesce(?, machine), path = ? WHERE key = ?",
        (machine, to_bytes(path), key),
    )
    if not sound:  # where it was before is not certain
        return
    reseal(connection, "workspace", key)
    _move_plans(connection, key, old=to_text(row[0]) + "/", new=path + "/")


def _move_plans(connection: sqlite3.Connection, key: str, *, old: str, new: str) -> None:
    said = '"source":' + dumps(old).decode("ascii").removesuffix('"')
    for id, payload in connection.execute(_PLANS, (key, said)).fetchall():
        plan = decode_plan(str(payload))
        if plan.source is None or not plan.source.startswith(old):
            continue  # somebody's text says the same
        moved = plan.replace(source=new + plan.source.removeprefix(old))
        connection.execute("UPDATE run SET payload = ? WHERE id = ?", (encode_plan(moved), id))
        reseal(connection, "run", str(id))
