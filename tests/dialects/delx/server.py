"""A server of the delx tools: an app on a real file with a clock that tests move, and MCP clients that call it."""

import json
from dataclasses import dataclass
from typing import Any

from shiftlog.mcp.catalogue import registry_for
from shiftlog.mcp.server import build_server
from shiftlog.model.caller import Caller
from tests.journal.harness import Harness, client
from tests.mcp.wire import connected

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a tool call was answered with."""

    body: Answer
    texts: list[str]
    is_error: bool

    @property
    def data(self) -> Answer:
        """Return the data of a close or resume that worked."""
        assert not self.is_error, self.body
        assert self.body["ok"] is True
        return self.body["data"]

    @property
    def warnings(self) -> list[str]:
        """Return the codes of the warnings."""
        return [warning["code"] for warning in self.body["warnings"]]

    def refusal(self, code: str) -> Answer:
        """Return the details of an error, having checked its shape and code."""
        assert self.is_error, self.body
        assert (self.body["ok"], self.body["code"], self.body["status"]) == (False, code, code)
        assert self.body.keys() >= {
            "tool_name",
            "message",
            "hint",
            "retryable",
            "missing",
            "required",
            "fields",
            "error",
        }
        return self.body["details"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelxClient:
    """One client process and the calls it makes."""

    server: "DelxServer"
    caller: Caller

    async def say(self, tool: str, **arguments: Any) -> Said:
        """Call a tool over MCP and return what came back, having checked that both blocks say the same."""
        async with connected(self.server.server, caller=self.caller) as peer:
            answer = await peer.call(tool, arguments)
        assert "result" in answer, answer
        result = answer["result"]
        texts = [block["text"] for block in result["content"]]
        assert json.loads(texts[0]) == result["structuredContent"]
        return Said(body=result["structuredContent"], texts=texts, is_error=result["isError"])

    async def open(self, **arguments: Any) -> str:
        said = await self.say("open_session", **{"agent": "Codex", "title": "Fix the cache bug", **arguments})
        assert not said.is_error, said.body
        return said.body["session_id"]

    async def begin(self, session: str, title: str = "Find the bug", **arguments: Any) -> Said:
        return await self.say("begin_turn", session_id=session, query_title=title, query_text=title, **arguments)

    async def close(self, session: str, **arguments: Any) -> Said:
        return await self.say("close_session", session_id=session, **arguments)

    async def resume(self, agent_id: str = "Codex", **arguments: Any) -> Said:
        return await self.say("resume_session", agent_id=agent_id, **arguments)

    async def leave(self) -> None:
        """Close the connection, which lets the leases go."""
        await self.server.harness.app.continuity.client_gone(str(self.caller.client_id))


class DelxServer:
    """The app, its MCP server, and whoever comes in."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.server = build_server(registry_for(harness.app))

    def client(self, name: str = "one", **facts: Any) -> DelxClient:
        return DelxClient(server=self, caller=client(name, **facts))

    async def counts(self) -> dict[str, int]:
        """Count what is stored, but for the outcomes of calls, which every answered call leaves."""
        return {table: count for table, count in self.harness.rows().items() if table != "outcomes"}

    async def state(self, session: str) -> str:
        return str((await self.harness.session(session)).state)
