"""Changing the SQLite file inside one transaction: the `Writer` half of the store."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from shiftlog.model.entry import Body
from shiftlog.model.moves import UNFINISHED
from shiftlog.model.nouns import Lease, Receipt, Session, Turn
from shiftlog.model.times import millis, precise
from shiftlog.store import blobs
from shiftlog.store.documents import decode, encode, from_document, to_document
from shiftlog.store.protocol import Answer, Indexed
from shiftlog.store.sqlite.reader import SqliteReader
from shiftlog.store.sqlite.rows import entry_id, hash_bytes


class SqliteWriter(SqliteReader):
    """The changes that the store makes, over the writer's connection."""

    def append(self, session_id: str, entries: Sequence[Indexed]) -> None:
        last = entries[-1].entry
        key = self._key(session_id)
        if key is None:
            self._db.execute(
                "INSERT INTO journals (id, head_seq, head_hash) VALUES (?, ?, ?)",
                (session_id, last.seq, hash_bytes(last.hash)),
            )
            key = self._keys[session_id] = self._db.last_insert_rowid()
        else:
            self._db.execute(
                "UPDATE journals SET head_seq = ?, head_hash = ? WHERE key = ?",
                (last.seq, hash_bytes(last.hash), key),
            )
        for item in entries:
            self._insert(key, item)

    def _insert(self, key: int, item: Indexed) -> None:
        entry = item.entry
        row_id = entry_id(key, entry.seq)
        body = blobs.externalise(entry.body, lambda digest, text: self._keep(digest, text, row_id))
        self._db.execute(
            "INSERT INTO entries (id, kind, at, turn, facet, body, salt, body_hash, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row_id,
                entry.kind.value,
                precise(entry.at),
                entry.turn,
                item.facet,
                encode(body),
                entry.salt,
                hash_bytes(entry.body_hash),
                hash_bytes(entry.hash),
            ),
        )
        if item.text:
            self._db.execute("INSERT INTO found (rowid, text) VALUES (?, ?)", (row_id, item.text))

    def _keep(self, digest: bytes, text: str, entry: int | None) -> None:
        known = self._db.execute("SELECT 1 FROM blobs WHERE hash = ?", (digest,)).fetchone()
        if known is None:
            self._db.execute("INSERT INTO blobs VALUES (?, ?, ?)", (digest, len(text), blobs.pack(text)))
        if entry is not None:
            self._db.execute("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", (digest, entry))

    def put_session(self, session: Session) -> None:
        run = session.run
        self._db.execute(
            "INSERT INTO sessions (key, id, agent, agent_id, agent_key, state, model, workspace, project, vendor_id,"
            " parent_id, hidden, unfinished, started_ms, active_ms, run_alias, run_status, backend, caller, entries, doc)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET agent_id = excluded.agent_id, agent_key = excluded.agent_key,"
            " state = excluded.state, model = excluded.model, workspace = excluded.workspace,"
            " project = excluded.project, vendor_id = excluded.vendor_id, parent_id = excluded.parent_id,"
            " hidden = excluded.hidden, unfinished = excluded.unfinished, started_ms = excluded.started_ms, active_ms = excluded.active_ms,"
            " run_alias = excluded.run_alias, run_status = excluded.run_status, backend = excluded.backend,"
            " caller = excluded.caller, entries = excluded.entries, doc = excluded.doc",
            (
                self._key(session.id),
                session.id,
                session.agent,
                session.agent_id,
                session.agent_key,
                session.state.value,
                session.model,
                session.workspace,
                PurePosixPath(session.workspace).name if session.workspace else None,
                session.vendor_session_id.lower() if session.vendor_session_id else None,
                session.parent_session_id,
                int(session.hidden),
                int(session.state in UNFINISHED),
                millis(session.started),
                millis(session.last_activity),
                run.alias if run else None,
                run.status.value if run else None,
                run.backend if run else None,
                run.caller if run else None,
                session.head_seq,
                encode(to_document(session)),
            ),
        )

    def put_turn(self, session_id: str, turn: Turn) -> None:
        key = self._key(session_id)
        document = encode(blobs.externalise(to_document(turn), lambda digest, text: self._keep(digest, text, None)))
        row = self._db.execute(
            "SELECT key, doc FROM turns WHERE session_key = ? AND request_id = ?", (key, turn.request_id)
        ).fetchone()
        if row is None:
            self._db.execute(
                "INSERT INTO turns (session_key, request_id, ordinal, status, updated_ms, doc)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (key, turn.request_id, turn.ordinal, turn.status.value, millis(turn.last_updated), document),
            )
            turn_key, before = self._db.last_insert_rowid(), None
        else:
            turn_key, before = int(row[0]), row[1]
            self._db.execute(
                "UPDATE turns SET status = ?, updated_ms = ?, doc = ? WHERE key = ?",
                (turn.status.value, millis(turn.last_updated), document, turn_key),
            )
        old = None if before is None else self._turn_of(before)
        self._index_tags(key, turn_key, old, turn)
        self._index_files(key, turn_key, old, turn)

    def _index_tags(self, key: int | None, turn_key: int, old: Turn | None, new: Turn) -> None:
        before = set(old.tags) if old else set[str]()
        for tag in before - set(new.tags):
            self._db.execute("DELETE FROM turn_tags WHERE turn_key = ? AND tag = ?", (turn_key, tag))
        for tag in set(new.tags) - before:
            self._db.execute("INSERT INTO turn_tags VALUES (?, ?, ?)", (tag, turn_key, key))

    def _index_files(self, key: int | None, turn_key: int, old: Turn | None, new: Turn) -> None:
        before = old.files if old else {}
        for path in before.keys() - new.files.keys():
            self._db.execute("DELETE FROM turn_files WHERE turn_key = ? AND path = ?", (turn_key, path))
        for path, touch in new.files.items():
            if before.get(path) != touch:
                self._db.execute(
                    "INSERT INTO turn_files (path, turn_key, session_key, changes, last_type, seq)"
                    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (turn_key, path) DO UPDATE SET"
                    " changes = excluded.changes, last_type = excluded.last_type, seq = excluded.seq",
                    (path, turn_key, key, touch.changes, touch.last_type, touch.seq),
                )

    def next_alias(self) -> int:
        self._db.execute("INSERT INTO aliases DEFAULT VALUES")
        alias = self._db.last_insert_rowid()
        self._db.execute("DELETE FROM aliases WHERE alias < ?", (alias,))
        return alias

    # Leases, answers, receipts

    def put_lease(self, lease: Lease) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
            (lease.session_id, lease.client_id, millis(lease.expires_at), encode(to_document(lease))),
        )
        self._db.execute(
            "INSERT OR REPLACE INTO grants VALUES (?, ?, ?)", (lease.session_id, lease.client_id, lease.fence)
        )

    def end_lease(self, session_id: str) -> None:
        self._db.execute("DELETE FROM leases WHERE session_id = ?", (session_id,))

    def renew_leases(self, client_ids: Iterable[str], expires_at: datetime) -> None:
        for client_id in client_ids:
            rows = self._db.execute("SELECT doc FROM leases WHERE client_id = ?", (client_id,)).fetchall()
            for (data,) in rows:
                lease = from_document({**decode(data), "expires_at": expires_at}, Lease)
                self._db.execute(
                    "UPDATE leases SET expires_ms = ?, doc = ? WHERE session_id = ?",
                    (millis(expires_at), encode(to_document(lease)), lease.session_id),
                )

    def put_answer(self, scope: str, key: str, answer: Answer) -> None:
        session_id = answer.answer.get("session_id")
        self._db.execute(
            "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
            (scope, key, session_id if isinstance(session_id, str) else None, millis(answer.at), encode(answer)),
        )

    def put_outcome(self, client_id: str, call_id: str, outcome: Body, at: datetime) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?)",
            (client_id, call_id, millis(at), encode(outcome)),
        )

    def put_receipt(self, receipt: Receipt) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO receipts VALUES (?, ?, ?)",
            (receipt.session_id, receipt.seq, encode(to_document(receipt))),
        )

    # Erasing and rebuilding

    def erase_body(self, session_id: str, seq: int) -> None:
        key = self._key(session_id)
        if key is None:
            return
        row_id = entry_id(key, seq)
        self._db.execute("UPDATE entries SET body = NULL, salt = NULL, facet = NULL WHERE id = ?", (row_id,))
        self._db.execute("DELETE FROM found WHERE rowid = ?", (row_id,))
        used = [bytes(row[0]) for row in self._db.execute("SELECT hash FROM blob_uses WHERE entry_id = ?", (row_id,))]
        self._db.execute("DELETE FROM blob_uses WHERE entry_id = ?", (row_id,))
        for digest in used:
            self._db.execute(
                "DELETE FROM blobs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE hash = ?1)",
                (digest,),
            )

    def forget_projection(self, session_id: str) -> None:
        key = self._key(session_id)
        self._db.execute("DELETE FROM turn_tags WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM turn_files WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM turns WHERE session_key = ?", (key,))
        self._db.execute("DELETE FROM sessions WHERE key = ?", (key,))

    def reindex(self, session_id: str, items: Iterable[Indexed]) -> None:
        key = self._key(session_id) or 0
        for item in items:
            row_id = entry_id(key, item.entry.seq)
            self._db.execute("UPDATE entries SET facet = ? WHERE id = ? AND facet IS NOT ?", (item.facet, row_id, item.facet))
            self._db.execute("DELETE FROM found WHERE rowid = ?", (row_id,))
            if item.text:
                self._db.execute("INSERT INTO found (rowid, text) VALUES (?, ?)", (row_id, item.text))

    def forget_answers(self, *, session_id: str | None = None, before: datetime | None = None) -> None:
        if session_id is not None:
            self._db.execute("DELETE FROM answers WHERE session_id = ?", (session_id,))
        if before is not None:
            self._db.execute("DELETE FROM answers WHERE at_ms < ?", (millis(before),))
            self._db.execute("DELETE FROM outcomes WHERE at_ms < ?", (millis(before),))


