"""Random scripts of calls, as agents and people send them, and two ways to run one: the embedded store, and replicas.

Ids follow from the clock and from titles, so both give the same ones. Hashes, signatures, tokens and cursors hold
random or internal values; each side's are named in the order in which they first appear, and the names are compared.
"""

import json
import random
import re
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import httpx

from shiftlog.app.app import App, open_app
from shiftlog.mcp.catalogue import team_registry_for
from shiftlog.mcp.registry import Reply, Tool
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.web.live import Live
from shiftlog.web.routes import pages_to_look_at

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
CLIENTS = ("one", "two", "three", "four", None)
AGENTS = ("Codex", "Claude")
WORDS = "parser upload race naïve Straße empty-input src/app.py 0x1f foo_bar 日本 a % _".split()

PAGES = ("", "/entries", "/outline", "/handover", "/trust")
_PRIVATE = re.compile(r"slr1\.[\w.-]+|(?:sha256:)?\b[0-9a-f]{64}\b")
_PRIVATE_KEYS = frozenset({"cursor", "next_cursor", "signature"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a script: a tool, a page (`tool` is GET) or an event of the server, and the replica that gets it."""

    tool: str
    arguments: dict[str, Any]
    client: str | None
    replica: int
    after_s: float


class Side:
    """A journal with one or several apps over it, and the private values that it has shown."""

    def __init__(self, apps: list[App], clock: Path, present: set[str]) -> None:
        self._apps = apps
        self._clock = clock
        self._present = present
        self._tools = [{tool.name: tool for tool in team_registry_for(app).tools} for app in apps]
        pages = [pages_to_look_at(app, Live(app=app)) for app in apps]
        self._http = [httpx.AsyncClient(transport=httpx.ASGITransport(page), base_url="http://it") for page in pages]
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}

    async def aclose(self) -> None:
        for http in self._http:
            await http.aclose()

    async def run(self, call: Call, now: datetime) -> Any:
        """Run one call and return its answer with names for private values."""
        self._clock.write_text(now.isoformat(), encoding="utf-8")
        place = call.replica % len(self._apps)
        arguments = self._with_values(call.arguments)
        if call.tool == "GET":
            return await self._page(self._http[place], **arguments)
        if call.tool.startswith("event:"):
            return await self._event(self._apps[place], call)
        return await self._tool(self._tools[place][call.tool], arguments, call.client)

    async def _tool(self, tool: Tool, arguments: dict[str, Any], client: str | None) -> Any:
        caller = Caller(face="http", inside=None)
        if client is not None:
            self._present.add(f"http:{client}")
            caller = Caller(client_id=f"http:{client}", face="http", holds_leases=True, inside=None)
        try:
            answer = await tool.run(caller, tool.params.read(arguments) if tool.validates else arguments)
        except ShiftlogError as error:
            return self._named({"error": error.as_dict()})
        assert isinstance(answer, Reply)
        return self._named(answer.data)

    async def _page(self, http: httpx.AsyncClient, *, address: str, **query: str) -> Any:
        answer = await http.get(address, params=query)
        return self._named([answer.status_code, answer.json()])

    async def _event(self, app: App, call: Call) -> Any:
        client = f"http:{call.client}"
        if call.tool == "event:gone":
            self._present.discard(client)
            return await app.continuity.client_gone(client)
        if call.tool == "event:renew":
            return await app.continuity.renew(sorted(self._present))
        return await app.sweep(sorted(self._present))

    def _named(self, answer: Any, key: str = "") -> Any:
        if isinstance(answer, Mapping):
            given = cast("Mapping[str, Any]", answer)
            return {name: self._named(value, name) for name, value in given.items() if not name.startswith("bytes")}
        if isinstance(answer, list | tuple):
            return [self._named(value) for value in cast("list[Any]", answer)]
        if not isinstance(answer, str):
            return answer
        if key in _PRIVATE_KEYS and answer:
            return self._name(answer)
        return _PRIVATE.sub(lambda found: self._name(found[0]), answer)

    def _name(self, value: str) -> str:
        name = self._names.setdefault(value, f"<private {len(self._names)}>")
        self._values[name] = value
        return name

    def _with_values(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._values.get(value, value) if isinstance(value, str) else value
            for name, value in arguments.items()
        }


@asynccontextmanager
async def open_side(folder: Path, keys: Path, url: str | None, replicas: int) -> AsyncGenerator[Side]:
    """Open apps as a team's server does, each with a home of its own and the same keys, over one store."""
    clock, present = folder / "clock", set[str]()
    folder.mkdir()
    clock.write_text(NOON.isoformat(), encoding="utf-8")
    environ = {"SHIFTLOG_TEST": "1", "SHIFTLOG_NOW": f"@{clock}", "SHIFTLOG_DURABILITY": "process"}
    environ |= {} if url is None else {"SHIFTLOG_STORE_URL": url}
    async with AsyncExitStack() as stack:
        apps: list[App] = []
        for number in range(replicas):
            home = folder / str(number)
            home.mkdir(mode=0o700)
            (home / "keys").symlink_to(keys)
            connected = cast("Any", lambda: frozenset(present))
            apps.append(await stack.enter_async_context(open_app(home, environ, connected=connected, for_team=True)))
        side = Side(apps, clock, present)
        stack.push_async_callback(side.aclose)
        yield side


@dataclass(slots=True)
class Script:
    """Draws calls, most of which name sessions and turns that earlier answers told of."""

    random: random.Random
    sessions: list[str] = field(default_factory=list[str])
    turns: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    tokens: list[str] = field(default_factory=list[str])
    cursors: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    writers: dict[str, str | None] = field(default_factory=dict[str, str | None])
    count: int = 0

    def draw(self) -> Call:
        self.count += 1
        pick = self.random
        often = {
            self._open: 8,
            self._resume: 8,
            self._close: 5,
            self._begin: 16,
            self._update: 22,
            self._finish: 8,
            self._query: 14,
            self._page: 10,
            self._event: 3,
            self._dialect: 12,
            self._more: 3,
        }
        tool, arguments = pick.choices(list(often), list(often.values()))[0]()
        after = pick.choice((0.0, 1.0, 3.0, 47.0)) if pick.random() < 0.98 else pick.choice((130.0, 6_000.0, 90_000.0))
        return Call(
            tool=tool,
            arguments={name: value for name, value in arguments.items() if value is not None},
            client=self._client(arguments),
            replica=pick.randrange(2),
            after_s=after,
        )

    def _client(self, arguments: Mapping[str, Any]) -> str | None:
        """Draw a client, mostly the one that wrote the session last."""
        last = self.writers.get(str(arguments.get("session_id") or arguments.get("sessionId")), None)
        return last if last is not None and self.random.random() < 0.7 else self.random.choice(CLIENTS)

    def learn(self, call: Call, answer: Any) -> None:
        """Take what an answer names into later calls."""
        if not isinstance(answer, dict):
            return
        told = cast("dict[str, Any]", answer)
        data: dict[str, Any] = told.get("data") or {}
        for name in (told.get("session_id"), data.get("resumed_session_id"), told.get("sessionId")):
            if isinstance(name, str) and name not in self.sessions:
                self.sessions.append(name)
        if (token := data.get("recovery_token")) is not None:
            self.tokens.append(token)
        turn = told.get("request_id") or told.get("requestId")
        session = call.arguments.get("session_id") or call.arguments.get("sessionId") or told.get("session_id")
        if "error" not in told and session and call.tool != "query_history":
            self.writers[session] = call.client
        if turn and session:
            self.turns.append((session, turn))
        if told.get("next_cursor"):
            self.cursors.append({**call.arguments, "cursor": told["next_cursor"]})

    # Arguments

    def _words(self, most: int = 6) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, most)))

    def _maybe(self, value: Any, chance: float = 0.5) -> Any:
        return value if self.random.random() < chance else None

    def _session(self) -> str:
        recent = self.sessions[-12:]
        return self.random.choice(recent) if recent and self.random.random() < 0.97 else "Codex-20200101T000000Z-none"

    def _turn(self) -> tuple[str, str | None]:
        recent = self.turns[-12:]
        if not recent or self.random.random() < 0.4:
            return self._session(), None
        session, turn = self.random.choice(recent)
        return (session, turn) if self.random.random() < 0.95 else (self._session(), turn)

    def _key(self) -> str | None:
        return self._maybe(f"key-{self.random.randrange(self.count // 3 + 1)}", 0.25)

    def _agent_id(self) -> str:
        return self.random.choice(("alpha", "beta", "gamma"))

    # Calls

    def _open(self) -> tuple[str, dict[str, Any]]:
        asked = {
            "agent": self.random.choice(AGENTS),
            "title": self._words(3),
            "agent_id": self._maybe(self._agent_id(), 0.8),
            "model": self._maybe("m-1"),
            "parent_session_id": self._maybe(self._session(), 0.1),
            "exclusive": self._maybe(value=True, chance=0.1),
            "idempotency_key": self._key(),
        }
        return "open_session", asked

    def _resume(self) -> tuple[str, dict[str, Any]]:
        asked = {
            "agent_id": self._maybe(self._agent_id(), 0.95),
            "session_id": self._maybe(self._session(), 0.6),
            "on_held": self._maybe(self.random.choice(("refuse", "take_over", "fork", "read_only"))),
            "recovery_token": self._maybe(self.random.choice(self.tokens[-5:]), 0.3) if self.tokens else None,
            "idempotency_key": self._key(),
        }
        return "resume_session", asked

    def _close(self) -> tuple[str, dict[str, Any]]:
        policies = ("successor_allowed", "successor_required", "closed_without_successor")
        capsule: dict[str, Any] = {"version": 1, "goal": self._words(), "next": [self._words()]}
        capsule |= {"handoff_to": self._agent_id()} if self.random.random() < 0.5 else {}
        asked = {
            "session_id": self._session(),
            "reason": self._maybe("end"),
            "succession_policy": self._maybe(self.random.choice(policies)),
            "capsule": self._maybe(capsule),
            "idempotency_key": self._key(),
        }
        return "close_session", asked

    def _begin(self) -> tuple[str, dict[str, Any]]:
        asked = {
            "session_id": self._session(),
            "query_title": self._words(3),
            "query_text": self._words(20),
            "idempotency_key": self._key(),
        }
        return "begin_turn", asked

    def _update(self) -> tuple[str, dict[str, Any]]:
        session, turn = self._turn()
        asked = {
            "session_id": session,
            "request_id": turn,
            "response": self._maybe(self._words(40), 0.3),
            "design_decisions": self._maybe([self._words()], 0.3),
            "files_modified": self._maybe([self.random.choice(("src/app.py", "src/b.py", "README"))], 0.4),
            "next": self._maybe([self._words()], 0.3),
            "blockers": self._maybe([self._words()], 0.2),
            "actions": self._maybe([{"description": self._words(), "type": "edit", "status": "completed"}], 0.4),
            "usage": self._maybe({"input_tokens": self.random.randrange(500), "output_tokens": 7}, 0.3),
            "fence": self._maybe(self.random.randint(1, 4), 0.1),
            "idempotency_key": self._key(),
        }
        return "update_turn", asked

    def _finish(self) -> tuple[str, dict[str, Any]]:
        session, turn = self._turn()
        outcome = self.random.choice(("completed", "failed"))
        asked = {
            "session_id": session,
            "request_id": turn,
            "outcome": outcome,
            "response": self._words(10) if outcome == "completed" else None,
            "error_message": self._words() if outcome == "failed" else None,
        }
        return "finish_turn", asked

    def _query(self) -> tuple[str, dict[str, Any]]:
        session, turn = self._turn()
        session = self._maybe(session, 0.4)
        text = self._maybe(self._words(2))
        asked = {
            "session_id": session,
            "request_id": turn if session else None,
            "text": text,
            "agent": self._maybe(self.random.choice(AGENTS), 0.2),
            "agent_id": self._maybe(self._agent_id(), 0.2),
            "path": self._maybe("src/app.py", 0.1),
            "from": self._maybe((NOON + timedelta(hours=self.random.randrange(200))).isoformat(), 0.1),
            # Ranking may differ, so what is searched is answered whole.
            "limit": self._maybe(self.random.randint(1, 5), 0.3) if text is None else 100,
            "max_chars": None if text is None else 200_000,
        }
        return "query_history", asked

    def _more(self) -> tuple[str, dict[str, Any]]:
        """Ask for the next page of an earlier answer."""
        return ("query_history", self.random.choice(self.cursors[-5:])) if self.cursors else self._query()

    def _page(self) -> tuple[str, dict[str, Any]]:
        one = f"/sessions/{self._session()}{self.random.choice(PAGES)}.json"
        every = ("/sessions.json", "/now.json", "/usage.json", "/files.json", "/decisions.json", "/projects.json")
        address = self.random.choice((one, one, *every))
        asked: dict[str, Any] = {"address": address}
        if address == "/sessions.json":
            asked["q"] = self._maybe(self._words(2))
        if address == "/files.json":
            asked["path"] = "src/app.py"
        return "GET", asked

    def _event(self) -> tuple[str, dict[str, Any]]:
        return f"event:{self.random.choice(('gone', 'renew', 'sweep'))}", {}

    def _dialect(self) -> tuple[str, dict[str, Any]]:
        session, turn = self._turn()
        agent = session.split("-", 1)[0]
        named: dict[str, Any] = {"agent": agent, "sessionId": session}
        new, begun = f"Codex-20260701T080000Z-n{self.count}", f"req-20260701T080000Z-n{self.count}"
        turn = turn or begun
        items = json.dumps([{"role": "model", "category": "reasoning", "content": self._words()}])
        return self.random.choice(
            (
                ("sessionlog_open", {"agent": agent, "sessionId": new, "title": self._words(3)}),
                ("sessionlog_begin_turn", {**named, "requestId": begun, "queryTitle": "x", "queryText": self._words()}),
                ("sessionlog_dialog", {**named, "requestId": turn, "itemsJson": items}),
                ("sessionlog_complete_turn", {**named, "requestId": turn, "turnJson": {"response": self._words()}}),
                ("sessionlog_replace_section", {**named, "requestId": turn, "section": "tags", "sectionJson": '["t"]'}),
                ("sessionlog_delete_turn", {**named, "requestId": turn}),
                ("sessionlog_query", {"text": self._maybe(self._words(1)), "limit": self.random.randint(1, 9)}),
                ("nexo_session_log_create", {"caller": "deep_sleep", "backend": "codex", "title": self._words(2)}),
                ("nexo_session_log_close", {"session_id": session, "returncode": 0, "input_tokens": 5}),
            )
        )


def compared(answer: Any, asked: Collection[str]) -> Any:
    """Return what must be the same: of a search the set, since ranking and so the best place of a hit may differ."""
    if not {"text", "q"} & set(asked):
        return answer
    if isinstance(answer, list):
        return [compared(each, asked) for each in cast("list[Any]", answer)]
    if not isinstance(answer, dict):
        return answer
    told = cast("dict[str, Any]", answer)
    if "items" not in told:
        return told
    if told.get("total", 0) > len(told["items"]):  # only the best are shown
        return [told["total"], len(told["items"])]
    return {**told, "items": sorted(json.dumps(_unranked(item)) for item in told["items"])}


def _unranked(item: dict[str, Any]) -> dict[str, Any]:
    apart = ("score", "snippet") if item.get("kind") == "entry" else ("score", "snippet", "seq", "request_id", "hit")
    return {name: value for name, value in item.items() if name not in apart}
