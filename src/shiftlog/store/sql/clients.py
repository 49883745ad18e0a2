"""Clients in tables: leases, grants, tokens, answers and outcomes of calls."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from shiftlog.model.entry import Body
from shiftlog.model.nouns import Lease, Token
from shiftlog.model.times import millis
from shiftlog.store.codec.documents import decode, decode_noun, encode, encode_noun
from shiftlog.store.protocol import Answer
from shiftlog.store.sql.database import Row, upsert
from shiftlog.store.sql.rows import Changes, Queries, entry_id, hash_shown, hour_of, time_of_ms

_PUT_LEASE = upsert("leases", "session_id", "client_id", "expires_ms", "doc")
_PUT_GRANT = upsert("grants", "session_id, client_id", "fence", "at_ms")
_PUT_AGENT = upsert("client_agents", "client_id", "agent_key", "at_ms")
_PUT_TURN = upsert("client_turns", "session_id, client_id", "request_id", "at_ms")
_PUT_TOKEN = upsert("tokens", "hash", "session_id", "issued_ms", "expires_ms", "used_ms", "revoked_ms")
_PUT_ANSWER = upsert("answers", "scope, key", "session_id", "at_ms", "doc")
_PUT_POINTER = upsert("pointers", "workspace, agent", "session_id")


class SqlClientReader(Queries):
    """The facet `ClientReader`."""

    def lease(self, session_id: str) -> Lease | None:
        data = self._value("SELECT doc FROM leases WHERE session_id = ?", session_id)
        return None if data is None else decode_noun(data, Lease)

    def leases(self) -> list[Lease]:
        return [decode_noun(row[0], Lease) for row in self._db.execute("SELECT doc FROM leases ORDER BY session_id")]

    def grant(self, session_id: str, client_id: str) -> int | None:
        return self._value("SELECT fence FROM grants WHERE session_id = ? AND client_id = ?", session_id, client_id)

    def agent_of(self, client_id: str) -> str | None:
        return self._value("SELECT agent_key FROM client_agents WHERE client_id = ?", client_id)

    def turn_of(self, session_id: str, client_id: str) -> str | None:
        return self._value(
            "SELECT request_id FROM client_turns WHERE session_id = ? AND client_id = ?", session_id, client_id
        )

    def client_of_turn(self, session_id: str, request_id: str) -> str | None:
        return self._value(
            "SELECT client_id FROM client_turns WHERE session_id = ? AND request_id = ? ORDER BY at_ms DESC LIMIT 1",
            session_id,
            request_id,
        )

    def token(self, token_hash: str) -> Token | None:
        row: Row | None = self._db.execute(
            "SELECT session_id, issued_ms, expires_ms, used_ms, revoked_ms FROM tokens WHERE hash = ?", (token_hash,)
        ).fetchone()
        if row is None:
            return None
        session_id, issued, expires, used, revoked = row
        return Token(
            hash=token_hash,
            session_id=session_id,
            issued_at=time_of_ms(issued),
            expires_at=time_of_ms(expires),
            used_at=None if used is None else time_of_ms(used),
            revoked_at=None if revoked is None else time_of_ms(revoked),
        )

    def answer(self, scope: str, key: str) -> Answer | None:
        data = self._value("SELECT doc FROM answers WHERE scope = ? AND key = ?", scope, key)
        return None if data is None else decode(data, type=Answer)

    def outcome(self, client_id: str, call_id: str) -> Body | None:
        data = self._value(
            "SELECT doc FROM outcomes WHERE hour IN (SELECT DISTINCT hour FROM outcomes)"
            " AND client_id = ? AND call_id = ? ORDER BY hour DESC",
            client_id,
            call_id,
        )
        kept: Body | list[int] | None = None if data is None else decode(data)
        return self._receipt_of(*kept) if isinstance(kept, list) else kept

    def _receipt_of(self, key: int, seq: int, redactions: int) -> Body:
        """Return the receipt that was kept by the place of its entry."""
        session_id = str(self._value("SELECT id FROM journals WHERE key = ?", key))
        digest = self._value("SELECT hash FROM entries WHERE id = ?", entry_id(key, seq))
        return {
            "code": "persisted",
            "session_id": session_id,
            "seq": seq,
            "hash": hash_shown(digest),
            "redactions": redactions,
        }

    def pointer(self, workspace: str, agent: str) -> str | None:
        return self._value("SELECT session_id FROM pointers WHERE workspace = ? AND agent = ?", workspace, agent)


class SqlClientWriter(SqlClientReader, Changes):
    """The facet `ClientWriter`, but for `put_outcome`, which looks at the journal."""

    def put_lease(self, lease: Lease) -> None:
        self._put(
            _PUT_LEASE,
            (lease.session_id, lease.client_id, millis(lease.expires_at), encode_noun(lease)),
        )
        self._put(
            _PUT_GRANT,
            (lease.session_id, lease.client_id, lease.fence, millis(lease.since)),
        )

    def end_lease(self, session_id: str) -> None:
        self._db.execute("DELETE FROM leases WHERE session_id = ?", (session_id,))

    def renew_leases(self, client_ids: Iterable[str], expires_at: datetime) -> None:
        for client_id in client_ids:
            rows: list[Row] = self._db.execute("SELECT doc FROM leases WHERE client_id = ?", (client_id,)).fetchall()
            for row in rows:
                lease = replace(decode_noun(row[0], Lease), expires_at=expires_at)
                # Another process may have given the session to another client since it was read.
                self._db.execute(
                    "UPDATE leases SET expires_ms = ?, doc = ? WHERE session_id = ? AND doc = ?",
                    (millis(expires_at), encode_noun(lease), lease.session_id, row[0]),
                )

    def put_agent_of(self, client_id: str, agent_key: str, at: datetime) -> None:
        self._put(_PUT_AGENT, (client_id, agent_key, millis(at)))

    def put_turn_of(self, session_id: str, client_id: str, request_id: str, at: datetime) -> None:
        self._put(_PUT_TURN, (session_id, client_id, request_id, millis(at)))

    def put_token(self, token: Token) -> None:
        used, revoked = (None if at is None else millis(at) for at in (token.used_at, token.revoked_at))
        self._put(
            _PUT_TOKEN,
            (token.hash, token.session_id, millis(token.issued_at), millis(token.expires_at), used, revoked),
        )

    def revoke_tokens(self, session_id: str, at: datetime) -> None:
        self._db.execute(
            "UPDATE tokens SET revoked_ms = ? WHERE session_id = ? AND used_ms IS NULL AND revoked_ms IS NULL",
            (millis(at), session_id),
        )

    def put_answer(self, scope: str, key: str, answer: Answer) -> None:
        session_id = answer.answer.get("session_id")
        self._put(
            _PUT_ANSWER,
            (scope, key, session_id if isinstance(session_id, str) else None, millis(answer.at), encode(answer)),
        )

    def put_pointer(self, workspace: str, agent: str, session_id: str) -> None:
        self._put(_PUT_POINTER, (workspace, agent, session_id))

    def forget_clients(self, before: datetime) -> None:
        limit = (millis(before),)
        self._db.execute("DELETE FROM tokens WHERE expires_ms < ?", limit)
        for table in ("grants", "client_agents", "client_turns"):
            self._db.execute(
                f"DELETE FROM {table} WHERE at_ms < ? AND client_id NOT IN (SELECT client_id FROM leases)", limit
            )

    def forget_answers(self, *, session_id: str | None = None, before: datetime | None = None) -> None:
        if session_id is not None:
            self._db.execute("DELETE FROM answers WHERE session_id = ?", (session_id,))
        if before is not None:
            self._db.execute("DELETE FROM answers WHERE at_ms < ?", (millis(before),))

    def forget_outcomes(self, before: datetime) -> None:
        self._db.execute("DELETE FROM outcomes WHERE hour <= ? AND at_ms < ?", (hour_of(before), millis(before)))
