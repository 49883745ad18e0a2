"""The reader of Claude Code transcripts, every layout since 1.0.

It finds the strand and the rule of a record; the rules are in the modules beside it.
"""

from collections.abc import Iterable, Sequence

from shiftlog.facts.transcript import AnyFact, Disposition, Standing, VendorSession
from shiftlog.ingest.readers.claude import turns as claude_turns
from shiftlog.ingest.readers.claude.assistant import read_assistant, read_usage, reply_of
from shiftlog.ingest.readers.claude.children import BY_PROGRESS, link, link_by_prompt
from shiftlog.ingest.readers.claude.context import Context
from shiftlog.ingest.readers.claude.other_records import SMALL, read_attachment, read_system
from shiftlog.ingest.readers.claude.state import Strand
from shiftlog.ingest.readers.claude.text import text_and_images
from shiftlog.ingest.readers.claude.user import read_user
from shiftlog.ingest.readers.records import Object, object_in, text_in

_PROGRESS_COUNTED = frozenset(
    "bash_progress hook_progress mcp_progress query_update search_results_received waiting_for_task".split()
)
_AGENT_PROGRESS = "agent_progress"
_CONVERSATION = frozenset({"user", "assistant", "system", "attachment", "progress"})


class ClaudeReader(Context):
    """Reads one file of Claude Code; follows the `Reader` protocol."""

    def finish(self) -> Sequence[AnyFact]:
        """Return the fields that open turns have gathered."""
        for strand in self.state.strands:
            claude_turns.give_fields(self, strand)
        return self.given()

    def standings(self) -> Sequence[Standing]:
        """Return the turns still open."""
        found = (claude_turns.standing_of(strand) for strand in self.state.strands)
        return [standing for standing in found if standing is not None]

    def end_idle(self, sessions: Iterable[VendorSession] | None = None) -> Sequence[AnyFact]:
        """End the open turns that time alone ends."""
        wanted = None if sessions is None else set(sessions)
        for strand in self.state.strands:
            if wanted is None or strand.ref in wanted:
                claude_turns.end_idle(self, strand)
        return self.given()

    # -- records -------------------------------------------------------------------------------------------------------

    def read_record(self, record: Object) -> Disposition:
        kind = record.get("type")
        self.take(record)
        if not isinstance(kind, str):
            return self.unknown(self.strand_of(record), "None")
        if kind not in _CONVERSATION:
            strand = self._small_strand(record)
            rule = SMALL.get(kind)
            return rule(self, strand, record) if rule is not None else self.unknown(strand, kind)
        strand = self.strand_of(record)
        if self.uuid is not None and self.uuid in self.seen:
            self._read_repeated(strand, kind, record)
            return Disposition.DUPLICATE
        self.follow(strand, record)
        disposition = self._read_conversation(strand, kind, record)
        self.remember(strand)
        return disposition

    def _small_strand(self, record: Object) -> Strand:
        session = text_in(record, "sessionId", "session_id")
        if session is None or self.hints.agent_id is not None:
            return self.strand_of({"sessionId": session})
        # Only conversation decides which session the file belongs to.
        return self.strand(VendorSession(session.partition("#agent-")[0]))

    def _read_conversation(self, strand: Strand, kind: str, record: Object) -> Disposition:
        if kind == "user":
            if strand.inline and not strand.is_open:
                text, _ = text_and_images(object_in(record, "message").get("content"), keep=False)
                link_by_prompt(self, strand, text)
            return read_user(self, strand, record)
        if kind == "assistant":
            reply = reply_of(record)
            disposition = read_assistant(self, strand, record, reply)
            read_usage(self, strand, reply)
            return disposition
        if kind == "system":
            return read_system(self, strand, record)
        if kind == "attachment":
            return read_attachment(self, strand, record)
        return self._read_progress(strand, record)

    def _read_repeated(self, strand: Strand, kind: str, record: Object) -> None:
        if kind == "assistant":
            read_usage(self, strand, reply_of(record))
        elif kind == "progress":
            data = object_in(record, "data")
            message = object_in(data, "message")
            agent = _agent_of(data)
            if message.get("type") == "assistant":
                owner = strand if agent is None else self.strand(VendorSession(strand.ref.vendor_id, agent))
                read_usage(self, owner, reply_of(message), nested=agent is not None)

    def _read_progress(self, strand: Strand, record: Object) -> Disposition:
        data = object_in(record, "data")
        message, agent = object_in(data, "message"), _agent_of(data)
        if agent is not None:
            return self._read_nested(strand, agent, record, message)
        if message.get("type") == "assistant":
            read_usage(self, strand, reply_of(message))  # tokens count from every report
        kind = text_in(data, "type") or "None"
        if kind in _PROGRESS_COUNTED or kind == _AGENT_PROGRESS:
            return self.counted(f"progress/{kind}")
        return self.unknown(strand, f"progress/{kind}")

    def _read_nested(self, strand: Strand, agent: str, record: Object, message: Object) -> Disposition:
        call_id = text_in(record, "parentToolUseID")
        child = self.strand(VendorSession(strand.ref.vendor_id, agent))
        if not child.is_open and call_id is not None:
            child.known["parent_call"] = call_id
        link(self, strand, agent, rank=BY_PROGRESS, call_id=call_id)
        self.remember(strand)
        # The nested record has its own ids and time.
        outer = self.uuid, self.parent_uuid
        self.uuid, self.parent_uuid = text_in(message, "uuid"), None
        self.set_time(message.get("timestamp"))
        try:
            return self._read_nested_message(child, record, message)
        finally:
            self.uuid, self.parent_uuid = outer

    def _read_nested_message(self, child: Strand, record: Object, message: Object) -> Disposition:
        kind = message.get("type")
        is_known = self.uuid is not None and self.uuid in self.seen
        if not is_known:
            self.follow(child, {name: record.get(name) for name in ("cwd", "version", "gitBranch")})
            self.remember(child)
        if kind == "assistant":
            reply = reply_of(message)
            disposition = Disposition.MAPPED if is_known else read_assistant(self, child, message, reply, nested=True)
            read_usage(self, child, reply, nested=True)
            return disposition
        if kind == "user":
            return Disposition.MAPPED if is_known else read_user(self, child, message, nested=True)
        return self.counted("progress/agent_progress")


def _agent_of(data: Object) -> str | None:
    """Return the child of a progress record."""
    return text_in(data, "agentId") if data.get("type") == _AGENT_PROGRESS else None
