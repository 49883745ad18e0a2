"""Changing the in-memory store: the `Writer` half, every change through the undo log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import cast

from shiftlog.model.entry import Body, Entry, Kind
from shiftlog.model.errors import StorageError
from shiftlog.model.nouns import Lease, Receipt, Session, Token, Turn
from shiftlog.model.times import millis
from shiftlog.store.codec import blobs
from shiftlog.store.codec.documents import decode
from shiftlog.store.codec.packed import unpacked
from shiftlog.store.protocol import Answer, Indexed
from shiftlog.store.sources import Origin, Packed, Source
from tests.contract.model_store.reader import MemoryReader
from tests.contract.model_store.shelves import Shelf, Shelves, Undo


class MemoryWriter(MemoryReader):
    """The changes that the store makes."""

    def __init__(self, shelves: Shelves, undo: Undo) -> None:
        super().__init__(shelves)
        self._undo = undo

    def append(self, session_id: str, entries: Sequence[Indexed]) -> None:
        if not entries:
            return
        sessions = self._shelves.sessions
        shelf = sessions.get(session_id) or Shelf(key=len(sessions) + 1, id=session_id)
        for seq, item in enumerate(entries, start=len(shelf.lines) + 1):
            if item.entry.seq != seq:
                reason = f"entry {item.entry.seq} does not follow the head of {session_id}"
                raise StorageError("Storage error", details={"reason": reason})
        if session_id not in sessions:
            self._undo.put(sessions, session_id, shelf)
        self._undo.extend(shelf.lines, entries)

    def put_session(self, session: Session) -> None:
        self._undo.assign(self._known(session.id), "session", session)

    def put_turn(self, session_id: str, turn: Turn) -> None:
        self._undo.put(self._known(session_id).turns, turn.request_id, turn)

    def _known(self, session_id: str) -> Shelf:
        shelf = self._shelves.sessions.get(session_id)
        if shelf is None:
            raise LookupError(f"no entry of session {session_id} was appended yet")
        return shelf

    def next_alias(self) -> int:
        self._undo.assign(self._shelves, "last_alias", self._shelves.last_alias + 1)
        return self._shelves.last_alias

    # Leases, answers, receipts

    def put_lease(self, lease: Lease) -> None:
        self._undo.put(self._shelves.leases, lease.session_id, lease)
        self._undo.put(self._shelves.grants, (lease.session_id, lease.client_id), (lease.fence, lease.since))

    def end_lease(self, session_id: str) -> None:
        if session_id in self._shelves.leases:
            self._undo.drop(self._shelves.leases, [session_id])

    def renew_leases(self, client_ids: Iterable[str], expires_at: datetime) -> None:
        renewed = frozenset(client_ids)
        for lease in self.leases():
            if lease.client_id in renewed:
                self._undo.put(self._shelves.leases, lease.session_id, replace(lease, expires_at=expires_at))

    def put_agent_of(self, client_id: str, agent_key: str, at: datetime) -> None:
        self._undo.put(self._shelves.agents, client_id, (agent_key, at))

    def put_token(self, token: Token) -> None:
        self._undo.put(self._shelves.tokens, token.hash, token)

    def revoke_tokens(self, session_id: str, at: datetime) -> None:
        for token in list(self._shelves.tokens.values()):
            if token.session_id == session_id and token.is_unspent:
                self._undo.put(self._shelves.tokens, token.hash, replace(token, revoked_at=at))

    def put_answer(self, scope: str, key: str, answer: Answer) -> None:
        self._undo.put(self._shelves.answers, (scope, key), answer)

    def put_outcome(self, client_id: str, call_id: str, outcome: Body, at: datetime) -> None:
        self._undo.put(self._shelves.outcomes, (client_id, call_id), (at, outcome))

    def put_receipt(self, receipt: Receipt) -> None:
        self._undo.put(self._shelves.receipts, (receipt.session_id, receipt.seq), receipt)

    # Erasing and rebuilding

    def erase_body(self, session_id: str, seq: int) -> None:
        lines = self._known(session_id).lines
        if not 0 < seq <= len(lines):
            return
        entry = replace(lines[seq - 1].entry, body=None, salt=None)
        self._undo.replace(lines, seq - 1, Indexed(entry=entry, text="", facet=None))

    def forget_projection(self, session_id: str) -> None:
        shelf = self._shelves.sessions.get(session_id)
        if shelf is not None:
            self._undo.assign(shelf, "session", None)
            self._undo.assign(shelf, "turns", {})

    def recount(self) -> None:
        pass  # tallies are not kept here but made for every question

    def reindex(self, session_id: str, items: Iterable[Indexed]) -> None:
        lines = self._known(session_id).lines
        for item in items:
            index = item.entry.seq - 1
            found = replace(lines[index], text=item.text, facet=item.facet)
            self._undo.replace(lines, index, found)

    def catch_up_parts(self, session_id: str, most: int) -> int:
        return 0

    def forget_clients(self, before: datetime) -> None:
        grants, agents, tokens = self._shelves.grants, self._shelves.agents, self._shelves.tokens
        holders = {lease.client_id for lease in self.leases()}
        limit = millis(before)
        self._undo.drop(tokens, [name for name, token in tokens.items() if millis(token.expires_at) < limit])
        self._undo.drop(
            grants,
            [pair for pair, (_, at) in grants.items() if millis(at) < limit and pair[1] not in holders],
        )
        self._undo.drop(
            agents, [name for name, (_, at) in agents.items() if millis(at) < limit and name not in holders]
        )

    def forget_answers(self, *, session_id: str | None = None, before: datetime | None = None) -> None:
        answers = self._shelves.answers
        if session_id is not None:
            named = [pair for pair, answer in answers.items() if answer.answer.get("session_id") == session_id]
            self._undo.drop(answers, named)
        if before is not None:
            limit = millis(before)
            self._undo.drop(answers, [pair for pair, answer in answers.items() if millis(answer.at) < limit])

    def forget_outcomes(self, before: datetime) -> None:
        outcomes, limit = self._shelves.outcomes, millis(before)
        self._undo.drop(outcomes, [pair for pair, (at, _) in outcomes.items() if millis(at) < limit])

    # The session log's own

    def put_pointer(self, workspace: str, agent: str, session_id: str) -> None:
        self._undo.put(self._shelves.pointers, (workspace, agent), session_id)

    def forget_turn(self, session_id: str, request_id: str) -> None:
        turns = self._known(session_id).turns
        if request_id in turns:
            self._undo.drop(turns, [request_id])

    # What imports change

    def append_packed(self, session_id: str, entries: Sequence[Packed]) -> None:
        self.append(session_id, [_unpacked(entry) for entry in entries])

    def put_source(self, source: Source) -> None:
        self._undo.put(self._shelves.sources, source.path, source)

    def forget_source(self, path: str) -> None:
        if path in self._shelves.sources:
            self._undo.drop(self._shelves.sources, [path])

    def put_origins(self, origins: Mapping[bytes, Origin]) -> None:
        for key, origin in origins.items():
            self._known(origin.session_id)
            self._undo.put(self._shelves.origins, key, origin)

    def put_imported(self, session_id: str, document: Body) -> None:
        self._undo.put(self._shelves.imported, session_id, document)

    def put_project_path(self, path: str, project: str) -> None:
        self._undo.put(self._shelves.project_paths, path, project)


def _unpacked(packed: Packed) -> Indexed:
    texts = {long.digest: blobs.unpack(long.data) for long in packed.long_texts}
    entry = Entry(
        seq=packed.seq,
        kind=Kind(packed.kind),
        at=datetime.fromisoformat(packed.at),
        turn=packed.turn,
        body=cast(Body, blobs.internalise(decode(unpacked(packed.document)), texts.__getitem__)),
        salt=packed.salt,
        body_hash="sha256:" + packed.body_hash.hex(),
        hash="sha256:" + packed.hash.hex(),
    )
    return Indexed(entry=entry, text=packed.text, facet=packed.facet)
