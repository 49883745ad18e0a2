"""The reader of Claude Code transcripts: every layout since 1.0, one line at a time.

Here a line finds its strand and its rule; the rules live in the `claude_*` files beside it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from shiftlog.facts.transcript import AnyFact, Counts, Disposition, Hints, SessionRef, Standing
from shiftlog.ingest.readers.claude import turns as claude_turns
from shiftlog.ingest.readers.claude.assistant import read_assistant, read_usage, reply_of
from shiftlog.ingest.readers.claude.children import BY_PROGRESS, link, link_by_prompt
from shiftlog.ingest.readers.claude.context import AGENT, Desk
from shiftlog.ingest.readers.claude.other_records import SMALL, read_attachment, read_system
from shiftlog.ingest.readers.claude.state import VERSION, State, Strand
from shiftlog.ingest.readers.claude.text import text_and_images
from shiftlog.ingest.readers.claude.user import read_user
from shiftlog.ingest.readers.records import Object, object_in, read_line, text_in

_PROGRESS_COUNTED = frozenset(
    "bash_progress hook_progress mcp_progress query_update search_results_received waiting_for_task".split()
)
_AGENT_PROGRESS = "agent_progress"
_CONVERSATION = frozenset({"user", "assistant", "system", "attachment", "progress"})


class ClaudeReader:
    """Reads one file of Claude Code; follows the `Reader` protocol."""

    agent = AGENT

    def __init__(self, hints: Hints, state: bytes | None = None) -> None:
        self._desk = Desk(hints, _restored(state))

    @property
    def counts(self) -> Counts:
        """Return the dispositions of all lines so far."""
        return self._desk.state.counts

    @property
    def newest_at(self) -> str | None:
        """Return the latest time of any record."""
        return self._desk.state.newest_at

    def feed(self, line: bytes) -> Sequence[AnyFact]:
        """Read one line."""
        desk, counts = self._desk, self._desk.state.counts
        desk.out = []
        read = read_line(line)
        if read is None:
            return desk.out
        counts.replaced += read.replaced
        if read.record is None:
            counts.bad += 1
            return desk.out
        disposition = self._read(line, read.record)
        if disposition is Disposition.MAPPED:
            counts.mapped += 1
        else:
            setattr(counts, disposition, getattr(counts, disposition) + 1)
        return desk.out

    def skip_oversized(self) -> None:
        """Count a line that was too long to be fed."""
        self.counts.bad += 1
        self.counts.oversized += 1

    def finish(self) -> Sequence[AnyFact]:
        """Return the fields that open turns have gathered."""
        desk = self._desk
        desk.out = []
        for strand in desk.state.strands:
            claude_turns.give_fields(desk, strand)
        return desk.out

    def standings(self) -> Sequence[Standing]:
        """Return the turns still open."""
        found = (claude_turns.standing_of(strand) for strand in self._desk.state.strands)
        return [standing for standing in found if standing is not None]

    def settle(self, sessions: Iterable[SessionRef] | None = None) -> Sequence[AnyFact]:
        """End the open turns that time alone ends."""
        desk = self._desk
        desk.out = []
        wanted = None if sessions is None else set(sessions)
        for strand in desk.state.strands:
            if wanted is None or strand.ref in wanted:
                claude_turns.settle(desk, strand)
        return desk.out

    def save(self) -> bytes:
        """Return the state to go on from."""
        return self._desk.save()

    # -- records -------------------------------------------------------------------------------------------------------

    def _read(self, line: bytes, record: Object) -> Disposition:
        desk = self._desk
        kind = record.get("type")
        desk.take(line, record)
        if not isinstance(kind, str):
            return desk.unknown(desk.strand_of(record), "None")
        if kind not in _CONVERSATION:
            strand = self._small_strand(record)
            rule = SMALL.get(kind)
            return rule(desk, strand, record) if rule is not None else desk.unknown(strand, kind)
        strand = desk.strand_of(record)
        if desk.uuid is not None and desk.uuid in desk.seen:
            self._read_repeated(strand, kind, record)
            return Disposition.DUPLICATE
        desk.follow(strand, record)
        disposition = self._read_conversation(strand, kind, record)
        desk.remember(strand)
        return disposition

    def _small_strand(self, record: Object) -> Strand:
        desk = self._desk
        session = text_in(record, "sessionId", "session_id")
        if session is None or desk.hints.agent_id is not None:
            return desk.strand_of({"sessionId": session})
        # Only conversation decides which session the file is about.
        return desk.strand(SessionRef(session.partition("#agent-")[0]))

    def _read_conversation(self, strand: Strand, kind: str, record: Object) -> Disposition:
        desk = self._desk
        if kind == "user":
            if strand.inline and not strand.is_open:
                text, _ = text_and_images(object_in(record, "message").get("content"), keep=False)
                link_by_prompt(desk, strand, text)
            return read_user(desk, strand, record)
        if kind == "assistant":
            reply = reply_of(record)
            disposition = read_assistant(desk, strand, record, reply)
            read_usage(desk, strand, reply)
            return disposition
        if kind == "system":
            return read_system(desk, strand, record)
        if kind == "attachment":
            return read_attachment(desk, strand, record)
        return self._read_progress(strand, record)

    def _read_repeated(self, strand: Strand, kind: str, record: Object) -> None:
        if kind == "assistant":
            read_usage(self._desk, strand, reply_of(record))
        elif kind == "progress":
            data = object_in(record, "data")
            message = object_in(data, "message")
            agent = _agent_of(data)
            if message.get("type") == "assistant":
                owner = strand if agent is None else self._desk.strand(SessionRef(strand.ref.vendor_id, agent))
                read_usage(self._desk, owner, reply_of(message), nested=agent is not None)

    def _read_progress(self, strand: Strand, record: Object) -> Disposition:
        data = object_in(record, "data")
        message, agent = object_in(data, "message"), _agent_of(data)
        if agent is not None:
            return self._read_nested(strand, agent, record, message)
        if message.get("type") == "assistant":
            read_usage(self._desk, strand, reply_of(message))  # tokens count, whoever speaks of them
        kind = text_in(data, "type") or "None"
        if kind in _PROGRESS_COUNTED or kind == _AGENT_PROGRESS:
            return self._desk.counted(f"progress/{kind}")
        return self._desk.unknown(strand, f"progress/{kind}")

    def _read_nested(self, strand: Strand, agent: str, record: Object, message: Object) -> Disposition:
        desk = self._desk
        call_id = text_in(record, "parentToolUseID")
        child = desk.strand(SessionRef(strand.ref.vendor_id, agent))
        if not child.is_open and call_id is not None:
            child.known["parent_call"] = call_id
        link(desk, strand, agent, rank=BY_PROGRESS, call_id=call_id)
        desk.remember(strand)
        # The nested record has ids and a time of its own.
        outer = desk.uuid, desk.parent_uuid
        desk.uuid, desk.parent_uuid = text_in(message, "uuid"), None
        desk.set_time(message.get("timestamp"))
        try:
            return self._read_nested_message(child, record, message)
        finally:
            desk.uuid, desk.parent_uuid = outer

    def _read_nested_message(self, child: Strand, record: Object, message: Object) -> Disposition:
        desk = self._desk
        kind = message.get("type")
        is_known = desk.uuid is not None and desk.uuid in desk.seen
        if not is_known:
            desk.follow(child, {name: record.get(name) for name in ("cwd", "version", "gitBranch")})
            desk.remember(child)
        if kind == "assistant":
            reply = reply_of(message)
            disposition = Disposition.MAPPED if is_known else read_assistant(desk, child, message, reply, nested=True)
            read_usage(desk, child, reply, nested=True)
            return disposition
        if kind == "user":
            return Disposition.MAPPED if is_known else read_user(desk, child, message, nested=True)
        return desk.counted("progress/agent_progress")


def _agent_of(data: Object) -> str | None:
    """Return the child that a progress record tells of."""
    return text_in(data, "agentId") if data.get("type") == _AGENT_PROGRESS else None


def _restored(state: bytes | None) -> State:
    if state is not None:
        try:
            kept = msgspec.msgpack.decode(state, type=State)
        except msgspec.MsgspecError:
            return State()
        if kept.version == VERSION:
            return kept
    return State()
