"""Random histories of opening, closing, resuming, crashing and stealing, held against a model of a few lines.

At most one client is accepted as the writer of a session. A token is accepted at most once, and only by the agent,
for the session and within the time that it was issued for; whatever is forged, foreign, old or replayed never is.
"""

import string
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shiftlog.journal.signing import tokens
from shiftlog.journal.signing.keys import Keys
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.limits import CLIENTS_KEPT
from tests.journal.harness import client
from tests.postgres_server import PostgresServer, databases_for_homes
from tests.property.sync_harness import SyncHarness, open_sync_harness

LONGEST_WAIT = timedelta(days=31)
CLIENTS = ("a", "b", "c")
AGENTS = ("alpha", "beta")
POLICIES = ("successor_allowed", "successor_allowed", "successor_required", "closed_without_successor")
NUMBERS = st.integers(0, 10**6)


@dataclass
class Issued:
    """A token as the model knows it."""

    text: str
    session: str
    agent: str
    expires: datetime
    is_valid: bool = True
    uses: int = 0


class Shifts(RuleBasedStateMachine):
    """Clients of two agents at one store."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.at: SyncHarness = self._stack.enter_context(open_sync_harness())
        self.issued: list[Issued] = []
        self.sessions: list[str] = []
        self.writer: dict[str, str | None] = {}
        self.waited = timedelta()
        self.other_keys = Keys.load(Path(self._stack.enter_context(TemporaryDirectory())))

    def teardown(self) -> None:
        self._stack.close()

    # What happens

    @initialize()
    def begin(self) -> None:
        self.open("a", "alpha")

    @rule(name=st.sampled_from(CLIENTS), agent=st.sampled_from(AGENTS))
    def open(self, name: str, agent: str) -> None:
        given = {"agent": "Codex", "title": "Work", "agent_id": agent, "exclusive": True}
        session = self._accepted("open_session", given, name)["session_id"]
        self.sessions.append(session)
        self.writer[session] = name

    @rule(
        name=st.sampled_from(CLIENTS),
        which=NUMBERS,
        policy=st.sampled_from(POLICIES),
        on_held=st.sampled_from(["refuse", "take_over"]),
        heir=st.sampled_from([None, *AGENTS]),
    )
    def close(self, name: str, which: int, policy: str, on_held: str, heir: str | None) -> None:
        session = self._pick(which)
        given: dict[str, Any] = {"session_id": session, "succession_policy": policy, "on_held": on_held}
        if heir:
            given["capsule"] = {"version": 1, "handoff_to": heir}
        said = self.at.attempt("close_session", given, client(name))
        if isinstance(said, ShiftlogError) or said["status"] != "closed":
            return
        self.writer[session] = None
        self._forget_tokens(session)
        if said["data"]["recovery_token"]:
            self._note(said["data"], session, said["data"]["next_action"]["arguments"]["agent_id"])

    @rule(
        name=st.sampled_from(CLIENTS),
        agent=st.sampled_from(AGENTS),
        on_held=st.sampled_from(["refuse", "take_over", "fork", "read_only"]),
    )
    def resume(self, name: str, agent: str, on_held: str) -> None:
        said = self.at.attempt("resume_session", {"agent_id": agent, "on_held": on_held}, client(name))
        if not isinstance(said, ShiftlogError):
            self._resumed(said["data"], name, agent)

    @precondition(lambda self: bool(self.issued))
    @rule(
        name=st.sampled_from(CLIENTS),
        agent=st.sampled_from(AGENTS),
        which=NUMBERS,
        on_held=st.sampled_from(["refuse", "take_over", "fork", "read_only"]),
    )
    def resume_with_a_token(self, name: str, agent: str, which: int, on_held: str) -> None:
        token = self.issued[-1 - which % len(self.issued)]
        given = {"agent_id": agent, "recovery_token": token.text, "on_held": on_held}
        may = token.is_valid and token.agent == agent and self._now() < token.expires
        said = self.at.attempt("resume_session", given, client(name))
        if isinstance(said, ShiftlogError):
            assert not may or said.code == "session_held", said.as_dict()
            return
        assert may, "a token that is used, revoked, foreign or expired was accepted"
        data = said["data"]
        assert data["attested"] is True
        assert token.session in (data["resumed_session_id"], data["predecessor_session_id"])
        if data["resume_mode"] != "read_only":
            token.uses += 1
            self._forget_tokens(token.session)
        self._resumed(data, name, agent)

    @precondition(lambda self: bool(self.issued))
    @rule(which=NUMBERS, place=NUMBERS, how=st.sampled_from(["letter", "key", "agent", "expiry", "session", "id"]))
    def forge(self, which: int, place: int, how: str) -> None:
        token = self.issued[which % len(self.issued)]
        forged = self._forged(token, place, how)
        said = self.at.attempt("resume_session", {"agent_id": token.agent, "recovery_token": forged}, client("forger"))
        assert isinstance(said, ShiftlogError), f"a token with another {how} was accepted"
        if how in ("key", "agent", "expiry"):
            assert (said.code, said.details) == ("recovery_token_invalid", {"reason": "signature"})
        assert said.code in ("recovery_token_invalid", "recovery_token_expired", "recovery_token_mismatch"), said.code

    @rule(name=st.sampled_from(CLIENTS))
    def crash(self, name: str) -> None:
        self.at.run(self.at.harness.app.continuity.client_gone(f"client-{name}"))

    # After that long a client that holds nothing is forgotten, and with it what it was granted.
    @precondition(lambda self: self.waited + LONGEST_WAIT < CLIENTS_KEPT)
    @rule(minutes=st.sampled_from([1, 3, 60 * 2, LONGEST_WAIT // timedelta(minutes=1)]))
    def wait(self, minutes: int) -> None:
        self.waited += timedelta(minutes=minutes)
        self.at.harness.wait(minutes=minutes)
        self.at.run(self.at.harness.app.sweep())

    # What always holds

    @rule(which=NUMBERS)
    def everybody_writes(self, which: int) -> None:
        session = self._pick(which)
        given = {"session_id": session, "query_title": "x", "query_text": "x"}
        accepted = [
            name
            for name in (*CLIENTS, "stranger")
            if not isinstance(self.at.attempt("begin_turn", given, client(name)), ShiftlogError)
        ]
        writer = self.writer[session]
        assert accepted == ([] if writer is None else [writer])

    @invariant()
    def no_token_was_used_twice(self) -> None:
        assert all(token.uses <= 1 for token in self.issued)

    # The model

    def _resumed(self, data: dict[str, Any], name: str, agent: str) -> None:
        if data["resume_mode"] == "read_only":
            return
        session, predecessor = data["resumed_session_id"], data["predecessor_session_id"]
        if data["resume_mode"] == "forked":
            self.sessions.append(session)
            if data["state_before"] in ("closed", "awaiting_successor"):
                self.writer[predecessor] = None
                self._forget_tokens(predecessor)
        self.writer[session] = name
        self._forget_tokens(session)
        self._note(data, session, agent)

    def _note(self, data: dict[str, Any], session: str, agent: str) -> None:
        expires = datetime.fromisoformat(data["recovery_token_expires_at"])
        self.issued.append(Issued(text=data["recovery_token"], session=session, agent=agent, expires=expires))

    def _forget_tokens(self, session: str) -> None:
        for token in self.issued:
            if token.session == session:
                token.is_valid = False

    def _forged(self, token: Issued, place: int, how: str) -> str:
        keys = self.at.harness.app.keys
        claims = tokens.read(keys, token.text)
        match how:
            case "letter":
                at = len(tokens.PREFIX) + place % (len(token.text) - len(tokens.PREFIX))
                letters = [c for c in string.ascii_letters + string.digits + "-_." if c != token.text[at]]
                return token.text[:at] + letters[place % len(letters)] + token.text[at + 1 :]
            case "key":
                return tokens.mint(self.other_keys, claims)
            case "agent":
                return tokens.mint(self.other_keys, replace(claims, agent=tokens.ANYONE))
            case "expiry":
                return tokens.mint(self.other_keys, replace(claims, expires_at=claims.expires_at + timedelta(days=90)))
            case "session":
                return tokens.mint(keys, replace(claims, session_id=self._pick(place), token_id="0" * 32))
            case _:
                return tokens.mint(keys, replace(claims, token_id="1" * 32))

    def _pick(self, which: int) -> str:
        return self.sessions[which % len(self.sessions)]

    def _now(self) -> datetime:
        return self.at.harness.now()

    def _accepted(self, tool: str, given: dict[str, Any], name: str) -> dict[str, Any]:
        said = self.at.attempt(tool, given, client(name))
        assert not isinstance(said, ShiftlogError), said.as_dict()
        return said


def test_one_writer_and_tokens_that_work_once_in_any_history() -> None:
    run_state_machine_as_test(Shifts, settings=settings(max_examples=30, stateful_step_count=40))


def test_one_writer_and_tokens_that_work_once_on_postgresql(postgres_server: PostgresServer) -> None:
    with databases_for_homes(postgres_server):
        run_state_machine_as_test(Shifts, settings=settings(max_examples=5, stateful_step_count=30))
