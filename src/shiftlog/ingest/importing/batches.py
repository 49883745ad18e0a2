"""Reading one transcript into batches: lines → reader → facts → composed items, cut by size.

The content alone decides where a batch ends, so an interrupted reading goes on with the same batches.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from shiftlog.facts import transcript as f
from shiftlog.facts.batch import RECORDS, Batch, Incoming
from shiftlog.ingest.files.discovery import hints_of
from shiftlog.ingest.files.lines import FileLine, LineFile
from shiftlog.ingest.files.opencode_db import is_composed, lines_of
from shiftlog.ingest.importing.composer import Composer
from shiftlog.ingest.importing.ports import UNKNOWN
from shiftlog.ingest.readers.formats import first_time, is_one_document, reader_for, recognise
from shiftlog.model.agents import OPENCODE
from shiftlog.model.times import parse, precise

BATCH_FACTS = 2000
BATCH_BYTES = 2 << 20
# A reader's state is kept once this many times its size has been read, or a long session would cost its square.
READ_PER_STATE = 8
SNIFF_BYTES = 1 << 20
SNIFF_RECORDS = 64
SNIFF_REACH_BYTES = 1 << 30
IDLE_AFTER = timedelta(minutes=30)
# Clocks differ by less than this; a record that is dated later has a wrong date.
AHEAD = timedelta(days=1)
FACTS = "facts"

_REQUEST = re.compile(r"req-\d{8}T\d{6}Z-[a-z0-9]+(?:-[a-z0-9]+)*")
_SESSION = re.compile(r"[A-Z][A-Za-z0-9]*-\d{8}T\d{6}Z-[a-z0-9]+(?:-[a-z0-9]+)*")
_LINE_COUNTS = ("mapped", "counted", "duplicate", "bad", "unknown", "oversized", "replaced")
_OWN_TOOLS = ("begin_turn", "beginTurn")
_decode = msgspec.json.Decoder(dict[str, object]).decode


class FileJob(msgspec.Struct, frozen=True, kw_only=True):
    """A file to read from an offset on, with the state that its reader saved there."""

    path: str
    now: str
    offset: int = 0
    agent: str | None = None
    state: bytes | None = None
    max_line_bytes: int = 128 << 20
    keep_images: bool = False
    idle_only: bool = False
    facts: int = 0
    """Facts of the conversation given by earlier readings, up to the offset."""
    seen_at: str | None = None


class NotRecognised(Exception):
    """No reader knows this file."""


def read_file(job: FileJob, composer: Composer) -> Iterator[Batch]:
    """Yield the batches of a file, the last one marked; raise NotRecognised or TranscriptUnreadable."""
    if job.idle_only:
        yield from _FileReading(job, composer, _restored(job)).end_idle()
        return
    if is_composed(job.path):
        reader = reader_for(OPENCODE)(hints_of(job.path, keep_images=job.keep_images))
        yield from _FileReading(job, composer, reader).take(lines_of(job.path))
        return
    with LineFile(job.path, job.max_line_bytes) as file:
        is_whole = False
        if job.agent is None or job.state is None:
            head = file.start(SNIFF_BYTES)
            agent = recognise(head) or _recognised_later(file)
            if agent is None:
                file.check_end()
                raise NotRecognised(job.path)
            is_whole = is_one_document(head)
            hints = hints_of(job.path, keep_images=job.keep_images, first_at=first_time(head), seen_at=job.seen_at)
            reader = reader_for(agent)(hints)
        else:
            reader = _restored(job)
        yield from _FileReading(job, composer, reader).read(file, is_whole=is_whole)


def _recognised_later(file: LineFile) -> str | None:
    """Recognise a file whose first records are too long or broken."""
    head: list[bytes] = []
    size = 0
    for line in file.lines():
        if line.data is not None and _is_object(line.data):
            head.append(line.data)
            size += len(line.data)
        if len(head) >= SNIFF_RECORDS or size >= SNIFF_BYTES or line.end > SNIFF_REACH_BYTES:
            break
    file.rewind()
    return recognise(b"".join(head)) if head else None


def _restored(job: FileJob) -> f.TranscriptReader:
    assert job.agent is not None
    return reader_for(job.agent)(hints_of(job.path, keep_images=job.keep_images, seen_at=job.seen_at), job.state)


class _FileReading:
    """One pass over a file."""

    def __init__(self, job: FileJob, composer: Composer, reader: f.TranscriptReader) -> None:
        self._job = job
        self._composer = composer
        self._reader = reader
        self._facts: list[f.AnyFact] = []
        self._bytes = 0
        self._bytes_since_state = 0
        self._state_bytes = 0
        self._first = job.offset == 0 and not job.idle_only
        self._partial = 0
        self._given = job.facts

    def read(self, file: LineFile, *, is_whole: bool) -> Iterator[Batch]:
        """Yield the batches of a file of lines, or of one document."""
        cursor = self._job.offset
        lines: Iterable[FileLine] = _as_one(file.lines(cursor)) if is_whole else file.lines(cursor)
        feed = self._reader.feed
        for line in lines:
            data = line.data
            if not line.whole and not _is_object(data):
                self._partial = 1
                break
            if data is None:
                self._reader.skip_oversized()
            else:
                self._facts += feed(data)
                self._bytes += len(data)
            cursor = line.end
            if len(self._facts) >= BATCH_FACTS or self._bytes >= BATCH_BYTES:
                yield self._batch(cursor, file.edge_before(cursor), file.bytes_read)
        self._facts.extend(self._reader.finish())
        self._end_due()
        yield self._batch(cursor, file.edge_before(cursor), file.bytes_read, last=True)
        file.check_end()

    def take(self, lines: Iterable[bytes]) -> Iterator[Batch]:
        """Yield the batches of lines that come from a database or a tree."""
        size = 0
        for line in lines:
            self._facts.extend(self._reader.feed(line))
            size += len(line)
        self._facts.extend(self._reader.finish())
        self._end_due()
        yield self._batch(size, "", size, last=True)

    def end_idle(self) -> Iterator[Batch]:
        """Yield a batch with the turns that time alone has ended."""
        self._end_due()
        yield self._batch(self._job.offset, "", 0, last=True)

    def _end_due(self) -> None:
        now = parse(self._job.now)
        due = [session for session, idle_at in self._waiting() if idle_at <= now]
        self._facts.extend(self._reader.end_idle(due) if due else ())

    def _waiting(self) -> list[tuple[f.VendorSession, datetime]]:
        """Return the sessions with a turn that time alone will end, and when."""
        open_turns = [(one, one.last_at) for one in self._reader.standings() if one.ends_as is not None]
        return [(one.session, self._idle_at(parse(last_at))) for one, last_at in open_turns if last_at is not None]

    def _idle_at(self, last: datetime) -> datetime:
        """Return when a turn with its last record then is idle; a time that lies far ahead says nothing about it."""
        now = parse(self._job.now)
        return now if last > now + AHEAD else last + IDLE_AFTER

    def _batch(self, cursor: int, tail: str, bytes_read: int, *, last: bool = False) -> Batch:
        self._composer.begin(self._reader.agent)
        items = _composed_items(_without_repeats(self._facts), self._composer, self._job)
        self._given += sum([item.what in RECORDS for item in items])
        counts = self._reader.counts
        first, self._first = self._first, False
        state = self._state_due(last=last)
        self._facts, self._bytes = [], 0
        later = [idle_at for _, idle_at in self._waiting()] if last else []
        return Batch(
            agent=self._reader.agent,
            sessions=self._composer.sessions,
            items=items,
            cursor=cursor,
            tail=tail,
            state=state,
            first=first,
            last=last,
            settle_at=precise(min(later)) if later else None,
            counts={
                **{name: getattr(counts, name) for name in _LINE_COUNTS},
                "copied": counts.counted_names.get(f.COPIED, 0),
                "partial": self._partial,
                FACTS: self._given,
                **{f"{UNKNOWN}{name}": count for name, count in counts.unknown_names.items()},
            },
            bytes_read=bytes_read,
        )

    def _state_due(self, *, last: bool) -> bytes | None:
        """Return the reader's state, unless it is large beside what was read since it was kept last."""
        self._bytes_since_state += self._bytes
        if not last and self._bytes_since_state < READ_PER_STATE * self._state_bytes:
            return None
        state = self._reader.save()
        self._bytes_since_state, self._state_bytes = 0, len(state)
        return state


def _as_one(lines: Iterator[FileLine]) -> Iterator[FileLine]:
    """Join the lines of a file that is one document."""
    parts: list[bytes] = []
    end = 0
    for line in lines:
        if line.data is None:
            return
        parts.append(line.data)
        end = line.end
    if parts:
        yield FileLine(b"".join(parts), end, whole=False)


def _is_object(data: bytes | None) -> bool:
    if data is None:
        return False
    try:
        _decode(data.strip().removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _without_repeats(facts: Sequence[f.AnyFact]) -> Sequence[f.AnyFact]:
    """Leave out usage reports that a later one of the same turn repeats with nothing smaller."""
    latest: dict[f.Key, f.UsageFact] = {}
    kept: list[f.AnyFact] = []
    for fact in reversed(facts):
        if isinstance(fact, f.UsageFact) and fact.rule == "maximum":
            later = latest.get(fact.key)
            if later is not None and later.turn == fact.turn and later.session == fact.session and _covers(later, fact):
                continue
            latest[fact.key] = fact
        kept.append(fact)
    kept.reverse()
    return kept


def _covers(later: f.UsageFact, fact: f.UsageFact) -> bool:
    return (
        later.output_tokens >= fact.output_tokens
        and later.input_tokens >= fact.input_tokens
        and later.cached_input_tokens >= fact.cached_input_tokens
        and later.cache_creation_tokens >= fact.cache_creation_tokens
        and later.cache_creation_1h_tokens >= fact.cache_creation_1h_tokens
        and later.web_searches >= fact.web_searches
    )


def _composed_items(facts: Sequence[f.AnyFact], composer: Composer, job: FileJob) -> list[Incoming]:
    """Return the composed facts; an item before a turn joins it with the turn of ours that its agent began."""
    whole = [_unspilled(fact, job) if isinstance(fact, f.ToolResult) and fact.spilled else fact for fact in facts]
    items = composer.compose(whole)
    begun = _begun(facts)
    return list(_with_adoptions(whole, items, begun)) if begun else items


def _begun(facts: Sequence[f.AnyFact]) -> dict[str, list[tuple[int, dict[str, str]]]]:
    """Return, for each turn, the turns of ours that its agent began in it, with their sessions and positions."""
    begun: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for index, fact in enumerate(facts):
        if isinstance(fact, f.ToolResult) and fact.turn and fact.tool and fact.tool.endswith(_OWN_TOOLS):
            found = None if fact.is_error else _REQUEST.search(fact.content)
            if found:
                session = _SESSION.search(fact.content)
                named = {"request_id": found[0], "session_id": session[0] if session else ""}
                begun.setdefault(fact.turn, []).append((index, named))
    return begun


def _with_adoptions(
    facts: Sequence[f.AnyFact], items: Sequence[Incoming], begun: dict[str, list[tuple[int, dict[str, str]]]]
) -> Iterator[Incoming]:
    for index, (fact, item) in enumerate(zip(facts, items, strict=True)):
        if fact.turn in begun:
            starts = isinstance(fact, f.TurnBegun)
            for compose, named in begun[fact.turn]:
                if compose == index or (starts and compose == begun[fact.turn][0][0]):
                    yield Incoming("adopt", item.session, b"", item.at, fact.turn, body=dict(named))
        yield item


def _unspilled(fact: f.ToolResult, job: FileJob) -> f.ToolResult:
    """Return a result with the output that its client kept in a file beside the transcript, if it exists.

    A transcript may name any path, so only its own folder of spilled outputs is searched. A file longer than a line
    may be is not read.
    """
    assert fact.spilled is not None
    name = fact.spilled.replace("\\", "/").rpartition("/")[2]
    folder = Path(job.path).parent
    places = [folder / fact.session.vendor_id / "tool-results", *(one / "tool-results" for one in folder.parents[:3])]
    for compose in places:
        spilled = compose / name
        if name and spilled.is_file() and not spilled.is_symlink() and not compose.is_symlink():
            try:
                if spilled.stat().st_size > job.max_line_bytes:
                    break
                content = spilled.read_text(encoding="utf-8", errors="replace")
            except OSError:
                break
            return msgspec.structs.replace(fact, content=content)
    return msgspec.structs.replace(fact, extra={**fact.extra, "spilled": name})
