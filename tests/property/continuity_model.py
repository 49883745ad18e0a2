"""A small plain model of continuity: who holds which session, which is last, which turn is whose, which token is good.

It says what each call must answer and keeps what follows from it. Nothing of the product is used.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

LEASE = timedelta(seconds=120)
LEFT = datetime.fromtimestamp(0, UTC)
SLACK = timedelta(hours=2)
IDLE = timedelta(minutes=90)
KEY_KEPT = timedelta(hours=24)
TOKEN_TTL = timedelta(days=30)
LOOKBACK = timedelta(days=30)
UNFINISHED = ("open", "suspended", "awaiting_successor")
FINAL = "final"
FINAL_STATES = ("sealed", "succeeded")
AFTER_CLOSE = {
    "successor_allowed": "closed",
    "successor_required": "awaiting_successor",
    "closed_without_successor": "sealed",
}


class Refused(Exception):
    """The call must be refused with this code."""


@dataclass
class ModelLease:
    client: str
    expires: datetime


@dataclass
class ModelToken:
    """A token, for an agent or for any; the newest of a session is its only good one."""

    session: str
    agent: str | None
    expires: datetime
    is_used: bool = False


@dataclass
class ModelOffer:
    """An offer to an agent, or to any that has the token."""

    to: str | None
    expires: datetime


@dataclass
class ModelSession:
    name: str
    agent: str
    place: str
    active: datetime
    state: str = "open"
    fence: int = 1
    lease: ModelLease | None = None
    is_fork: bool = False
    is_stated: bool = False
    offer: ModelOffer | None = None
    token: ModelToken | None = None
    grants: dict[str, int] = field(default_factory=dict[str, int])
    # The turns in their order, each with how it stands; `own` is the one that a client began or joined last.
    turns: dict[str, str] = field(default_factory=dict[str, str])
    own: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def current(self) -> str | None:
        return next(reversed(self.turns), None)

    @property
    def is_live(self) -> bool:
        return self.state in ("open", "suspended")

    @property
    def is_empty(self) -> bool:
        return not (self.turns or self.is_fork or self.is_stated)


@dataclass
class Model:
    """All sessions of one sequence, the clock, and the clients that are connected."""

    now: datetime
    sessions: dict[str, ModelSession] = field(default_factory=dict[str, ModelSession])
    connected: set[str] = field(default_factory=set[str])
    agent_of: dict[str, str] = field(default_factory=dict[str, str])

    # Who holds

    def is_idle(self, session: ModelSession) -> bool:
        return session.state == "open" and session.active <= self.now - IDLE

    def is_live(self, lease: ModelLease) -> bool:
        return lease.client in self.connected or lease.expires > self.now

    def holder(self, session: ModelSession) -> str | None:
        lease = session.lease
        return lease.client if lease and self.is_live(lease) and not self.is_idle(session) else None

    def other_holds(self, session: ModelSession, client: str | None) -> bool:
        return self.holder(session) not in (None, client)

    def is_own(self, session: ModelSession, client: str) -> bool:
        return session.lease is not None and session.lease.client == client and self.is_live(session.lease)

    # What happens to a session

    def stamp(self, session: ModelSession) -> datetime:
        """Return the time of an entry: never before the last activity, unless the clock was set back by much."""
        return self.now if session.active - self.now > SLACK else max(session.active, self.now)

    def touch(self, session: ModelSession) -> None:
        session.active = self.stamp(session)

    def grant(self, session: ModelSession, client: str) -> None:
        session.lease = ModelLease(client, self.now + LEASE)
        session.grants[client] = session.fence
        self.agent_of[client] = session.agent

    def suspend_if_left(self, session: ModelSession, client: str | None) -> None:
        lease = session.lease
        if session.state != "open" or (lease is not None and lease.client == client):
            return
        if (lease is not None and not self.is_live(lease)) or self.is_idle(session):
            session.state, session.lease = "suspended", None

    def check_writer(self, session: ModelSession, client: str) -> None:
        grant = session.grants.get(client)
        if grant is not None:
            if grant != session.fence:
                raise Refused("lease_lost")
            return
        if self.agent_of.get(client, session.agent) != session.agent and self.other_holds(session, client):
            raise Refused("session_held")

    def check_own(self, session: ModelSession, client: str) -> None:
        is_foreign = self.agent_of.get(client, session.agent) != session.agent
        if is_foreign and session.grants.get(client) != session.fence:
            raise Refused("agent_not_entitled")

    def wrote(self, session: ModelSession, client: str) -> None:
        """A write wakes a session, is activity, and gives its last holder the lease back."""
        session.state = "open"
        self.touch(session)
        if session.lease is None and session.grants.get(client) == session.fence:
            session.lease = ModelLease(client, self.now + LEASE)

    # The calls

    def opened(self, name: str, client: str, agent: str, place: str, *, is_fork: bool = False) -> ModelSession:
        session = ModelSession(name, agent, place, self.now, is_fork=is_fork)
        self.sessions[name] = session
        self.grant(session, client)
        return session

    def check_begin(self, session: ModelSession, client: str) -> None:
        if not session.is_live:
            raise Refused("session_closed")
        self.check_writer(session, client)

    def begun(self, session: ModelSession, client: str, turn: str) -> None:
        if session.current and session.turns[session.current] == "open":
            session.turns[session.current] = "failed"
        session.turns[turn] = "open"
        session.own[client] = turn
        self.wrote(session, client)

    def finish(self, session: ModelSession, client: str) -> str:
        """Return the turn that a client completes without naming it."""
        if not session.is_live:
            raise Refused("session_closed")
        turn = session.own.get(client) or session.current
        if turn is None:
            raise Refused("turn_not_found")
        if client not in session.own and turn in session.own.values():
            self.check_writer(session, client)
            raise Refused("turn_not_found")
        if session.turns[turn] == "failed":
            raise Refused("turn_immutable")
        self.check_writer(session, client)
        if session.turns[turn] == "open":
            session.turns[turn] = "completed"
            self.wrote(session, client)
        return turn

    def close(self, session: ModelSession, client: str, policy: str, *, take_over: bool, heir: str | None) -> str:
        """Return the status that a close answers."""
        self.check_own(session, client)
        if not session.is_live:
            return "already_closed"
        if self.other_holds(session, client) and not take_over:
            raise Refused("session_held")
        if not take_over:
            self.check_writer(session, client)
        at = self.stamp(session)
        session.is_stated = session.is_stated or heir is not None
        self._ended(session, AFTER_CLOSE[policy])
        if session.state != "sealed":
            session.offer = ModelOffer(heir, at + TOKEN_TTL) if heir not in (None, session.agent) else None
            self.issue(session, at)
        return "closed"

    def _ended(self, session: ModelSession, state: str) -> None:
        session.state, session.lease, session.token = state, None, None
        self.touch(session)
        if state == "sealed":
            self._fail_open(session)

    def _fail_open(self, session: ModelSession) -> None:
        session.turns = {turn: "failed" if how == "open" else how for turn, how in session.turns.items()}

    # Tokens and offers

    def issue(self, session: ModelSession, at: datetime) -> None:
        """Give a session its one good token, which does not outlive an offer."""
        offer = session.offer
        expires = min(at + TOKEN_TTL, offer.expires) if offer else at + TOKEN_TTL
        session.token = ModelToken(session.name, offer.to if offer else session.agent, expires)

    def offer_of(self, session: ModelSession) -> ModelOffer | None:
        return session.offer if session.offer and session.offer.expires > self.now else None

    def check_token(self, token: ModelToken, agent: str | None) -> None:
        if token.is_used:
            raise Refused("recovery_token_used")
        if self.sessions[token.session].token is not token:
            raise Refused("recovery_token_invalid")
        if self.now >= token.expires:
            raise Refused("recovery_token_expired")
        if agent is not None and token.agent not in (None, agent):
            raise Refused("recovery_token_mismatch")

    def offered(self, session: ModelSession, agent: str | None, *, take_over: bool) -> None:
        """A person offers a session to another agent, or to any."""
        self._check_final(session)
        if agent == session.agent:
            raise Refused("invalid_parameter")
        if session.is_live and self.other_holds(session, None) and not take_over:
            raise Refused("session_held")
        at = self.stamp(session)
        if session.is_live:
            self._ended(session, "closed")
        self.touch(session)
        session.offer = ModelOffer(agent, at + TOKEN_TTL)
        self.issue(session, at)

    def decline(self, token: ModelToken, agent: str) -> None:
        """An agent with the token of an offer ends it."""
        session = self.sessions[token.session]
        self.check_token(token, None)
        self.check_token(token, token.agent)
        self._offer_ended(session, agent)

    def revoke(self, session: ModelSession) -> None:
        """A person ends an offer."""
        self._offer_ended(session, None)

    def _offer_ended(self, session: ModelSession, agent: str | None) -> None:
        offer = self.offer_of(session)
        if offer is None:
            raise Refused("invalid_parameter")
        if agent is not None and offer.to not in (None, agent):
            raise Refused("recovery_token_mismatch")
        session.offer = session.token = None

    def reissue(self, session: ModelSession) -> None:
        """A person replaces a lost token; an offer stands for as long as the new one."""
        self._check_final(session)
        at = self.stamp(session)
        session.offer = self.offer_of(session)
        if session.offer:
            session.offer.expires = at + TOKEN_TTL
        self.issue(session, at)

    def _check_final(self, session: ModelSession) -> None:
        if session.state in FINAL_STATES:
            raise Refused(f"session_{session.state}")

    def fork(self, session: ModelSession, client: str, agent: str, name: str, place: str, *, beside: bool) -> None:
        """Another session goes on where this one stopped; it is over then, unless its holder keeps it."""
        self.issue(self.opened(name, client, agent, place, is_fork=True), self.now)
        if not beside:
            session.state, session.offer, session.token = "succeeded", None, None
            self._fail_open(session)

    def last(self, client: str, agent: str, place: str) -> list[str]:
        """Return the sessions of which one must be resumed: more than one only if they were active at once.

        `FINAL` stands for sessions of which none can be resumed any more.
        """
        inside, since = self._inside(client), self.now - LOOKBACK
        for own, empty in ((False, False), (True, False), (False, True), (True, True)):
            for states in (UNFINISHED, ("closed",)):
                found = self._newest(agent, place, states, set() if own else inside, empty=empty, since=since)
                if found:
                    return found
        final = (each for each in self.sessions.values() if each.state in FINAL_STATES and each.active >= since)
        is_final = any(each.agent == agent for each in final)
        return [FINAL] if is_final else []

    def predecessors(self, client: str, agent: str, place: str) -> list[str]:
        """Return the sessions of which one is named to a client that opens another."""
        return self._newest(agent, place, UNFINISHED, self._inside(client), empty=False, since=LEFT)

    def _inside(self, client: str) -> set[str]:
        return {each.name for each in self.sessions.values() if self.holder(each) == client}

    def _newest(
        self, agent: str, place: str, states: tuple[str, ...], apart: set[str], *, empty: bool, since: datetime
    ) -> list[str]:
        counting = [
            each
            for each in self.sessions.values()
            if each.state in states and self._is_for(each, agent) and each.name not in apart and each.active >= since
        ]
        for here in (True, False):
            ranked = [each for each in counting if (each.place == place) is here and (empty or not each.is_empty)]
            if ranked:
                newest = max(each.active for each in ranked)
                return [each.name for each in ranked if each.active == newest]
        return []

    def _is_for(self, session: ModelSession, agent: str) -> bool:
        offer = self.offer_of(session)
        return session.agent == agent or (offer is not None and offer.to == agent)

    def resume(
        self, session: ModelSession, client: str, agent: str, on_held: str, token: ModelToken | None, named: str | None
    ) -> str:
        """Go on with a session and return how, or say why not; whoever asked makes the session of a fork."""
        if token is not None:
            self.check_token(token, None)
            if named not in (None, token.session):
                raise Refused("recovery_token_mismatch")
            self.check_token(token, agent)
        self._check_final(session)
        self._check_entitled(session, agent, has_token=token is not None)
        is_held = self.other_holds(session, client)
        if is_held and on_held == "refuse":
            raise Refused("session_held")
        if is_held and on_held == "read_only":
            self.agent_of[client] = session.agent
            return "read_only"
        if token is not None:
            token.is_used, session.token = True, None
        is_reopened = session.is_live or (session.agent == agent and session.state == "closed")
        if not is_reopened or (is_held and on_held == "fork"):
            return "forked"
        if not self.is_own(session, client):
            self._attach(session, client)
            if session.current and session.turns[session.current] == "open":
                session.own[client] = session.current
        elif self.now - session.active >= LEASE:
            self.touch(session)
        self.issue(session, self.now)
        return "attached"

    def _check_entitled(self, session: ModelSession, agent: str, *, has_token: bool) -> None:
        offer = None if session.is_live else self.offer_of(session)
        is_own = session.agent == agent
        is_offered = offer is not None and (has_token if offer.to is None else offer.to == agent)
        if session.state == "awaiting_successor" and offer is not None:
            is_own = False
        if not (is_own or is_offered):
            raise Refused("agent_not_entitled")
        if not has_token and (session.state == "awaiting_successor" or not is_own):
            raise Refused("recovery_token_required")

    def _attach(self, session: ModelSession, client: str) -> None:
        session.state, session.offer = "open", None
        session.fence += 1
        self.touch(session)
        self.grant(session, client)

    def repeat(self, session: ModelSession, client: str, token: ModelToken | None) -> None:
        """A resume is repeated by its key: it must not give what another client holds, nor revive what has ended.

        The token of the first answer is replaced, unless it was used or replaced meanwhile.
        """
        self.check_own(session, client)
        if session.state in FINAL_STATES:
            raise Refused(f"session_{session.state}")
        if not session.is_live:
            raise Refused("session_closed")
        if self.other_holds(session, client):
            raise Refused("session_held")
        if session.state != "open" or not self.is_own(session, client):
            self._attach(session, client)
        if token is not None and session.token is token:
            self.issue(session, self.now)

    # Clients, time and sweeps

    def renew(self, clients: set[str]) -> None:
        for session in self.sessions.values():
            if session.lease is not None and session.lease.client in clients:
                session.lease.expires = self.now + LEASE

    def gone(self, client: str) -> None:
        self.connected.discard(client)
        for session in self.sessions.values():
            if session.lease is not None and session.lease.client == client:
                session.lease.expires = LEFT

    def sweep(self) -> None:
        self.renew(self.connected)
        for session in self.sessions.values():
            if session.lease is not None and not self.is_live(session.lease):
                session.lease = None
                session.state = "suspended" if session.state == "open" else session.state
            if self.is_idle(session):
                session.state, session.lease = "suspended", None
