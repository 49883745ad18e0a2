"""Random days of several agents and clients, held against the model of `continuity_model`.

Clients open, write, finish, close, resume, repeat, take over, hand over, leave and come back; the clock jumps both
ways, sweeps run, and the server stops. After each step every session must stand as the model says.
"""

import asyncio
import random
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.store.protocol import Reader
from tests.journal.harness import Harness, client, open_harness
from tests.property.continuity_model import AFTER_CLOSE, FINAL, KEY_KEPT, Model, ModelSession, Refused

STEPS = (8, 40)
JUMPS = (timedelta(minutes=3), timedelta(minutes=100), timedelta(hours=20), -timedelta(hours=1), -timedelta(minutes=5))
FINAL_CODES = ("session_sealed", "session_succeeded")
PERSON = Caller(face="cli", operator=True)


@dataclass
class Server:
    """The product under test; it can be stopped and started."""

    home: Path
    connected: set[str] = field(default_factory=set[str])
    harness: Harness = field(init=False)

    async def start(self) -> None:
        self._opening = open_harness(self.home, connected=lambda: frozenset(self.connected))
        self.harness = await self._opening.__aenter__()

    async def stop(self) -> None:
        await self._opening.__aexit__(None, None, None)


@asynccontextmanager
async def running() -> AsyncGenerator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "home")
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


class Sequence:
    """One random day; its agents, clients and places are its own."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.seed = server, seed
        self.random = random.Random(seed)
        self.model = Model(server.harness.now())
        self.model.connected = server.connected
        server.connected.clear()
        self.agents = [f"alpha-{seed}", f"beta-{seed}"]
        self.clients = [f"client-{name}-{seed}" for name in "abcd"]
        self.places = [f"/place/{seed}/x", f"/place/{seed}/y"]
        self.tokens: dict[str, str] = {}
        self.keys: dict[str, tuple[dict[str, Any], str, datetime]] = {}
        self.trace: list[str] = []

    async def run(self) -> None:
        steps: list[Callable[[], Awaitable[None]]] = [
            *[self.open] * 3,
            *[self.begin] * 6,
            *[self.finish] * 4,
            *[self.close] * 3,
            *[self.resume] * 5,
            *[self.repeat] * 3,
            *[self.offer, self.accept, self.accept],
            *[self.leave] * 2,
            *[self.come] * 2,
            *[self.jump] * 3,
            *[self.sweep] * 3,
        ]
        await self.open()
        for _ in range(self.random.randint(*STEPS)):
            self._move(timedelta(seconds=self.random.randint(1, 30)))
            if self.random.random() < 0.01:
                await self.restart()
            await self.random.choice(steps)()
            await self.check()
        await self._end()

    # What happens

    async def open(self) -> None:
        who, agent, place = self._client(), self.random.choice(self.agents), self.random.choice(self.places)
        given = {"agent": "Codex", "title": "Work", "agent_id": agent}
        said = await self._call("open_session", given, who, place)
        assert not isinstance(said, ShiftlogError), self._told(said)
        wanted = self.model.predecessors(who, agent, place)
        named = said["predecessor"]["session_id"] if said["predecessor"] else None
        assert named in wanted or not (named or wanted), self._told(f"{said}\n should name one of {wanted}")
        self.model.opened(said["session_id"], who, agent, place)

    async def begin(self) -> None:
        who, session = self._client(), self._session()
        given = {"session_id": session.name, "query_title": "x", "query_text": "x"}
        said = await self._expected("begin_turn", given, who, lambda: self.model.check_begin(session, who))
        if said is not None:
            self.model.begun(session, who, said["request_id"])

    async def finish(self) -> None:
        who, session = self._client(), self._session()
        given = {"session_id": session.name, "outcome": "completed", "response": "x"}
        meant: list[str] = []
        said = await self._expected("finish_turn", given, who, lambda: meant.append(self.model.finish(session, who)))
        assert said is None or [said["request_id"]] == meant, self._told(said)

    async def close(self) -> None:
        who, session = self._client(), self._session()
        policy, take_over = self.random.choice([*AFTER_CLOSE, "successor_allowed"]), self.random.random() < 0.3
        given: dict[str, Any] = {"session_id": session.name, "succession_policy": policy}
        if take_over:
            given["on_held"] = "take_over"
        status: list[str] = []
        said = await self._expected(
            "close_session",
            given,
            who,
            lambda: status.append(self.model.close(session, who, policy, take_over=take_over)),
        )
        assert said is None or [said["status"]] == status, self._told(said)
        if said is not None:
            self.tokens.pop(session.name, None)

    async def resume(self) -> None:
        who, agent, place = self._client(), self.random.choice(self.agents), self.random.choice(self.places)
        given: dict[str, Any] = {"agent_id": agent}
        take_over = self.random.random() < 0.3
        if take_over:
            given["on_held"] = "take_over"
        if self.random.random() < 0.4:
            given["session_id"] = self._session().name
        if self.random.random() < 0.3:
            given["idempotency_key"] = f"key-{len(self.trace)}-{self.seed}"
        said = await self._call("resume_session", given, who, place)
        name = self._taken(said)
        wanted = [str(given["session_id"])] if "session_id" in given else self.model.last(who, agent, place)
        if wanted and wanted != [FINAL]:
            name = name if name in wanted else wanted[0]
            refused = refusal(lambda: self.model.resume(self.model.sessions[name], who, agent, take_over=take_over))
        else:
            refused = FINAL if wanted else "no_resumable_session"
        code = said.code if isinstance(said, ShiftlogError) else None
        assert code == refused or (refused == FINAL and code in FINAL_CODES), self._told(
            f"{said}\n should be {refused}"
        )
        if isinstance(said, ShiftlogError):
            return
        data = said["data"]
        session = self.model.sessions[name]
        assert (data["resumed_session_id"], data["lease"]["fence"]) == (name, session.fence), self._told(said)
        self.tokens.pop(name, None)
        if "idempotency_key" in given:
            self.keys[given["idempotency_key"]] = (given, name, self.model.now)

    def _taken(self, said: dict[str, Any] | ShiftlogError) -> str:
        """Return the session that a resume took, or would have taken."""
        if not isinstance(said, ShiftlogError):
            return str(said["data"]["resumed_session_id"])
        candidates: Any = said.details.get("candidates") or [{"session_id": said.details.get("session_id")}]
        return str(candidates[0]["session_id"])

    async def repeat(self) -> None:
        if not self.keys:
            return
        key = self.random.choice(sorted(self.keys))
        given, name, first_at = self.keys[key]
        if self.model.now - first_at >= KEY_KEPT:
            del self.keys[key]
            return
        who, session = self._client(), self.model.sessions[name]
        said = await self._expected("resume_session", given, who, lambda: self.model.repeat(session, who))
        if said is not None:
            assert said["data"]["lease"]["fence"] == session.fence, self._told(said)
            self.tokens.pop(name, None)

    async def offer(self) -> None:
        session = self._session()
        to = next(agent for agent in self.agents if agent != session.agent)
        given = {"session_id": session.name, "agent_id": to, "on_held": "take_over"}
        said = await self._expected("offer", given, None, lambda: self.model.offer(session, to))
        if said is not None:
            self.tokens[session.name] = said["recovery_token"]

    async def accept(self) -> None:
        offered = [name for name in self.tokens if self.model.sessions[name].offered_to]
        if not offered:
            return
        who, place = self._client(), self.random.choice(self.places)
        session = self.model.sessions[self.random.choice(offered)]
        given = {"agent_id": session.offered_to, "recovery_token": self.tokens.pop(session.name)}
        said = await self._call("resume_session", given, who, place)
        assert not isinstance(said, ShiftlogError), self._told(said)
        self.model.accept(session, who, said["data"]["resumed_session_id"], place)

    async def leave(self) -> None:
        who = self.random.choice(self.clients)
        self.trace.append(f"leave {who}")
        self.model.gone(who)
        await self.server.harness.app.continuity.client_gone(who)

    async def come(self) -> None:
        await self._connect(self.random.choice(self.clients))

    async def _connect(self, who: str) -> None:
        self.trace.append(f"come {who}")
        self.model.connected.add(who)
        self.model.renew({who})
        await self.server.harness.app.continuity.renew([who])

    async def jump(self) -> None:
        by = self.random.choice(JUMPS)
        self.trace.append(f"jump {by}")
        self._move(by)

    async def sweep(self) -> None:
        self.trace.append("sweep")
        self.model.sweep()
        await self.server.harness.app.sweep(sorted(self.model.connected))

    async def restart(self) -> None:
        """The server stops; some of its clients come back."""
        self.trace.append("restart")
        were = sorted(self.model.connected)
        self.model.connected.clear()
        await self.server.stop()
        await self.server.start()
        for who in were:
            if self.random.random() < 0.7:
                await self._connect(who)

    # What must be so

    async def check(self) -> None:
        def work(reader: Reader) -> dict[str, tuple[object, ...]]:
            return {name: stands(reader, name) for name in self.model.sessions}

        seen = await self.server.harness.read(work)
        for name, session in self.model.sessions.items():
            holder = session.lease.client if session.lease else None
            wanted = (session.state, session.fence, session.active, session.turns, holder)
            assert seen[name] == wanted, self._told(f"{name}\n stands as {seen[name]}\n should be {wanted}")

    async def _expected(
        self, tool: str, given: dict[str, Any], who: str | None, model: Callable[[], object]
    ) -> dict[str, Any] | None:
        """Call a tool; return its answer if the model accepts the call, None if both refuse it alike."""
        said = await self._call(tool, given, who, self.places[0])
        refused = refusal(model)
        code = said.code if isinstance(said, ShiftlogError) else None
        assert code == refused, self._told(f"{said}\n should be {refused}")
        return None if isinstance(said, ShiftlogError) else said

    async def _call(
        self, tool: str, given: dict[str, Any], who: str | None, place: str
    ) -> dict[str, Any] | ShiftlogError:
        self.trace.append(f"{self.model.now:%d %H:%M:%S} {who} {tool} {given} in {place}")
        if who is not None and who not in self.model.connected and self.random.random() < 0.6:
            await self._connect(who)
        caller = PERSON if who is None else client(client_id=who, pid=None, cwd=place, workspace=place)
        try:
            return await self.server.harness.call(tool, given, caller)
        except ShiftlogError as error:
            return error

    def _move(self, by: timedelta) -> None:
        self.model.now += by
        self.server.harness.set_time(self.model.now)

    def _client(self) -> str:
        return self.random.choice(self.clients)

    def _session(self) -> ModelSession:
        return self.model.sessions[self.random.choice(list(self.model.sessions))]

    def _told(self, said: object) -> str:
        error = said.as_dict() if isinstance(said, ShiftlogError) else said
        return "\n".join((f"seed {self.seed}", *self.trace, str(error)))

    async def _end(self) -> None:
        """Leave nothing open, so that the next sequence has no leases to look through."""
        for session in self.model.sessions.values():
            if session.is_live:
                given = {"session_id": session.name, "on_held": "take_over"}
                await self.server.harness.call("close_session", given, PERSON)


def stands(reader: Reader, name: str) -> tuple[object, ...]:
    """Return how a session stands, as the model has it."""
    session, lease = reader.session(name), reader.lease(name)
    assert session is not None
    turns = {turn.request_id: str(turn.status).replace("in_progress", "open") for turn in reader.turns(name)}
    return str(session.state), session.fence, session.last_activity, turns, lease.client_id if lease else None


def refusal(model: Callable[[], object]) -> str | None:
    """Let the model act; return the code with which it refuses, None if it does not."""
    try:
        model()
    except Refused as refused:
        return str(refused)
    return None


def run_sequences(seeds: range) -> None:
    """Run sequences one after another on a server that lasts for a hundred of them."""

    async def all_of_them() -> None:
        for first in range(seeds.start, seeds.stop, 100):
            async with running() as server:
                for seed in range(first, min(first + 100, seeds.stop)):
                    await Sequence(server, seed).run()

    asyncio.run(all_of_them())


def test_any_day_of_agents_and_clients_agrees_with_the_model() -> None:
    first = random.randrange(10**9)
    run_sequences(range(first, first + 40))


@pytest.mark.soak
def test_ten_thousand_days_agree_with_the_model() -> None:
    run_sequences(range(10_000))
