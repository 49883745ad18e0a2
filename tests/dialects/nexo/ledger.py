"""A client of the ledger: the dialect's two tools as they answer over real lines, and the rows that they leave."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.registry import Selection
from shiftlog.mcp.server import build_server
from shiftlog.model.nouns import Run, Session
from tests.journal.harness import Harness, client
from tests.mcp.wire import REVISIONS, Peer, connected

CREATE, CLOSE = "nexo_session_log_create", "nexo_session_log_close"
LEAST = {"caller": "desktop_new_session", "backend": "claude_code"}

Said = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Ledger:
    """One connection that serves the dialect, over the app of a harness."""

    harness: Harness
    peer: Peer

    async def create(self, **arguments: Any) -> Said:
        """Create a row, a plain one unless arguments say otherwise."""
        return await self._ok(CREATE, LEAST | arguments)

    async def close(self, session_id: object, **figures: Any) -> Said:
        return await self._ok(CLOSE, {"session_id": session_id, **figures})

    async def refused_create(self, **arguments: Any) -> Said:
        return await self._refused(CREATE, LEAST | arguments)

    async def refused_close(self, session_id: object, **figures: Any) -> Said:
        return await self._refused(CLOSE, {"session_id": session_id, **figures})

    async def _ok(self, tool: str, arguments: Said) -> Said:
        result = await self._call(tool, arguments)
        said = result["structuredContent"]
        assert result["isError"] is False, said
        assert said["ok"] is True
        return said

    async def _refused(self, tool: str, arguments: Said) -> Said:
        """Return what a refused call says, having checked its shape and that nothing was stored."""
        before = self.harness.rows()
        result = await self._call(tool, arguments)
        said = result["structuredContent"]
        assert result["isError"] is True, said
        assert list(said) == ["ok", "error", "code", "session_id"]
        assert (said["ok"], said["session_id"]) == (False, None)
        assert self.harness.rows() == before, "a refused call stored something"
        return said

    async def _call(self, tool: str, arguments: Said) -> Said:
        result: Said = (await self.peer.call(tool, arguments))["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result

    async def session(self, session_id: object) -> Session:
        """Return the session of a row by the integer that the client keeps."""
        assert isinstance(session_id, int)
        name = await self.harness.read(lambda reader: reader.session_id_of_alias(session_id))
        assert name is not None
        return await self.harness.session(name)

    async def run(self, session_id: object) -> Run:
        run = (await self.session(session_id)).run
        assert run is not None
        return run

    async def rows(self) -> int:
        return await self.harness.read(lambda reader: reader.counts().sessions)


@asynccontextmanager
async def open_ledger(harness: Harness, name: str = "desktop", revision: str = REVISIONS[0]) -> AsyncGenerator[Ledger]:
    """Connect a client to the dialect over a harness."""
    server = build_server(registry_for(harness.app), Selection(dialects=("nexo",)))
    async with connected(server, revision, client(name, cwd="/somewhere/of/the/client")) as peer:
        yield Ledger(harness=harness, peer=peer)
