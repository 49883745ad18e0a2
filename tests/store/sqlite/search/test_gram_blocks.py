"""What is known of blocks of entries: never too much, and the same however it came about."""

from typing import Any

import apsw
from hypothesis import given, settings
from hypothesis import strategies as st

from shiftlog.store.sqlite.migrate import migrate
from shiftlog.store.sqlite.rows import entry_id
from shiftlog.store.sqlite.search.gram_blocks import (
    BETWEEN,
    BLOCK,
    FAN,
    blocks_left,
    common_parts,
    forget,
    may_hold,
    pairs_of,
)
from shiftlog.store.sqlite.search.gram_blocks import put as put_block

KEY = 3
TEXTS = st.text(st.sampled_from("ab kßſ日🚀\n\"\\x'"), max_size=40)
Known = tuple[int, str | None]


@given(TEXTS, st.data())
def test_a_text_may_hold_every_part_that_it_holds(text: str, data: st.DataObject) -> None:
    pairs = pairs_of(text)
    start = data.draw(st.integers(0, len(text)))
    assert may_hold(pairs, text[start : data.draw(st.integers(start, len(text)))])


def test_pairs_and_characters_that_a_text_lacks_are_told() -> None:
    pairs = pairs_of("the upload flakes")
    assert [may_hold(pairs, part) for part in ("oa", "ao", "z", "e", "e u", "u e", "zq")] == [
        True, False, False, True, True, True, False,
    ]  # fmt: skip


@given(st.lists(st.lists(TEXTS, max_size=3), min_size=1, max_size=4))
def test_what_turns_have_in_common_is_in_each_of_them(turns: list[list[str]]) -> None:
    parts = [part for part in common_parts(turns).split(BETWEEN) if part]
    assert all(any(part in text for text in texts) for part in parts for texts in turns)


def test_words_that_follow_each_other_everywhere_are_one_part() -> None:
    parts = common_parts([["so the same words, again", "x"], ["x", "the same words, here"], ["y x the same words,"]])
    assert set(parts.split(BETWEEN)) == {"the same words,", "x"}


def database() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    migrate(db)
    return db


def rows(db: apsw.Connection) -> list[tuple[Any, ...]]:
    return list(db.execute("SELECT level, block, pairs, common FROM gram_blocks ORDER BY level, block"))


KNOWN = st.tuples(
    st.sampled_from(["ab", "cd", "ab cd", ""]).map(pairs_of),
    st.sampled_from([None, "", "lock it", f"lock{BETWEEN}test", "the lock it"]),
)
# How many blocks are added, then how many of all are kept.
STEPS = st.lists(st.tuples(st.integers(0, 2 * FAN), st.floats(0, 1)), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.lists(KNOWN, min_size=1, max_size=6))
def test_forgetting_and_going_on_leaves_what_was_never_forgotten_would_have(
    steps: list[tuple[int, float]], known: list[Known]
) -> None:
    db, kept = database(), list[Known]()
    for added, share in steps:
        for number in range(added):
            fact = known[number % len(known)]
            put_block(db, KEY, len(kept), *fact)
            kept.append(fact)
        del kept[int(len(kept) * share) :]
        forget(db, KEY, len(kept))
    fresh = database()
    for block, fact in enumerate(kept):
        put_block(fresh, KEY, block, *fact)
    assert [row[:3] for row in rows(db)] == [row[:3] for row in rows(fresh)]
    for wanted in ("ab", "zz"):
        expected = [
            (entry_id(KEY, block * BLOCK + 1), entry_id(KEY, (block + 1) * BLOCK) + 1)
            for block, (pairs, _) in enumerate(kept)
            if may_hold(pairs, wanted)
        ]
        assert left_for(db, wanted, len(kept)) == left_for(fresh, wanted, len(kept)) == expected


def left_for(db: apsw.Connection, part: str, blocks: int) -> list[tuple[int, int]]:
    return list(blocks_left(db, KEY, blocks * BLOCK, lambda pairs, _: not may_hold(pairs, part)))


def test_a_question_goes_down_only_where_the_answer_may_be() -> None:
    db, looked_at = database(), list[int]()
    for block in range(FAN * FAN):
        put_block(db, KEY, block, pairs_of("rare" if block == 77 else "common"), "common")

    def leaves_out(pairs: int, common: str | None) -> bool:
        looked_at.append(pairs)
        return not may_hold(pairs, "rare")

    (found,) = blocks_left(db, KEY, FAN * FAN * BLOCK, leaves_out)
    assert found == (entry_id(KEY, 77 * BLOCK + 1), entry_id(KEY, 78 * BLOCK) + 1)
    assert len(looked_at) == 1 + 2 * FAN
    assert not list(blocks_left(db, KEY, FAN * FAN * BLOCK, lambda _, common: common == "common"))
