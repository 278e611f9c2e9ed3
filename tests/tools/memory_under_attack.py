"""LastgoodSaver as `agent-memory-integrity` wants a store: read and written behind its back.

A record is a checkpoint's row in the ledger's file. The attacker may do to the file what he likes, also
making values that are well-formed and properly addressed; he has not the key, and the witness outside
the store is not his to put back.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING, Any

from agmi.adapters.base import MemoryAdapter, Record
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint

import lastgood
from lastgood.errors import LastgoodError
from lastgood.integrations.langgraph import LastgoodSaver
from lastgood.ledger.cells import pack, unpack

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

THREAD, OTHER = "agmi-thread", "agmi-thread-B"
COLUMNS = "key, mark, tag, head, body"


class SaverUnderAttack(MemoryAdapter):  # type: ignore[misc] # the package has no types
    """One thread of five checkpoints, and a second one where an attack wants that."""

    name = "lastgood"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True

    def setup(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._project = os.path.join(self._folder.name, "project")
        self._store = os.path.join(self._folder.name, "store")
        os.mkdir(self._project)
        self._open()

    def teardown(self) -> None:
        self._workspace.close()
        self._folder.cleanup()

    def reload(self) -> None:
        self._workspace.close()
        self._open()

    def _open(self) -> None:
        self._workspace = lastgood.open(self._project, store=self._store, maintenance="off")
        self._saver = LastgoodSaver(self._workspace)

    def seed(self, n: int) -> None:
        self._config = self._put({"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}, n, said="seed")

    def seed_other(self, n: int) -> None:
        self._put({"configurable": {"thread_id": OTHER, "checkpoint_ns": ""}}, n, said="other")

    def append_genuine(self) -> None:
        self._put(self._config, 1, said="late")

    def _put(self, config: RunnableConfig, count: int, *, said: str) -> RunnableConfig:
        for step in range(count):
            checkpoint = create_checkpoint(empty_checkpoint(), None, step)
            checkpoint["channel_values"] = {"state": f"{said} {step}"}
            checkpoint["channel_versions"] = {"state": step + 1}
            config = self._saver.put(
                config, checkpoint, {"source": "loop", "step": step}, {"state": step + 1}
            )
        return config

    def verify(self) -> bool:
        """Ask for the thread as an agent does: its newest state, then its history."""
        self.verify_detail = None
        config: RunnableConfig = {"configurable": {"thread_id": THREAD}}
        try:
            assert self._saver.get_tuple(config) is not None
            assert len(list(self._saver.list(config))) >= 1
        except LastgoodError as error:
            self.verify_detail = error.message
            return False
        return True

    # --- behind its back ------------------------------------------------------------------------

    def read_all_raw(self) -> list[Record]:
        return self._rows(THREAD)

    def read_other_raw(self) -> list[Record]:
        return self._rows(OTHER)

    def write_raw(self, record: Record) -> None:
        rows = self._rows(THREAD)
        values = [record.fields[name] for name in ("mark", "tag", "head", "body")]
        if record.seq < len(rows):
            words = "UPDATE entry SET (mark, tag, head, body) = (?, ?, ?, ?)"
            place = f"{self._at(THREAD)} AND key = ?"
            self._run(f"{words} WHERE {place}", [*values, rows[record.seq].fields["key"]])
        else:
            words = (
                f"INSERT INTO entry (book, {COLUMNS}) SELECT number, ?, ?, ?, ?, ? FROM book WHERE name = ?"
            )
            self._run(words, [record.fields["key"], *values, THREAD.encode()])

    def delete_raw(self, seq: int) -> None:
        self._run(
            f"DELETE FROM entry WHERE {self._at(THREAD)} AND key = ?", [self._rows(THREAD)[seq].fields["key"]]
        )

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        self.write_raw(Record(seq=victim_seq, fields=donor.fields))

    def mutate_payload(self, record: Record) -> Record:
        body = self._plain(record.fields["body"])
        body["values"]["state"] += "  [TAMPERED]"
        record.fields["body"], _ = pack(body)
        return record

    def forge_record(self, template: Record) -> Record:
        forged = self.mutate_payload(Record(seq=template.seq + 1, fields=dict(template.fields)))
        forged.fields["key"] = forged.fields["key"][:-1] + b"f0"
        return forged

    def read_meta(self, seq: int) -> dict[str, Any]:
        meta: dict[str, Any] = self._plain(self._rows(THREAD)[seq].fields["head"])["metadata"]
        return meta

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        record = self._rows(THREAD)[seq]
        head = {**self._plain(record.fields["head"]), "metadata": meta}
        self.write_raw(Record(seq=seq, fields={**record.fields, "head": pack(head)[0]}))

    def snapshot_store(self) -> object:
        return self._copy_store(self._store)

    def restore_store(self, token: object) -> None:
        self._workspace.close()
        self._restore_store(str(token), self._store)
        self._open()

    def identity_of(self, record: Record) -> str:
        return repr(record.fields["key"])

    def payload_of(self, record: Record) -> str:
        return repr(self._plain(record.fields["body"])["values"])

    def owner_of(self, record: Record) -> str | None:
        return str(record.fields["owner"])

    def _plain(self, cell: bytes) -> Any:
        return unpack(cell, self._piece)

    def _piece(self, name: bytes) -> bytes:
        from zlib import decompress

        ((content,),) = self._run("SELECT content FROM piece WHERE id = ? LIMIT 1", [name])
        return bytes(content[1:]) if content[:1] == b"=" else decompress(content[1:])

    def _rows(self, thread: str) -> list[Record]:
        rows = self._run(
            f"SELECT {COLUMNS} FROM entry WHERE {self._at(thread)} AND key < x'64' ORDER BY key", []
        )
        names = [*COLUMNS.split(", "), "owner"]
        return [
            Record(seq=at, fields=dict(zip(names, (*row, thread), strict=True)))
            for at, row in enumerate(rows)
        ]

    def _at(self, thread: str) -> str:
        return f"book = (SELECT number FROM book WHERE name = CAST('{thread}' AS BLOB))"

    def _run(self, words: str, values: list[object]) -> list[Any]:
        with closing(sqlite3.connect(os.path.join(self._store, "ledger.sqlite3"))) as connection, connection:
            return connection.execute(words, values).fetchall()
