"""Filling a PostgreSQL with millions of entries: two real sessions are copied with `COPY`, each time with other words.

The copies lie in 24 months and have the keys, sizes and columns of real sessions. Unfinished ones are chained, because
a resume verifies them; the others have the hashes of the pattern.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from bench.search import Words
from shiftlog.app.app import App
from shiftlog.model.caller import LIBRARY
from shiftlog.model.canonical import body_hash, canonical, entry_hash, first_prev_hash
from shiftlog.model.times import compact, millis, precise
from shiftlog.store.codec.packed import packed, unpacked
from shiftlog.store.postgres.distribution import NUMBER_BITS
from shiftlog.store.postgres.words import findable
from shiftlog.store.sql.rows import SEQ_BITS, SEQ_LIMIT

ENTRIES_A_SESSION = 100
TURNS = 5
DIALOG = 17
MONTHS = 24
AGENTS = 2_000
PROJECTS = 50
UNFINISHED_EVERY = 20
TEXTS = 200_000
SESSIONS_AT_ONCE = 500
FIRST_ALIAS = 1000
MARK = "walrus walrus walrus"
_NULL = "\\N"

Db = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The rows of one real session."""

    journal: Row
    session: dict[str, Any]
    turns: list[Row]
    entries: list[Row]
    found: dict[int, str]


async def pattern_of(app: App, db: Db, *, is_closed: bool) -> Pattern:
    """Write a session as an agent does, and return its rows."""
    asked = {"agent": "Bench", "agent_id": "pattern", "title": "Pattern", "model": "claude-opus-4-5"}
    opened = await app.sessions.open_session(asked, LIBRARY)
    named = {"session_id": opened["session_id"]}
    for _ in range(TURNS):
        await app.sessions.begin_turn({**named, "query_title": MARK, "query_text": MARK}, LIBRARY)
        item = {"role": "model", "category": "reasoning", "content": MARK}
        await app.sessions.update_turn({**named, "dialog": [item] * DIALOG}, LIBRARY)
        used = {"input_tokens": 1_000, "output_tokens": 200}
        await app.sessions.finish_turn({**named, "outcome": "completed", "response": "Done", "usage": used}, LIBRARY)
    if is_closed:
        await app.continuity.close_session(named, LIBRARY)
    cursor = db.cursor(row_factory=dict_row)
    session = cursor.execute("SELECT * FROM sessions WHERE id = %s", (named["session_id"],)).fetchone()
    assert session is not None
    key = session["key"]

    def of(sql: str) -> list[Row]:
        return db.execute(sql.encode(), (key,)).fetchall()

    return Pattern(
        journal=of("SELECT head_seq, head_hash FROM journals WHERE key = %s")[0],
        session=session,
        turns=of(
            "SELECT key, request_id, ordinal, status, plan_file, todo_id, doc FROM turns WHERE session_key = %s"
            " ORDER BY key"
        ),
        entries=of(
            "SELECT id, kind, at, turn, facet, body, salt, body_hash, hash FROM entries WHERE session_key = %s"
            " ORDER BY id"
        ),
        found=dict(of("SELECT id, words::text FROM found WHERE session_key = %s")),
    )


class Texts:
    """A pool of texts, each as the body of an entry and as what it is found by."""

    def __init__(self, words: Words, body: bytes, count: int) -> None:
        self.documents: list[bytes] = []
        self.bodies: list[str] = []
        self.found: list[str] = []
        plain = unpacked(body).decode()
        for _ in range(count):
            text = words.text()
            self.documents.append(packed(plain.replace(MARK, text).encode()))
            self.bodies.append(_hex(self.documents[-1]))
            self.found.append(findable(text).words or "")


class _Copies:
    """The lines of `COPY` for copies of one pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.document: dict[str, Any] = json.loads(pattern.session["doc"])
        self.is_chained = pattern.session["unfinished"] == 1
        self._entries: list[tuple[int, str, str | None, str, str | None]] = []
        for row_id, kind, at, turn, facet, body, salt, hashed, digest in pattern.entries:
            is_drawn = kind == "dialog"
            before = "\t".join(("", kind, at, turn or _NULL, facet or _NULL, ""))
            after = "".join(f"\t{_hex(value)}" for value in (salt, hashed, digest)) + "\n"
            own = None if is_drawn else _hex(body)
            self._entries.append((row_id & (SEQ_LIMIT - 1), before, own, after, pattern.found.get(row_id)))
        self._turns = [
            (row[0] & (SEQ_LIMIT - 1), f"\t{row[1]}\t{row[2]}\t{row[3]}\t", f"\t{row[4]}\t{row[5]}\t{_hex(row[6])}\n")
            for row in pattern.turns
        ]

    def entries(self, key: int, name: str, texts: Texts, chance: random.Random) -> tuple[str, str, str]:
        """Return the lines of a session's entries, of what they are found by, and the hash of the last one.

        Sessions that may be resumed are chained, because a resume verifies them.
        """
        base = key << SEQ_BITS
        lines: list[str] = []
        found: list[str] = []
        most = len(texts.bodies)
        head = first_prev_hash(name)
        for (seq, before, own, after, words), row in zip(self._entries, self.pattern.entries, strict=True):
            drawn = int(chance.random() * most)
            if self.is_chained:
                document = row[5] if own is not None else texts.documents[drawn]
                after, head = _chained(row, seq, document, head)
            lines.append(f"{key}\t{base + seq}{before}{texts.bodies[drawn] if own is None else own}{after}")
            if words is not None:
                found.append(f"{key}\t{base + seq}\t{texts.found[drawn] if own is None else words}\t\\N\n")
        return "".join(lines), "".join(found), head

    def lines(
        self, key: int, number: int, begun: datetime, texts: Texts, chance: random.Random
    ) -> Iterator[tuple[str, str]]:
        """Yield the tables of a session, each with its lines."""
        name = f"Bench-{compact(begun)}-n{number}"
        month = f"{begun.year}_{begun.month:02d}"
        entries, found, head = self.entries(key, name, texts, chance)
        yield from zip(("journals", "sessions"), self.session(key, number, name, begun, head), strict=True)
        yield "turns", self.turns(key, begun)
        yield f"entries_{month}", entries
        yield f"found_{month}", found

    def turns(self, key: int, begun: datetime) -> str:
        at = millis(begun)
        base = key << SEQ_BITS
        return "".join(f"{key}\t{base + seq}{before}{at}\t{at}{after}" for seq, before, after in self._turns)

    def session(self, key: int, number: int, name: str, begun: datetime, head: str) -> tuple[str, str]:
        """Return the lines of a session's head and row."""
        agent = f"agent-{number % AGENTS}"
        workspace = f"/srv/project-{number % PROJECTS}"
        document = self.document | {
            "run": self.document["run"] | {"alias": number + FIRST_ALIAS},
            "id": name, "agent_id": agent, "agent_key": agent, "title": f"Shift {number}", "workspace": workspace,
            "started": precise(begun), "last_activity": precise(begun), "head_hash": head,
        }  # fmt: skip
        at = millis(begun) // 1000 * 1000
        row = self.pattern.session | {
            "run_alias": number + FIRST_ALIAS, "key": key, "id": name, "agent_id": agent, "agent_key": agent,
            "workspace": workspace,
            "project": workspace.rpartition("/")[2], "started_ms": at, "active_ms": at, "tags": "{}",
            "doc": json.dumps(document, separators=(",", ":")).encode(),
        }  # fmt: skip
        seq, _ = self.pattern.journal
        return f"{key}\t{name}\t{seq}\t{_hex(bytes.fromhex(head[7:]))}\n", "\t".join(map(_field, row.values())) + "\n"


def _chained(row: Row, seq: int, document: bytes, head: str) -> tuple[str, str]:
    """Return the end of an entry's line, and its hash."""
    _, kind, at, turn, _, _, salt, _, _ = row
    hashed = body_hash(salt, canonical(json.loads(unpacked(document))))
    made = entry_hash(head, seq=seq, kind=kind, at=at, turn=turn, hash_of_body=hashed)
    digests = (bytes.fromhex(each[7:]) for each in (hashed, made))
    return f"\t{_hex(salt)}{''.join(f'{chr(9)}{_hex(each)}' for each in digests)}\n", made


def _hex(value: bytes | None) -> str:
    return _NULL if value is None else f"\\\\x{value.hex()}"


def _field(value: object) -> str:
    if value is None or isinstance(value, bytes):
        return _hex(value)
    return str(value)


def fill(db: Db, patterns: Sequence[Pattern], words: Words, entries: int) -> None:
    """Add that many entries, in sessions spread evenly over the last months."""
    sessions = entries // ENTRIES_A_SESSION
    copies = [_Copies(pattern) for pattern in patterns]
    dialog = next(row for row in patterns[0].entries if row[1] == "dialog")
    texts = Texts(words, dialog[5], min(TEXTS, entries // 5))
    chance = random.Random(7)
    # Tables made in the same transaction are filled without a log, and their rows need no vacuum.
    with db.transaction():
        old = _make_months(db)
        db.execute("DROP INDEX found_by_words")
        for some in _portions(sessions):
            lines: dict[str, list[str]] = {}
            for number, key, begun in some:
                copy = copies[number % UNFINISHED_EVERY == 0]
                for name, line in copy.lines(key, number, begun, texts, chance):
                    lines.setdefault(name, []).append(line)
            for name, made in lines.items():
                freeze = "(FREEZE)" if name.partition("_")[2] in old else ""
                with db.cursor().copy(f"COPY {name} {_COLUMNS.get(name, '')} FROM STDIN {freeze}".encode()) as out:
                    out.write("".join(made))
            print(f"\r{some[-1][0] + 1:,} of {sessions:,} sessions", end="", flush=True)
        db.execute(f"SELECT setval(pg_get_serial_sequence('journals', 'key'), {sessions + 1000})".encode())
        db.execute(f"SELECT setval('aliases', {sessions + 2 * FIRST_ALIAS})".encode())
    db.execute("CREATE INDEX found_by_words ON found USING gin (words)")
    db.execute("VACUUM (ANALYZE) journals, sessions, turns")
    db.execute("ANALYZE entries, found")
    db.execute("CHECKPOINT")


_COLUMNS = {
    "turns": "(session_key, key, request_id, ordinal, status, begun_ms, updated_ms, plan_file, todo_id, doc)",
    "journals": "(key, id, head_seq, head_hash)",
}


def _portions(sessions: int) -> Iterator[list[tuple[int, int, datetime]]]:
    """Yield numbers, keys and times of sessions, oldest first."""
    now = datetime.now(UTC)
    span = timedelta(days=30 * MONTHS)
    portion: list[tuple[int, int, datetime]] = []
    for number in range(sessions):
        begun = now - span * ((sessions - number) / sessions)
        month = (begun.year - 2020) * 12 + begun.month - 1
        portion.append((number, (month << NUMBER_BITS) + number + 1000, begun))
        if len(portion) == SESSIONS_AT_ONCE or number == sessions - 1:
            yield portion
            portion = []


def _make_months(db: Db) -> set[str]:
    """Make partitions for months before the schema was there, and name them."""
    made: set[str] = set()
    db.execute("DROP TABLE entries_earlier, found_earlier")
    now = datetime.now(UTC)
    this = (now.year - 2020) * 12 + now.month - 1
    for month in range(this - MONTHS, this):
        named = f"{2020 + month // 12}_{month % 12 + 1:02d}"
        first, beyond = month << (SEQ_BITS + NUMBER_BITS), (month + 1) << (SEQ_BITS + NUMBER_BITS)
        for table in ("entries", "found"):
            db.execute(
                f"CREATE TABLE {table}_{named} PARTITION OF {table} FOR VALUES FROM ({first}) TO ({beyond})".encode()
            )
        made.add(named)
    return made
