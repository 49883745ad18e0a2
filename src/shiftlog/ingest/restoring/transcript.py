"""A transcript of a vendor, written from the journal: what both vendors' writers share.

Sans-I/O: a session, its turns and entries in, the vendor's records out. The journal lacks signatures of reasoning,
images that were not kept, and masked secrets; `RestoredTranscript` counts what is missing. Records have the ids that
they had, so that a transcript read into the journal that wrote it brings nothing new.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from shiftlog.model.agents import BY_NAME
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Session, Turn
from shiftlog.model.times import parse

VENDORS = tuple(agent.name for agent in BY_NAME.values() if agent.resume)
_IN_NOTE = 1_000_000
_FOLLOWED = ("cwd", "branch", "version", "approval_policy", "sandbox_policy")

Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ancestry:
    """The vendor's ids of the sessions that a session came from; its transcript names them.

    A subagent's parent is the session of the conversation that it was started in, whatever agents are between.
    """

    parent: str | None = None
    parent_cwd: str | None = None
    forked_from: str | None = None
    agent_path: str | None = None
    """The name under which other agents of Codex write to it."""


@dataclass(slots=True, kw_only=True)
class RestoredTranscript:
    """A transcript to write; its counts are complete once all `records` were read."""

    vendor: str
    session_id: str
    cwd: str
    started: datetime
    model_provider: str | None = None
    """Codex resumes a session under the provider that it names; without one under that of its settings."""
    ancestry: Ancestry = field(default_factory=Ancestry)
    records: Iterator[Record] = field(default_factory=lambda: iter(()))
    turns: int = 0
    masked: int = 0
    left_out: int = 0

    def about(self) -> Record:
        """Return a summary for people."""
        return {
            "vendor": self.vendor,
            "vendor_session_id": self.session_id,
            "place": self.place(),
            "command": f"{BY_NAME[self.vendor].resume} {self.conversation}",
            "turns": self.turns,
            "masked": self.masked,
            "left_out": self.left_out,
        }

    @property
    def conversation(self) -> str:
        """Return the id that a client resumes: of its own session, or for a subagent of Claude Code of its parent's."""
        parent = self.ancestry.parent if self.vendor == "claude" else None
        return parent or self.session_id

    def place(self) -> str:
        """Return the path where the vendor's client looks for it, below its home folder."""
        if self.vendor == "claude":
            folder = re.sub(r"[^A-Za-z0-9-]", "-", self.ancestry.parent_cwd or self.cwd)
            below = f"/subagents/agent-{self.session_id}" if self.conversation != self.session_id else ""
            return f"projects/{folder}/{self.conversation}{below}.jsonl"
        return f"sessions/{self.started:%Y/%m/%d}/rollout-{self.started:%Y-%m-%dT%H-%M-%S}-{self.session_id}.jsonl"


class Places:
    """The circumstances of a session, as they changed with its entries: directory, branch, version, policies."""

    def __init__(self, changes: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        self._seqs: list[int] = []
        self._known: list[Mapping[str, Any]] = []
        known: Mapping[str, Any] = {}
        for seq, facts in changes:
            known = {**known, **{name: facts[name] for name in _FOLLOWED if facts.get(name)}}
            self._seqs.append(seq)
            self._known.append(known)

    def at(self, seq: int) -> Mapping[str, Any]:
        """Return what was so when an entry was written."""
        found = bisect_right(self._seqs, seq)
        return self._known[found - 1] if found else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDialog:
    """A turn and its dialog in order, or the dialog between two turns.

    `begun` are the facts of its beginning, `usage` the entries about its tokens, `abandoned` the turns rewound just
    before it.
    `is_cut` says that a fork left the turn here: what came after, its end too, belongs to the origin alone.
    """

    turn: Turn | None
    entries: Sequence[Entry]
    places: Places
    begun: Mapping[str, Any] = field(default_factory=dict[str, Any])
    usage: Sequence[Entry] = ()
    abandoned: frozenset[str] = frozenset()
    is_cut: bool = False

    @property
    def has_prompt(self) -> bool:
        """Return False for a turn that an import began with other records than a prompt."""
        without = self.begun.get("imported") and self.begun.get("opened_by", "continued") == "continued"
        return not without or bool(self.turn and self.turn.query_text)

    @property
    def vendor_id(self) -> str | None:
        """Return the vendor's turn id."""
        return self.begun.get("vendor_turn_id")


def late_dialog(turn: Turn) -> list[Entry]:
    """Return the dialog that a transcript added to an ended turn, as entries."""
    late: list[Entry] = []
    for note in turn.amendments:
        items = cast("list[Record]", note.fields.get("dialog") or [])
        for number, item in enumerate(items):
            late.append(
                Entry(
                    seq=note.seq * _IN_NOTE + number,
                    kind=Kind.DIALOG,
                    at=parse(str(item["timestamp"])) if item.get("timestamp") else note.at,
                    turn=turn.request_id,
                    body=item,
                    salt=None,
                    body_hash="",
                    hash="",
                )
            )
    return late


@dataclass(slots=True)
class TranscriptWriter:
    """The parts that both formats share: dialog in order, each result after its call."""

    session: Session
    restored: RestoredTranscript

    def items(self, dialog: TurnDialog) -> Iterator[tuple[str, Mapping[str, Any], Entry]]:
        """Yield texts, calls, results, compactions and what was injected, each by its name.

        A call without a result has none here either: the clients know how to go on from it.
        """
        # An agent that records its own work need not name its calls; then they are text.
        calls = {
            str(entry.facts["call_id"])
            for entry in dialog.entries
            if entry.facts.get("call_id") and entry.facts.get("category") == "tool_call"
        }
        compacted = False
        for entry in dialog.entries:
            facts: dict[str, Any] = entry.facts
            category, role, call = facts.get("category"), facts.get("role"), str(facts.get("call_id"))
            # Of a mark that came without the kind of what follows: Claude Code writes the summary next.
            follows, compacted = compacted and bool(ids_of(facts).get("uuid")), "compaction" in facts
            if category == "tool_call" and facts.get("call_id"):
                yield "call", facts, entry
            elif category == "tool_result" and call in calls:
                calls.discard(call)  # a call can have only one result
                yield "result", facts, entry
            elif role in ("model", "user") and (category != "reasoning" or "phase" in facts) and facts.get("content"):
                # Codex says text between its calls too; the journal may file it as reasoning.
                yield ("text" if role == "model" else "user"), facts, entry
            elif category == "reasoning" and role == "model":
                yield "reasoning", facts, entry
            elif compacted:
                yield "compaction", facts, entry
            elif facts.get("injected") or follows:
                yield "injected", {"injected": "summary", **facts}, entry
            else:
                yield "system", facts, entry

    def answer(self, dialog: TurnDialog, texts: Sequence[tuple[str, Entry]]) -> str | None:
        """Return the response of a turn that was recorded live, unless its dialog already holds it."""
        response = dialog.turn.response if dialog.turn is not None else ""
        if not response or any(entry.facts.get("record") for _, entry in texts):
            return None
        said = [text for text, _ in texts]
        return response if response not in said and "\n\n".join(said[-8:]).find(response) < 0 else None


def ids_of(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the vendor's ids of the record that an entry stands for."""
    return cast("Mapping[str, Any]", facts.get("record") or {})


def as_object(value: Any) -> Record:
    """Return what a tool was given as an object."""
    if isinstance(value, dict):
        return cast(Record, value)
    return {} if value is None else {"input": value}
