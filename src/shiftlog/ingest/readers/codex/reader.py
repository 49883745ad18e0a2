"""The Codex reader: rollouts of every release, with or without an envelope, plain or paginated, forked or spawned.

Lines come in, facts go out. What single records mean lives in `codex_items`, `codex_events` and `codex_thread`.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import cast

from shiftlog.facts.transcript import (
    COPIED,
    AnyFact,
    Counts,
    Disposition,
    Hints,
    Mac,
    Note,
    SessionRef,
    SessionUpdated,
    Standing,
    TitleSource,
)
from shiftlog.ingest.readers.codex import state as codex_state
from shiftlog.ingest.readers.codex.dialog import Rollout
from shiftlog.ingest.readers.codex.events import EVENTS, STARTS
from shiftlog.ingest.readers.codex.items import ITEMS, on_message, on_output
from shiftlog.ingest.readers.codex.pages import on_item_completed
from shiftlog.ingest.readers.codex.thread import (
    learn_ancestor,
    on_compacted_history,
    on_session_meta,
    on_token_count,
    on_turn_context,
)
from shiftlog.ingest.readers.codex.turns import AGENT, named_turn
from shiftlog.ingest.readers.records import Object, object_in, raw_or_digest, read_line, text_in, turn_id, utc, whole_in

MAX_NOTED = 1000
HELD = "held"
MAX_HELD_BYTES = 32 * 1024 * 1024

_ENVELOPES = frozenset(
    {
        "session_meta",
        "turn_context",
        "event_msg",
        "response_item",
        "compacted",
        "world_state",
        "ghost_snapshot",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "security_risk_score",
        "compaction",
        "context_compaction",
    }
)
_WAITING_FOR_A_START = frozenset(
    {
        "task_started",
        "turn_started",
        "turn_context",
        "session_meta",
        "world_state",
        "token_count",
        "thread_settings_applied",
        "thread_name_updated",
        "ghost_snapshot",
        "user_message",
        "inter_agent_communication_metadata",
    }
)
"""Records that may stand between a user message and the start of its turn."""


def _is_bare_header(record: Object) -> bool:
    return "id" in record and "timestamp" in record and ("instructions" in record or "git" in record)


class CodexReader:
    """Reads one rollout; see `Reader` for the protocol."""

    def __init__(self, hints: Hints, state: bytes | None = None) -> None:
        self._rollout = Rollout(hints, codex_state.load(state))
        self._state = self._rollout.state
        self._hold: list[bytes] = zlib.decompress(self._state.hold).split(b"\n") if self._state.hold else []
        self._hold_bytes = sum(map(len, self._hold))
        self._state.hold = b""
        self._titles: dict[str, SessionUpdated] = {}

    @property
    def agent(self) -> str:
        """Return the agent kind."""
        return AGENT

    @property
    def counts(self) -> Counts:
        """Return the dispositions of all lines so far."""
        return self._state.counts

    @property
    def newest_at(self) -> str | None:
        """Return the latest time so far."""
        return self._state.newest_at

    def feed(self, line: bytes) -> Sequence[AnyFact]:
        """Read one line."""
        read = read_line(line)
        if read is None:
            return ()
        counts = self._state.counts
        if read.record is None:
            counts.bad += 1
            return ()
        if read.replaced:
            counts.replaced += 1
        self._take(line, read.record)
        return self._given()

    def skip_oversized(self) -> None:
        """Count a line that was too long to be fed."""
        self._state.counts.bad += 1
        self._state.counts.oversized += 1

    def finish(self) -> Sequence[AnyFact]:
        """Write what waited for more: an old file's last prompt is a turn, unless its start or other half may come."""
        self._write_waiting()
        self._rollout.out += self._titles.values()
        self._titles = {}
        return self._given()

    def _write_waiting(self) -> None:
        state = self._state
        if state.held and not self._rollout.awaits_more:
            self._rollout.release()
        if state.turn is not None:
            self._rollout.begin(state.turn)
            self._rollout.give_fields(state.turn)

    def standings(self) -> Sequence[Standing]:
        """Return the open turn, or what still waits: a fork without an own turn, a prompt without its start."""
        turn = self._state.turn
        if self._state.held or (turn is None and self._state.undecided):
            return (
                Standing(
                    session=self._rollout.ref, turn=HELD if self._state.held else COPIED,
                    last_at=self._state.newest_at, quiet=True, settles_as="observed",
                ),
            )  # fmt: skip
        if turn is None:
            return ()
        settles = turn.legacy and turn.quiet
        return (
            Standing(
                session=self._rollout.ref, turn=turn.request_id, last_at=turn.last_at, quiet=turn.quiet,
                settles_as="completed" if settles else None,
            ),
        )  # fmt: skip

    def settle(self, sessions: Iterable[SessionRef] | None = None) -> Sequence[AnyFact]:
        """End the open turn of an old file whose last word was the model's; what still waited is the file's own."""
        if sessions is not None and self._rollout.ref not in set(sessions):
            return ()
        self._settle_waiting()
        turn = self._state.turn
        if turn is not None and turn.legacy and turn.quiet:
            self._rollout.settle(turn)
        return self._given()

    def settle_waiting(self) -> Sequence[AnyFact]:
        """Take the lines of a fork that has no turn of its own as its own, and a prompt as nothing starts its turn."""
        self._settle_waiting()
        return self._given()

    def _settle_waiting(self) -> None:
        if self._state.undecided:
            self._replay()
        if self._state.held:
            self._rollout.release()
        self._write_waiting()

    def save(self) -> bytes:
        """Return the state to go on from."""
        self._state.hold = zlib.compress(b"\n".join(self._hold), 1) if self._hold else b""
        data = codex_state.save(self._rollout.saved())
        self._state.hold = b""
        return data

    def _given(self) -> Sequence[AnyFact]:
        facts, self._rollout.out = self._rollout.out, []
        return facts

    # -- one record ----------------------------------------------------------------------------------------------------

    def _take(self, line: bytes, record: Object) -> None:
        state = self._state
        if (at := utc(record.get("timestamp"))) is not None:
            state.at = at
            if state.newest_at is None or at > state.newest_at:
                state.newest_at = at
        if state.undecided and not self._is_own_start(record):
            self._keep_copy(line, record)
            return
        if state.undecided:
            self._decide_fork()
        if state.history_start is not None:
            ordinal = whole_in(record, "ordinal")
            if ordinal is not None and ordinal < state.history_start and state.thread is not None:
                self._note_copy(record)
                self._count(Disposition.COUNTED, COPIED)
                return
        self._dispatch(line, record)

    def _dispatch(self, line: bytes, record: Object) -> None:
        kind = record.get("type")
        payload = record.get("payload")
        if isinstance(payload, dict) and isinstance(kind, str):
            inner = cast(Object, payload)
            name, disposition = self._enveloped(kind, inner)
        else:
            name, disposition = self._bare(kind if isinstance(kind, str) else "", record)
        if disposition is Disposition.UNKNOWN:
            if name == "event_msg/item_completed":
                name += "/" + (text_in(object_in(object_in(record, "payload"), "item"), "type") or "")
            self._unknown(line, name)
        else:
            self._count(disposition, name)

    def _enveloped(self, kind: str, payload: Object) -> tuple[str, Disposition]:
        rollout = self._rollout
        if kind == "session_meta":
            return kind, on_session_meta(rollout, payload)
        rollout.ensure_session()
        inner = payload.get("type")
        name = inner if isinstance(inner, str) else ""
        if rollout.state.held:
            self._release(kind, name, payload)
        if kind == "event_msg":
            return f"{kind}/{name}", self._event(name, payload)
        if kind == "response_item":
            return f"{kind}/{name}", self._item(name, payload)
        if kind == "turn_context":
            return kind, on_turn_context(rollout, payload)
        if kind == "compacted":
            return kind, on_compacted_history(rollout, payload)
        handler = ITEMS.get(kind) if kind in _ENVELOPES else None
        return kind, handler(rollout, payload) if handler is not None else Disposition.UNKNOWN

    def _event(self, name: str, payload: Object) -> Disposition:
        if name.startswith("collab_") and name.endswith("_end"):
            return EVENTS["collab_end"](self._rollout, payload)
        if name == "item_completed":
            return on_item_completed(self._rollout, payload)
        handler = EVENTS.get(name)
        return handler(self._rollout, payload) if handler is not None else Disposition.UNKNOWN

    def _item(self, name: str, payload: Object) -> Disposition:
        handler = ITEMS.get(name)
        if handler is not None:
            return handler(self._rollout, payload)
        return on_output(self._rollout, payload) if name.endswith("_output") else Disposition.UNKNOWN

    def _bare(self, kind: str, record: Object) -> tuple[str, Disposition]:
        rollout = self._rollout
        if not kind and _is_bare_header(record) and "role" not in record:
            return "header", on_session_meta(rollout, record)
        if record.get("record_type") == "state":
            return "state", Disposition.COUNTED
        if not kind and "thread_name" in record and "role" not in record:
            return "index", self._index(record)
        rollout.ensure_session()
        if model := text_in(record, "model"):
            rollout.state.model = model
            rollout.run(model=model)
        if kind in ("", "message") and "role" in record:
            if record.get("role") != "user" and rollout.state.held:
                rollout.release()
            return "message", on_message(rollout, record, bare=True)
        if rollout.state.held:
            rollout.release()
        if kind == "error":
            return kind, EVENTS["error"](rollout, record)
        return kind or "(none)", self._item(kind, record)

    def _index(self, record: Object) -> Disposition:
        """Read a line of the index of threads, which lies beside the rollouts; of a thread the last one wins."""
        thread, title = text_in(record, "id", "thread_id"), text_in(record, "thread_name")
        if thread and title and title.strip():
            at = utc(record.get("updated_at"))
            key = ("index", thread, Mac(title), at or "")
            self._titles[thread] = SessionUpdated(
                session=SessionRef(thread), key=key, at=at, changes={}, title=title.strip(),
                title_source=TitleSource.INDEX,
            )  # fmt: skip
        return Disposition.MAPPED

    def _release(self, kind: str, name: str, payload: Object) -> None:
        if name in _WAITING_FOR_A_START or kind in _WAITING_FOR_A_START:
            return
        if name == "message" and payload.get("role") != "assistant":
            return
        if name == "item_completed" and object_in(payload, "item").get("type") == "UserMessage":
            return
        self._rollout.release()

    def _unknown(self, line: bytes, name: str) -> None:
        rollout, names = self._rollout, self._state.counts.unknown_names
        name = name[:200]
        names[name] = number = names.get(name, 0) + 1
        self._state.counts.unknown += 1
        if number > MAX_NOTED:
            return
        turn = self._state.turn
        body = {"unknown": name, **raw_or_digest(line)}
        key = rollout.line_key(turn, "unknown", name, line.decode("utf-8", "replace").strip())
        note = Note(
            session=rollout.ref, key=key, at=rollout.at, turn=turn and turn.request_id, kind="unknown", body=body
        )  # fmt: skip
        rollout.emit(note, turn)

    def _count(self, disposition: Disposition, name: str) -> None:
        counts = self._state.counts
        if disposition is Disposition.MAPPED:
            counts.mapped += 1
        elif disposition is Disposition.DUPLICATE:
            counts.duplicate += 1
        else:
            counts.counted += 1
            counts.counted_names[name] = counts.counted_names.get(name, 0) + 1

    # -- forks ---------------------------------------------------------------------------------------------------------

    def _is_own_start(self, record: Object) -> bool:
        payload = object_in(record, "payload")
        if record.get("type") != "event_msg" or text_in(payload, "type") not in STARTS:
            return False
        started = utc(payload.get("started_at"))
        # Without a time of its own the turn is told apart by its id, which is the import's knowledge.
        return started is None or self._state.meta_at is None or started[:19] >= self._state.meta_at[:19]

    def _keep_copy(self, line: bytes, record: Object) -> None:
        self._note_copy(record)
        if not self._state.hold_dropped:
            self._hold.append(line.strip())
            self._hold_bytes += len(line)
            if self._hold_bytes > MAX_HELD_BYTES:
                self._hold.clear()
                self._state.hold_dropped = True
        self._count(Disposition.COUNTED, COPIED)

    def _note_copy(self, record: Object) -> None:
        """Read of a copied line what still counts: tokens, the model they belong to, ancestors, shared turns."""
        kind, payload = record.get("type"), object_in(record, "payload")
        inner = text_in(payload, "type")
        if kind == "session_meta":
            learn_ancestor(self._rollout, payload)
        elif kind == "turn_context":
            self._state.model = self._state.context_model = text_in(payload, "model") or self._state.model
        elif kind == "event_msg" and inner == "token_count":
            on_token_count(self._rollout, payload, copied=True)
        elif kind == "event_msg" and inner in STARTS and (name := named_turn(payload)) is not None:
            self._state.shared.append(turn_id(utc(payload.get("started_at")) or self._state.at, name, 0))

    def _decide_fork(self) -> None:
        """What came before the first own turn was copied from the parent."""
        state, rollout = self._state, self._rollout
        state.undecided = False
        self._hold.clear()
        self._hold_bytes = 0
        turns, state.shared = state.shared, []
        records = state.counts.counted_names.get(COPIED, 0)
        body: Object = {"shared": {"session": state.forked_from, "turns": turns, "records": records}}
        rollout.out.append(
            Note(session=rollout.ref, key=("shared", rollout.ref.vendor_id), at=rollout.at, kind="shared", body=body)
        )

    def _replay(self) -> None:
        """No own turn has come: what is there is read as the fork's own."""
        state = self._state
        state.undecided = False
        state.previous_total, state.previous_counters, state.shared = None, [], []
        state.model = state.context_model = None
        lines, self._hold = self._hold, []
        self._hold_bytes = 0
        counts = state.counts
        if lines:
            counts.counted -= counts.counted_names.pop(COPIED, 0)
        for line in lines:
            read = read_line(line)
            if read is not None and read.record is not None:
                self._take(line, read.record)
