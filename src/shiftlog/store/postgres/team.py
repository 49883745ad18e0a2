"""The tables that replicas of a team's server share besides the journal: API keys and MCP sessions.

Every verb is one statement in a transaction of its own, on a connection of the store's pool.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from shiftlog.model.team import ApiKey, KeyScope, McpSession
from shiftlog.model.times import millis
from shiftlog.store.postgres.connections import Connection
from shiftlog.store.postgres.store import PostgresStore
from shiftlog.store.sql.rows import time_of_ms

_KEY_COLUMNS = "id, name, hash, scopes, created_ms, expires_ms, revoked_ms, used_ms"


class TeamTables:
    """API keys and MCP sessions in one database."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    # API keys

    async def add_key(self, key: ApiKey) -> None:
        """Store a new key."""
        values = (key.id, key.name, key.hash, [str(scope) for scope in sorted(key.scopes)], millis(key.created_at))
        await self._run(
            "INSERT INTO api_keys (id, name, hash, scopes, created_ms, expires_ms) VALUES (%s, %s, %s, %s, %s, %s)",
            (*values, None if key.expires_at is None else millis(key.expires_at)),
        )

    async def key(self, key_id: str) -> ApiKey | None:
        """Return a key, also one that is revoked or expired."""
        rows = await self._run(f"SELECT {_KEY_COLUMNS} FROM api_keys WHERE id = %s", (key_id,))
        return _key_of(rows[0]) if rows else None

    async def keys(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        rows = await self._run(f"SELECT {_KEY_COLUMNS} FROM api_keys ORDER BY created_ms, id")
        return [_key_of(row) for row in rows]

    async def end_key(self, key_id: str, at: datetime) -> None:
        """Let a key end at a time, unless it ends before."""
        await self._run(
            "UPDATE api_keys SET revoked_ms = least(revoked_ms, %s) WHERE id = %s",
            (millis(at), key_id),
        )

    async def note_key_used(self, key_id: str, at: datetime) -> None:
        """Remember when a key was last used."""
        await self._run("UPDATE api_keys SET used_ms = %s WHERE id = %s", (millis(at), key_id))

    # MCP sessions

    async def open_session(self, session: McpSession, at: datetime) -> None:
        """Store the session of a client that has just initialized."""
        client = json.dumps({"client_info": session.client_info, "capabilities": session.capabilities}).encode()
        await self._run(
            "INSERT INTO mcp_sessions (id, key_id, version, client, opened_ms, seen_ms)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (session.id, session.key_id, session.version, client, millis(at), millis(at)),
        )

    async def session(self, session_id: str) -> McpSession | None:
        """Return the session of an MCP client."""
        rows = await self._run("SELECT key_id, version, client FROM mcp_sessions WHERE id = %s", (session_id,))
        if not rows:
            return None
        key_id, version, client = rows[0]
        return McpSession(id=session_id, key_id=key_id, version=version, **json.loads(bytes(client)))

    async def close_session(self, session_id: str) -> None:
        """Remove the session of an MCP client."""
        await self._run("DELETE FROM mcp_sessions WHERE id = %s", (session_id,))

    async def note_sessions_used(self, session_ids: Iterable[str], at: datetime) -> None:
        """Remember when sessions last sent a request."""
        await self._run(
            "UPDATE mcp_sessions SET seen_ms = greatest(seen_ms, %s) WHERE id = ANY(%s)",
            (millis(at), sorted(session_ids)),
        )

    async def sessions_used_since(self, since: datetime) -> list[str]:
        """Return the ids of the sessions that sent a request since a time, at any replica."""
        return [row[0] for row in await self._run("SELECT id FROM mcp_sessions WHERE seen_ms >= %s", (millis(since),))]

    async def forget_sessions(self, before: datetime) -> None:
        """Remove sessions that sent their last request before a time."""
        await self._run("DELETE FROM mcp_sessions WHERE seen_ms < %s", (millis(before),))

    async def _run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        def work(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description is not None else []

        return await self._store.run(work)


def _key_of(row: tuple[Any, ...]) -> ApiKey:
    key_id, name, digest, scopes, *times = row
    created, expires, revoked, used = (None if ms is None else time_of_ms(ms) for ms in times)
    assert created is not None
    return ApiKey(
        id=key_id,
        name=name,
        hash=bytes(digest),
        scopes=frozenset(map(KeyScope, scopes)),
        created_at=created,
        expires_at=expires,
        revoked_at=revoked,
        used_at=used,
    )
