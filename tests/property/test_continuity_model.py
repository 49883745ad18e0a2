"""Random days of several agents and clients, held against the model of `continuity_model`.

Clients open, write, finish, close, resume with and without tokens, repeat, take over, fork, leave and come back;
sessions are offered, accepted, declined, revoked and forgotten; the clock jumps both ways, sweeps run, and the server
stops. After each step every session must stand as the model says, and each token must do what it says, old ones too.
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

from shiftlog.journal.last_session import without_expired_offer
from shiftlog.model.caller import Caller
from shiftlog.model.errors import ShiftlogError
from shiftlog.store.protocol import Reader
from tests.journal.harness import Harness, client, open_harness
from tests.property.continuity_model import AFTER_CLOSE, FINAL, KEY_KEPT, Model, ModelSession, ModelToken, Refused

STEPS = (8, 40)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
JUMPS = (3 * MINUTE, 3 * MINUTE, 100 * MINUTE, 20 * 60 * MINUTE, -60 * MINUTE, -5 * MINUTE, 13 * DAY, 31 * DAY)
# A client that holds nothing is forgotten after a hundred days.
LONGEST = 90 * DAY
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


@dataclass
class Kept:
    """A resume that can be repeated by its key: what was asked, what it gave and when."""

    given: dict[str, Any]
    session: str
    at: datetime
    token: ModelToken | None


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
        # Every token that was ever shown, and what the model knows of it.
        self.tokens: list[tuple[str, ModelToken]] = []
        self.keys: dict[str, Kept] = {}
        self.ends = self.model.now + LONGEST
        self.trace: list[str] = []

    async def run(self) -> None:
        steps: list[Callable[[], Awaitable[None]]] = [
            *[self.open] * 3,
            *[self.begin] * 6,
            *[self.finish] * 4,
            *[self.close] * 3,
            *[self.resume] * 5,
            *[self.repeat] * 3,
            *[self.resume_with_a_token] * 4,
            *[self.offer] * 3,
            *[self.decline, self.revoke, self.reissue],
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
        heir = self.random.choice([None, None, *self.agents])
        given: dict[str, Any] = {"session_id": session.name, "succession_policy": policy}
        given |= {"capsule": {"version": 1, "handoff_to": heir}} if heir else {}
        given |= {"on_held": "take_over"} if take_over else {}
        status: list[str] = []
        said = await self._expected(
            "close_session",
            given,
            who,
            lambda: status.append(self.model.close(session, who, policy, take_over=take_over, heir=heir)),
        )
        assert said is None or [said["status"]] == status, self._told(said)
        if status == ["closed"] and said is not None:
            self._note(said["data"], session)

    async def resume(self) -> None:
        agent = self.random.choice(self.agents)
        given: dict[str, Any] = {"agent_id": agent}
        if self.random.random() < 0.4:
            given["session_id"] = self._session().name
        if self.random.random() < 0.3:
            given["idempotency_key"] = f"key-{len(self.trace)}-{self.seed}"
        await self._resume(given, None)

    async def resume_with_a_token(self) -> None:
        if not self.tokens:
            return
        text, token = self.random.choice(self.tokens[-4:])
        agent = self.random.choice([token.agent or self.agents[0], token.agent or self.agents[0], *self.agents])
        given: dict[str, Any] = {"agent_id": agent, "recovery_token": text}
        if self.random.random() < 0.2:
            given["session_id"] = self._session().name
        await self._resume(given, token)

    async def _resume(self, given: dict[str, Any], token: ModelToken | None) -> None:
        who, agent, place = self._client(), str(given["agent_id"]), self.random.choice(self.places)
        on_held = self.random.choice(["refuse", "refuse", "refuse", "take_over", "fork", "read_only"])
        given = {**given, "on_held": on_held}
        said = await self._call("resume_session", given, who, place)
        named = given.get("session_id")
        wanted = [token.session] if token else [named] if named else self.model.last(who, agent, place)
        hows: list[str] = []
        name = self._taken(said, wanted)
        refused = FINAL if wanted == [FINAL] else "no_resumable_session"
        if name is not None:
            session = self.model.sessions[name]
            refused = refusal(lambda: hows.append(self.model.resume(session, who, agent, on_held, token, named)))
        code = said.code if isinstance(said, ShiftlogError) else None
        assert code == refused or (refused == FINAL and code in FINAL_CODES), self._told(
            f"{said}\n should be {refused}"
        )
        if name is None or isinstance(said, ShiftlogError):
            return
        data = said["data"]
        assert data["attested"] is (token is not None), self._told(said)
        if hows == ["read_only"]:
            assert (data["resume_mode"], data["lease"], data["recovery_token"]) == ("read_only", None, None)
            return
        session, resumed = self.model.sessions[name], str(data["resumed_session_id"])
        if hows == ["forked"]:
            assert data["predecessor_session_id"] == name != resumed, self._told(said)
            self.model.fork(session, who, agent, resumed, place, beside=session.is_live)
        issued = self._note(data, self.model.sessions[resumed])
        assert data["lease"]["fence"] == self.model.sessions[resumed].fence, self._told(said)
        if "idempotency_key" in given:
            self.keys[given["idempotency_key"]] = Kept(given, resumed, self.model.now, issued)

    def _taken(self, said: dict[str, Any] | ShiftlogError, wanted: list[str]) -> str | None:
        """Return the session that a resume took, or would have taken, of those that it may take."""
        if not wanted or wanted == [FINAL]:
            return None
        if not isinstance(said, ShiftlogError):
            data = said["data"]
            taken = data["predecessor_session_id"] if data["resume_mode"] == "forked" else data["resumed_session_id"]
        else:
            candidates: Any = said.details.get("candidates") or [{"session_id": said.details.get("session_id")}]
            taken = candidates[0]["session_id"]
        return taken if taken in wanted else wanted[0]

    async def repeat(self) -> None:
        if not self.keys:
            return
        key = self.random.choice(sorted(self.keys))
        kept = self.keys[key]
        if self.model.now - kept.at >= KEY_KEPT:
            del self.keys[key]
            return
        who, session = self._client(), self.model.sessions[kept.session]
        before = session.token
        said = await self._expected(
            "resume_session", kept.given, who, lambda: self.model.repeat(session, who, kept.token)
        )
        if said is None:
            return
        assert said["data"]["lease"]["fence"] == session.fence, self._told(said)
        assert (said["data"]["recovery_token"] is None) is (session.token is before), self._told(said)
        if said["data"]["recovery_token"]:
            kept.token = self._note(said["data"], session)

    # Handing over

    async def offer(self) -> None:
        session, to = self._session(), self.random.choice([None, *self.agents])
        take_over = self.random.random() < 0.6
        given = {"session_id": session.name, "agent_id": to, "on_held": "take_over" if take_over else "refuse"}
        said = await self._expected("offer", given, None, lambda: self.model.offered(session, to, take_over=take_over))
        if said is not None:
            self._note(said, session)

    async def decline(self) -> None:
        if self.tokens:
            text, token = self.random.choice(self.tokens[-4:])
            agent = self.random.choice([token.agent or self.agents[0], *self.agents])
            given = {"recovery_token": text, "agent_id": agent}
            await self._expected("decline", given, self._client(), lambda: self.model.decline(token, agent))

    async def revoke(self) -> None:
        session = self._session()
        await self._expected("revoke", {"session_id": session.name}, None, lambda: self.model.revoke(session))

    async def reissue(self) -> None:
        session = self._session()
        given = {"session_id": session.name}
        said = await self._expected("reissue_token", given, None, lambda: self.model.reissue(session))
        if said is not None:
            self._note(said, session)

    def _note(self, shown: dict[str, Any], session: ModelSession) -> ModelToken | None:
        """Keep a token that was shown, if the session has one now."""
        token, text = session.token, shown["recovery_token"]
        assert (text is None) is (token is None), self._told(shown)
        if token is not None:
            expires = datetime.fromisoformat(shown["recovery_token_expires_at"])
            assert expires == token.expires, self._told(f"{shown}\n should expire {token.expires}")
            self.tokens.append((text, token))
        return token

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
        if self.model.now + by > self.ends:
            return
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
            return {name: stands(reader, name, self.model.now) for name in self.model.sessions}

        seen = await self.server.harness.read(work)
        for name, session in self.model.sessions.items():
            holder = session.lease.client if session.lease else None
            offer = self.model.offer_of(session)
            offered = (offer.to or "*", offer.expires) if offer else None
            wanted = (session.state, session.fence, session.active, session.turns, holder, offered)
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


def stands(reader: Reader, name: str, now: datetime) -> tuple[object, ...]:
    """Return how a session stands, as the model has it."""
    session, lease = reader.session(name), reader.lease(name)
    assert session is not None
    turns = {turn.request_id: str(turn.status).replace("in_progress", "open") for turn in reader.turns(name)}
    offer = without_expired_offer(session, now).offer
    offered = (offer.agent_key or "*", offer.expires_at) if offer else None
    holder = lease.client_id if lease else None
    return str(session.state), session.fence, session.last_activity, turns, holder, offered


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
