"""The context in which one Claude Code record is read: its ids and time, its strand, and the facts it gives.

It routes records, remembers and emits; the rules for each kind of record are in the modules beside it.
"""

import hashlib
from typing import Literal

import msgspec

from shiftlog.facts import transcript as f
from shiftlog.ingest.readers.claude.state import ClaudeState, Seen, Strand
from shiftlog.ingest.readers.record_reader import RecordReader, load_state
from shiftlog.ingest.readers.records import (
    RAW_LIMIT_BYTES,
    Object,
    bounded,
    is_drawn,
    text_in,
    whole_in,
)
from shiftlog.model.agents import CLAUDE

MAX_TITLE_CHARS = 500
MAX_COUNTED_CALLS = 4096

_FOLLOWED = ("cwd", "branch", "version", "permission_mode")
_MAIN = ("user", "assistant", "system", "attachment")
_AT_OPENING = (("entrypoint", "entrypoint"), ("sessionKind", "session_kind"), ("teamName", "team"))


class Context(RecordReader[ClaudeState]):
    """The state of the reader and the current record."""

    AGENT = CLAUDE

    def __init__(self, hints: f.Hints, state: bytes | None = None) -> None:
        kept = load_state(state, ClaudeState)
        super().__init__(hints, kept)
        self.seen = Seen(kept.ids, kept.places)
        self.strands = {strand.ref: strand for strand in kept.strands}
        self._followed: dict[int, tuple[object, ...]] = {}
        self._waiting = {strand.index: f.decode_facts(strand.waiting) for strand in kept.strands if strand.waiting}
        self.uuid: str | None = None
        self.parent_uuid: str | None = None
        self.message_id: str | None = None
        self.request_id: str | None = None
        self.session = "unknown"
        # The tokens of the last line: most lines repeat them.
        self.reported: tuple[object, ...] | None = None

    def save(self) -> bytes:
        state = self.state
        state.ids, state.places = self.seen.save()
        for strand in state.strands:
            facts = self._waiting.get(strand.index)
            strand.waiting = f.encode_facts(facts) if facts else b""
        return super().save()

    # -- the record in hand -------------------------------------------------------------------------------------------

    def take(self, record: Object) -> None:
        """Take the ids and the time of a record."""
        self.uuid = text_in(record, "uuid")
        self.parent_uuid = text_in(record, "parentUuid")
        self.message_id = None
        self.request_id = None
        self.set_time(record.get("timestamp"))

    def key(self, part: int | str, uuid: str | None = None) -> f.Key:
        """Return the origin key of a part of the current record, or of the record with that uuid."""
        uuid = uuid or self.uuid
        if uuid is not None:
            return ("u", f"{uuid}/{part}")
        suffix: f.Key = () if part in (0, "0") else (part,)
        return ("l", self.session, f.Mac(self.line_text()), *suffix)

    def call_name(self, strand: Strand, call_id: str) -> tuple[str, str | None]:
        """Return the name for the keys of a call, and an alias for when only its session is known.

        A random id is a name. A counting one needs its record; the first such call of a session may also be known
        without it.
        """
        if is_drawn(call_id):
            return call_id, None
        session = "/".join(filter(None, strand.ref))
        name = f"{self.uuid or session}/{call_id}"
        if call_id in strand.counted_calls or self.uuid is None or len(strand.counted_calls) >= MAX_COUNTED_CALLS:
            return name, None
        strand.counted_calls.add(call_id)
        return name, f"{session}/{call_id}"

    def line_text(self) -> str:
        """Return the text that identifies a line without uuid, or the digest of a long one."""
        if len(self.line) > RAW_LIMIT_BYTES:
            return f"sha256:{hashlib.sha256(self.line.strip()).hexdigest()}"
        return self.line.decode("utf-8", "replace").strip()

    def ids(self, block: int = 0) -> f.RecordIds | None:
        """Return the vendor's ids of the current record."""
        if self.uuid is None and self.message_id is None:
            return None
        return f.RecordIds(
            uuid=self.uuid,
            parent_uuid=self.parent_uuid,
            message_id=self.message_id,
            request_id=self.request_id,
            block=block,
        )

    # -- strands -------------------------------------------------------------------------------------------------------

    def strand_of(self, record: Object) -> Strand:
        """Return the strand of a record: by its session id, then by its agent or side chain."""
        session = text_in(record, "sessionId", "session_id")
        agent = text_in(record, "agentId")
        if session is None:
            hints = self.hints
            named = hints.session_id if hints.agent_id is None else None
            session = self.state.session or hints.parent_id or named or "unknown"
        elif "#agent-" in session:
            session, _, tail = session.partition("#agent-")
            agent = agent or tail or None
        self.state.session = session or self.state.session
        if self.hints.agent_id is not None:
            return self.strand(f.VendorSession(session, agent or self.hints.agent_id))
        if record.get("isSidechain") is not True:
            main = self.strand(f.VendorSession(session))
            main.has_main = main.has_main or record.get("type") in _MAIN
            return main
        if agent is not None:
            return self.strand(f.VendorSession(session, agent))
        return self._inline(session)

    def _inline(self, session: str) -> Strand:
        main = self.strand(f.VendorSession(session))
        if not main.has_main:
            # A side chain without a main chain is the session itself.
            return main
        position = self.seen.position(self.parent_uuid)
        if position is not None:
            above = self.state.strands[position[0]]
            if above.inline and above.ref.vendor_id == session:
                return above
        strand = self.strand(f.VendorSession(session, self.uuid or f"sidechain-{len(self.state.strands)}"))
        strand.inline = True
        return strand

    def strand(self, ref: f.VendorSession) -> Strand:
        """Return a strand; create it if it is new."""
        self.session = ref.vendor_id
        strand = self.strands.get(ref)
        if strand is None:
            strand = Strand(ref=ref, index=len(self.state.strands))
            self.strands[ref] = strand
            self.state.strands.append(strand)
        return strand

    def remember(self, strand: Strand) -> None:
        """Remember the current record and its position; a title may have waited for it."""
        if self.at is not None and (strand.last_at is None or self.at > strand.last_at):
            strand.last_at = self.at  # the newest time decides when it ends, even if a clock was set back
        if strand.turn is not None:
            strand.turn.last_at = self.at
        uuid = self.uuid
        if uuid is None:
            return
        self.seen.add(uuid, strand.index, strand.ordinal)
        if self.state.summaries:
            title = self.state.summaries.pop(uuid, None)
            if title is not None:
                self.rename(strand, title, f.TitleSource.SUMMARY)

    def follow(self, strand: Strand, record: Object) -> None:
        """Follow directory, branch, version and permission mode, which change within a session."""
        find = record.get
        values = (find("cwd"), find("gitBranch"), find("version"), find("permissionMode"))
        if strand.is_open and self._followed.get(strand.index) == values:
            return
        self._followed[strand.index] = values
        known = strand.known
        if not strand.is_open:
            strand.first_at = strand.first_at or self.at
            for theirs, ours in _AT_OPENING:
                if ours not in known and (value := text_in(record, theirs)):
                    known[ours] = value
        changes: Object = {}
        for ours, value in zip(_FOLLOWED, values, strict=True):
            if value and isinstance(value, str) and known.get(ours) != value:
                known[ours] = value
                changes[ours] = value
        if changes:
            strand.first_cwd = strand.first_cwd or changes.get("cwd")
            if strand.is_open:
                self.update(strand, changes)

    # -- facts ---------------------------------------------------------------------------------------------------------

    def emit(self, strand: Strand, fact: f.AnyFact) -> None:
        """Give a fact of the conversation; the first one opens the session."""
        if not strand.is_open:
            self._open(strand)
        self.out.append(fact)

    def emit_quietly(self, strand: Strand, fact: f.AnyFact) -> None:
        """Give a fact that does not open a session; it waits for the first one that does."""
        if strand.is_open:
            self.out.append(fact)
        else:
            self._waiting.setdefault(strand.index, []).append(fact)

    def _open(self, strand: Strand) -> None:
        strand.is_open = True
        known, ref = strand.known, strand.ref
        started = strand.first_at or self.at
        sidecar = self.hints.sidecar or {}
        parent = subagent = None
        if ref.agent_id is not None:
            subagent = f.Subagent(
                kind="subagent",
                name=text_in(sidecar, "agentType"),
                depth=whole_in(sidecar, "spawnDepth"),
                description=text_in(sidecar, "description"),
            )
            call = known.get("parent_call")
            parent = f.Parent(session=f.VendorSession(ref.vendor_id), call_id=call, run_id=self.hints.run_id)
        tree = text_in(sidecar, "worktreePath")
        extra: Object = {"worktree": tree} if tree is not None else {}
        extra |= {ours: known[ours] for _, ours in _AT_OPENING if ours in known}
        fact = f.SessionOpened(
            session=ref,
            key=("session", *(part for part in ref if part)),
            at=started,
            record=self.ids(),
            agent=self.AGENT,
            cwd=known.get("cwd"),
            branch=known.get("branch"),
            version=known.get("version"),
            parent=parent,
            subagent=subagent,
            background="session_kind" in known,
            extra=extra,
        )
        self.out.append(fact)
        run = {"backend": "claude", "version": known.get("version"), "cwd": known.get("cwd"), "started": started}
        run = {name: value for name, value in {**run, "session_type": known.get("entrypoint")}.items() if value}
        # The opening record depends on when a file is read, so the run is identified by its session alone.
        aliases = (self._change_key(strand, "r", run),)
        key: f.Key = ("session", *(part for part in ref if part), "run")
        self.out.append(f.RunUpdated(session=ref, key=key, aliases=aliases, at=self.at, changes=run))
        if "permission_mode" in known:
            self.update(strand, {"permission_mode": known["permission_mode"]})
        self.out.extend(self._waiting.pop(strand.index, ()))

    def update(self, strand: Strand, changes: Object) -> None:
        """Give changed keys of a session."""
        fact = f.SessionUpdated(
            session=strand.ref, key=self._change_key(strand, "s", changes), at=self.at, changes=changes
        )
        self.emit_quietly(strand, fact)

    def change(self, strand: Strand, name: str, value: object) -> None:
        """Give one key of a session if it changed."""
        if value and strand.known.get(name) != value:
            value = bounded(value)
            strand.known[name] = value
            self._followed.pop(strand.index, None)
            self.update(strand, {name: value})

    def rename(self, strand: Strand, title: str, source: f.TitleSource) -> None:
        """Give a title if it ranks higher."""
        title = title.strip()
        again = title[:MAX_TITLE_CHARS] == strand.title
        if not title or source < strand.title_rank or (again and source == strand.title_rank):
            return
        strand.title_rank, strand.title = int(source), title[:MAX_TITLE_CHARS]
        # The same title from a better source wins over titles ranked between the two.
        said: Object = {"title": title, "source": int(source)} if again else {"title": title}
        key = self._change_key(strand, "t", said, named=False)
        self.emit_quietly(
            strand,
            f.SessionUpdated(session=strand.ref, key=key, at=self.at, changes={}, title=title, title_source=source),
        )

    def run(self, strand: Strand, changes: Object) -> None:
        """Give changed keys of the run."""
        self.emit_quietly(
            strand,
            f.RunUpdated(session=strand.ref, key=self._change_key(strand, "r", changes), at=self.at, changes=changes),
        )

    def _change_key(self, strand: Strand, kind: str, changes: Object, *, named: bool = True) -> f.Key:
        if named and self.uuid is not None:
            return ("u", f"{self.uuid}/{kind}:{'+'.join(changes)}")
        text = msgspec.json.encode(changes, order="deterministic").decode("utf-8", "replace")
        return ("l", "/".join(part for part in strand.ref if part), kind, strand.ordinal, f.Mac(text))

    def say(
        self,
        strand: Strand,
        role: Literal["user", "model", "tool", "system"],
        category: Literal["observation", "reasoning", "decision"],
        text: str,
        *,
        block: int = 0,
        images: tuple[f.Image, ...] = (),
        aliases: tuple[f.Key, ...] = (),
        extra: Object | None = None,
    ) -> None:
        """Give a dialog item of the current record, in the open turn if there is one."""
        item = f.DialogItem(
            session=strand.ref,
            turn=strand.turn_id,
            key=self.key(block),
            at=self.at,
            aliases=aliases,
            record=self.ids(block),
            role=role,
            category=category,
            content=text,
            images=images,
            extra=extra or {},
        )
        self.emit(strand, item)

    def unknown(self, strand: Strand, name: str, part: int | str = "n") -> f.Disposition:
        """Count an unknown record and keep its raw text."""
        body = self.unknown_body(name, self.line)
        if body is not None:
            note = f.Note(
                session=strand.ref,
                turn=strand.turn_id,
                key=self.key(part),
                at=self.at,
                record=self.ids(),
                kind="unknown",
                body=body,
            )
            self.emit_quietly(strand, note)
        return f.Disposition.UNKNOWN
