"""The Codex reader: rollouts of every release, with or without envelope, plain or paginated, forked or spawned.

It dispatches records and separates a fork's own lines from copied ones; `items`, `events`, `pages` and `thread` read
single records.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import cast

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.codex.dialog import Rollout
from shiftlog.ingest.readers.codex.events import EVENTS, STARTS
from shiftlog.ingest.readers.codex.items import ITEMS, on_message, on_output
from shiftlog.ingest.readers.codex.thread import (
    learn_ancestor,
    on_compacted_history,
    on_session_meta,
    on_token_count,
    on_turn_context,
)
from shiftlog.ingest.readers.codex.turns import named_turn
from shiftlog.ingest.readers.records import Object, object_in, read_line, text_in, turn_id, utc, whole_in

HELD = "held"
MAX_HELD_BYTES = 32 * 1024 * 1024

# Items that also stand as envelopes of their own.
_ENVELOPES = frozenset(
    "world_state ghost_snapshot inter_agent_communication inter_agent_communication_metadata security_risk_score "
    "compaction context_compaction token_usage_record".split()
)
_WAITING_FOR_A_START = frozenset(
    "task_started turn_started turn_context session_meta world_state token_count token_usage_record "
    "thread_settings_applied "
    "thread_name_updated ghost_snapshot user_message inter_agent_communication_metadata".split()
)
"""Records that may come between a user message and the start of its turn."""


class CodexReader(Rollout):
    """Reads one rollout; follows the `Reader` protocol."""

    def __init__(self, hints: f.Hints, state: bytes | None = None) -> None:
        super().__init__(hints, state)
        hold = self.state.hold
        self._hold: list[bytes] = zlib.decompress(hold).split(b"\n") if hold else []
        self._hold_bytes = sum(map(len, self._hold))
        self.state.hold = b""
        self._titles: dict[str, f.SessionUpdated] = {}

    def finish(self) -> Sequence[f.AnyFact]:
        """Write what waited: the last prompt of an old file is a turn, unless its start or other half may follow."""
        self._write_waiting()
        self.out += self._titles.values()
        self._titles = {}
        return self.given()

    def _write_waiting(self) -> None:
        state = self.state
        if state.held and not self.awaits_more:
            self.release()
        if state.turn is not None:
            self.begin(state.turn)
            self.give_fields(state.turn)

    def standings(self) -> Sequence[f.Standing]:
        """Return the open turn, or what waits: a fork without a turn of its own, or a prompt without a start."""
        state, turn = self.state, self.state.turn
        if state.held or (turn is None and state.undecided):
            name, last_at, quiet, ends_as = HELD if state.held else f.COPIED, state.newest_at, True, "observed"
        elif turn is not None:
            name, last_at, quiet = turn.request_id, turn.last_at, turn.quiet
            ends_as = "completed" if turn.legacy and turn.quiet else None
        else:
            return ()
        return (f.Standing(session=self.ref, turn=name, last_at=last_at, quiet=quiet, ends_as=ends_as),)

    def end_idle(self, sessions: Iterable[f.VendorSession] | None = None) -> Sequence[f.AnyFact]:
        """End the quiet turn of an old file; waiting lines become the file's own."""
        if sessions is not None and self.ref not in set(sessions):
            return ()
        taken = self.take_waiting()
        turn = self.state.turn
        if turn is not None and turn.legacy and turn.quiet:
            self.end_quiet(turn)
        return [*taken, *self.given()]

    def take_waiting(self) -> Sequence[f.AnyFact]:
        """Take a fork's lines as its own, and release held prompts."""
        if self.state.undecided:
            self._replay()
        if self.state.held:
            self.release()
        self._write_waiting()
        return self.given()

    def save(self) -> bytes:
        """Return the state to go on from, with the lines of an undecided fork."""
        self.state.hold = zlib.compress(b"\n".join(self._hold), 1) if self._hold else b""
        data = super().save()
        self.state.hold = b""
        return data

    # -- one record ----------------------------------------------------------------------------------------------------

    def read_record(self, record: Object) -> f.Disposition:
        """Read one record; copied ones of a fork leave only their tokens and turns."""
        state = self.state
        self.set_time(record.get("timestamp"))
        if state.undecided and not self._is_own_start(record):
            return self._keep_copy(record)
        if state.undecided:
            self._decide_fork()
        if state.history_start is not None:
            ordinal = whole_in(record, "ordinal")
            if ordinal is not None and ordinal < state.history_start and state.thread is not None:
                return self._note_copy(record)
        return self._dispatch(record)

    def _dispatch(self, record: Object) -> f.Disposition:
        kind = record.get("type")
        payload = record.get("payload")
        if isinstance(payload, dict) and isinstance(kind, str):
            name, disposition = self._enveloped(kind, cast(Object, payload))
        else:
            name, disposition = self._bare(kind if isinstance(kind, str) else "", record)
        if disposition is f.Disposition.COUNTED:
            self.counted(name)
        elif disposition is f.Disposition.UNKNOWN:
            if name == "event_msg/item_completed":
                name += "/" + (text_in(object_in(object_in(record, "payload"), "item"), "type") or "")
            self._unknown(name)
        return disposition or f.Disposition.MAPPED

    def _enveloped(self, kind: str, payload: Object) -> tuple[str, f.Disposition | None]:
        if kind == "session_meta":
            return kind, on_session_meta(self, payload)
        self.ensure_session()
        inner = payload.get("type")
        name = inner if isinstance(inner, str) else ""
        if self.state.held:
            self._release(kind, name, payload)
        if kind == "event_msg":
            is_collab = name.startswith("collab_") and name.endswith("_end")
            handler = EVENTS.get("collab_end" if is_collab else name)
            return f"{kind}/{name}", handler(self, payload) if handler is not None else f.Disposition.UNKNOWN
        if kind == "response_item":
            return f"{kind}/{name}", self._item(name, payload)
        if kind == "turn_context":
            return kind, on_turn_context(self, payload)
        if kind == "compacted":
            return kind, on_compacted_history(self, payload)
        handler = ITEMS.get(kind) if kind in _ENVELOPES else None
        return kind, handler(self, payload) if handler is not None else f.Disposition.UNKNOWN

    def _item(self, name: str, payload: Object) -> f.Disposition | None:
        handler = ITEMS.get(name, on_output if name.endswith("_output") else None)
        return handler(self, payload) if handler is not None else f.Disposition.UNKNOWN

    def _bare(self, kind: str, record: Object) -> tuple[str, f.Disposition | None]:
        is_untyped = not kind and "role" not in record
        if is_untyped and "id" in record and "timestamp" in record and ("instructions" in record or "git" in record):
            return "header", on_session_meta(self, record)
        if record.get("record_type") == "state":
            return "state", f.Disposition.COUNTED
        if is_untyped and "thread_name" in record:
            return "index", self._index(record)
        self.ensure_session()
        if model := text_in(record, "model"):
            self.state.model = model
            self.run(model=model)
        if kind in ("", "message") and "role" in record:
            if record.get("role") != "user" and self.state.held:
                self.release()
            return "message", on_message(self, record, bare=True)
        if self.state.held:
            self.release()
        if kind == "error":
            return kind, EVENTS["error"](self, record)
        return kind or "(none)", self._item(kind, record)

    def _index(self, record: Object) -> None:
        """Read a line of the index of threads beside the rollouts; the last line of a thread wins."""
        thread, title = text_in(record, "id", "thread_id"), text_in(record, "thread_name")
        if thread and title and title.strip():
            at = utc(record.get("updated_at"))
            key = ("index", thread, f.Mac(title), at or "")
            self._titles[thread] = f.SessionUpdated(
                session=f.VendorSession(thread), key=key, at=at, changes={}, title=title.strip(),
                title_source=f.TitleSource.INDEX,
            )  # fmt: skip

    def _release(self, kind: str, name: str, payload: Object) -> None:
        if name in _WAITING_FOR_A_START or kind in _WAITING_FOR_A_START:
            return
        if name == "message" and payload.get("role") != "assistant":
            return
        if name == "item_completed" and object_in(payload, "item").get("type") == "UserMessage":
            return
        self.release()

    def _unknown(self, name: str) -> None:
        body = self.unknown_body(name, self.line)
        if body is None:
            return
        turn = self.state.turn
        key = self.line_key(turn, "unknown", body["unknown"], self.line.decode("utf-8", "replace").strip())
        note = f.Note(session=self.ref, key=key, at=self.at, turn=turn and turn.request_id, kind="unknown", body=body)
        self.emit(note, turn)

    # -- forks ---------------------------------------------------------------------------------------------------------

    def _is_own_start(self, record: Object) -> bool:
        payload = object_in(record, "payload")
        if record.get("type") != "event_msg" or text_in(payload, "type") not in STARTS:
            return False
        started = utc(payload.get("started_at"))
        # Without a start time, only the import can tell by the turn's id.
        return started is None or self.state.meta_at is None or started[:19] >= self.state.meta_at[:19]

    def _keep_copy(self, record: Object) -> f.Disposition:
        if not self.state.hold_dropped:
            self._hold.append(self.line.strip())
            self._hold_bytes += len(self.line)
            if self._hold_bytes > MAX_HELD_BYTES:
                self._hold.clear()
                self.state.hold_dropped = True
        return self._note_copy(record)

    def _note_copy(self, record: Object) -> f.Disposition:
        """Read what still counts of a copied line: tokens, their model, ancestors, shared turns."""
        kind, payload = record.get("type"), object_in(record, "payload")
        inner = text_in(payload, "type")
        if kind == "session_meta":
            learn_ancestor(self, payload)
        elif kind == "turn_context":
            self.state.model = self.state.context_model = text_in(payload, "model") or self.state.model
        elif kind == "event_msg" and inner == "token_count":
            on_token_count(self, payload, copied=True)
        elif kind == "event_msg" and inner in STARTS and (name := named_turn(payload)) is not None:
            self.state.shared.append(turn_id(utc(payload.get("started_at")) or self.state.at, name, 0))
        return self.counted(f.COPIED)

    def _decide_fork(self) -> None:
        """Note that the lines before the first own turn were copied from the parent."""
        state = self.state
        state.undecided = False
        self._hold.clear()
        self._hold_bytes = 0
        turns, state.shared = state.shared, []
        records = state.counts.counted_names.get(f.COPIED, 0)
        body: Object = {"shared": {"session": state.forked_from, "turns": turns, "records": records}}
        self.out.append(
            f.Note(session=self.ref, key=("shared", self.ref.vendor_id), at=self.at, kind="shared", body=body)
        )

    def _replay(self) -> None:
        """Read the held lines as the fork's own, because no own turn followed."""
        state = self.state
        state.undecided = False
        state.previous_total, state.previous_counters, state.shared = None, [], []
        state.model = state.context_model = None
        lines, self._hold = self._hold, []
        self._hold_bytes = 0
        counts = state.counts
        if lines:
            counts.counted -= counts.counted_names.pop(f.COPIED, 0)
        for line in lines:
            read = read_line(line)
            if read is not None and read.record is not None:
                self.line = line
                self.count(self.read_record(read.record))
