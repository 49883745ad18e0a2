"""The pen: whatever fills its buffer, entries are chained and projected in one way."""

from shiftlog.journal.encoding import prepare
from shiftlog.journal.maintenance import fold
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Body, Kind
from shiftlog.store.protocol import Writer
from tests.journal.harness import Harness

AT = "2026-07-01T12:30:00.000Z"
SALT = b"0" * 16
TURN = "req-20260701T120000Z-find"
ITEMS: list[tuple[Kind, Body]] = [
    (Kind.DIALOG, {"role": "model", "category": "decision", "content": "Use a lock"}),
    (Kind.USAGE, {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25, "model": "claude-opus-4-5"}),
    (Kind.USAGE, {"cached_input_tokens": 5, "cost_usd": 0.5, "model": "claude-opus-4-5"}),
]


async def opened(harness: Harness) -> str:
    session = await harness.open()
    await harness.begin(session, request_id=TURN)
    return session


async def test_prepared_entries_are_chained_and_projected_like_others(harness: Harness) -> None:
    session = await opened(harness)

    def work(writer: Writer) -> None:
        plain, prepared = (Pen(writer, session, writer.session(session), harness.app.clock) for _ in range(2))
        for kind, body in ITEMS:
            plain.write(kind, body, TURN, at=AT, salt=SALT)
            marked = {**body, "test_clock": True}
            prepared.write_prepared(kind, body, TURN, prepare(kind, marked, SALT), at=AT)
        assert plain.session == prepared.session
        assert plain.turn(TURN) == prepared.turn(TURN)

    await harness.app.store.write(work)


async def test_folding_the_stored_entries_gives_what_the_pen_stored(harness: Harness) -> None:
    session = await opened(harness)

    def work(writer: Writer) -> None:
        pen = Pen(writer, session, writer.session(session), harness.app.clock)
        for kind, body in ITEMS:
            pen.write(kind, body, TURN, at=AT, salt=SALT)
        assert pen.commit(writer) == len(ITEMS)
        assert fold(session, writer.entries(session)) == (pen.session, {TURN: pen.turn(TURN)})

    await harness.app.store.write(work)


async def test_a_pen_that_discards_stands_where_it_began(harness: Harness) -> None:
    session = await opened(harness)

    def work(writer: Writer) -> None:
        pen = Pen(writer, session, writer.session(session), harness.app.clock)
        before = pen.session, pen.turn(TURN)
        pen.write(*ITEMS[0], TURN)
        pen.discard()
        assert (pen.session, pen.turn(TURN)) == before
        assert pen.commit(writer) == 0

    await harness.app.store.write(work)
