"""The state that replicas of a team's server share besides the journal: API keys, MCP sessions, and news of changes.

`open_team` needs an app over PostgreSQL.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from shiftlog.app.api_keys import ApiKeys
from shiftlog.app.app import App
from shiftlog.app.stores import needs_database
from shiftlog.model.limits import HTTP_CLIENT_KEPT_S, MCP_SESSION_KEPT, PAGE_CATCH_UP_S, PAGE_POLL_S
from shiftlog.model.team import McpSession
from shiftlog.store.postgres.changes import ChangeListener
from shiftlog.store.postgres.store import PostgresStore
from shiftlog.store.postgres.team import TeamTables


class ChangeNews:
    """News of changed sessions from every process on the database, for streams that wait for them."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = ChangeListener(url, self._heard)
        self._waiting: dict[asyncio.Event, str | None] = {}

    @property
    def look_every_s(self) -> float:
        """Return the seconds between two looks that a stream takes by itself; they are rare while news arrive."""
        return PAGE_CATCH_UP_S if self._listener.is_hearing else PAGE_POLL_S

    @property
    def is_hearing(self) -> bool:
        """Return True if news arrive at present."""
        return self._listener.is_hearing

    @contextmanager
    def watched(self, session_id: str | None) -> Generator[asyncio.Event]:
        """Return an event that each change of a session, or of any session, sets; its user clears it."""
        event = asyncio.Event()
        self._waiting[event] = session_id
        try:
            yield event
        finally:
            del self._waiting[event]

    def start(self) -> None:
        """Begin to listen."""
        self._listener.start()

    async def aclose(self) -> None:
        """Stop listening."""
        await asyncio.to_thread(self._listener.finish)

    def _heard(self, ids: frozenset[str] | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._wake, ids)
        except RuntimeError:
            pass  # the loop was closed: no stream is left

    def _wake(self, ids: frozenset[str] | None) -> None:
        for event, wanted in self._waiting.items():
            if ids is None or wanted is None or wanted in ids:
                event.set()


class McpSessions:
    """The sessions of MCP clients of the older revision, kept where every replica finds them."""

    def __init__(self, app: App, tables: TeamTables) -> None:
        self._clock = app.clock
        self._continuity = app.continuity
        self._tables = tables
        self._used: set[str] = set()

    async def open(self, session: McpSession) -> None:
        """Keep the session of a client that has just initialized."""
        await self._tables.open_session(session, self._clock.now())

    async def find(self, session_id: str) -> McpSession | None:
        """Return a session, and note that its client is there."""
        session = await self._tables.session(session_id)
        if session is not None:
            self._used.add(session_id)
        return session

    async def close(self, session_id: str) -> None:
        """Remove a session and let the leases of its client end."""
        self._used.discard(session_id)
        await self._tables.close_session(session_id)
        await self._continuity.client_gone(client_id(session_id))

    async def present(self) -> list[str]:
        """Store which clients sent requests here, and return those with a recent request at any replica."""
        used, self._used, now = self._used, set(), self._clock.now()
        if used:
            await self._tables.note_sessions_used(used, now)
        recent = await self._tables.sessions_used_since(now - timedelta(seconds=HTTP_CLIENT_KEPT_S))
        return [client_id(name) for name in recent]

    async def forget_old(self) -> None:
        """Remove sessions whose clients did not come back."""
        await self._tables.forget_sessions(self._clock.now() - MCP_SESSION_KEPT)


def client_id(session_id: str) -> str:
    """Return the client id under which leases know an MCP session."""
    return f"http:{session_id}"


class Team:
    """The state that the replicas of a team's server share."""

    def __init__(self, app: App) -> None:
        self.store = _database(app)
        self.keys = api_keys(app)
        self.mcp_sessions = McpSessions(app, TeamTables(self.store))
        self.changes = ChangeNews(app.config.store.direct_url or app.config.store.url)


def api_keys(app: App) -> ApiKeys:
    """Return the API keys of the app's database; raise ConfigError for an app with the embedded store."""
    seal = hashlib.sha256(b"shiftlog-team-seal-v1\n" + app.keys.private.private_bytes_raw()).digest()
    return ApiKeys(TeamTables(_database(app)), app.clock, seal)


def _database(app: App) -> PostgresStore:
    if not isinstance(app.store, PostgresStore):
        raise needs_database(app.home)
    return app.store


@asynccontextmanager
async def open_team(app: App) -> AsyncGenerator[Team]:
    """Open what replicas share, and listen for changes; raise ConfigError for an app with the embedded store."""
    team = Team(app)
    team.changes.start()
    try:
        yield team
    finally:
        await team.changes.aclose()
