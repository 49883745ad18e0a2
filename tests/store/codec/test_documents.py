"""Nouns as documents: what is left out of a document is in the noun again, and equal nouns are equal texts."""

from dataclasses import fields
from datetime import UTC, datetime

import msgspec
import pytest

from shiftlog.model.moves import SessionState, TurnStatus
from shiftlog.model.nouns import Session, Turn, changed
from shiftlog.store.codec.documents import decode_noun, decode_turn, encode_noun, encode_turn

NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
SESSION = Session(
    id="Bench-20261115T123000Z-a",
    agent="Bench",
    agent_id="Bench",
    agent_key="bench",
    title="Shift",
    state=SessionState.OPEN,
    started=NOW,
    last_activity=NOW,
)
TURN = Turn(
    request_id="req-20261115T123000Z-a",
    ordinal=1,
    status=TurnStatus.IN_PROGRESS,
    begun_at=NOW,
    last_updated=NOW,
    query_title="Fix",
    query_text="Fix it.",
    begun_seq=2,
    last_seq=2,
)


@pytest.mark.parametrize(("noun", "kind"), [(SESSION, Session), (TURN, Turn)])
def test_a_noun_that_was_read_holds_every_field_in_the_order_of_its_class(
    noun: Session | Turn, kind: type[Session]
) -> None:
    read = decode_noun(encode_noun(noun), kind)
    assert read == noun
    assert list(vars(read)) == [field.name for field in fields(noun)]
    assert msgspec.to_builtins(read) == msgspec.to_builtins(noun)
    assert encode_noun(read) == encode_noun(noun)


def test_a_turn_with_long_texts_is_the_same_after_reading() -> None:
    long, texts = changed(TURN, response="long " * 1_000, status=TurnStatus.COMPLETED), dict[bytes, str]()
    data = encode_turn(long, texts.__setitem__)
    assert (len(data) < 1_000, list(texts.values())) == (True, ["long " * 1_000])
    read = decode_turn(data, texts.__getitem__)
    assert read == long
    assert list(vars(read)) == [field.name for field in fields(long)]


def test_nouns_changed_on_different_ways_to_the_same_are_the_same_text() -> None:
    read = decode_noun(encode_noun(SESSION), Session)
    ways = (
        changed(changed(SESSION, model="m"), dialog_items=3),
        changed(changed(read, dialog_items=3), model="m"),
        changed(SESSION, dialog_items=3, model="m"),
    )
    assert len({encode_noun(way) for way in ways}) == 1
    assert (SESSION.model, SESSION.dialog_items) == (None, 0)


def test_a_field_that_a_noun_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="Session has no field colour"):
        changed(SESSION, colour="red")
