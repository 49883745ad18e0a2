"""Random days of work, valid and invalid requests mixed, held against a model of a few lines.

After every step a refused request has stored nothing; at the end of every day the chains verify, rebuilding changes
nothing, the counters are right, and no turn that had ended has changed.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
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

from shiftlog.model.caller import LIBRARY, Caller
from shiftlog.model.entry import Kind
from shiftlog.model.errors import ShiftlogError
from shiftlog.model.nouns import Turn
from tests.journal.harness import client
from tests.postgres_server import PostgresServer, databases_for_homes
from tests.property.sync_harness import SyncHarness, open_sync_harness

CALLERS = [LIBRARY, client("a"), client("b")]
DIALOG = {"role": "model", "category": "decision", "content": "Decision: go on"}
ACTION = {"description": "Edit", "type": "edit", "status": "pending", "file_path": "a.py"}
WORDS = st.sampled_from(["", "a", "b", "long " * 1_200])
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "response": WORDS,
        "interpretation": WORDS,
        "token_count": st.integers(0, 3),
        "tags": st.lists(st.sampled_from("xyz"), max_size=2),
        "files_modified": st.lists(st.sampled_from(["a.py", "./a.py", "b.py"]), max_size=2),
        "commits": st.lists(st.sampled_from([{"sha": "1"}, {"sha": "2", "message": "m"}]), max_size=2),
        "actions": st.lists(st.just(ACTION), max_size=2),
        "usage": st.sampled_from([{}, {"input_tokens": 5}, {"output_tokens": 1, "cost_usd": 0.5}]),
        "clear": st.lists(st.sampled_from(["tags", "response", "actions", "files_modified", "commits"]), max_size=2),
    },
)
BAD_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("open_session", {"agent": "codex", "title": "x"}),
    ("open_session", {"agent": "Codex", "title": ""}),
    ("open_session", {"agent": "Codex", "title": "x", "session_id": "Codex-20260230T000000Z-x"}),
    ("begin_turn", {"session_id": "Codex-20200101T000000Z-x", "query_title": "x", "query_text": "x"}),
    ("begin_turn", {"query_title": "x", "query_text": "x"}),
    ("update_turn", {"session_id": 10**12, "tags": ["x"]}),
    ("update_turn", {"session_id": "?", "tags": ["x"]}),
    ("finish_turn", {"session_id": "Codex-20200101T000000Z-x", "outcome": "perhaps"}),
    ("close_session", {"session_id": None}),
    ("resume_session", {"agent_id": "nobody"}),
    ("query_history", {"kinds": ["mood"]}),
]


@dataclass
class Model:
    """What a session should be."""

    state: str = "open"
    fence: int = 1
    turns: dict[str, str] = field(default_factory=dict[str, str])
    grants: dict[str, int] = field(default_factory=dict[str, int])
    lease: tuple[str, datetime] | None = None
    dialog: int = 0
    erased: bool = False

    @property
    def current(self) -> str | None:
        return next(reversed(self.turns), None)

    def refuses(self, caller: Caller, turn: str | None = None, *, needs_open: bool = True) -> str | None:
        """Return the code that a write must be refused with."""
        if self.state == "closed":
            return "session_closed"
        if needs_open and turn is None:
            return "turn_not_found"
        if needs_open and self.turns[str(turn)] != "in_progress":
            return "turn_immutable"
        return "lease_lost" if self.grants.get(caller.client_id or "", self.fence) != self.fence else None


class JournalMachine(RuleBasedStateMachine):
    """Agents at work."""

    def __init__(self) -> None:
        super().__init__()
        self._opening = open_sync_harness()
        self.sync: SyncHarness = self._opening.__enter__()
        self.models: dict[str, Model] = {}
        self.ended: dict[tuple[str, str], Turn] = {}
        self.keyed: list[tuple[str, dict[str, Any], Caller, dict[str, Any]]] = []

    def teardown(self) -> None:
        try:
            self._at_the_end_of_the_day()
        finally:
            self._opening.__exit__(None, None, None)

    # Steps

    def _call(self, tool: str, arguments: dict[str, Any], caller: Caller, refused: str | None) -> dict[str, Any] | None:
        """Call a tool that must be refused with a code, or else must answer."""
        before = self.sync.harness.rows()
        answered = self.sync.attempt(tool, arguments, caller)
        if isinstance(answered, ShiftlogError):
            assert answered.code == refused, (tool, arguments, answered.as_dict(), refused)
            assert self.sync.harness.rows() == before
            return None
        assert refused is None, (tool, arguments, answered, refused)
        if arguments.get("idempotency_key"):
            self.keyed.append((tool, arguments, caller, answered))
        return answered

    def _known(self, n: int) -> tuple[str, Model]:
        return list(self.models.items())[n % len(self.models)]

    def _woken(self, model: Model, answered: dict[str, Any], caller: Caller) -> None:
        """Take a write into account: it wakes the session, and whoever held it last holds it again."""
        if answered["receipt"]["code"] != "persisted":
            return
        model.state = "open"
        if caller.client_id and model.lease is None and model.grants.get(caller.client_id) == model.fence:
            model.lease = (caller.client_id, self.sync.harness.now() + timedelta(seconds=120))

    def _granted(self, session: str, model: Model, caller: Caller) -> None:
        model.lease = None
        if caller.client_id:
            model.grants[caller.client_id] = model.fence
            at = self.sync.run(self.sync.harness.session(session)).last_activity
            model.lease = (caller.client_id, at + timedelta(seconds=120))

    @initialize()
    def first_session(self) -> None:
        self.open(CALLERS[0], None)

    @rule(caller=st.sampled_from(CALLERS), key=st.none() | st.uuids().map(str))
    def open(self, caller: Caller, key: str | None) -> None:
        arguments = {"agent": "Codex", "title": "Work", "model": "m", "idempotency_key": key}
        answered = self._call("open_session", arguments, caller, None)
        assert answered is not None
        session = answered["session_id"]
        assert session not in self.models
        self.models[session] = Model()
        self._granted(session, self.models[session], caller)

    @rule(n=st.integers(0, 9), caller=st.sampled_from(CALLERS), taken=st.booleans())
    def begin(self, n: int, caller: Caller, taken: bool) -> None:
        session, model = self._known(n)
        arguments = {"session_id": session, "query_title": "Ask", "query_text": "Ask"}
        refused = model.refuses(caller, needs_open=False)
        if taken and model.current:
            arguments["request_id"] = model.current
            refused = "session_closed" if model.state == "closed" else "turn_already_exists"
        answered = self._call("begin_turn", arguments, caller, refused)
        if answered is not None:
            before = model.current
            open_before = before if before and model.turns[before] == "in_progress" else None
            assert answered["superseded_request_id"] == open_before
            if open_before:
                self._end(session, model, open_before, "failed")
            model.turns[answered["request_id"]] = "in_progress"
            self._woken(model, answered, caller)

    @rule(
        n=st.integers(0, 9),
        caller=st.sampled_from(CALLERS),
        fields=FIELDS,
        dialog=st.integers(0, 3),
        older=st.integers(0, 9),
        key=st.none() | st.uuids().map(str),
    )
    def update(self, n: int, caller: Caller, fields: dict[str, Any], dialog: int, older: int, key: str | None) -> None:
        session, model = self._known(n)
        turn = list(model.turns)[-1 - older % len(model.turns)] if model.turns else None
        arguments = {"session_id": session, "request_id": turn, "dialog": [DIALOG] * dialog, **fields}
        answered = self._call("update_turn", {**arguments, "idempotency_key": key}, caller, model.refuses(caller, turn))
        if answered is not None:
            self._woken(model, answered, caller)
            model.dialog += dialog

    @rule(n=st.integers(0, 9), caller=st.sampled_from(CALLERS), completes=st.booleans(), fields=FIELDS)
    def finish(self, n: int, caller: Caller, completes: bool, fields: dict[str, Any]) -> None:
        session, model = self._known(n)
        turn = model.current
        outcome = "completed" if completes else "failed"
        arguments = {
            "session_id": session,
            "request_id": turn,
            "outcome": outcome,
            "error_message": "It broke",
            **fields,
        }
        arguments["response"] = arguments.get("response") or "Done"
        refused = model.refuses(caller, turn)
        repeated = refused == "turn_immutable" and model.turns[str(turn)] == outcome
        if repeated:
            refused = model.refuses(caller, needs_open=False)
        answered = self._call("finish_turn", arguments, caller, refused)
        if answered is not None and not repeated:
            self._end(session, model, str(turn), outcome)
            self._woken(model, answered, caller)
        elif answered is not None:
            assert answered["receipt"]["code"] == "unchanged"

    def _end(self, session: str, model: Model, turn: str, status: str) -> None:
        model.turns[turn] = status
        self.ended[session, turn] = self.sync.run(self.sync.harness.turn(session, turn))

    @rule(n=st.integers(0, 9), caller=st.sampled_from(CALLERS))
    def close(self, n: int, caller: Caller) -> None:
        session, model = self._known(n)
        arguments = {"session_id": session, "on_held": "take_over", "returncode": 0}
        answered = self._call("close_session", arguments, caller, None)
        assert answered is not None
        assert answered["status"] == ("already_closed" if model.state == "closed" else "closed")
        model.state = "closed"
        model.lease = None

    @rule(n=st.integers(0, 9), caller=st.sampled_from(CALLERS))
    def resume(self, n: int, caller: Caller) -> None:
        session, model = self._known(n)
        arguments = {"agent_id": "codex", "session_id": session, "on_held": "take_over"}
        answered = self._call("resume_session", arguments, caller, None)
        assert answered is not None
        holds = model.lease is not None and model.lease[0] == caller.client_id
        if not (holds and model.lease is not None and model.lease[1] > self.sync.harness.now()):
            model.fence += 1
            self._granted(session, model, caller)
        assert answered["data"]["lease"]["fence"] == model.fence
        model.state = "open"

    @rule(minutes=st.sampled_from([0, 1, 3, 100]))
    def time_passes(self, minutes: int) -> None:
        harness = self.sync.harness
        harness.wait(minutes=minutes)
        self.sync.run(harness.app.sweep())
        for session, model in self.models.items():
            idle = harness.now() - self.sync.run(harness.session(session)).last_activity >= timedelta(minutes=90)
            gone = model.lease is not None and model.lease[1] <= harness.now()
            if gone or (idle and model.state == "open"):
                model.state = "suspended" if model.state == "open" else model.state
                model.lease = None

    @rule(n=st.integers(0, 9), seq=st.integers(1, 60))
    def erase(self, n: int, seq: int) -> None:
        session, model = self._known(n)
        entries = self.sync.run(self.sync.harness.entries(session))
        entry = entries[seq % len(entries)]
        # Erasing a close seals the session; that has a test of its own.
        if entry.kind in (Kind.ERASED, Kind.SESSION_CLOSED):
            return
        done = self.sync.run(self.sync.harness.app.maintenance.erase(session, [entry.seq], "asked"))
        assert done["chain"] == "verified"
        model.erased = True
        self.keyed.clear()

    @precondition(lambda self: self.keyed)
    @rule(n=st.integers(0, 9))
    def ask_again(self, n: int) -> None:
        tool, arguments, caller, answered = self.keyed[n % len(self.keyed)]
        before = self.sync.harness.rows()
        if tool == "open_session":
            return  # what it grants is checked against the present: `test_continuity_model` does that
        assert self.sync.attempt(tool, arguments, caller) == answered
        assert self.sync.harness.rows() == before

    @rule(call=st.sampled_from(BAD_CALLS))
    def ask_badly(self, call: tuple[str, dict[str, Any]]) -> None:
        before = self.sync.harness.rows()
        assert isinstance(self.sync.attempt(*call), ShiftlogError)
        assert self.sync.harness.rows() == before

    # What always holds

    @invariant()
    def states_and_counters_are_those_of_the_model(self) -> None:
        for name, model in self.models.items():
            session = self.sync.run(self.sync.harness.session(name))
            statuses = list(model.turns.values())
            assert session.state == model.state
            assert session.fence == model.fence
            assert session.current_turn == model.current
            assert session.turns_total == len(statuses)
            assert session.turns_completed == statuses.count("completed")
            assert session.turns_failed == statuses.count("failed")
            assert session.turns_open == statuses.count("in_progress") <= 1
            if not model.erased:
                assert session.dialog_items == model.dialog

    def _at_the_end_of_the_day(self) -> None:
        harness = self.sync.harness
        stored = self.sync.run(harness.read(lambda reader: [reader.turns(name) for name in self.models]))
        for (name, model), turns in zip(self.models.items(), stored, strict=True):
            assert {turn.request_id: turn.status for turn in turns} == model.turns
            if not model.erased:
                for turn in turns:
                    assert self.ended.get((name, turn.request_id), turn) == turn
        assert all(found.ok for found in self.sync.run(harness.verify()))
        rows = harness.rows()
        assert not any(done.changed for done in self.sync.run(harness.rebuild()))
        assert harness.rows() == rows
        assert self.sync.run(harness.query(limit=1))["total"] == len(self.models)
        turns_listed = self.sync.run(harness.items(kinds=["turn"], limit=200))
        assert len(turns_listed) == sum(len(model.turns) for model in self.models.values())


TestDaysOfWork = JournalMachine.TestCase
TestDaysOfWork.settings = settings(max_examples=40, stateful_step_count=25)


@pytest.mark.long
def test_days_of_work_on_postgresql(postgres_server: PostgresServer) -> None:
    with databases_for_homes(postgres_server):
        run_state_machine_as_test(JournalMachine, settings=settings(max_examples=6, stateful_step_count=25))


@pytest.mark.soak
def test_many_long_days_of_work() -> None:
    run_state_machine_as_test(JournalMachine, settings=settings(max_examples=1_000, stateful_step_count=60))
