"""A session's journal for tests, written by hand or at random and projected by the real rules."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from shiftlog.journal.continuity.capsule.build import build_capsule
from shiftlog.journal.projection import apply
from shiftlog.model.canonical import first_prev_hash
from shiftlog.model.entry import Body, Entry, Kind
from shiftlog.model.nouns import Session, Turn
from tests.contract.builders import chained

SESSION_ID = "Codex-20260701T100000Z-nightly"
START = datetime(2026, 7, 1, 10, tzinfo=UTC)
CLOSE = datetime(2026, 7, 1, 18, tzinfo=UTC)


class Diary:
    """A session's journal, written entry by entry and projected by the real rules."""

    def __init__(self, title: str = "Fix the cache bug") -> None:
        self.entries: list[Entry] = []
        self.turns: dict[str, Turn] = {}
        self._session: Session | None = None
        self.write(Kind.SESSION_OPENED, {"title": title, "agent_id": "nightly-fixer"})

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    def write(self, kind: Kind, body: Body, turn: str | None = None) -> int:
        seq = len(self.entries) + 1
        entry = chained(
            kind,
            body,
            turn,
            seq=seq,
            prev_hash=self.entries[-1].hash if self.entries else first_prev_hash(SESSION_ID),
            when=START + timedelta(minutes=seq),
            salt=b"0" * 16,
        )
        self._session, after = apply(self._session, self.turns.get(turn or ""), entry, SESSION_ID)
        if turn is not None and after is not None:
            self.turns[turn] = after
        self.entries.append(entry)
        return seq

    def begin(self, title: str, text: str = "") -> tuple[str, int]:
        request_id = f"req-20260701T100000Z-t-{len(self.turns) + 1}"
        body = {"query_title": title, "query_text": text or title}
        return request_id, self.write(Kind.TURN_BEGUN, body, request_id)

    def complete(self, turn: str, response: str) -> None:
        self.write(Kind.TURN_COMPLETED, {"response": response}, turn)

    def fail(self, turn: str, note: str) -> None:
        self.write(Kind.TURN_FAILED, {"failure_note": note}, turn)

    def say(self, turn: str, content: str, category: str = "decision") -> int:
        return self.write(Kind.DIALOG, {"role": "model", "category": category, "content": content}, turn)

    def act(self, turn: str, description: str, status: str = "completed", kind: str = "edit", path: str = "") -> int:
        body = {"order": 1, "description": description, "type": kind, "status": status, "file_path": path}
        return self.write(Kind.ACTION, body, turn)

    def add(self, turn: str, **lists: object) -> int:
        return self.write(Kind.TURN_UPDATED, {"add": lists}, turn)

    def erase(self, seq: int) -> None:
        self.entries[seq - 1] = replace(self.entries[seq - 1], body=None, salt=None)

    def capsule(self, statement: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        options.setdefault("now", CLOSE)
        return build_capsule(
            self.session, list(self.turns.values()), iter(self.entries), statement=statement, **options
        )


def size(capsule: object) -> int:
    return len(json.dumps(capsule, ensure_ascii=False, separators=(",", ":")).encode())


def texts(items: Iterable[dict[str, Any]]) -> list[str]:
    return [item["text"] for item in items]


WORDS = st.sampled_from(["lock", "shard", "é", "日本", "😀", '"', "\\", "\n", "\x1b", "`", "# x", "</x>", "_a_"])
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
LONG_TEXTS = st.tuples(TEXTS, st.sampled_from([1, 1, 1, 20, 400])).map(lambda pair: f"t{pair[0] * pair[1]}")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            "begin complete fail say forbid refute pend edit design block commit shell run save close state".split()
        ),
        LONG_TEXTS,
    ),
    max_size=60,
)


class History(Diary):
    """A diary of random steps that remembers which texts each entry may be cited for."""

    def __init__(self, title: str, steps: list[tuple[str, str]]) -> None:
        super().__init__(title)
        self.said: dict[int, set[str]] = {}
        self._open: str | None = None
        for step, text in steps:
            self._step(step, text)

    def _step(self, step: str, text: str) -> None:
        if step == "begin" or self._open is None:
            if self._open is not None:
                self.fail(self._open, "superseded")
                self._note(self.turns[self._open].begun_seq, "superseded")
            self._open, seq = self.begin(text, text * 2)
            self._note(seq, text)
            return
        turn, begun = self._open, self.turns[self._open].begun_seq
        match step:
            case "complete":
                self.complete(turn, text)
                self._note(begun, f"{self.turns[turn].query_title.strip()}: {text.splitlines()[0]}")
                self._open = None
            case "fail":
                self.fail(turn, text)
                self._note(begun, text)
                self._open = None
            case "say" | "forbid" | "refute":
                content = {"say": "", "forbid": "Do not ", "refute": "Rejected: "}[step] + text
                self._note(self.say(turn, content), content)
            case "pend" | "edit" | "design":
                status = "pending" if step == "pend" else "completed"
                kind = "design_decision" if step == "design" else "edit"
                self._note(self.act(turn, text, status, kind, path=text[:50]), text)
            case "block":
                self._note(self.add(turn, blockers=[text]), text)
            case "commit":
                self.add(turn, commits=[{"sha": text[:40]}])
            case "shell":
                self.write(Kind.SHELL_OPENED, {"shell_id": text[:20], "cwd": text})
            case "run":
                self.write(Kind.COMMAND_STARTED, {"command_id": text[:20], "command": text, "shell_id": "s"})
            case "save":
                self.write(Kind.CHECKPOINT_SAVED, {"id": "c", "label": text})
            case "close":
                self.write(Kind.SESSION_CLOSED, {"note": text})
            case _:
                statement = {"version": "1", "goal": text, "next": text, "done": text, "receipts": [text]}
                self._note(self.write(Kind.CAPSULE_SAVED, {"statement": statement}), text)

    def _note(self, seq: int, text: str) -> None:
        self.said.setdefault(seq, set()).add(text.strip())


HISTORIES = st.builds(History, LONG_TEXTS, STEPS)
