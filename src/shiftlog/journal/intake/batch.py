"""One batch of imported facts: decides which are new, which session and turn they belong to, and what each writes.

The pen chains the entries, `counting.py` counts tokens, `family.py` keeps the lineage.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from shiftlog.facts.batch import RECORDS, SEEN_AGAIN, Batch, Incoming, Prepared
from shiftlog.facts.transcript import VendorSession
from shiftlog.journal.clock import Clock
from shiftlog.journal.encoding import salt_from
from shiftlog.journal.intake.counting import Counting
from shiftlog.journal.intake.family import Family
from shiftlog.journal.intake.origins import Origins
from shiftlog.journal.intake.outcome import BatchOutcome
from shiftlog.journal.intake.pen import IntakePen, Pens
from shiftlog.journal.intake.prompts import are_near, left_by_hook, prompted_at, turn_now
from shiftlog.journal.intake.sessions import (
    UNTITLED,
    add_redactions,
    minted_id,
    worked_in,
)
from shiftlog.journal.intake.turns import SOURCE, HeldTurns, clear_items, end_turn, late_dialog, update_turn
from shiftlog.journal.rules import next_order
from shiftlog.journal.vendor_names import session_name, under_vendor_id
from shiftlog.model.entry import Kind
from shiftlog.model.ids import free_id
from shiftlog.model.moves import SessionState
from shiftlog.model.times import parse, precise
from shiftlog.store.protocol import Writer
from shiftlog.store.sources import Origin, Source

CONTINUED = "(continued)"
IMPORTED = "imported"
PROMPT_TITLE = 1
BY_RECORD = "continued"
LOOKED_AHEAD = 4
_FILLED = ("model", "reasoning_effort")
# These facts hold until they change, so an old record says nothing about the present.
_PASSING = {"cwd", "branch", "version", "permission_mode", "approval_policy", "sandbox_policy"}
_OF_SESSION = ("session_updated", "run_updated")
# Facts of a prompt that only serve to find its turn.
_NOT_KEPT = ("prompt_name", "untimed")


class BatchWork:
    """The writing of one batch."""

    def __init__(self, writer: Writer, batch: Batch, source: Source, clock: Clock) -> None:
        self.outcome = BatchOutcome()
        self._writer = writer
        self._batch = batch
        self._source = source
        self._pens = Pens(writer, clock)
        self._ids: dict[int, str | None] = {}
        self._origins = Origins(writer, batch.agent)
        self._family = Family(self._origins, self._pens, batch.agent)
        self._naming: list[Incoming] | None = None
        self._unnamed: set[str | None] = set()
        self._late: dict[tuple[str, str], list[Incoming]] = {}
        self._held = HeldTurns(self._pens, self._origins)
        self._masked: dict[str, Counter[str]] = {}
        shared = None if batch.first else self._origins.document(_shared_name(source.path, source.ahead))
        self._shared: dict[str, Any] = dict(shared or {})
        self._counting = Counting(self._origins, self._pens, batch.agent, self.outcome.counts)

    def run(self) -> None:
        """Write everything that is new."""
        items = self._batch.items
        keys = [key for item in items for key in (item.key, *item.aliases)]
        keys += [item.former for item in items if item.former is not None]
        self._origins.load(keys, self._names())
        self._origins.load_turns(self._turns_named())
        for place, item in enumerate(items):
            self._take(item, place)
        self._counting.write_responses()
        for (session_id, turn), late in self._late.items():
            late_dialog(self._pens[session_id], turn, late, self._held.of(session_id, turn, late[0]))
        if self._batch.last:
            known = {index: found for index, found in self._ids.items() if found is not None}
            self._family.finish(self._batch.sessions, known)
            self._note_shared()
        if self._shared:
            read = self.read_source()
            self._origins.keep(_shared_name(read.path, read.ahead), next(iter(self._shared)), self._shared)
        self._flush()

    def _names(self) -> list[str]:
        """Return the names of the origins that the batch will look up, so that they are read at once."""
        names = [_session_key(name) for name in self._batch.sessions]
        for item in self._batch.items:
            if item.what == "usage" and item.body and (message := item.body.get("message_id")):
                names.append(f"msg:{message}")
            elif item.what == "turn_begun" and item.body and (prompt := item.body.get("prompt_name")):
                names.append(f"{prompt}:0")
        return names

    def _turns_named(self) -> set[tuple[str, str]]:
        """Return the turns that the batch mentions, in sessions that are known already."""
        items = self._batch.items
        known = {index: self._id_of(index) for index in dict.fromkeys(item.session for item in items)}
        return {(found, item.turn) for item in items if item.turn and (found := known[item.session]) is not None}

    def _flush(self) -> None:
        for pen in self._pens.values():
            self.outcome.entries += pen.commit(self._writer)
        self._origins.flush()
        for session_id, masked in self._masked.items():
            add_redactions(self._writer, session_id, masked)

    def read_source(self) -> Source:
        """Return the source as it stands after this batch; without a state the file is read again from before it."""
        batch, source = self._batch, self._source
        sessions = tuple(dict.fromkeys((*source.sessions, *self.outcome.sessions)))
        # A file that is not read to its end never counts as unchanged.
        read = replace(source, size=source.size if batch.last else -1, sessions=sessions)
        if batch.state is None:
            return replace(read, ahead=batch.cursor - source.cursor)
        return replace(
            read,
            cursor=batch.cursor,
            tail=batch.tail,
            ahead=0,
            state=batch.state,
            settle_at=None if batch.settle_at is None else parse(batch.settle_at),
            counts=batch.counts,
        )

    # Sessions

    def _id_of(self, index: int) -> str | None:
        """Return the journal's session for one of the vendor's, if it is known."""
        if index in self._ids:
            return self._ids[index]
        origin = self._origins.origin(_session_key(self._batch.sessions[index]))
        found = origin.session_id if origin else self._joined(index)
        if found is not None:
            self._ids[index] = found
            session = self._writer.session(found)
            if session is not None:
                self.outcome.sessions[found] = session.parent_session_id is not None or bool(session.subagent)
                if session.state is SessionState.SEALED:
                    self.outcome.sealed.append(found)
        return found

    def _joined(self, index: int) -> str | None:
        """Return a session that was recorded live, under the vendor's id or by the agent's own calls."""
        name = self._batch.sessions[index]
        if name.agent_id is not None:
            return None
        found = under_vendor_id(self._writer, self._batch.agent, name.vendor_id)
        if found is None:
            if self._naming is None:
                self._naming = [item for item in self._batch.items if item.what in ("session_opened", "adopt")]
            naming = [item for item in self._naming if item.session == index]
            found = worked_in(self._writer, self._batch.agent, naming, taken=set(self._ids.values()))
            self._unnamed.add(found)
        if found is not None:
            self._origins.put(_session_key(name), Origin(session_id=found, doc={"live": True}))
        return found

    def _open(self, item: Incoming) -> None:
        assert item.body is not None
        name = self._batch.sessions[item.session]
        known = self._id_of(item.session)
        if known is not None:
            if known not in self.outcome.sealed:
                if known in self._unnamed:
                    body = {"vendor_session_id": name.vendor_id}
                    self._write(self._pens[known], Kind.SESSION_UPDATED, item.at, body)
                self._family.add_child(known, name, item.body)
                self._fork(known, item)
                self._tell_origin(known, item)
            return
        session_id = free_id(
            minted_id(self._batch.agent, item.at, name.vendor_id, name.agent_id),
            lambda name: name in self._pens or self._writer.session(name) is not None,
        )
        pen = self._pens[session_id]
        body = {**item.body, "title": UNTITLED, "started": item.at}
        body["vendor_session_id"] = name.agent_id or name.vendor_id
        parent = self._family.parent_of(name, item.body)
        if parent:
            body["parent"] = parent
        body["subagent"] = self._family.subagent_of(name, item.body)
        self._write(pen, Kind.SESSION_OPENED, item.at, {key: value for key, value in body.items() if value})
        self._write(pen, Kind.SESSION_SUSPENDED, item.at, {"cause": IMPORTED})
        self._ids[item.session] = session_id
        self._origins.put(_session_key(name), Origin(session_id=session_id))
        self._origins.open_session(session_id)
        self.outcome.new.append(session_id)
        self.outcome.sessions[session_id] = bool(parent or pen.session.parent_session_id or pen.session.subagent)
        place = {name: item.body.get(name) for name in ("cwd", "repository")}
        self.outcome.places.setdefault(session_id, []).append(place)
        self._family.add_child(session_id, name, item.body)
        self._family.add_parent(session_id, name)
        self._fork(session_id, item)

    def _fork(self, session_id: str, item: Incoming) -> None:
        name, parent = self._batch.sessions[item.session], (item.body or {}).get("forked_from")
        if parent and name.agent_id is None:
            self._counting.join_family(name.vendor_id, str(parent), session_id, item)

    def _tell_origin(self, known: str, item: Incoming) -> None:
        """Record the origin of a fork that a hook or a client opened without knowing it."""
        named, pen = str((item.body or {}).get("forked_from") or ""), self._pens[known]
        if named and pen.session.forked_from is None:
            origin = under_vendor_id(self._writer, self._batch.agent, named) or named
            self._write(pen, Kind.SESSION_UPDATED, item.at, {"forked_from": origin})

    def _write(self, pen: IntakePen, kind: Kind, at: str, body: dict[str, Any], turn: str | None = None) -> None:
        salt = salt_from(self._batch.agent, pen.id, str(kind), str(pen.next_seq))
        pen.write(kind, body, turn, at=at, salt=salt)

    # Facts

    def _take(self, item: Incoming, place: int) -> None:
        what = item.what
        if what == "session_opened":
            self._open(item)
            return
        session_id = self._ids.get(item.session) or self._id_of(item.session)
        if session_id is None or session_id in self.outcome.sealed:
            return
        pen = self._pens[session_id]
        if what == "usage":
            self._counting.take(item, pen)
            return
        if what == "adopt":
            self._adopt(item, pen)
            return
        owner = self._origins.owner(item.key, item.aliases)
        if owner is None and item.former is not None:
            owner = self._origins.moved(item.former, item.key, session_id)
        if owner is None and what == "turn_begun":
            owner = self._hooked(item, pen)
            if owner is None and self._only_repeats(place, item, pen):
                self.outcome.counts[SEEN_AGAIN] += 1
                return
        if owner is not None:
            self.outcome.counts[SEEN_AGAIN] += what in RECORDS
            if what != "turn_begun" or not self._takes_over(item, pen, owner):
                self._again(item, pen, owner)
                return
        self._origins.own(item.key, item.aliases, session_id, item.turn if what == "turn_begun" else None)
        if item.masked:
            self.outcome.redactions.update(item.masked)
            self._masked.setdefault(session_id, Counter()).update(item.masked)
        if item.prepared is not None and what != "note":
            self._say(item, item.prepared, pen)
        else:
            _HANDLERS[what](self, item, pen)

    def _again(self, item: Incoming, pen: IntakePen, owner: Origin) -> None:
        """Count a known fact as a duplicate, or as copied from another session."""
        if item.what in ("turn_updated", "turn_ended") and owner.session_id != pen.id:
            # The turn began in another session but goes on in this one: its end here is this one's own.
            if item.turn and pen.is_open(item.turn):
                _HANDLERS[item.what](self, item, pen)
            return
        if item.what in _OF_SESSION and owner.session_id != pen.id:
            self._repeat_for(item, pen)
        if item.what not in RECORDS:
            return
        if owner.session_id == pen.id:
            self.outcome.counts["duplicates"] += 1
            return
        self.outcome.counts["copied_records"] += 1
        shared = self._shared.setdefault(pen.id, {}).setdefault(owner.session_id, {"records": 0, "turns": []})
        shared["records"] += 1
        if item.what == "turn_begun" and owner.turn and owner.turn not in shared["turns"]:
            shared["turns"].append(owner.turn)

    def _repeat_for(self, item: Incoming, pen: IntakePen) -> None:
        """Write a session's change that a copied record reports: it holds for the copying session too."""
        name = f"own:{pen.id}:{item.key.hex()}"
        if self._origins.origin(name) is None:
            self._origins.put(name, Origin(session_id=pen.id))
            _HANDLERS[item.what](self, item, pen)

    def _say(self, item: Incoming, prepared: Prepared, pen: IntakePen) -> None:
        turn = self._turn_of(item, pen) if item.turn is not None else None
        if item.what == "tool_call":
            self.outcome.counts["tool_calls"] += 1
        if turn is not None and not pen.is_open(turn):
            self._late.setdefault((pen.id, turn), []).append(item)
            return
        pen.write_prepared(Kind.DIALOG, {}, turn, prepared, at=item.at)

    # Turns

    def _turn_of(self, item: Incoming, pen: IntakePen) -> str | None:
        """Return the turn of a fact; if it began in another session, it is continued in this one."""
        turn = self._turn_there(item, pen)
        if turn is None and item.turn is not None:
            turn = item.turn
            body = {"query_title": CONTINUED, "query_text": "", "imported": True}
            self._write(pen, Kind.TURN_BEGUN, item.at, body, turn)
            self.outcome.counts["turns"] += 1
        return turn

    def _turn_there(self, item: Incoming, pen: IntakePen) -> str | None:
        """Return the turn of a fact if this session has it; a fact that only describes a turn begins none."""
        if item.turn is None:
            return None
        turn = self._origins.turn_in(pen.id, item.turn)
        return turn or (item.turn if pen.has_turn(item.turn) else None)

    def _takes_over(self, item: Incoming, pen: IntakePen, owner: Origin) -> bool:
        """Return True if a prompt that a hook brought is this one: same session, and begun at about the same time."""
        turn = turn_now(pen, owner) if (owner.doc or {}).get("live") else None
        if turn is None or not are_near(prompted_at(item), turn):
            return False
        if item.turn:
            self._origins.map_turn(pen.id, item.turn, turn.request_id)
        return True

    def _hooked(self, item: Incoming, pen: IntakePen) -> Origin | None:
        """Return the turn that a hook began for this prompt, unless its agent's own turn has it already."""
        name = (item.body or {}).get("prompt_name")
        if not name or (item.turn and self._origins.turn_in(pen.id, item.turn)):
            return None
        return left_by_hook(self._origins, pen, str(name), prompted_at(item))

    def _begin_turn(self, item: Incoming, pen: IntakePen) -> None:
        assert item.turn is not None
        assert item.body is not None
        mapped = self._origins.turn_in(pen.id, item.turn)
        if mapped is None and self._is_live(item) and pen.has_turn(item.turn):
            # A session that was recorded live has this very turn already, as `importRecovery` brings it.
            mapped = item.turn
            self._origins.map_turn(pen.id, item.turn, mapped)
            clear_items(pen, mapped, item.at)
        if mapped is not None:
            sets = {name: item.body.get(name) for name in ("model", "images")}
            update_turn(pen, mapped, item.at, {"sets": sets}, live=True)
            return
        request_id = free_id(item.turn, pen.has_turn)
        if request_id != item.turn:
            self._origins.map_turn(pen.id, item.turn, request_id, live=False)
        body = {name: value for name, value in item.body.items() if value and name not in _NOT_KEPT}
        title = body.get("query_title") or CONTINUED
        body |= {"query_title": title, "query_text": body.get("query_text", ""), "imported": True}
        self._write(pen, Kind.TURN_BEGUN, item.at, body, request_id)
        self.outcome.counts["turns"] += 1

    def _only_repeats(self, place: int, item: Incoming, pen: IntakePen) -> bool:
        """Return True if a turn was opened, for lack of a prompt, by a record that another session owns.

        A copy may name its own session from the middle of a turn on; what it adds to that turn begins it here.
        """
        if (item.body or {}).get("opened_by") != BY_RECORD:
            return False
        for following in self._batch.items[place + 1 : place + 1 + LOOKED_AHEAD]:
            if following.turn == item.turn and following.what in RECORDS:
                owner = self._origins.owner(following.key, following.aliases)
                return owner is not None and owner.session_id != pen.id
        return False

    def _adopt(self, item: Incoming, pen: IntakePen) -> None:
        """Map a vendor's turn to the turn that its agent began with our own tool."""
        assert item.turn is not None
        assert item.body is not None
        request_id = str(item.body["request_id"])
        if request_id != item.turn and pen.has_turn(request_id):
            self._origins.map_turn(pen.id, item.turn, request_id)

    def _update_turn(self, item: Incoming, pen: IntakePen) -> None:
        turn = self._turn_there(item, pen)
        if turn is not None and item.body is not None:
            update_turn(pen, turn, item.at, item.body, live=self._origins.is_live(pen.id, item.turn))

    def _end_turn(self, item: Incoming, pen: IntakePen) -> None:
        turn = self._turn_there(item, pen)
        if turn is None or item.body is None:
            return
        self._counting.write_responses()
        end_turn(pen, turn, item.at, item.body, live=self._origins.is_live(pen.id, item.turn))

    def _act(self, item: Incoming, pen: IntakePen) -> None:
        assert item.body is not None
        request_id = self._turn_of(item, pen)
        turn = pen.turn(request_id) if request_id else None
        body = {"order": next_order(pen, turn) if turn else 0, **item.body}
        if turn is not None and turn.is_terminal:
            held = self._held.of(pen.id, turn.request_id, item)
            if held is not None and held.takes_action(body):
                return
            fields: dict[str, Any] = {"actions": [body]}
            if body.get("type") in ("edit", "create", "delete") and body.get("file_path"):
                fields["files_modified"] = [body["file_path"]]
            amendment = {"source": SOURCE, "seal": turn.seal, "fields": fields}
            self._write(pen, Kind.IMPORT_NOTED, item.at, amendment, turn.request_id)
            return
        self._write(pen, Kind.ACTION, item.at, body, request_id)

    # The rest

    def _update_session(self, item: Incoming, pen: IntakePen) -> None:
        assert item.body is not None
        changes: dict[str, Any] = dict(item.body.get("changes") or {})
        if changes.keys() <= _PASSING and self._is_old(item, pen):
            changes = {}
        title, rank = item.body.get("title"), int(item.body.get("title_source") or 0)
        if title and not self._is_live(item):
            known = int((self._origins.document(f"title:{pen.id}") or {}).get("rank", 0))
            if rank > known or (rank == known != PROMPT_TITLE):
                self._origins.keep(f"title:{pen.id}", pen.id, {"rank": rank})
                if title != pen.session.title:
                    changes["title"] = title
        worktree = changes.get("worktree")
        tree: dict[str, Any] = cast("dict[str, Any]", worktree) if isinstance(worktree, dict) else {}
        named = (changes.get("cwd"), changes.get("relocated_cwd"), tree.get("originalCwd"), tree.get("worktreePath"))
        for path in named:
            if isinstance(path, str) and path:
                self.outcome.places.setdefault(pen.id, []).append({"cwd": path})
        if changes:
            self._write(pen, Kind.SESSION_UPDATED, item.at, changes)

    def _is_old(self, item: Incoming, pen: IntakePen) -> bool:
        """Return True if a session that only imports know has newer activity than a record."""
        return parse(item.at) < pen.session.last_activity and not self._is_live(item)

    def _is_live(self, item: Incoming) -> bool:
        """Return True if the session was not opened by an import."""
        return bool((self._origins.document(_session_key(self._batch.sessions[item.session])) or {}).get("live"))

    def _update_run(self, item: Incoming, pen: IntakePen) -> None:
        changes: dict[str, Any] = (item.body or {}).get("changes") or {}
        if not changes:
            return
        run = pen.session.run
        if changes == {"model": pen.session.model} or (run is None and self._is_old(item, pen)):
            return
        if run is None:
            self._write(pen, Kind.RUN_UPDATED, item.at, changes)
            return
        # The run's own facts win: only missing ones are filled in, the rest is kept beside them.
        lacking = {name: changes[name] for name in _FILLED if changes.get(name) and getattr(run, name) is None}
        self._write(pen, Kind.RUN_UPDATED, item.at, {**lacking, "transcript": changes})
        if "model" in lacking and pen.session.model is None:
            self._write(pen, Kind.SESSION_UPDATED, item.at, {"model": lacking["model"]})

    def _link(self, item: Incoming, pen: IntakePen) -> None:
        assert item.body is not None
        turn = self._turn_there(item, pen)
        self._family.link(pen.id, turn, item.at, self._batch.sessions[item.session], item.body)

    def _note(self, item: Incoming, pen: IntakePen) -> None:
        assert item.prepared is not None
        body = item.body or {}
        turn = self._turn_there(item, pen)
        abandoned: list[str] = body.get("abandoned") or []
        if any(self._origins.turn_in(pen.id, name) for name in abandoned):
            # Those that a hook or their agent began go by other names here.
            named = [self._origins.turn_in(pen.id, name) or name for name in abandoned]
            self._write(pen, Kind.IMPORT_NOTED, item.at, {"kind": "abandoned", "abandoned": named}, turn)
            return
        pen.write_prepared(Kind.IMPORT_NOTED, body, turn, item.prepared, at=item.at)

    def _note_shared(self) -> None:
        """Note what a session shares with others, once it is known how much."""
        for session_id, owners in self._shared.items():
            pen = self._pens[session_id]
            if pen.is_sealed:
                continue
            for owner, shared in owners.items():
                noted = next((one for one in pen.session.shared if one.get("session") == owner), None)
                if noted is not None and int(str(noted.get("records") or 0)) >= shared["records"]:
                    continue
                at = self._batch.items[-1].at if self._batch.items else precise(pen.session.last_activity)
                body = {"shared": {"session": owner, **shared}}
                self._write(pen, Kind.IMPORT_NOTED, at, body)
                if pen.session.forked_from is None:
                    self._write(pen, Kind.SESSION_UPDATED, at, {"forked_from": owner})


_HANDLERS: dict[str, Callable[[BatchWork, Incoming, IntakePen], None]] = {
    "session_updated": BatchWork._update_session,  # pyright: ignore[reportPrivateUsage]
    "turn_begun": BatchWork._begin_turn,  # pyright: ignore[reportPrivateUsage]
    "turn_updated": BatchWork._update_turn,  # pyright: ignore[reportPrivateUsage]
    "turn_ended": BatchWork._end_turn,  # pyright: ignore[reportPrivateUsage]
    "action": BatchWork._act,  # pyright: ignore[reportPrivateUsage]
    "run_updated": BatchWork._update_run,  # pyright: ignore[reportPrivateUsage]
    "child_link": BatchWork._link,  # pyright: ignore[reportPrivateUsage]
    "note": BatchWork._note,  # pyright: ignore[reportPrivateUsage]
}


def _session_key(name: VendorSession) -> str:
    return session_name(name.vendor_id, name.agent_id)


def _shared_name(path: str, ahead: int) -> str:
    """Return the name of what a file's sessions share with others, up to its cursor or further ahead."""
    return f"shared:{path}:ahead" if ahead else f"shared:{path}"
